//! Who is connected to which virtual host, and as which user: so that they can be told to go.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::message_queue::ConnectionNumber;
use crate::group::mailbox::{Mailbox, Signal};

/// A connection.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The virtual host it uses.
    pub host: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// Its signals.
    pub mailbox: Arc<Mailbox>,
}

/// The open connections.
#[derive(Debug, Default)]
pub struct Connections(Mutex<HashMap<ConnectionNumber, Connected>>);

impl Connections {
    /// One is open. It has to look after this whether it still may be: who was removed before has told nobody.
    pub fn add(&self, number: ConnectionNumber, connected: Connected) {
        self.0.lock().insert(number, connected);
    }

    /// One is closed.
    pub(super) fn remove(&self, number: ConnectionNumber) {
        self.0.lock().remove(&number);
    }

    /// Tells those that are meant that they have to go, and why.
    pub(super) fn dismiss(&self, is_meant: impl Fn(&Connected) -> bool, why: &str) {
        let why: Arc<str> = why.into();
        for connected in self.0.lock().values().filter(|connected| is_meant(connected)) {
            connected.mailbox.send(Signal::Dismissed(why.clone()));
        }
    }
}
