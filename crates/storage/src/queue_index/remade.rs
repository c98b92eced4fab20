//! Entries that their file does not give back, or gives back wrong: made again from the log, and kept in memory until the next start.
//!
//! **Always holds**: an entry made again is that of a record which says that it belongs there, or stands, before such a one, where a record is
//! damaged or removed. If neither is sure it is lost, and an operator has all entries made again.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;

use base::{LogOffset, QueueOffset};
use format::queue_entry::Entry;

use super::QueueIndex;
use crate::disk::BLOCK_SIZE;
use crate::error::StorageError;

/// Entries of one queue that are kept at most: beyond, all are forgotten, and made again where they are still needed.
const REMADE_MAX: usize = 65_536;

/// Entries that are kept of one reading of the log at most.
const REMADE_AT_ONCE_MAX: u64 = 16_384;

/// How often entries of a block are asked for in vain before the log is read for it again: at first, then twice as often each time, at most.
const VAIN_ASKS_MIN: u32 = 256;
const VAIN_ASKS_MAX: u32 = 4096;

/// The log, as far as entries are made again from it.
pub(crate) trait EntrySource: Debug + Send + Sync {
    /// Entries that the records between two log offsets have in a part of a queue; `None` if they cannot be told, or are too many to read. Without an
    /// end (`u64::MAX`), of what is committed.
    fn entries_of(
        &self,
        queue: &QueueIndex,
        part: Range<u64>,
        records: Range<LogOffset>,
    ) -> Result<Option<BTreeMap<u64, Entry>>, StorageError>;
}

/// What was made again.
#[derive(Debug, Default)]
pub(super) struct RemadeEntries {
    /// By their offsets.
    entries: BTreeMap<u64, Entry>,
    /// By the blocks of which it was in vain.
    vain: BTreeMap<u64, Vain>,
    /// How often all were forgotten.
    forgotten_count: u64,
}

/// A block of which it was in vain.
#[derive(Clone, Copy, Debug)]
struct Vain {
    /// How often it is not tried again.
    asks_left: u32,
    /// The next time so often.
    asks_next: u32,
    /// Where the queue ended, if nothing was behind the block: once there is, it can be told what is missing.
    end: Option<u64>,
}

/// A block of a queue's file.
#[derive(Clone, Debug)]
struct Block {
    /// The first offset that has bytes in it, be the entry there or gone: no other block has the same.
    key: u64,
    /// Its entries, as far as files have them.
    part: Range<u64>,
}

impl RemadeEntries {
    /// Those of a part of the queue.
    pub(super) fn within(&self, part: Range<u64>) -> Vec<(u64, Entry)> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        self.entries.range(part).map(|(offset, entry)| (*offset, *entry)).collect()
    }

    /// The queue has other entries now.
    pub(super) fn forget_all(&mut self) {
        self.entries.clear();
        self.vain.clear();
        self.forgotten_count += 1;
    }

    /// Whether an entry is there, or its block is not to be tried for now.
    fn known(&mut self, offset: u64, block: &Block, end: u64) -> Option<bool> {
        if self.entries.contains_key(&offset) {
            return Some(true);
        }
        let vain = self.vain.get_mut(&block.key).filter(|vain| vain.end.is_none_or(|before| before == end))?;
        vain.asks_left = vain.asks_left.checked_sub(1)?;
        Some(false)
    }

    /// Notes what was made again; whether the entry at `offset` was.
    fn note(&mut self, offset: u64, block: &Block, end: u64, made: Vec<(u64, Entry)>) -> bool {
        if self.entries.len() + self.vain.len() >= REMADE_MAX {
            self.entries.clear();
            self.vain.clear();
        }
        self.entries.extend(made);
        let is_made = self.entries.contains_key(&offset);
        if is_made {
            self.vain.remove(&block.key);
        } else {
            let asks_left = self.vain.get(&block.key).map_or(VAIN_ASKS_MIN, |vain| vain.asks_next);
            let asks_next = asks_left.saturating_mul(2).min(VAIN_ASKS_MAX);
            self.vain.insert(block.key, Vain { asks_left, asks_next, end: (block.part.end >= end).then_some(end) });
        }
        is_made
    }

    pub(super) fn forget_before(&mut self, first: u64) {
        if !self.entries.is_empty() || !self.vain.is_empty() {
            (self.entries, self.vain) = (self.entries.split_off(&first), self.vain.split_off(&first));
        }
    }
}

impl QueueIndex {
    /// Makes the entry at `offset` again, with those around it; whether there is one now. Waits for the disk.
    pub(crate) fn make_again(&self, offset: QueueOffset) -> Result<bool, StorageError> {
        let (block, end) = (self.block_of(offset.0), self.end().0);
        if let Some(is_there) = self.state.lock().remade.known(offset.0, &block, end) {
            return Ok(is_there);
        }
        // One after the other: each may read much of the log. Another may have made it meanwhile.
        let _turn = self.files.turn_to_make_again();
        let forgotten_count = {
            let remade = &mut self.state.lock().remade;
            if let Some(is_there) = remade.known(offset.0, &block, end) {
                return Ok(is_there);
            }
            remade.forgotten_count
        };
        let made = self.listed_in_log(offset.0, &block.part)?;
        let is_made = {
            let remade = &mut self.state.lock().remade;
            remade.forgotten_count == forgotten_count && remade.note(offset.0, &block, end, made)
        };
        if is_made {
            tracing::warn!(
                topic = %self.topic(), queue = %self.queue(), %offset, folder = %self.directory().display(),
                "entries of a queue cannot be read, or are wrong, and were made again from the log; look after the disk"
            );
        }
        Ok(is_made)
    }

    /// Entries with bytes in the same block of the file as that of `offset`, as far as files have them.
    fn block_of(&self, offset: u64) -> Block {
        let (per_file, size, block_size) = (self.entries_per_file, self.form().size(), BLOCK_SIZE as u64);
        let file = offset / per_file * per_file;
        let block = (offset - file) * size / block_size;
        let (begin, end) = (block * block_size / size, ((block + 1) * block_size).div_ceil(size).min(per_file));
        let flushed = self.state.lock().flushed;
        let part = (file + begin).max(self.first().0)..(file + end).min(flushed.max(offset + 1));
        Block { key: file + begin, part }
    }

    /// What the log says of the entries around an offset: of its block from one that is sure on, and up to one that is; not of all where the log
    /// is damaged.
    fn listed_in_log(&self, offset: u64, block: &Range<u64>) -> Result<Vec<(u64, Entry)>, StorageError> {
        let Some(log) = self.files.entry_source() else { return Ok(Vec::new()) };
        let (mut before, mut behind) = (self.sure_before(offset, &*log), self.sure_from(offset + 1, &*log));
        if before.is_none() || behind.is_none() {
            (before, behind) = (self.sure_before(block.start, &*log), self.sure_from(block.end, &*log));
        }
        let begin = before.map_or(LogOffset(0), |(_, entry)| entry.log_offset);
        let end = behind.map_or(LogOffset(u64::MAX), |(_, entry)| entry.log_offset.after(u64::from(entry.size)));
        let from = before.map_or(block.start, |(sure, _)| (sure + 1).max(block.start));
        let until = behind.map_or(block.end, |(sure, _)| sure).min(from + REMADE_AT_ONCE_MAX).max(offset + 1);
        let Some(mut found) = log.entries_of(self, from..until + 1, begin..end)? else { return Ok(Vec::new()) };
        drop_strays(&mut found, before.map(|(_, entry)| entry.log_offset));
        // Entries are made in the order of the log: one of before is of a removed topic of that name.
        let mut last = LogOffset(0);
        found.retain(|_, entry| {
            let comes_later = entry.log_offset >= last;
            last = last.max(entry.log_offset);
            comes_later
        });
        // What is not in the log before others that are was damaged, or removed with the beginning of the log.
        let behind = |offset| found.range(offset..).next().map(|(_, behind)| Entry::lost(behind.log_offset));
        let entry_at = |offset| found.get(&offset).copied().or_else(|| behind(offset)).map(|entry| (offset, entry));
        // An entry that the file has is right, though its record could not be read now.
        let is_stored = |offset| matches!(self.stored_entry(QueueOffset(offset)), Ok(Some(_)));
        let is_needed = |(offset, entry): &(u64, Entry)| entry.has_record() || !is_stored(*offset);
        Ok((from..until).filter_map(entry_at).filter(is_needed).collect())
    }

    /// An entry below an offset, near it, that its record bears out.
    fn sure_before(&self, offset: u64, log: &dyn EntrySource) -> Option<(u64, Entry)> {
        let steps = (0..u64::BITS).map_while(|power| offset.checked_sub(1 << power));
        steps.take_while(|at| *at >= self.first().0).find_map(|at| self.sure_at(at, log))
    }

    /// The same from an offset on.
    fn sure_from(&self, offset: u64, log: &dyn EntrySource) -> Option<(u64, Entry)> {
        let steps = (0..u64::BITS).map(|power| offset.saturating_add((1 << power) - 1));
        let last = self.end().0.checked_sub(1).filter(|last| *last >= offset);
        steps.take_while(|at| *at < self.end().0).chain(last).find_map(|at| self.sure_at(at, log))
    }

    fn sure_at(&self, offset: u64, log: &dyn EntrySource) -> Option<(u64, Entry)> {
        let entry = self.stored_entry(QueueOffset(offset)).ok()?.filter(Entry::has_record)?;
        let record = entry.log_offset..entry.log_offset.after(u64::from(entry.size));
        let found = log.entries_of(self, offset..offset + 1, record).ok()??;
        // Its tag code may be of other settings.
        found.get(&offset).filter(|found| (found.log_offset, found.size) == (entry.log_offset, entry.size))?;
        Some((offset, entry))
    }
}

/// Drops records that say they are elsewhere: what is out of order between two that are in order. `before` is where the one before all lies.
fn drop_strays(found: &mut BTreeMap<u64, Entry>, mut before: Option<LogOffset>) {
    let places: Vec<_> = found.iter().map(|(offset, entry)| (*offset, entry.log_offset)).collect();
    for (number, (offset, here)) in places.iter().enumerate() {
        match before.zip(places.get(number + 1)) {
            Some((before, (_, behind))) if before < *behind && !(before..*behind).contains(here) => {
                found.remove(offset);
            }
            _ => before = Some(*here),
        }
    }
}
