//! Disk space reserved for a checkpoint, so that one can be written even when the disk is full.
//!
//! Retention only removes segments below the last checkpoint, and a checkpoint has to write entries and keys first: on a completely
//! full disk neither could start. **Owns** the file `room`, an allocated file without contents. A write for a checkpoint that fails
//! because the disk is full removes the file and is tried again. **Always holds**: while the reserve is released no segment is
//! created, so that the log does not use up its space. **On a crash** the file may or may not exist; the next start replaces it.

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
    /// The file, unless released. Locked while a segment is created.
    file: Mutex<Option<DiskFile>>,
    is_released: AtomicBool,
}

impl Reserve {
    /// A reserve of `size` bytes on the disk of `directory`, not acquired yet. Removes the file of an earlier process.
    pub(crate) fn new(disk: Disk, directory: &Path, size: u64) -> Result<Self, StorageError> {
        disk.remove_file(&directory.join(NAME))?;
        let directory = directory.to_owned();
        Ok(Self { disk, directory, size, file: Mutex::new(None), is_released: AtomicBool::new(true) })
    }

    /// Allocates the space, unless that is done already.
    pub(crate) fn acquire(&self) -> Result<(), StorageError> {
        let mut file = self.file.lock();
        if file.is_none() {
            // Checked first: a failed allocation would take the last free space from other writers for a moment.
            check_free_space(&self.disk, &self.directory, self.size, "what a checkpoint writes")?;
            *file = Some(self.disk.open_sized(&self.directory.join(NAME), self.size, true)?);
            self.is_released.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Frees the space. Returns whether any was allocated.
    pub(crate) fn release(&self) -> Result<bool, StorageError> {
        let mut file = self.file.lock();
        self.is_released.store(true, Ordering::Relaxed);
        // Closed before it is removed: the space of an open file is not freed.
        let was_allocated = file.take().is_some();
        self.disk.remove_file(&self.directory.join(NAME))?;
        Ok(was_allocated)
    }

    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Whether the space is not allocated now, so that a checkpoint may fail for want of it.
    pub(crate) fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Relaxed)
    }

    /// Prevents a release for as long as the guard lives; an error if released already.
    pub(crate) fn hold(&self) -> Result<MutexGuard<'_, Option<DiskFile>>, StorageError> {
        let file = self.file.lock();
        if file.is_none() { Err(self.refusal()) } else { Ok(file) }
    }

    /// The refusal of appends while the reserve is released.
    pub(crate) fn refusal(&self) -> StorageError {
        StorageError::DiskFull(format!(
            "the disk of {} is full: no messages are accepted until {} bytes are free, which a checkpoint may need; free space on that disk, or keep less with retention.size or retention.age",
            self.directory.display(),
            self.size
        ))
    }
}

/// Fails if the disk of `directory` has fewer than `size` bytes left; `whose` says what they are for.
pub(crate) fn check_free_space(disk: &Disk, directory: &Path, size: u64, whose: &str) -> Result<(), StorageError> {
    let (used, total) = disk.usage(directory)?;
    let left = total.saturating_sub(used);
    // File systems that do not report their size report 0.
    if total == 0 || left >= size {
        return Ok(());
    }
    Err(StorageError::DiskFull(format!(
        "the disk of {} is full: it has {left} bytes left, and {whose} needs {size}; free space on that disk",
        directory.display()
    )))
}
