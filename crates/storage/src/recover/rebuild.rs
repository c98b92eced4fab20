//! What a start makes again from the log: files of entries and keys that cannot be used, folders that are gone, and ends of lanes.
//!
//! **On a crash** before that is on the disk the next start does it: the checkpoint says so before the first file is touched, until one is
//! written after.

use std::path::{Path, PathBuf};

use base::LogOffset;

use crate::checkpoint::{BegunWork, Checkpoint};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::queue_files::Doubts;

pub(crate) struct Rebuild<'a> {
    disk: &'a Disk,
    root: &'a Path,
    checkpoint: &'a mut Checkpoint,
    /// What the checkpoint says once something is begun, but for what that is.
    marked: Checkpoint,
    /// Files that were set aside.
    pub(crate) unusable: Vec<PathBuf>,
}

impl<'a> Rebuild<'a> {
    /// `checkpoint` is that of the directory `root`: below `sure` it vouches for log, entries and keys, below `durable` for the log.
    pub(crate) fn new(
        disk: &'a Disk,
        root: &'a Path,
        checkpoint: &'a mut Checkpoint,
        (sure, durable): (LogOffset, LogOffset),
    ) -> Self {
        let marked = Checkpoint { indexed: Some(sure), log_durable: Some(durable), ..*checkpoint };
        Self { disk, root, checkpoint, marked, unusable: Vec::new() }
    }

    /// Whether an earlier start, or this one, has all to make again.
    pub(crate) const fn is_needed(&self) -> bool {
        matches!(self.checkpoint.begun, BegunWork::All)
    }

    /// Whether an earlier start wrote over what was written over in lanes.
    pub(crate) const fn has_lanes_begun(&self) -> bool {
        matches!(self.checkpoint.begun, BegunWork::Lanes)
    }

    /// Whether anything is being made again.
    pub(crate) const fn is_begun(&self) -> bool {
        self.is_needed() || self.has_lanes_begun()
    }

    /// Something is missing, and all is about to be made again.
    pub(crate) fn begin(&mut self) -> Result<(), StorageError> {
        self.mark(BegunWork::All)
    }

    /// Lanes that are in doubt, if any, are about to be written over.
    pub(crate) fn begin_lanes(&mut self, doubts: &Doubts) -> Result<(), StorageError> {
        if doubts.is_empty() { Ok(()) } else { self.mark(BegunWork::Lanes) }
    }

    fn mark(&mut self, begun: BegunWork) -> Result<(), StorageError> {
        if self.checkpoint.begun < begun {
            self.marked.begun = begun;
            self.marked.write(self.disk, self.root)?;
            *self.checkpoint = self.marked;
        }
        Ok(())
    }

    /// Sets a file aside that cannot be used.
    pub(crate) fn set_aside(&mut self, path: &Path) -> Result<(), StorageError> {
        self.begin()?;
        self.unusable.push(self.disk.set_aside(self.root, path)?);
        Ok(())
    }
}
