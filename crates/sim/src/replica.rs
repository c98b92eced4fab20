//! A slave beside the node: a broker over a disk of its own that follows the node's log, and the two connections between them. What is on
//! its way moves on step by step; the network parts, the slave rests, is killed, or loses its power when the story says so.

mod ends;
mod line;
mod same;
mod story;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use base::Now;
use broker::Mailbox;
use cluster::replication::{FollowerSession, Followers, LeaderSession, MasterSession, Times};
use dialect::rocketmq::RocketSession;
use storage::disk::{Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::session_options;

use crate::chance::Chance;
use crate::node::{Node, Place};
use crate::oracle::{Checked, Rule, Violation, check};
use crate::story::Setup;

use ends::{Followed, Served};
use line::Line;
use same::{check_begins, check_settings, check_tables};
pub use story::{ReplicaAction, ReplicaSetup};

const TIMES: Times = Times { heartbeat_ms: 5000, silence_ms: 20_000 };

/// Steps between two of the slave's rounds of own work.
const STEPS_OF_WORK: u64 = 6;

/// Pieces of tables that arrive in a step: they are large, and the log is followed once they are there.
const TABLE_PIECES: usize = 10;

/// What a program gets whose write fails.
const EIO: i32 = 5;

/// The slave.
pub(crate) struct Replica {
    setup: Setup,
    of: ReplicaSetup,
    disk: FaultyDisk,
    /// Changes of the disk when it was last looked at.
    points: usize,
    node: Option<Node>,
    followed: Option<Arc<Followed>>,
    /// Of the master that runs now.
    /// What the master's process knows of its slaves.
    followers: Option<Arc<Followers>>,
    tables: Option<Line<MasterSession, RocketSession>>,
    log: Option<Line<FollowerSession, LeaderSession>>,
    is_parted: bool,
    rests: bool,
    steps: u64,
    /// The master has lost the end of its log since this one ended here: the slave may have it still.
    may_be_ahead: Option<u64>,
    /// Below this its log was seen to be the master's.
    compared: u64,
    /// How far it has been with this log, though it may have lost its end: what it had was reported.
    furthest: u64,
    /// What its master had heard of how far it is, and how often its disk had changed by then, since it started.
    reports: Vec<(usize, u64)>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replica")
    }
}

fn broken(what: impl Into<String>) -> Violation {
    Violation::of(Rule::SlavesFollow, what)
}

impl Replica {
    pub(crate) fn new(setup: &Setup, of: ReplicaSetup, now: Now) -> Result<Self, Violation> {
        let mut replica = Self {
            setup: setup.clone(),
            of,
            disk: FaultyDisk::over(&MemoryDisk::new()),
            points: 0,
            node: None,
            followed: None,
            followers: None,
            tables: None,
            log: None,
            is_parted: false,
            rests: false,
            steps: 0,
            may_be_ahead: None,
            compared: 0,
            furthest: 0,
            reports: Vec::new(),
        };
        replica.clear_disk(now);
        replica.start(now)?;
        Ok(replica)
    }

    /// An operator has emptied its directory.
    fn clear_disk(&mut self, now: Now) {
        let disk = MemoryDisk::new();
        disk.set_capacity(2 * self.setup.capacity);
        disk.set_now(now.wall.0);
        self.disk = FaultyDisk::over(&disk);
        self.compared = 0;
    }

    fn start(&mut self, now: Now) -> Checked {
        self.disk.heal();
        let node = Node::start(&self.setup, &self.disk, Place::Slave, now);
        let node = node.map_err(|error| broken(format!("the slave does not start: {error}")))?;
        self.followed = Some(Arc::new(Followed::new(node.broker.clone(), now)));
        self.compared = self.compared.min(node.log_end());
        self.points = self.disk.points();
        self.reports.clear();
        self.node = Some(node);
        Ok(())
    }

    fn stop(&mut self, now: Now) {
        self.part(now);
        (self.node, self.followed) = (None, None);
    }

    /// Both connections break.
    pub(crate) fn part(&mut self, now: Now) {
        self.tables.take().into_iter().for_each(|line| line.close(now));
        self.log.take().into_iter().for_each(|line| line.close(now));
        self.followed.iter().for_each(|followed| followed.forget_ready());
    }

    /// The master is gone, and another one runs soon.
    pub(crate) fn master_gone(&mut self, now: Now) {
        self.part(now);
        self.followers = None;
    }

    /// The master's log may have lost its end.
    pub(crate) fn master_lost(&mut self) {
        self.may_be_ahead = Some(self.node.as_ref().map_or(0, Node::log_end));
        self.furthest = 0;
        self.compared = 0;
    }

    pub(crate) fn befall(&mut self, action: ReplicaAction, now: Now) -> Checked {
        match action {
            ReplicaAction::Part => {
                self.is_parted ^= true;
                Ok(())
            }
            ReplicaAction::Rest => {
                self.rests ^= true;
                Ok(())
            }
            ReplicaAction::Kill { changes } => {
                self.disk.fail(Failure::error(Operation::Change, EIO).after(changes));
                self.own_work(now);
                self.stop(now);
                self.start(now)
            }
            ReplicaAction::CutPower { dice, percent } => {
                let mut chance = Chance::new(dice);
                self.stop(now);
                let point = self.points as u64 + chance.below((self.disk.points() - self.points) as u64 + 1);
                let left = self.disk.after_power_cut(point as usize, || chance.percent(percent));
                left.set_now(now.wall.0);
                self.disk = FaultyDisk::over(&left);
                let reports = std::mem::take(&mut self.reports);
                self.start(now)?;
                self.check_kept(&reports, point as usize)
            }
            ReplicaAction::Restart => {
                let closed = self.node.as_ref().map_or(Ok(()), |node| node.broker.close(now));
                closed.map_err(|error| broken(format!("the slave does not stop: {error}")))?;
                self.stop(now);
                self.start(now)
            }
        }
    }

    /// What its threads do.
    fn own_work(&mut self, now: Now) {
        let Some(node) = &mut self.node else { return };
        for work in node.due(now) {
            // What fails here is seen by what is missing later.
            let _ = node.work(work, now);
        }
    }

    /// All goes on by a step.
    pub(crate) fn step(&mut self, master: &Node, now: Now) -> Checked {
        self.steps += 1;
        if self.rests {
            return Ok(());
        }
        self.disk.memory().set_now(now.wall.0);
        if self.steps.is_multiple_of(STEPS_OF_WORK) {
            self.own_work(now);
        }
        self.connect(master, now);
        let bytes = if self.is_parted { 0 } else { self.of.piece_size };
        let of_tables = bytes.saturating_mul(TABLE_PIECES);
        for ended in [step(&mut self.tables, of_tables, now), step(&mut self.log, bytes, now)].into_iter().flatten() {
            self.note_end(&ended, master, now)?;
        }
        self.note_reports();
        self.compare(master)?;
        self.check_settings(master)
    }

    /// Its master has heard how far it is.
    fn note_reports(&mut self) {
        let followers = self.followers.as_ref().filter(|_| self.log.is_some());
        let heard = followers.and_then(|followers| followers.all().into_iter().map(|follower| follower.end.0).max());
        if let Some(heard) = heard.filter(|heard| self.reports.last().is_none_or(|(_, last)| last < heard)) {
            self.reports.push((self.disk.points(), heard));
        }
    }

    /// What was reported before its disk had changed so often is there after its power has failed, where it syncs before it reports.
    fn check_kept(&self, reports: &[(usize, u64)], point: usize) -> Checked {
        let reported = reports.iter().rev().find(|(points, _)| *points <= point).map_or(0, |(_, heard)| *heard);
        let end = self.node.as_ref().map_or(0, Node::log_end);
        // One without a log says 1 to be sent all of it.
        check(!self.setup.sync_flush || end >= reported || reported == 1, Rule::SlavesFollow, || {
            format!("the slave's log ends at {end} after a power cut, and it had reported {reported}")
        })
    }

    /// Where its log ends where its master's does, it has the same topics, and its groups as they are there: its log tells of each change.
    fn check_settings(&self, master: &Node) -> Checked {
        let ready = self.followed.as_ref().and_then(|followed| followed.ready());
        let Some(node) = self.node.as_ref().filter(|_| ready.is_some() && self.may_be_ahead.is_none()) else {
            return Ok(());
        };
        if node.log_end() != master.log_end() || master.broker.store().staged_size() > 0 {
            return Ok(());
        }
        check_settings(node, master)
    }

    fn connect(&mut self, master: &Node, now: Now) {
        let Some(followed) = self.followed.as_ref().filter(|_| !self.is_parted) else { return };
        followed.set_now(now);
        if self.tables.is_none() {
            followed.forget_ready();
            self.tables = Some(Line::of(
                |waker| MasterSession::new(followed.clone(), waker),
                |waker| {
                    let options = Arc::new(session_options());
                    let address = ([10, 0, 0, 2], 5000).into();
                    RocketSession::new(master.broker.clone(), Mailbox::new(waker), options, address)
                },
            ));
        }
        if let Some(masters) = followed.ready().filter(|_| self.log.is_none()) {
            let end = base::LogOffset(master.log_end());
            let followers = self.followers.get_or_insert_with(|| Arc::new(Followers::new(1, end))).clone();
            let served = Arc::new(Served(master.broker.clone()));
            self.log = Some(Line::of(
                |waker| FollowerSession::new(followed.clone(), masters, TIMES, waker, now.monotonic),
                |waker| {
                    let address = ([10, 0, 0, 2], 5001).into();
                    LeaderSession::new(served, followers, address, TIMES, waker, now.monotonic)
                },
            ));
        }
    }

    /// A connection has ended. Where the slave has what its master lost, an operator has it copied anew.
    fn note_end(&mut self, reason: &str, master: &Node, now: Now) -> Checked {
        let is_another = ["mpty th", "mpty its", "not the same", "cannot be appended", "of the master's log: "];
        // Else the master cannot read it.
        let is_gone = reason.contains("does not give the message") && self.may_be_ahead.is_some();
        if is_gone || is_another.iter().any(|words| reason.contains(words)) {
            // What is behind its end is there no more.
            let (end, first) = (self.node.as_ref().map_or(0, Node::log_end), master.log_first());
            check(self.may_be_ahead.is_some() || end < first, Rule::SlavesFollow, || {
                format!("the slave ends at {end}, its master begins at {first}, and it is refused: {reason}")
            })?;
            self.stop(now);
            self.clear_disk(now);
            self.may_be_ahead = None;
            return self.start(now);
        }
        Ok(())
    }

    /// Its log is the begin of the master's.
    fn compare(&mut self, master: &Node) -> Checked {
        let Some(node) = &self.node else { return Ok(()) };
        let (one, other) = (node.broker.store(), master.broker.store());
        let first = one.log_first().max(other.log_first()).0;
        let (mut at, end) = (self.compared.max(first), one.watermarks().written().0);
        // Once it has got more it was found to be the same.
        self.may_be_ahead = self.may_be_ahead.filter(|lost_at| end <= *lost_at);
        if self.may_be_ahead.is_some() {
            return Ok(());
        }
        check(end <= other.watermarks().written().0, Rule::SlavesFollow, || {
            format!("the slave's log ends at {end}, the master's at {}", other.watermarks().written())
        })?;
        while at < end {
            let size = (end - at) as usize;
            let read = |store: &storage::Store| store.read_raw(base::LogOffset(at), size);
            let (Ok(mine), Ok(masters)) = (read(one), read(other)) else { break };
            let size = mine.len().min(masters.len());
            check(size > 0 && mine[..size] == masters[..size], Rule::SlavesFollow, || {
                format!("the slave's log is another from {at} on")
            })?;
            at += size as u64;
        }
        self.compared = at;
        self.furthest = self.furthest.max(end);
        Ok(())
    }

    /// Whether its log has had what is at `offset`.
    pub(crate) const fn has_had(&self, offset: u64) -> bool {
        self.furthest > offset
    }

    /// Where its log ends, if that is known to be the begin of its master's.
    pub(crate) fn end(&self) -> Option<u64> {
        self.node.as_ref().filter(|_| self.may_be_ahead.is_none()).map(Node::log_end)
    }

    /// Its process is killed; what is on its disk is there for another.
    pub(crate) fn into_disk(mut self, now: Now) -> FaultyDisk {
        self.stop(now);
        self.disk.heal();
        self.disk
    }

    /// Nothing keeps it from following any more.
    pub(crate) fn recover(&mut self) {
        (self.is_parted, self.rests) = (false, false);
        self.disk.heal();
    }

    /// It has all that the master has, but for what cannot be read.
    pub(crate) fn check_caught_up(&mut self, master: &Node) -> Checked {
        self.may_be_ahead = None;
        self.compare(master)?;
        let Some(node) = &self.node else { return Err(broken("there is no slave")) };
        let (mine, masters) = (node.log_end(), master.log_end());
        check(mine == masters, Rule::SlavesFollow, || format!("the slave is at {mine} of {masters}"))?;
        // A slave that began later knows nothing of queues that have no message any more.
        let mine = node.bounds();
        let is_other = |queue: &(String, u32), end: u64| mine.get(queue).is_none_or(|(_, own)| *own != end);
        let masters = master.bounds().into_iter().filter(|(_, (first, end))| first < end);
        let other: Vec<_> = masters.filter(|(queue, (_, end))| is_other(queue, *end)).collect();
        check(other.is_empty(), Rule::SlavesFollow, || {
            let own: Vec<_> = other.iter().map(|(queue, _)| mine.get(queue)).collect();
            format!("queues of the slave end elsewhere: {other:?}, its own: {own:?}")
        })?;
        check_begins(node, master)?;
        check_tables(node, master)
    }
}

/// Moves a connection on; gives why it ended, if it did.
fn step<N: base::session::Session, F: base::session::Session>(
    line: &mut Option<Line<N, F>>,
    bytes: usize,
    now: Now,
) -> Option<String> {
    let ended = line.as_mut()?.step(bytes, now).err();
    if ended.is_some() {
        line.take().into_iter().for_each(|line| line.close(now));
    }
    ended
}
