//! Takes back the end of the log: a replica whose end is not that of its leader's log opens again without it.
//!
//! **On a crash** at any step the directory opens: before anything above the new end is touched, the checkpoint promises nothing there
//! (`Checkpoint::lowered_to`), and entries, keys and state never go beyond what is committed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::LogOffset;
use base::metric::Metrics;

use super::{CommitRule, Options, Store};
use crate::disk::DirectoryLock;
use crate::error::StorageError;
use crate::recover::{Recovery, RecoveryProgress};
use crate::state::StateReplay;

impl Store {
    /// Ends the log at `offset`, or before the record that goes beyond, and opens the directory again; it stays locked. Refused below what
    /// is committed: then the replica has to be seeded anew. Appends that are not written are dropped. If it fails the directory can be
    /// opened as after a crash.
    ///
    /// For a replica without clients: queues that somebody knows are those of the store before.
    pub fn reopen_at(
        self,
        offset: LogOffset,
        state: &mut dyn StateReplay,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        if let Some(reason) = self.poisoned() {
            // What a failed sync left in the page cache only would pass for durable.
            return Err(StorageError::Poisoned(reason));
        }
        let told = LogOffset(self.told_committed.load(Ordering::Acquire));
        let committed = told.max(self.watermarks().committed());
        if offset < committed {
            return Err(StorageError::Committed { offset, committed });
        }
        let (mut options, lock, metrics) = self.into_parts();
        if let CommitRule::Told { known } = &mut options.commit_rule {
            *known = committed;
        }
        Self::open_locked(options, lock, offset, metrics, state, progress)
    }

    /// What the directory is opened with. Everything else, all files among it, is closed.
    fn into_parts(self) -> (Options, DirectoryLock, Arc<Metrics>) {
        (self.options, self._lock, self.metrics)
    }
}
