//! Messages that are kept for later: until a transaction is committed, or until the log takes messages again.

use super::prepared::Message;

/// A message that is kept.
#[derive(Debug)]
pub(super) struct KeptMessage {
    exchange: Box<[u8]>,
    key: Box<[u8]>,
    mandatory: bool,
    header: Box<[u8]>,
    body: Box<[u8]>,
    reply_address: Option<Box<[u8]>>,
}

impl KeptMessage {
    /// A copy of a message.
    pub(super) fn of(message: &Message<'_>) -> Self {
        let Message { exchange, key, mandatory, header, body, reply_address } = *message;
        let reply_address = reply_address.map(Box::from);
        Self {
            exchange: exchange.into(),
            key: key.into(),
            mandatory,
            header: header.into(),
            body: body.into(),
            reply_address,
        }
    }

    /// Bytes it takes.
    pub(super) fn size(&self) -> usize {
        let reply_size = self.reply_address.as_ref().map_or(0, |address| address.len());
        size_of::<Self>() + self.exchange.len() + self.key.len() + self.header.len() + self.body.len() + reply_size
    }

    /// As it came.
    pub(super) fn message(&self) -> Message<'_> {
        let Self { exchange, key, mandatory, header, body, reply_address } = self;
        Message { exchange, key, mandatory: *mandatory, header, body, reply_address: reply_address.as_deref() }
    }

    /// Nobody is there any more to take it back.
    pub(super) const fn forget_sender(&mut self) {
        self.mandatory = false;
    }
}
