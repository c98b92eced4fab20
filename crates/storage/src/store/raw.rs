//! The log as bytes: given to replicas as they are; and taken in from a leader, checked record by record, and found by the same rules as
//! what is appended here.

use std::collections::HashMap;
use std::sync::Arc;

use base::{LogOffset, QueueOffset, Timestamp, TopicName};
use bytes::{Bytes, BytesMut};
use format::index_rules::is_in_place;
use format::record::{self, FILLER_SIZE, Kind, Parts, Record};

use super::Store;
use crate::batch::ForeignBatch;
use crate::commit_log::{RawRecords, Taken};
use crate::damage::problem_of;
use crate::error::StorageError;

impl Store {
    /// At most `size` bytes of the log from `start` on, in pieces that follow each other, as far as they are in memory, visible, and in one
    /// segment. Does not wait.
    pub fn recent_raw(&self, start: LogOffset, size: usize) -> Vec<Bytes> {
        self.log.recent_raw(start, self.raw_size(start, size))
    }

    /// At most `size` bytes of the log from `start` on, as far as they are visible and in one segment. Waits for the disk. Fails if retention
    /// has taken them.
    pub fn read_raw(&self, start: LogOffset, size: usize) -> Result<Bytes, StorageError> {
        self.log.read_raw(start, self.raw_size(start, size))
    }

    /// Bytes in front of `end` that are in the segment of the last of them.
    pub const fn in_segment(&self, end: LogOffset) -> u64 {
        match end.0 % self.options.segment_size {
            0 if end.0 > 0 => self.options.segment_size,
            within => within,
        }
    }

    /// How many of `size` bytes from `start` on are visible and in one segment.
    fn raw_size(&self, start: LogOffset, size: usize) -> usize {
        let in_segment = self.options.segment_size - start.0 % self.options.segment_size;
        let visible = self.watermarks().committed().0.saturating_sub(start.0);
        usize::try_from(in_segment.min(visible)).unwrap_or(usize::MAX).min(size)
    }

    /// Lends an empty buffer with capacity for `size` bytes or more, to gather a leader's bytes in: what is appended out of it stays in
    /// memory for readers, and then the buffer is lent again.
    pub fn lend_buffer(&self, size: usize) -> BytesMut {
        self.log.buffers().take(size)
    }

    /// Takes the rest of such a buffer back, of which `used` bytes were filled.
    pub fn take_buffer_back(&self, rest: BytesMut, used: usize) {
        self.log.buffers().give_back(rest, used);
    }

    /// Appends what a leader's log has from `start` on, where this log has to end: whole records with their offsets, and whole fillers.
    /// If anything is not what belongs there, nothing is stored. One call at a time. The caller then has the log written. Returns where
    /// the log ends now.
    ///
    /// A queue without entries begins with the first offset that a record takes in it: a replica may begin in the middle of a log. Where
    /// `Options::follows` is set, a record whose queue offset does not continue its queue begins it anew, by the rule by which a start finds
    /// such a queue: a Java broker's log does not tell that a topic was removed. What comes before such a record, and what comes up to a
    /// state record, which may remove a topic that is made again behind it, is appended alone, and has to be committed before the rest is.
    pub fn append_raw(&self, start: LogOffset, bytes: &Bytes) -> Result<LogOffset, StorageError> {
        let end = self.log.appended();
        if start != end {
            return Err(StorageError::NotAtEnd { start, end });
        }
        let mut raw = Reading::of(self, start, bytes).run()?;
        if let Some(odd) = self.align_queues(&raw.taken, start)? {
            raw = Reading::of(self, start, &bytes.slice(..(odd.0 - start.0) as usize)).run()?;
        }
        let end = raw.end;
        self.log.append_raw(start, raw)?;
        Ok(end)
    }

    /// Has a log without anything begin at `offset`, which is where a segment begins. Waits for the disk.
    pub fn begin_at(&self, offset: LogOffset) -> Result<(), StorageError> {
        self.log.begin_at(offset)
    }

    /// Where the newest record that is listed in a queue of a topic begins, and its size. Waits for the disk.
    pub fn newest_listed(&self) -> Result<Option<(LogOffset, u32)>, StorageError> {
        let mut newest = None;
        for queue in self.all_queues().iter().filter(|queue| queue.message_queue().is_none()) {
            let last = queue.end().0.checked_sub(1).map(QueueOffset).filter(|last| *last >= queue.first());
            let Some(last) = last else { continue };
            newest = newest.max(queue.entry(last)?.map(|entry| (entry.log_offset, entry.size)));
        }
        Ok(newest)
    }

    /// Has queues without entries begin where their first records say, and such as the record at `start` does not continue begin anew. Gives
    /// the first other record that does not continue its queue.
    fn align_queues(&self, taken: &[Taken], start: LogOffset) -> Result<Option<LogOffset>, StorageError> {
        let mut expected = HashMap::new();
        for Taken { queue, offset, log_offset } in taken {
            let known = expected.insert(Arc::as_ptr(queue), offset.after(1));
            if *offset == known.unwrap_or_else(|| queue.appended_end()) {
                continue;
            }
            let is_odd = self.options.follows && !queue.is_removed();
            let is_settled = known.is_none() && queue.end() == queue.appended_end();
            if is_settled && (queue.has_no_entry() || (is_odd && *log_offset == start)) {
                let _no_flush = self.flushing.lock();
                queue.go_on_at(*offset, *log_offset)?;
                self.changed_queues.look_over(std::slice::from_ref(queue));
            } else if is_odd && *log_offset > start {
                return Ok(Some(*log_offset));
            }
        }
        Ok(None)
    }
}

/// Bytes of a log being taken apart.
struct Reading<'a> {
    store: &'a Store,
    /// Log offset of the first of them.
    start: LogOffset,
    bytes: &'a Bytes,
    /// How many were read.
    at: usize,
    /// Records of one store time.
    batch: Option<ForeignBatch>,
    /// Their bytes, and those of fillers behind them, by log offset: those that come before `piece_from`.
    pieces: Vec<(u64, Bytes)>,
    piece_from: usize,
    raw: RawRecords,
}

impl<'a> Reading<'a> {
    fn of(store: &'a Store, start: LogOffset, bytes: &'a Bytes) -> Self {
        Self { store, start, bytes, at: 0, piece_from: 0, batch: None, pieces: Vec::new(), raw: RawRecords::default() }
    }

    fn run(mut self) -> Result<RawRecords, StorageError> {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            match record::kind_at(rest) {
                Ok(Kind::Record(size)) if size <= rest.len() => {
                    let is_state = self.take_record(size)?;
                    if is_state && self.store.options.follows {
                        break;
                    }
                }
                Ok(Kind::Filler(size)) if size <= rest.len() => self.take_filler(size)?,
                Ok(Kind::Record(_) | Kind::Filler(_)) => return Err(self.wrong("its end is missing")),
                Ok(Kind::End) | Err(_) => return Err(self.wrong("no record begins there")),
            }
        }
        self.end_batch();
        self.raw.end = self.offset();
        Ok(self.raw)
    }

    fn offset(&self) -> LogOffset {
        self.start.after(self.at as u64)
    }

    /// Bytes left in the segment.
    fn left(&self) -> u64 {
        let segment_size = self.store.options.segment_size;
        segment_size - self.offset().0 % segment_size
    }

    fn wrong(&self, problem: impl Into<String>) -> StorageError {
        StorageError::NotOfThisLog { offset: self.offset(), problem: problem.into() }
    }

    fn take_filler(&mut self, size: usize) -> Result<(), StorageError> {
        let filler = self.bytes.slice(self.at..self.at + size);
        if size as u64 != self.left() {
            return Err(self.wrong(format!("a filler of {size} bytes, {} before the segment's end", self.left())));
        }
        if filler.iter().skip(FILLER_SIZE).any(|&byte| byte != 0) {
            return Err(self.wrong("a filler with something in it"));
        }
        self.end_piece(self.at + FILLER_SIZE);
        self.at += size;
        // The rest is zeroes in the segment already.
        self.piece_from = self.at;
        Ok(())
    }

    /// Takes a record; gives whether it is a state record.
    fn take_record(&mut self, size: usize) -> Result<bool, StorageError> {
        let offset = self.offset();
        let bytes = self.bytes.slice(self.at..self.at + size);
        if (size + FILLER_SIZE) as u64 > self.left() {
            return Err(self.wrong("a record beyond the segment's end: the leader's segments have another size"));
        }
        let parts = Parts::split(&bytes).map_err(|problem| self.wrong(problem.to_string()))?;
        if !is_in_place(&parts, offset.0) {
            return Err(self.wrong("a record that cannot be there"));
        }
        if let Some(problem) = problem_of(&bytes, &parts, offset, self.store.options.record_checksums) {
            return Err(self.wrong(problem));
        }
        let record = Record::decode(&bytes).map_err(|problem| self.wrong(problem.to_string()))?;
        let store_timestamp = record.store_timestamp;
        if self.batch.as_ref().is_some_and(|batch| batch.store_timestamp() != store_timestamp) {
            self.end_batch();
        }
        let has_keys = self.store.options.key_index;
        let batch = self.batch.get_or_insert_with(|| ForeignBatch::new(has_keys, store_timestamp));
        let indexed = self.store.options.index_rules.apply_to(&record);
        let mut queues = Vec::new();
        for listing in indexed.listings(&record) {
            let queue = {
                let name = listing.topic.as_str();
                self.store.queue_named(name, listing.queue, || TopicName::trusted(name))
            };
            self.raw.taken.push(Taken { queue: queue.clone(), offset: listing.offset, log_offset: offset });
            queues.push((queue, listing));
        }
        batch.push(&record, &indexed, &queues);
        self.at += size;
        Ok(indexed.is_state)
    }

    /// The bytes up to `end` lie next to each other in the log.
    fn end_piece(&mut self, end: usize) {
        if end > self.piece_from {
            let piece = self.bytes.slice(self.piece_from..end);
            self.pieces.push((self.start.after(self.piece_from as u64).0, piece));
            self.piece_from = end;
        }
    }

    /// What follows was stored at another time.
    fn end_batch(&mut self) {
        self.end_piece(self.at);
        let pieces = std::mem::take(&mut self.pieces);
        if pieces.is_empty() {
            return;
        }
        let size = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        // A filler alone is a batch without records.
        let batch = self.batch.take().unwrap_or_else(|| ForeignBatch::new(false, Timestamp(0)));
        self.raw.batches.push((batch.finish(size, self.offset()), pieces));
    }
}
