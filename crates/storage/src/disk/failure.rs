//! The kinds of operations of a disk, and what a `FaultyDisk` is told to let fail.

use std::ops::Range;
use std::path::Path;

/// What is done, or fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Everything that changes the disk or puts a change on it.
    Change,
    /// Opening, or making, a file.
    Open,
    /// Reading bytes of a file.
    Read,
    /// Reading them from the disk itself, where the page cache may have them.
    ReadPastCache,
    /// Writing bytes of a file, or clearing them.
    Write,
    /// Giving a file its size, with or without room for it.
    Resize,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDirectory,
    /// Making a directory, renaming, linking, removing.
    Name,
    /// Asking for sizes, times, names in a directory, or the use of the disk.
    Examine,
}

impl Operation {
    /// Each, by its number.
    pub(super) const ALL: [Self; 10] = [
        Self::Change,
        Self::Open,
        Self::Read,
        Self::ReadPastCache,
        Self::Write,
        Self::Resize,
        Self::Sync,
        Self::SyncDirectory,
        Self::Name,
        Self::Examine,
    ];

    /// As it is told of a path.
    pub const fn doing(self) -> &'static str {
        match self {
            Self::Change => "changing",
            Self::Open => "opening",
            Self::Read | Self::ReadPastCache => "reading",
            Self::Write => "writing",
            Self::Resize => "reserving space for",
            Self::Sync => "syncing",
            Self::SyncDirectory => "syncing the directory",
            Self::Name => "making, renaming or removing",
            Self::Examine => "examining",
        }
    }
}

/// A failure to come.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(super) operation: Operation,
    path_part: String,
    passes: u64,
    times: u64,
    pub(super) effect: Effect,
    /// Only where a read touches these bytes.
    bytes: Option<Range<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    Error(i32),
    Short(usize),
}

impl Failure {
    /// `operation` fails with an error of the operating system, such as `EIO`: from now on, everywhere.
    pub fn error(operation: Operation, code: i32) -> Self {
        Self {
            operation,
            path_part: String::new(),
            passes: 0,
            times: u64::MAX,
            effect: Effect::Error(code),
            bytes: None,
        }
    }

    /// These bytes of files whose path contains `part` cannot be read back.
    pub fn unreadable(part: &str, bytes: Range<u64>, code: i32) -> Self {
        Self { bytes: Some(bytes), ..Self::error(Operation::Read, code) }.at(part)
    }

    /// A write takes `size` bytes at most and says so.
    pub fn short_write(size: usize) -> Self {
        Self { effect: Effect::Short(size), ..Self::error(Operation::Write, 0) }
    }

    /// Only where the path contains `part`.
    #[must_use]
    pub fn at(mut self, part: &str) -> Self {
        part.clone_into(&mut self.path_part);
        self
    }

    /// Only after it went well `passes` times.
    #[must_use]
    pub fn after(mut self, passes: u64) -> Self {
        self.passes = passes;
        self
    }

    /// Only so many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }
}

impl Failure {
    /// What it does to `operation` on these bytes of `path`, if that is meant and its time has come.
    pub(super) fn effect_on(&mut self, operation: Operation, path: &Path, touched: &Range<u64>) -> Option<Effect> {
        let is_read = matches!(operation, Operation::Read | Operation::ReadPastCache);
        let is_change = !is_read && !matches!(operation, Operation::Open | Operation::Examine);
        let is_meant = match self.operation {
            Operation::Change => is_change,
            Operation::Read => is_read,
            other => other == operation,
        };
        let is_touched = self.bytes.as_ref().is_none_or(|bytes| bytes.start < touched.end && touched.start < bytes.end);
        if !is_meant || !is_touched || !path.to_string_lossy().contains(&self.path_part) {
            None
        } else if self.passes > 0 {
            self.passes -= 1;
            None
        } else if self.times > 0 {
            self.times -= 1;
            Some(self.effect)
        } else {
            None
        }
    }
}
