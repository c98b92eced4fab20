//! The world: clocks, a disk, a node, its clients and the oracle. It does what a story says, one thing after the other, in one thread.
//!
//! **Always holds**: nothing in it reads a clock, a random number or the order of a hash map, so that one story has one trace.

mod clients;
mod crash;
mod disk;
mod finish;
mod pops;
mod replication;
mod routes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use base::Now;
use base::limits::{FRAME_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX};
use base::session::Job;
use broker::Work as Own;
use storage::disk::{Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::{at, clock_set};

use crate::client::{Member, Reader};
use crate::connection::{Connection, Reply};
use crate::fault::Sector;
use crate::node::{Node, Work};
use crate::oracle::{Checked, Oracle, Rule, Scene, Stopped, Taken, Violation, check};
use crate::popping::Held;
use crate::registration::Registration;
use crate::replica::Replica;
use crate::request::{Asked, Pulling, Sending};
use crate::roster::{ADMIN, ADMIN_GROUP, ADMIN_TOPIC, AUDITOR, CONNECTIONS, FIRST_MEMBER, MEMBERS, READER, READERS};
use crate::story::{Action, After, Setup, Step, Story};
use crate::trace::Trace;

/// When every story begins, by the wall clock.
const BEGIN: Now = at(1_700_000_000_000);

/// Rounds in which sessions and jobs come to rest, at the most.
const ROUNDS_MAX: usize = 1000;

/// Bytes a session holds for a client that takes nothing: as many as it may, and one answer.
const HELD_SIZE_MAX: usize = OUTPUT_BACKLOG_SIZE_MAX + FRAME_SIZE_MAX;

/// What a program gets whose write or sync fails.
const EIO: i32 = 5;

/// Everything there is.
pub(crate) struct World {
    setup: Setup,
    now: Now,
    disk: FaultyDisk,
    /// What of it cannot be read.
    sectors: Vec<Sector>,
    /// What of the log could not be read at some time.
    once_unreadable: Vec<Range<u64>>,
    /// A sync was told to fail. What it was to put on the disk may not be there whatever is synced later.
    is_sync_to_fail: bool,
    /// How the next start comes to its end before it is done: after so many changes, or by which dice of a power cut.
    start_ends: Option<(u64, Option<u64>)>,
    node: Option<Node>,
    registration: Registration,
    replica: Option<Replica>,
    connections: Vec<Connection>,
    /// Which of its connections each client has now.
    lives: Vec<u64>,
    /// What nodes have taken and not answered, by connection and opaque number.
    taken: BTreeMap<(usize, i32), Taken>,
    jobs: Vec<Job>,
    reader: Reader,
    members: Vec<Member>,
    consumed: BTreeSet<u64>,
    next_message: u64,
    oracle: Oracle,
    /// What those who pop were given, the last at the end.
    receipts: Vec<Held>,
    /// Something on the disk could not be read at some time.
    was_ill: bool,
    /// Where the auditor's last pull goes on.
    last_next: Option<u64>,
    /// The code of the last answer.
    last_code: Option<i32>,
    /// The node is about to be gone: nobody hears what it says.
    is_muted: bool,
    trace: Trace,
}

/// Runs a story; the trace is of everything that was seen.
pub(crate) fn run(story: &Story, trace: Trace) -> (Trace, Checked) {
    let mut world = World::new(&story.setup, trace);
    let told = world.tell(story);
    (world.trace, told)
}

impl World {
    fn new(setup: &Setup, trace: Trace) -> Self {
        let disk = MemoryDisk::new();
        disk.set_capacity(setup.capacity);
        disk.set_now(BEGIN.wall.0);
        Self {
            setup: setup.clone(),
            now: BEGIN,
            disk: FaultyDisk::over(&disk),
            sectors: Vec::new(),
            once_unreadable: Vec::new(),
            is_sync_to_fail: false,
            start_ends: None,
            node: None,
            registration: Registration::new(BEGIN),
            replica: None,
            connections: Vec::new(),
            lives: vec![0; CONNECTIONS],
            taken: BTreeMap::new(),
            jobs: Vec::new(),
            reader: Reader::default(),
            members: (0..MEMBERS.len()).map(Member::new).collect(),
            consumed: BTreeSet::new(),
            next_message: 1,
            oracle: Oracle::new(setup.sync_flush, &setup.delays_ms, setup.pops.map(|pops| pops.tries)),
            receipts: Vec::new(),
            was_ill: false,
            last_next: None,
            last_code: None,
            is_muted: false,
            trace,
        }
    }

    fn tell(&mut self, story: &Story) -> Checked {
        self.start(Stopped::InOrder)?;
        self.make_pop_groups()?;
        self.replica = self.setup.replica.map(|of| Replica::new(&self.setup, of, self.now)).transpose()?;
        for (number, step) in story.steps.iter().enumerate() {
            self.trace.say(|| format!("{number} {step}"));
            self.step(step)?;
        }
        self.trace.say(|| "the end".to_owned());
        self.finish()
    }

    fn step(&mut self, step: &Step) -> Checked {
        self.perform(&step.action)?;
        self.register()?;
        if !step.is_held {
            self.arrive_all(step.piece_size);
        }
        match step.after {
            After::Nothing => self.collect()?,
            After::Wakes => self.settle(false)?,
            After::Everything if step.action == Action::Work(Work::EndLeases) => self.check_pops_wait()?,
            After::Everything => self.settle(true)?,
        }
        self.replicate()?;
        self.look()
    }

    fn node(&self) -> Result<&Node, Violation> {
        self.node.as_ref().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is no node"))
    }

    fn node_mut(&mut self) -> Result<&mut Node, Violation> {
        self.node.as_mut().ok_or_else(|| Violation::of(Rule::TheNodeStarts, "there is no node"))
    }

    fn scene(&self) -> Scene {
        let (log_first, log_end) = self.node.as_ref().map_or((0, 0), |node| (node.log_first(), node.log_end()));
        let unreadable = self.sectors.iter().filter_map(|sector| sector.in_log.clone()).collect();
        let once_unreadable = self.once_unreadable.clone();
        Scene { now: self.now.into(), log_first, log_end, unreadable, once_unreadable, was_ill: self.was_ill }
    }

    fn look(&mut self) -> Checked {
        for (number, connection) in self.connections.iter().enumerate() {
            let held = connection.held_size();
            check(held <= HELD_SIZE_MAX, Rule::MemoryIsBounded, || format!("{held} bytes for connection {number}"))?;
        }
        let bounds = self.node()?.bounds();
        let scene = self.scene();
        self.oracle.looked(&bounds, &scene)
    }

    fn perform(&mut self, action: &Action) -> Checked {
        match action {
            Action::Send { .. } => self.send(action),
            Action::Pull { topic, queue, count, wait_ms, commits } => {
                let queue = (*topic, *queue);
                let offset = self.reader.next(queue);
                let commit = commits.then_some(offset);
                let (count, wait_ms) = (*count, *wait_ms);
                self.ask(READER, Asked::Pull(Pulling { group: READERS, queue, offset, count, wait_ms, commit }));
            }
            Action::Commit { topic, queue, is_one_way } => {
                let queue = (*topic, *queue);
                let offset = self.reader.next(queue);
                self.ask(READER, Asked::Commit { group: READERS, queue, offset, is_one_way: *is_one_way });
            }
            Action::ReadCommitted { topic, queue } => {
                self.ask(READER, Asked::Committed { group: READERS, queue: (*topic, *queue) });
            }
            Action::Turn { member } => {
                let asks = self.members[*member].turn(&mut self.consumed);
                asks.into_iter().for_each(|asked| self.ask(FIRST_MEMBER + member, asked));
            }
            Action::Leave { member } => {
                let asked = self.members[*member].leave();
                self.ask(FIRST_MEMBER + member, asked);
            }
            Action::Reset { topic, offset } => {
                self.ask(ADMIN, Asked::Reset { group: READERS, topic, offset: *offset });
            }
            Action::PutTopic { perm } => {
                self.ask(ADMIN, Asked::PutTopic { topic: ADMIN_TOPIC, perm: *perm, queues: 1 });
            }
            Action::Pops(action) => self.pop(action),
            Action::RemoveTopic { topic } => self.ask(ADMIN, Asked::RemoveTopic(topic)),
            Action::PutGroup { tries } => self.ask(ADMIN, Asked::PutGroup { group: ADMIN_GROUP, tries: *tries }),
            Action::RemoveGroup => self.ask(ADMIN, Asked::RemoveGroup(ADMIN_GROUP)),
            Action::ReadSettings => {
                self.ask(ADMIN, Asked::ReadTopic(ADMIN_TOPIC));
                self.ask(ADMIN, Asked::ReadGroup(ADMIN_GROUP));
            }
            other => self.befall(other)?,
        }
        Ok(())
    }

    /// What no client asks for.
    fn befall(&mut self, action: &Action) -> Checked {
        match action {
            Action::Arrive { connection, size } => self.arrive(*connection, *size),
            Action::Disconnect { connection } => self.disconnect(*connection)?,
            Action::Stall { connection } => self.connections[*connection].is_stalled ^= true,
            Action::Work(work) => self.work(*work)?,
            Action::WorkDue => {
                let now = self.now;
                self.node_mut()?.due(now).into_iter().try_for_each(|work| self.work(work))?;
            }
            Action::Job { number } => self.run_job(*number)?,
            Action::Pass { milliseconds } => self.pass(*milliseconds),
            Action::SetClock { by_ms } => {
                self.oracle.clock_set(self.now.into());
                self.set_now(clock_set(self.now, *by_ms));
            }
            Action::FillDisk { left } => self.set_room(Some(*left))?,
            Action::FreeDisk => self.set_room(None)?,
            Action::LoseSector { contents, pick } => {
                let Scene { log_first, log_end, .. } = self.scene();
                let log = log_first..log_end;
                let durable = self.node.as_ref().map_or(0, |node| node.broker.store().watermarks().durable().0);
                let segment_size = self.setup.segment_size;
                let sector = Sector::pick(&self.disk, *contents, *pick, log, segment_size);
                if let Some(sector) = sector.filter(|one| one.leaves_most(&self.sectors, durable, segment_size)) {
                    self.trace.say(|| format!("  {sector:?}"));
                    self.was_ill = true;
                    self.once_unreadable.extend(sector.in_log.clone());
                    sector.lose(&self.disk);
                    self.sectors.push(sector);
                }
            }
            Action::MendDisk => self.mend(|_| false),
            Action::FailWrite => self.disk.fail(Failure::error(Operation::Write, EIO).at("commitlog").times(1)),
            Action::FailSync => {
                self.is_sync_to_fail = true;
                self.disk.fail(Failure::error(Operation::Sync, EIO).at("commitlog").times(1));
            }
            Action::EndStart { changes, power } => self.start_ends = Some((*changes, *power)),
            Action::Replica(action) => {
                let now = self.now;
                self.replica.as_mut().map_or(Ok(()), |replica| replica.befall(*action, now))?;
            }
            Action::Restart => self.restart()?,
            Action::Kill { during, changes } => self.kill(during.as_deref(), *changes)?,
            Action::CutPower { during, dice, percent } => self.cut_power(during.as_deref(), *dice, *percent)?,
            _ => {}
        }
        Ok(())
    }

    fn send(&mut self, action: &Action) {
        let Action::Send { producer, topic, queue, count, is_batch, level, waits, is_one_way, size } = *action else {
            return;
        };
        let has_tag = self.setup.pops.is_some_and(|pops| pops.tagged > 0);
        let per_request = if is_batch { count } else { 1 };
        let first = self.next_message;
        self.next_message += count;
        for first in (first..first + count).step_by(per_request as usize) {
            let sending = Sending { topic, queue, first, count: per_request, level, waits, is_one_way, has_tag, size };
            self.ask(producer, Asked::Send(sending));
        }
    }

    fn ask(&mut self, connection: usize, asked: Asked) {
        self.connections[connection].ask(asked, self.now);
    }

    fn set_now(&mut self, now: Now) {
        self.now = now;
        self.disk.memory().set_now(now.wall.0);
    }

    fn pass(&mut self, milliseconds: u64) {
        self.set_now(self.now.plus_ms(milliseconds));
    }

    fn work(&mut self, work: Work) -> Checked {
        let first = self.scene().log_first;
        let now = self.now;
        let done = self.node_mut()?.work(work, now);
        if let Err(error) = &done {
            self.trace.say(|| format!("  {work:?} fails: {error}"));
            let broker = &self.node()?.broker;
            // There may be room again, and nobody has looked yet.
            let is_refused = error.is_disk_full() && broker.store().check_accepts_messages().is_err();
            let is_excused = self.is_muted
                || !self.has_room()
                || !self.sectors.is_empty()
                || broker.durability.poisoned().is_some()
                || is_refused;
            check(is_excused, Rule::WorkSucceeds, || format!("{work:?}: {error}"))?;
        }
        let scene = self.scene();
        if scene.log_first > first {
            self.trace.say(|| format!("  the log begins at {}", scene.log_first));
            let may_go = self.setup.retention_size.is_some() || !self.has_room();
            check(may_go, Rule::NothingAcknowledgedIsLost, || format!("{work:?} removed what nothing says goes"))?;
        }
        if done.is_ok() && !self.is_muted {
            match work {
                Work::Sync | Work::Own(Own::Checkpoint) => self.oracle.synced(),
                Work::Own(Own::SaveDocuments) => self.oracle.saved(),
                Work::Own(Own::KeepChanges) if self.node()?.broker.store().staged_size() == 0 => {
                    self.oracle.commits_written()
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn run_job(&mut self, number: usize) -> Checked {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let job = self.jobs.remove(number % self.jobs.len());
        self.node()?.host.run_job(job);
        Ok(())
    }

    fn arrive_all(&mut self, piece_size: usize) {
        for connection in 0..self.connections.len() {
            self.arrive(connection, piece_size);
            while self.connections.get(connection).is_some_and(Connection::has_on_its_way) {
                self.arrive(connection, piece_size);
            }
        }
    }

    fn arrive(&mut self, connection: usize, size: usize) {
        let scene = self.scene();
        let Some(to) = self.connections.get_mut(connection).filter(|to| to.has_in_flight()) else { return };
        for number in to.deliver(size, self.now) {
            let Some(asked) = to.asked.get(&number).cloned() else { continue };
            let is_one_way = asked.is_one_way();
            let taken = self.oracle.taken(asked, (connection, self.lives[connection]), &scene);
            if is_one_way {
                to.asked.remove(&number);
            } else {
                self.taken.insert((connection, number), taken);
            }
        }
        self.jobs.extend(to.take_jobs());
    }

    /// Lets sessions go on, with their jobs or without, until nothing is left to do.
    fn settle(&mut self, with_jobs: bool) -> Checked {
        for _ in 0..ROUNDS_MAX {
            let mut any = false;
            for connection in &mut self.connections {
                any |= connection.wake(self.now);
                self.jobs.extend(connection.take_jobs());
            }
            while with_jobs && !self.jobs.is_empty() {
                any = true;
                self.run_job(0)?;
            }
            self.collect()?;
            if !any {
                return Ok(());
            }
        }
        Err(Violation::of(Rule::MemoryIsBounded, "sessions do not come to rest"))
    }

    /// Takes what sessions have said to their clients.
    fn collect(&mut self) -> Checked {
        for number in 0..self.connections.len() {
            let replies = self.connections[number].take_replies();
            let replies = replies.map_err(|problem| Violation::of(Rule::AnswersAreWhole, problem))?;
            if let Some(reason) = &self.connections[number].closed {
                return Err(Violation::of(Rule::AnswersAreWhole, format!("connection {number} is closed: {reason}")));
            }
            let heard = if self.is_muted { Vec::new() } else { replies };
            for reply in heard {
                self.hear(number, reply)?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, connection: usize, reply: Reply) -> Checked {
        self.trace.say(|| format!("  to {connection}: {reply}"));
        if !reply.is_response {
            if let Some(member) = self.member_on(connection) {
                member.hear(None, reply);
            }
            return Ok(());
        }
        let asked = self.connections[connection].asked.remove(&reply.opaque);
        let Some((taken, asked)) = self.taken.remove(&(connection, reply.opaque)).zip(asked) else {
            return Err(Violation::of(
                Rule::AnswersAreWhole,
                format!("{reply} answers nothing on connection {connection}"),
            ));
        };
        self.oracle.answered(&taken, &reply, &self.scene())?;
        self.check_replicated(&asked, &reply)?;
        self.last_code = Some(reply.code);
        if connection == AUDITOR {
            self.last_next = reply.number("nextBeginOffset").and_then(|next| u64::try_from(next).ok());
        } else if connection == READER {
            self.reader.hear(&asked, &reply);
        } else if let Asked::Pops(asked) = &asked {
            self.note_receipts(asked, &reply);
        } else if let Some(member) = self.member_on(connection) {
            member.hear(Some(asked), reply);
        }
        Ok(())
    }
}
