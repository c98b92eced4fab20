//! A broker that pop consumers work with, whichever it is, and what it gives them.
//!
//! Tests of one program share the broker of a kind: it starts with the first that needs it and ends with the last that has
//! it, so that at most one Java broker runs. Each has topics and groups of its own.

pub mod consumer;
mod hand;

pub use hand::{Hand, Pending};

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use serde_json::Value;

use crate::connection::Connection;
use crate::java::{JavaBroker, JavaNameServer};
use crate::sluice::{Setup, Sluice};

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The built binary.
    Sluice,
    /// The official broker, as its defaults are.
    Java,
}

#[derive(Debug)]
#[expect(dead_code, reason = "its processes run as long as it is held")]
enum Running {
    Sluice(Sluice),
    Java(JavaBroker, JavaNameServer),
}

/// A broker with a name server.
#[derive(Debug)]
pub struct Server {
    /// Who it is.
    pub kind: Kind,
    /// `host:port`.
    pub name_server: String,
    /// `host:port`.
    pub broker: String,
    /// The client that single calls share.
    client: OnceLock<Arc<hand::Client>>,
    _running: Mutex<Running>,
    directory: tempfile::TempDir,
}

impl Server {
    /// The one of that kind that all tests of this program share.
    pub fn shared(kind: Kind) -> Arc<Self> {
        static SHARED: [Mutex<Weak<Server>>; 2] = [const { Mutex::new(Weak::new()) }; 2];
        // A start that failed leaves nothing behind: the next test may try again.
        let mut shared = SHARED[kind as usize].lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(kind));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    fn start(kind: Kind) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let (name_server, broker, running) = match kind {
            Kind::Sluice => {
                let sluice = Setup::serve(&directory.path().join("data")).start();
                (sluice.name_server.clone(), sluice.broker.clone(), Running::Sluice(sluice))
            }
            Kind::Java => {
                let names = JavaNameServer::start(&directory.path().join("names"));
                let broker = JavaBroker::start(&directory.path().join("broker"), &names.address, &[]);
                (names.address.clone(), broker.address.clone(), Running::Java(broker, names))
            }
        };
        Self { kind, name_server, broker, client: OnceLock::new(), _running: Mutex::new(running), directory }
    }

    /// Makes calls by a client that all who ask for one share: starting one takes a second of a processor.
    pub fn hand(&self) -> Hand {
        let start = || hand::Client::start(&self.broker, self.directory.path());
        Hand::of(self.client.get_or_init(start).clone())
    }

    /// A connection to its broker.
    pub fn connect(&self) -> Connection {
        Connection::open(&self.broker)
    }

    /// Makes a consumer group whose messages are retried so often.
    pub fn make_group(&self, group: &str, retries: u32) {
        self.connect().make_group(group, retries);
    }

    /// The offset a group has committed in a queue.
    pub fn committed(&self, group: &str, topic: &str, queue: u32) -> Option<u64> {
        self.connect().committed(group, topic, queue)
    }
}

/// A message as a pop consumer is given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Popped {
    /// Body.
    pub body: String,
    /// Topic, as the client says it.
    pub topic: String,
    /// Queue it came from.
    pub queue: u64,
    /// Its offset there.
    pub offset: u64,
    /// How often it was given to somebody before.
    pub reconsumed: u64,
    /// Tag.
    pub tag: String,
    /// By which it is acked.
    pub handle: String,
}

impl Popped {
    /// Queue and offset.
    pub const fn place(&self) -> (u32, u64) {
        (self.queue as u32, self.offset)
    }

    /// When it was popped, by the broker's clock, in milliseconds: the second word of the handle.
    pub fn popped_at(&self) -> u64 {
        let word = self.handle.split(' ').nth(1).and_then(|word| word.parse().ok());
        word.unwrap_or_else(|| panic!("no time in {}", self.handle))
    }

    fn read(message: &Value) -> Self {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| message[name].as_u64().unwrap_or_else(|| panic!("{name} in {message}"));
        Self {
            body: text("body"),
            topic: text("topic"),
            queue: number("queue"),
            offset: number("offset"),
            reconsumed: number("reconsumed"),
            tag: text("tags"),
            handle: text("handle"),
        }
    }
}

/// What a pop gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pop {
    /// `FOUND`, `POLLING_NOT_FOUND`, `POLLING_FULL`, or the code of a refusal.
    pub status: String,
    /// Messages.
    pub messages: Vec<Popped>,
    /// How many more the broker says there are.
    pub rest: u64,
}

impl Pop {
    /// Reads the answer to a pop.
    pub fn read(answer: &Value) -> Self {
        let status = answer["status"].as_str().map_or_else(|| answer["code"].to_string(), str::to_owned);
        let messages = answer["messages"].as_array().map(|list| list.iter().map(Popped::read).collect());
        Self { status, messages: messages.unwrap_or_default(), rest: answer["rest"].as_u64().unwrap_or_default() }
    }
}
