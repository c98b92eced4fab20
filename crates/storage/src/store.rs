//! The store: log, queues and key index of one data directory.
//!
//! **Owns** all files of the directory, locked against other processes. **Always holds**: a queue's entries and the keys follow the
//! log; neither is visible before its record is written. **On a crash** `open` rebuilds them from the last checkpoint on.

mod commit;
mod disk_use;
mod flush;
mod keys;
mod open;
mod queues;
mod raw;
mod read;
mod remove;
mod reopen;
mod waiting;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use base::metric::Metrics;
use base::offset::Watermarks;
use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use format::index_rules::IndexRules;
use format::key_index::SLOT_SIZE;
use format::lane_entry::LANE_ENTRY_SIZE;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::batch::{AppendBatch, AppendInfo};
use crate::begun::Begun;
use crate::changed_queues::ChangedQueues;
use crate::commit_log::CommitLog;
use crate::disk::{DirectoryLock, Disk};
use crate::document;
use crate::error::StorageError;
use crate::key_index::{Key, KeyIndex};
use crate::open_files::OpenFiles;
use crate::queue_index::QueueIndex;
use crate::queue_table::QueueTable;
use crate::recover::Unpublished;
use crate::reserve::Reserve;
use crate::retention::{DiskState, RetentionPolicy};

/// What a checkpoint writes besides hash slots and queue entries, rounded up to blocks of the file system.
const CHECKPOINT_RESERVE_MIN: u64 = 8 << 20;

/// Bytes of keys not yet indexed above which the thread that writes the log indexes them first. Producers then wait for that.
const UNINDEXED_SIZE_MAX: usize = 8 << 20;

/// Layout and limits of a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// `Disk::real()`, except in tests.
    pub disk: Disk,
    /// Data directory.
    pub directory: PathBuf,
    /// Directory of the log's segments, if not `commitlog` in the data directory.
    pub log_directory: Option<PathBuf>,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Entries of a queue's file.
    pub queue_file_entries: u64,
    /// Entries of a file of a message queue's lane.
    pub lane_file_entries: u64,
    /// Bytes reserved on the directory's disk for a checkpoint; `None`: as many as one may write.
    pub checkpoint_reserve: Option<u64>,
    /// Unflushed entries of all queues that may stay in memory.
    pub gathered_entries: u64,
    /// Queue files kept open. If a checkpoint has to sync more, it syncs the whole file system.
    pub open_queue_files: usize,
    /// Whether keys are indexed.
    pub key_index: bool,
    /// Hash slots of a key-index file.
    pub key_index_slots: u32,
    /// Entries of a key-index file.
    pub key_index_entries: u32,
    /// Bytes of the newest records kept in memory for consumers that keep up.
    pub recent_size: usize,
    /// Whether new records get a checksum over the whole record (see `Store::checksum_room`), and existing ones are verified.
    pub record_checksums: bool,
    /// Which entries and keys a record gets.
    pub index_rules: IndexRules,
    /// When old segments are removed.
    pub retention: RetentionPolicy,
    /// When a record is committed.
    pub commit_rule: CommitRule,
    /// Whether the log is a leader's, taken in by `Store::append_raw`: nothing else is appended.
    pub follows: bool,
}

impl Options {
    /// A store in `directory` on the machine's file system, with the layout of a RocketMQ broker.
    pub fn new(directory: &Path) -> Self {
        Self {
            disk: Disk::real(),
            directory: directory.to_owned(),
            log_directory: None,
            segment_size: 1 << 30,
            queue_file_entries: 300_000,
            lane_file_entries: 8192,
            checkpoint_reserve: None,
            gathered_entries: 1 << 20,
            open_queue_files: 256,
            key_index: true,
            key_index_slots: 5_000_000,
            key_index_entries: 20_000_000,
            recent_size: 64 << 20,
            record_checksums: false,
            index_rules: IndexRules::default(),
            retention: RetentionPolicy::default(),
            commit_rule: CommitRule::default(),
            follows: false,
        }
    }

    /// The same for a log that is a leader's: whatever of it is written here is committed.
    pub fn following(self) -> Self {
        Self { commit_rule: CommitRule::Told { known: LogOffset(u64::MAX) }, follows: true, ..self }
    }

    /// Bytes to reserve: what a checkpoint writes at most, unless there are very many queues.
    pub(crate) fn checkpoint_reserve(&self) -> u64 {
        let slots = if self.key_index { u64::from(self.key_index_slots) * SLOT_SIZE as u64 } else { 0 };
        let entries = self.gathered_entries.saturating_mul(LANE_ENTRY_SIZE as u64);
        self.checkpoint_reserve.unwrap_or_else(|| slots.saturating_add(entries).saturating_add(CHECKPOINT_RESERVE_MIN))
    }
}

/// What makes a record committed. Before that no consumer sees it, and no key finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitRule {
    /// That it is written: the broker is alone, or has slaves that follow whatever it writes.
    #[default]
    Written,
    /// That `Store::set_committed` says so: in a governed group, for what the whole in-sync set has.
    Told {
        /// Everything below this is known to be committed. What is below the last checkpoint is too.
        known: LogOffset,
    },
}

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Only from memory; else `StorageError::WouldBlock`.
    IfCached,
    /// From the disk if necessary. Not for network threads.
    MayWait,
}

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    options: Options,
    log: Arc<CommitLog>,
    queues: RwLock<QueueTable>,
    changed_queues: ChangedQueues,
    files: Arc<OpenFiles>,
    /// A killed process may have left unsynced data in any file, so the next checkpoint has to sync the whole file system.
    doubts_disk: AtomicBool,
    key_index: Option<KeyIndex>,
    /// Keys still to be indexed, in log order.
    unindexed: Mutex<VecDeque<Key>>,
    /// Their number, including those being indexed now.
    unindexed_count: AtomicUsize,
    /// The highest log offset that was said to be committed; what is visible may lag behind it.
    told_committed: AtomicU64,
    /// Records that recovery left unpublished. Held while records become committed.
    unpublished: Mutex<Unpublished>,
    /// State records of a leader that are committed and not told yet. Held while one is told.
    untold_states: Mutex<VecDeque<LogOffset>>,
    /// Held while a document is written: replacing it twice at a time would use one temporary file twice.
    documents: Mutex<()>,
    reserve: Arc<Reserve>,
    /// Held while queue entries are written to files, synced or removed.
    flushing: Mutex<()>,
    /// Held while keys are indexed, so that they stay in log order.
    indexing: Mutex<()>,
    /// The last attempt to write keys failed: appends are refused.
    index_has_failed: AtomicBool,
    /// The last attempt to flush entries failed, with too many in memory: appends are refused.
    entries_are_stuck: AtomicBool,
    /// Log offset of the last checkpoint: log, entries and keys below are durable, and recovery starts here.
    checkpointed: AtomicU64,
    /// State records below this are in a snapshot.
    state_known: AtomicU64,
    /// As of the last run of retention.
    disk_state: Mutex<DiskState>,
    /// How long the log is kept, as that is set now.
    retention: Mutex<RetentionPolicy>,
    writes_refused: AtomicBool,
    /// The disk was too full to create the next segment.
    lacks_segment_space: AtomicBool,
    metrics: Arc<Metrics>,
    _lock: DirectoryLock,
}

impl Store {
    /// The data directory.
    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// The queue of that name, created if it is new.
    pub fn queue(&self, topic: &TopicName, queue: QueueId) -> Arc<QueueIndex> {
        self.queue_named(topic.as_str(), queue, || topic.clone())
    }

    fn queue_named(&self, topic: &str, queue: QueueId, name: impl FnOnce() -> TopicName) -> Arc<QueueIndex> {
        if let Some(known) = self.queues.read().get(topic, queue) {
            return known.clone();
        }
        let mut queues = self.queues.write();
        if let Some(known) = queues.get(topic, queue) {
            return known.clone();
        }
        let made = Arc::new(new_queue(&self.files, &name(), queue));
        queues.insert(made.clone());
        made
    }

    /// The queues of a topic that are known, whether it has them still or not.
    pub fn queues_of(&self, topic: &TopicName) -> Vec<Arc<QueueIndex>> {
        self.queues.read().of_topic(topic.as_str()).to_vec()
    }

    fn all_queues(&self) -> Vec<Arc<QueueIndex>> {
        self.queues.read().iter().cloned().collect()
    }

    /// The log's watermarks.
    pub fn watermarks(&self) -> &Watermarks {
        self.log.watermarks()
    }

    /// Where what is appended ends, written or not.
    pub fn log_end(&self) -> LogOffset {
        self.log.appended()
    }

    /// First byte still in the log.
    pub fn log_first(&self) -> LogOffset {
        self.log.first()
    }

    /// Bytes appended and not yet committed, plus keys not yet indexed. Back-pressure depends on it.
    pub fn staged_size(&self) -> usize {
        self.log.staged_size() + self.log.uncommitted_size() + self.unindexed_size()
    }

    /// Bytes of the largest record a segment takes.
    pub fn record_size_max(&self) -> usize {
        self.log.record_size_max()
    }

    /// The bytes that a record's properties must end with: a placeholder for its checksum, or nothing.
    pub const fn checksum_room(&self) -> &'static [u8] {
        if self.options.record_checksums { format::record::CHECKSUM_BLANK } else { &[] }
    }

    /// Which entries and keys a record gets.
    pub const fn index_rules(&self) -> &IndexRules {
        &self.options.index_rules
    }

    /// An empty batch with memory for about `size` bytes of records; it grows on demand.
    pub fn begin_batch(&self, size: usize) -> AppendBatch {
        self.log.begin_batch(size)
    }

    /// Assigns offsets to the records of a batch and stages them; see `CommitLog::append`. Then `write_staged` or `write_if_little`
    /// must be called.
    pub fn append(&self, batch: AppendBatch, now: Timestamp) -> Result<Arc<AppendInfo>, StorageError> {
        if self.options.follows {
            return Err(StorageError::Follows);
        }
        if !batch.is_state_only() {
            self.check_accepts_messages()?;
        } else if self.reserve.is_short() {
            // Changes of state need little: they are taken for as long as there is room at all.
            return Err(self.reserve.refusal());
        }
        self.log.append(batch, now)
    }

    /// Why no messages are accepted now for lack of space, if that is so.
    pub fn check_accepts_messages(&self) -> Result<(), StorageError> {
        if self.writes_refused.load(Ordering::Relaxed) {
            return Err(StorageError::DiskFull(format!(
                "the disk of {} is more than {} % full (retention.disk_refuse_percent): no messages are accepted until there is room",
                self.options.directory.display(),
                self.retention.lock().disk_refuse_percent
            )));
        }
        if self.reserve.is_short() {
            return Err(self.reserve.refusal());
        }
        let stuck = [(&self.index_has_failed, "keys", "index"), (&self.entries_are_stuck, "entries", "consumequeue")];
        if let Some((_, what, directory)) = stuck.iter().find(|(is_stuck, ..)| is_stuck.load(Ordering::Relaxed)) {
            return Err(StorageError::DiskFull(format!(
                "{what} of messages cannot be written to {}, mostly for lack of space (the log says why): no messages are accepted until that is possible",
                self.options.directory.join(directory).display()
            )));
        }
        Ok(())
    }

    /// Writes what is staged and, unless it has to be committed first, makes it visible. Returns whether there was anything.
    pub fn write_staged(&self) -> Result<bool, StorageError> {
        let index_if_many = || {
            if self.is_index_behind() {
                // The indexing thread tries again and logs the error.
                drop(self.index_staged());
            }
        };
        self.log.write_staged(|batch| self.note_published(batch), index_if_many)
    }

    /// Whether so many keys wait to be indexed that `write_staged` does it.
    pub fn is_index_behind(&self) -> bool {
        self.unindexed_size() > UNINDEXED_SIZE_MAX
    }

    /// The same if at most `limit` bytes are staged, without waiting for another thread that writes. `false`: more are staged, and
    /// still to be written.
    pub fn write_if_little(&self, limit: usize) -> Result<bool, StorageError> {
        if self.is_index_behind() {
            return Ok(false);
        }
        self.log.write_if_little(limit, |batch| self.note_published(batch))
    }

    /// Called before `committed` passes the batch, whose entries are in their queues.
    fn note_published(&self, batch: &AppendInfo) {
        self.changed_queues.note_entries(&batch.queues);
        if self.key_index.is_some() && !batch.keys.is_empty() {
            self.unindexed_count.fetch_add(batch.keys.len(), Ordering::Relaxed);
            self.unindexed.lock().extend(batch.keys());
        }
    }

    /// Makes everything written durable. Returns the new `durable`.
    pub fn sync(&self) -> Result<LogOffset, StorageError> {
        self.log.sync()
    }

    /// Everything below `offset`, which must have been written, is at as many replicas as were asked for.
    pub fn set_replicated(&self, offset: LogOffset) {
        self.log.set_replicated(offset);
    }

    /// Whether records are committed only when `set_committed` says so.
    pub const fn is_governed(&self) -> bool {
        matches!(self.options.commit_rule, CommitRule::Told { .. })
    }

    /// Puts everything below `offset`, which was appended, on the disk.
    pub fn sync_until(&self, offset: LogOffset) -> Result<(), StorageError> {
        if self.watermarks().written() < offset {
            self.write_staged()?;
        }
        if self.watermarks().durable() < offset {
            self.log.sync()?;
        }
        Ok(())
    }

    /// State records below `offset` are in a snapshot: retention may remove them.
    pub fn note_state_known(&self, offset: LogOffset) {
        self.state_known.store(offset.0, Ordering::Release);
    }

    /// See `CommitLog::start_write_back`.
    pub fn start_write_back(&self) -> Result<bool, StorageError> {
        self.log.start_write_back()
    }

    /// See `CommitLog::prefault`.
    pub fn prepare_pages(&self) -> u64 {
        self.log.prefault()
    }

    /// See `CommitLog::note_page_cost`.
    pub fn note_page_cost(&self, size: u64, took: Duration) {
        self.log.note_page_cost(size, took);
    }

    /// Whether the log is a leader's.
    pub const fn follows(&self) -> bool {
        self.options.follows
    }

    /// Why the log is poisoned, if it is.
    pub fn poisoned(&self) -> Option<String> {
        self.log.poisoned()
    }

    /// Reads the document `config/<name>`; see `read_document`.
    pub fn read_document(&self, name: &str) -> Result<Option<Value>, StorageError> {
        document::read(&self.options.disk, &self.options.directory, name)
    }

    /// Replaces the document `config/<name>`. A crash leaves the old one or the new one.
    pub fn write_document(&self, name: &str, text: &str) -> Result<(), StorageError> {
        let _one_at_a_time = self.documents.lock();
        document::write(&self.options.disk, &self.options.directory, name, text)
    }

    /// Orderly stop: makes everything durable, and removes the file that marks the directory as in use.
    pub fn close(&self) -> Result<(), StorageError> {
        self.write_staged()?;
        self.checkpoint()?;
        Begun::remove(&self.options.disk, &self.options.directory)
    }
}

pub(crate) fn new_queue(files: &Arc<OpenFiles>, topic: &TopicName, queue: QueueId) -> QueueIndex {
    let zero = QueueOffset(0);
    QueueIndex::new(files.clone(), topic.clone(), queue, (zero, zero))
}
