//! What a client's requests cost from frame to answer, as the official Java client sends them: JSON headers, no subscription in a pull.

use std::sync::Arc;
use std::task::Waker;

use base::session::Session;
use broker::{Broker, Mailbox};
use bytes::BytesMut;
use dialect::rocketmq::RocketSession;
use gungraun::{library_benchmark, library_benchmark_group};
use tempfile::TempDir;
use testkit::{ManualHost, broker_options, session_options};
use wire::rocketmq::body::client::{ConsumerData, Heartbeat, SubscriptionData};
use wire::rocketmq::code::request;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, FLAG_ONE_WAY, Form};
use wire::rocketmq::header::pull_flag;

use super::{BODY, NOW, PULL, QUEUES, RECENT_SIZE, TOPIC, header, layout, message};

const GROUP: &str = "bench_consumer";
const QUEUE: u32 = 1;

fn frame_of(code: i32, flag: i32, fields: &[(&str, &str)], body: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(4096);
    let write = |sink: &mut FieldSink<'_>| fields.iter().for_each(|(name, value)| sink.text(name, value));
    frame::encode(&mut out, Form::Json, &header(code, flag), write, body);
    out
}

fn pull(offset: u64) -> BytesMut {
    let offset = offset.to_string();
    let flags = pull_flag::SUSPEND | pull_flag::COMMIT_OFFSET;
    let fields = [
        ("consumerGroup", GROUP),
        ("topic", TOPIC),
        ("queueId", &QUEUE.to_string()),
        ("queueOffset", &offset),
        ("maxMsgNums", &PULL.to_string()),
        ("sysFlag", &flags.to_string()),
        ("commitOffset", &offset),
        ("suspendTimeoutMillis", "15000"),
        ("subVersion", "1"),
        ("maxMsgBytes", "2147483647"),
        ("expressionType", "TAG"),
        ("bname", "broker-a"),
    ];
    frame_of(request::PULL_MESSAGE, 0, &fields, &[])
}

fn send() -> BytesMut {
    let fields = [
        ("a", "bench_producer"),
        ("b", TOPIC),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", &*QUEUE.to_string()),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", "UNIQ_KEY\u{1}7F000001000100000001687BD35F000A\u{2}WAIT\u{1}true\u{2}"),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
        ("n", "broker-a"),
    ];
    frame_of(request::SEND_MESSAGE_V2, 0, &fields, &BODY)
}

fn commit(flag: i32, offset: u64) -> BytesMut {
    let fields = [
        ("consumerGroup", GROUP),
        ("topic", TOPIC),
        ("queueId", &QUEUE.to_string()),
        ("commitOffset", &offset.to_string()),
        ("bname", "broker-a"),
    ];
    frame_of(request::UPDATE_CONSUMER_OFFSET, flag, &fields, &[])
}

fn heartbeat() -> BytesMut {
    let wanted = |topic: &str| SubscriptionData {
        topic: topic.to_owned(),
        sub_string: "*".to_owned(),
        sub_version: 1,
        expression_type: "TAG".to_owned(),
        ..SubscriptionData::default()
    };
    let consumer = ConsumerData {
        group_name: GROUP.to_owned(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        consume_from_where: "CONSUME_FROM_LAST_OFFSET".to_owned(),
        subscription_data_set: vec![wanted(TOPIC), wanted(&format!("%RETRY%{GROUP}"))],
        unit_mode: false,
    };
    let heartbeat =
        Heartbeat { client_id: "10.0.0.1@4711#1234".to_owned(), consumers: vec![consumer], ..Heartbeat::default() };
    frame_of(request::HEART_BEAT, 0, &[], &serde_json::to_vec(&heartbeat).expect("JSON"))
}

/// A consumer's connection to a broker with messages in memory, and what it sends next.
struct Consuming {
    session: RocketSession,
    broker: Arc<Broker>,
    _host: Arc<ManualHost>,
    next: BytesMut,
    _directory: TempDir,
}

impl Consuming {
    fn give(&mut self, mut bytes: BytesMut) {
        self.session.receive(&mut bytes, NOW).expect("a frame");
        assert!(bytes.is_empty());
    }

    /// Sends what is next; gives how much came back.
    fn go(&mut self) -> usize {
        let next = std::mem::take(&mut self.next);
        self.give(next);
        self.session.output().size()
    }

    fn publish(&self) {
        let mut batch = self.broker.publisher.begin_batch(2 * BODY.len(), NOW);
        let topic = self.broker.catalog.topic(TOPIC).expect("the topic");
        self.broker.publisher.add(&mut batch, &topic, &message(QUEUE, &BODY)).expect("added");
        self.broker.publisher.append(batch, NOW).expect("appended");
    }
}

/// How often it has sent what it will send: so often that the allocator has a page for each size of what it needs.
const WARM: u64 = 8;

/// One that has sent what it will send a few times before.
fn consuming(next: impl Fn(u64) -> BytesMut) -> Consuming {
    let directory = tempfile::tempdir().expect("directory");
    let host = Arc::new(ManualHost::default());
    let store = layout(directory.path(), RECENT_SIZE);
    let broker = Arc::new(testkit::open_broker(broker_options(), store, host.clone(), NOW).expect("the broker opens"));
    host.serve(&broker);
    broker.catalog.topic_for_publish(TOPIC, "TBW102", QUEUES, NOW).expect("a topic");
    let mailbox = Mailbox::new(Waker::noop().clone());
    let remote = std::net::SocketAddr::from(([10, 0, 0, 1], 5000));
    let session = RocketSession::new(broker.clone(), mailbox, Arc::new(session_options()), remote);
    let mut consuming = Consuming { session, broker, _host: host, next: next(17 + WARM), _directory: directory };
    (0..2 * PULL).for_each(|_| consuming.publish());
    consuming.give(heartbeat());
    for offset in 17..17 + WARM {
        consuming.give(next(offset));
        consuming.session.output().take_all();
    }
    consuming
}

fn waiting() -> Consuming {
    let mut consuming = consuming(|_| pull(2 * PULL as u64));
    // The pull of before has its answer, so that the next one waits alone.
    consuming.publish();
    consuming.session.wake(NOW);
    consuming.session.output().take_all();
    consuming.next = pull(2 * PULL as u64 + 1);
    consuming
}

#[library_benchmark]
#[bench::of_1_kb(consuming(|_| send()))]
fn send_answered(mut producing: Consuming) -> Consuming {
    assert!(producing.go() > 0);
    producing
}

#[library_benchmark]
#[bench::of_32_records(consuming(pull))]
fn pull_answered(mut consuming: Consuming) -> Consuming {
    assert!(consuming.go() > PULL * BODY.len());
    consuming
}

#[library_benchmark]
#[bench::until_a_message_comes(waiting())]
fn pull_held(mut consuming: Consuming) -> Consuming {
    assert_eq!(consuming.go(), 0);
    consuming.publish();
    consuming.session.wake(NOW);
    assert!(consuming.session.output().size() > BODY.len());
    consuming
}

#[library_benchmark]
#[bench::one_way(consuming(|offset| commit(FLAG_ONE_WAY, offset)))]
fn commit_taken(mut consuming: Consuming) -> Consuming {
    assert_eq!(consuming.go(), 0);
    consuming
}

#[library_benchmark]
#[bench::unchanged(consuming(|_| heartbeat()))]
fn heartbeat_taken(mut consuming: Consuming) -> Consuming {
    assert!(consuming.go() > 0);
    consuming
}

library_benchmark_group!(
    name = requests,
    benchmarks = [send_answered, pull_answered, pull_held, commit_taken, heartbeat_taken]
);
