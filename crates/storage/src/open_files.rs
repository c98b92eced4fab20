//! The files of queues: where each one is, and a cache of those that are open, a bounded number however many queues there are.
//!
//! **Owns** their handles; what was written to a file that is closed stays in the page cache. Files are also removed here: a removed
//! file that stayed open would keep its disk space, and take writes meant for a new one of the same name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{QueueId, TopicName};
use format::queue_entry::ENTRY_SIZE;
use parking_lot::RwLock;
use quick_cache::sync::Cache;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::segment::file_name;
use crate::store::{Options, ReadMode};

#[derive(Debug)]
pub(crate) struct OpenFiles {
    disk: Disk,
    /// That of all queues, with a folder for each topic.
    directory: PathBuf,
    entries_per_file: u64,
    open: Cache<PathBuf, Arc<DiskFile>>,
    /// Read-locked while a file is opened, write-locked while one is removed, so that no removed file is in the cache.
    names: RwLock<()>,
    limit: usize,
}

impl OpenFiles {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            disk: options.disk.clone(),
            directory: options.directory.join("consumequeue"),
            entries_per_file: options.queue_file_entries,
            open: Cache::new(options.open_queue_files),
            names: RwLock::default(),
            limit: options.open_queue_files,
        }
    }

    /// Directory of all queues.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Directory of a topic's queues.
    pub(crate) fn directory_of_topic(&self, topic: &TopicName) -> PathBuf {
        self.directory.join(topic.as_str())
    }

    /// Directory of a queue.
    pub(crate) fn directory_of(&self, topic: &TopicName, queue: QueueId) -> PathBuf {
        self.directory_of_topic(topic).join(queue.0.to_string())
    }

    /// The file of a queue that begins with this entry of it.
    pub(crate) fn path_of(&self, topic: &TopicName, queue: QueueId, first_entry: u64) -> PathBuf {
        self.directory_of(topic, queue).join(file_name(first_entry * ENTRY_SIZE as u64))
    }

    /// Entries of a file.
    pub(crate) const fn entries_per_file(&self) -> u64 {
        self.entries_per_file
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
        let file = Arc::new(self.disk.open_sized(path, self.entries_per_file * ENTRY_SIZE as u64, false)?);
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
