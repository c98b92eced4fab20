//! A segment: one file of the log, named by the log offset of its first byte.

use std::path::Path;

use base::LogOffset;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// An open segment.
#[derive(Debug)]
pub struct Segment {
    base: u64,
    size: u64,
    file: DiskFile,
}

/// Name of the segment or queue file that begins at `offset`: 20 digits.
pub fn file_name(offset: u64) -> String {
    format!("{offset:020}")
}

impl Segment {
    /// Opens the segment at `base`; creates it and reserves its disk space if it is new.
    pub(crate) fn open(disk: &Disk, directory: &Path, base: u64, size: u64) -> Result<Self, StorageError> {
        let file = disk.open_sized(&directory.join(file_name(base)), size, true)?;
        file.doubt_names(disk, 1);
        Ok(Self { base, size, file })
    }

    /// Opens a segment read-only, with the size of its file.
    pub fn open_read_only(disk: &Disk, directory: &Path, base: u64) -> Result<Self, StorageError> {
        let file = disk.open_read_only(&directory.join(file_name(base)))?;
        Ok(Self { base, size: file.size()?, file })
    }

    /// Log offset of its first byte.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Log offset after its last byte.
    pub const fn end(&self) -> u64 {
        self.base + self.size
    }

    /// Its file.
    pub const fn file(&self) -> &DiskFile {
        &self.file
    }

    /// Whether a log offset lies in it.
    pub const fn contains(&self, offset: u64) -> bool {
        self.base <= offset && offset < self.end()
    }

    /// Position of a log offset within the file.
    pub const fn position(&self, offset: LogOffset) -> u64 {
        offset.0 - self.base
    }
}
