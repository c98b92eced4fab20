//! How the node starts and stops.

use std::collections::BTreeSet;

use storage::disk::{Failure, FaultyDisk, Operation};

use super::World;
use crate::chance::Chance;
use crate::connection::Connection;
use crate::node::Node;
use crate::oracle::{Checked, Rule, Stopped, Violation};
use crate::story::{Action, CONNECTIONS};

/// What a killed process gets from its disk.
const EIO: i32 = 5;

impl World {
    /// Starts the node, and connects its clients.
    pub(super) fn start(&mut self) -> Checked {
        let started = match Node::start(&self.setup, &self.disk, self.now) {
            Err(error) if error.is_disk_full() => {
                self.trace.say(|| format!("  the node does not start: {error}"));
                self.set_room(None)?;
                Node::start(&self.setup, &self.disk, self.now)
            }
            started => started,
        };
        let node = started.map_err(|error| Violation::of(Rule::TheNodeStarts, error.to_string()))?;
        self.connections = (0..CONNECTIONS).map(|number| Connection::open(&node, number)).collect();
        (0..CONNECTIONS).for_each(|connection| self.forget_client(connection));
        self.node = Some(node);
        Ok(())
    }

    fn start_again(&mut self, how: Stopped) -> Checked {
        self.is_muted = false;
        self.connections.clear();
        self.jobs.clear();
        self.taken.clear();
        self.node = None;
        if how == Stopped::PowerCut {
            self.trace.end_disk(&self.disk);
        }
        Ok(())
    }

    fn started_again(&mut self, how: Stopped) -> Checked {
        self.start()?;
        let (bounds, scene) = (self.node()?.bounds(), self.scene());
        self.trace.say(|| format!("  started again after {how:?}: the log is {}..{}", scene.log_first, scene.log_end));
        self.oracle.restarted(how, &bounds, &scene)?;
        self.audit(&BTreeSet::new())
    }

    /// Stops in good order. If that fails the process is killed.
    pub(super) fn restart(&mut self) -> Checked {
        let closed = self.node()?.broker.close(self.now);
        let how = match closed {
            Ok(()) => Stopped::InOrder,
            Err(error) => {
                self.trace.say(|| format!("  it does not stop in order: {error}"));
                Stopped::Killed
            }
        };
        self.start_again(how)?;
        self.started_again(how)
    }

    /// Does `action` as far as nobody hears of it any more.
    fn begin(&mut self, action: Option<&Action>) {
        self.is_muted = true;
        if let Some(action) = action {
            // What goes wrong now is what the crash is about.
            let _ = self.perform(action);
            self.arrive_all();
            let _ = self.settle(true);
        }
    }

    /// The process is killed after so many changes that `during` makes; the page cache stays.
    pub(super) fn kill(&mut self, during: Option<&Action>, changes: u64) -> Checked {
        self.disk.fail(Failure::error(Operation::Change, EIO).after(changes));
        self.begin(during);
        self.disk.heal();
        self.start_again(Stopped::Killed)?;
        self.started_again(Stopped::Killed)
    }

    /// The power fails at some moment of `during`; a part of what was not synced is there.
    pub(super) fn cut_power(&mut self, during: Option<&Action>, dice: u64, percent: u64) -> Checked {
        let before = self.disk.points() as u64;
        self.begin(during);
        let mut chance = Chance::new(dice);
        let point = before + chance.below(self.disk.points() as u64 - before + 1);
        self.start_again(Stopped::PowerCut)?;
        let left = self.disk.after_power_cut(point as usize, || chance.percent(percent));
        left.set_now(self.now.wall.0);
        self.disk = FaultyDisk::over(&left);
        self.started_again(Stopped::PowerCut)
    }
}
