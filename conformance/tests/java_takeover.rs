//! Whatever a client sends, an official broker that takes over the directory reads to the last message.
//!
//! Recovery of a Java broker takes the first record it cannot read for the end of the log and cuts the rest. So this sends every value of
//! every field and property that a client has a say in (borders, huge, negative, no numbers, long names, bytes that are no text), and
//! compares the ends of all queues. What is refused does not matter here; what is acknowledged must be there.
//!
//! `SLUICE_CONFORMANCE_COUNT` sets how many more sends are made up by chance (500).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use conformance::connection::{Answer, Connection};
use conformance::directory::wait_for_topics;
use conformance::java::JavaBroker;
use conformance::sluice::Setup;
use conformance::{message_count, seed};
use format::batch_body::BatchItem;
use format::properties::names;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use wire::rocketmq::code::{request, response};

/// Delayed messages wait for longer than the test runs, so that queues stand still.
const LEVELS: &str = "messageDelayLevel=1h 2h 3h 4h 5h 6h 7h 8h 9h 10h 11h 12h 13h 14h 15h 16h 17h 18h";
const LEVEL_COUNT: u32 = 18;
const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
const TOPIC: &str = "taken";
const QUEUES: i32 = 4;

/// Property names that brokers of any version, or clients of any, read (`MessageConst`).
const NAMES: &str = "KEYS TAGS WAIT DELAY RETRY_TOPIC ORIGIN_GROUP REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID \
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY TRANS_OFFSET EXTEND_UNIQ_INFO \
    MAX_RECONSUME_TIMES CONSUME_START_TIME _SYS_MSG_PRIORITY_ INNER_NUM INNER_BASE DUP_INFO CHECK_IMMUNITY_TIME_IN_SECONDS \
    TRAN_PREPARED_QUEUE_OFFSET __transactionId__ TRANSACTION_CHECK_TIMES INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME \
    PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY PROPERTY_FORWARD_QUEUE_ID REDIRECT \
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TRACE_CONTEXT TIMER_DELAY_SEC TIMER_DELIVER_MS __BORNHOST BORN_TIMESTAMP \
    __RMQ.TRANSIENT.TOPIC_SYS_FLAG __RMQ.TRANSIENT.GROUP_SYS_FLAG E_T TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS \
    TIMER_DEL_UNIQKEY TIMER_ROLL_LABEL TIMER_DELAY_LEVEL TIMER_DELAY_MS __CRC32# DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID";

const VALUES: &[&str] = &[
    "",
    " ",
    "0",
    "-0",
    "+0",
    "1",
    "-1",
    "+5",
    " 5",
    "5 ",
    "18",
    "19",
    "32767",
    "32768",
    "-32769",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "3000000000",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999999999999999",
    "00000000000000000000000005",
    "0x10",
    "1e3",
    "1.5",
    "NaN",
    "５",
    "٣",
    "true",
    "TRUE",
    "false",
    "null",
    "%LMQ%one",
    "%LMQ%one,%LMQ%two",
    "1,2",
    "1,x",
    ",",
    "a_b",
    "a=b",
    "SCHEDULE_TOPIC_XXXX",
    "%RETRY%other",
    "\u{0}",
    "\u{1}",
    "1\u{1}2",
    "\u{1F600}",
    "größe",
];

/// One send: the fields that are not the usual ones, and a body.
#[derive(Default)]
struct Send {
    code: Option<i32>,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Send {
    fn properties(block: impl Into<String>) -> Self {
        Self::field("i", block)
    }

    fn field(name: &'static str, value: impl Into<String>) -> Self {
        Self { fields: vec![(name, value.into())], body: b"body".to_vec(), code: None }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    fn batch(items: &[BatchItem<'_>]) -> Self {
        let mut body = BytesMut::new();
        items.iter().for_each(|item| item.encode(&mut body));
        Self { code: Some(request::SEND_BATCH_MESSAGE), fields: vec![("m", "true".to_owned())], body: body.to_vec() }
    }

    fn give(&self, connection: &mut Connection, number: usize) -> Answer {
        let queue = (number % QUEUES as usize).to_string();
        let mut fields = BTreeMap::from([
            ("a", "takers"),
            ("b", TOPIC),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", &*queue),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", ""),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
        ]);
        fields.extend(self.fields.iter().map(|(name, value)| (*name, &**value)));
        let fields: Vec<_> = fields.into_iter().collect();
        connection.call(self.code.unwrap_or(request::SEND_MESSAGE_V2), &fields, &self.body)
    }
}

/// Every name with every value, alone and beside what gives it a meaning.
fn named_properties() -> Vec<Send> {
    let mut sends = Vec::new();
    for name in NAMES.split_whitespace() {
        for value in VALUES {
            sends.push(Send::properties(format!("{name}\u{1}{value}\u{2}")));
            sends.push(Send::properties(format!("DELAY\u{1}7\u{2}{name}\u{1}{value}\u{2}TAGS\u{1}t\u{2}")));
        }
    }
    let pairs = [
        ("INNER_NUM", "INNER_BASE"),
        ("INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"),
        ("TIMER_DELAY_SEC", "DELAY"),
        ("DELAY", "TIMER_DELIVER_MS"),
        ("TIMER_OUT_MS", "TIMER_DELAY_MS"),
        ("TRAN_MSG", "TIMER_DELAY_SEC"),
        ("DELAY", "DELAY"),
    ];
    for (first, second) in pairs {
        for value in VALUES {
            for other in ["1", "-1", "x", "3000000000", "%LMQ%one"] {
                sends.push(Send::properties(format!("{first}\u{1}{value}\u{2}{second}\u{1}{other}\u{2}")));
                sends.push(Send::properties(format!("{first}\u{1}{other}\u{2}{second}\u{1}{value}")));
            }
        }
    }
    // Blocks that are none, and blocks of every size near the largest.
    let odd = [
        "\u{1}",
        "\u{2}",
        "a",
        "\u{1}a\u{2}",
        "a\u{1}",
        "\u{2}\u{2}\u{2}",
        "\u{1}\u{1}\u{1}",
        "DELAY",
        "DELAY\u{1}5",
        "DELAY\u{2}5",
    ];
    sends.extend(odd.map(Send::properties));
    sends.extend((32_500..32_780).step_by(7).map(|size| Send::properties(format!("k\u{1}{}\u{2}", "v".repeat(size)))));
    sends.push(Send::properties("k\u{1}v\u{2}".repeat(5000)));
    sends
}

/// Every number of the header at its borders, every bit of the flags.
fn header_fields() -> Vec<Send> {
    let numbers = ["0", "-1", "1", "5", "16", "17", "255", "65536", "2147483647", "-2147483648"];
    let mut sends = Vec::new();
    for field in ["d", "e", "f", "h", "j", "l"] {
        sends.extend(numbers.map(|value| Send::field(field, value)));
    }
    sends.extend(["-1", "0", "9223372036854775807", "-9223372036854775808"].map(|value| Send::field("g", value)));
    for bit in 0..32 {
        let flag = (1_i32 << bit).to_string();
        sends.push(Send::field("f", &*flag));
        sends.push(Send::field("f", &*flag).with("i", "DELAY\u{1}9\u{2}"));
        sends.push(Send::field("h", flag));
    }
    sends
}

fn bodies_and_batches() -> Vec<Send> {
    let magic = [&[0, 0, 0, 91][..], &0xDAA3_20A7_u32.to_be_bytes(), &[0xFF; 100]].concat();
    let bodies = [vec![], vec![0], vec![0xFF; 1000], magic, vec![b'x'; 300_000]];
    let mut sends: Vec<_> = bodies.into_iter().map(|body| Send { body, ..Send::default() }).collect();
    let properties: [&[u8]; 9] = [
        b"",
        b"TAGS\x01t\x02",
        b"TAGS\x01t",
        b"KEYS\x01\xFF\xFE\x02",
        b"\xFF\x01x\x02",
        b"DELAY\x01\xFF\x02",
        b"\x01\x02\x01\x02",
        b"REAL_QID\x01x\x02INNER_BASE\x01x\x02",
        b"WAIT\x01false\x02CLUSTER\x01c\x02__CRC32#\x01123\x02",
    ];
    for common in ["", "WAIT\u{1}true\u{2}", "DELAY\u{1}x\u{2}", "INSTANCE_ID\u{1}\u{2}REAL_QID\u{1}-1"] {
        for own in properties {
            let item = |flag, body| BatchItem { flag, body, properties: own };
            let (first, second) = (item(i32::MIN, &b"one"[..]), item(-1, &b""[..]));
            sends.push(Send::batch(&[first, second]).with("i", common));
            sends.push(Send::batch(&[first]).with("i", common).with("f", "-13"));
        }
    }
    sends
}

/// Names of topics and groups of every length near a border, by every way in.
fn long_names(connection: &mut Connection) -> Vec<Send> {
    let mut sends = Vec::new();
    let odd = ["a", "%", "|", "a%b|c-d_e", "-", "%LMQ%light", "%RETRY%", "%DLQ%", "rmq_sys_wheel_timer", DELAY_TOPIC];
    let long = [126, 127, 128, 255].map(|size| "t".repeat(size));
    for topic in odd.map(str::to_owned).into_iter().chain(long) {
        sends.push(Send::field("b", &*topic));
        sends.push(Send::field("b", topic).with("i", "DELAY\u{1}3\u{2}"));
    }
    for size in [1, 119, 120, 121, 122, 123, 127, 200, 248] {
        let group = "g".repeat(size);
        let body = format!(r#"{{"groupName":"{group}"}}"#);
        connection.call(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[], body.as_bytes());
        for prefix in ["%RETRY%", "%DLQ%"] {
            let topic = format!("{prefix}{group}");
            sends.push(Send::field("b", &*topic).with("e", "-1"));
            sends.push(Send::field("b", &*topic).with("e", "-1").with("i", "DELAY\u{1}4\u{2}"));
            sends.push(Send::field("b", topic).with("e", "-1").with("j", "99"));
        }
    }
    sends
}

/// Properties as chance has them.
fn by_chance(random: &mut StdRng, count: u64) -> Vec<Send> {
    let names: Vec<_> = NAMES.split_whitespace().collect();
    let pieces = ["\u{1}", "\u{2}", "DELAY", "5", "-", "x", "\u{7F}", "é", "REAL_QID", "\u{0}"];
    let block = |random: &mut StdRng| -> String {
        if random.random_bool(0.2) {
            return (0..random.random_range(0..30)).filter_map(|_| pieces.choose(random)).copied().collect();
        }
        let mut block = String::new();
        for _ in 0..random.random_range(0..8) {
            let (name, value) = (names.choose(random).expect("names"), VALUES.choose(random).expect("values"));
            block += &format!("{name}\u{1}{value}\u{2}");
        }
        block
    };
    let send = |_| {
        let send = Send::properties(block(random));
        match random.random_range(0..4) {
            0 => send.with("f", random.random::<i32>().to_string()).with("h", random.random::<i32>().to_string()),
            1 => send.with("j", random.random::<i32>().to_string()).with("g", random.random::<i64>().to_string()),
            _ => send,
        }
    };
    (0..count).map(send).collect()
}

/// Topics whose attributes ask for queues of other kinds: whether or not they can be had, what is sent there is there.
fn topics_of_other_kinds(connection: &mut Connection) -> Vec<Send> {
    let kinds = [
        ("batchQueue", "+queue.type=BatchCQ"),
        ("rocksQueue", "+queue.type=RocksDBCQ"),
        ("compacted", "+cleanup.policy=COMPACTION"),
        ("typed", "+message.type=TRANSACTION"),
        ("odd", "+queue.type=SimpleCQ,+x=y"),
    ];
    let mut sends = Vec::new();
    for (topic, attributes) in kinds {
        let fields = [
            ("topic", topic),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", "4"),
            ("writeQueueNums", "4"),
            ("perm", "6"),
            ("topicFilterType", "SINGLE_TAG"),
            ("order", "false"),
            ("attributes", attributes),
        ];
        connection.call(request::UPDATE_AND_CREATE_TOPIC, &fields, &[]);
        sends.extend(["", "KEYS\u{1}k\u{2}", "DELAY\u{1}2\u{2}"].map(|block| Send::properties(block).with("b", topic)));
    }
    sends
}

/// Gives messages of all kinds back, at levels of all kinds.
fn send_back(connection: &mut Connection, places: &[u64]) {
    let levels = ["-2147483648", "-1", "0", "5", "18", "19", "2147483647"];
    let mut taken = 0;
    for (number, place) in places.iter().step_by(places.len() / 50 + 1).enumerate() {
        let (place, group) = (place.to_string(), "g".repeat([1, 120, 121][number % 3]));
        let fields = [
            ("offset", &*place),
            ("group", &*group),
            ("delayLevel", levels[number % levels.len()]),
            ("maxReconsumeTimes", "16"),
        ];
        let answer = connection.call(request::CONSUMER_SEND_MESSAGE_BACK, &fields, &[]);
        taken += u32::from(answer.code == response::SUCCESS);
    }
    // Some have no room left for what a retry adds, one group has too long a name.
    assert!(taken > 10, "{taken} were taken back");
}

/// Sends all of it; returns how many messages were acknowledged.
fn fill(address: &str) -> u64 {
    let mut random = StdRng::seed_from_u64(seed());
    let mut connection = Connection::open(address);
    connection.make_topic(TOPIC, QUEUES as u32);
    let mut sends = long_names(&mut connection);
    sends.extend(topics_of_other_kinds(&mut connection));
    sends.extend(named_properties());
    sends.extend(header_fields());
    sends.extend(bodies_and_batches());
    sends.extend(by_chance(&mut random, message_count(500)));
    let (mut acknowledged, mut places) = (0, Vec::new());
    for (number, send) in sends.iter().enumerate() {
        let answer = send.give(&mut connection, number);
        if answer.code == response::SUCCESS {
            // The last 16 digits of an id are the place in the log.
            let ids = answer.field("msgId").split(',');
            let of_this = ids.map(|id| u64::from_str_radix(&id[16..], 16).expect("hexadecimal"));
            let before = places.len();
            places.extend(of_this);
            acknowledged += (places.len() - before) as u64;
        }
    }
    assert!(acknowledged * 2 > sends.len() as u64, "{acknowledged} of {} were taken", sends.len());
    send_back(&mut connection, &places);
    // Behind all of it, so that nothing is cut unseen.
    for queue in 0..QUEUES {
        assert_eq!(connection.send_message(TOPIC, queue, "", b"last").code, response::SUCCESS);
    }
    acknowledged + QUEUES as u64
}

/// Ends of all queues that have messages.
type Ends = BTreeMap<(String, u32), u64>;

fn ends_of(address: &str) -> Ends {
    let mut connection = Connection::open(address);
    let table = connection.call(request::GET_ALL_TOPIC_CONFIG, &[], &[]);
    let table: Value = serde_json::from_slice(&table.body).expect("JSON");
    let topics = table["topicConfigTable"].as_object().expect("a table of topics");
    let mut ends = Ends::new();
    for (topic, settings) in topics {
        for queue in 0..settings["writeQueueNums"].as_u64().expect("a number") as u32 {
            ends.insert((topic.clone(), queue), connection.queue_end(topic, queue));
        }
    }
    for queue in 0..LEVEL_COUNT {
        ends.insert((DELAY_TOPIC.to_owned(), queue), connection.queue_end(DELAY_TOPIC, queue));
    }
    ends.retain(|_, end| *end > 0);
    ends
}

/// The ends once all that waits has been delivered.
fn with_delayed(address: &str, mut ends: Ends) -> Ends {
    let mut connection = Connection::open(address);
    let levels: Vec<_> = ends.keys().filter(|(topic, _)| topic == DELAY_TOPIC).map(|(_, queue)| *queue).collect();
    for level in levels {
        connection.read_queue(DELAY_TOPIC, level, 0, |record| {
            let topic = record.property(names::REAL_TOPIC).expect("the topic it is for").to_owned();
            let queue = record.property(names::REAL_QUEUE_ID).and_then(|queue| queue.parse().ok()).expect("its queue");
            *ends.entry((topic, queue)).or_default() += 1;
        });
    }
    ends
}

/// Waits for a broker that is still at it.
fn wait_for_ends(address: &str, wanted: &Ends) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut connection = Connection::open(address);
    loop {
        let found: Ends = wanted.keys().map(|key| (key.clone(), connection.queue_end(&key.0, key.1))).collect();
        if found == *wanted {
            return;
        }
        let differing: Vec<_> = wanted.iter().filter(|(key, end)| found[*key] != **end).collect();
        let wrong: Vec<_> = differing.iter().map(|(key, end)| (key, end, found[*key])).collect();
        assert!(Instant::now() < deadline, "queues end elsewhere (queue, was, is): {wrong:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Every message of the topic can be read, and the next of each queue and level lands right behind the last.
fn goes_on(address: &str, ends: &Ends) {
    let mut connection = Connection::open(address);
    for ((topic, queue), end) in ends.iter().filter(|((topic, _), _)| topic == TOPIC) {
        assert_eq!(connection.read_queue(topic, *queue, 0, |_| ()), *end);
        let answer = connection.send_message(topic, *queue as i32, "", b"next");
        assert_eq!((answer.code, answer.field("queueOffset")), (response::SUCCESS, &*end.to_string()), "{answer:?}");
    }
    for ((topic, queue), end) in ends.iter().filter(|((topic, _), _)| topic == DELAY_TOPIC) {
        let level = queue + 1;
        let answer = connection.send_message(TOPIC, 0, &format!("DELAY\u{1}{level}\u{2}"), b"next");
        assert_eq!(
            (answer.code, answer.field("queueOffset")),
            (response::SUCCESS, &*end.to_string()),
            "{topic}: {answer:?}"
        );
    }
}

fn is_taken_over_by(version: &str, is_killed: bool) {
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = Setup::name_server(&scratch.path().join("names")).start();
    let home = scratch.path().join("java");
    let data = home.join("store");
    let (name, levels) = LEVELS.split_once('=').expect("a setting");
    // One segment: recovery of either kind then reads everything.
    let segment = "mappedFileSizeCommitLog=134217728";
    let setup = Setup::serve(&data).set(name, levels).set("mappedFileSizeCommitLog", "134217728");
    let mut own = setup.start();
    let acknowledged = fill(&own.broker);
    let ends = ends_of(&own.broker);
    assert!(ends.values().sum::<u64>() >= acknowledged, "{acknowledged} were acknowledged: {ends:?}");
    // 4.9 reads the log before it knows the levels: what it lists anew it takes for due (`DefaultMessageStore.load`).
    let are_due = is_killed && version == "4.9.7";
    let ends = if are_due { with_delayed(&own.broker, ends) } else { ends };
    if is_killed {
        wait_for_topics(&data, ends.keys().map(|(topic, _)| &**topic));
        own.kill();
        // What was listed must come from the log again.
        for folder in ["consumequeue", "index"] {
            std::fs::remove_dir_all(data.join(folder)).expect("removes");
        }
    } else {
        assert!(own.stop().success());
    }
    assert_eq!(data.join("abort").exists(), is_killed);
    let java = JavaBroker::start_version(version, &home, &name_server.name_server, &[segment, LEVELS]);
    wait_for_ends(&java.address, &ends);
    goes_on(&java.address, &ends);
}

#[test]
fn java_5_4_0_takes_over_after_an_orderly_stop() {
    is_taken_over_by("5.4.0", false);
}

#[test]
fn java_5_4_0_takes_over_after_a_kill() {
    is_taken_over_by("5.4.0", true);
}

#[test]
fn java_4_9_7_takes_over_after_an_orderly_stop() {
    is_taken_over_by("4.9.7", false);
}

#[test]
fn java_4_9_7_takes_over_after_a_kill() {
    is_taken_over_by("4.9.7", true);
}
