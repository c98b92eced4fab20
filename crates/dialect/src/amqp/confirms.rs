//! What channels are told of what they have published: once it is kept.
//!
//! **Always holds**: confirms of a channel leave in the order in which its messages came, so that one may stand for all before it.

use std::collections::VecDeque;

use base::offset::AckPolicy;
use base::{LogOffset, Monotonic};
use broker::{Standing, Wait};
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
    wait: Wait,
    confirms: Vec<Confirm>,
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
        let replicas_until = link.now.monotonic.plus_ms(link.options.replica_timeout_ms);
        let mut wait = Wait::new(ack_policy, end, replicas_until, None);
        if !self.0.is_empty() {
            // The sync is not to wait until it is the first.
            wait.look(&link.broker.durability, link.now.monotonic, || link.mailbox.waker());
        }
        self.0.push_back(Waiting { wait, confirms });
        self.release(link);
    }

    /// Confirms what is kept as it was promised, or never will be. Those behind the first are looked at once it is told.
    pub(super) fn release(&mut self, link: &mut Link) {
        while let Some(first) = self.0.front_mut() {
            let standing = first.wait.look(&link.broker.durability, link.now.monotonic, || link.mailbox.waker());
            if standing == Standing::Waits {
                return;
            }
            let Some(first) = self.0.pop_front() else { return };
            send_confirms(&first.confirms, standing == Standing::Kept, link);
        }
    }

    /// When it is to be released though nothing has woken the session.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.0.front().and_then(|first| first.wait.deadline())
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
