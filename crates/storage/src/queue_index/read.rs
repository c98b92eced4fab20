//! Reads entries: from memory, from files, or as they were made again.

use std::sync::atomic::Ordering;

use base::{LogOffset, QueueOffset};
use format::queue_entry::{ENTRY_SIZE, Entry};

use super::QueueIndex;
use crate::error::StorageError;
use crate::open_files::folder_of_all;
use crate::search::partition_point;
use crate::store::ReadMode;

impl QueueIndex {
    /// Appends up to `count` entries from `from` on to `entries`; fewer at the end of the queue or of a file. What the file does not give back
    /// is made again from the log, if it may wait.
    pub fn read(
        &self,
        from: QueueOffset,
        count: usize,
        mode: ReadMode,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StorageError> {
        let (before, is_there) = (entries.len(), (self.first()..self.end()).contains(&from));
        let problem = match self.read_as_stored(from, count, mode, entries) {
            Err(error) if error.is_unreadable() => error.to_string(),
            Ok(()) if entries.len() == before && count > 0 && is_there => "it is overwritten".to_owned(),
            outcome => return outcome,
        };
        if mode == ReadMode::IfCached {
            return Err(StorageError::WouldBlock);
        }
        if self.make_again(from)? {
            self.read_as_stored(from, count, mode, entries)?;
        }
        if entries.len() == before { Err(self.lost(from, &problem)) } else { Ok(()) }
    }

    /// The same, without what is neither in memory nor whole in the file. An entry of a message queue that says nothing is not whole: nobody
    /// writes such a one. Official brokers fill the queues of topics with them.
    pub(super) fn read_as_stored(
        &self,
        from: QueueOffset,
        count: usize,
        mode: ReadMode,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StorageError> {
        let state = self.state.lock();
        let end = self.visible.load(Ordering::Acquire);
        if from.0 >= end {
            return Ok(());
        }
        let recent_start = end - state.recent.len() as u64;
        if from.0 >= recent_start {
            let skipped = (from.0 - recent_start) as usize;
            state.recent.copy(skipped, count, entries);
            return Ok(());
        }
        let entries_per_file = self.entries_per_file;
        let slot = from.0 % entries_per_file;
        let in_file = (entries_per_file - slot).min(recent_start - from.0).min(count as u64);
        let mut remade = state.remade.within(from.0..from.0 + in_file).into_iter().peekable();
        drop(state);
        if remade.peek().is_some_and(|(first, _)| *first == from.0) {
            let run = remade.zip(from.0..).take_while(|((offset, _), expected)| offset == expected);
            entries.extend(run.map(|((_, entry), _)| entry));
            return Ok(());
        }
        let file = self.files.existing(&self.path(from.0 / entries_per_file), mode)?;
        let mut bytes = vec![0; in_file as usize * ENTRY_SIZE];
        let outcome = match mode {
            ReadMode::IfCached => file.read_at_if_cached(&mut bytes, slot * ENTRY_SIZE as u64),
            ReadMode::MayWait => file.read_at(&mut bytes, slot * ENTRY_SIZE as u64),
        };
        match outcome {
            // Serve the entries before the unreadable one.
            Err(error) if error.is_unreadable() && in_file > 1 => {
                return self.read_as_stored(from, in_file as usize / 2, mode, entries);
            }
            outcome => outcome?,
        }
        // Those made again come in another read.
        let whole = remade.peek().map_or(in_file, |(first, _)| first - from.0) as usize;
        for piece in bytes.chunks_exact(ENTRY_SIZE).take(whole) {
            match Entry::decode(piece) {
                Some(entry) => entries.push(entry),
                None if self.message_queue.is_some() => break,
                None => entries.push(Entry { log_offset: LogOffset(0), size: 0, tag_code: 0 }),
            }
        }
        Ok(())
    }

    /// The entry at `offset` as its file has it; `None` where that is none.
    pub(crate) fn stored_entry(&self, offset: QueueOffset) -> Result<Option<Entry>, StorageError> {
        let mut entries = Vec::with_capacity(1);
        match self.read_as_stored(offset, 1, ReadMode::MayWait, &mut entries) {
            Err(error) if error.is_unreadable() => Err(self.lost(offset, &error.to_string())),
            outcome => outcome.map(|()| entries.pop().filter(|entry| entry.size > 0)),
        }
    }

    /// An error, unlike for damaged records: the messages are intact, and an operator can have the entries made again.
    fn lost(&self, offset: QueueOffset, problem: &str) -> StorageError {
        StorageError::Damaged {
            path: self.path(offset.0 / self.entries_per_file),
            problem: format!(
                "the entry at offset {offset} cannot be read ({problem}); stop, remove all of {} and start again: entries are made again from the log",
                folder_of_all(self.message_queue.is_some())
            ),
        }
    }

    /// The same of an entry that can be read, and is wrong.
    pub(crate) fn wrong(&self, offset: QueueOffset) -> StorageError {
        self.lost(offset, "it is overwritten, and the message may be whole")
    }

    /// The entry at `offset`, read from the disk if necessary.
    pub fn entry(&self, offset: QueueOffset) -> Result<Option<Entry>, StorageError> {
        let mut entries = Vec::with_capacity(1);
        if offset >= self.first() {
            self.read(offset, 1, ReadMode::MayWait, &mut entries)?;
        }
        Ok(entries.pop().filter(|entry| entry.size > 0))
    }

    /// Binary search: the first offset whose entry satisfies `is_late`, or `end`. No entry after it may fail `is_late`.
    pub fn search(&self, mut is_late: impl FnMut(&Entry) -> bool) -> Result<QueueOffset, StorageError> {
        let found = partition_point(self.first().0, self.end().0, |offset| {
            Ok::<_, StorageError>(self.entry(QueueOffset(offset))?.is_some_and(|entry| is_late(&entry)))
        })?;
        Ok(QueueOffset(found))
    }
}
