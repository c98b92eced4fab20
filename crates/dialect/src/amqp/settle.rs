//! What consumers say of messages that they have: done, not now, never.

use std::sync::Arc;

use broker::lease::Owner;
use broker::{Doomed, Lane, MessageQueue};

use super::channel::Channel;
use super::error::Fault;
use super::link::Link;
use super::transaction::{Settle, Settlement};
use super::unacked::Delivered;

/// Settles what a channel has by its tag. Gives the consumers that have room for more.
pub(super) fn settle(channel: &mut Channel, settlement: Settlement, link: &mut Link) -> Result<Vec<u64>, Fault> {
    let Settlement { tag, multiple, how } = settlement;
    let delivered = channel.unacked.take(tag, multiple);
    let delivered = delivered.ok_or_else(|| Fault::precondition(format!("unknown delivery tag {tag}")))?;
    carry_out(channel.owner, &delivered, how, link);
    Ok(relieve(channel, &delivered))
}

/// Has all that a channel has come again.
pub(super) fn recover(channel: &mut Channel, link: &mut Link) -> Vec<u64> {
    let delivered = channel.unacked.take_all();
    carry_out(channel.owner, &delivered, Settle::Requeue, link);
    relieve(channel, &delivered)
}

fn carry_out(owner: Owner, delivered: &[Delivered], how: Settle, link: &mut Link) {
    for run in delivered.chunk_by(|one, other| Arc::ptr_eq(&one.lane, &other.lane)) {
        let Some(Delivered { lane, queue, .. }) = run.first() else { continue };
        let offsets = run.iter().map(|delivered| delivered.offset);
        match how {
            Settle::Done => drop(lane.settle(owner, offsets)),
            Settle::Requeue => lane.requeue(owner, offsets, true),
            Settle::Reject => reject(owner, lane, queue, offsets, link),
        }
    }
}

fn reject(
    owner: Owner,
    lane: &Arc<Lane>,
    queue: &Arc<MessageQueue>,
    offsets: impl Iterator<Item = base::QueueOffset>,
    link: &mut Link,
) {
    if queue.rules().dead_letter_exchange.is_none() {
        lane.settle(owner, offsets);
        return;
    }
    let doomed = offsets.filter_map(|offset| Doomed::rejected(lane, owner, offset)).collect();
    link.give_up(queue, doomed);
}

/// Consumers have room for as many messages more.
fn relieve(channel: &mut Channel, delivered: &[Delivered]) -> Vec<u64> {
    let mut relieved: Vec<u64> = Vec::new();
    for number in delivered.iter().filter_map(|delivered| delivered.consumer) {
        let Some(consumer) = channel.consumer(number) else { continue };
        consumer.unsettled = consumer.unsettled.saturating_sub(1);
        // It is looked after once, however many it has settled.
        if std::mem::take(&mut consumer.is_stalled) {
            relieved.push(number);
        }
    }
    if channel.shared_prefetch > 0 {
        // Any of them may be the one that has waited for the others.
        relieved.extend(channel.take_stalled());
    }
    relieved
}
