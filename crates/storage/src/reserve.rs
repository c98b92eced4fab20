//! Disk space reserved for a checkpoint, so that one can be written even when the disk is full.
//!
//! Retention only removes segments below the last checkpoint and the last snapshot of the state, and those have to be written first,
//! with entries and keys: on a completely full disk neither could start. **Owns** the file `room`, an allocated file without contents,
//! which grows with the state. A write for a checkpoint that fails because the disk is full removes the file and is tried again.
//! **Always holds**: while the reserve is known to be short no segment is created, so that the log does not use up its space. **On a
//! crash** the file may or may not exist; the next start replaces it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

const NAME: &str = "room";

/// The file grows by multiples of this.
const STEP: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Disk,
    directory: PathBuf,
    /// Bytes for entries, keys and the checkpoint itself.
    base_size: u64,
    /// Bytes for the next snapshot of the state.
    state_size: AtomicU64,
    /// What is allocated. Locked while a segment is created.
    file: Mutex<Allocated>,
    /// Whether less is allocated than was wanted when last tried.
    is_short: AtomicBool,
}

/// The file, as long as nothing is released.
#[derive(Debug, Default)]
pub(crate) struct Allocated {
    file: Option<DiskFile>,
    /// Its bytes.
    size: u64,
}

impl Reserve {
    /// A reserve of `base_size` bytes on the disk of `directory`, not acquired yet. Removes the file of an earlier process.
    pub(crate) fn new(disk: Disk, directory: &Path, base_size: u64) -> Result<Self, StorageError> {
        disk.remove_file(&directory.join(NAME))?;
        let (directory, file) = (directory.to_owned(), Mutex::default());
        Ok(Self { disk, directory, base_size, state_size: AtomicU64::new(0), file, is_short: AtomicBool::new(true) })
    }

    /// Has `bytes` reserved for the next snapshot of the state, from the next `acquire` on.
    pub(crate) fn want_for_state(&self, bytes: u64) {
        self.state_size.store(bytes, Ordering::Relaxed);
    }

    /// Allocates the space, as far as it is not.
    pub(crate) fn acquire(&self) -> Result<(), StorageError> {
        let mut allocated = self.file.lock();
        let wanted = self.wanted();
        if allocated.size < wanted {
            let grown = self.grow(&mut allocated, wanted);
            self.is_short.store(grown.is_err(), Ordering::Relaxed);
            return grown;
        }
        self.is_short.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn grow(&self, allocated: &mut Allocated, wanted: u64) -> Result<(), StorageError> {
        // Checked first: a failed allocation would take the last free space from other writers for a moment.
        check_free_space(&self.disk, &self.directory, wanted - allocated.size, "what a checkpoint writes")?;
        let file = self.disk.open_sized(&self.directory.join(NAME), wanted, true)?;
        *allocated = Allocated { file: Some(file), size: wanted };
        Ok(())
    }

    /// Frees the space. Returns whether any was allocated.
    pub(crate) fn release(&self) -> Result<bool, StorageError> {
        let mut allocated = self.file.lock();
        self.is_short.store(true, Ordering::Relaxed);
        // Closed before it is removed: the space of an open file is not freed.
        let was_allocated = std::mem::take(&mut *allocated).file.is_some();
        self.disk.remove_file(&self.directory.join(NAME))?;
        Ok(was_allocated)
    }

    fn wanted(&self) -> u64 {
        self.base_size.saturating_add(self.state_size.load(Ordering::Relaxed).next_multiple_of(STEP))
    }

    /// Bytes that are wanted and not allocated.
    pub(crate) fn missing(&self) -> u64 {
        self.wanted().saturating_sub(self.file.lock().size)
    }

    /// Whether less space is allocated than was wanted when last tried, so that a checkpoint may fail for want of it.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Prevents a release for as long as the guard lives; an error if the space is short.
    pub(crate) fn hold(&self) -> Result<MutexGuard<'_, Allocated>, StorageError> {
        let allocated = self.file.lock();
        if self.is_short() { Err(self.refusal()) } else { Ok(allocated) }
    }

    /// The refusal of appends while the space is short.
    pub(crate) fn refusal(&self) -> StorageError {
        StorageError::DiskFull(format!(
            "the disk of {} is full: no messages are accepted until {} bytes are free, which a checkpoint may need; free space on that disk, or keep less with retention.size or retention.age",
            self.directory.display(),
            self.wanted()
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
