//! What consumers say of messages that they have: done, not now, never.

use std::sync::Arc;

use broker::lease::Owner;
use broker::{Doomed, Lane, MessageQueue, Settling};

use super::channel::Channel;
use super::error::Fault;
use super::link::Link;
use super::unacked::Delivered;

/// How messages are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settle {
    /// They are done.
    Done,
    /// Others get them.
    Requeue,
    /// They are given up.
    Reject,
}

/// What was asked of messages that a channel had.
#[derive(Debug)]
pub(super) struct Settlement {
    how: Settle,
    pub(super) delivered: Vec<Delivered>,
}

/// Takes what a channel has by its tag, to be settled.
pub(super) fn take(channel: &mut Channel, (tag, multiple): (u64, bool), how: Settle) -> Result<Settlement, Fault> {
    let delivered = channel.unacked.take(tag, multiple);
    let delivered = delivered.ok_or_else(|| Fault::precondition(format!("unknown delivery tag {tag}")))?;
    Ok(Settlement { how, delivered })
}

/// The same of all that a channel has, which comes again.
pub(super) fn take_all(channel: &mut Channel) -> Settlement {
    Settlement { how: Settle::Requeue, delivered: channel.unacked.take_all() }
}

/// Carries a settlement out. Gives the consumers that have room for more.
pub(super) fn carry_out(channel: &mut Channel, settlement: &Settlement, link: &mut Link) -> Vec<u64> {
    let owner = channel.owner;
    for run in settlement.delivered.chunk_by(|one, other| Arc::ptr_eq(&one.lane, &other.lane)) {
        // What was read of a stream is nobody's: it only made room for more.
        let Some(Delivered { lane, queue, .. }) = run.first().filter(|first| !first.queue.is_stream()) else {
            continue;
        };
        let offsets = run.iter().map(|delivered| delivered.offset);
        match settlement.how {
            Settle::Done => drop(lane.settle(owner, offsets)),
            Settle::Requeue => lane.requeue(owner, offsets, true),
            Settle::Reject => reject(owner, lane, queue, offsets, link),
        }
    }
    relieve(channel, &settlement.delivered)
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

/// What of some settlements is for good, so that the log can be told of it together with the messages of its transaction.
pub(super) fn settled_by(settlements: &[Settlement], owner: Owner) -> Vec<Settling> {
    let is_for_good = |settlement: &Settlement, delivered: &Delivered| match settlement.how {
        _ if delivered.queue.is_stream() => false,
        Settle::Done => true,
        Settle::Requeue => false,
        Settle::Reject => delivered.queue.rules().dead_letter_exchange.is_none(),
    };
    let of_all = settlements
        .iter()
        .flat_map(|settlement| settlement.delivered.iter().filter(move |delivered| is_for_good(settlement, delivered)));
    let mut of_all: Vec<_> = of_all.collect();
    of_all.sort_unstable_by_key(|delivered| (Arc::as_ptr(&delivered.lane), delivered.offset));
    let of_lanes = of_all.chunk_by(|one, other| Arc::ptr_eq(&one.lane, &other.lane));
    let settling = of_lanes.filter_map(|run| {
        let offsets = run.iter().map(|delivered| delivered.offset).collect();
        Some(Settling { lane: run.first()?.lane.clone(), owner, offsets })
    });
    settling.collect()
}

/// Consumers have room for as many messages more.
fn relieve(channel: &mut Channel, delivered: &[Delivered]) -> Vec<u64> {
    let mut relieved: Vec<u64> = Vec::new();
    for number in delivered.iter().filter_map(|delivered| delivered.consumer) {
        channel.given = channel.given.saturating_sub(1);
        let Some(consumer) = channel.consumers.get(number) else { continue };
        consumer.unsettled = consumer.unsettled.saturating_sub(1);
        // It is looked after once, however many it has settled.
        if std::mem::take(&mut consumer.is_stalled) {
            relieved.push(number);
        }
    }
    // Any of them may be the one that has waited for the others.
    relieved.extend(channel.take_held_back());
    relieved
}
