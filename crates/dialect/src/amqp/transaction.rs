//! Messages and settlements that wait for a commit.

/// What was asked of messages that a channel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    pub(super) tag: u64,
    pub(super) multiple: bool,
    pub(super) how: Settle,
}

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

/// A message that is kept until the commit.
#[derive(Debug)]
pub(super) struct KeptMessage {
    pub(super) exchange: Box<[u8]>,
    pub(super) key: Box<[u8]>,
    pub(super) mandatory: bool,
    pub(super) header: Box<[u8]>,
    pub(super) body: Box<[u8]>,
}

/// What waits on a channel.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) messages: Vec<KeptMessage>,
    pub(super) settlements: Vec<Settlement>,
    messages_size: usize,
}

impl Transaction {
    /// Keeps a message.
    pub(super) fn keep(&mut self, message: KeptMessage) {
        self.messages_size += message.body.len() + message.header.len() + size_of::<KeptMessage>();
        self.messages.push(message);
    }

    /// Bytes it holds.
    pub(super) const fn size(&self) -> usize {
        self.messages_size + self.settlements.len() * size_of::<Settlement>()
    }
}
