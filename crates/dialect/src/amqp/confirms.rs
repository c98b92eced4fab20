//! What channels are told of what they have published: once it is kept.
//!
//! **Always holds**: confirms of a channel leave in the order in which its messages came, so that one may stand for all before it.

use std::collections::VecDeque;

use base::offset::AckPolicy;
use base::{LogOffset, Monotonic};
use broker::Awaited;
use wire::amqp::method::basic::{Ack, Nack, TxCommitOk};

use super::error::{Fault, code};
use super::link::Link;

/// Where confirms of a channel go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfirmTo {
    /// The channel's number.
    pub(super) channel: u16,
    /// No other channel of the connection is or was this one.
    pub(super) serial: u64,
}

/// What a channel is to be told once something is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confirm {
    pub(super) to: ConfirmTo,
    pub(super) what: Kept,
    /// Whether it was stored for every queue that it goes to.
    pub(super) is_taken: bool,
}

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// The message of that number.
    Message(u64),
    /// A transaction.
    Transaction,
}

/// Confirms that wait for the same end of the log.
#[derive(Debug)]
struct Waiting {
    end: LogOffset,
    ack_policy: AckPolicy,
    confirms: Vec<Confirm>,
    /// Until when replicas are waited for.
    deadline: Monotonic,
    awaited: Awaited,
}

/// The confirms of a connection that wait, in their order.
#[derive(Debug, Default)]
pub(super) struct WaitingConfirms(VecDeque<Waiting>);

impl WaitingConfirms {
    /// Has the channels told once the log is kept so up to there.
    pub(super) fn confirm_when_kept(
        &mut self,
        (ack_policy, end): (AckPolicy, LogOffset),
        confirms: Vec<Confirm>,
        link: &mut Link,
    ) {
        let deadline = link.now.monotonic.plus_ms(link.options.replica_timeout_ms);
        self.0.push_back(Waiting { end, ack_policy, confirms, deadline, awaited: Awaited::default() });
        self.release(link);
        if let Some(last) = self.0.back_mut().filter(|last| last.end == end) {
            last.awaited = link.broker.durability.when(ack_policy, end, &link.mailbox.waker());
        }
    }

    /// Confirms what is kept as it was promised, or never will be.
    pub(super) fn release(&mut self, link: &mut Link) {
        while let Some(first) = self.0.front() {
            let durability = &link.broker.durability;
            let is_kept = durability.is_kept(first.ack_policy, first.end);
            let kept_here = AckPolicy { replicated: false, ..first.ack_policy };
            let are_in_reach = first.ack_policy.replicated && durability.replicas().are_in_reach(first.end);
            let is_over = first.ack_policy.replicated
                && (first.deadline <= link.now.monotonic || !are_in_reach)
                && durability.is_kept(kept_here, first.end);
            if !is_kept && !is_over && durability.poisoned().is_none() {
                let (now, Some(first)) = (link.now.monotonic, self.0.front_mut()) else { return };
                let waker = || link.mailbox.waker();
                if first.ack_policy.replicated {
                    // Those behind it are looked at once it is answered.
                    durability.when_still(&mut first.awaited, are_in_reach, first.end, &waker());
                }
                if first.deadline <= now {
                    // Replicas were given their time, the disk was not: its watermark wakes the session.
                    first.deadline = now.plus_ms(link.options.replica_timeout_ms.max(1));
                    if first.ack_policy == AckPolicy::REPLICATED {
                        durability.when(AckPolicy::WRITTEN, first.end, &waker());
                    }
                }
                return;
            }
            let Some(first) = self.0.pop_front() else { return };
            send_confirms(&first.confirms, is_kept, link);
        }
    }

    /// When replicas have been waited for long enough.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.0.front().filter(|first| first.ack_policy.replicated).map(|first| first.deadline)
    }

    /// Whether none are owed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes they take.
    pub(super) fn size(&self) -> usize {
        self.0.iter().map(|waiting| waiting.confirms.len() * size_of::<Confirm>()).sum()
    }

    /// A channel is gone: nobody hears of its messages any more.
    pub(super) fn forget(&mut self, to: ConfirmTo) {
        self.0.iter_mut().for_each(|waiting| waiting.confirms.retain(|confirm| confirm.to != to));
    }
}

/// Confirms in their order; one stands for all that come one behind the other.
fn send_confirms(confirms: &[Confirm], is_kept: bool, link: &mut Link) {
    let is_taken = |confirm: &Confirm| is_kept && confirm.is_taken;
    for run in confirms.chunk_by(|one, other| one.to == other.to && is_taken(one) == is_taken(other)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let (channel, multiple) = (last.to.channel, run.len() > 1);
        match last.what {
            Kept::Message(delivery_tag) if is_taken(first) => link.send(channel, Ack { delivery_tag, multiple }),
            Kept::Message(delivery_tag) => link.send(channel, Nack { delivery_tag, multiple, requeue: false }),
            Kept::Transaction if is_taken(first) => link.send(channel, TxCommitOk {}),
            Kept::Transaction => {
                link.fail_later(channel, Fault::new(code::INTERNAL_ERROR, "the transaction was not kept"));
            }
        }
    }
}
