//! A batch of records to append: encoded outside the append lock, completed with offsets under it, then shared unchanged.

use std::sync::Arc;

use base::{LogOffset, QueueOffset, Timestamp};
use bytes::BytesMut;
use format::index_rules::{EntryCode, Indexed};
use format::queue_entry::Entry;
use format::record::{Draft, Record};

use crate::key_index::Key;
use crate::queue_index::QueueIndex;

/// Stands for the queue of a record that no queue lists.
const NO_QUEUE: u32 = u32::MAX;

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRecord {
    /// First byte within the batch.
    pub(crate) start: u32,
    pub(crate) size: u32,
    /// Index of its queue in the batch.
    pub(crate) queue_slot: u32,
    /// Number of further queues with an entry of it.
    pub(crate) fan_out_count: u32,
    /// For its queue entry: the tag's code or, once appended, a due time.
    pub(crate) tag_code: i64,
    /// Its queue offset, once appended.
    pub queue_offset: QueueOffset,
    /// Its log offset, once appended.
    pub log_offset: LogOffset,
}

impl BatchRecord {
    pub(crate) const fn entry(&self) -> Entry {
        Entry { log_offset: self.log_offset, size: self.size, tag_code: self.tag_code }
    }
}

/// A key of one of the batch's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchKey {
    pub(crate) record: u32,
    pub(crate) hash: u32,
}

/// Records to append, usually those of one read from one connection.
#[derive(Debug, Default)]
pub struct AppendBatch {
    has_key_index: bool,
    pub(crate) bytes: BytesMut,
    pub(crate) records: Vec<BatchRecord>,
    pub(crate) queues: Vec<Arc<QueueIndex>>,
    /// Indexes of the further queues of each record, record by record.
    pub(crate) fan_out: Vec<u32>,
    pub(crate) keys: Vec<BatchKey>,
    /// Queues to which nothing is appended any more.
    pub(crate) closed: Vec<Arc<QueueIndex>>,
    /// How many of the records no queue lists, and their bytes.
    pub(crate) unlisted: (usize, usize),
    /// Numbers of the records whose entries keep a due time; until they are appended, `tag_code` is their delay.
    pub(crate) parked: Vec<u32>,
}

/// An appended batch. Does not hold the records' bytes, so that it may be kept until a watermark passes.
#[derive(Debug)]
pub struct AppendInfo {
    /// Bytes of all records.
    pub(crate) size: usize,
    /// How many of the records are messages, listed in a queue, and their bytes.
    pub(crate) messages: (usize, usize),
    pub(crate) queues: Vec<Arc<QueueIndex>>,
    pub(crate) fan_out: Vec<u32>,
    pub(crate) keys: Vec<BatchKey>,
    /// Log offsets of state records that came from a leader: told once they are committed.
    pub(crate) foreign_states: Vec<LogOffset>,
    /// The records, in the order they were added.
    pub records: Vec<BatchRecord>,
    /// When they were stored.
    pub store_timestamp: Timestamp,
    /// First log offset after the batch. A watermark holds for the whole batch once it reaches this.
    pub end: LogOffset,
}

impl AppendInfo {
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().filter_map(|key| {
            let record = self.records.get(key.record as usize)?;
            Some(Key { hash: key.hash, log_offset: record.log_offset, time: self.store_timestamp })
        })
    }
}

impl AppendBatch {
    /// An empty batch that encodes into `buffer`.
    pub(crate) fn with_buffer(buffer: BytesMut, has_key_index: bool) -> Self {
        Self { bytes: buffer, has_key_index, ..Self::default() }
    }

    /// Encodes one record for `queue`. `indexed` must come from the rules that the store was opened with.
    pub fn push(&mut self, queue: &Arc<QueueIndex>, draft: &Draft<'_>, indexed: &Indexed<'_>) {
        let start = self.bytes.len();
        draft.encode(&mut self.bytes);
        let queue_slot = self.slot_of(queue);
        let record = self.records.len() as u32;
        let tag_code = match indexed.code {
            EntryCode::Tag(code) => code,
            EntryCode::DueAfter(delay_ms) => {
                self.parked.push(record);
                delay_ms as i64
            }
        };
        if self.has_key_index {
            self.keys.extend(indexed.key_hashes().map(|hash| BatchKey { record, hash }));
        }
        self.records.push(BatchRecord {
            start: start as u32,
            size: (self.bytes.len() - start) as u32,
            queue_slot,
            fan_out_count: 0,
            tag_code,
            queue_offset: QueueOffset::default(),
            log_offset: LogOffset::default(),
        });
    }

    /// Encodes one record that no queue lists: a change of state (see `format::state`).
    pub fn push_unlisted(&mut self, draft: &Draft<'_>) {
        let start = self.bytes.len();
        draft.encode(&mut self.bytes);
        let size = self.bytes.len() - start;
        self.unlisted = (self.unlisted.0 + 1, self.unlisted.1 + size);
        self.records.push(BatchRecord {
            start: start as u32,
            size: size as u32,
            queue_slot: NO_QUEUE,
            fan_out_count: 0,
            tag_code: 0,
            queue_offset: QueueOffset::default(),
            log_offset: LogOffset::default(),
        });
    }

    /// Has nothing appended to `queue` after this batch: its topic is removed by it.
    pub fn close(&mut self, queue: Arc<QueueIndex>) {
        self.closed.push(queue);
    }

    /// Lists the last record in `queues` too. Its properties must end with `record::fan_out_properties` of their topics, in this
    /// order, and each must have the number that `record::fan_out_queue_id` returns.
    pub fn list_in(&mut self, queues: &[Arc<QueueIndex>]) {
        for queue in queues {
            let slot = self.slot_of(queue);
            self.fan_out.push(slot);
        }
        if let Some(last) = self.records.last_mut() {
            last.fan_out_count += queues.len() as u32;
        }
    }

    /// The index of `queue` in the batch, added if new. Searched linearly, since a batch has few queues.
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
            let dropped: u32 = self.records.iter().skip(count).map(|record| record.fan_out_count).sum();
            self.fan_out.truncate(self.fan_out.len() - dropped as usize);
            for record in self.records.iter().skip(count).filter(|record| record.queue_slot == NO_QUEUE) {
                self.unlisted = (self.unlisted.0 - 1, self.unlisted.1 - record.size as usize);
            }
            self.records.truncate(count);
            self.keys.retain(|key| (key.record as usize) < count);
            self.parked.retain(|record| (*record as usize) < count);
        }
    }

    /// Whether it has records, and none that a queue lists.
    pub(crate) const fn is_state_only(&self) -> bool {
        self.unlisted.0 > 0 && self.records.len() == self.unlisted.0
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

/// Records that have their offsets already, from a leader's log.
#[derive(Debug)]
pub(crate) struct ForeignBatch {
    batch: AppendBatch,
    states: Vec<LogOffset>,
    store_timestamp: Timestamp,
}

impl ForeignBatch {
    /// An empty batch of records with this store time.
    pub(crate) fn new(has_key_index: bool, store_timestamp: Timestamp) -> Self {
        Self { batch: AppendBatch { has_key_index, ..AppendBatch::default() }, states: Vec::new(), store_timestamp }
    }

    pub(crate) const fn store_timestamp(&self) -> Timestamp {
        self.store_timestamp
    }

    /// Adds a record that `queues` list, its own first.
    pub(crate) fn push(&mut self, record: &Record<'_>, indexed: &Indexed<'_>, queues: &[Arc<QueueIndex>]) {
        let batch = &mut self.batch;
        let number = batch.records.len() as u32;
        let own = queues.first().map_or(NO_QUEUE, |queue| batch.slot_of(queue));
        if batch.has_key_index {
            batch.keys.extend(indexed.key_hashes().map(|hash| BatchKey { record: number, hash }));
        }
        if own == NO_QUEUE {
            batch.unlisted = (batch.unlisted.0 + 1, batch.unlisted.1 + record.size);
        }
        batch.records.push(BatchRecord {
            start: 0,
            size: record.size as u32,
            queue_slot: own,
            fan_out_count: 0,
            tag_code: indexed.code.at(record.store_timestamp),
            queue_offset: record.queue_offset,
            log_offset: record.log_offset,
        });
        batch.list_in(queues.get(1..).unwrap_or_default());
        if indexed.is_state {
            self.states.push(record.log_offset);
        }
    }

    /// The batch, whose records and what lies behind them take `size` bytes up to `end`.
    pub(crate) fn finish(self, size: usize, end: LogOffset) -> AppendInfo {
        let AppendBatch { records, queues, fan_out, keys, unlisted, .. } = self.batch;
        AppendInfo {
            size,
            messages: (records.len() - unlisted.0, size - unlisted.1),
            queues,
            fan_out,
            keys,
            foreign_states: self.states,
            records,
            store_timestamp: self.store_timestamp,
            end,
        }
    }
}
