//! The functions that every message goes through, each run once under callgrind after a run that warms it up. What is
//! counted is the function alone: what it is given is made before, and what it returns is dropped after.
//!
//! `cargo xtask instructions` runs this and compares with `instructions.txt`.

#![allow(missing_docs, clippy::expect_used, reason = "a harness made by macros; what goes wrong ends the run")]

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use base::{Now, QueueId, TopicName};
use broker::{Broker, Fetch, Fetched, Filter, Message, Topic};
use bytes::BytesMut;
use format::index_rules::{IndexRules, IndexedProperties};
use format::record::{Draft, Record};
use gungraun::{library_benchmark, library_benchmark_group, main};
use storage::{AppendInfo, QueueIndex, Store};
use tempfile::TempDir;
use testkit::{ManualHost, at, broker_options};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, TypedHeader};
use wire::rocketmq::frame::{self, Command, Form, Header, Language};
use wire::rocketmq::header::{SendRequest, SendResponse};

mod channel;
mod session;

use channel::messages_of_amqp;
use session::requests;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BODY: [u8; 1024] = [0x5a; 1024];
const PROPERTIES: &[u8] = b"UNIQ_KEY\x017F000001000100000001687BD35F000A\x02WAIT\x01true\x02";
const TOPIC: &str = "SluiceBench";
const NOW: Now = at(1_700_000_000_000);
const BATCH: usize = 64;
const PULL: usize = 32;
/// Bytes of the log kept in memory: all that is appended here.
const RECENT_SIZE: usize = 4 << 20;

fn draft<'a>(properties: &'a [&'a [u8]]) -> Draft<'a> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 10911));
    Draft {
        topic: TOPIC,
        queue: QueueId(1),
        flag: 0,
        system_flag: 0,
        born_timestamp: NOW.wall,
        born_host: address,
        store_host: address,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: &BODY,
        properties,
    }
}

fn record() -> BytesMut {
    let mut out = BytesMut::with_capacity(4096);
    draft(&[PROPERTIES]).encode(&mut out);
    out
}

fn room_for_a_record() -> BytesMut {
    // Encodes one first: the CRC finds out what the processor can do the first time it is asked.
    let mut out = record();
    out.clear();
    out
}

#[library_benchmark]
#[bench::of_1_kb(room_for_a_record())]
fn record_encode(mut out: BytesMut) -> BytesMut {
    draft(black_box(&[PROPERTIES])).encode(&mut out);
    out
}

#[library_benchmark]
#[bench::of_1_kb(record())]
fn record_decode(bytes: BytesMut) -> BytesMut {
    let record = Record::decode(black_box(&bytes)).expect("a record");
    assert!(black_box(&record).body_is_intact());
    bytes
}

fn header(code: i32, flag: i32) -> Header<'static> {
    Header { code, language: Language::JAVA, version: 493, opaque: 7, flag, remark: None }
}

fn send_frame() -> BytesMut {
    let mut out = BytesMut::with_capacity(4096);
    let request = SendRequest {
        producer_group: "bench_producer".into(),
        topic: TOPIC.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id: 1,
        born_timestamp: NOW.wall.0 as i64,
        properties: Some(Cow::Borrowed(std::str::from_utf8(PROPERTIES).expect("text"))),
        reconsume_times: Some(0),
        unit_mode: Some(false),
        batch: Some(false),
        broker_name: Some("broker-a".into()),
        ..SendRequest::default()
    };
    let fields = |sink: &mut FieldSink<'_>| request.encode(sink);
    frame::encode(&mut out, Form::Binary, &header(request::SEND_MESSAGE_V2, 0), fields, &BODY);
    out
}

fn decode_send(bytes: &[u8]) -> usize {
    let command = Command::decode(bytes).expect("a frame");
    let send = SendRequest::decode(&command.fields).expect("a send");
    send.topic.len() + command.body.len()
}

fn warm_send_frame() -> BytesMut {
    let frame = send_frame();
    black_box(decode_send(&frame));
    frame
}

#[library_benchmark]
#[bench::binary_header(warm_send_frame())]
fn send_decode(bytes: BytesMut) -> BytesMut {
    black_box(decode_send(black_box(&bytes)));
    bytes
}

fn encode_reply(out: &mut BytesMut) {
    let reply = SendResponse {
        message_id: "7F00000100002A9F0000000000000400".into(),
        queue_id: 1,
        queue_offset: 12_345,
        region: Some("DefaultRegion".into()),
        trace_on: Some("true".into()),
        ..SendResponse::default()
    };
    let fields = |sink: &mut FieldSink<'_>| reply.encode(sink);
    frame::encode(out, Form::Binary, &header(response::SUCCESS, 1), fields, &[]);
}

fn room_for_a_reply() -> BytesMut {
    let mut out = BytesMut::with_capacity(4096);
    encode_reply(&mut out);
    out.clear();
    out
}

#[library_benchmark]
#[bench::binary_header(room_for_a_reply())]
fn reply_encode(mut out: BytesMut) -> BytesMut {
    encode_reply(black_box(&mut out));
    out
}

fn layout(directory: &Path, recent_size: usize) -> storage::Options {
    storage::Options {
        segment_size: 16 << 20,
        queue_file_entries: 300_000,
        key_index: false,
        key_index_slots: 1000,
        key_index_entries: 4000,
        recent_size,
        index_rules: IndexRules::new(vec![1000]),
        ..storage::Options::new(directory)
    }
}

/// A store in a scratch directory.
struct Appending {
    store: Store,
    queue: Arc<QueueIndex>,
    _directory: TempDir,
}

impl Appending {
    fn append(&mut self) -> Arc<AppendInfo> {
        let mut batch = self.store.begin_batch(2 * BATCH * BODY.len());
        let indexed = self.store.index_rules().apply("bench", 0, &IndexedProperties::default());
        for _ in 0..BATCH {
            batch.push(&self.queue, &draft(&[PROPERTIES]), &indexed);
        }
        let appended = self.store.append(batch, NOW.wall).expect("appends");
        self.store.write_staged().expect("writes");
        appended
    }
}

fn warm_store() -> Appending {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = Store::open(layout(directory.path(), RECENT_SIZE), Arc::default(), &mut |_| ()).expect("opens");
    let queue = store.queue(&TopicName::trusted(TOPIC), QueueId(1));
    let mut appending = Appending { store, queue, _directory: directory };
    appending.append();
    appending
}

#[library_benchmark]
#[bench::of_64_records_of_1_kb(warm_store())]
fn append(mut appending: Appending) -> (Appending, Arc<AppendInfo>) {
    let appended = appending.append();
    (appending, appended)
}

/// A broker with messages in memory, and a fetch of some of them.
struct Fetching {
    broker: Broker,
    topic: Arc<Topic>,
    _directory: TempDir,
}

impl Fetching {
    fn wanted(&self) -> Fetch<'_> {
        Fetch {
            topic: &self.topic,
            queue: QueueId(1),
            offset: 16,
            count_max: PULL,
            size_max: 1 << 20,
            filter: &Filter::All,
        }
    }

    fn fetch(&self) -> Fetched {
        self.broker.fetcher.fetch_cached(&self.wanted()).expect("allowed").expect("in memory")
    }
}

fn open_broker(directory: &Path, recent_size: usize) -> Broker {
    let host = Arc::new(ManualHost::default());
    testkit::open_broker(broker_options(), layout(directory, recent_size), host, NOW).expect("the broker opens")
}

const QUEUES: u32 = 4;

fn message(queue: u32, body: &[u8]) -> Message<'_> {
    Message {
        queue: Some(QueueId(queue)),
        body,
        properties: PROPERTIES,
        flag: 0,
        system_flag: 0,
        born_timestamp: NOW.wall,
        born_host: std::net::SocketAddr::from(([127, 0, 0, 1], 5000)),
        delivery_count: 0,
    }
}

/// A broker with so many pulls of messages in each of `queues`, and a fetch from the middle of the first.
fn broker_with(recent_size: usize, pulls: usize, queues: &[u32], body: &[u8]) -> Fetching {
    let directory = tempfile::tempdir().expect("directory");
    let broker = open_broker(directory.path(), recent_size);
    let topic = broker.catalog.topic_for_publish(TOPIC, "TBW102", QUEUES, NOW).expect("a topic");
    for _ in 0..pulls {
        let mut batch = broker.publisher.begin_batch(2 * PULL * queues.len() * body.len(), NOW);
        for queue in queues.iter().cycle().take(PULL * queues.len()) {
            broker.publisher.add(&mut batch, &topic, &message(*queue, body)).expect("added");
        }
        broker.publisher.append(batch, NOW).expect("appended");
        broker.store().write_staged().expect("written");
    }
    let topic = broker.catalog.topic(TOPIC).expect("the topic is there");
    let fetching = Fetching { broker, topic, _directory: directory };
    assert_eq!(fetching.broker.fetcher.fetch(&fetching.wanted(), usize::MAX).expect("allowed").count, PULL);
    fetching
}

/// Messages of 1 KB in memory.
fn warm_broker() -> Fetching {
    broker_with(RECENT_SIZE, 2, &[1], &BODY)
}

/// Messages of 30 bytes of four queues, in an extent that was read.
fn old_broker() -> Fetching {
    let fetching = broker_with(0, 64, &[0, 1, 2, 3], &BODY[..30]);
    fetching.broker.store().checkpoint().expect("entries are in files");
    fetching.fetch();
    fetching
}

#[library_benchmark]
#[bench::of_32_cached_records(warm_broker())]
#[bench::of_32_old_records_of_30_bytes(old_broker())]
fn fetch(fetching: Fetching) -> (Fetched, Fetching) {
    (fetching.fetch(), fetching)
}

library_benchmark_group!(
    name = hot,
    benchmarks = [record_encode, record_decode, send_decode, reply_encode, append, fetch]
);
main!(library_benchmark_groups = hot, requests, messages_of_amqp);
