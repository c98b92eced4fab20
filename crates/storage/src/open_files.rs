//! The files of queues: where each one is, and a cache of those that are open, a bounded number however many queues there are.
//!
//! Those of topics are where a Java broker has them, `consumequeue/TOPIC/QUEUE`. Those of message queues, which are many and mostly short,
//! are smaller, and in a folder of our own that no Java broker opens: `sluice/queues/NUMBER/LANE`. A queue has no file before its first entry
//! is flushed.
//!
//! **Owns** their handles; what was written to a file that is closed stays in the page cache. Files are also removed here: a removed
//! file that stayed open would keep its disk space, and take writes meant for a new one of the same name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use base::name::MessageQueueName;
use base::{QueueId, QueueNumber, TopicName};
use format::entry_form::EntryForm;
use parking_lot::{Mutex, MutexGuard, RwLock};
use quick_cache::sync::Cache;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::queue_index::EntrySource;
use crate::segment::file_name;
use crate::store::{Options, ReadMode};

/// Folder of the queues of topics, in the data directory.
pub(crate) const QUEUES: &str = "consumequeue";

/// Folder of the queues that are lanes of message queues, and the folder it is in.
pub(crate) const MESSAGE_QUEUES: &str = "sluice/queues";
pub(crate) const OWN_FOLDER: &str = "sluice";

/// Folder of all queues of topics, or of all message queues.
pub const fn folder_of_all(of_message_queues: bool) -> &'static str {
    if of_message_queues { MESSAGE_QUEUES } else { QUEUES }
}

/// Folder of a topic's queues, or of a message queue's lanes, below the data directory.
pub fn folder_of_topic(topic: &str) -> String {
    match MessageQueueName::number_of(topic) {
        None => format!("{QUEUES}/{topic}"),
        Some(number) => format!("{MESSAGE_QUEUES}/{number}"),
    }
}

/// The topic whose queues have a folder of that name among those of topics, or of message queues; `None` if none has.
pub fn topic_of_folder(name: &str, of_message_queues: bool) -> Option<TopicName> {
    if !of_message_queues {
        return Some(TopicName::trusted(name)).filter(|topic| topic.message_queue().is_none());
    }
    let number = QueueNumber(name.parse().ok()?);
    (number.to_string() == name).then(|| TopicName::of_message_queue(number))
}

#[derive(Debug)]
pub(crate) struct OpenFiles {
    disk: Disk,
    /// The data directory.
    root: PathBuf,
    /// Of topics, and of message queues.
    entries_per_file: [u64; 2],
    open: Cache<PathBuf, Arc<DiskFile>>,
    /// Read-locked while a file is opened, write-locked while one is removed, so that no removed file is in the cache.
    names: RwLock<()>,
    limit: usize,
    /// What lost entries are made again from, once the log is open.
    entry_source: OnceLock<Weak<dyn EntrySource>>,
    making_again: Mutex<()>,
}

impl OpenFiles {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            disk: options.disk.clone(),
            root: options.directory.clone(),
            entries_per_file: [options.queue_file_entries, options.lane_file_entries],
            open: Cache::new(options.open_queue_files),
            names: RwLock::default(),
            limit: options.open_queue_files,
            entry_source: OnceLock::new(),
            making_again: Mutex::default(),
        }
    }

    /// From now on lost entries are made again from there.
    pub(crate) fn set_entry_source(&self, log: Weak<dyn EntrySource>) {
        let _ = self.entry_source.set(log);
    }

    pub(crate) fn entry_source(&self) -> Option<Arc<dyn EntrySource>> {
        self.entry_source.get()?.upgrade()
    }

    /// Held while entries are made again.
    pub(crate) fn turn_to_make_again(&self) -> MutexGuard<'_, ()> {
        self.making_again.lock()
    }

    /// Directory of a topic's queues.
    pub(crate) fn directory_of_topic(&self, topic: &TopicName) -> PathBuf {
        self.root.join(folder_of_topic(topic.as_str()))
    }

    /// Directory of a queue.
    pub(crate) fn directory_of(&self, topic: &TopicName, queue: QueueId) -> PathBuf {
        self.directory_of_topic(topic).join(queue.0.to_string())
    }

    /// The file of a queue that begins with this entry of it.
    pub(crate) fn path_of(&self, topic: &TopicName, queue: QueueId, first_entry: u64) -> PathBuf {
        self.directory_of(topic, queue).join(file_name(first_entry * EntryForm::of(topic, queue).size()))
    }

    /// Entries of a file of a topic's queue, or of a message queue's lane.
    pub(crate) const fn entries_per_file(&self, of_message_queue: bool) -> u64 {
        self.entries_per_file[of_message_queue as usize]
    }

    /// Directories from a file's up to that in which the folder of all such queues is known to be on the disk.
    pub(crate) const fn levels(of_message_queue: bool) -> usize {
        if of_message_queue { 5 } else { 3 }
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

    /// A file of `size` bytes to write to, created if missing, and whether it was not open before. One thread at a time.
    pub(crate) fn made_if_missing(&self, path: &Path, size: u64) -> Result<(Arc<DiskFile>, bool), StorageError> {
        if let Some(file) = self.open.get(path) {
            return Ok((file, false));
        }
        let _not_removed = self.names.read();
        let file = Arc::new(self.disk.open_sized(path, size, false)?);
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
