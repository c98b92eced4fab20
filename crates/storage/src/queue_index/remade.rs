//! Entries that their file does not give back, or gives back wrong: made again from the log, and kept in memory until the next start.
//!
//! **Always holds**: an entry made again is that of a record which says that it belongs there, or stands where a record is damaged, between two
//! such. If neither is sure it is lost, and an operator has all entries made again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use base::{LogOffset, QueueOffset};
use format::queue_entry::{ENTRY_SIZE, Entry};

use super::QueueIndex;
use crate::disk::BLOCK_SIZE;
use crate::error::StorageError;
use crate::store::ReadMode;

/// Entries of one queue that are kept at most.
const REMADE_MAX: usize = 65_536;

/// The log, as far as entries are made again from it.
pub(crate) trait EntrySource: Debug + Send + Sync {
    /// Entries that the records between two log offsets have in a queue; `None` if they cannot be told, or are too many to read.
    fn entries_of(
        &self,
        queue: &QueueIndex,
        records: Range<LogOffset>,
    ) -> Result<Option<BTreeMap<u64, Entry>>, StorageError>;
}

/// What was made again.
#[derive(Debug, Default)]
pub(super) struct RemadeEntries {
    /// By their offsets; `None` where that was in vain.
    entries: BTreeMap<u64, Option<Entry>>,
    /// How often all were forgotten.
    forgotten_count: u64,
}

impl RemadeEntries {
    /// Those of a part of the queue.
    pub(super) fn within(&self, part: Range<u64>) -> Vec<(u64, Entry)> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        self.entries.range(part).filter_map(|(offset, entry)| entry.map(|entry| (*offset, entry))).collect()
    }

    /// The queue has other entries now.
    pub(super) fn forget_all(&mut self) {
        self.entries.clear();
        self.forgotten_count += 1;
    }

    pub(super) fn forget_before(&mut self, first: u64) {
        if !self.entries.is_empty() {
            self.entries = self.entries.split_off(&first);
        }
    }
}

impl QueueIndex {
    /// Makes the entry at `offset` again, with those around it; whether there is one now. Waits for the disk.
    pub(crate) fn make_again(&self, offset: QueueOffset) -> Result<bool, StorageError> {
        // One after the other: each may read much of the log.
        let _turn = self.files.turn_to_make_again();
        let (known, forgotten_count) = {
            let remade = &self.state.lock().remade;
            (remade.entries.get(&offset.0).copied(), remade.forgotten_count)
        };
        if let Some(known) = known {
            return Ok(known.is_some());
        }
        let block = self.block_of(offset.0);
        let made = self.listed_in_log(&block)?;
        let is_made = made.is_some();
        let mut state = self.state.lock();
        let remade = &mut state.remade;
        if remade.forgotten_count != forgotten_count || remade.entries.len() >= REMADE_MAX {
            return Ok(false);
        }
        match made {
            Some(made) => remade.entries.extend(block.zip(made.into_iter().map(Some))),
            None => _ = remade.entries.insert(offset.0, None),
        }
        drop(state);
        if is_made {
            tracing::warn!(
                topic = %self.topic(), queue = %self.queue(), %offset, folder = %self.directory().display(),
                "entries of a queue cannot be read, or are wrong, and were made again from the log; look after the disk"
            );
        }
        Ok(is_made)
    }

    /// Entries with bytes in the same block of the file as that of `offset`, as far as files have them.
    fn block_of(&self, offset: u64) -> Range<u64> {
        let (per_file, size, block_size) = (self.entries_per_file, ENTRY_SIZE as u64, BLOCK_SIZE as u64);
        let file = offset / per_file * per_file;
        let block = (offset - file) * size / block_size;
        let (begin, end) = (block * block_size / size, ((block + 1) * block_size).div_ceil(size).min(per_file));
        let flushed = self.state.lock().flushed;
        (file + begin).max(self.first().0)..(file + end).min(flushed.max(offset + 1))
    }

    /// What the log says of a part of the queue. The entries around it have to be as the log has them, or it was not understood.
    fn listed_in_log(&self, part: &Range<u64>) -> Result<Option<Vec<Entry>>, StorageError> {
        let Some(log) = self.files.entry_source() else { return Ok(None) };
        let (before, behind) = (self.sure_before(part.start), self.sure_from(part.end));
        let begin = before.map_or(LogOffset(0), |(_, entry)| entry.log_offset);
        let end = behind.map_or(LogOffset(u64::MAX), |(_, entry)| entry.log_offset.after(u64::from(entry.size)));
        let Some(found) = log.entries_of(self, begin..end)? else { return Ok(None) };
        if [before, behind].into_iter().flatten().any(|(offset, entry)| found.get(&offset) != Some(&entry)) {
            return Ok(None);
        }
        let entry_at = |offset: u64| {
            let behind = || found.range(offset..).next().filter(|_| found.range(..offset).next().is_some());
            found.get(&offset).copied().or_else(|| behind().map(|(_, behind)| Entry::lost(behind.log_offset)))
        };
        Ok(part.clone().map(entry_at).collect())
    }

    /// An entry with a record below an offset that can be read, near it.
    fn sure_before(&self, offset: u64) -> Option<(u64, Entry)> {
        let steps = (0..u64::BITS).map_while(|power| offset.checked_sub(1 << power));
        steps.take_while(|at| *at >= self.first().0).find_map(|at| self.sure_at(at))
    }

    /// The same from an offset on.
    fn sure_from(&self, offset: u64) -> Option<(u64, Entry)> {
        let steps = (0..u64::BITS).map(|power| offset.saturating_add((1 << power) - 1));
        steps.take_while(|at| *at < self.end().0).find_map(|at| self.sure_at(at))
    }

    fn sure_at(&self, offset: u64) -> Option<(u64, Entry)> {
        let mut entries = Vec::with_capacity(1);
        self.read_as_stored(QueueOffset(offset), 1, ReadMode::MayWait, &mut entries).ok()?;
        entries.pop().filter(|entry| entry.size > 0 && entry.has_record()).map(|entry| (offset, entry))
    }
}
