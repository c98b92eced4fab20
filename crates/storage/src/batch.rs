//! Records on their way into the log: encoded outside the append lock, placed under it, then shared unchanged.

use std::sync::Arc;

use base::record::Draft;
use base::{LogOffset, QueueOffset, Timestamp};
use bytes::{Bytes, BytesMut};

use crate::queue_index::QueueIndex;

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRecord {
    /// First byte within the batch.
    pub(crate) start: u32,
    /// Bytes.
    pub(crate) size: u32,
    /// Which of the batch's queues it goes to.
    pub(crate) queue_slot: u32,
    /// What its queue entry keeps: the tag's code, or a due time.
    pub(crate) tag_code: i64,
    /// Its place in the queue, once appended.
    pub queue_offset: QueueOffset,
    /// Its place in the log, once appended.
    pub log_offset: LogOffset,
}

/// A key to be found by later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchKey {
    pub(crate) record: u32,
    pub(crate) hash: u32,
}

/// Records being gathered, usually those of one turn of one connection.
#[derive(Debug, Default)]
pub struct AppendBatch {
    pub(crate) bytes: BytesMut,
    pub(crate) records: Vec<BatchRecord>,
    pub(crate) queues: Vec<Arc<QueueIndex>>,
    pub(crate) keys: Vec<BatchKey>,
}

/// Records with their places; the bytes are final.
#[derive(Debug)]
pub struct Appended {
    pub(crate) bytes: Bytes,
    pub(crate) queues: Vec<Arc<QueueIndex>>,
    pub(crate) keys: Vec<BatchKey>,
    /// Each record's place, in the order they were added.
    pub records: Vec<BatchRecord>,
    /// When they were stored.
    pub store_timestamp: Timestamp,
    /// First byte after them: what a watermark must pass for all of them to keep its promise.
    pub end: LogOffset,
}

impl AppendBatch {
    /// An empty batch that encodes into `buffer`.
    pub(crate) fn with_buffer(buffer: BytesMut) -> Self {
        Self { bytes: buffer, ..Self::default() }
    }

    /// Encodes one record for `queue`; `tag_code` is what its queue entry keeps. Returns its number in the batch.
    pub fn push(&mut self, queue: &Arc<QueueIndex>, draft: &Draft<'_>, tag_code: i64) -> usize {
        let start = self.bytes.len();
        draft.encode(&mut self.bytes);
        let queue_slot = self.slot_of(queue);
        self.records.push(BatchRecord {
            start: start as u32,
            size: (self.bytes.len() - start) as u32,
            queue_slot,
            tag_code,
            queue_offset: QueueOffset::default(),
            log_offset: LogOffset::default(),
        });
        self.records.len() - 1
    }

    /// Lets the last record be found by a key of this hash (see `base::hash::key_hash`).
    pub fn add_key(&mut self, hash: u32) {
        let record = self.records.len().saturating_sub(1) as u32;
        self.keys.push(BatchKey { record, hash });
    }

    /// A batch names few queues, and the same one again and again.
    fn slot_of(&mut self, queue: &Arc<QueueIndex>) -> u32 {
        let known = self.queues.iter().rposition(|known| Arc::ptr_eq(known, queue));
        let slot = known.unwrap_or_else(|| {
            self.queues.push(queue.clone());
            self.queues.len() - 1
        });
        slot as u32
    }

    /// Drops all but the first `count` records.
    pub fn truncate(&mut self, count: usize) {
        if let Some(first_dropped) = self.records.get(count) {
            self.bytes.truncate(first_dropped.start as usize);
            self.records.truncate(count);
            self.keys.retain(|key| (key.record as usize) < count);
        }
    }

    /// Records so far.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes so far.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}
