//! Limits of a queue's length: how much is ready, what of it is too much, and whether there is room for more.
//!
//! **Always holds**: where messages are refused, one that was let in counts from then on: in its batch, on its way into its lane, and there
//! for as long as it is ready. So neither one batch nor many at a time bring in more than there is room for.

use format::model::{Overflow, QueueRules};
use storage::{ReadMode, StorageError};

use super::message_queue::{MessageQueue, QueueLane};
use crate::cursor::weighing::Length;
use crate::publish::promised::PromisedPlace;

/// A queue has no room for a message.
#[derive(Debug)]
pub(crate) struct IsFull;

impl MessageQueue {
    /// A place for a message of so many bytes in a lane of it, where not any number has one. An error: it is to be refused.
    pub(super) fn promise_place(&self, lane: &QueueLane, size: u64) -> Result<Option<PromisedPlace>, IsFull> {
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
        incoming.promise(length);
        let QueueLane { priority, index, .. } = lane.clone();
        Ok(Some(PromisedPlace { incoming: self.incoming.clone(), index, priority, length }))
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
