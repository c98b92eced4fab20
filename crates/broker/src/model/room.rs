//! Limits of a queue's length: how much is ready, what of it is too much, and whether there is room for more.
//!
//! **Always holds**: where messages are refused, one that was let in counts from then on: in its batch, on its way into its lane, and there
//! for as long as it is ready. So neither one batch nor many at a time bring in more than there is room for.

use std::sync::Arc;

use base::QueueOffset;
use format::model::{Overflow, QueueRules};
use storage::{QueueIndex, ReadMode, StorageError};

use super::message_queue::{MessageQueue, QueueLane};
use crate::cursor::weighing::Length;

/// Batches on their way into lanes that are told apart; of more the last count as one.
const ARRIVING_MAX: usize = 256;

/// What was let in and is not in the lanes yet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// In batches that are not in the log.
    promised: Length,
    arriving: Vec<Arriving>,
}

/// Messages that the log has, and that are in their lane once that is counted up to `end`.
#[derive(Debug)]
struct Arriving {
    priority: u8,
    end: QueueOffset,
    length: Length,
}

/// A queue has no room for a message.
#[derive(Debug)]
pub(crate) struct IsFull;

/// A place for one message in a queue that refuses what is too much; dropped, it is free again, unless its message is in the log.
#[derive(Debug)]
pub(crate) struct PromisedPlace {
    queue: Arc<MessageQueue>,
    index: Arc<QueueIndex>,
    priority: u8,
    length: Length,
}

impl Incoming {
    /// Nothing that a lane has by now is on its way into it.
    fn arrive(&mut self, priority: u8, until: QueueOffset) {
        self.arriving.retain(|arriving| arriving.priority != priority || arriving.end > until);
    }

    fn length(&self) -> Length {
        self.arriving.iter().fold(self.promised, |sum, arriving| sum.plus(arriving.length))
    }

    fn append(&mut self, arriving: Arriving) {
        let is_crowded = self.arriving.len() >= ARRIVING_MAX;
        let last = self.arriving.iter_mut().rev().find(|last| last.priority == arriving.priority);
        match last.filter(|last| last.end == arriving.end || is_crowded) {
            Some(last) => (last.end, last.length) = (arriving.end.max(last.end), last.length.plus(arriving.length)),
            None => self.arriving.push(arriving),
        }
    }
}

impl PromisedPlace {
    /// The log has the message.
    pub(crate) fn note_appended(self) {
        let Self { priority, length, .. } = self;
        let end = self.index.appended_end();
        self.queue.incoming.lock().append(Arriving { priority, end, length });
    }
}

impl Drop for PromisedPlace {
    fn drop(&mut self) {
        let mut incoming = self.queue.incoming.lock();
        incoming.promised = incoming.promised.less(self.length);
    }
}

impl MessageQueue {
    /// A place for a message of so many bytes in a lane of it, where not any number has one. An error: it is to be refused.
    pub(super) fn promise_place(
        self: &Arc<Self>,
        lane: &QueueLane,
        size: u64,
    ) -> Result<Option<PromisedPlace>, IsFull> {
        if self.rules().overflow == Overflow::DropHead || !self.rules().has_length_limit() {
            return Ok(None);
        }
        let QueueRules { length_max, size_max, .. } = self.rules();
        let mut incoming = self.incoming.lock();
        let mut ready = Length::default();
        for QueueLane { priority, lane, .. } in &*self.lanes.read() {
            // What cannot be weighed now is weighed by the next sweep.
            let _ = lane.weigh(ReadMode::IfCached);
            let (length, until) = lane.length();
            incoming.arrive(*priority, until);
            ready = ready.plus(length);
        }
        let length = Length { count: 1, size };
        let then = ready.plus(incoming.length()).plus(length);
        if length_max.is_some_and(|most| then.count > most) || size_max.is_some_and(|most| then.size > most) {
            return Err(IsFull);
        }
        incoming.promised = incoming.promised.plus(length);
        let QueueLane { priority, index, .. } = lane.clone();
        Ok(Some(PromisedPlace { queue: self.clone(), index, priority, length }))
    }

    /// How much is ready that is to go, and whether that is known of all that is ready. Waits for the disk.
    pub(super) fn excess(&self) -> Result<(Length, bool), StorageError> {
        let QueueRules { length_max, size_max, overflow, .. } = self.rules();
        let mut is_all = true;
        let mut ready = Length::default();
        if !self.rules().has_length_limit() {
            return Ok((ready, is_all));
        }
        for QueueLane { lane, .. } in self.queue_lanes() {
            is_all &= lane.weigh(ReadMode::MayWait)?;
            ready = ready.plus(lane.length().0);
        }
        let most = Length { count: length_max.unwrap_or(u64::MAX), size: size_max.unwrap_or(u64::MAX) };
        let excess = if *overflow == Overflow::DropHead { ready.less(most) } else { Length::default() };
        Ok((excess, is_all))
    }
}
