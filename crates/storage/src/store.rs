//! The store: log, queues and key index of one data directory, opened together and kept in step.

mod flush;
mod open;
mod remove;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use base::metric::Metrics;
use base::offset::{Watermark, Watermarks};
use base::record::Record;
use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::batch::{AppendBatch, Appended};
use crate::begun::Begun;
use crate::commit_log::CommitLog;
use crate::damage::problem_of_listed;
use crate::disk::{DirectoryLock, Disk};
use crate::document;
use crate::error::StorageError;
use crate::key_index::KeyIndex;
use crate::open_files::OpenFiles;
use crate::queue_index::{Entry, QueueIndex};
use crate::records::Records;
use crate::recover::{self, Queues};
use crate::retention::{DiskState, LogState, RetentionOutcome, RetentionPolicy};

/// How a store is laid out and what it keeps.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the files are on: `Disk::real()` but in tests.
    pub disk: Disk,
    /// Data directory.
    pub directory: PathBuf,
    /// Directory of the log's segments, if not `commitlog` in the data directory.
    pub log_directory: Option<PathBuf>,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// Entries of a queue's file.
    pub queue_file_entries: u64,
    /// Entries of all queues that may gather in memory before they are written into files.
    pub gathered_entries: u64,
    /// Files of queues that are kept open. If more were written to when a checkpoint is due, the whole disk is synced.
    pub open_queue_files: usize,
    /// Whether keys are indexed.
    pub key_index: bool,
    /// Hash slots of a key-index file.
    pub key_index_slots: u32,
    /// Entries of a key-index file.
    pub key_index_entries: u32,
    /// Bytes of the log's end kept in memory for consumers that keep up.
    pub recent_size: usize,
    /// Whether records get a checksum over all of them (see `Store::checksum_room`), and whether those there are must hold.
    pub record_checksums: bool,
    /// Delay of each level, ms: needed to make the entries of parked messages again.
    pub delay_levels_ms: Vec<u64>,
    /// When old segments go.
    pub retention: RetentionPolicy,
}

impl Options {
    /// A store in `directory` on the machine's file system, laid out as a RocketMQ broker does it unless told otherwise.
    pub fn new(directory: &Path) -> Self {
        Self {
            disk: Disk::real(),
            directory: directory.to_owned(),
            log_directory: None,
            segment_size: 1 << 30,
            queue_file_entries: 300_000,
            gathered_entries: 1 << 20,
            open_queue_files: 256,
            key_index: true,
            key_index_slots: 5_000_000,
            key_index_entries: 20_000_000,
            recent_size: 64 << 20,
            record_checksums: false,
            delay_levels_ms: Vec::new(),
            retention: RetentionPolicy::default(),
        }
    }
}

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Only what is in memory; else `StorageError::WouldBlock`.
    IfCached,
    /// Wait for the disk if need be: not on a network thread.
    MayWait,
}

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    options: Options,
    log: CommitLog,
    queues: RwLock<Queues>,
    files: Arc<OpenFiles>,
    /// A process that was killed may have left anything in the page cache, of any file.
    doubts_disk: AtomicBool,
    key_index: Option<KeyIndex>,
    /// Batches whose keys are still to be indexed, in log order.
    unindexed: Mutex<VecDeque<Arc<Appended>>>,
    /// Held while a document is written: each is replaced through one temporary file.
    documents: Mutex<()>,
    /// Held while queue entries are written into files, synced or removed.
    flushing: Mutex<()>,
    /// One thread indexes at a time, so that keys stay in log order.
    indexing: Mutex<()>,
    /// Keys could not be written when this was last tried: no more messages are taken meanwhile.
    index_has_failed: AtomicBool,
    /// Everything below this was on the disk with its entries and keys at the last checkpoint: recovery begins there.
    checkpointed: AtomicU64,
    /// As of the last look.
    disk_state: Mutex<DiskState>,
    writes_refused: AtomicBool,
    /// The next segment could not be made for lack of room.
    has_no_room: AtomicBool,
    metrics: Arc<Metrics>,
    _lock: DirectoryLock,
}

impl Store {
    /// The data directory.
    pub fn directory(&self) -> &Path {
        &self.options.directory
    }

    /// The queue of that name, made if it is new.
    pub fn queue(&self, topic: &TopicName, queue: QueueId) -> Arc<QueueIndex> {
        let key = (topic.clone(), queue);
        if let Some(known) = self.queues.read().get(&key) {
            return known.clone();
        }
        let mut queues = self.queues.write();
        let made =
            queues.entry(key).or_insert_with(|| Arc::new(new_queue_at(&self.options, &self.files, topic, queue)));
        made.clone()
    }

    fn all_queues(&self) -> Vec<Arc<QueueIndex>> {
        self.queues.read().values().cloned().collect()
    }

    /// Topics that have queues on the disk or in memory, each with its number of queues: one more than the highest number.
    pub fn topics(&self) -> BTreeMap<TopicName, u32> {
        let mut topics = BTreeMap::new();
        for (topic, queue) in self.queues.read().keys() {
            let count = topics.entry(topic.clone()).or_insert(0);
            *count = queue.0.saturating_add(1).max(*count);
        }
        topics
    }

    /// How far the log has come.
    pub fn watermarks(&self) -> &Watermarks {
        self.log.watermarks()
    }

    /// First byte still in the log.
    pub fn log_first(&self) -> LogOffset {
        self.log.first()
    }

    /// Bytes appended and not yet written: what back-pressure looks at.
    pub fn staged_size(&self) -> usize {
        self.log.staged_size()
    }

    /// Bytes of the largest record a segment takes.
    pub fn record_size_max(&self) -> usize {
        self.log.record_size_max()
    }

    /// What the property block of each record must end with: room for its checksum, or nothing.
    pub const fn checksum_room(&self) -> &'static [u8] {
        if self.options.record_checksums { base::record::CHECKSUM_BLANK } else { &[] }
    }

    /// An empty batch with memory for about `size` bytes of records; it grows if they are more.
    pub fn begin_batch(&self, size: usize) -> AppendBatch {
        self.log.begin_batch(size)
    }

    /// Gives a batch its places; see `CommitLog::append`. The caller then has the log written
    /// (`write_staged`, `write_if_little`).
    pub fn append(&self, batch: AppendBatch, now: Timestamp) -> Result<Arc<Appended>, StorageError> {
        if self.writes_refused.load(Ordering::Relaxed) {
            return Err(StorageError::DiskFull(format!(
                "the disk of {} is more than {} % full (retention.disk_refuse_percent): no more messages are taken until there is room",
                self.options.directory.display(),
                self.options.retention.disk_refuse_percent
            )));
        }
        if self.index_has_failed.load(Ordering::Relaxed) {
            return Err(StorageError::DiskFull(format!(
                "keys of messages cannot be written to {}: no more messages are taken until there is room",
                self.options.directory.join("index").display()
            )));
        }
        self.log.append(batch, now)
    }

    /// Writes what was appended and makes it visible. Returns whether there was anything.
    pub fn write_staged(&self) -> Result<bool, StorageError> {
        self.log.write_staged(|batch| self.remember_keys(batch))
    }

    /// The same if it is at most `limit` bytes, without waiting for another who writes. `false`: it is more, and still to be
    /// written.
    pub fn write_if_little(&self, limit: usize) -> Result<bool, StorageError> {
        self.log.write_if_little(limit, |batch| self.remember_keys(batch))
    }

    fn remember_keys(&self, batch: Arc<Appended>) {
        if self.key_index.is_some() {
            self.unindexed.lock().push_back(batch);
        }
    }

    /// Indexes the keys of what was written. What fails is tried again next time; no checkpoint is made before it has
    /// succeeded, so that recovery would do it too.
    pub fn index_staged(&self) -> Result<(), StorageError> {
        let Some(index) = &self.key_index else { return Ok(()) };
        let _in_log_order = self.indexing.lock();
        let mut batches = std::mem::take(&mut *self.unindexed.lock());
        while let Some(batch) = batches.pop_front() {
            if let Err(error) = index.add(&batch) {
                self.index_has_failed.store(true, Ordering::Relaxed);
                batches.push_front(batch);
                let mut unindexed = self.unindexed.lock();
                batches.append(&mut unindexed);
                *unindexed = batches;
                return Err(error);
            }
        }
        self.index_has_failed.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Puts everything appended on the disk.
    pub fn sync(&self) -> Result<LogOffset, StorageError> {
        self.log.sync()
    }

    /// Has the kernel begin to write what was appended; see `CommitLog::start_write_back`.
    pub fn start_write_back(&self) -> Result<bool, StorageError> {
        self.log.start_write_back()
    }

    /// Has the kernel make pages for what comes next; see `CommitLog::prepare_pages`.
    pub fn prepare_pages(&self) -> u64 {
        self.log.prepare_pages()
    }

    /// Takes in what that took; see `CommitLog::note_page_cost`.
    pub fn note_page_cost(&self, size: u64, took: Duration) {
        self.log.note_page_cost(size, took);
    }

    /// How many wait for a sync.
    pub fn waiting_for_sync(&self) -> usize {
        self.log.waiting(Watermark::Durable)
    }

    /// Has `waker` called once; see `CommitLog::when`.
    pub fn when(&self, watermark: Watermark, offset: LogOffset, waker: Waker) -> usize {
        self.log.when(watermark, offset, waker)
    }

    /// Why no more writes are accepted, if that is so.
    pub fn poisoned(&self) -> Option<String> {
        self.log.poisoned()
    }

    /// The records that entries of `queue` point at; `None` for a place that holds none or a damaged one.
    pub fn read(
        &self,
        queue: &QueueIndex,
        entries: &[(QueueOffset, Entry)],
        mode: ReadMode,
    ) -> Result<Records, StorageError> {
        self.log.read(queue, entries, mode)
    }

    /// The record at a place in the log, waiting for the disk if need be. `None` if none begins there or it is damaged. One that
    /// no queue lists is given as it is: its topic was removed, or else its header is damaged, which cannot be told.
    pub fn record_at(&self, place: LogOffset) -> Result<Option<Bytes>, StorageError> {
        let Some(bytes) = self.log.record_at(place)? else { return Ok(None) };
        let Ok(record) = Record::decode(&bytes) else { return Ok(None) };
        let key = (TopicName::trusted(record.topic), record.queue);
        let Some(queue) = self.queues.read().get(&key).cloned() else { return Ok(Some(bytes)) };
        let problem = match queue.entry(record.queue_offset)? {
            Some(entry) if entry.log_offset == place => {
                problem_of_listed(&bytes, &queue, &(record.queue_offset, entry), false)
            }
            // A later record would be one of the topic's next life.
            Some(entry) if entry.log_offset < place => Some("its queue has an earlier record at its offset"),
            _ => None,
        };
        problem.iter().for_each(|problem| self.log.tell_damage(place, problem));
        Ok(problem.is_none().then_some(bytes))
    }

    /// When the oldest record still kept was stored; `None` if there is none.
    pub fn earliest_store_time(&self) -> Result<Option<Timestamp>, StorageError> {
        self.log.segments().first().map_or(Ok(None), |oldest| recover::first_store_time(oldest))
    }

    /// When the record of `entry` was stored, waiting for the disk if need be.
    pub fn store_time(&self, entry: &Entry) -> Result<Option<Timestamp>, StorageError> {
        let size = (entry.size as usize).min(base::record::STORE_TIMESTAMP_WITHIN);
        if entry.log_offset < self.log.first() || entry.log_offset.after(size as u64) > self.watermarks().appended() {
            return Ok(None);
        }
        let bytes = self.log.read_bytes(entry.log_offset.0, size, ReadMode::MayWait)?;
        Ok(base::record::store_timestamp_of(&bytes))
    }

    /// Places of records with a key of this hash, newest first; see `KeyIndex::find`.
    pub fn find_by_key(
        &self,
        hash: u32,
        times: (Timestamp, Timestamp),
        count: usize,
        accept: impl FnMut(LogOffset) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        self.index_staged()?;
        self.key_index.as_ref().map_or(Ok(()), |index| index.find(hash, times, count, accept))
    }

    /// Time and place of the last record in the key index.
    pub fn key_index_last(&self) -> (Timestamp, LogOffset) {
        self.key_index.as_ref().map(KeyIndex::last).unwrap_or_default()
    }

    /// Makes the next segment ahead of time if it will be needed soon.
    pub fn prepare_next_segment(&self) -> Result<(), StorageError> {
        let prepared = self.log.prepare_next_segment();
        self.has_no_room.store(prepared.as_ref().is_err_and(StorageError::is_disk_full), Ordering::Relaxed);
        prepared
    }

    /// Looks at log and disk, removes what retention says goes, and decides whether writes are refused.
    /// `hour_of_day` is the hour in UTC. Only segments below the last checkpoint go: a queue whose entries are not on the disk
    /// yet would begin anew where it was before them, should the power fail.
    pub fn apply_retention(&self, now: Timestamp, hour_of_day: u8) -> Result<RetentionOutcome, StorageError> {
        let policy = &self.options.retention;
        let below = LogOffset(self.checkpointed.load(Ordering::Acquire));
        // The disk is asked once. A removed segment that somebody still reads or syncs gives its room back later: were the disk
        // asked again now, the next segments would go for nothing.
        let (mut used, total) = self.disk_usage()?;
        let mut removed = 0;
        let disk_used_percent = loop {
            let used_percent = (used.saturating_mul(100) / total.max(1)).min(100) as u8;
            let goes = policy.removes(policy.disk_state(used_percent), self.log_state(now), hour_of_day);
            let Some(freed) = (if goes { self.log.remove_oldest(below)? } else { None }) else { break used_percent };
            used = used.saturating_sub(freed);
            removed += 1;
        };
        let disk = {
            let mut state = self.disk_state.lock();
            *state = policy.next_disk_state(*state, disk_used_percent);
            *state
        };
        self.writes_refused.store(disk == DiskState::Full, Ordering::Relaxed);
        self.metrics.disk_used_percent.set(u64::from(disk_used_percent));
        self.metrics.disk_state.set(disk as u64);
        if removed > 0 {
            let _not_while_written = self.flushing.lock();
            let (first, mut queues) = (self.log.first(), self.all_queues());
            recover::sort(&mut queues);
            queues.iter().try_for_each(|queue| queue.drop_before(first))?;
            if let Some(index) = &self.key_index {
                index.drop_before(first)?;
            }
        }
        Ok(RetentionOutcome { removed, disk, disk_used_percent })
    }

    fn log_state(&self, now: Timestamp) -> LogState {
        let oldest = self.log.segments().first().and_then(|oldest| self.options.disk.modified_ms(oldest.file().path()));
        LogState {
            size: self.watermarks().appended().0.saturating_sub(self.log.first().0),
            oldest_age_ms: oldest.map_or(0, |modified| now.0.saturating_sub(modified)),
        }
    }

    /// Whether no more messages are taken, or soon will not be, since the disk does not take them.
    pub fn writes_are_refused(&self) -> bool {
        [&self.writes_refused, &self.has_no_room, &self.index_has_failed].iter().any(|why| why.load(Ordering::Relaxed))
    }

    /// Bytes used on the log's disk, and bytes there are.
    pub fn disk_usage(&self) -> Result<(u64, u64), StorageError> {
        self.options.disk.usage(self.log.directory())
    }

    /// Reads the document `config/<name>`; see `document::read`.
    pub fn read_document(&self, name: &str) -> Result<Option<Value>, StorageError> {
        document::read(&self.options.disk, &self.options.directory, name)
    }

    /// Replaces the document `config/<name>`: a crash leaves the old one or the new one. Of two that come at once, each is
    /// written whole, one after the other; which comes last is for the callers to agree on.
    pub fn write_document(&self, name: &str, text: &str) -> Result<(), StorageError> {
        let _one_at_a_time = self.documents.lock();
        document::write(&self.options.disk, &self.options.directory, name, text)
    }

    /// Stops in good order: everything on the disk, and no sign of an unclean stop left behind.
    pub fn close(&self) -> Result<(), StorageError> {
        self.write_staged()?;
        self.checkpoint()?;
        Begun::remove(&self.options.disk, &self.options.directory)
    }
}

fn new_queue_at(options: &Options, files: &Arc<OpenFiles>, topic: &TopicName, queue: QueueId) -> QueueIndex {
    let directory = options.directory.join("consumequeue").join(topic.as_str()).join(queue.0.to_string());
    let zero = QueueOffset(0);
    QueueIndex::new(files.clone(), topic.clone(), queue, directory, options.queue_file_entries, (zero, zero))
}
