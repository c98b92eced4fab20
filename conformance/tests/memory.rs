//! Whatever a client can make the broker hold, sent to the binary by many at once: it refuses or waits, and its memory stays bounded.

use std::time::Duration;

use bytes::BytesMut;
use conformance::connection::{Connection, request_frame};
use conformance::sluice::{Setup, Sluice};
use format::batch_body::BatchItem;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

/// What the process may have at most: what it keeps by itself, and what connections may hold together.
const LIMIT: u64 = 600 << 20;

/// How long a client that floods the broker waits for it to take more.
const MOMENT: Duration = Duration::from_millis(100);

fn send_frame(opaque: i32, topic: &str, properties: &str, flag: &str, body: &[u8]) -> BytesMut {
    let code = if flag == "true" { request::SEND_BATCH_MESSAGE } else { request::SEND_MESSAGE_V2 };
    let fields = [
        ("a", "conformance"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", flag),
    ];
    request_frame(code, opaque, Form::Binary, &fields, body)
}

fn pull_frame(opaque: i32, topic: &str, offset: u64, system_flag: &str, subscription: &str) -> BytesMut {
    let offset = offset.to_string();
    let fields = [
        ("consumerGroup", "readers"),
        ("topic", topic),
        ("queueId", "0"),
        ("queueOffset", &*offset),
        ("maxMsgNums", "32"),
        ("sysFlag", system_flag),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "60000"),
        ("subscription", subscription),
        ("subVersion", "0"),
    ];
    request_frame(request::PULL_MESSAGE, opaque, Form::Binary, &fields, &[])
}

/// Connections that send and take no answer.
struct Flood(Vec<Connection>);

impl Flood {
    fn of(sluice: &Sluice, count: usize) -> Self {
        Self((0..count).map(|_| Connection::open(&sluice.broker)).collect())
    }

    /// Each sends `bytes` as far as they are taken.
    fn send(&mut self, bytes: &[u8]) {
        for connection in &mut self.0 {
            connection.send_what_is_taken(bytes, MOMENT);
        }
    }
}

/// The peak since it was last asked is within the limit, and an honest client is served.
fn check(sluice: &Sluice, what: &str) {
    let answer = Connection::open(&sluice.broker).send_message("honest", 0, "", b"x");
    assert_eq!(answer.code, response::SUCCESS, "after {what}: {answer:?}");
    let peak = sluice.take_memory_peak();
    println!("{what}: {} MiB", peak >> 20);
    assert!(peak < LIMIT, "{what}: {} MiB", peak >> 20);
}

fn hold_pulls_that_wake_together(sluice: &Sluice) {
    let mut producer = Connection::open(&sluice.broker);
    producer.send_message("held", 0, "", b"x");
    let mut flood = Flood::of(sluice, 20);
    let pulls: Vec<u8> = (0..2000).flat_map(|opaque| pull_frame(opaque, "held", 1, "6", "*")).collect();
    flood.send(&pulls);
    let mut batch = BytesMut::new();
    (0..250).for_each(|_| BatchItem { flag: 0, body: &[7; 1000], properties: b"" }.encode(&mut batch));
    producer.send_raw(&send_frame(1, "held", "", "true", &batch)).expect("sends");
    assert_eq!(producer.receive().map(|answer| answer.code), Some(response::SUCCESS));
    check(sluice, "held pulls that wake together");
    // Filters that are long.
    let tags: Vec<_> = (0..50_000).map(|tag| tag.to_string()).collect();
    let long = pull_frame(1, "held", 251, "6", &tags.join("||"));
    let mut flood = Flood::of(sluice, 10);
    (0..40).for_each(|_| flood.send(&long));
    check(sluice, "held pulls with long filters");
}

fn take_no_answers(sluice: &Sluice) {
    let mut producer = Connection::open(&sluice.broker);
    for number in 0..300_u32 {
        let body: Vec<u8> = number.to_le_bytes().repeat(250_000);
        assert_eq!(producer.send_message("large", 0, "KEYS\u{1}same\u{2}", &body).code, response::SUCCESS);
    }
    let mut flood = Flood::of(sluice, 100);
    for (index, connection) in flood.0.iter_mut().enumerate() {
        let first = index as u64 * 3;
        let pulls: Vec<u8> =
            (0..30).flat_map(|opaque| pull_frame(opaque, "large", first + opaque as u64 % 3, "4", "*")).collect();
        connection.send_what_is_taken(&pulls, MOMENT);
    }
    check(sluice, "answers to pulls that are not taken");
    let query = [
        ("topic", "large"),
        ("key", "same"),
        ("maxNum", "64"),
        ("beginTimestamp", "0"),
        ("endTimestamp", "9999999999999"),
    ];
    let queries: Vec<u8> =
        (0..20).flat_map(|opaque| request_frame(request::QUERY_MESSAGE, opaque, Form::Binary, &query, &[])).collect();
    flood = Flood::of(sluice, 50);
    flood.send(&queries);
    // Once one of them has its answer they all have been looked at.
    check(sluice, "large look-ups whose answers are not taken");
}

fn send_half_frames(sluice: &Sluice) {
    let whole = send_frame(1, "half", "", "false", &vec![7; 15 << 20]);
    let half = &whole[..14 << 20];
    let mut flood = Flood::of(sluice, 60);
    flood.send(half);
    check(sluice, "half-sent large frames");
    drop(flood);
    let mut flood = Flood::of(sluice, 2000);
    flood.send(&whole[..1000]);
    check(sluice, "many large frames of which little was sent");
    drop(flood);
    let mut flood = Flood::of(sluice, 2000);
    flood.send(&send_frame(1, "half", "", "false", &[7; 2000])[..1000]);
    check(sluice, "many half-sent small frames");
}

fn send_lists(sluice: &Sluice) {
    let topics: Vec<_> = (0..50_000).map(|n| format!(r#"{{"topic":"t{n}","subString":"*","subVersion":1}}"#)).collect();
    for client in 0..30 {
        let body = format!(
            r#"{{"clientID":"c{client}","consumerDataSet":[{{"groupName":"g{client}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{}]}}]}}"#,
            topics.join(",")
        );
        let frame = request_frame(request::HEART_BEAT, 1, Form::Json, &[], body.as_bytes());
        Connection::open(&sluice.broker).send_what_is_taken(&frame, Duration::from_secs(5));
    }
    check(sluice, "heartbeats with many subscriptions");
}

fn send_batches_with_shared_properties(sluice: &Sluice) {
    let mut items = BytesMut::new();
    (0..20_000).for_each(|_| BatchItem { flag: 0, body: b"", properties: b"" }.encode(&mut items));
    let properties = format!("p\u{1}{}\u{2}", "x".repeat(30_000));
    let frame = send_frame(1, "batches", &properties, "true", &items);
    let mut flood = Flood::of(sluice, 10);
    flood.send(&frame);
    check(sluice, "batches with large shared properties");
}

fn send_keys(sluice: &Sluice) {
    let keys: Vec<_> = (0..10).map(|key| format!("key-{key}")).collect();
    let frame = send_frame(1, "keys", &format!("KEYS\u{1}{}\u{2}", keys.join(" ")), "false", b"x");
    let many = frame.repeat(20_000);
    let mut flood = Flood::of(sluice, 8);
    for _ in 0..3 {
        flood.send(&many);
    }
    check(sluice, "messages with many keys");
}

fn send_delayed(sluice: &Sluice) {
    let mut producer = Connection::open(&sluice.broker);
    let body = vec![7; 4 << 20];
    for _ in 0..100 {
        assert_eq!(producer.send_message("later", 0, "DELAY\u{1}1\u{2}", &body).code, response::SUCCESS);
    }
    // All are due within a second; they are there when they have been delivered.
    let offset = (0..600).find_map(|_| {
        let end = producer.queue_end("later", 0);
        std::thread::sleep(MOMENT);
        (end == 100).then_some(end)
    });
    assert_eq!(offset, Some(100));
    check(sluice, "large delayed messages that are due at once");
}

fn make_topics(sluice: &Sluice) {
    let mut producer = Connection::open(&sluice.broker);
    for number in 0..1000 {
        assert_eq!(producer.send_message(&format!("small-{number}"), 0, "", b"x").code, response::SUCCESS);
    }
    check(sluice, "many small topics");
}

#[test]
fn the_memory_of_the_broker_is_bounded_whatever_is_sent() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut sluice = Setup::serve(&scratch.path().join("data")).set("storage.segment_size", "128MiB").start();
    check(&sluice, "the start");
    hold_pulls_that_wake_together(&sluice);
    take_no_answers(&sluice);
    send_half_frames(&sluice);
    send_batches_with_shared_properties(&sluice);
    send_lists(&sluice);
    send_keys(&sluice);
    make_topics(&sluice);
    send_delayed(&sluice);
    assert!(sluice.is_running());
}
