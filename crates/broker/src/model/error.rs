//! Why something of the model was not done.

use std::fmt;
use std::sync::Arc;

use base::Refusal;
use format::model::ExchangeState;

use super::message_queue::MessageQueue;

/// Why something was not done. The texts name the thing, in words that users of message queues know.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// There is no such virtual host.
    #[error("vhost {0} not found")]
    NoSuchHost(String),
    /// There is no such user.
    #[error("user '{0}' not found")]
    NoSuchUser(String),
    /// A user may do nothing in a virtual host.
    #[error("user '{user}' has no permissions in vhost '{host}'")]
    NoSuchPermission {
        /// The virtual host.
        host: String,
        /// The user.
        user: String,
    },
    /// A user is not restricted to keys of an exchange.
    #[error("user '{user}' is not restricted to keys of exchange '{}' in vhost '{host}'", Shown(.exchange))]
    NoSuchTopicPermission {
        /// The virtual host.
        host: String,
        /// The user.
        user: String,
        /// The exchange.
        exchange: Box<[u8]>,
    },
    /// There is no such binding.
    #[error("no binding {0}")]
    NoSuchBinding(String),
    /// It is there already.
    #[error("{what} '{name}' already exists")]
    Exists {
        /// What it is.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is no such queue.
    #[error("no queue '{}' in vhost '{host}'", Shown(.name))]
    NoSuchQueue {
        /// Its virtual host.
        host: Arc<str>,
        /// Its name.
        name: Box<[u8]>,
    },
    /// There is no such exchange.
    #[error("no exchange '{}' in vhost '{host}'", Shown(.name))]
    NoSuchExchange {
        /// Its virtual host.
        host: Arc<str>,
        /// Its name.
        name: Box<[u8]>,
    },
    /// A queue is another connection's.
    #[error(
        "cannot obtain exclusive access to locked queue '{}' in vhost '{host}'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.",
        Shown(.name)
    )]
    Locked {
        /// Its virtual host.
        host: Arc<str>,
        /// Its name.
        name: Box<[u8]>,
    },
    /// The queue has a consumer that wants it alone, or has others.
    #[error("queue '{}' in vhost '{host}' in exclusive use", Shown(.name))]
    ExclusiveUse {
        /// Its virtual host.
        host: Arc<str>,
        /// Its name.
        name: Box<[u8]>,
    },
    /// It is there, and is not what was asked for.
    #[error("queue '{}' is declared otherwise", Shown(.0.name()))]
    OtherQueue(Arc<MessageQueue>),
    /// The same of an exchange.
    #[error("the exchange is declared otherwise")]
    OtherExchange(Box<OtherExchange>),
    /// A virtual host has as many queues as it may.
    #[error("cannot declare queue '{}': queue limit in vhost '{host}' ({most}) is reached", Shown(.name))]
    TooManyQueues {
        /// The virtual host.
        host: Arc<str>,
        /// The queue that was to be.
        name: Box<[u8]>,
        /// How many it may have.
        most: u32,
    },
    /// A virtual host has as many connections as it may.
    #[error("access to vhost '{host}' refused for user '{user}': connection limit ({most}) is reached")]
    TooManyOfHost {
        /// The virtual host.
        host: Arc<str>,
        /// Who wanted one more.
        user: Arc<str>,
        /// How many it may have.
        most: u32,
    },
    /// A user has as many connections as it may.
    #[error("Connection refused for user '{user}': user connection limit ({most}) is reached")]
    TooManyOfUser {
        /// The user.
        user: Arc<str>,
        /// How many it may have.
        most: u32,
    },
    /// A user has as many channels as it may.
    #[error("number of channels opened for user '{user}' has reached the maximum allowed user limit of ({most})")]
    TooManyChannels {
        /// The user.
        user: Arc<str>,
        /// How many it may have.
        most: u32,
    },
    /// It is used.
    #[error("{what} '{}' in vhost '{host}' {why}", Shown(.name))]
    InUse {
        /// What it is.
        what: &'static str,
        /// Its virtual host.
        host: Arc<str>,
        /// Its name.
        name: Box<[u8]>,
        /// How.
        why: &'static str,
    },
    /// The broker cannot do it now.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// An exchange that is there.
#[derive(Clone, Debug)]
pub struct OtherExchange {
    /// Whether it outlives a restart.
    pub is_durable: bool,
    /// What it is.
    pub state: ExchangeState,
}

/// A name as people read it.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            out.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                out.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}
