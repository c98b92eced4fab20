//! The way of a message into message queues: one record for all of them.

use std::net::SocketAddr;
use std::sync::Arc;

use base::offset::AckPolicy;
use base::{Now, Refusal, Timestamp};
use format::model::QueueKind;
use format::routed::RoutedDraft;
use storage::StorageError;

use super::Model;
use super::message_queue::MessageQueue;
use super::room::IsFull;
use crate::error::refusal_of;
use crate::publish::PublishBatch;
use crate::publish::published::Published;

/// A message as an exchange got it.
#[derive(Clone, Copy, Debug)]
pub struct RoutedMessage<'a> {
    /// The exchange; at most 255 bytes.
    pub exchange: &'a [u8],
    /// Its key; at most 255 bytes.
    pub key: &'a [u8],
    /// What the dialect says of it.
    pub header: &'a [u8],
    /// Its body, in pieces.
    pub body: &'a [&'a [u8]],
    /// Higher ones come first.
    pub priority: u8,
    /// How long it may wait, ms.
    pub time_to_live_ms: Option<u64>,
    /// Whether it is to survive a power cut where its queue does.
    pub is_persistent: bool,
    /// Where its producer is.
    pub born_host: SocketAddr,
    /// How often it was a dead letter.
    pub deaths: u32,
}

impl Model {
    /// Adds a message to a batch, for each of `queues`, of which there is one at least. Gives whether none of them refuses it for being full.
    pub fn add(
        &self,
        batch: &mut PublishBatch,
        queues: &[Arc<MessageQueue>],
        message: &RoutedMessage<'_>,
    ) -> Result<bool, Refusal> {
        let refused_by = self.place(batch, queues, message)?;
        let is_taken = refused_by.is_empty();
        if !is_taken {
            self.bury_refused(batch, message, refused_by)?;
        }
        Ok(is_taken)
    }

    /// The same without its dead letters; gives the queues that refuse it.
    pub(super) fn place(
        &self,
        batch: &mut PublishBatch,
        queues: &[Arc<MessageQueue>],
        message: &RoutedMessage<'_>,
    ) -> Result<Vec<Arc<MessageQueue>>, Refusal> {
        let mut destinations = Vec::with_capacity(queues.len());
        let (mut refused_by, mut has_to_be_durable) = (Vec::new(), false);
        let size = message.body.iter().map(|piece| piece.len() as u64).sum();
        // One that has gone meanwhile gets nothing: that is no refusal.
        for queue in queues.iter().filter(|queue| !queue.is_gone()) {
            let lane = queue.lane_for(message.priority)?;
            match queue.promise_place(&lane, size) {
                Ok(place) => batch.keep_place(place),
                Err(IsFull) => {
                    refused_by.push(queue.clone());
                    continue;
                }
            }
            // A stream keeps all for as long as it keeps any.
            let own_time = message.time_to_live_ms.filter(|_| !queue.is_stream());
            let times = [queue.rules().time_to_live_ms, own_time];
            let time_to_live_ms = times.into_iter().flatten().min();
            if let Some(time_to_live_ms) = time_to_live_ms {
                queue.note_timed();
                self.timers.watch_messages(queue, batch.now().wall.plus_ms(time_to_live_ms));
            }
            if queue.rules().has_length_limit() {
                self.timers.watch_messages(queue, batch.now().wall);
            }
            let is_kept = message.is_persistent || queue.rules().kind == QueueKind::Quorum;
            has_to_be_durable |= is_kept && queue.wish().is_durable;
            destinations.push((lane.index, time_to_live_ms));
        }
        if destinations.is_empty() {
            return Ok(refused_by);
        }
        let draft = RoutedDraft {
            exchange: message.exchange,
            key: message.key,
            header: message.header,
            body: message.body,
            born_timestamp: Timestamp(batch.now().wall.0),
            born_host: message.born_host,
            store_host: self.publisher.store_host(),
            deaths: message.deaths,
        };
        let (size, limit) =
            (draft.encoded_len(destinations.len(), self.store.checksum_room()), self.store.record_size_max());
        if size > limit {
            return Err(refusal_of(StorageError::RecordTooLarge { size, limit }));
        }
        if has_to_be_durable {
            let replicated = self.publisher.ack_policy().replicated;
            batch.require(AckPolicy { durable: true, replicated });
        }
        batch.push_routed(&draft, &destinations);
        Ok(refused_by)
    }

    /// Appends a batch; see `Publisher::append`.
    pub fn append(&self, batch: PublishBatch, now: Now) -> Result<Published, Refusal> {
        self.publisher.append(batch, now)
    }

    /// Begins a batch of messages of about `size` bytes in all.
    pub fn begin_batch(&self, size: usize, now: Now) -> PublishBatch {
        self.publisher.begin_batch(size, now)
    }
}
