//! Entries that a lane's files have beyond its end: of messages that are damaged, so that nobody else knows in which lane they are.

use base::{LogOffset, QueueOffset};
use format::queue_entry::Entry;

use super::{DAMAGED_IN_A_ROW_MAX, QueueIndex};
use crate::disk::asked_again;
use crate::error::StorageError;
use crate::store::ReadMode;

impl QueueIndex {
    /// Has the queue end at `offset`, where the record at `log_offset` is listed next.
    pub(super) fn fill_gap(&self, offset: QueueOffset, log_offset: LogOffset) -> Result<(), StorageError> {
        let gap = offset.0.saturating_sub(self.end().0);
        if gap > 0 && gap <= DAMAGED_IN_A_ROW_MAX && self.end() > self.first() {
            // Damaged records in between keep their queue offsets, with the entries that they had or with some that no record matches.
            let mut behind = log_offset;
            let entry_at = |offset| {
                let kept = self.kept_entry(offset)?.filter(|kept| kept.log_offset < behind);
                let entry = kept.unwrap_or(Entry::lost(behind));
                behind = entry.log_offset;
                Ok(entry)
            };
            // From the last on: each of the lost was before the next that is known.
            let entries: Result<Vec<_>, StorageError> = (self.end().0..offset.0).rev().map(entry_at).collect();
            self.publish(entries?.into_iter().rev());
        } else if gap > 0 || offset < self.end() {
            self.restart_at(offset)?;
        }
        Ok(())
    }

    /// Has a lane go on behind the damaged records that its files list beyond its end.
    pub(crate) fn keep_listed(&self, is_damaged: impl Fn(&Entry) -> bool) -> Result<(), StorageError> {
        let (end, mut last) = (self.end().0, None);
        for offset in end..end + DAMAGED_IN_A_ROW_MAX {
            let Some(entry) = self.kept_entry(offset)? else { break };
            if is_damaged(&entry) {
                last = Some((offset, entry));
            }
        }
        match last {
            Some((offset, entry)) => self.go_on_at(QueueOffset(offset + 1), entry.log_offset.after(1)),
            None => Ok(()),
        }
    }

    /// The entry that a lane's file has beyond the queue's end: its checksum says that it is one. An error where the disk cannot tell: an offset
    /// that a message had would be given to another.
    fn kept_entry(&self, offset: u64) -> Result<Option<Entry>, StorageError> {
        if self.message_queue.is_none() {
            return Ok(None);
        }
        let mut bytes = vec![0; self.form().size() as usize];
        let position = offset % self.entries_per_file * self.form().size();
        let read = asked_again(StorageError::is_unreadable, || {
            let file = self.files.existing(&self.path(offset / self.entries_per_file), ReadMode::MayWait)?;
            file.read_at(&mut bytes, position)
        });
        match read {
            Err(error) if error.is_missing() => Ok(None),
            read => read.map(|()| self.form().decode(offset, &bytes).filter(Entry::has_record)),
        }
    }
}
