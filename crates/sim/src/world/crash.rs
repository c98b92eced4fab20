//! How the node starts and stops.

use std::collections::BTreeSet;

use storage::disk::{Failure, FaultyDisk, Operation};

use super::{EIO, World};
use crate::chance::Chance;
use crate::connection::Connection;
use crate::fault::Contents;
use crate::node::{Node, Place};
use crate::oracle::{Checked, Rule, Stopped, Violation};
use crate::replica::Replica;
use crate::roster::CONNECTIONS;
use crate::story::Action;

impl World {
    /// Starts the node, and connects its clients. Gives how what it started from had stopped: that it `had_stopped`, or the power cut that
    /// a start came to its end by.
    pub(super) fn start(&mut self, had_stopped: Stopped) -> Result<Stopped, Violation> {
        self.mend(|_| true);
        let mut stopped = had_stopped;
        if let Some((changes, power)) = self.start_ends.take() {
            stopped = self.end_start(changes, power, had_stopped);
        }
        let mut started = Node::start(&self.setup, &self.disk, Place::Master, self.now);
        let is_excused = !self.has_room() || !self.sectors.is_empty();
        if let Some(error) = started.as_ref().err().filter(|_| is_excused) {
            // What a start cannot do without, an operator brings back: the bytes that cannot be read, and room.
            self.trace.say(|| format!("  the node does not start: {error}"));
            self.mend(|_| false);
            self.set_room(None)?;
            started = Node::start(&self.setup, &self.disk, Place::Master, self.now);
        }
        // What a start has made anew lies elsewhere.
        self.mend(|sector| sector.contents == Contents::Records);
        let node = started.map_err(|error| Violation::of(Rule::TheNodeStarts, error.to_string()))?;
        let opened = (0..self.connection_count()).map(|number| Connection::open(&node, number, self.now)).collect();
        self.connections = Result::map_err(opened, |problem| Violation::of(Rule::AnswersAreWhole, problem))?;
        (0..CONNECTIONS).for_each(|connection| self.forget_client(connection));
        self.node = Some(node);
        self.open_registration()?;
        Ok(stopped)
    }

    /// Starts the node, and lets that come to its end before it is done.
    fn end_start(&mut self, changes: u64, power: Option<u64>, had_stopped: Stopped) -> Stopped {
        let before = self.disk.points() as u64;
        self.disk.fail(Failure::error(Operation::Change, EIO).after(changes));
        // It is killed all the same where it makes fewer changes.
        let started = Node::start(&self.setup, &self.disk, Place::Master, self.now).map(drop);
        self.trace.say(|| format!("  a start ends early: {started:?}"));
        let stopped = match power {
            Some(dice) => {
                self.lose_power(before, &mut Chance::new(dice), 50);
                Stopped::PowerCut
            }
            None if had_stopped == Stopped::InOrder => Stopped::Killed,
            None => had_stopped,
        };
        self.mend(|_| true);
        stopped
    }

    /// The disk is as a power cut leaves it, at some moment since it had changed `before` times.
    fn lose_power(&mut self, before: u64, chance: &mut Chance, percent: u64) {
        self.trace.end_disk(&self.disk);
        let point = before + chance.below(self.disk.points() as u64 - before + 1);
        let left = self.disk.after_power_cut(point as usize, || chance.percent(percent));
        left.set_now(self.now.wall.0);
        self.disk = FaultyDisk::over(&left);
        self.replica.iter_mut().for_each(Replica::master_lost);
    }

    /// The node is gone.
    fn stop(&mut self) {
        self.is_muted = false;
        self.is_sync_to_fail = false;
        self.connections.clear();
        self.jobs.clear();
        self.taken.clear();
        self.registration.close(self.now);
        self.replica.iter_mut().for_each(|replica| replica.master_gone(self.now));
        self.node = None;
    }

    fn start_again(&mut self, how: Stopped) -> Checked {
        let how = self.start(how)?;
        let (bounds, scene) = (self.node()?.bounds(), self.scene());
        self.trace.say(|| format!("  started again after {how:?}: the log is {}..{}", scene.log_first, scene.log_end));
        self.oracle.restarted(how, &bounds, &scene)?;
        self.audit(&BTreeSet::new())
    }

    /// Stops in good order. If that fails the process is killed.
    pub(super) fn restart(&mut self) -> Checked {
        if self.has_failed_sync() {
            return self.cut_power(None, 0, 50);
        }
        let closed = self.node()?.broker.close(self.now);
        let how = match closed {
            Ok(()) => Stopped::InOrder,
            Err(error) => {
                self.trace.say(|| format!("  it does not stop in order: {error}"));
                if self.has_failed_sync() {
                    return self.cut_power(None, 0, 50);
                }
                Stopped::Killed
            }
        };
        self.stop();
        self.start_again(how)
    }

    /// Whether a sync of the log has failed: then what is to be seen in the page cache says nothing of the disk, and nothing but a look at
    /// the disk itself does.
    fn has_failed_sync(&self) -> bool {
        self.is_sync_to_fail && self.node.as_ref().is_some_and(|node| node.broker.durability.poisoned().is_some())
    }

    /// Does `action` as far as nobody hears of it any more.
    fn begin(&mut self, action: Option<&Action>) {
        self.is_muted = true;
        if let Some(action) = action {
            // What goes wrong now is what the crash is about.
            let _ = self.perform(action);
            self.arrive_all(usize::MAX);
            let _ = self.settle(true);
        }
    }

    /// The process is killed after so many changes that `during` makes; the page cache stays.
    pub(super) fn kill(&mut self, during: Option<&Action>, changes: u64) -> Checked {
        if self.has_failed_sync() {
            return self.cut_power(during, changes, 50);
        }
        self.disk.fail(Failure::error(Operation::Change, EIO).after(changes));
        self.begin(during);
        if self.has_failed_sync() {
            return self.cut_power(None, 0, 50);
        }
        self.stop();
        self.start_again(Stopped::Killed)
    }

    /// The power fails at some moment of `during`; a part of what was not synced is there.
    pub(super) fn cut_power(&mut self, during: Option<&Action>, dice: u64, percent: u64) -> Checked {
        let before = self.disk.points() as u64;
        self.begin(during);
        self.stop();
        self.lose_power(before, &mut Chance::new(dice), percent);
        self.start_again(Stopped::PowerCut)
    }
}
