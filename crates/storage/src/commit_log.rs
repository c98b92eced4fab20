//! The commit log: ordered segments, append, write, sync, read.
//!
//! A record takes three steps. `append` gives it log offset and queue offset under the append lock (memory only). `write_staged`
//! puts what was appended into the page cache, in order, and advances `written`: from then on it is visible, or in a governed group
//! once it is committed. `sync` puts it on the disk and advances `durable`. After a failed write or sync the log is poisoned and every later call fails.

mod commit;
mod listed;
mod pages;
mod publish;
mod raw;
mod read;
mod sealing;
mod segments;
mod unreadable;

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use base::limits::RECORD_SIZE_MAX;
use base::metric::Metrics;
use base::offset::{Watermark, Watermarks};
use base::{LogOffset, Timestamp};
use bytes::Bytes;
use format::index_rules::{EntryCode, IndexRules};
use format::record::FILLER_SIZE;
use parking_lot::{Mutex, RwLock};

use crate::answer_memory::AnswerMemory;
use crate::batch::{AppendBatch, AppendInfo};
use crate::buffers::Buffers;
use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::extents::Extents;
use crate::queue_index::QueueIndex;
use crate::recent::Recent;
use crate::reserve::Reserve;
use crate::segment::Segment;
use crate::store::Options;
use crate::waiters::Waiters;

use commit::Uncommitted;
use pages::{PagesAhead, PagesKept, PagesRead};
use publish::publish_entries;
pub(crate) use raw::{RawRecords, Taken};
use sealing::Sealing;

#[derive(Debug)]
pub(crate) struct CommitLog {
    disk: Disk,
    directory: PathBuf,
    segment_size: u64,
    /// In order of their base offsets, contiguous.
    segments: RwLock<Vec<Arc<Segment>>>,
    tail: Mutex<Tail>,
    /// Segments exist up to here. Held while one is created, so that only one thread creates it.
    made_until: Mutex<u64>,
    /// While this is given up no segment is created.
    reserve: Arc<Reserve>,
    staged: Mutex<Vec<Staged>>,
    /// Held while staged batches are written and published, so that this happens in log order.
    writing: Mutex<()>,
    /// Held through a sync: the kernel reports lost bytes to one `fdatasync` only, and a second one beside it would succeed.
    syncing: Mutex<()>,
    staged_size: AtomicUsize,
    uncommitted: Uncommitted,
    watermarks: Arc<Watermarks>,
    waiters: Waiters,
    recent: Recent,
    buffers: Buffers,
    extents: Extents,
    answers: AnswerMemory,
    poison: Mutex<Option<String>>,
    damage: Damage,
    index_rules: IndexRules,
    record_checksums: bool,
    has_key_index: bool,
    /// Everything below this is in the segment files. Ahead of `written` while entries are published, so that whoever sees an entry
    /// can read its record.
    in_segments: AtomicU64,
    /// Write-back was started for everything below this.
    write_back_started: AtomicU64,
    pages: Mutex<PagesAhead>,
    pages_kept: Mutex<PagesKept>,
    pages_read: Mutex<PagesRead>,
    metrics: Arc<Metrics>,
}

/// What the append lock guards.
#[derive(Debug)]
struct Tail {
    /// Next byte of the log. Everything below is appended, though perhaps not yet written.
    next: u64,
    /// Segments exist at least up to here.
    prepared_until: u64,
    /// Never runs backwards, even if the clock does.
    last_timestamp: Timestamp,
}

/// An appended batch, not yet written.
#[derive(Debug)]
struct Staged {
    batch: Arc<AppendInfo>,
    /// Pieces of the batch with their log offsets: one, or more around the end of a segment.
    pieces: Vec<(u64, Bytes)>,
}

impl CommitLog {
    /// A log over recovered segments that has come as far as `watermarks` say.
    pub(crate) fn new(
        options: &Options,
        directory: PathBuf,
        segments: Vec<Arc<Segment>>,
        watermarks: Watermarks,
        reserve: Arc<Reserve>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (durable, end) = (watermarks.durable(), watermarks.written());
        let prepared_until = segments.last().map_or(end.0, |last| last.end());
        metrics.log_written_bytes.set(end.0);
        metrics.log_durable_bytes.set(durable.0);
        Self {
            disk: options.disk.clone(),
            directory,
            segment_size: options.segment_size,
            segments: RwLock::new(segments),
            tail: Mutex::new(Tail { next: end.0, prepared_until, last_timestamp: Timestamp(0) }),
            made_until: Mutex::new(prepared_until),
            reserve,
            staged: Mutex::default(),
            writing: Mutex::default(),
            syncing: Mutex::default(),
            staged_size: AtomicUsize::new(0),
            uncommitted: Uncommitted::default(),
            watermarks: Arc::new(watermarks),
            waiters: Waiters::default(),
            recent: Recent::new(options.recent_size),
            buffers: Buffers::new(options.recent_size),
            extents: Extents::new(),
            answers: AnswerMemory::default(),
            poison: Mutex::new(None),
            damage: Damage::new(metrics.clone()),
            index_rules: options.index_rules.clone(),
            record_checksums: options.record_checksums,
            has_key_index: options.key_index,
            in_segments: AtomicU64::new(end.0),
            write_back_started: AtomicU64::new(end.0),
            pages: Mutex::new(PagesAhead::new(end.0)),
            pages_kept: Mutex::new(PagesKept::new(end.0)),
            pages_read: Mutex::default(),
            metrics,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) const fn watermarks(&self) -> &Arc<Watermarks> {
        &self.watermarks
    }

    pub(crate) fn waiting(&self, watermark: Watermark) -> usize {
        self.waiters.count(watermark)
    }

    /// First byte still kept.
    pub(crate) fn first(&self) -> LogOffset {
        LogOffset(self.segments.read().first().map_or_else(|| self.watermarks.written().0, |first| first.base()))
    }

    /// An empty batch with memory for about `size` bytes of records.
    pub(crate) fn begin_batch(&self, size: usize) -> AppendBatch {
        AppendBatch::with_buffer(self.buffers.take(size), self.has_key_index, self.record_checksums)
    }

    /// Bytes appended and not yet written.
    pub(crate) fn staged_size(&self) -> usize {
        self.staged_size.load(Ordering::Relaxed)
    }

    /// Gives every record of `batch` its offsets, and stages the bytes for `write_staged`.
    ///
    /// Fails without storing anything if the next segment cannot be created, or a topic was removed meanwhile.
    pub(crate) fn append(&self, batch: AppendBatch, now: Timestamp) -> Result<Arc<AppendInfo>, StorageError> {
        let AppendBatch { mut bytes, mut records, queues, fan_out, routed, keys, parked, unlisted, closed, .. } = batch;
        let queues = queues.into_queues();
        self.check_poison()?;
        let mut tail = self.tail.lock();
        // Nobody reads what comes into a message queue that is gone, and no other will have its number: the others get theirs.
        let is_closed = |queue: &&Arc<QueueIndex>| queue.is_removed() && queue.message_queue().is_none();
        if let Some(gone) = queues.iter().find(is_closed) {
            return Err(StorageError::TopicRemoved(gone.topic().clone()));
        }
        let plan = self.plan(&mut tail, &records)?;
        let store_timestamp = now.max(tail.last_timestamp);
        tail.last_timestamp = store_timestamp;
        for number in parked {
            if let Some(record) = records.get_mut(number as usize) {
                record.tag_code = EntryCode::DueAfter(record.tag_code as u64).at(store_timestamp);
            }
        }
        let seal = Sealing { queues: &queues, store_timestamp, has_checksums: self.record_checksums };
        let offset = seal.all(&mut bytes, &mut records, (&fan_out, &routed), tail.next, &plan);
        closed.iter().for_each(|queue| queue.note_removed());
        let start = tail.next;
        tail.next = offset;
        let whole = bytes.split().freeze();
        let appended = Arc::new(AppendInfo {
            size: whole.len(),
            messages: (records.len() - unlisted.0, whole.len() - unlisted.1),
            queues,
            fan_out,
            routed,
            keys,
            foreign_states: Vec::new(),
            records,
            store_timestamp,
            end: LogOffset(offset),
        });
        let pieces = segments::pieces(&appended.records, &whole, start, &plan);
        self.staged_size.fetch_add(appended.size, Ordering::Relaxed);
        self.staged.lock().push(Staged { batch: appended.clone(), pieces });
        drop(tail);
        self.buffers.give_back(bytes, appended.size);
        Ok(appended)
    }

    /// From now on nothing is appended to these queues. Records appended before may still be staged.
    pub(crate) fn close_queues(&self, queues: &[Arc<QueueIndex>]) {
        let _no_append = self.tail.lock();
        queues.iter().for_each(|queue| queue.note_removed());
    }

    /// Bytes of the largest record a segment takes.
    pub(crate) fn record_size_max(&self) -> usize {
        usize::try_from(self.segment_size).unwrap_or(usize::MAX).saturating_sub(FILLER_SIZE).min(RECORD_SIZE_MAX)
    }

    /// Writes what was staged, and unless it has to be committed first, makes it visible and passes each batch to `published`. Waits
    /// for another thread that writes. Calls `between` after each write, with no lock held. Returns whether there was anything.
    pub(crate) fn write_staged(
        &self,
        mut published: impl FnMut(&AppendInfo),
        mut between: impl FnMut(),
    ) -> Result<bool, StorageError> {
        let mut any = false;
        loop {
            let guard = self.writing.lock();
            any |= self.write_taken(&mut published)?;
            drop(guard);
            between();
            if self.nothing_is_staged() {
                return Ok(any);
            }
        }
    }

    /// The same, but only up to `limit` bytes and without waiting for another thread that writes. `false`: it is more, and still
    /// to be written. `true`: all that was staged before the call is written or about to be.
    pub(crate) fn write_if_little(
        &self,
        limit: usize,
        mut published: impl FnMut(&AppendInfo),
    ) -> Result<bool, StorageError> {
        while self.staged_size() <= limit {
            // The thread that holds the lock looks for staged batches again after releasing it, so this one's are not lost.
            let Some(guard) = self.writing.try_lock() else { return Ok(true) };
            self.write_taken(&mut published)?;
            drop(guard);
            if self.nothing_is_staged() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn nothing_is_staged(&self) -> bool {
        self.staged.lock().is_empty()
    }

    /// Takes what is staged and writes it. The caller holds `writing`.
    fn write_taken(&self, published: &mut impl FnMut(&AppendInfo)) -> Result<bool, StorageError> {
        self.check_poison()?;
        let staged = std::mem::take(&mut *self.staged.lock());
        let Some(last) = staged.last() else { return Ok(false) };
        let end = last.batch.end;
        if let Err(error) = self.write_pieces(&staged) {
            self.poison(&error);
            return Err(error);
        }
        for (offset, bytes) in staged.iter().flat_map(|one| &one.pieces) {
            self.recent.push(*offset, bytes.clone());
        }
        self.in_segments.store(end.0, Ordering::Release);
        self.metrics.log_writes.add(1);
        self.metrics.log_written_bytes.set(end.0);
        for one in staged {
            self.metrics.messages_in.add(one.batch.messages.0 as u64);
            self.metrics.message_bytes_in.add(one.batch.messages.1 as u64);
            self.staged_size.fetch_sub(one.batch.size, Ordering::Relaxed);
            if self.watermarks.is_governed() {
                self.uncommitted.push(one.batch);
            } else {
                publish_entries(&one.batch);
                published(&one.batch);
            }
        }
        self.watermarks.advance_written(end);
        self.waiters.wake(Watermark::Written, end);
        Ok(true)
    }

    /// Writes runs of pieces that lie next to each other in one segment with one call each.
    fn write_pieces(&self, staged: &[Staged]) -> Result<(), StorageError> {
        let mut pieces = staged.iter().flat_map(|one| &one.pieces).peekable();
        let mut slices = Vec::new();
        while let Some((start, bytes)) = pieces.next() {
            let segment = self.segment_at(*start)?;
            let mut end = start + bytes.len() as u64;
            slices.clear();
            slices.push(IoSlice::new(bytes));
            while let Some((_, bytes)) = pieces.next_if(|(next, _)| *next == end && segment.contains(*next)) {
                slices.push(IoSlice::new(bytes));
                end += bytes.len() as u64;
            }
            segment.file().write_vectored_at(&slices, segment.position(LogOffset(*start)))?;
        }
        Ok(())
    }

    /// Puts everything below `written` on the disk. Returns the new `durable`.
    pub(crate) fn sync(&self) -> Result<LogOffset, StorageError> {
        let _one_at_a_time = self.syncing.lock();
        self.check_poison()?;
        let target = self.watermarks.written();
        let from = self.watermarks.durable();
        if target > from {
            let touched: Vec<_> =
                self.segments.read().iter().filter(|s| s.end() > from.0 && s.base() < target.0).cloned().collect();
            for segment in touched {
                if let Err(error) = segment.file().sync_data() {
                    self.poison(&error);
                    return Err(error);
                }
            }
            self.metrics.log_syncs.add(1);
            self.watermarks.advance_durable(target);
            self.metrics.log_durable_bytes.set(target.0);
        }
        self.waiters.wake(Watermark::Durable, target);
        Ok(target)
    }

    /// Everything below `offset` is at the replicas.
    pub(crate) fn set_replicated(&self, offset: LogOffset) {
        self.watermarks.advance_replicated(offset);
        self.waiters.wake(Watermark::Replicated, offset);
    }

    /// Wakes `waker` once `watermark` reaches `offset` or the log is poisoned; at once if that is so already. Returns how many wait
    /// for that watermark.
    pub(crate) fn when(&self, watermark: Watermark, offset: LogOffset, waker: Waker) -> usize {
        // Alone, nobody moves `committed` but who moves `written`.
        let moves_with_written = watermark == Watermark::Committed && !self.watermarks.is_governed();
        let watermark = if moves_with_written { Watermark::Written } else { watermark };
        let waiting = self.waiters.register(&self.watermarks, watermark, offset, waker);
        // No lost wake-up: this looks after registering, and `poison` wakes after setting the reason.
        if self.poisoned().is_some() {
            self.waiters.wake_all();
        }
        waiting
    }

    /// Wakes all that wait for a watermark.
    pub(crate) fn wake_all_of(&self, watermark: Watermark) {
        self.waiters.wake_all_of(watermark);
    }

    /// How often that was done.
    pub(crate) fn wakes_of_all(&self, watermark: Watermark) -> u64 {
        self.waiters.wakes_of_all(watermark)
    }

    pub(crate) fn poison(&self, error: &StorageError) {
        self.poison.lock().get_or_insert_with(|| error.to_string());
        self.metrics.log_poisoned.set(1);
        self.waiters.wake_all();
    }

    /// The reason why no more writes are accepted, if that is so.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.poison.lock().clone()
    }

    fn check_poison(&self) -> Result<(), StorageError> {
        self.poisoned().map_or(Ok(()), |reason| Err(StorageError::Poisoned(reason)))
    }
}
