//! Messages and settlements that wait for a commit.

use super::prepared::Message;
use super::settle::Settlement;
use super::unacked::Delivered;

/// A message that is kept until the commit.
#[derive(Debug)]
pub(super) struct KeptMessage {
    exchange: Box<[u8]>,
    key: Box<[u8]>,
    mandatory: bool,
    header: Box<[u8]>,
    body: Box<[u8]>,
}

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

impl KeptMessage {
    fn of(message: &Message<'_>) -> Self {
        let Message { exchange, key, mandatory, header, body, .. } = *message;
        Self { exchange: exchange.into(), key: key.into(), mandatory, header: header.into(), body: body.into() }
    }

    const fn size(&self) -> usize {
        size_of::<Self>() + self.exchange.len() + self.key.len() + self.header.len() + self.body.len()
    }

    /// As it came, from a channel whose direct replies go to `reply_address`.
    pub(super) fn message<'a>(&'a self, reply_address: Option<&'a [u8]>) -> Message<'a> {
        let Self { exchange, key, mandatory, header, body } = self;
        Message { exchange, key, mandatory: *mandatory, header, body, reply_address }
    }
}
