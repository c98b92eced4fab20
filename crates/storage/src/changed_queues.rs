//! Queues that changed since their entries were last written into files, or their files last put on the disk: a flush and a checkpoint look
//! at these alone. A queue that nothing happens to costs no round anything.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::StorageError;
use crate::queue_index::QueueIndex;
use crate::recover;

/// Queues that changed. All but `note_entries` is for who holds `Store::flushing`.
#[derive(Debug, Default)]
pub(crate) struct ChangedQueues {
    /// With entries that are in no file yet, each once.
    unflushed: Mutex<Vec<Arc<QueueIndex>>>,
    /// With files that were written to since they were last synced.
    unsynced: Mutex<Vec<Arc<QueueIndex>>>,
}

impl ChangedQueues {
    /// Entries were added to these queues. To be told before `written` passes their records, so that a checkpoint misses none.
    pub(crate) fn note_entries(&self, queues: &[Arc<QueueIndex>]) {
        for queue in queues {
            if queue.note_changed() {
                self.unflushed.lock().push(queue.clone());
            }
        }
    }

    /// Looks for what recovery has changed.
    pub(crate) fn look_over(&self, queues: &[Arc<QueueIndex>]) {
        for queue in queues {
            if queue.unflushed_count() > 0 {
                self.note_entries(std::slice::from_ref(queue));
            }
            if queue.unsynced_count() > 0 {
                self.unsynced.lock().push(queue.clone());
            }
        }
    }

    /// Entries that are in no file yet.
    pub(crate) fn unflushed_count(&self) -> u64 {
        self.unflushed.lock().iter().map(|queue| queue.unflushed_count()).sum()
    }

    /// Writes entries of queues of which at least `at_least` are not in a file, in the order of the queues' names, so that
    /// one history leads to one disk. `kept_count` of each stay in memory too.
    pub(crate) fn flush(&self, at_least: u64, kept_count: usize) -> Result<(), StorageError> {
        let mut queues = std::mem::take(&mut *self.unflushed.lock());
        queues.retain(|queue| !queue.is_gone());
        let mut flushed: Vec<_> = queues.extract_if(.., |queue| queue.unflushed_count() >= at_least).collect();
        self.unflushed.lock().append(&mut queues);
        recover::sort(&mut flushed);
        for (number, queue) in flushed.iter().enumerate() {
            let written = self.flush_one(queue, kept_count);
            if written.is_err() {
                self.unflushed.lock().extend(flushed.iter().skip(number).cloned());
                return written;
            }
        }
        Ok(())
    }

    fn flush_one(&self, queue: &Arc<QueueIndex>, kept_count: usize) -> Result<(), StorageError> {
        let was_synced = queue.unsynced_count() == 0;
        // Before: whoever adds entries from here on notes the queue again.
        queue.forget_changed();
        let flushed = queue.flush(kept_count);
        if flushed.is_err() {
            queue.note_changed();
        }
        if was_synced && queue.unsynced_count() > 0 {
            self.unsynced.lock().push(queue.clone());
        }
        flushed
    }

    /// Queues with files that are to be synced. Whoever takes them syncs them.
    pub(crate) fn take_unsynced(&self) -> Vec<Arc<QueueIndex>> {
        let mut queues = std::mem::take(&mut *self.unsynced.lock());
        queues.retain(|queue| !queue.is_gone());
        queues
    }
}
