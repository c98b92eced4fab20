//! A queue: entries in order, each pointing at a record. On disk, RocketMQ's ConsumeQueue format.
//!
//! ```text
//! offset  size  field                      file: consumequeue/<topic>/<queue>/<20 digits: first byte's number>
//!      0     8  log offset of the record
//!      8     4  size of the record         (0: no entry here yet)
//!     12     8  tag code, or due time of a delayed message
//! ```
//! `next` is given out under the append lock and runs ahead; `visible` follows once the record is written. Entries are kept in
//! memory until `flush` has put them into files. After a crash they are made again from the log.

mod cut;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use base::{LogOffset, QueueId, QueueOffset, TopicName};
use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::segment::file_name;
use crate::store::ReadMode;

/// Bytes of one entry.
pub(crate) const ENTRY_SIZE: usize = 20;

/// Entries that stay in memory after they were flushed, for consumers that keep up.
const RECENT_ENTRIES: usize = 128;

/// Places kept for records lost to damage; a longer gap is a queue that was begun anew.
const DAMAGED_IN_A_ROW_MAX: u64 = 1_000_000;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the record is.
    pub log_offset: LogOffset,
    /// Bytes of the record.
    pub size: u32,
    /// Code of its tag, or the time it is due.
    pub tag_code: i64,
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..8].copy_from_slice(&self.log_offset.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tag_code.to_be_bytes());
        bytes
    }

    /// Whether it stands for no record at all.
    pub(crate) fn is_gap(&self) -> bool {
        *self == GAP
    }

    /// Reads an entry; `None` where there is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (log_offset, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (tag_code, _) = rest.split_first_chunk()?;
        let entry = Self {
            log_offset: LogOffset(u64::from_be_bytes(*log_offset)),
            size: u32::from_be_bytes(*size),
            tag_code: i64::from_be_bytes(*tag_code),
        };
        (entry.size > 0).then_some(entry)
    }
}

/// Stands where there is no record any more (RocketMQ `fillPreBlank`).
pub(crate) const GAP: Entry = Entry { log_offset: LogOffset(0), size: i32::MAX as u32, tag_code: 0 };

/// One queue's entries.
#[derive(Debug)]
pub struct QueueIndex {
    disk: Disk,
    topic: TopicName,
    queue: QueueId,
    directory: PathBuf,
    entries_per_file: u64,
    /// Next offset to be given out; written under the append lock only.
    next: AtomicU64,
    /// Entries below this can be read.
    visible: AtomicU64,
    /// First entry whose record is still in the log.
    first: AtomicU64,
    state: Mutex<State>,
    /// The process that made the queue's directories may have been killed before their names were on the disk.
    doubts_names: AtomicBool,
    has_watchers: AtomicBool,
    watchers: Mutex<Vec<Waker>>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest entries, ending at `visible`.
    recent: VecDeque<Entry>,
    /// Entries below this are in files.
    flushed: u64,
    writing: Option<(u64, Arc<DiskFile>)>,
    /// Files that were written to and not handed out for a sync yet, open until then.
    unsynced: Vec<Arc<DiskFile>>,
    reading: Option<(u64, Arc<DiskFile>)>,
}

impl QueueIndex {
    /// A queue with entries `first..next` in its files.
    pub(crate) fn new(
        disk: Disk,
        topic: TopicName,
        queue: QueueId,
        directory: PathBuf,
        entries_per_file: u64,
        first: QueueOffset,
        next: QueueOffset,
    ) -> Self {
        Self {
            disk,
            topic,
            queue,
            directory,
            entries_per_file,
            next: AtomicU64::new(next.0),
            visible: AtomicU64::new(next.0),
            first: AtomicU64::new(first.0),
            state: Mutex::new(State { flushed: next.0, ..State::default() }),
            doubts_names: AtomicBool::new(true),
            has_watchers: AtomicBool::new(false),
            watchers: Mutex::default(),
        }
    }

    /// Topic the queue belongs to.
    pub const fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Its number.
    pub const fn queue(&self) -> QueueId {
        self.queue
    }

    /// First entry that can be read.
    pub fn first(&self) -> QueueOffset {
        QueueOffset(self.first.load(Ordering::Acquire))
    }

    /// One past the last entry that can be read.
    pub fn end(&self) -> QueueOffset {
        QueueOffset(self.visible.load(Ordering::Acquire))
    }

    /// The next offset; called under the append lock.
    pub(crate) fn take_next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds the next entries and wakes whoever watches.
    pub(crate) fn publish(&self, entries: impl Iterator<Item = Entry>) {
        {
            let mut state = self.state.lock();
            let before = state.recent.len();
            state.recent.extend(entries);
            let added = (state.recent.len() - before) as u64;
            if added == 0 {
                return;
            }
            self.visible.fetch_add(added, Ordering::AcqRel);
        }
        self.wake_watchers();
    }

    /// Adds one entry during recovery, where offsets come from the record and may repeat what is in the files already.
    pub(crate) fn restore(&self, offset: QueueOffset, entry: Entry) -> Result<(), StorageError> {
        if offset < self.end() && offset >= self.first() {
            if self.entry(offset)? == Some(entry) {
                return Ok(());
            }
            // The topic was removed and made again: the later record begins a new life of the queue.
            self.restart_at(offset)?;
        }
        let gap = offset.0.saturating_sub(self.end().0);
        if gap > 0 && gap <= DAMAGED_IN_A_ROW_MAX && self.end() > self.first() {
            // Damaged records in between: their places stay, and reading them finds nothing whole.
            let lost = Entry { log_offset: entry.log_offset, size: 1, tag_code: 0 };
            self.next.store(offset.0, Ordering::Release);
            self.publish(std::iter::repeat_n(lost, gap as usize));
        } else if gap > 0 || offset < self.end() {
            self.restart_at(offset)?;
        }
        self.take_next();
        self.publish(std::iter::once(entry));
        Ok(())
    }

    /// Goes on at `offset`: what lies before is gone (its records were deleted), or what lies after is void.
    ///
    /// A gap before it within its file is filled as Java does, with entries that point at no record: a file is searched
    /// for its end, and nothing that has no entry may stand before one that has.
    fn restart_at(&self, offset: QueueOffset) -> Result<(), StorageError> {
        self.flush()?;
        let keeps_front = offset >= self.first() && offset <= self.end();
        let file_start = offset.0 - offset.0 % self.entries_per_file;
        let gap_start = if offset > self.end() { self.end().0.max(file_start) } else { file_start };
        if !keeps_front && gap_start < offset.0 {
            self.write_bytes(gap_start, &GAP.encode().repeat((offset.0 - gap_start) as usize))?;
        }
        let mut state = self.state.lock();
        *state = State { flushed: offset.0, unsynced: std::mem::take(&mut state.unsynced), ..State::default() };
        self.next.store(offset.0, Ordering::Release);
        self.visible.store(offset.0, Ordering::Release);
        if !keeps_front {
            self.first.store(offset.0, Ordering::Release);
        }
        Ok(())
    }

    /// Calls `waker` when the next entry is added. Look at `end` again afterwards: what came before is not told.
    pub fn watch(&self, waker: Waker) {
        let mut watchers = self.watchers.lock();
        watchers.push(waker);
        self.has_watchers.store(true, Ordering::SeqCst);
    }

    /// Takes back what `watch` was given, if it was not woken yet.
    pub fn unwatch(&self, waker: &Waker) {
        self.watchers.lock().retain(|watcher| !watcher.will_wake(waker));
    }

    fn wake_watchers(&self) {
        // Pairs with `watch`: whoever registers looks at `end` after registering, so either side sees the other.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.has_watchers.load(Ordering::SeqCst) {
            let watchers = {
                let mut watchers = self.watchers.lock();
                self.has_watchers.store(false, Ordering::SeqCst);
                std::mem::take(&mut *watchers)
            };
            for watcher in watchers {
                watcher.wake();
            }
        }
    }

    /// Reads up to `count` entries from `from` on into `entries`; fewer at the end of the queue or of a file.
    pub fn read(
        &self,
        from: QueueOffset,
        count: usize,
        mode: ReadMode,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        let end = self.visible.load(Ordering::Acquire);
        if from.0 >= end {
            return Ok(());
        }
        let recent_start = end - state.recent.len() as u64;
        if from.0 >= recent_start {
            let skipped = (from.0 - recent_start) as usize;
            entries.extend(state.recent.iter().skip(skipped).take(count));
            return Ok(());
        }
        let file_number = from.0 / self.entries_per_file;
        let file = self.open(&mut state, file_number)?;
        drop(state);
        let place = from.0 % self.entries_per_file;
        let in_file = (self.entries_per_file - place).min(recent_start - from.0).min(count as u64);
        let mut bytes = vec![0; in_file as usize * ENTRY_SIZE];
        match mode {
            ReadMode::IfCached => file.read_at_if_cached(&mut bytes, place * ENTRY_SIZE as u64)?,
            ReadMode::MayWait => file.read_at(&mut bytes, place * ENTRY_SIZE as u64)?,
        }
        for piece in bytes.chunks_exact(ENTRY_SIZE) {
            let missing = Entry { log_offset: LogOffset(0), size: 0, tag_code: 0 };
            entries.push(Entry::decode(piece).unwrap_or(missing));
        }
        Ok(())
    }

    /// The entry at `offset`, waiting for the disk if need be.
    pub fn entry(&self, offset: QueueOffset) -> Result<Option<Entry>, StorageError> {
        let mut entries = Vec::with_capacity(1);
        if offset >= self.first() {
            self.read(offset, 1, ReadMode::MayWait, &mut entries)?;
        }
        Ok(entries.pop().filter(|entry| entry.size > 0))
    }

    fn open(&self, state: &mut State, file_number: u64) -> Result<Arc<DiskFile>, StorageError> {
        for known in [&state.reading, &state.writing].into_iter().flatten() {
            if known.0 == file_number {
                return Ok(known.1.clone());
            }
        }
        let file = Arc::new(self.disk.open(&self.path(file_number))?);
        state.reading = Some((file_number, file.clone()));
        Ok(file)
    }

    fn path(&self, file_number: u64) -> PathBuf {
        self.directory.join(file_name(file_number * self.entries_per_file * ENTRY_SIZE as u64))
    }

    /// Writes entries that are only in memory into files (the page cache).
    pub(crate) fn flush(&self) -> Result<(), StorageError> {
        loop {
            // Copied out, so that the file is not written under the lock appends take.
            let (from, bytes) = {
                let state = self.state.lock();
                let end = self.visible.load(Ordering::Acquire);
                let from = state.flushed;
                let in_file = (self.entries_per_file - from % self.entries_per_file).min(end - from);
                let skipped = state.recent.len() - (end - from) as usize;
                let entries = state.recent.iter().skip(skipped).take(in_file as usize);
                (from, entries.flat_map(Entry::encode).collect::<Vec<u8>>())
            };
            if bytes.is_empty() {
                return Ok(());
            }
            self.write_bytes(from, &bytes)?;
            let mut state = self.state.lock();
            state.flushed = from + (bytes.len() / ENTRY_SIZE) as u64;
            let end = self.visible.load(Ordering::Acquire);
            let unflushed = (end - state.flushed) as usize;
            let kept = unflushed.max(RECENT_ENTRIES);
            let surplus = state.recent.len().saturating_sub(kept);
            state.recent.drain(..surplus);
            if state.recent.capacity() > 4 * (kept + RECENT_ENTRIES) {
                state.recent.shrink_to(2 * kept);
            }
        }
    }

    /// Files written to since the last call: whoever takes them syncs them.
    pub(crate) fn take_unsynced(&self) -> Vec<Arc<DiskFile>> {
        std::mem::take(&mut self.state.lock().unsynced)
    }

    fn note_written(&self, file: &Arc<DiskFile>) {
        let mut state = self.state.lock();
        if !state.unsynced.iter().any(|known| Arc::ptr_eq(known, file)) {
            state.unsynced.push(file.clone());
        }
    }

    /// Writes encoded entries that lie in one file.
    fn write_bytes(&self, from: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let file_number = from / self.entries_per_file;
        let known = self.state.lock().writing.clone().filter(|(number, _)| *number == file_number);
        let file = match known {
            Some((_, file)) => file,
            None => {
                let size = self.entries_per_file * ENTRY_SIZE as u64;
                let file = Arc::new(self.disk.open_sized(&self.path(file_number), size, false)?);
                if self.doubts_names.swap(false, Ordering::Relaxed) {
                    file.doubt_names(&self.disk, 3);
                }
                self.state.lock().writing = Some((file_number, file.clone()));
                file
            }
        };
        file.write_at(bytes, from % self.entries_per_file * ENTRY_SIZE as u64)?;
        self.note_written(&file);
        Ok(())
    }

    /// Closes files until they are needed again.
    pub(crate) fn close_files(&self) {
        let mut state = self.state.lock();
        state.reading = None;
        state.writing = None;
    }

    /// Whether there are entries `flush` would write.
    pub(crate) fn is_dirty(&self) -> bool {
        let state = self.state.lock();
        state.flushed < self.visible.load(Ordering::Acquire)
    }

    /// Moves `first` past entries whose records lie before `log_first`, and removes files that hold only such entries.
    pub(crate) fn drop_before(&self, log_first: LogOffset) -> Result<(), StorageError> {
        let first = self.search(|entry| entry.log_offset >= log_first)?;
        self.first.fetch_max(first.0, Ordering::AcqRel);
        let first_file = first.0 / self.entries_per_file;
        for name in self.disk.list(&self.directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            if start / ENTRY_SIZE as u64 / self.entries_per_file < first_file {
                self.close_files();
                self.disk.remove_file(&self.directory.join(name))?;
                // In their order: with a hole after a file that came back, the queue could not be opened.
                self.disk.sync_directory(&self.directory)?;
            }
        }
        Ok(())
    }

    /// The first offset whose entry satisfies `is_late`, which must be false for a front part and true for the rest;
    /// `end` if none does.
    pub fn search(&self, mut is_late: impl FnMut(&Entry) -> bool) -> Result<QueueOffset, StorageError> {
        let mut failure = None;
        let found = partition_point(self.first().0, self.end().0, |offset| match self.entry(QueueOffset(offset)) {
            Ok(Some(entry)) => is_late(&entry),
            Ok(None) => false,
            Err(error) => {
                failure.get_or_insert(error);
                true
            }
        });
        failure.map_or(Ok(QueueOffset(found)), Err)
    }

    /// Removes the queue's files; it must not be used any more.
    pub(crate) fn remove(&self) -> Result<(), StorageError> {
        self.close_files();
        self.disk.remove_directory(&self.directory)
    }
}

/// The smallest number in `low..high` for which `is_late` holds, or `high`.
pub(crate) fn partition_point(mut low: u64, mut high: u64, mut is_late: impl FnMut(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if is_late(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
