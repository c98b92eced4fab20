//! What a handler is given beside the request.

use std::net::SocketAddr;
use std::sync::Arc;

use base::Now;
use broker::{Broker, Mailbox};

use super::options::SessionOptions;

/// What a handler has at hand.
pub(super) struct Context<'a> {
    pub(super) broker: &'a Arc<Broker>,
    pub(super) options: &'a SessionOptions,
    pub(super) peer: &'a Peer,
    pub(super) now: Now,
}

/// Who is at the other end.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) address: SocketAddr,
}
