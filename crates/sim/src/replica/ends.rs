//! What the sessions of both ends see of their brokers, as in the server.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use base::offset::Watermark;
use base::{LogOffset, Now, QueueId};
use broker::{Broker, Unknown};
use bytes::{Bytes, BytesMut};
use cluster::replication::{FollowerLog, FollowerState, InReach, LeaderLog, Newest, Owed, Place, Settled};
use format::master_tables::MasterTables;
use format::state_documents::StateDocuments;

/// A master's log.
pub(super) struct Served(pub(super) Arc<Broker>);

impl LeaderLog for Served {
    fn first(&self) -> LogOffset {
        self.0.store().log_first()
    }

    fn end(&self) -> LogOffset {
        self.0.store().watermarks().committed()
    }

    fn recent(&self, start: LogOffset, size: usize) -> Vec<Bytes> {
        self.0.store().recent_raw(start, size)
    }

    fn read(&self, start: LogOffset, size: usize) -> Result<Bytes, String> {
        self.0.store().read_raw(start, size).map_err(|error| error.to_string())
    }

    fn when_written_beyond(&self, end: LogOffset, waker: &Waker) {
        self.0.store().when(Watermark::Committed, end.after(1), waker.clone());
    }

    fn note_replicated(&self, reached: InReach) {
        self.0.durability.note_replicas(match reached {
            InReach::Until(offset) => Some(offset),
            InReach::TooFew => None,
        });
    }

    fn note_joined(&self, _address: SocketAddr, _end: LogOffset) {}

    fn note_left(&self, _address: SocketAddr, _end: LogOffset) {}
}

/// A slave's broker.
pub(super) struct Followed {
    broker: Arc<Broker>,
    now: Mutex<Now>,
    ready: Mutex<Option<Range<LogOffset>>>,
}

impl Followed {
    pub(super) fn new(broker: Arc<Broker>, now: Now) -> Self {
        Self { broker, now: Mutex::new(now), ready: Mutex::default() }
    }

    pub(super) fn set_now(&self, now: Now) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// The part of its log that the master has, once it may be followed.
    pub(super) fn ready(&self) -> Option<Range<LogOffset>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn forget_ready(&self) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl FollowerLog for Followed {
    fn kept(&self) -> LogOffset {
        self.broker.following.kept()
    }

    fn tail(&self, size: usize) -> Result<(LogOffset, Bytes), String> {
        self.broker.following.tail(size).map_err(|error| error.to_string())
    }

    fn lend_buffer(&self, size: usize) -> BytesMut {
        self.broker.store().lend_buffer(size)
    }

    fn take_buffer_back(&self, rest: BytesMut, used: usize) {
        self.broker.store().take_buffer_back(rest, used);
    }

    fn append(&self, start: LogOffset, pieces: &[Bytes]) -> Result<LogOffset, String> {
        self.broker.following.append(start, pieces).map_err(|error| error.to_string())
    }

    fn try_append(&self, start: LogOffset, pieces: &[Bytes]) -> Option<Result<LogOffset, String>> {
        Some(self.broker.following.append_little(start, pieces)?.map_err(|error| error.to_string()))
    }

    fn note_sent(&self, sent: LogOffset, now: Now) {
        self.broker.following.note_sent(sent, now);
    }
}

impl FollowerState for Followed {
    fn end(&self) -> LogOffset {
        self.broker.following.end()
    }

    fn newest(&self) -> Result<Option<Newest>, String> {
        let newest = self.broker.following.newest().map_err(|error| error.to_string())?;
        Ok(newest.map(|(start, record)| Newest { start, record }))
    }

    fn owed(&self, tables: &StateDocuments) -> Owed {
        let Unknown { groups, offsets } = self.broker.following.unknown_to(tables);
        let settled = |(topic, group, queue, offset): (String, String, u32, i64)| {
            // Of a queue that cannot be read now nothing is told in this round.
            let newest = self.broker.following.newest_in(&topic, QueueId(queue)).ok()?;
            let newest = newest.map(|(queue_offset, log_offset)| Place { queue_offset, log_offset });
            Some(Settled { topic, group, queue, offset, newest })
        };
        Owed { groups, offsets: offsets.into_iter().filter_map(settled).collect() }
    }

    fn note_told(&self, told: &[Settled]) -> Result<(), String> {
        let told = told.iter().map(|told| (&*told.topic, &*told.group, told.queue, told.offset));
        self.broker.note_told(told).map_err(|refusal| refusal.to_string())
    }

    fn take_tables(&self, tables: MasterTables) -> Result<(), String> {
        let now = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        self.broker.take_tables(tables, now).map_err(|refusal| refusal.to_string())
    }

    fn note_ready(&self, masters: Range<LogOffset>) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(masters);
    }
}
