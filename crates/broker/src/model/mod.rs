//! Virtual hosts with their exchanges, bindings and message queues, and who may use them.
//!
//! **Owns** all of that in memory, and what of it outlives a restart as changes of state. **Always holds**: what is durable is in the log
//! before anybody is told that it is there; numbers of queues are never given out twice, so that nothing of a removed queue can be taken for
//! another's. **On a crash** what is not durable is gone, with its messages: files of queues that nobody knows are removed by the next start.
//!
//! Nothing here waits for a sync: who promises more than that a change is in the log waits for the log.

pub(crate) mod access;
mod administer;
mod change;
mod commit;
pub(crate) mod connections;
pub(crate) mod consumers;
mod dead_letters;
pub(crate) mod error;
mod followed;
pub(crate) mod message_queue;
mod open;
pub(crate) mod publish;
mod removal;
mod room;
mod stream;
mod sweep;
pub(crate) mod virtual_host;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use base::metric::Metrics;
use base::{QueueNumber, Refusal};
use format::model::{RoutingKind, Text};
use format::model_tables::ModelTables;
use parking_lot::{Mutex, RwLock};
use storage::Store;

use crate::cursor::lanes::Lanes;
use crate::cursor::lease::Owner;
use crate::publish::Publisher;
use crate::state::StateLog;

use access::Access;
use connections::Connections;
pub use dead_letters::{DeadLetterForm, Death, Noted, Plain};
use error::ModelError;
use message_queue::{ConnectionNumber, MessageQueue};
use sweep::Timers;
use virtual_host::VirtualHost;

pub use change::{Deleted, OnlyIf};
pub use commit::Settling;
pub(crate) use open::Parts as ModelParts;
pub use stream::{StreamPlace, StreamRead};

/// Numbers of queues that are taken from the log at once.
const NUMBERS_AT_ONCE: u32 = 1024;

/// What is there from the first start on, and how dead letters look: for the dialect whose clients know them.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Exchanges of every virtual host: name, kind, and whether only exchanges give them messages.
    pub exchanges: Vec<(Text, RoutingKind, bool)>,
    /// Name of the virtual host of the first start; none where there is to be none.
    pub first_host: Option<String>,
    /// Name and password of the user of the first start.
    pub first_user: (String, String),
    /// How a message says that it died.
    pub death_form: Arc<dyn DeadLetterForm>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            exchanges: Vec::new(),
            first_host: None,
            first_user: (String::new(), String::new()),
            death_form: Arc::new(Plain),
        }
    }
}

/// All virtual hosts.
#[derive(Debug)]
pub struct Model {
    store: Arc<Store>,
    state: Arc<StateLog>,
    publisher: Arc<Publisher>,
    lanes: Arc<Lanes>,
    metrics: Arc<Metrics>,
    options: ModelOptions,
    /// Users and what they may do.
    pub access: Access,
    /// Who is connected.
    pub connections: Connections,
    hosts: RwLock<BTreeMap<Arc<str>, Arc<VirtualHost>>>,
    /// Held for a whole change, so that changes are in the log in the order in which they are made.
    changing: Mutex<Numbers>,
    /// Queues of one connection alone.
    owned: Mutex<HashMap<ConnectionNumber, Vec<Arc<MessageQueue>>>>,
    /// Queues that are gone, whose files are not.
    leaving: Mutex<Vec<QueueNumber>>,
    timers: Timers,
    /// Of a slave, instead of all that.
    followed: Mutex<ModelTables>,
    last_connection: AtomicU64,
    last_channel: AtomicU32,
}

/// Numbers of queues.
#[derive(Debug)]
struct Numbers {
    next: u32,
    /// The log has been told that those below may be taken.
    below: u32,
}

impl Model {
    pub(crate) const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A virtual host.
    pub fn host(&self, name: &str) -> Result<Arc<VirtualHost>, ModelError> {
        self.hosts.read().get(name).cloned().ok_or_else(|| ModelError::NoSuchHost(name.to_owned()))
    }

    /// Every virtual host, sorted.
    pub fn hosts(&self) -> Vec<Arc<VirtualHost>> {
        self.hosts.read().values().cloned().collect()
    }

    /// A number that no other connection of this process has.
    pub fn number_connection(&self) -> ConnectionNumber {
        ConnectionNumber(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// An owner that no other channel of this process is.
    pub fn number_channel(&self) -> Owner {
        Owner::channel(self.last_channel.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// Has every change of before written to the log: it outlives a killed process.
    pub fn write_changes(&self) -> Result<(), Refusal> {
        let end = self.state.end();
        while self.store.watermarks().written() < end {
            self.store.write_staged().map_err(crate::error::refusal_of)?;
        }
        Ok(())
    }

    /// How many message queues there are.
    pub fn queue_count(&self) -> usize {
        self.hosts.read().values().map(|host| host.queue_count()).sum()
    }
}
