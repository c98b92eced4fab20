//! Files of queues that are open: a bounded number, however many queues there are.
//!
//! Owns their handles. A file is opened when it is needed and closed when others were needed more; what was written to it is
//! in the page cache either way. Files are removed here too: one that stayed open would keep its room, and take what is written
//! into a later one of its name.

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
    /// Held while a file is opened and noted as open, alone while one is removed and forgotten: none is open whose name is gone.
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

    /// How many files are kept open.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// A file that is there. Only one that is open, if it may not be waited for.
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

    /// A file to be written, made with its size if it is new; and whether it was opened for this. One thread at a time.
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
