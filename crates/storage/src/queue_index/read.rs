//! Reads entries: from memory, from files, or as they were made again.

use std::sync::atomic::Ordering;

use base::QueueOffset;
use format::queue_entry::Entry;

use super::QueueIndex;
use crate::error::StorageError;
use crate::open_files::folder_of_all;
use crate::search::partition_point;
use crate::store::ReadMode;

/// How often another thread may have what was made again forgotten before it is read.
const TRIES: usize = 3;

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
        for _ in 0..TRIES {
            if !self.make_again(from)? {
                break;
            }
            match self.read_as_stored(from, count, mode, entries) {
                Err(error) if error.is_unreadable() => {}
                Ok(()) if entries.len() == before => {}
                outcome => return outcome,
            }
        }
        Err(self.lost(from, &problem))
    }

    /// The same, without what is neither in memory nor whole in the file.
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
        let (form, entries_per_file) = (self.form(), self.entries_per_file);
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
        let mut bytes = vec![0; (in_file * form.size()) as usize];
        let outcome = match mode {
            ReadMode::IfCached => file.read_at_if_cached(&mut bytes, slot * form.size()),
            ReadMode::MayWait => file.read_at(&mut bytes, slot * form.size()),
        };
        match outcome {
            // Serve the entries before the unreadable one.
            Err(error) if error.is_unreadable() && in_file > 1 => {
                return self.read_as_stored(from, in_file as usize / 2, mode, entries);
            }
            outcome => outcome?,
        }
        // Those made again come in another read.
        let whole = remade.peek().map_or(in_file, |(first, _)| first - from.0);
        bytes.truncate((whole * form.size()) as usize);
        form.decode_all(from.0, &bytes, entries);
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
