//! Reading records: from the recent end in memory, from cached blocks, or from the files.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::limits::RECORD_SIZE_MAX;
use base::record::{self, RECORD_SIZE_MIN, Record};
use base::{LogOffset, QueueOffset};
use bytes::Bytes;

use super::CommitLog;
use crate::blocks::{BLOCK_SIZE, Blocks};
use crate::damage::{problem_of, problem_of_listed};
use crate::error::StorageError;
use crate::queue_index::{Entry, QueueIndex};
use crate::segment::Segment;
use crate::store::ReadMode;

/// Entries further apart than this on average are read one by one, not with the whole block around them.
const SPARSE_GAP: u64 = 16 * 1024;

impl CommitLog {
    /// The records that entries of `queue` point at, each as its own bytes; a place that holds no such record gives `None`.
    pub(crate) fn read(
        &self,
        queue: &QueueIndex,
        entries: &[Listed],
        mode: ReadMode,
    ) -> Result<Vec<Option<Bytes>>, StorageError> {
        let mut found: Vec<Option<Bytes>> = Vec::with_capacity(entries.len());
        {
            let recent = self.recent.reader();
            found.extend(entries.iter().map(|(_, entry)| {
                let bytes = recent.get(entry.log_offset.0, entry.size as usize)?;
                is_place_of(&bytes, entry).then_some(bytes)
            }));
        }
        let span = match (entries.first(), entries.last()) {
            (Some((_, first)), Some((_, last))) => last.log_offset.0.saturating_sub(first.log_offset.0),
            _ => 0,
        };
        let is_dense = entries.len() > 1 && span / (entries.len() as u64) <= SPARSE_GAP;
        let (first, written) = (self.first().0, self.written.load(Ordering::Acquire));
        let cold = ColdReader { log: self, queue, mode, first, written };
        if is_dense {
            cold.read_dense(entries, &mut found)?;
        } else if found.contains(&None) {
            cold.read_sparse(entries, &mut found)?;
        }
        Ok(found)
    }

    /// The record that begins at `place`, waiting for the disk if need be; `None` if none does or it is damaged.
    pub(crate) fn record_at(&self, place: LogOffset) -> Result<Option<Bytes>, StorageError> {
        let end = self.watermarks.appended();
        if place < self.first() || place.after(RECORD_SIZE_MIN as u64) > end {
            return Ok(None);
        }
        let head = self.read_bytes(place.0, record::PLACE_WITHIN, ReadMode::MayWait)?;
        let size = match record::kind_at(&head) {
            Ok(record::Kind::Record(size)) if place.after(size as u64) <= end => size,
            _ => {
                // A flipped bit leaves one of the two; a place where no record begins has neither.
                if record::has_record_magic(&head) || record::log_offset_of(&head) == Some(place) {
                    self.tell_damage(place, "its size or magic cannot be");
                }
                return Ok(None);
            }
        };
        let bytes = self.read_bytes(place.0, size, ReadMode::MayWait)?;
        let problem = match Record::decode(&bytes) {
            Ok(record) => problem_of(&bytes, &record, place, self.record_checksums),
            Err(_) => Some("its lengths contradict each other"),
        };
        if let Some(problem) = problem {
            self.tell_damage(place, problem);
            return Ok(None);
        }
        Ok(Some(bytes))
    }

    /// Tells people of a damaged record, once.
    pub(crate) fn tell_damage(&self, place: LogOffset, problem: &str) {
        match self.segment_at(place.0) {
            Ok(segment) => self.damage.tell(place, segment.file().path(), segment.position(place), problem),
            Err(_) => self.damage.tell(place, &self.directory, place.0, problem),
        }
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

/// An entry with its place in the queue.
pub(crate) type Listed = (QueueOffset, Entry);

/// Reads the records of one fetch that are no longer in memory, into the slots that are still empty.
struct ColdReader<'a> {
    log: &'a CommitLog,
    queue: &'a QueueIndex,
    mode: ReadMode,
    first: u64,
    written: u64,
}

impl ColdReader<'_> {
    /// Entries that lie close together: most of each block is wanted, by this reader or by others of the same topic.
    fn read_dense(&self, entries: &[Listed], found: &mut [Option<Bytes>]) -> Result<(), StorageError> {
        let mut last_block: Option<(u64, Bytes)> = None;
        for (listed, slot) in entries.iter().zip(found) {
            let (_, entry) = listed;
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
                self.read_on(start, size)?
            };
            *slot = self.checked(bytes, listed);
        }
        Ok(())
    }

    fn block(&self, number: u64) -> Result<Bytes, StorageError> {
        if let Some(block) = self.log.blocks.get(number) {
            return Ok(block);
        }
        let block = self.read_on(number * BLOCK_SIZE, BLOCK_SIZE as usize)?;
        self.log.blocks.insert(number, block.clone());
        Ok(block)
    }

    /// Reads a piece of what is read from front to back.
    fn read_on(&self, start: u64, size: usize) -> Result<Bytes, StorageError> {
        let bytes = self.log.read_bytes(start, size, self.mode)?;
        self.log.leave_behind(start, start + size as u64);
        Ok(bytes)
    }

    /// Entries that lie far apart: only their records are read, all into one buffer.
    fn read_sparse(&self, entries: &[Listed], found: &mut [Option<Bytes>]) -> Result<(), StorageError> {
        let wanted = || {
            let pairs = entries.iter().zip(&*found).enumerate();
            pairs.filter(|(_, ((_, entry), slot))| slot.is_none() && self.is_within(entry))
        };
        let size: usize = wanted().map(|(_, ((_, entry), _))| entry.size as usize).sum();
        let mut buffer = Vec::with_capacity(size.min(RECORD_SIZE_MAX));
        let mut places = Vec::with_capacity(entries.len());
        let mut segment = None;
        for (number, ((_, entry), _)) in wanted() {
            let known = segment.take().filter(|known: &Arc<Segment>| known.contains(entry.log_offset.0));
            let known = match known {
                Some(known) => known,
                None => self.log.segment_at(entry.log_offset.0)?,
            };
            if entry.log_offset.after(u64::from(entry.size)).0 <= known.end() {
                let (start, may_wait) = (buffer.len(), self.mode == ReadMode::MayWait);
                known.file().read_into(&mut buffer, entry.size as usize, known.position(entry.log_offset), may_wait)?;
                self.log.leave_behind(entry.log_offset.0, entry.log_offset.after(u64::from(entry.size)).0);
                places.push((number, start));
            }
            segment = Some(known);
        }
        let records = Bytes::from(buffer);
        for (number, start) in places {
            let (Some(listed), Some(slot)) = (entries.get(number), found.get_mut(number)) else { continue };
            *slot = self.checked(records.slice(start..start + listed.1.size as usize), listed);
        }
        Ok(())
    }

    /// What comes from a disk is never served unchecked.
    fn checked(&self, bytes: Bytes, listed: &Listed) -> Option<Bytes> {
        match problem_of_listed(&bytes, self.queue, listed, self.log.record_checksums) {
            None => Some(bytes),
            Some(problem) => {
                self.log.tell_damage(listed.1.log_offset, problem);
                None
            }
        }
    }

    /// Whether the log has such a place. Recovery leaves smaller entries for what was lost, and has told of it.
    fn is_within(&self, entry: &Entry) -> bool {
        let (start, size) = (entry.log_offset.0, entry.size as usize);
        let end = start.saturating_add(size as u64);
        (RECORD_SIZE_MIN..=RECORD_SIZE_MAX).contains(&size) && start >= self.first && end <= self.written
    }
}

/// Whether `bytes` begin as the record that `entry` means: enough for what never left memory.
fn is_place_of(bytes: &[u8], entry: &Entry) -> bool {
    record::kind_at(bytes) == Ok(record::Kind::Record(entry.size as usize))
        && record::log_offset_of(bytes) == Some(entry.log_offset)
}
