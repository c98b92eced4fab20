//! Who is connected to which virtual host, and as which user: so that there are not more than may be, and that they can be told to go.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::Timestamp;
use format::model::{HostLimits, UserLimits};
use parking_lot::Mutex;

use super::error::ModelError;
use super::message_queue::ConnectionNumber;
use crate::group::mailbox::{Mailbox, Signal};

/// What a client says of itself, in short. Nobody checks it; what it does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSaid {
    /// The name that its program gave to the connection.
    pub name: String,
    /// The client library,
    pub product: String,
    /// its version,
    pub version: String,
    /// and what that runs on.
    pub platform: String,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Connected {
    /// Where its client is.
    pub address: SocketAddr,
    /// Who its client says it is.
    pub client: Arc<ClientSaid>,
    /// When it was opened.
    pub since: Timestamp,
    /// The virtual host it uses.
    pub host: Arc<str>,
    /// Whose it is.
    pub user: Arc<str>,
    /// Its signals.
    pub mailbox: Arc<Mailbox>,
}

/// The open connections.
#[derive(Debug, Default)]
pub struct Connections(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    open: HashMap<ConnectionNumber, Connected>,
    /// Open channels by user; those of nobody stay until the next user comes.
    channels: HashMap<Arc<str>, Arc<AtomicU32>>,
}

/// An open channel; it is closed when this is dropped.
#[derive(Debug)]
pub struct OpenChannel(Arc<AtomicU32>);

impl Drop for OpenChannel {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// One is open, if it may be. It has to look after this whether its user may still use the virtual host: who was removed before has
    /// told nobody.
    pub fn add(
        &self,
        number: ConnectionNumber,
        connected: Connected,
        of_host: HostLimits,
        of_user: UserLimits,
    ) -> Result<(), ModelError> {
        let mut table = self.0.lock();
        let Connected { host, user, .. } = &connected;
        let count = |is_meant: &dyn Fn(&Connected) -> bool| table.open.values().filter(|one| is_meant(one)).count();
        if let Some(most) = of_host.connections_max.filter(|most| count(&|one| one.host == *host) >= *most as usize) {
            return Err(ModelError::TooManyOfHost { host: host.clone(), user: user.clone(), most });
        }
        if let Some(most) = of_user.connections_max.filter(|most| count(&|one| one.user == *user) >= *most as usize) {
            return Err(ModelError::TooManyOfUser { user: user.clone(), most });
        }
        table.open.insert(number, connected);
        Ok(())
    }

    /// A user opens a channel, if it may.
    pub fn open_channel(&self, user: &Arc<str>, limits: UserLimits) -> Result<OpenChannel, ModelError> {
        let mut table = self.0.lock();
        if !table.channels.contains_key(user) {
            table.channels.retain(|_, open| Arc::strong_count(open) > 1);
        }
        let open = table.channels.entry(user.clone()).or_default();
        // Nobody opens one meanwhile.
        if let Some(most) = limits.channels_max.filter(|most| open.load(Ordering::Relaxed) >= *most) {
            return Err(ModelError::TooManyChannels { user: user.clone(), most });
        }
        open.fetch_add(1, Ordering::Relaxed);
        Ok(OpenChannel(open.clone()))
    }

    /// All of them, in the order in which they came.
    pub fn all(&self) -> Vec<(ConnectionNumber, Connected)> {
        let mut all: Vec<_> = self.0.lock().open.iter().map(|(number, one)| (*number, one.clone())).collect();
        all.sort_unstable_by_key(|(number, _)| number.0);
        all
    }

    /// Tells one that it has to go, and why; whether there is such a one.
    pub fn close(&self, number: ConnectionNumber, why: &str) -> bool {
        let table = self.0.lock();
        table.open.get(&number).is_some_and(|connected| connected.mailbox.send(Signal::Dismissed(why.into())))
    }

    /// One is closed.
    pub(super) fn remove(&self, number: ConnectionNumber) {
        self.0.lock().open.remove(&number);
    }

    /// Tells those that are meant that they have to go, and why.
    pub(super) fn dismiss(&self, is_meant: impl Fn(&Connected) -> bool, why: &str) {
        let why: Arc<str> = why.into();
        for connected in self.0.lock().open.values().filter(|connected| is_meant(connected)) {
            connected.mailbox.send(Signal::Dismissed(why.clone()));
        }
    }
}
