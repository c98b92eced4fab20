//! Reserve kept aside on the data directory's disk, so that a checkpoint can be written when all else is taken.
//!
//! Retention removes only what a checkpoint covers, and a checkpoint writes entries and keys: on a disk that is full to the
//! last byte neither could begin. Owns the file `room`, which holds nothing and is never read. Whoever finds the disk full while
//! it writes what a checkpoint needs gives the room up and tries again. **Always holds**: while it is given up no segment is made,
//! so that the log does not take it. **On a crash** the file may be there or not; a start gives it up and takes it again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

const NAME: &str = "room";

#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Disk,
    directory: PathBuf,
    size: u64,
    /// The file, while the room is kept. Held while a segment is made.
    kept: Mutex<Option<DiskFile>>,
    is_released: AtomicBool,
}

impl Reserve {
    /// Reserve of `size` bytes on the disk of `directory`; what an earlier process kept is given up.
    pub(crate) fn new(disk: Disk, directory: &Path, size: u64) -> Result<Self, StorageError> {
        disk.remove_file(&directory.join(NAME))?;
        let directory = directory.to_owned();
        Ok(Self { disk, directory, size, kept: Mutex::new(None), is_released: AtomicBool::new(true) })
    }

    /// Takes the room, unless it is taken.
    pub(crate) fn acquire(&self) -> Result<(), StorageError> {
        let mut kept = self.kept.lock();
        if kept.is_none() {
            // Looked at first: to take what is left and give it back would leave others without for a moment.
            check_free_space(&self.disk, &self.directory, self.size, "what a checkpoint writes")?;
            *kept = Some(self.disk.open_sized(&self.directory.join(NAME), self.size, true)?);
            self.is_released.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives it up. Returns whether there was any.
    pub(crate) fn release(&self) -> Result<bool, StorageError> {
        let mut kept = self.kept.lock();
        self.is_released.store(true, Ordering::Relaxed);
        // Closed first, or its room would stay taken.
        let was_kept = kept.take().is_some();
        self.disk.remove_file(&self.directory.join(NAME))?;
        Ok(was_kept)
    }

    /// Bytes it takes.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Whether there is no room for a checkpoint but by chance.
    pub(crate) fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Relaxed)
    }

    /// Keeps it from being given up for as long as the guard lives; an error if it is.
    pub(crate) fn hold(&self) -> Result<MutexGuard<'_, Option<DiskFile>>, StorageError> {
        let kept = self.kept.lock();
        if kept.is_none() { Err(self.refusal()) } else { Ok(kept) }
    }

    /// Why no messages are taken meanwhile.
    pub(crate) fn refusal(&self) -> StorageError {
        StorageError::DiskFull(format!(
            "the disk of {} is full: no more messages are taken until there are {} bytes of room, which a checkpoint may need; free space on that disk, or keep less with retention.size or retention.age",
            self.directory.display(),
            self.size
        ))
    }
}

/// Tells whether the disk of `directory` has `size` bytes left, for what `whose` names.
pub(crate) fn check_free_space(disk: &Disk, directory: &Path, size: u64, whose: &str) -> Result<(), StorageError> {
    let (used, total) = disk.usage(directory)?;
    let left = total.saturating_sub(used);
    // A file system that cannot tell says that it has none at all.
    if total == 0 || left >= size {
        return Ok(());
    }
    Err(StorageError::DiskFull(format!(
        "the disk of {} is full: it has {left} bytes left, and {whose} needs {size}; free space on that disk",
        directory.display()
    )))
}
