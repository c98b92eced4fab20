//! One file of a queue as a crash or another program left it; read only.
//!
//! Holds a copy of the last part that was ever written. The end of the queue is nearly always in it, so one read is enough.

use std::borrow::Cow;
use std::ops::Range;

use base::LogOffset;
use format::queue_entry::{ENTRY_SIZE, Entry};

use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::search::{first_kept, partition_point};

/// Entries of the last part: just more than four blocks of the file system, which the kernel reads in one go. All of a short file is in it,
/// so that its first entry takes no read of its own.
const TAIL_ENTRIES: u64 = 820;

pub(crate) struct EntryFile {
    file: DiskFile,
    /// Queue offset of its first entry.
    first: u64,
    /// Number of the last part's first entry. This and all numbers below count within the file.
    tail_start: u64,
    tail: Vec<u8>,
    /// Nothing was ever written after the last part.
    ends_with_tail: bool,
}

impl EntryFile {
    /// Reads a file of `entry_count` entries, the first of which has the queue offset `first`.
    pub(crate) fn new(file: DiskFile, first: u64, entry_count: u64) -> Result<Self, StorageError> {
        let written_size = file.written_size()?;
        let written_count = written_size.div_ceil(ENTRY_SIZE as u64).min(entry_count);
        let tail_start = written_count.saturating_sub(TAIL_ENTRIES);
        let mut tail = vec![0; (written_count - tail_start) as usize * ENTRY_SIZE];
        file.read_at(&mut tail, tail_start * ENTRY_SIZE as u64)?;
        let ends_with_tail = written_count == entry_count || file.next_data(written_size).is_none();
        Ok(Self { file, first, tail_start, tail, ends_with_tail })
    }

    /// Queue offset of the first entry.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// The entry with this number in the file.
    pub(crate) fn entry(&self, number: u64) -> Result<Option<Entry>, StorageError> {
        Ok(Entry::decode(&self.bytes(number..number + 1)?))
    }

    /// One past the last entry of a record below `log_offset`, among the first `limit` entries. Damaged entries before it are passed
    /// over, as many in a row as the last part holds; a search that met one goes on behind it.
    pub(crate) fn end_before(&self, log_offset: LogOffset, limit: u64) -> Result<u64, StorageError> {
        let is_before = |entry: &Entry| entry.log_offset < log_offset;
        let in_tail = (limit.saturating_sub(self.tail_start) as usize).saturating_mul(ENTRY_SIZE).min(self.tail.len());
        if let Some(count) = end_within(&self.tail[..in_tail], is_before) {
            return Ok(self.tail_start + count);
        }
        let searched_end = self.tail_start.min(limit);
        let mut end = partition_point(0, searched_end, |number| {
            Ok::<_, StorageError>(!self.entry(number)?.as_ref().is_some_and(is_before))
        })?;
        while end < searched_end {
            let behind = self.bytes(end..searched_end.min(end + TAIL_ENTRIES))?;
            let Some(count) = end_within(&behind, is_before) else { break };
            end += count;
        }
        Ok(end)
    }

    /// The first entry of a record from `log_first` on among the first `limit` entries, or `limit`. The gaps that stand before a queue's
    /// first entry are of none. Damaged entries that seem to be gone hide none that is kept (see `first_kept`).
    pub(crate) fn end_of_gone(&self, log_first: LogOffset, limit: u64) -> Result<u64, StorageError> {
        let is_kept =
            |entry: &[u8]| Entry::decode(entry).is_some_and(|entry| !entry.is_gap() && entry.log_offset >= log_first);
        first_kept(0, limit, |part| {
            let kept = self.bytes(part.clone())?.chunks_exact(ENTRY_SIZE).position(is_kept);
            Ok(kept.map(|kept| part.start + kept as u64))
        })
    }

    /// The bytes of the entries with these numbers, fewer at the end of the last part.
    fn bytes(&self, numbers: Range<u64>) -> Result<Cow<'_, [u8]>, StorageError> {
        let size = (numbers.end - numbers.start) as usize * ENTRY_SIZE;
        if let Some(in_tail) = numbers.start.checked_sub(self.tail_start) {
            let tail = self.tail.get(in_tail as usize * ENTRY_SIZE..).unwrap_or_default();
            return Ok(Cow::Borrowed(&tail[..size.min(tail.len())]));
        }
        let mut bytes = vec![0; size];
        self.file.read_at(&mut bytes, numbers.start * ENTRY_SIZE as u64)?;
        Ok(Cow::Owned(bytes))
    }

    /// One past the last entry that was ever written; `None` if finding it takes more reads.
    pub(crate) fn written_count(&self) -> Option<u64> {
        let last = self.tail.chunks_exact(ENTRY_SIZE).rposition(|entry| entry.iter().any(|&byte| byte != 0));
        match last {
            Some(last) if self.ends_with_tail => Some(self.tail_start + last as u64 + 1),
            None if self.ends_with_tail && self.tail_start == 0 => Some(0),
            _ => None,
        }
    }
}

/// One past the last of `entries` that is before; `None` if none is.
fn end_within(entries: &[u8], is_before: impl Fn(&Entry) -> bool) -> Option<u64> {
    let is_before = |entry: &[u8]| Entry::decode(entry).as_ref().is_some_and(&is_before);
    entries.chunks_exact(ENTRY_SIZE).rposition(is_before).map(|last| last as u64 + 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, MemoryDisk};

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
                let end = EntryFile::new(file, 0, 4000).expect("looks").end_before(LogOffset(count * 100), 4000);
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
            let told = EntryFile::new(file, 0, count).expect("looks").written_count();
            assert_eq!(told, wanted, "{count} entries, the last {zeroes} of them zeroes");
        }
    }
}
