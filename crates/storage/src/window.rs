//! Reads a segment sequentially, in large pieces.

use base::LogOffset;

use crate::error::StorageError;
use crate::segment::Segment;

/// Bytes of one read.
pub const WINDOW_SIZE: usize = 4 * 1024 * 1024;

/// A sliding view of one segment.
pub struct Window<'a> {
    /// The segment.
    pub segment: &'a Segment,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// A view that has not read anything yet.
    pub const fn new(segment: &'a Segment) -> Self {
        Self { segment, start: 0, bytes: Vec::new() }
    }

    /// Drops the buffer, so that the next call reads the file again.
    pub fn forget(&mut self) {
        self.bytes.clear();
    }

    /// `size` bytes at `offset`, fewer at the segment's end.
    pub fn at(&mut self, offset: u64, size: usize) -> Result<&[u8], StorageError> {
        let size = size.min((self.segment.end() - offset) as usize);
        if offset < self.start || offset + size as u64 > self.start + self.bytes.len() as u64 {
            let wanted = size.max(WINDOW_SIZE).min((self.segment.end() - offset) as usize);
            let position = self.segment.position(LogOffset(offset));
            self.bytes.resize(wanted, 0);
            let mut outcome = self.segment.file().read_at(&mut self.bytes, position);
            if outcome.as_ref().is_err_and(StorageError::is_unreadable) && wanted > size {
                // Perhaps it is something behind.
                self.bytes.truncate(size);
                outcome = self.segment.file().read_at(&mut self.bytes, position);
            }
            if let Err(error) = outcome {
                self.forget();
                return Err(error);
            }
            self.start = offset;
            // Readahead: the disk works while this piece is examined.
            self.segment.file().will_need(position + wanted as u64, 2 * WINDOW_SIZE as u64);
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + size).unwrap_or_default())
    }
}
