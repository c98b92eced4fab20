//! Entries that a lane's files have beyond its end: of messages that are damaged, so that nobody else knows in which lane they are.

use base::{LogOffset, QueueOffset};
use format::queue_entry::Entry;

use super::{DAMAGED_IN_A_ROW_MAX, QueueIndex};
use crate::disk::asked_again;
use crate::error::StorageError;
use crate::open_files::folder_of_all;
use crate::store::ReadMode;

impl QueueIndex {
    /// Has the queue end at `offset`, where the record at `log_offset` is listed next.
    pub(super) fn fill_gap(&self, offset: QueueOffset, log_offset: LogOffset) -> Result<(), StorageError> {
        let gap = offset.0.saturating_sub(self.end().0);
        if gap > 0 && gap <= DAMAGED_IN_A_ROW_MAX && self.end() > self.first() {
            // What the disk cannot read costs records that nobody could read their entries, and no offset: the one behind them is known.
            let kept_entry = |offset| self.kept_entry(offset).ok().flatten().filter(Entry::has_record);
            let kept = (self.end().0..offset.0).map(kept_entry);
            self.publish_kept(kept.collect(), log_offset);
        } else if gap > 0 || offset < self.end() {
            self.restart_at(offset)?;
        }
        Ok(())
    }

    /// Damaged records before `behind` keep their queue offsets, with the entries that they had or with some that no record matches.
    fn publish_kept(&self, kept: Vec<Option<Entry>>, mut behind: LogOffset) {
        let entry_of = |kept: Option<Entry>| {
            let entry = kept.filter(|kept| kept.log_offset < behind).unwrap_or(Entry::lost(behind));
            behind = entry.log_offset;
            entry
        };
        // From the last on: each of the lost was before the next that is known.
        let entries: Vec<_> = kept.into_iter().rev().map(entry_of).collect();
        self.publish(entries.into_iter().rev());
    }

    /// Has a lane go on behind the damaged records that its files list beyond its end. An error where the disk cannot tell: offsets that they had
    /// would be given to others.
    pub(crate) fn keep_listed(&self, is_damaged: impl Fn(&Entry) -> bool) -> Result<(), StorageError> {
        let (end, mut listed, mut last) = (self.end(), Vec::new(), None);
        for offset in end.0..end.0 + DAMAGED_IN_A_ROW_MAX {
            let Some(entry) = self.kept_entry(offset).map_err(|error| self.untold(offset, error))? else { break };
            listed.push(Some(entry).filter(Entry::has_record));
            if entry.has_record() && is_damaged(&entry) {
                last = Some((listed.len(), entry.log_offset.after(1)));
            }
        }
        let Some((count, behind)) = last else { return Ok(()) };
        if end == self.first() {
            return self.go_on_at(end.after(count as u64), behind);
        }
        listed.truncate(count);
        self.publish_kept(listed, behind);
        self.go_on_at_end();
        Ok(())
    }

    /// The entry that a lane's file has beyond the queue's end: its checksum says that it is one. It may be one of a lost record.
    fn kept_entry(&self, offset: u64) -> Result<Option<Entry>, StorageError> {
        if self.message_queue.is_none() {
            return Ok(None);
        }
        let mut bytes = vec![0; self.form().size() as usize];
        let position = offset % self.entries_per_file * self.form().size();
        let read = asked_again(StorageError::is_of_the_disk, || {
            let file = self.files.existing(&self.path(offset / self.entries_per_file), ReadMode::MayWait)?;
            file.read_at(&mut bytes, position)
        });
        match read {
            Err(error) if error.is_missing() => Ok(None),
            read => read.map(|()| self.form().decode(offset, &bytes).filter(|entry| !entry.is_gap())),
        }
    }

    fn untold(&self, offset: u64, error: StorageError) -> StorageError {
        if !error.is_of_the_disk() {
            return error;
        }
        StorageError::Damaged {
            path: self.path(offset / self.entries_per_file),
            problem: format!(
                "whether it lists a message at offset {offset} cannot be read ({error}). Start again once the disk can be read; if that is in vain, remove all of {} and start again: entries are made again from the log, and offsets of damaged messages may be given to others",
                folder_of_all(true)
            ),
        }
    }
}
