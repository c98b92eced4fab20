//! Reads a segment sequentially, in large pieces.

use std::ops::Range;

use base::LogOffset;
use format::record::{self, RECORD_SIZE_MIN};

use crate::disk::BLOCK_SIZE;
use crate::error::StorageError;
use crate::segment::Segment;

/// Bytes of one read.
pub const WINDOW_SIZE: usize = 4 * 1024 * 1024;

/// Bytes looked through at once for the next record.
const SEARCH_SIZE: usize = 64 * 1024;

/// A sliding view of one segment.
pub struct Window<'a> {
    /// The segment.
    pub segment: &'a Segment,
    start: u64,
    bytes: Vec<u8>,
    /// Up to here no more is read at once than is asked for: somewhere before it the disk cannot.
    short_until: u64,
}

impl<'a> Window<'a> {
    /// A view that has not read anything yet.
    pub const fn new(segment: &'a Segment) -> Self {
        Self { segment, start: 0, bytes: Vec::new(), short_until: 0 }
    }

    /// Drops the buffer, so that the next call reads the file again.
    pub fn forget(&mut self) {
        self.bytes.clear();
    }

    /// `size` bytes at `offset`, fewer at the segment's end.
    pub fn at(&mut self, offset: u64, size: usize) -> Result<&[u8], StorageError> {
        let left = (self.segment.end() - offset) as usize;
        let size = size.min(left);
        if offset < self.start || offset + size as u64 > self.start + self.bytes.len() as u64 {
            let wanted = size.max(WINDOW_SIZE).min(left);
            let mut outcome = Ok(());
            if offset >= self.short_until {
                outcome = self.read(offset, wanted);
                if outcome.as_ref().is_err_and(StorageError::is_unreadable) {
                    self.short_until = offset + wanted as u64;
                }
            }
            if offset < self.short_until {
                // Perhaps it is something behind.
                outcome = self.read(offset, size);
            } else {
                // Readahead: the disk works while this piece is examined.
                let behind = self.segment.position(LogOffset(offset)) + wanted as u64;
                self.segment.file().will_need(behind, 2 * WINDOW_SIZE as u64);
            }
            if let Err(error) = outcome {
                self.forget();
                return Err(error);
            }
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + size).unwrap_or_default())
    }

    fn read(&mut self, offset: u64, size: usize) -> Result<(), StorageError> {
        self.bytes.resize(size, 0);
        self.segment.file().read_at(&mut self.bytes, self.segment.position(LogOffset(offset)))
    }

    /// The log offset below the end of `range`, wherever it lies, with the first record that says it is there and that `is_record` takes for one. A
    /// block that cannot be read, though its bytes were asked for alone, is passed over if `is_damaged` says so.
    pub fn search(
        &mut self,
        range: Range<u64>,
        mut is_record: impl FnMut(&mut Self, u64) -> Result<bool, StorageError>,
        mut is_damaged: impl FnMut(&mut Self, u64, usize) -> Result<bool, StorageError>,
    ) -> Result<Option<u64>, StorageError> {
        let (segment, mut at) = (self.segment, range.start);
        let until = range.end.min((segment.end() + 1).saturating_sub(RECORD_SIZE_MIN as u64));
        // Up to here something cannot be read, and blocks are read one by one; whether that before `at` could not.
        let (mut short_until, mut is_behind_bad) = (at, false);
        let mut asked_again_at = None;
        while at < until {
            let Some(data) = segment.file().next_data(at - segment.base()) else { return Ok(None) };
            at = at.max(segment.base() + data);
            let block_end = segment.base() + (at - segment.base() + 1).next_multiple_of(BLOCK_SIZE as u64);
            let in_block = (block_end - at) as usize;
            if is_behind_bad {
                // Nearly always the next one is bad as well.
                is_behind_bad = self.is_bad(at, in_block, &mut is_damaged)?;
                at = if is_behind_bad { block_end } else { at };
                continue;
            }
            // With what a record that begins in it may have in the next one.
            let with_next = in_block + RECORD_SIZE_MIN;
            let size = if at < short_until { with_next } else { SEARCH_SIZE };
            let size = match self.at(at, size).map(drop) {
                Ok(()) => size,
                Err(_) if size > with_next => {
                    short_until = at + size as u64;
                    continue;
                }
                Err(_) if self.is_bad(at, in_block, &mut is_damaged)? => {
                    (at, is_behind_bad) = (block_end, true);
                    continue;
                }
                // A record that begins in it is not whole if the next one is bad; if that is not, the read failed in passing.
                Err(_)
                    if asked_again_at != Some(at)
                        && block_end < segment.end()
                        && !self.is_bad(block_end, RECORD_SIZE_MIN, &mut is_damaged)? =>
                {
                    asked_again_at = Some(at);
                    continue;
                }
                Err(_) => in_block,
            };
            match record::find(self.at(at, size)?, LogOffset(at)) {
                Some(found) if found.0 < range.end && is_record(self, found.0)? => return Ok(Some(found.0)),
                Some(found) => at = found.0 + 1,
                // One may begin at their end.
                None if size == SEARCH_SIZE => at += (SEARCH_SIZE - RECORD_SIZE_MIN) as u64,
                None => at = block_end,
            }
        }
        Ok(None)
    }

    fn is_bad(
        &mut self,
        at: u64,
        size: usize,
        is_damaged: &mut impl FnMut(&mut Self, u64, usize) -> Result<bool, StorageError>,
    ) -> Result<bool, StorageError> {
        match self.at(at, size).map(drop) {
            Err(error) if error.is_unreadable() => is_damaged(self, at, size),
            outcome => outcome.map(|()| false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, Failure, FaultyDisk, MemoryDisk};

    fn segment_of(size: u64) -> (FaultyDisk, Segment) {
        let faulty = FaultyDisk::over(&MemoryDisk::new());
        let disk = Disk::new(faulty.clone());
        disk.create_directory(Path::new("/log")).expect("makes");
        let segment = Segment::open(&disk, Path::new("/log"), 0, size).expect("opens");
        (faulty, segment)
    }

    /// What a search takes for the front of a record at `at`.
    fn write_head(segment: &Segment, at: u64) {
        let mut head = vec![0; RECORD_SIZE_MIN];
        head[4..8].copy_from_slice(&record::MAGIC_V1.to_be_bytes());
        head[28..36].copy_from_slice(&at.to_be_bytes());
        segment.file().write_at(&head, at).expect("writes");
    }

    #[test]
    fn what_cannot_be_read_is_tried_once_from_before_it() {
        let (faulty, segment) = segment_of(3 * WINDOW_SIZE as u64);
        // In one large read, and where it is.
        faulty.fail(Failure::unreadable("log", 8192..8193, 5).times(2));
        let mut window = Window::new(&segment);
        let failed: Vec<_> = (0..8192).map(|piece| piece * 1024).filter(|at| window.at(*at, 1024).is_err()).collect();
        assert_eq!(failed, [8192]);
    }

    #[test]
    fn a_record_is_found_across_blocks_though_one_behind_cannot_be_read() {
        let (faulty, segment) = segment_of(1 << 20);
        faulty.fail(Failure::unreadable("log", 20_000..20_001, 5));
        for at in 4000..4200_u64 {
            segment.file().write_at(&vec![0x21; 16_384], 0).expect("writes");
            write_head(&segment, at);
            for from in [0, 3999, at] {
                let found = Window::new(&segment).search(from..segment.end(), |_, _| Ok(true), |_, _, _| Ok(true));
                assert_eq!(found.expect("reads"), Some(at), "from {from}");
            }
        }
    }

    #[test]
    fn a_record_is_found_across_blocks_though_they_could_not_be_read_for_a_moment() {
        let (faulty, segment) = segment_of(1 << 20);
        segment.file().write_at(&vec![0x21; 16_384], 0).expect("writes");
        write_head(&segment, 8180);
        write_head(&segment, 12_000);
        for (passes, times) in (0..30).flat_map(|passes| (1..4).map(move |times| (passes, times))) {
            faulty.fail(Failure::unreadable("log", 0..4096, 5));
            faulty.fail(Failure::unreadable("log", 0..1 << 20, 5).after(passes).times(times));
            // The disk is asked again for what it could not read, until it can or surely cannot.
            let is_damaged = |window: &mut Window<'_>, at, size| {
                let mut asked = std::iter::repeat_with(|| window.at(at, size).is_err());
                Ok(asked.by_ref().take(8).all(|is_bad| is_bad))
            };
            let found = Window::new(&segment).search(0..segment.end(), |_, _| Ok(true), is_damaged);
            assert_eq!(found.expect("reads"), Some(8180), "{passes}, {times}");
            faulty.heal();
        }
    }

    #[test]
    fn a_search_asks_once_for_each_block_of_a_stretch_that_cannot_be_read() {
        let (faulty, segment) = segment_of(1 << 20);
        segment.file().write_at(&vec![0x21; 1 << 20], 0).expect("writes");
        let (begin, end) = (10 * BLOCK_SIZE as u64, 110 * BLOCK_SIZE as u64);
        // Within it, and behind it.
        for at in [end - 1000, end + 1000] {
            write_head(&segment, at);
        }
        // And some for finding out where it begins.
        faulty.fail(Failure::unreadable("log", begin..end, 5).times(100 + 8));
        let found = Window::new(&segment).search(0..segment.end(), |_, _| Ok(true), |_, _, _| Ok(true));
        assert_eq!(found.expect("reads"), Some(end + 1000));
    }
}
