//! A queue: entries in order, each pointing at a record.
//!
//! **Owns** the files of one queue. **Always holds**: `first <= visible <= next`. `next` advances under the append lock, `visible`
//! once the record is written; `flush` writes entries from memory to files. **On a crash** entries above the checkpoint are
//! rebuilt from the log.

mod flush;
mod kept;
mod listener;
mod read;
mod recent;
mod remade;
mod truncate;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{LogOffset, QueueId, QueueNumber, QueueOffset, TopicName};
use format::entry_form::EntryForm;
use format::queue_entry::{Entry, GAP};
use parking_lot::Mutex;

use crate::error::StorageError;
use crate::open_files::OpenFiles;
use crate::search::first_kept;
use crate::store::ReadMode;

use listener::Listener;
use recent::RecentEntries;
pub(crate) use remade::EntrySource;
use remade::RemadeEntries;

pub use listener::QueueListener;

/// Longest run of queue offsets that recovery attributes to damaged records. A longer gap means that the queue was created again.
const DAMAGED_IN_A_ROW_MAX: u64 = 1_000_000;

/// One queue's entries.
#[derive(Debug)]
pub struct QueueIndex {
    files: Arc<OpenFiles>,
    topic: TopicName,
    queue: QueueId,
    /// The message queue whose lane it is.
    message_queue: Option<QueueNumber>,
    entries_per_file: u64,
    /// Next offset to assign; changed under the append lock only.
    next: AtomicU64,
    /// Entries below this can be read.
    visible: AtomicU64,
    /// First entry whose record is still in the log.
    first: AtomicU64,
    state: Mutex<State>,
    /// No record may be appended any more. Set and read under the append lock only.
    is_removed: AtomicBool,
    /// It is not among the store's queues any more. Set and read under the flushing lock only.
    is_gone: AtomicBool,
    /// It is among the queues whose entries are to be written into files.
    is_changed: AtomicBool,
    listener: Listener,
}

#[derive(Debug, Default)]
struct State {
    /// The newest entries, ending at `visible`.
    recent: RecentEntries,
    /// Entries below this are in files.
    flushed: u64,
    /// Those that the files do not give back.
    remade: RemadeEntries,
    /// Numbers of the files written to since the last sync.
    unsynced: BTreeSet<u64>,
    /// Their directories need a sync too: a file was created, or an earlier process may have created one.
    doubts_names: bool,
}

impl QueueIndex {
    /// A queue whose files hold the entries `first..next`.
    pub(crate) fn new(
        files: Arc<OpenFiles>,
        topic: TopicName,
        queue: QueueId,
        (first, next): (QueueOffset, QueueOffset),
    ) -> Self {
        let message_queue = topic.message_queue();
        Self {
            entries_per_file: files.entries_per_file(message_queue.is_some()),
            files,
            topic,
            queue,
            message_queue,
            next: AtomicU64::new(next.0),
            visible: AtomicU64::new(next.0),
            first: AtomicU64::new(first.0),
            state: Mutex::new(State { flushed: next.0, ..State::default() }),
            is_removed: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            is_changed: AtomicBool::new(false),
            listener: Listener::default(),
        }
    }

    /// Topic the queue belongs to.
    pub const fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Its number within the topic.
    pub const fn queue(&self) -> QueueId {
        self.queue
    }

    /// The message queue that it belongs to, if it does.
    pub const fn message_queue(&self) -> Option<QueueNumber> {
        self.message_queue
    }

    const fn form(&self) -> EntryForm {
        match self.message_queue {
            None => EntryForm::OfTopic,
            Some(queue) => EntryForm::OfLane { queue, lane: self.queue.0 },
        }
    }

    /// The message queue and the lane that it is, if it is one.
    pub fn lane(&self) -> Option<(QueueNumber, u8)> {
        Some((self.message_queue?, u8::try_from(self.queue.0).ok()?))
    }

    /// First entry that can be read.
    pub fn first(&self) -> QueueOffset {
        QueueOffset(self.first.load(Ordering::Acquire))
    }

    /// One past the last entry that can be read.
    pub fn end(&self) -> QueueOffset {
        QueueOffset(self.visible.load(Ordering::Acquire))
    }

    /// One past the last offset assigned: of records that are not visible, too.
    pub fn appended_end(&self) -> QueueOffset {
        QueueOffset(self.next.load(Ordering::Acquire))
    }

    /// Assigns the next offset; called under the append lock.
    pub(crate) fn take_next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Called under the append lock.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Relaxed)
    }

    /// Closes the queue to appends; called under the append lock.
    pub(crate) fn note_removed(&self) {
        self.is_removed.store(true, Ordering::Relaxed);
    }

    /// Whether it is among the store's queues no more; called under the flushing lock.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Called under the flushing lock.
    pub(crate) fn note_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Relaxed);
    }

    /// Notes that there are entries to flush; `false` if that was noted already.
    pub(crate) fn note_changed(&self) -> bool {
        // A swap even if it is set: `flush`, which clears it first, then sees the entries.
        !self.is_changed.swap(true, Ordering::AcqRel)
    }

    /// Called before its entries are flushed.
    pub(crate) fn forget_changed(&self) {
        self.is_changed.swap(false, Ordering::AcqRel);
    }

    /// Adds the next entries, makes them visible and tells who listens.
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
        self.listener.tell();
    }

    /// Assigns `next` next; called under the append lock.
    pub(crate) fn continue_at(&self, next: QueueOffset) {
        self.next.store(next.0, Ordering::Release);
    }

    /// Whether it has no entry, neither a visible one nor one to come.
    pub(crate) fn has_no_entry(&self) -> bool {
        self.first() == self.end() && self.end() == self.appended_end()
    }

    /// Goes on at `offset` with the record at `log_offset`, as if it were found at a start. The caller holds the flushing lock, all entries
    /// are visible, and nothing is appended to the queue meanwhile.
    pub(crate) fn go_on_at(&self, offset: QueueOffset, log_offset: LogOffset) -> Result<(), StorageError> {
        if offset < self.end() && offset >= self.first() {
            self.restart_at(offset)?;
        }
        self.fill_gap(offset, log_offset)?;
        self.go_on_at_end();
        Ok(())
    }

    /// Continues behind the last visible entry; called while nothing is appended.
    pub(crate) fn go_on_at_end(&self) {
        self.next.store(self.visible.load(Ordering::Acquire), Ordering::Release);
    }

    /// Notes that a record in the log which is not committed has `offset`; called while nothing is appended. Returns whether the queue
    /// begins with it: it is the first, or the topic was removed and created again.
    pub(crate) fn note_uncommitted(&self, offset: QueueOffset) -> bool {
        let expected = self.next.swap(offset.0 + 1, Ordering::AcqRel);
        expected == 0 || offset.0 < expected
    }

    /// Whether none of its records was ever committed.
    pub(crate) fn is_uncommitted(&self) -> bool {
        self.visible.load(Ordering::Acquire) == 0 && self.next.load(Ordering::Acquire) > 0
    }

    /// Adds one entry that was read from the log. The offset comes from the record; the entry may be in the files already. Does not
    /// change the next offset to be assigned.
    pub(crate) fn restore(&self, offset: QueueOffset, entry: Entry) -> Result<(), StorageError> {
        if offset < self.end() && offset >= self.first() {
            let stored = self.stored_entry(offset)?;
            if stored == Some(entry) {
                return Ok(());
            }
            if self.message_queue.is_some()
                && !stored.is_some_and(|stored| stored.has_record())
                && self.is_in_file(offset)
            {
                // Something was written over it, or its message could not be read before. Those behind it are of the same lane.
                return self.write(offset.0, &[entry]);
            }
            // The topic was removed and created again: this record is of the new queue.
            self.restart_at(offset)?;
        }
        self.fill_gap(offset, entry.log_offset)?;
        self.publish(std::iter::once(entry));
        Ok(())
    }

    /// Whether the entry at `offset` is in a file alone.
    fn is_in_file(&self, offset: QueueOffset) -> bool {
        let recent_count = self.state.lock().recent.len() as u64;
        offset.0 + recent_count < self.end().0
    }

    /// Continues the queue at `offset`. If that is within the queue, later entries are dropped; else all entries are.
    ///
    /// The part of the file before `offset` is filled with gap entries, as Java does: the end of a file is found by binary search,
    /// which needs entries without holes.
    fn restart_at(&self, offset: QueueOffset) -> Result<(), StorageError> {
        self.flush(0)?;
        let is_beyond = offset > self.end();
        let keeps_front = offset >= self.first() && !is_beyond;
        let entries_per_file = self.entries_per_file;
        // A lane has no record that would say where it goes on: the gap before it does.
        let shown = offset.0 - u64::from(self.message_queue.is_some() && offset.0 > 0);
        let file_start = shown - shown % entries_per_file;
        let gap_start = if is_beyond { self.end().0.max(file_start) } else { file_start };
        if !keeps_front && gap_start < offset.0 {
            self.write(gap_start, &vec![GAP; (offset.0 - gap_start) as usize])?;
        }
        {
            let mut state = self.state.lock();
            state.recent = RecentEntries::default();
            state.flushed = offset.0;
            state.remade.forget_all();
        }
        self.visible.store(offset.0, Ordering::Release);
        if !keeps_front {
            self.first.store(offset.0, Ordering::Release);
            self.remove_files_before(file_start / entries_per_file)?;
        }
        if is_beyond && self.message_queue.is_some() {
            // What was written over there shows a start after a crash that there were entries, until those are there again.
            return Ok(());
        }
        self.truncate()
    }

    /// Removes all entries with their files: the topic was removed, and created again later. Does not change the next offset to be
    /// assigned.
    pub(crate) fn begin_anew(&self) -> Result<(), StorageError> {
        self.remove()?;
        let mut state = self.state.lock();
        let mut remade = std::mem::take(&mut state.remade);
        remade.forget_all();
        *state = State { remade, ..State::default() };
        self.first.store(0, Ordering::Release);
        self.visible.store(0, Ordering::Release);
        Ok(())
    }

    /// Who is told when entries are added, made by the first call. `None` if it is of another type. Entries added before the call are told
    /// to nobody: who waits for more registers there, passes a `SeqCst` fence and looks at `end` again.
    pub fn listener<L: QueueListener + Default>(&self) -> Option<Arc<L>> {
        self.listener.get()
    }

    /// Where its entries are.
    pub fn directory(&self) -> PathBuf {
        self.files.directory_of(&self.topic, self.queue)
    }

    fn path(&self, file_number: u64) -> PathBuf {
        self.files.path_of(&self.topic, self.queue, file_number * self.entries_per_file)
    }

    /// Whether it may have an entry of a record from `log_offset` on.
    pub(crate) fn may_go_beyond(&self, log_offset: LogOffset) -> bool {
        let (first, end) = (self.first(), self.end());
        first < end
            && self
                .entry(QueueOffset(end.0 - 1))
                .map_or(true, |entry| entry.is_none_or(|entry| entry.log_offset >= log_offset))
    }

    /// Moves `first` past gaps and entries of records below `log_first`, and removes files with only such entries. The newest of these files
    /// stays: it records the queue's next offset. Unreadable entries count as kept, so that `first` is never too high.
    pub(crate) fn drop_before(&self, log_first: LogOffset) -> Result<(), StorageError> {
        let stays = |entry: &Entry| entry.log_offset >= log_first && entry.size > 0 && !entry.is_gap();
        let (first, end) = (self.first(), self.end());
        if end == QueueOffset(0) || self.entry(first).is_ok_and(|entry| entry.as_ref().is_some_and(stays)) {
            return Ok(());
        }
        let first = first_kept(first.0, end.0, |part| self.first_of(part, stays))?;
        self.first.fetch_max(first, Ordering::AcqRel);
        self.state.lock().remade.forget_before(first);
        self.remove_files_before(first.saturating_sub(1) / self.entries_per_file)
    }

    /// The first offset in a part of the queue whose entry stays, or cannot be read.
    fn first_of(&self, mut part: Range<u64>, stays: impl Fn(&Entry) -> bool) -> Result<Option<u64>, StorageError> {
        let mut entries = Vec::new();
        while !part.is_empty() {
            entries.clear();
            let count = (part.end - part.start) as usize;
            match self.read(QueueOffset(part.start), count, ReadMode::MayWait, &mut entries) {
                // Of the entries, or of the log from which they would be made again.
                Err(error) if error.is_unreadable() || matches!(error, StorageError::Damaged { .. }) => {
                    return Ok(Some(part.start));
                }
                outcome => outcome?,
            }
            if let Some(kept) = entries.iter().position(&stays) {
                return Ok(Some(part.start + kept as u64));
            }
            part.start += entries.len().max(1) as u64;
        }
        Ok(None)
    }

    fn remove_files_before(&self, first_file: u64) -> Result<(), StorageError> {
        let directory = self.directory();
        for name in self.files.disk().list(&directory)? {
            let Ok(start) = name.parse::<u64>() else { continue };
            let file_number = start / self.form().size() / self.entries_per_file;
            if file_number < first_file {
                self.remove_file(&directory.join(name), file_number)?;
            }
        }
        Ok(())
    }

    /// Removes one file durably before the next is removed: a file that came back after a power cut would be followed by a hole.
    fn remove_file(&self, path: &Path, file_number: u64) -> Result<(), StorageError> {
        self.state.lock().unsynced.remove(&file_number);
        self.files.remove_file(path)?;
        self.files.disk().sync_directory(&self.directory())
    }

    /// Removes the queue's files, oldest first, so that a power cut leaves no hole. The queue must not be used afterwards.
    pub(crate) fn remove(&self) -> Result<(), StorageError> {
        let newest = (self.end().0.saturating_sub(1)) / self.entries_per_file;
        self.remove_files_before(newest)?;
        self.files.remove_directory(&self.directory())
    }
}
