//! Reading records: from the recent end in memory, from cached blocks, or from the files.

use std::sync::atomic::Ordering;

use base::LogOffset;
use base::limits::RECORD_SIZE_MAX;
use base::record::{self, Record};
use bytes::Bytes;

use super::CommitLog;
use crate::blocks::{BLOCK_SIZE, Blocks};
use crate::error::StorageError;
use crate::queue_index::Entry;
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
        let dense = entries.len() > 1 && span / (entries.len() as u64) <= SPARSE_GAP;
        let written = self.written.load(Ordering::Acquire);
        let mut cold = ColdReader { log: self, mode, dense, first: self.first().0, written, last_block: None };
        for (entry, slot) in entries.iter().zip(&mut found) {
            if slot.is_none() {
                let bytes = cold.read(entry)?;
                *slot = is_whole_record_of(&bytes, entry).then_some(bytes);
            }
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

/// Reads the records of one fetch that are no longer in memory.
struct ColdReader<'a> {
    log: &'a CommitLog,
    mode: ReadMode,
    /// Whether entries lie so close together that whole blocks are worth reading.
    dense: bool,
    first: u64,
    written: u64,
    /// The block the last record was in: the next one is mostly in it too.
    last_block: Option<(u64, Bytes)>,
}

impl ColdReader<'_> {
    /// The bytes at the place of `entry`; none if the log has no such place.
    fn read(&mut self, entry: &Entry) -> Result<Bytes, StorageError> {
        let (start, size) = (entry.log_offset.0, entry.size as usize);
        let end = start.saturating_add(size as u64);
        if size == 0 || start < self.first || end > self.written || size > RECORD_SIZE_MAX {
            return Ok(Bytes::new());
        }
        let number = Blocks::number(start);
        if Blocks::number(end - 1) == number
            && let Some(block) = self.block(number)?
        {
            let from = (start % BLOCK_SIZE) as usize;
            return Ok(block.slice(from..from + size));
        }
        self.log.read_bytes(start, size, self.mode)
    }

    /// A whole block, if it is cached or worth reading.
    fn block(&mut self, number: u64) -> Result<Option<&Bytes>, StorageError> {
        if self.last_block.as_ref().is_none_or(|(last, _)| *last != number) {
            let block = match self.log.blocks.get(number) {
                Some(block) => block,
                None if self.dense && (number + 1) * BLOCK_SIZE <= self.written => {
                    let block = self.log.read_bytes(number * BLOCK_SIZE, BLOCK_SIZE as usize, self.mode)?;
                    self.log.blocks.insert(number, block.clone());
                    block
                }
                None => return Ok(None),
            };
            self.last_block = Some((number, block));
        }
        Ok(self.last_block.as_ref().map(|(_, block)| block))
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
