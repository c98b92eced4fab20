//! No request, however large, holds up another client: the slowest send of one connection while another sends every request of the
//! table as large as a frame may be.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use conformance::connection::{Connection, request_frame};
use conformance::sluice::Setup;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

/// How long a send may take meanwhile.
const LIMIT: Duration = Duration::from_millis(200);

/// How long a send may take before it counts as lost.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How often a request is tried that seems to hold up others.
const TRIES: usize = 3;

/// Bytes of the largest bodies: a frame may hold 16 MiB with its header.
const BODY_SIZE: usize = 15 << 20;

/// Requests of the broker's table beyond those with a body of their own below, and of the name server's.
const CODES: [i32; 47] = [
    10, 11, 12, 14, 15, 17, 21, 26, 28, 29, 30, 31, 32, 33, 35, 36, 38, 43, 45, 200, 201, 202, 203, 204, 207, 208, 215,
    222, 300, 303, 305, 310, 314, 315, 317, 320, 321, 328, 343, 345, 351, 352, 361, 37, 39, 200_050, 1234,
];

/// Bytes of a list that is taken: longer ones are refused unread.
const LIST_SIZE: usize = base::limits::LIST_BODY_SIZE_MAX;

/// Bytes of a list of topics or groups to be made: each is a while's work, which is not what is measured.
const MADE_SIZE: usize = 512 * 1024;

/// As many of `item` as `size` bytes hold, between `before` and `after`.
fn list(size: usize, before: &str, item: impl Fn(usize) -> String, after: &str) -> Vec<u8> {
    let mut body = before.as_bytes().to_vec();
    for number in 0.. {
        if number > 0 {
            body.push(b',');
        }
        body.extend_from_slice(item(number).as_bytes());
        if body.len() > size - 1024 {
            break;
        }
    }
    body.extend_from_slice(after.as_bytes());
    body
}

fn lists() -> Vec<(i32, Vec<u8>)> {
    let queue = |number: usize| format!(r#"{{"brokerName":"b","queueId":{},"topic":"t{number}"}}"#, number % 60_000);
    let topic =
        |number: usize| format!(r#"{{"topicName":"made-{number}","readQueueNums":1,"writeQueueNums":1,"perm":6}}"#);
    let locks = list(LIST_SIZE, r#"{"consumerGroup":"g","clientId":"c","mqSet":["#, queue, "]}");
    vec![
        (
            request::HEART_BEAT,
            list(
                LIST_SIZE,
                r#"{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":["#,
                |number| format!(r#"{{"topic":"t{number}","subString":"*","tagsSet":[],"codeSet":[],"subVersion":1}}"#),
                "]}]}",
            ),
        ),
        (
            request::HEART_BEAT,
            list(
                LIST_SIZE,
                r#"{"clientID":"c","producerDataSet":["#,
                |number| format!(r#"{{"groupName":"p{number}"}}"#),
                "]}",
            ),
        ),
        (
            request::HEART_BEAT,
            list(
                LIST_SIZE,
                r#"{"clientID":"c","consumerDataSet":["#,
                |number| format!(r#"{{"groupName":"g{number}","subscriptionDataSet":[]}}"#),
                "]}",
            ),
        ),
        (request::LOCK_BATCH_QUEUES, locks.clone()),
        (request::UNLOCK_BATCH_QUEUES, locks),
        (
            request::CHECK_CLIENT_CONFIG,
            list(
                LIST_SIZE,
                r#"{"clientId":"c","group":"g","subscriptionData":{"topic":"t","tagsSet":["#,
                |number| format!(r#""tag{number}""#),
                "]}}",
            ),
        ),
        (request::UPDATE_AND_CREATE_TOPIC_LIST, list(MADE_SIZE, r#"{"topicConfigList":["#, topic, "]}")),
        (
            request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP_LIST,
            list(MADE_SIZE, r#"{"groupConfigList":["#, |number| format!(r#"{{"groupName":"made-{number}"}}"#), "]}"),
        ),
    ]
}

/// The fields of most requests, with as much beside them as a header holds.
fn header_of_the_largest_size(code: i32) -> BytesMut {
    let filling = "x".repeat(4000);
    let names: Vec<_> = (0..240).map(|number| format!("filling{number}")).collect();
    let mut fields = vec![
        ("topic", "t"),
        ("group", "g"),
        ("consumerGroup", "g"),
        ("queueId", "0"),
        ("offset", "0"),
        ("timestamp", "0"),
        ("key", "k"),
        ("maxNum", "64"),
        ("beginTimestamp", "0"),
        ("endTimestamp", "9999999999999"),
    ];
    fields.extend(names.iter().map(|name| (name.as_str(), filling.as_str())));
    request_frame(code, 1, Form::Json, &fields, &[])
}

/// Says that it is over, whatever way that came.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The sends of another connection.
#[derive(Default)]
struct Probe {
    slowest_us: AtomicU64,
    /// How many were answered.
    count: AtomicU64,
}

impl Probe {
    /// Sends small messages, one after the other, and notes the slowest.
    fn run(&self, address: &str, is_over: &AtomicBool) {
        let mut connection = Connection::open(address);
        while !is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            assert_eq!(connection.send_message("probe", 0, "", b"x").code, response::SUCCESS);
            self.slowest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The slowest while `act` goes on, one that is still on its way then included: whoever was held up is answered last.
    fn slowest_beside(&self, act: impl FnOnce()) -> Duration {
        self.wait_for_sends(2);
        self.slowest_us.store(0, Ordering::Relaxed);
        act();
        self.wait_for_sends(2);
        Duration::from_micros(self.slowest_us.load(Ordering::Relaxed))
    }

    /// Until so many more were answered: the first of them may have begun before.
    fn wait_for_sends(&self, count: u64) {
        let (before, began) = (self.count.load(Ordering::Relaxed), Instant::now());
        while self.count.load(Ordering::Relaxed) < before + count {
            assert!(began.elapsed() < WAIT_MAX, "no send is answered");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn no_request_however_large_holds_up_a_send() {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = Setup::serve(&scratch.path().join("data")).start();
    let (probe, is_over) = (Probe::default(), AtomicBool::new(false));
    let mut slow = Vec::new();
    std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        scope.spawn(|| probe.run(&sluice.broker, &is_over));
        let mut measure = |address: &str, name: String, frame: &[u8]| {
            let mut took = Duration::MAX;
            // What a request does to others it does each time; a busy machine does not.
            for _ in 0..TRIES {
                took = took.min(probe.slowest_beside(|| {
                    let mut connection = Connection::open(address);
                    // Twice: what the first makes the second finds.
                    for _ in 0..2 {
                        if connection.send_raw(frame).is_err() || connection.receive().is_none() {
                            break;
                        }
                    }
                }));
                if took <= LIMIT {
                    break;
                }
            }
            println!("{name}, {} bytes: {took:?}", frame.len());
            if took > LIMIT {
                slow.push(format!("{name}: {took:?}"));
            }
        };
        for (code, body) in lists() {
            measure(&sluice.broker, request::name(code).to_owned(), &request_frame(code, 1, Form::Json, &[], &body));
        }
        let filling = vec![b'x'; BODY_SIZE];
        for code in CODES {
            measure(
                &sluice.broker,
                format!("{} with a body", request::name(code)),
                &request_frame(code, 1, Form::Binary, &[("topic", "t")], &filling),
            );
            measure(
                &sluice.broker,
                format!("{} with a header", request::name(code)),
                &header_of_the_largest_size(code),
            );
        }
        let topics = list(
            BODY_SIZE,
            r#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1},"topicConfigTable":{"#,
            |number| {
                format!(r#""t{number}":{{"topicName":"t{number}","readQueueNums":4,"writeQueueNums":4,"perm":6}}"#)
            },
            "}}}",
        );
        let broker = [
            ("brokerName", "other"),
            ("brokerAddr", "127.0.0.1:1"),
            ("clusterName", "c"),
            ("haServerAddr", "127.0.0.1:2"),
            ("brokerId", "0"),
        ];
        measure(
            &sluice.name_server,
            "REGISTER_BROKER".to_owned(),
            &request_frame(request::REGISTER_BROKER, 1, Form::Json, &broker, &topics),
        );
        measure(
            &sluice.name_server,
            "GET_ALL_TOPIC_LIST_FROM_NAME_SERVER".to_owned(),
            &request_frame(request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, 1, Form::Json, &[], &[]),
        );
    });
    assert!(slow.is_empty(), "sends took longer than {LIMIT:?} beside\n{}", slow.join("\n"));
}
