//! Reading records: from the recent end in memory, from cached blocks, or from the files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::LogOffset;
use base::limits::RECORD_SIZE_MAX;
use base::record::{self, Record};
use bytes::Bytes;

use super::CommitLog;
use crate::blocks::{BLOCK_SIZE, Blocks};
use crate::error::StorageError;
use crate::queue_index::Entry;
use crate::segment::Segment;
use crate::store::ReadMode;

/// Entries further apart than this on average are read one by one, not with the whole block around them.
const SPARSE_GAP: u64 = 16 * 1024;

impl CommitLog {
    /// The records `entries` point at, each as its own bytes; a place that holds no such record gives `None`.
    pub(crate) fn read(&self, entries: &[Entry], mode: ReadMode) -> Result<Vec<Option<Bytes>>, StorageError> {
        let mut found: Vec<Option<Bytes>> = Vec::with_capacity(entries.len());
        {
            let recent = self.recent.reader();
            found.extend(entries.iter().map(|entry| {
                let bytes = recent.get(entry.log_offset.0, entry.size as usize)?;
                is_place_of(&bytes, entry).then_some(bytes)
            }));
        }
        let span = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => last.log_offset.0.saturating_sub(first.log_offset.0),
            _ => 0,
        };
        let is_dense = entries.len() > 1 && span / (entries.len() as u64) <= SPARSE_GAP;
        let cold = ColdReader { log: self, mode, first: self.first().0, written: self.written.load(Ordering::Acquire) };
        if is_dense {
            cold.read_dense(entries, &mut found)?;
        } else if found.contains(&None) {
            cold.read_sparse(entries, &mut found)?;
        }
        Ok(found)
    }

    /// Bytes of the log as they are in the file; the caller knows that they lie in one segment or in whole segments.
    pub(crate) fn read_bytes(&self, start: u64, size: usize, mode: ReadMode) -> Result<Bytes, StorageError> {
        let mut buffer = Vec::with_capacity(size);
        while buffer.len() < size {
            let offset = start + buffer.len() as u64;
            let segment = match self.segment_at(offset) {
                Ok(segment) => segment,
                // A block may begin before the first segment when that is not block-aligned.
                Err(_) if offset < self.first().0 => {
                    buffer.resize(size.min((self.first().0 - start) as usize), 0);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let count = (size - buffer.len()).min((segment.end() - offset) as usize);
            let position = segment.position(LogOffset(offset));
            segment.file().read_into(&mut buffer, count, position, mode == ReadMode::MayWait)?;
        }
        Ok(buffer.into())
    }
}

/// Reads the records of one fetch that are no longer in memory, into the slots that are still empty.
struct ColdReader<'a> {
    log: &'a CommitLog,
    mode: ReadMode,
    first: u64,
    written: u64,
}

impl ColdReader<'_> {
    /// Entries that lie close together: most of each block is wanted, by this reader or by others of the same topic.
    fn read_dense(&self, entries: &[Entry], found: &mut [Option<Bytes>]) -> Result<(), StorageError> {
        let mut last_block: Option<(u64, Bytes)> = None;
        for (entry, slot) in entries.iter().zip(found) {
            if slot.is_some() || !self.is_within(entry) {
                continue;
            }
            let (start, size) = (entry.log_offset.0, entry.size as usize);
            let number = Blocks::number(start);
            let is_whole_in_block = Blocks::number(start + size as u64 - 1) == number;
            let bytes = if is_whole_in_block && (number + 1) * BLOCK_SIZE <= self.written {
                let block = match last_block.take().filter(|(last, _)| *last == number) {
                    Some((_, block)) => block,
                    None => self.block(number)?,
                };
                let from = (start % BLOCK_SIZE) as usize;
                let bytes = block.slice(from..from + size);
                last_block = Some((number, block));
                bytes
            } else {
                self.log.read_bytes(start, size, self.mode)?
            };
            *slot = is_whole_record_of(&bytes, entry).then_some(bytes);
        }
        Ok(())
    }

    fn block(&self, number: u64) -> Result<Bytes, StorageError> {
        if let Some(block) = self.log.blocks.get(number) {
            return Ok(block);
        }
        let block = self.log.read_bytes(number * BLOCK_SIZE, BLOCK_SIZE as usize, self.mode)?;
        self.log.blocks.insert(number, block.clone());
        Ok(block)
    }

    /// Entries that lie far apart: only their records are read, all into one buffer.
    fn read_sparse(&self, entries: &[Entry], found: &mut [Option<Bytes>]) -> Result<(), StorageError> {
        let wanted = || {
            entries.iter().zip(&*found).enumerate().filter(|(_, (entry, slot))| slot.is_none() && self.is_within(entry))
        };
        let size: usize = wanted().map(|(_, (entry, _))| entry.size as usize).sum();
        let mut buffer = Vec::with_capacity(size.min(RECORD_SIZE_MAX));
        let mut places = Vec::with_capacity(entries.len());
        let mut segment = None;
        for (number, (entry, _)) in wanted() {
            let known = segment.take().filter(|known: &Arc<Segment>| known.contains(entry.log_offset.0));
            let known = match known {
                Some(known) => known,
                None => self.log.segment_at(entry.log_offset.0)?,
            };
            if entry.log_offset.after(u64::from(entry.size)).0 <= known.end() {
                let (start, may_wait) = (buffer.len(), self.mode == ReadMode::MayWait);
                known.file().read_into(&mut buffer, entry.size as usize, known.position(entry.log_offset), may_wait)?;
                places.push((number, start));
            }
            segment = Some(known);
        }
        let records = Bytes::from(buffer);
        for (number, start) in places {
            let (Some(entry), Some(slot)) = (entries.get(number), found.get_mut(number)) else { continue };
            let bytes = records.slice(start..start + entry.size as usize);
            *slot = is_whole_record_of(&bytes, entry).then_some(bytes);
        }
        Ok(())
    }

    /// Whether the log has such a place.
    fn is_within(&self, entry: &Entry) -> bool {
        let (start, size) = (entry.log_offset.0, entry.size as usize);
        let end = start.saturating_add(size as u64);
        size > 0 && size <= RECORD_SIZE_MAX && start >= self.first && end <= self.written
    }
}

/// Whether `bytes` begin as the record that `entry` means: enough for what never left memory.
fn is_place_of(bytes: &[u8], entry: &Entry) -> bool {
    record::kind_at(bytes) == Ok(record::Kind::Record(entry.size as usize))
        && record::log_offset_of(bytes) == Some(entry.log_offset)
}

/// Whether `bytes` are the record that `entry` means, as it was stored: what comes from a disk is never served unchecked.
fn is_whole_record_of(bytes: &[u8], entry: &Entry) -> bool {
    Record::decode(bytes).is_ok_and(|record| {
        record.size == entry.size as usize && record.log_offset == entry.log_offset && record.body_is_intact()
    })
}
