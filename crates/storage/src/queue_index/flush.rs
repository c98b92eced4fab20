//! Brings a queue's entries into its files, and these to the disk.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use format::queue_entry::Entry;

use super::{QueueIndex, recent};
use crate::error::StorageError;
use crate::open_files::OpenFiles;
use crate::store::ReadMode;

/// Most entries of one write: 160 KB.
const FLUSHED_AT_ONCE: u64 = 16 * recent::PIECE_SIZE as u64;

impl QueueIndex {
    /// Writes entries that are only in memory to files (the page cache). The last `kept_count` stay in memory too, for consumers
    /// that keep up. One thread at a time.
    pub(crate) fn flush(&self, kept_count: usize) -> Result<(), StorageError> {
        let mut entries = Vec::new();
        loop {
            let (from, count) = self.next_to_flush();
            if count == 0 {
                return Ok(());
            }
            // Copied piece by piece: publishing takes the same lock, which is held for neither a write nor a long copy.
            entries.reserve_exact(count);
            while entries.len() < count {
                let wanted = (count - entries.len()).min(recent::PIECE_SIZE);
                let state = self.state.lock();
                let recent_start = self.visible.load(Ordering::Acquire) - state.recent.len() as u64;
                let at = (from - recent_start) as usize + entries.len();
                state.recent.copy(at, wanted, &mut entries);
            }
            self.write(from, &entries)?;
            entries.clear();
            let mut state = self.state.lock();
            state.flushed = from + count as u64;
            let unflushed = (self.visible.load(Ordering::Acquire) - state.flushed) as usize;
            let surplus = state.recent.len().saturating_sub(unflushed.max(kept_count));
            let freed = state.recent.drop_oldest(surplus);
            drop(state);
            drop(freed);
        }
    }

    /// The first unflushed entry, and how many to write with one call: within one file, at most `FLUSHED_AT_ONCE`.
    fn next_to_flush(&self) -> (u64, usize) {
        let from = self.state.lock().flushed;
        let rest = self.visible.load(Ordering::Acquire) - from;
        let entries_per_file = self.entries_per_file;
        (from, rest.min(entries_per_file - from % entries_per_file).min(FLUSHED_AT_ONCE) as usize)
    }

    /// Writes entries that lie in one file.
    pub(super) fn write(&self, from: u64, entries: &[Entry]) -> Result<(), StorageError> {
        let (form, entries_per_file) = (self.form(), self.entries_per_file);
        let file_number = from / entries_per_file;
        let (file, is_opened) = self.files.made_if_missing(&self.path(file_number), entries_per_file * form.size())?;
        {
            // Before the write: what a failed one leaves behind is synced too, the name of a new file included.
            let mut state = self.state.lock();
            state.unsynced.insert(file_number);
            state.doubts_names |= is_opened;
        }
        file.write_at(&form.encode(from, entries), from % entries_per_file * form.size())
    }

    /// Number of files written to since the last sync.
    pub(crate) fn unsynced_count(&self) -> usize {
        self.state.lock().unsynced.len()
    }

    /// Files written to since the last call, and whether their directories need a sync. The caller has to sync them.
    pub(crate) fn take_unsynced(&self) -> (BTreeSet<u64>, bool) {
        let mut state = self.state.lock();
        if state.unsynced.is_empty() {
            return (BTreeSet::new(), false);
        }
        (std::mem::take(&mut state.unsynced), std::mem::take(&mut state.doubts_names))
    }

    /// Syncs the files that were written to, and the directories of new ones.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let (file_numbers, mut doubts_names) = self.take_unsynced();
        for file_number in file_numbers {
            let file = self.files.existing(&self.path(file_number), ReadMode::MayWait)?;
            if std::mem::take(&mut doubts_names) {
                file.doubt_names(self.files.disk(), OpenFiles::levels(self.message_queue.is_some()));
            }
            file.sync_data()?;
        }
        Ok(())
    }

    /// Number of entries that are only in memory.
    pub(crate) fn unflushed_count(&self) -> u64 {
        let state = self.state.lock();
        self.visible.load(Ordering::Acquire) - state.flushed
    }
}
