//! Reading a segment from front to back in large pieces.

use base::LogOffset;

use crate::error::StorageError;
use crate::segment::Segment;

/// Bytes of the log read at once.
pub(crate) const WINDOW_SIZE: usize = 4 * 1024 * 1024;

/// A sliding view of one segment, so that it is read in large pieces.
pub(crate) struct Window<'a> {
    pub(crate) segment: &'a Segment,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    pub(crate) const fn new(segment: &'a Segment) -> Self {
        Self { segment, start: 0, bytes: Vec::new() }
    }

    /// `size` bytes at `offset`, fewer at the segment's end.
    pub(crate) fn at(&mut self, offset: u64, size: usize) -> Result<&[u8], StorageError> {
        let size = size.min((self.segment.end() - offset) as usize);
        if offset < self.start || offset + size as u64 > self.start + self.bytes.len() as u64 {
            let wanted = size.max(WINDOW_SIZE).min((self.segment.end() - offset) as usize);
            self.bytes.resize(wanted, 0);
            self.segment.file().read_at(&mut self.bytes, self.segment.position(LogOffset(offset)))?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.bytes.get(from..from + size).unwrap_or_default())
    }
}
