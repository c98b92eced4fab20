//! Messages and settlements that wait for a commit.

use super::kept::KeptMessage;
use super::prepared::Message;
use super::settle::Settlement;
use super::unacked::Delivered;

/// What waits on a channel.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) messages: Vec<KeptMessage>,
    /// What the channel does not have any more once they are carried out, and has again if they are not.
    pub(super) settlements: Vec<Settlement>,
    messages_size: usize,
    settled_count: usize,
}

impl Transaction {
    /// Keeps a message.
    pub(super) fn keep(&mut self, message: &Message<'_>) {
        let message = KeptMessage::of(message);
        self.messages_size += message.size();
        self.messages.push(message);
    }

    /// Keeps a settlement.
    pub(super) fn settle(&mut self, settlement: Settlement) {
        self.settled_count += settlement.delivered.len();
        self.settlements.push(settlement);
    }

    /// Bytes that its messages take.
    pub(super) const fn messages_size(&self) -> usize {
        self.messages_size
    }

    /// Bytes it holds.
    pub(super) const fn size(&self) -> usize {
        let settlements_size = self.settlements.capacity() * size_of::<Settlement>();
        self.messages_size + settlements_size + self.settled_count * size_of::<Delivered>()
    }
}
