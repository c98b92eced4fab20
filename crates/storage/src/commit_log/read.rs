//! Reading records: from the recent end in memory, from cached blocks, or from the files.

use std::sync::atomic::Ordering;

use base::LogOffset;
use base::limits::RECORD_SIZE_MAX;
use base::record::{self, Record};
use bytes::{Bytes, BytesMut};

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
        for (entry, slot) in entries.iter().zip(&mut found) {
            if slot.is_none() {
                let bytes = self.read_cold(entry, dense, mode)?;
                *slot = is_whole_record_of(&bytes, entry).then_some(bytes);
            }
        }
        Ok(found)
    }

    fn read_cold(&self, entry: &Entry, dense: bool, mode: ReadMode) -> Result<Bytes, StorageError> {
        let (start, size) = (entry.log_offset.0, entry.size as usize);
        let end = start.saturating_add(size as u64);
        if size == 0 || start < self.first().0 || end > self.written.load(Ordering::Acquire) || size > RECORD_SIZE_MAX {
            return Ok(Bytes::new());
        }
        let number = Blocks::number(start);
        let in_one_block = Blocks::number(end - 1) == number;
        if in_one_block {
            if let Some(block) = self.blocks.get(number) {
                return Ok(slice_of(&block, start, size));
            }
            let block_end = (number + 1) * BLOCK_SIZE;
            if dense && block_end <= self.written.load(Ordering::Acquire) {
                let block = self.read_bytes(number * BLOCK_SIZE, BLOCK_SIZE as usize, mode)?;
                self.blocks.insert(number, block.clone());
                return Ok(slice_of(&block, start, size));
            }
        }
        self.read_bytes(start, size, mode)
    }

    /// Bytes of the log as they are in the file; the caller knows that they lie in one segment or in whole segments.
    pub(crate) fn read_bytes(&self, start: u64, size: usize, mode: ReadMode) -> Result<Bytes, StorageError> {
        let mut buffer = BytesMut::zeroed(size);
        let mut done = 0;
        while done < size {
            let offset = start + done as u64;
            let segment = match self.segment_at(offset) {
                Ok(segment) => segment,
                // A block may begin before the first segment when that is not block-aligned.
                Err(_) if offset < self.first().0 => {
                    done = size.min((self.first().0 - start) as usize);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let count = (size - done).min((segment.end() - offset) as usize);
            let part = &mut buffer[done..done + count];
            let position = segment.position(LogOffset(offset));
            match mode {
                ReadMode::IfCached => segment.file().read_at_if_cached(part, position)?,
                ReadMode::MayWait => segment.file().read_at(part, position)?,
            }
            done += count;
        }
        Ok(buffer.freeze())
    }
}

fn slice_of(block: &Bytes, start: u64, size: usize) -> Bytes {
    let from = (start % BLOCK_SIZE) as usize;
    block.slice(from..from + size)
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
