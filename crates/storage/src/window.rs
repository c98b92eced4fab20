//! Reads a segment sequentially, in large pieces.

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

    /// The next log offset from `from` on, wherever it lies, with a record that says it is there and that `is_record` takes for one. Blocks that
    /// the disk cannot read are passed over.
    pub fn search(&mut self, from: u64, mut is_record: impl FnMut(&mut Self, u64) -> bool) -> Option<u64> {
        let (segment, mut at) = (self.segment, from);
        while at + RECORD_SIZE_MIN as u64 <= segment.end() {
            let data = segment.base() + segment.file().next_data(at - segment.base())?;
            at = at.max(data);
            let block_end = segment.base() + (at - segment.base() + 1).next_multiple_of(BLOCK_SIZE as u64);
            // If something behind cannot be read: the block, with what a record may have of the next one.
            let in_block = (block_end - at) as usize;
            let sizes = [SEARCH_SIZE, in_block + RECORD_SIZE_MIN, in_block];
            let Some(size) = sizes.into_iter().find(|size| self.at(at, *size).is_ok()) else {
                at = block_end;
                continue;
            };
            let bytes = self.at(at, size).ok()?;
            match record::find(bytes, LogOffset(at)) {
                Some(found) if is_record(self, found.0) => return Some(found.0),
                Some(found) => at = found.0 + 1,
                // One may begin at their end.
                None if size == SEARCH_SIZE => at += (SEARCH_SIZE - RECORD_SIZE_MIN) as u64,
                None => at = block_end,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, Failure, FaultyDisk, MemoryDisk};

    #[test]
    fn what_cannot_be_read_is_tried_once_from_before_it() {
        let faulty = FaultyDisk::over(&MemoryDisk::new());
        let disk = Disk::new(faulty.clone());
        disk.create_directory(Path::new("/log")).expect("makes");
        let segment = Segment::open(&disk, Path::new("/log"), 0, 3 * WINDOW_SIZE as u64).expect("opens");
        // In one large read, and where it is.
        faulty.fail(Failure::unreadable("log", 8192..8193, 5).times(2));
        let mut window = Window::new(&segment);
        let failed: Vec<_> = (0..8192).map(|piece| piece * 1024).filter(|at| window.at(*at, 1024).is_err()).collect();
        assert_eq!(failed, [8192]);
    }

    #[test]
    fn a_record_is_found_across_blocks_though_one_behind_cannot_be_read() {
        let faulty = FaultyDisk::over(&MemoryDisk::new());
        let disk = Disk::new(faulty.clone());
        disk.create_directory(Path::new("/log")).expect("makes");
        let segment = Segment::open(&disk, Path::new("/log"), 0, 1 << 20).expect("opens");
        faulty.fail(Failure::unreadable("log", 20_000..20_001, 5));
        for at in 4000..4200_u64 {
            segment.file().write_at(&vec![0x21; 16_384], 0).expect("writes");
            let mut head = vec![0; RECORD_SIZE_MIN];
            head[4..8].copy_from_slice(&record::MAGIC_V1.to_be_bytes());
            head[28..36].copy_from_slice(&at.to_be_bytes());
            segment.file().write_at(&head, at).expect("writes");
            for from in [0, 3999, at] {
                assert_eq!(Window::new(&segment).search(from, |_, _| true), Some(at), "from {from}");
            }
        }
    }
}
