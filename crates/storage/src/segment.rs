//! One file of the log: `segment_size` bytes from a base offset on, which is also its name.

use std::path::Path;

use base::LogOffset;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// A segment that is open.
#[derive(Debug)]
pub struct Segment {
    base: u64,
    size: u64,
    file: DiskFile,
}

/// File name of the segment (or index file) that begins at `offset`: 20 digits.
pub fn file_name(offset: u64) -> String {
    format!("{offset:020}")
}

impl Segment {
    /// Opens the segment at `base`, reserving its space if it is new.
    pub(crate) fn open(disk: &Disk, directory: &Path, base: u64, size: u64) -> Result<Self, StorageError> {
        let file = disk.open_sized(&directory.join(file_name(base)), size, true)?;
        file.doubt_names(disk, 1);
        Ok(Self { base, size, file })
    }

    /// Opens a segment for reading alone; it is as long as its file.
    pub fn open_read_only(disk: &Disk, directory: &Path, base: u64) -> Result<Self, StorageError> {
        let file = disk.open_read_only(&directory.join(file_name(base)))?;
        Ok(Self { base, size: file.size()?, file })
    }

    /// Log offset of its first byte.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Log offset behind its last byte.
    pub const fn end(&self) -> u64 {
        self.base + self.size
    }

    /// Its file.
    pub const fn file(&self) -> &DiskFile {
        &self.file
    }

    /// Whether it has the byte at a log offset.
    pub const fn contains(&self, offset: u64) -> bool {
        self.base <= offset && offset < self.end()
    }

    /// Position of a log offset within the file.
    pub const fn position(&self, offset: LogOffset) -> u64 {
        offset.0 - self.base
    }
}
