//! A broker's session for one RocketMQ client over a small store, and whether recovery finds what the client left.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use base::{Now, QueueId, QueueOffset, TopicName};
use broker::{Broker, Mailbox, Options};
use dialect::rocketmq::{RocketSession, SessionOptions};
use format::queue_entry::Entry;
use storage::{ReadMode, Store};
use testkit::{ManualHost, at, broker_options, session_options};
use wire::rocketmq::code::request::*;

use crate::{driver, requests, scratch};

/// When every input begins.
const START: Now = at(1_700_000_000_000);

/// Queues of a topic that are looked at.
const QUEUES_MAX: u32 = 64;

/// Requests a broker's session knows, and some it does not.
pub const CODES: &[i32] = &[
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    SEND_BATCH_MESSAGE,
    PULL_MESSAGE,
    LITE_PULL_MESSAGE,
    HEART_BEAT,
    UNREGISTER_CLIENT,
    GET_CONSUMER_LIST_BY_GROUP,
    CHECK_CLIENT_CONFIG,
    LOCK_BATCH_QUEUES,
    UNLOCK_BATCH_QUEUES,
    UPDATE_CONSUMER_OFFSET,
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    QUERY_CONSUMER_OFFSET,
    SEARCH_OFFSET_BY_TIMESTAMP,
    GET_EARLIEST_MESSAGE_STORE_TIME,
    INVOKE_BROKER_TO_RESET_OFFSET,
    CLONE_GROUP_OFFSET,
    GET_ALL_CONSUMER_OFFSET,
    GET_ALL_DELAY_OFFSET,
    CONSUMER_SEND_MESSAGE_BACK,
    QUERY_MESSAGE,
    VIEW_MESSAGE_BY_ID,
    QUERY_CONSUME_QUEUE,
    UPDATE_AND_CREATE_TOPIC,
    UPDATE_AND_CREATE_TOPIC_LIST,
    DELETE_TOPIC_IN_BROKER,
    GET_ALL_TOPIC_CONFIG,
    GET_TOPIC_CONFIG,
    GET_TOPIC_STATS_INFO,
    QUERY_TOPIC_CONSUME_BY_WHO,
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    UPDATE_AND_CREATE_SUBSCRIPTION_GROUP,
    UPDATE_AND_CREATE_SUBSCRIPTION_GROUP_LIST,
    DELETE_SUBSCRIPTION_GROUP,
    GET_ALL_SUBSCRIPTION_GROUP_CONFIG,
    GET_SUBSCRIPTION_GROUP_CONFIG,
    GET_CONSUMER_CONNECTION_LIST,
    GET_PRODUCER_CONNECTION_LIST,
    GET_ALL_PRODUCER_INFO,
    GET_CONSUME_STATS,
    GET_BROKER_CONSUME_STATS,
    QUERY_TOPICS_BY_CONSUMER,
    QUERY_SUBSCRIPTION_BY_CONSUMER,
    QUERY_CONSUME_TIME_SPAN,
    GET_BROKER_CONFIG,
    GET_BROKER_RUNTIME_INFO,
    VIEW_BROKER_STATS_DATA,
    END_TRANSACTION,
    POP_MESSAGE,
];

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
    let pieces = requests::pieces(data, CODES);
    let request_count = if data.first() == Some(&requests::DIRECTED) { pieces.len() } else { usize::MAX };
    let mut session = RocketSession::new(
        broker.clone(),
        Mailbox::new(Waker::noop().clone()),
        Arc::new(SessionOptions {
            fetch_count_max: 32,
            fetch_size_max: 64 * 1024,
            settings: vec![("brokerName".to_owned(), "broker-a".to_owned())],
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
    requests::seeds(CODES)
}
