//! The log's bytes as they are: read for replicas; and those of a leader's log, appended at the same log offsets, segments and fillers
//! included.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{LogOffset, QueueOffset};
use bytes::Bytes;

use super::{CommitLog, PagesAhead, PagesKept, Staged};
use crate::batch::AppendInfo;
use crate::buffers::Buffers;
use crate::error::StorageError;
use crate::queue_index::QueueIndex;

/// Whole records and fillers that follow each other in a log.
#[derive(Debug, Default)]
pub(crate) struct RawRecords {
    pub(crate) end: LogOffset,
    /// Runs of records of one store time, as their batches were, with their bytes by log offset.
    pub(crate) batches: Vec<(AppendInfo, Vec<(u64, Bytes)>)>,
    /// The queue offsets that they take, in their order.
    pub(crate) taken: Vec<Taken>,
}

/// A queue offset that a record takes.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) queue: Arc<QueueIndex>,
    pub(crate) offset: QueueOffset,
    pub(crate) log_offset: LogOffset,
}

impl CommitLog {
    /// Those that records are gathered in.
    pub(crate) const fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Bytes from `start` on that are in memory, at most `size`.
    pub(crate) fn recent_raw(&self, start: LogOffset, size: usize) -> Vec<Bytes> {
        self.recent.reader().run(start.0, size)
    }

    /// `size` bytes from `start` on, which are in the segment files. Waits for the disk.
    pub(crate) fn read_raw(&self, start: LogOffset, size: usize) -> Result<Bytes, StorageError> {
        let read = self.read_in_extents(start.0, size);
        // Afterwards: retention may have come meanwhile.
        let first = self.first();
        if start < first {
            return Err(StorageError::BeforeLog { start, first });
        }
        read
    }

    /// Where the next record goes.
    pub(crate) fn appended(&self) -> LogOffset {
        LogOffset(self.tail.lock().next)
    }

    /// Has a log that keeps nothing begin at `offset`. A crash leaves one that begins where it did, at 0, or there.
    pub(crate) fn begin_at(&self, offset: LogOffset) -> Result<(), StorageError> {
        self.check_poison()?;
        let _no_write = self.writing.lock();
        let _no_sync = self.syncing.lock();
        let mut tail = self.tail.lock();
        let end = LogOffset(tail.next);
        if self.first() < end || offset < end || !offset.0.is_multiple_of(self.segment_size) {
            return Err(StorageError::CannotBegin { offset, end, segment_size: self.segment_size });
        }
        let mut made_until = self.made_until.lock();
        // One may have been made ahead. If this fails, an append makes what is gone again.
        for segment in self.segments().into_iter().rev() {
            self.disk.remove_file(segment.file().path())?;
            self.segments.write().pop();
            (tail.prepared_until, *made_until) = (segment.base(), segment.base());
        }
        self.disk.sync_directory(&self.directory)?;
        (tail.next, tail.prepared_until, *made_until) = (offset.0, offset.0, offset.0);
        self.watermarks.advance_written(offset);
        self.watermarks.advance_durable(offset);
        self.watermarks.advance_committed(offset);
        self.in_segments.store(offset.0, Ordering::Release);
        self.write_back_started.store(offset.0, Ordering::Release);
        *self.pages.lock() = PagesAhead::new(offset.0);
        *self.pages_kept.lock() = PagesKept::new(offset.0);
        self.metrics.log_first_bytes.set(offset.0);
        self.metrics.log_written_bytes.set(offset.0);
        self.metrics.log_durable_bytes.set(offset.0);
        Ok(())
    }

    /// Stages records from `start` on. Fails without storing anything if they do not continue the log and its queues.
    pub(crate) fn append_raw(&self, start: LogOffset, raw: RawRecords) -> Result<(), StorageError> {
        self.check_poison()?;
        let mut tail = self.tail.lock();
        if start.0 != tail.next {
            return Err(StorageError::NotAtEnd { start, end: LogOffset(tail.next) });
        }
        let ends = ends_after(&raw.taken)?;
        while tail.prepared_until < raw.end.0 {
            tail.prepared_until = self.make_segment(tail.prepared_until)?.end();
        }
        ends.into_values().for_each(|(queue, end)| queue.continue_at(end));
        let mut staged = self.staged.lock();
        for (batch, pieces) in raw.batches {
            tail.last_timestamp = tail.last_timestamp.max(batch.store_timestamp);
            self.staged_size.fetch_add(batch.size, Ordering::Relaxed);
            staged.push(Staged { batch: Arc::new(batch), pieces });
        }
        tail.next = raw.end.0;
        Ok(())
    }
}

/// Where each queue goes on after `taken`, which must continue it without gap or overlap. Called under the append lock.
fn ends_after(taken: &[Taken]) -> Result<HashMap<*const QueueIndex, (&Arc<QueueIndex>, QueueOffset)>, StorageError> {
    let mut ends = HashMap::new();
    for Taken { queue, offset, log_offset } in taken {
        if queue.is_removed() {
            return Err(StorageError::TopicRemoved(queue.topic().clone()));
        }
        let (_, end) = ends.entry(Arc::as_ptr(queue)).or_insert_with(|| (queue, queue.appended_end()));
        if offset != end {
            let what = if *offset > *end { "a gap" } else { "an overlap" };
            let (topic, number) = (queue.topic(), queue.queue());
            return Err(StorageError::NotOfThisLog {
                offset: *log_offset,
                problem: format!(
                    "it is message {offset} of {topic} queue {number}, which continues at {end}: {what}. If the topic was removed and created again, append what comes before, and commit it, first"
                ),
            });
        }
        *end = end.after(1);
    }
    Ok(ends)
}
