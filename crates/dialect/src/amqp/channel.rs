//! One channel: what it is receiving, whom it delivers to, what it owes.

use broker::OpenChannel;
use broker::lease::Owner;
use format::model::Text;

use super::confirms::ConfirmTo;
use super::consumers::Consumers;
use super::content::Incoming;
use super::replies::ReplyConsumer;
use super::transaction::Transaction;
use super::unacked::Unacked;

/// A channel.
pub(super) struct Channel {
    pub(super) number: u16,
    /// No other channel of the connection is or was this one.
    pub(super) serial: u64,
    /// By which queues know it.
    pub(super) owner: Owner,
    pub(super) incoming: Incoming,
    /// The queue declared last.
    pub(super) last_queue: Option<Text>,
    /// Messages that a consumer of it may have unsettled, for those to come; 0: any number.
    pub(super) prefetch: u32,
    /// The same of all consumers together.
    pub(super) shared_prefetch: u32,
    /// Messages that its consumers have not settled, or that are on their way to them.
    pub(super) given: u32,
    /// Some consumer has to wait until others have settled, or there is memory.
    pub(super) is_held_back: bool,
    pub(super) consumers: Consumers,
    /// Who gets direct replies.
    pub(super) replies: Option<ReplyConsumer>,
    pub(super) unacked: Unacked,
    /// The number of the last message that is to be confirmed, if any is.
    pub(super) confirmed: Option<u64>,
    pub(super) transaction: Option<Transaction>,
    /// It was told to close, and has not answered: what it sends is not heeded.
    pub(super) is_closing: bool,
    /// Its user has one more as long as this is there.
    _counted: OpenChannel,
}

impl Channel {
    pub(super) fn new(number: u16, serial: u64, owner: Owner, counted: OpenChannel) -> Self {
        Self {
            number,
            serial,
            owner,
            incoming: Incoming::default(),
            last_queue: None,
            prefetch: 0,
            shared_prefetch: 0,
            given: 0,
            is_held_back: false,
            consumers: Consumers::default(),
            replies: None,
            unacked: Unacked::default(),
            confirmed: None,
            transaction: None,
            is_closing: false,
            _counted: counted,
        }
    }

    /// Where its confirms go.
    pub(super) const fn confirm_to(&self) -> ConfirmTo {
        ConfirmTo { channel: self.number, serial: self.serial }
    }

    /// The number of a message, if it is to be confirmed.
    pub(super) fn next_confirm(&mut self) -> Option<u64> {
        let last = self.confirmed.as_mut()?;
        *last += 1;
        Some(*last)
    }

    /// Whether messages wait for a commit.
    pub(super) fn has_messages_to_commit(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| !transaction.messages.is_empty())
    }

    /// Bytes it holds.
    pub(super) fn size(&self) -> usize {
        self.incoming.size() + self.unacked.size() + self.transaction.as_ref().map_or(0, Transaction::size)
    }
}
