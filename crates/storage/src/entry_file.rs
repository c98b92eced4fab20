//! One file of a queue as a crash or another program left it; read only.
//!
//! Holds a copy of the last part that was ever written. The end of the queue is nearly always in it, so one read is enough.

use std::borrow::Cow;
use std::ops::Range;

use base::LogOffset;
use format::entry_form::EntryForm;
use format::queue_entry::Entry;

use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::search::{first_kept, partition_point};

/// A disk writes these bytes whole or not at all.
pub(crate) const SECTOR_SIZE: usize = 512;

/// Entries of the last part: four or five blocks of the file system, which the kernel reads in one go. All of a short file is in it,
/// so that its first entry takes no read of its own.
const TAIL_ENTRIES: u64 = 820;

pub(crate) struct EntryFile {
    file: DiskFile,
    form: EntryForm,
    /// Queue offset of its first entry.
    first: u64,
    /// Number of the last part's first entry. This and all numbers below count within the file.
    tail_start: u64,
    tail: Vec<u8>,
    /// Nothing was ever written after the last part.
    ends_with_tail: bool,
    /// Entries that it may have.
    limit: u64,
}

/// What of a file was written over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overwritten {
    /// So many entries that begin the file are whole.
    pub(crate) whole: u64,
    /// One past the last slot that has something else.
    pub(crate) end: u64,
}

impl EntryFile {
    /// Reads a file of `entry_count` entries of a queue, the first of which has the queue offset `first`.
    pub(crate) fn new(file: DiskFile, form: EntryForm, first: u64, entry_count: u64) -> Result<Self, StorageError> {
        let written_size = file.written_size()?;
        let written_count = written_size.div_ceil(form.size()).min(entry_count);
        let tail_start = written_count.saturating_sub(TAIL_ENTRIES);
        let mut tail = vec![0; ((written_count - tail_start) * form.size()) as usize];
        file.read_at(&mut tail, tail_start * form.size())?;
        let ends_with_tail = written_count == entry_count || file.next_data(written_size).is_none();
        Ok(Self { file, form, first, tail_start, tail, ends_with_tail, limit: entry_count })
    }

    /// Queue offset of the first entry.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// The entry with this number in the file.
    pub(crate) fn entry(&self, number: u64) -> Result<Option<Entry>, StorageError> {
        Ok(self.decode(number, &self.bytes(number..number + 1)?))
    }

    fn decode(&self, number: u64, bytes: &[u8]) -> Option<Entry> {
        self.form.decode(self.first + number, bytes)
    }

    /// One past the last entry of a record below `log_offset`, among the first `limit` entries. Damaged entries before it are passed
    /// over, as many in a row as the last part holds; a search that met one goes on behind it.
    pub(crate) fn end_before(&self, log_offset: LogOffset, limit: u64) -> Result<u64, StorageError> {
        let is_before = |entry: &Entry| entry.log_offset < log_offset;
        let in_tail =
            (limit.saturating_sub(self.tail_start).saturating_mul(self.form.size()) as usize).min(self.tail.len());
        if let Some(end) = self.end_within(self.tail_start, &self.tail[..in_tail], is_before) {
            return Ok(end);
        }
        let searched_end = self.tail_start.min(limit);
        let mut end = partition_point(0, searched_end, |number| {
            Ok::<_, StorageError>(!self.entry(number)?.as_ref().is_some_and(is_before))
        })?;
        while end < searched_end {
            let behind = self.bytes(end..searched_end.min(end + TAIL_ENTRIES))?;
            let Some(later) = self.end_within(end, &behind, is_before) else { break };
            end = later;
        }
        Ok(end)
    }

    /// What was written over, of a file in which something stands from entry `count` on that is none of a record from `log_offset` on; `None` of
    /// any other. A slot of which a crash has kept one of two sectors, if it `may_be_torn`, was not written over.
    pub(crate) fn overwritten_from(
        &self,
        count: u64,
        log_offset: LogOffset,
        may_be_torn: bool,
    ) -> Result<Option<Overwritten>, StorageError> {
        let limit = if self.ends_with_tail { self.written_end() } else { self.limit };
        let size = self.form.size() as usize;
        let is_other = |(number, slot): &(u64, &[u8])| {
            // Offsets that a start has kept are not new.
            let is_new =
                || self.decode(*number, slot).is_some_and(|entry| entry.log_offset >= log_offset && entry.has_record());
            is_written(slot) && !is_new()
        };
        let is_torn = |(number, slot): &(u64, &[u8])| may_be_torn && is_half_zero(*number, slot);
        let behind = self.bytes(count..limit.max(count))?;
        let others = (count..).zip(behind.chunks_exact(size)).filter(|slot| is_other(slot) && !is_torn(slot));
        let Some((last, _)) = others.last() else { return Ok(None) };
        let before = self.bytes(0..limit)?;
        let is_before = |(number, slot): &(u64, &[u8])| {
            self.decode(*number, slot).is_some_and(|entry| entry.log_offset < log_offset)
        };
        let whole = (0..).zip(before.chunks_exact(size)).take_while(is_before).count() as u64;
        Ok(Some(Overwritten { whole, end: last + 1 }))
    }

    /// One past the last of the entries from a number on that is before; `None` if none is.
    fn end_within(&self, start: u64, entries: &[u8], is_before: impl Fn(&Entry) -> bool) -> Option<u64> {
        let pieces = entries.chunks_exact(self.form.size() as usize).enumerate();
        let mut ends = pieces.map(|(at, bytes)| (start + at as u64, bytes)).rev();
        ends.find_map(|(number, bytes)| self.decode(number, bytes).filter(&is_before).map(|_| number + 1))
    }

    /// The first entry that may be of a record from `log_first` on among the first `limit` entries, or `limit`. The gaps that stand before a
    /// queue's first entry are of none. Damaged entries that seem to be gone hide none that is kept (see `first_kept`).
    pub(crate) fn end_of_gone(&self, log_first: LogOffset, limit: u64) -> Result<u64, StorageError> {
        first_kept(0, limit, |part| {
            let bytes = self.bytes(part.clone())?;
            let mut pieces = (part.start..).zip(bytes.chunks_exact(self.form.size() as usize));
            Ok(pieces.find(|(number, bytes)| self.is_kept(*number, bytes, log_first)).map(|(number, _)| number))
        })
    }

    /// Whether the first entry may be of a record from `log_first` on.
    pub(crate) fn keeps_first(&self, log_first: LogOffset) -> Result<bool, StorageError> {
        Ok(self.is_kept(0, &self.bytes(0..1)?, log_first))
    }

    /// What was written over may be of any record.
    fn is_kept(&self, number: u64, bytes: &[u8], log_first: LogOffset) -> bool {
        match self.decode(number, bytes) {
            Some(entry) => !entry.is_gap() && entry.log_offset >= log_first,
            None => self.form.has_checksum(),
        }
    }

    /// The bytes of the entries with these numbers, fewer at the end of the last part.
    fn bytes(&self, numbers: Range<u64>) -> Result<Cow<'_, [u8]>, StorageError> {
        let size = ((numbers.end - numbers.start) * self.form.size()) as usize;
        let is_in_tail = self.ends_with_tail || numbers.end <= self.written_end();
        if let Some(in_tail) = numbers.start.checked_sub(self.tail_start).filter(|_| is_in_tail) {
            let tail = self.tail.get((in_tail * self.form.size()) as usize..).unwrap_or_default();
            return Ok(Cow::Borrowed(&tail[..size.min(tail.len())]));
        }
        let mut bytes = vec![0; size];
        self.file.read_at(&mut bytes, numbers.start * self.form.size())?;
        Ok(Cow::Owned(bytes))
    }

    /// One past the last part.
    const fn written_end(&self) -> u64 {
        self.tail_start + self.tail.len() as u64 / self.form.size()
    }

    /// One past the last entry that was ever written; `None` if finding it takes more reads.
    pub(crate) fn written_count(&self) -> Option<u64> {
        let mut pieces = self.tail.chunks_exact(self.form.size() as usize);
        let last = pieces.rposition(is_written);
        match last {
            Some(last) if self.ends_with_tail => Some(self.tail_start + last as u64 + 1),
            None if self.ends_with_tail && self.tail_start == 0 => Some(0),
            _ => None,
        }
    }
}

fn is_written(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| *byte != 0)
}

/// Whether an entry lies in two sectors, and one of them has nothing of it.
fn is_half_zero(number: u64, slot: &[u8]) -> bool {
    let in_first = SECTOR_SIZE - number as usize * slot.len() % SECTOR_SIZE;
    in_first < slot.len()
        && slot.split_at_checked(in_first).is_some_and(|(one, other)| !is_written(one) || !is_written(other))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, MemoryDisk};
    use format::queue_entry::ENTRY_SIZE;

    #[test]
    fn an_entry_that_points_nowhere_does_not_end_a_queue() {
        // Whole files without holes: nothing shows where entries end, which are few to many.
        for count in [3, 100, 2000] {
            for damaged in 0..count {
                let entry = |number| Entry { log_offset: LogOffset(number * 100), size: 100, tag_code: 0 };
                let disk = Disk::new(MemoryDisk::new());
                disk.create_directory(Path::new("/q")).expect("makes");
                let file = disk.open_sized(Path::new("/q/0"), 4000 * ENTRY_SIZE as u64, false).expect("makes");
                let mut bytes: Vec<u8> = (0..count).flat_map(|number| entry(number).encode()).collect();
                bytes.resize(4000 * ENTRY_SIZE, 0);
                bytes[damaged as usize * ENTRY_SIZE] ^= 0x40;
                file.write_at(&bytes, 0).expect("writes");
                let end = EntryFile::new(file, EntryForm::OfTopic, 0, 4000)
                    .expect("looks")
                    .end_before(LogOffset(count * 100), 4000);
                let wanted = if damaged == count - 1 { damaged } else { count };
                assert_eq!(end.expect("reads"), wanted, "{count} entries, number {damaged} damaged");
            }
        }
    }

    #[test]
    fn the_last_entry_is_told_only_if_the_last_part_shows_it() {
        let entry = Entry { log_offset: LogOffset(7), size: 100, tag_code: 0 };
        // Entries of the file, how many of the last of them are zeroes, and what is to be told.
        for (count, zeroes, wanted) in
            [(10, 0, Some(10)), (10, 3, Some(7)), (10, 10, Some(0)), (1000, 819, Some(181)), (1000, 820, None)]
        {
            let disk = Disk::new(MemoryDisk::new());
            disk.create_directory(Path::new("/q")).expect("makes");
            let file = disk.open_sized(Path::new("/q/0"), count * ENTRY_SIZE as u64, false).expect("makes");
            let bytes: Vec<u8> = (0..count)
                .flat_map(|number| if number < count - zeroes { entry.encode() } else { [0; ENTRY_SIZE] })
                .collect();
            file.write_at(&bytes, 0).expect("writes");
            let told = EntryFile::new(file, EntryForm::OfTopic, 0, count).expect("looks").written_count();
            assert_eq!(told, wanted, "{count} entries, the last {zeroes} of them zeroes");
        }
    }
}
