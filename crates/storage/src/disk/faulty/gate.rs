//! Holds operations of a disk, so that a test decides what happens meanwhile.

use parking_lot::{Condvar, Mutex};

use super::Operation;

/// A gate for each kind of operation.
#[derive(Default)]
pub(super) struct Gates([Gate; 9]);

impl Gates {
    pub(super) fn of(&self, operation: Operation) -> &Gate {
        let Self([change, open, read, write, resize, sync, sync_directory, name, examine]) = self;
        match operation {
            Operation::Change => change,
            Operation::Open => open,
            Operation::Read | Operation::ReadPastCache => read,
            Operation::Write => write,
            Operation::Resize => resize,
            Operation::Sync => sync,
            Operation::SyncDirectory => sync_directory,
            Operation::Name => name,
            Operation::Examine => examine,
        }
    }
}

/// Where one kind of operation waits while it is held.
#[derive(Default)]
pub(super) struct Gate {
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    /// How many of those that come are still to be held.
    to_hold: usize,
    waiting: usize,
    /// Times all were let go on.
    releases: u64,
}

impl Gate {
    pub(super) fn hold(&self, count: usize) {
        self.held.lock().to_hold = count;
    }

    pub(super) fn pass(&self) {
        let mut held = self.held.lock();
        if held.to_hold == 0 {
            return;
        }
        held.to_hold -= 1;
        held.waiting += 1;
        self.changed.notify_all();
        let before = held.releases;
        self.changed.wait_while(&mut held, |held| held.releases == before);
        held.waiting -= 1;
    }

    pub(super) fn wait_for_one(&self) {
        self.changed.wait_while(&mut self.held.lock(), |held| held.waiting == 0);
    }

    pub(super) fn waiting(&self) -> usize {
        self.held.lock().waiting
    }

    pub(super) fn release(&self) {
        let mut held = self.held.lock();
        held.to_hold = 0;
        held.releases += 1;
        self.changed.notify_all();
    }
}
