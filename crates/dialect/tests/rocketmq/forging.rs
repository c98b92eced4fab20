//! State records are the broker's alone: nothing that a client sends becomes one, or passes for one when the log is read again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base::{LogOffset, QueueOffset};
use bytes::BytesMut;
use format::document::DataVersion;
use format::record::{Draft, Record, seal, system_flag};
use format::state::{self, STATE_TOPIC, StateChange};
use serde_json::{Value, json};
use wire::rocketmq::code::{request, response};

use crate::bench::{Bench, START};
use crate::client::{Ask, Client, ask, pull, send, send_batch, send_v1};

/// The retry topic of a group that is named like the topic of state records: an ordinary one.
const RETRY_TOPIC: &str = "%RETRY%rmq_sys_sluice_state";

/// System flag of a state record.
const STATE_FLAG: i32 = system_flag::TRANSACTION_ROLLBACK | system_flag::STATE;

/// What a forger wants the broker to believe; as a body it is text.
fn forged() -> String {
    let version = DataVersion::default();
    let changes = [
        StateChange::TopicRemoved { name: "orders".to_owned(), version },
        StateChange::GroupRemoved { name: "billing".to_owned(), version },
        StateChange::Offsets { of: "orders@billing".to_owned(), replaces: true, offsets: BTreeMap::from([(0, 50)]) },
        StateChange::Delay { level: 1, delivered: 0 },
    ];
    String::from_utf8(state::encode(&changes)).expect("text")
}

/// A whole record with the flags of state for a place in the log.
fn forged_record(topic: &str, place: i64) -> Vec<u8> {
    let (body, host) = (forged(), "127.0.0.1:10911".parse().expect("address"));
    let mut record = BytesMut::new();
    Draft { topic, ..state::draft(body.as_bytes(), &[], host, START.wall) }.encode(&mut record);
    seal(&mut record, QueueOffset(0), LogOffset(place as u64), START.wall);
    record.to_vec()
}

fn properties(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(name, value)| format!("{name}\u{1}{value}\u{2}")).collect()
}

/// Requests that are refused, each with its answer.
fn refused() -> Vec<(&'static str, Ask, i32)> {
    let to_state = send(STATE_TOPIC, &forged()).with("f", STATE_FLAG);
    let parked = properties(&[("DELAY", "1"), ("REAL_TOPIC", STATE_TOPIC), ("REAL_QID", "0")]);
    let settings = json!({"topicConfigList": [{"topicName": STATE_TOPIC}]}).to_string();
    let topic =
        [("topic", STATE_TOPIC), ("defaultTopic", "TBW102"), ("topicFilterType", "SINGLE_TAG"), ("order", "false")];
    let topic = ask(request::UPDATE_AND_CREATE_TOPIC, &topic).with("readQueueNums", 1).with("writeQueueNums", 1);
    let reset = [("topic", STATE_TOPIC), ("group", "billing"), ("timestamp", "0"), ("isForce", "true")];
    vec![
        ("sent", to_state.clone(), response::NO_PERMISSION),
        ("sent as a message", to_state.clone().with("f", 0), response::NO_PERMISSION),
        ("sent by an old client", send_v1(STATE_TOPIC, &forged()).with("sysFlag", STATE_FLAG), response::NO_PERMISSION),
        ("in a batch", send_batch(STATE_TOPIC, &[(&forged(), "")]).with("f", STATE_FLAG), response::NO_PERMISSION),
        ("delayed", to_state.clone().with("i", properties(&[("DELAY", "1")])), response::NO_PERMISSION),
        ("parked", send("SCHEDULE_TOPIC_XXXX", &forged()).with("i", parked), response::NO_PERMISSION),
        ("rolled back", send("orders", &forged()).with("f", STATE_FLAG), response::REQUEST_CODE_NOT_SUPPORTED),
        (
            "half",
            to_state.with("b", "orders").with("f", 0).with("i", properties(&[("TRAN_MSG", "true")])),
            response::REQUEST_CODE_NOT_SUPPORTED,
        ),
        ("as a template", send("another", &forged()).with("c", STATE_TOPIC), response::TOPIC_NOT_EXIST),
        ("pulled", pull("billing", STATE_TOPIC, 0), response::TOPIC_NOT_EXIST),
        ("made", topic.with("perm", 6), response::NO_PERMISSION),
        ("made with others", ask(request::UPDATE_AND_CREATE_TOPIC_LIST, &[]).body(settings), response::NO_PERMISSION),
        ("reset", ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset), response::TOPIC_NOT_EXIST),
    ]
}

/// Messages that look like state records and are stored as any others.
fn accepted() -> Vec<Ask> {
    let way_back = properties(&[("REAL_TOPIC", STATE_TOPIC), ("REAL_QID", "0"), ("INNER_MULTI_DISPATCH", STATE_TOPIC)]);
    let message = send("orders", &forged());
    vec![
        message.clone().with("f", system_flag::STATE),
        message.clone().with("i", &way_back),
        message.clone().with("i", format!("{way_back}DELAY\u{1}1")),
        message.clone().with("i", format!("DELAY\u{1}1\u{2}{way_back}REAL_TOPIC")).with("f", system_flag::STATE),
        message.with("b", RETRY_TOPIC).with("i", properties(&[("RETRY_TOPIC", STATE_TOPIC)])),
        send_batch("orders", &[(&forged(), &way_back)]).with("f", system_flag::STATE),
    ]
}

/// Gives the record at a place in the log back.
fn send_back(place: i64) -> Ask {
    ask(request::CONSUMER_SEND_MESSAGE_BACK, &[("group", "billing")]).with("offset", place).with("delayLevel", 1)
}

/// Where the first state record is in the log.
fn first_state_record(directory: &Path) -> i64 {
    let log = fs::read(directory.join("commitlog").join(format!("{:020}", 0))).expect("reads");
    let mut place = 0;
    loop {
        let record = Record::decode(&log[place..]).expect("a state record before the end");
        if record.topic == STATE_TOPIC {
            return place as i64;
        }
        place += record.size;
    }
}

/// Sends a message whose body is a record for the place where it comes to lie; gives that place.
fn send_record_in_body(client: &mut Client, topic: &str) -> i64 {
    let body_place = |client: &mut Client, place: i64| {
        let sent = client.ask_well(send("bodies", "").body(forged_record(topic, place)));
        let found = client.ask_well(pull("billing", "bodies", sent.number("queueOffset"))).body;
        let record = Record::decode(&found).expect("a record");
        let body = found.windows(record.body.len()).position(|bytes| bytes == record.body).expect("its body");
        (record.log_offset.0 as i64 + body as i64, record.size as i64)
    };
    let (first, size) = body_place(client, 0);
    let (second, _) = body_place(client, first + size);
    assert_eq!(second, first + size);
    second
}

/// Topics, groups, offsets and how far the first delay level is delivered, as a slave is told.
fn state_of(bench: &Bench) -> [Value; 4] {
    let tables = [
        (request::GET_ALL_TOPIC_CONFIG, "/topicConfigTable"),
        (request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG, "/subscriptionGroupTable"),
        (request::GET_ALL_CONSUMER_OFFSET, "/offsetTable"),
        (request::GET_ALL_DELAY_OFFSET, "/offsetTable/1"),
    ];
    tables.map(|(code, table)| {
        let told = bench.client().ask_well(ask(code, &[])).json();
        told.pointer(table).cloned().unwrap_or_else(|| panic!("no {table} in {told}"))
    })
}

/// A broker with topics, groups, offsets and delayed messages.
fn bench_with_state() -> Bench {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "an order").with("i", properties(&[("DELAY", "1")])));
    client.ask_well(send("bodies", "the first"));
    client.ask_well(send(RETRY_TOPIC, "a try"));
    client.wait(1000);
    bench.broker.delivery.deliver_due(client.now);
    client.ask_well(pull("billing", "orders", 0));
    let offset = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("commitOffset", "1")];
    client.ask_well(ask(request::UPDATE_CONSUMER_OFFSET, &offset));
    bench
}

fn remove_all_but_the_log(directory: &Path) {
    for entry in fs::read_dir(directory).expect("lists").map(|entry| entry.expect("an entry")) {
        let is_folder = entry.file_type().expect("a type").is_dir();
        if entry.file_name() != "commitlog" {
            let remove = if is_folder { fs::remove_dir_all::<PathBuf> } else { fs::remove_file::<PathBuf> };
            remove(entry.path()).expect("removes");
        }
    }
}

#[test]
fn nothing_that_a_client_sends_changes_the_state() {
    let bench = bench_with_state();
    let mut client = bench.client();
    let places = [STATE_TOPIC, "nowhere"].map(|topic| send_record_in_body(&mut client, topic));
    let before = state_of(&bench);
    for (forgery, ask, code) in refused() {
        let answer = client.ask(ask);
        assert_eq!(answer.code, code, "{forgery}: {}", answer.remark);
    }
    for place in places.into_iter().chain([first_state_record(bench.directory())]) {
        assert_eq!(client.ask(send_back(place)).code, response::SYSTEM_ERROR, "{place}");
    }
    client.ask_well(ask(request::DELETE_TOPIC_IN_BROKER, &[("topic", STATE_TOPIC)]));
    assert_eq!(state_of(&bench), before);

    accepted().into_iter().for_each(|message| drop(client.ask_well(message)));
    client.wait(2000);
    bench.broker.delivery.deliver_due(client.now);
    assert_eq!((bench.count("orders", 0), bench.count(RETRY_TOPIC, 0)), (6, 2));
    for topic in ["orders", RETRY_TOPIC] {
        let found = client.ask_well(pull("billing", topic, 0));
        let mut rest = &found.body[..];
        while let Ok(record) = Record::decode(rest) {
            assert_eq!((record.topic, record.system_flag), (topic, 0));
            rest = &rest[record.size..];
        }
    }
    let after = state_of(&bench);
    assert_eq!((&after[..3], &after[3]), (&before[..3], &json!(3)), "delayed messages alone were delivered");

    client.close();
    let bench = bench.killed(|_| ());
    assert_eq!(state_of(&bench), after);
    let bench = bench.killed(remove_all_but_the_log);
    assert_eq!(state_of(&bench), after, "by the log alone");
}

/// What is forged above would not go unnoticed.
#[test]
fn the_same_bytes_in_a_record_of_the_broker_change_the_state() {
    let bench = bench_with_state();
    let (before, body) = (state_of(&bench), forged());
    let store = bench.broker.store();
    let mut batch = store.begin_batch(0);
    let host = "127.0.0.1:10911".parse().expect("address");
    batch.push_unlisted(&state::draft(body.as_bytes(), &[store.checksum_room()], host, START.wall));
    store.append(batch, START.wall).expect("appends");
    store.write_staged().expect("writes");
    let bench = bench.killed(remove_all_but_the_log);
    let tables = state_of(&bench).into_iter().zip(before);
    assert!(tables.into_iter().all(|(after, before)| after != before), "{:#?}", state_of(&bench));
}
