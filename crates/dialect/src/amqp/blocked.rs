//! What a connection publishes while the log takes no messages: it waits here in its order, so that everything else that the client says
//! is heard, and the client is told why (`connection.blocked`).
//!
//! **Always holds**: what is published behind a message that waits, waits too. It is bounded by bytes: beyond that the client is not read.
//! **On a crash**, and when the connection ends, what waits is gone: nobody was told that it was kept.
//!
//! Source: RabbitMQ's `connection.blocked`, which there means that the whole connection is not read.

use std::collections::VecDeque;

use base::Monotonic;
use base::budget::{LITTLE_SIZE_MAX, Room};
use wire::amqp::argument::ShortString;
use wire::amqp::method::{Method, connection};

use super::confirms::ConfirmTo;
use super::kept::KeptMessage;
use super::link::Link;

/// How long the log may be behind before the client hears of it, and how often is looked whether it takes messages again, ms.
pub(super) const PATIENCE_MS: u64 = 1_000;

/// Bytes of messages that wait on a connection.
const WAITING_SIZE_MAX: usize = 1024 * 1024;

/// A message that waits.
#[derive(Debug)]
pub(super) struct WaitingMessage {
    pub(super) message: KeptMessage,
    /// The channel it came on, unless that is gone.
    pub(super) from: Option<ConfirmTo>,
    /// By which number it is confirmed, if it is.
    pub(super) confirm: Option<u64>,
}

/// A connection whose messages wait.
#[derive(Debug)]
pub(super) struct Blocked {
    messages: VecDeque<WaitingMessage>,
    size: usize,
    /// When it is looked again whether the log takes messages.
    look_at: Monotonic,
    /// What the client has said last has to wait for them.
    is_awaited: bool,
}

impl Blocked {
    /// From now on messages wait, and the client is told for which reason.
    pub(super) fn begin(reason: &str, link: &mut Link) -> Self {
        link.broker.metrics().publishers_blocked.add(1);
        if link.hears_of_blocked {
            link.send(0, connection::Blocked { reason: ShortString::cut(reason.as_bytes()) });
        }
        let look_at = link.now.monotonic.plus_ms(PATIENCE_MS);
        Self { messages: VecDeque::new(), size: 0, look_at, is_awaited: false }
    }

    /// They do not wait any more.
    pub(super) fn end(self, link: &mut Link) {
        debug_assert!(self.messages.is_empty(), "{} messages wait", self.messages.len());
        if link.hears_of_blocked {
            link.send(0, connection::Unblocked {});
        }
    }

    /// Has a message wait.
    pub(super) fn hold(&mut self, waiting: WaitingMessage) {
        self.size += waiting.message.size();
        self.messages.push_back(waiting);
    }

    /// The message that has waited longest.
    pub(super) fn take_first(&mut self) -> Option<WaitingMessage> {
        let first = self.messages.pop_front()?;
        self.size -= first.message.size();
        Some(first)
    }

    /// Whether a method has to wait for the messages before it: it would be answered otherwise once they are in their queues.
    pub(super) fn holds_up(&self, method: &Method<'_>) -> bool {
        let is_independent = matches!(
            method,
            Method::Publish(_)
                | Method::Ack(_)
                | Method::Nack(_)
                | Method::Reject(_)
                | Method::Recover(_)
                | Method::RecoverAsync(_)
                | Method::Qos(_)
                | Method::Consume(_)
                | Method::Cancel(_)
                | Method::ConfirmSelect(_)
                | Method::TxSelect(_)
                | Method::TxCommit(_)
                | Method::TxRollback(_)
                | Method::Flow(_)
                | Method::ChannelOpen(_)
                | Method::ChannelCloseOk(_)
        );
        !is_independent && !self.messages.is_empty()
    }

    /// The client has said what has to wait for them: it is not read until they are published.
    pub(super) const fn await_messages(&mut self) {
        self.is_awaited = true;
    }

    /// Whether the client is not to be read.
    pub(super) fn is_full(&self, link: &Link) -> bool {
        let most = match link.budget.room() {
            Room::Plenty => WAITING_SIZE_MAX,
            Room::Little => LITTLE_SIZE_MAX,
            Room::None => 0,
        };
        self.is_awaited || self.size > most
    }

    /// Looks again after a while. Where no message waits any more, what has waited for them is looked at anew.
    pub(super) fn look_later(&mut self, now: Monotonic) {
        self.look_at = now.plus_ms(PATIENCE_MS);
        self.is_awaited &= !self.messages.is_empty();
    }

    /// When it is looked again.
    pub(super) const fn deadline(&self) -> Monotonic {
        self.look_at
    }

    /// Bytes that wait.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// A channel has failed by a message of its own: what it sent behind that is not heeded.
    pub(super) fn discard(&mut self, channel: ConfirmTo) {
        self.messages.retain(|waiting| waiting.from != Some(channel));
        self.size = self.messages.iter().map(|waiting| waiting.message.size()).sum();
    }

    /// A channel is gone: nobody hears of its messages any more.
    pub(super) fn forget(&mut self, channel: ConfirmTo) {
        for waiting in self.messages.iter_mut().filter(|waiting| waiting.from == Some(channel)) {
            (waiting.from, waiting.confirm) = (None, None);
            waiting.message.forget_sender();
        }
    }
}
