//! Entries of a queue that lie side by side, as they were read last.

use base::QueueOffset;
use format::queue_entry::Entry;
use storage::{QueueIndex, ReadMode, StorageError};

/// Some entries.
#[derive(Debug, Default)]
pub(crate) struct Window {
    first: QueueOffset,
    entries: Vec<Entry>,
}

impl Window {
    /// The entry at an offset: if it is not here, at most `count` are read from there on, which must be in memory. `None` if there is none.
    pub(crate) fn entry(
        &mut self,
        queue: &QueueIndex,
        offset: QueueOffset,
        count: usize,
    ) -> Result<Option<Entry>, StorageError> {
        if self.get(offset).is_none() {
            self.read(queue, offset, count, ReadMode::IfCached)?;
        }
        Ok(self.get(offset))
    }

    /// Reads at most `count` entries from an offset on.
    pub(crate) fn read(
        &mut self,
        queue: &QueueIndex,
        first: QueueOffset,
        count: usize,
        mode: ReadMode,
    ) -> Result<(), StorageError> {
        self.first = first;
        self.entries.clear();
        queue.read(first, count, mode, &mut self.entries)
    }

    fn get(&self, offset: QueueOffset) -> Option<Entry> {
        let place = usize::try_from(offset.0.checked_sub(self.first.0)?).ok()?;
        self.entries.get(place).copied()
    }
}
