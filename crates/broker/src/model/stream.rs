//! Streams: message queues that are read by offset, by any number of readers at a time, and of which nobody takes anything away.
//!
//! A stream has one lane, of which nothing is ever handed out: it says from where on messages are kept. Limits of age and of bytes settle the
//! oldest there, and nothing else does. **On a crash** readers are gone, and what they have read stays.

use std::ops::Range;
use std::sync::Arc;

use base::{QueueOffset, Refusal, Timestamp};
use bytes::Bytes;
use format::model::QueueKind;
use format::record;
use storage::{ReadMode, StorageError};

use super::Model;
use super::message_queue::{MessageQueue, QueueLane};
use crate::cursor::waiters::Waiter;
use crate::error::internal;
use crate::group::mailbox::Mailbox;
use crate::queue::{Queue, size_of};

/// From where a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPlace {
    /// From an offset, or the oldest message behind it.
    At(QueueOffset),
    /// From the first message that was stored then or later.
    Since(Timestamp),
}

/// Messages of a stream.
#[derive(Debug)]
pub struct StreamRead {
    /// Where to go on.
    pub next: QueueOffset,
    /// The next has so many bytes, for which there was no room: it was not read.
    pub too_long: Option<usize>,
    offsets: Vec<QueueOffset>,
    pieces: Vec<Bytes>,
}

impl StreamRead {
    /// Each message: its offset, the piece that it is in, and its record.
    pub fn messages(&self) -> impl Iterator<Item = (QueueOffset, &Bytes, &[u8])> {
        let records = self.pieces.iter().flat_map(|piece| record::split(piece).map(move |record| (piece, record)));
        self.offsets.iter().zip(records).map(|(offset, (piece, record))| (*offset, piece, record))
    }
}

impl MessageQueue {
    /// Whether it is read by offset.
    pub fn is_stream(&self) -> bool {
        self.rules().kind == QueueKind::Stream
    }

    /// Offset of its oldest message, and one past its newest: of a stream.
    pub fn stream_bounds(&self) -> Range<QueueOffset> {
        let lanes = self.lanes.read();
        let Some(QueueLane { index, lane, .. }) = lanes.first() else { return QueueOffset(0)..QueueOffset(0) };
        let end = index.end();
        lane.floor().max(index.first()).min(end)..end
    }

    /// Has a reader told with `FetchReady` once when a message comes, not for those of before: look after it.
    pub fn watch(&self, mailbox: &Arc<Mailbox>, number: u64) -> Option<Waiter> {
        let index = self.lanes.read().first()?.index.clone();
        Some(Queue { index }.wait(mailbox.clone(), number))
    }
}

impl Model {
    /// Reads so many messages of a stream, and about so many bytes, as far as they are in memory. `None`: they have to be read where waiting is
    /// allowed, by `read_stream`.
    pub fn read_stream_cached(
        &self,
        stream: &MessageQueue,
        from: StreamPlace,
        (count_max, size_max): (usize, usize),
    ) -> Option<StreamRead> {
        let StreamPlace::At(offset) = from else { return None };
        self.read_stream_as(stream, offset, (count_max, size_max, usize::MAX), ReadMode::IfCached).ok()
    }

    /// The same, and no message that is longer than `room` bytes: what it takes is counted before it is read. Waits for the disk.
    pub fn read_stream(
        &self,
        stream: &MessageQueue,
        from: StreamPlace,
        (count_max, size_max, room): (usize, usize, usize),
    ) -> Result<StreamRead, Refusal> {
        let offset = match from {
            StreamPlace::At(offset) => Ok(offset),
            StreamPlace::Since(time) => self.first_since(stream, time),
        };
        let bounds = (count_max, size_max, room);
        let read = offset.and_then(|offset| self.read_stream_as(stream, offset, bounds, ReadMode::MayWait));
        read.inspect_err(|error| self.store.tell_lost_entries(error)).map_err(internal)
    }

    fn first_since(&self, stream: &MessageQueue, time: Timestamp) -> Result<QueueOffset, StorageError> {
        let Some(index) = stream.lanes.read().first().map(|one| one.index.clone()) else { return Ok(QueueOffset(0)) };
        let first = stream.stream_bounds().start;
        let mut failure = None;
        let found = index.search(|entry| match self.store.store_time(entry) {
            Ok(stored) => stored.is_some_and(|stored| stored >= time),
            Err(error) => {
                failure.get_or_insert(error);
                true
            }
        })?;
        failure.map_or(Ok(found.max(first)), Err)
    }

    fn read_stream_as(
        &self,
        stream: &MessageQueue,
        from: QueueOffset,
        (count_max, size_max, room): (usize, usize, usize),
        mode: ReadMode,
    ) -> Result<StreamRead, StorageError> {
        let bounds = stream.stream_bounds();
        let next = from.max(bounds.start).min(bounds.end);
        let mut read = StreamRead { next, too_long: None, offsets: Vec::new(), pieces: Vec::new() };
        let Some(index) = stream.lanes.read().first().map(|one| one.index.clone()) else { return Ok(read) };
        let mut entries = Vec::new();
        index.read(read.next, count_max, mode, &mut entries)?;
        let (mut chosen, mut size) = (Vec::with_capacity(entries.len()), 0);
        for entry in entries {
            // One is always given.
            if !chosen.is_empty() && size + entry.size as usize > size_max {
                break;
            }
            // What was lost is passed over.
            if entry.size > 0 && !entry.is_gap() {
                if size_of(&entry) > room {
                    read.too_long = chosen.is_empty().then(|| size_of(&entry));
                    break;
                }
                size += entry.size as usize;
                chosen.push((read.next, entry));
            }
            read.next = read.next.after(1);
        }
        let records = self.store.read(&index, &chosen, mode)?;
        // So is what is damaged: the store has told of it.
        let whole = chosen.iter().zip(records.iter()).filter(|(_, bytes)| bytes.is_some());
        read.offsets = whole.map(|((offset, _), _)| *offset).collect();
        records.into_pieces(&mut read.pieces);
        if !read.offsets.is_empty() {
            self.metrics.messages_out.add(read.offsets.len() as u64);
            self.metrics.message_bytes_out.add(size as u64);
        }
        Ok(read)
    }
}
