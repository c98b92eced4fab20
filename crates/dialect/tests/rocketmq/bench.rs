//! A broker on a scratch directory whose log is written at once, or step by step where a test wants to look in between.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use base::Timestamp;
use base::metric::Metrics;
use base::{GroupName, TopicName};
use broker::{Broker, DelayLevels, Host};
use dialect::rocketmq::SessionOptions;
use format::document::{GroupDocument, TopicDocument};
use storage::Store;
use tempfile::TempDir;

use crate::client::Client;

pub const START: Timestamp = Timestamp(1_700_000_000_000);

/// Stands for the threads of the server: what the broker asks for is done before it goes on.
#[derive(Debug, Default)]
struct Writer {
    broker: OnceLock<Weak<Broker>>,
    is_stopped: AtomicBool,
}

impl Writer {
    fn broker(&self) -> Option<Arc<Broker>> {
        if self.is_stopped.load(Ordering::Relaxed) { None } else { self.broker.get()?.upgrade() }
    }
}

impl Host for Writer {
    fn log_changed(&self) {
        if let Some(broker) = self.broker() {
            broker.store().write_staged().expect("writes");
        }
    }

    fn sync_wanted(&self, _waiting: usize) {
        if let Some(broker) = self.broker() {
            broker.store().sync().expect("syncs");
        }
    }

    fn topics_changed(&self) {}
}

/// What a bench is made with.
pub struct Setup {
    pub broker: broker::Options,
    pub store: storage::Options,
    pub session: SessionOptions,
}

impl Setup {
    fn on(directory: &Path) -> Self {
        let delays_ms = vec![1000, 5000, 10_000];
        let broker = broker::Options {
            cluster_name: "DefaultCluster".to_owned(),
            broker_name: "broker-a".to_owned(),
            region: "DefaultRegion".to_owned(),
            store_host: "127.0.0.1:10911".parse().expect("address"),
            permission: 6,
            message_size_max: 4 << 20,
            sync_flush: false,
            key_index: true,
            auto_create_topics: true,
            default_queues: 8,
            auto_create_groups: true,
            cluster_topic: true,
            broker_topic: true,
            trace_topic: None,
            client_expiry_ms: 120_000,
            trace_on: true,
            delay_levels: DelayLevels::new(delays_ms.clone()).expect("levels"),
            young_queue_size: 1 << 30,
        };
        let store = storage::Options {
            segment_size: 1 << 20,
            queue_file_entries: 1000,
            key_index_slots: 1000,
            key_index_entries: 4000,
            recent_size: 1 << 20,
            delay_levels_ms: delays_ms,
            checkpoint_room: Some(4096),
            ..storage::Options::new(directory)
        };
        let session = SessionOptions {
            fetch_count_max: 1024,
            fetch_size_max: 1 << 20,
            long_polling: true,
            short_poll_ms: 1000,
            flush_timeout_ms: 5000,
            notify_changes: true,
            query_count_max: 32,
            query_key_count_max: 64,
            settings: Vec::new(),
        };
        Self { broker, store, session }
    }
}

/// A broker, to which clients connect.
pub struct Bench {
    pub broker: Arc<Broker>,
    pub options: Arc<SessionOptions>,
    writer: Arc<Writer>,
    scratch: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let mut setup = Setup::on(scratch.path());
        change(&mut setup);
        let metrics = Arc::new(Metrics::default());
        let (store, _) = Store::open(setup.store, metrics.clone(), &mut |_| ()).expect("the store opens");
        let writer = Arc::new(Writer::default());
        let broker = Broker::new(setup.broker, store, metrics, writer.clone(), 7, START).expect("the broker opens");
        let broker = Arc::new(broker);
        writer.broker.set(Arc::downgrade(&broker)).expect("set once");
        Self { broker, options: Arc::new(setup.session), writer, scratch }
    }

    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    pub fn client(&self) -> Client {
        Client::new(&self.broker, &self.options)
    }

    /// From here on the log is written and synced only when the test says so.
    pub fn stop_writing(&self) {
        self.writer.is_stopped.store(true, Ordering::Relaxed);
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
        let made = self.broker.catalog().put_topic(self.broker.store(), TopicName::trusted(name), settings, START);
        made.expect("made");
    }

    pub fn make_group(&self, name: &str, settings: GroupDocument) {
        self.broker.catalog().put_group(&GroupName::trusted(name), settings, START);
    }

    /// How many messages a queue has ever had; 0 if its topic is not there.
    pub fn count(&self, topic: &str, queue: usize) -> u64 {
        self.broker.queues_of(topic).map_or(0, |queues| queues[queue].end().0)
    }
}
