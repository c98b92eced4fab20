//! Files of queues that are open: a bounded number, however many queues there are.
//!
//! Owns their handles. A file is opened when it is needed and closed when others were needed more; what was written to it is
//! in the page cache either way. Whoever removes a file has it forgotten here too, or its room would stay taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

#[derive(Debug)]
pub(crate) struct OpenFiles {
    disk: Disk,
    /// Bytes of a file.
    file_size: u64,
    open: Cache<PathBuf, Arc<DiskFile>>,
    limit: usize,
}

impl OpenFiles {
    /// At most about `limit` files of `file_size` bytes are kept open.
    pub(crate) fn new(disk: Disk, file_size: u64, limit: usize) -> Self {
        Self { disk, file_size, open: Cache::new(limit), limit }
    }

    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// How many files are kept open.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// A file that is there.
    pub(crate) fn existing(&self, path: &Path) -> Result<Arc<DiskFile>, StorageError> {
        if let Some(file) = self.open.get(path) {
            return Ok(file);
        }
        let file = Arc::new(self.disk.open(path)?);
        self.open.insert(path.to_owned(), file.clone());
        Ok(file)
    }

    /// A file to be written, made with its size if it is new; and whether it was opened for this.
    pub(crate) fn made_if_missing(&self, path: &Path) -> Result<(Arc<DiskFile>, bool), StorageError> {
        if let Some(file) = self.open.get(path) {
            return Ok((file, false));
        }
        let file = Arc::new(self.disk.open_sized(path, self.file_size, false)?);
        self.open.insert(path.to_owned(), file.clone());
        Ok((file, true))
    }

    /// Closes a file that is about to be removed.
    pub(crate) fn forget(&self, path: &Path) {
        self.open.remove(path);
    }
}
