//! A cache of open queue files: a bounded number, however many queues there are.
//!
//! **Owns** their handles; what was written to a file that is closed stays in the page cache. Files are also removed here: a removed
//! file that stayed open would keep its disk space, and take writes meant for a new one of the same name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use quick_cache::sync::Cache;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::store::ReadMode;

#[derive(Debug)]
pub(crate) struct OpenFiles {
    disk: Disk,
    /// Bytes of a file.
    file_size: u64,
    open: Cache<PathBuf, Arc<DiskFile>>,
    /// Read-locked while a file is opened, write-locked while one is removed, so that no removed file is in the cache.
    names: RwLock<()>,
    limit: usize,
}

impl OpenFiles {
    /// At most about `limit` files of `file_size` bytes are kept open.
    pub(crate) fn new(disk: Disk, file_size: u64, limit: usize) -> Self {
        Self { disk, file_size, open: Cache::new(limit), names: RwLock::default(), limit }
    }

    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Number of files kept open at most.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// An existing file. With `ReadMode::IfCached` only one that is open already.
    pub(crate) fn existing(&self, path: &Path, mode: ReadMode) -> Result<Arc<DiskFile>, StorageError> {
        if let Some(file) = self.open.get(path) {
            return Ok(file);
        }
        if mode == ReadMode::IfCached {
            return Err(StorageError::WouldBlock);
        }
        let _not_removed = self.names.read();
        let file = Arc::new(self.disk.open(path)?);
        self.open.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    /// A file to write to, created if missing, and whether it was not open before. One thread at a time.
    pub(crate) fn made_if_missing(&self, path: &Path) -> Result<(Arc<DiskFile>, bool), StorageError> {
        if let Some(file) = self.open.get(path) {
            return Ok((file, false));
        }
        let _not_removed = self.names.read();
        let file = Arc::new(self.disk.open_sized(path, self.file_size, false)?);
        self.open.insert(path.to_owned(), file.clone());
        Ok((file, true))
    }

    /// Removes a file, and closes it.
    pub(crate) fn remove_file(&self, path: &Path) -> Result<(), StorageError> {
        let _not_opened = self.names.write();
        let removed = self.disk.remove_file(path);
        self.open.remove(path);
        removed
    }

    /// Removes a directory with its files, and closes them.
    pub(crate) fn remove_directory(&self, path: &Path) -> Result<(), StorageError> {
        let _not_opened = self.names.write();
        let names = self.disk.list(path)?;
        let removed = self.disk.remove_directory(path);
        names.iter().for_each(|name| drop(self.open.remove(&path.join(name))));
        removed
    }
}
