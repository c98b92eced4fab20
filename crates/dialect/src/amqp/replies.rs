//! Direct replies: who asks a question gets the answer on the channel it asked on, without a queue in between.
//!
//! **Owns** the addresses of channels that wait for replies. **Always holds**: nothing of a reply is stored. One that comes for a channel that
//! has gone, or that does not take what it has, is lost: who asks waits no longer than it wants to.
//!
//! Source: RabbitMQ's documentation of direct reply-to.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker::{Mailbox, Signal, Word};
use format::model::Text;
use parking_lot::Mutex;

use super::prepared::Message;

/// The queue that stands for the channel's own address, to consume from and to have replies sent to.
pub(super) const REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

/// What an address begins with.
const ADDRESS_PREFIX: &str = "amq.rabbitmq.reply-to.";

/// Bytes of replies that may wait for a channel.
const WAITING_SIZE_MAX: usize = 8 * 1024 * 1024;

/// Channels that wait for replies.
#[derive(Debug, Default)]
pub struct Replies(Mutex<HashMap<u64, Asker>>);

#[derive(Clone, Debug)]
struct Asker {
    mailbox: Arc<Mailbox>,
    /// Bytes of replies that its connection has not taken.
    waiting: Arc<AtomicUsize>,
}

/// Who consumes replies on a channel.
#[derive(Debug)]
pub(super) struct ReplyConsumer {
    /// Its name.
    pub(super) tag: Text,
    /// Where replies to it are sent.
    pub(super) address: Text,
    number: u64,
    replies: Arc<Replies>,
}

/// A reply on its way to a channel.
#[derive(Debug)]
pub(super) struct Reply {
    number: u64,
    pub(super) key: Box<[u8]>,
    pub(super) header: Box<[u8]>,
    pub(super) body: Box<[u8]>,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.size(), Ordering::Relaxed);
    }
}

impl Reply {
    fn size(&self) -> usize {
        size_of::<Self>() + self.header.len() + self.body.len()
    }
}

impl ReplyConsumer {
    /// Has replies come to `mailbox`. `number` is random: nobody guesses the address.
    pub(super) fn new(tag: Text, number: u64, mailbox: &Arc<Mailbox>, replies: &Arc<Replies>) -> Self {
        replies.0.lock().insert(number, Asker { mailbox: mailbox.clone(), waiting: Arc::default() });
        let address = format!("{ADDRESS_PREFIX}{number:016x}").into_bytes().into();
        Self { tag, address, number, replies: replies.clone() }
    }

    /// Whether it is the one that has asked for this.
    pub(super) const fn expects(&self, reply: &Reply) -> bool {
        self.number == reply.number
    }
}

impl Drop for ReplyConsumer {
    fn drop(&mut self) {
        self.replies.0.lock().remove(&self.number);
    }
}

impl Replies {
    /// Whether a key of the default exchange is an address of this kind.
    pub(super) fn is_address(key: &[u8]) -> bool {
        key.starts_with(ADDRESS_PREFIX.as_bytes())
    }

    fn find(&self, address: &[u8]) -> Option<(u64, Asker)> {
        let digits = std::str::from_utf8(address.strip_prefix(ADDRESS_PREFIX.as_bytes())?).ok()?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        let asker = self.0.lock().get(&number).cloned()?;
        Some((number, asker))
    }

    /// Whether somebody waits for replies there.
    pub(super) fn has(&self, address: &[u8]) -> bool {
        self.find(address).is_some()
    }

    /// Sends a reply on its way. `false`: nobody waits for replies there.
    pub(super) fn send(&self, message: &Message<'_>) -> bool {
        let Some((number, Asker { mailbox, waiting })) = self.find(message.key) else { return false };
        let reply = Reply {
            number,
            key: message.key.into(),
            header: message.header.into(),
            body: message.body.into(),
            waiting: waiting.clone(),
        };
        let before = waiting.fetch_add(reply.size(), Ordering::Relaxed);
        // Counted back when it is dropped.
        if before < WAITING_SIZE_MAX {
            mailbox.send(Signal::Told(Word::new(reply)));
        }
        true
    }
}
