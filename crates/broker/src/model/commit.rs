//! Messages and settlements that go into the log together: a transaction.

use std::sync::Arc;

use base::{LogOffset, Now, QueueOffset, Refusal};

use super::Model;
use crate::cursor::lane::Lane;
use crate::cursor::lease::Owner;
use crate::publish::PublishBatch;

/// Messages of a lane that somebody has and settles.
#[derive(Debug)]
pub struct Settling {
    /// The lane.
    pub lane: Arc<Lane>,
    /// Who has them.
    pub owner: Owner,
    /// Which; in order.
    pub offsets: Vec<QueueOffset>,
}

impl Model {
    /// Appends a batch and settles messages with it: the log is told of both at once. Gives where that ends. An error: nothing was done.
    pub fn commit(&self, batch: PublishBatch, settling: &[Settling], now: Now) -> Result<LogOffset, Refusal> {
        let changes: Vec<_> = settling.iter().filter_map(|one| one.lane.settlement_of(&one.offsets)).collect();
        if batch.is_empty() && changes.is_empty() {
            return Ok(LogOffset(0));
        }
        let appended =
            if changes.is_empty() { self.append(batch, now) } else { self.publisher.append_with(batch, changes, now) };
        let end = appended?.end();
        for Settling { lane, owner, offsets } in settling {
            lane.settle(*owner, offsets.iter().copied());
        }
        Ok(end)
    }
}
