//! Records of the log, read for queues and by log offset.

use std::task::Waker;
use std::time::Duration;

use base::{LogOffset, QueueOffset, Timestamp};
use bytes::Bytes;
use format::queue_entry::Entry;
use format::record::Record;

use super::{ReadMode, Store};
use crate::damage::problem_of_record;
use crate::error::StorageError;
use crate::queue_index::QueueIndex;
use crate::records::Records;
use crate::recover;

impl Store {
    /// See `CommitLog::read_ahead`.
    pub fn read_ahead(&self) -> u64 {
        self.log.read_ahead()
    }

    /// See `CommitLog::note_read_cost`.
    pub fn note_read_cost(&self, size: u64, took: Duration) {
        self.log.note_read_cost(size, took);
    }

    /// See `CommitLog::set_reader`.
    pub fn set_reader(&self, waker: Waker) {
        self.log.set_reader(waker);
    }

    /// The records that entries of `queue` point at; `None` where there is none or a damaged one.
    pub fn read(
        &self,
        queue: &QueueIndex,
        entries: &[(QueueOffset, Entry)],
        mode: ReadMode,
    ) -> Result<Records, StorageError> {
        self.log.read(queue, entries, mode)
    }

    /// Has the log say that entries of a queue cannot be read, nor made again, once for each folder.
    pub fn tell_lost_entries(&self, error: &StorageError) {
        if let StorageError::Damaged { path, problem } = error {
            self.log.tell_lost_entries(path, problem);
        }
    }

    /// The message of a topic at a log offset, read from the disk if necessary. `None` if none begins there or it is damaged. One without
    /// a queue is returned unchecked: its topic was removed, or its header is damaged, and these cannot be told apart. Routed messages are
    /// of no topic, and found through their queues alone.
    pub fn record_at(&self, offset: LogOffset) -> Result<Option<Bytes>, StorageError> {
        let Some(bytes) = self.log.record_at(offset)? else { return Ok(None) };
        let Ok(record) = Record::decode(&bytes) else { return Ok(None) };
        let indexed = self.options.index_rules.apply_to(&record);
        if indexed.is_state || indexed.is_routed {
            return Ok(None);
        }
        let queue = self.queues.read().get(record.topic, record.queue).cloned();
        let Some(queue) = queue else { return Ok(Some(bytes)) };
        let problem = match queue.entry(record.queue_offset)? {
            Some(entry) if entry.log_offset == offset => {
                problem_of_record(&bytes, &queue, &(record.queue_offset, entry), false)
            }
            // A later one would mean that the topic was removed and created again.
            Some(entry) if entry.log_offset < offset => Some("its queue has an earlier record at its offset"),
            _ => None,
        };
        problem.iter().for_each(|problem| self.log.tell_damage(offset, problem));
        Ok(problem.is_none().then_some(bytes))
    }

    /// When the oldest record still kept was stored; `None` if there is none.
    pub fn earliest_store_time(&self) -> Result<Option<Timestamp>, StorageError> {
        self.log.segments().first().map_or(Ok(None), |oldest| recover::first_store_time(oldest))
    }

    /// When the record of `entry` was stored, read from the disk if necessary.
    pub fn store_time(&self, entry: &Entry) -> Result<Option<Timestamp>, StorageError> {
        let size = (entry.size as usize).min(format::record::STORE_TIMESTAMP_WITHIN);
        if entry.log_offset < self.log.first() || entry.log_offset.after(size as u64) > self.watermarks().written() {
            return Ok(None);
        }
        let bytes = self.log.read_bytes(entry.log_offset.0, size, ReadMode::MayWait)?;
        Ok(format::record::store_timestamp_of(&bytes))
    }
}
