//! A batch of records to append: encoded outside the append lock, completed with offsets under it, then shared unchanged.

mod slots;

use std::sync::Arc;

use base::{LogOffset, QueueOffset, Timestamp};
use bytes::BytesMut;
use format::index_rules::{EntryCode, Indexed, Listing};
use format::queue_entry::Entry;
use format::record::{CHECKSUM_BLANK, Draft, Record};
use format::routed::{Destination, RoutedDraft};

use crate::key_index::Key;
use crate::queue_index::QueueIndex;
use slots::Slots;

/// Stands for the queue of a record that no queue lists.
const NO_QUEUE: u32 = u32::MAX;

/// Stands for the queue of a routed message: it has none of its own, and its further ones are among `AppendBatch::routed`.
const ROUTED: u32 = u32::MAX - 1;

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

    /// Whether it is a routed message.
    pub(crate) const fn is_routed(&self) -> bool {
        self.queue_slot == ROUTED
    }
}

/// A lane that lists a routed message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutedTo {
    /// Index of the lane in the batch.
    pub(crate) slot: u32,
    /// What its entry keeps.
    pub(crate) code: EntryCode,
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
    has_checksums: bool,
    pub(crate) bytes: BytesMut,
    pub(crate) records: Vec<BatchRecord>,
    pub(crate) queues: Slots,
    /// Indexes of the further queues of each record that is no routed message, record by record.
    pub(crate) fan_out: Vec<u32>,
    /// Where routed messages go, record by record.
    pub(crate) routed: Vec<RoutedTo>,
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
    pub(crate) routed: Vec<RoutedTo>,
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
    pub(crate) fn with_buffer(buffer: BytesMut, has_key_index: bool, has_checksums: bool) -> Self {
        Self { bytes: buffer, has_key_index, has_checksums, ..Self::default() }
    }

    /// Encodes one record for `queue`. `indexed` must come from the rules that the store was opened with.
    pub fn push(&mut self, queue: &Arc<QueueIndex>, draft: &Draft<'_>, indexed: &Indexed<'_>) {
        let start = self.bytes.len();
        draft.encode(&mut self.bytes);
        let queue_slot = self.queues.slot_of(queue);
        let record = self.records.len() as u32;
        let tag_code = match indexed.code {
            EntryCode::Tag(code) => code,
            EntryCode::DueAfter(delay_ms) => {
                self.parked.push(record);
                delay_ms as i64
            }
            // That of a routed message, which has no queue of its own.
            EntryCode::Lane { .. } => 0,
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

    /// Encodes one routed message for lanes of message queues, each with the time to live that it has there, ms. There must be one at least:
    /// without any nothing is added.
    pub fn push_routed(&mut self, draft: &RoutedDraft<'_>, destinations: &[(Arc<QueueIndex>, Option<u64>)]) {
        debug_assert!(!destinations.is_empty(), "a routed message goes somewhere");
        debug_assert!(destinations.iter().all(|(queue, _)| queue.lane().is_some()), "to lanes of message queues alone");
        if destinations.is_empty() {
            return;
        }
        let start = self.bytes.len();
        let checksum_room: &[u8] = if self.has_checksums { CHECKSUM_BLANK } else { &[] };
        let encoded = destinations.iter().map(|(queue, time_to_live_ms)| {
            let (queue, lane) = queue.lane().unwrap_or_default();
            Destination { queue, lane, time_to_live_ms: *time_to_live_ms }
        });
        draft.encode(encoded, checksum_room, &mut self.bytes);
        let around = (self.bytes.len() - start).saturating_sub(draft.message_len()) as u32;
        self.routed.reserve(destinations.len());
        for &(ref queue, time_to_live_ms) in destinations {
            let slot = self.queues.slot_of(queue);
            self.routed.push(RoutedTo { slot, code: EntryCode::Lane { time_to_live_ms, around } });
        }
        self.records.push(BatchRecord {
            start: start as u32,
            size: (self.bytes.len() - start) as u32,
            queue_slot: ROUTED,
            fan_out_count: destinations.len() as u32,
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
            let slot = self.queues.slot_of(queue);
            self.fan_out.push(slot);
        }
        if let Some(last) = self.records.last_mut() {
            last.fan_out_count += queues.len() as u32;
        }
    }

    /// Drops all but the first `count` records.
    pub fn truncate(&mut self, count: usize) {
        if let Some(first_dropped) = self.records.get(count) {
            self.bytes.truncate(first_dropped.start as usize);
            let (mut fan_out, mut routed) = (0, 0);
            for record in self.records.iter().skip(count) {
                *(if record.is_routed() { &mut routed } else { &mut fan_out }) += record.fan_out_count as usize;
            }
            self.fan_out.truncate(self.fan_out.len() - fan_out);
            self.routed.truncate(self.routed.len() - routed);
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

    /// Adds a record that `queues` list, each as its listing says.
    pub(crate) fn push(
        &mut self,
        record: &Record<'_>,
        indexed: &Indexed<'_>,
        queues: &[(Arc<QueueIndex>, Listing<'_>)],
    ) {
        let batch = &mut self.batch;
        let number = batch.records.len() as u32;
        if batch.has_key_index {
            batch.keys.extend(indexed.key_hashes().map(|hash| BatchKey { record: number, hash }));
        }
        let mut slots = queues.iter().map(|(queue, listing)| (batch.queues.slot_of(queue), listing.code));
        let (own, fan_out_count) = if queues.is_empty() {
            batch.unlisted = (batch.unlisted.0 + 1, batch.unlisted.1 + record.size);
            (NO_QUEUE, 0)
        } else if indexed.is_routed {
            batch.routed.extend(slots.map(|(slot, code)| RoutedTo { slot, code }));
            (ROUTED, queues.len())
        } else {
            let own = slots.next().map_or(NO_QUEUE, |(slot, _)| slot);
            batch.fan_out.extend(slots.map(|(slot, _)| slot));
            (own, queues.len() - 1)
        };
        batch.records.push(BatchRecord {
            start: 0,
            size: record.size as u32,
            queue_slot: own,
            fan_out_count: fan_out_count as u32,
            tag_code: indexed.code.at(record.store_timestamp),
            queue_offset: record.queue_offset,
            log_offset: record.log_offset,
        });
        if indexed.is_state {
            self.states.push(record.log_offset);
        }
    }

    /// The batch, whose records and what lies behind them take `size` bytes up to `end`.
    pub(crate) fn finish(self, size: usize, end: LogOffset) -> AppendInfo {
        let AppendBatch { records, queues, fan_out, routed, keys, unlisted, .. } = self.batch;
        AppendInfo {
            size,
            messages: (records.len() - unlisted.0, size - unlisted.1),
            queues: queues.into_queues(),
            fan_out,
            routed,
            keys,
            foreign_states: self.states,
            records,
            store_timestamp: self.store_timestamp,
            end,
        }
    }
}
