//! A broker's session for one RocketMQ client over a small store, and whether recovery finds what the client left.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::task::Waker;

use base::running_settings::NoSettings;
use base::{Now, QueueId, QueueOffset, TopicName};
use broker::{Broker, Mailbox, Options};
use dialect::rocketmq::{REQUESTS, RocketSession, SessionOptions};
use format::queue_entry::Entry;
use storage::{ReadMode, Store};
use testkit::{ManualHost, at, broker_options, session_options};
use wire::rocketmq::code::request::{END_TRANSACTION, POP_MESSAGE};

use crate::{driver, requests, scratch};

/// When every input begins.
const START: Now = at(1_700_000_000_000);

/// Queues of a topic that are looked at.
const QUEUES_MAX: u32 = 64;

/// Requests a broker's session knows, and some it does not.
pub static CODES: LazyLock<Vec<i32>> =
    LazyLock::new(|| REQUESTS.iter().map(|row| row.code).chain([END_TRANSACTION, POP_MESSAGE]).collect());

/// Opens a broker over such a store; it writes its log as soon as there is something to write.
pub fn open_broker(store: storage::Options) -> Result<Arc<Broker>, storage::StorageError> {
    let host = Arc::new(ManualHost::default());
    let options = Options { message_size_max: 4096, young_queue_size: 1024, ..broker_options() };
    let broker = Arc::new(testkit::open_broker(options, store, host.clone(), START)?);
    host.serve(&broker);
    Ok(broker)
}

fn store_options(directory: &std::path::Path) -> storage::Options {
    let mut options = scratch::store_options(directory);
    options.segment_size = 64 * 1024;
    options.recent_size = 8 * 1024;
    options
}

/// Two clients send what the input says, one after the other; then the broker is gone and the log is read again.
pub fn run(data: &[u8]) {
    let directory = scratch::directory();
    let broker = open_broker(store_options(directory.path())).expect("a broker");
    let pieces = requests::pieces(data, &CODES);
    let request_count = if data.first() == Some(&requests::DIRECTED) { pieces.len() } else { usize::MAX };
    let mut session = RocketSession::new(
        broker.clone(),
        Mailbox::new(Waker::noop().clone()),
        Arc::new(SessionOptions {
            fetch_count_max: 32,
            fetch_size_max: 64 * 1024,
            settings: Arc::new(NoSettings),
            ..session_options()
        }),
        SocketAddr::from(([127, 0, 0, 1], 40_000)),
    );
    let written = driver::drive(&mut session, pieces, START);
    assert!(written.responses <= request_count, "no request is answered twice");
    drop(session);
    for _ in 0..3 {
        broker.expire(START.plus_ms(60_000));
    }
    let live = entries(broker.store());
    drop(broker);
    let again = open_broker(store_options(directory.path())).expect("a broker that opens what it wrote");
    let recovered = entries(again.store());
    assert_eq!(recovered, live, "recovery makes other entries than the running broker had");
}

type Entries = BTreeMap<(TopicName, QueueId), (QueueOffset, Vec<Entry>)>;

/// First offset and entries of every queue that has some.
fn entries(store: &Store) -> Entries {
    let mut all = Entries::new();
    for (topic, queue_count) in store.topics() {
        for queue in (0..queue_count.min(QUEUES_MAX)).map(QueueId) {
            let index = store.queue(&topic, queue);
            let mut found = Vec::new();
            let mut from = index.first();
            while from < index.end() {
                let before = found.len();
                index.read(from, usize::MAX, ReadMode::MayWait, &mut found).expect("entries");
                assert!(found.len() > before, "entries end before the queue does");
                from = from.after((found.len() - before) as u64);
            }
            if !found.is_empty() {
                all.insert((topic.clone(), queue), (index.first(), found));
            }
        }
    }
    all
}

/// Every request as it should be, and what was captured.
pub fn seeds() -> Vec<Vec<u8>> {
    requests::seeds(&CODES)
}
