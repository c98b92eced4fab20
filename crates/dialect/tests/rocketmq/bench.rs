//! A broker on a scratch directory whose log is written at once, or step by step where a test wants to look in between.

use std::path::Path;
use std::sync::Arc;

use base::Now;
use base::{GroupName, TopicName};
use broker::Broker;
use dialect::rocketmq::SessionOptions;
use format::document::{GroupDocument, TopicDocument};
use format::index_rules::IndexRules;
use tempfile::TempDir;
use testkit::{ManualHost, at, broker_options, session_options, store_options};

use crate::client::Client;

pub const START: Now = at(1_700_000_000_000);

/// What a bench is made with.
pub struct Setup {
    pub broker: broker::Options,
    pub store: storage::Options,
    pub session: SessionOptions,
}

impl Setup {
    fn on(directory: &Path) -> Self {
        let index_rules = IndexRules::new(vec![1000, 5000, 10_000]);
        let store = storage::Options { index_rules, ..store_options(directory) };
        Self { broker: broker_options(), store, session: session_options() }
    }
}

/// A broker, to which clients connect.
pub struct Bench {
    pub broker: Arc<Broker>,
    pub options: Arc<SessionOptions>,
    host: Arc<ManualHost>,
    scratch: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Setup)) -> Self {
        Self::on(tempfile::tempdir().expect("directory"), change)
    }

    fn on(scratch: TempDir, change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::on(scratch.path());
        change(&mut setup);
        let host = Arc::new(ManualHost::default());
        let broker = testkit::open_broker(setup.broker, setup.store, host.clone(), START).expect("the broker opens");
        let broker = Arc::new(broker);
        host.serve(&broker);
        Self { broker, options: Arc::new(setup.session), host, scratch }
    }

    /// Kills the broker and starts another on what is left of its directory after `meanwhile`. Its clients are gone before.
    pub fn killed(self, meanwhile: impl FnOnce(&Path)) -> Self {
        self.killed_with(meanwhile, |_| ())
    }

    /// The same, of a broker that was set up with a change.
    pub fn killed_with(self, meanwhile: impl FnOnce(&Path), change: impl FnOnce(&mut Setup)) -> Self {
        let Self { broker, scratch, .. } = self;
        assert_eq!(Arc::strong_count(&broker), 1, "somebody still uses the broker");
        drop(broker);
        meanwhile(scratch.path());
        Self::on(scratch, change)
    }

    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.broker, &self.options)
    }

    /// How often the broker asked to be registered anew.
    pub fn registrations(&self) -> u64 {
        self.host.registrations.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// From here on the log is written and synced only when the test says so.
    pub fn stop_writing(&self) {
        self.host.stop();
    }

    /// Writes what was appended.
    pub fn write(&self) {
        self.broker.store().write_staged().expect("writes");
    }

    /// Puts what was written on the disk.
    pub fn sync(&self) {
        self.broker.store().sync().expect("syncs");
    }

    pub fn make_topic(&self, name: &str, settings: TopicDocument) {
        let made = self.broker.catalog.put_topic(TopicName::trusted(name), settings, START);
        made.expect("made");
    }

    pub fn make_group(&self, name: &str, settings: GroupDocument) {
        self.broker.catalog.put_groups(vec![(GroupName::trusted(name), settings)], START).expect("made");
    }

    /// Where the oldest message of a topic's first queue is in the log.
    pub fn first_of(&self, topic: &str) -> i64 {
        let queues = self.broker.catalog.queues_of(topic).expect("the topic is there");
        let entries = queues[0].entries(queues[0].first(), 1).expect("reads");
        entries.first().expect("a message").log_offset.0 as i64
    }

    /// How many messages a queue has ever had; 0 if its topic is not there.
    pub fn count(&self, topic: &str, queue: usize) -> u64 {
        self.broker.catalog.queues_of(topic).map_or(0, |queues| queues[queue].end().0)
    }
}
