//! What is taken from a client can be read by every version of RocketMQ, whose recovery takes what it cannot read for the log's end.

use format::document::GroupDocument;
use format::properties::names;
use format::record::{Record, system_flag};
use wire::rocketmq::code::{request, response};

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, heartbeat, pull, send, send_batch};

const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

fn let_pass(bench: &Bench, client: &mut Client, milliseconds: u64) {
    client.wait(milliseconds);
    bench.broker.delivery.deliver_due(client.now);
}

/// How many messages wait or have waited.
fn parked(bench: &Bench) -> u64 {
    (0..3).map(|level| bench.count(DELAY_TOPIC, level)).sum()
}

fn join(client: &mut Client, group: &str) {
    let replies = client.give(&[heartbeat("c", group, "orders", "*", 1)]);
    assert!(replies.iter().any(|reply| reply.is_response && reply.code == response::SUCCESS), "{replies:?}");
}

fn send_back(bench: &Bench, group: &str) -> Ask {
    ask(request::CONSUMER_SEND_MESSAGE_BACK, &[("group", group), ("delayLevel", "0")])
        .with("offset", bench.first_of("orders"))
}

#[test]
fn a_delay_that_java_reads_as_no_number_is_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    let values = [
        "3000000000",
        "2147483648",
        "-2147483649",
        "99999999999999999999999999",
        "five",
        " 5",
        "5 ",
        "+",
        "-",
        "--5",
        "5.0",
        "0x5",
        "５",
        "٣",
        "\u{0}",
        "5\u{1}",
    ];
    for value in values {
        for properties in
            [format!("DELAY\u{1}{value}\u{2}"), format!("DELAY\u{1}1\u{2}DELAY\u{1}{value}\u{2}KEYS\u{1}k\u{2}")]
        {
            let reply = client.ask(send("orders", "x").with("i", &properties));
            assert_eq!(reply.code, response::MESSAGE_ILLEGAL, "{properties:?}");
            assert!(reply.remark.contains("the property DELAY is ["), "{}", reply.remark);
        }
    }
    assert_eq!((bench.count("orders", 0), parked(&bench)), (0, 0));
}

#[test]
fn a_delay_that_java_reads_is_taken_as_java_takes_it() {
    let bench = Bench::new();
    let mut client = bench.client();
    for at_once in ["0", "-0", "-1", "-2147483648", "0000", ""] {
        client.ask_well(send("orders", "at once").with("i", format!("DELAY\u{1}{at_once}\u{2}")));
    }
    assert_eq!(bench.count("orders", 0), 6);
    for (level, value) in [(1, "1"), (2, "+2"), (2, "0000000000000002"), (3, "4"), (3, "2147483647")] {
        let before = bench.count(DELAY_TOPIC, level - 1);
        // A value of no bytes is none: the one before it counts.
        client.ask_well(send("orders", "later").with("i", format!("DELAY\u{1}{value}\u{2}DELAY\u{1}\u{2}")));
        assert_eq!(bench.count(DELAY_TOPIC, level - 1), before + 1, "{value}");
    }
}

#[test]
fn with_a_level_as_well_a_delivery_time_goes_and_the_message_arrives() {
    let bench = Bench::new();
    let mut client = bench.client();
    let times =
        ["TIMER_DELIVER_MS\u{1}1700000009000\u{2}", "TIMER_DELAY_MS\u{1}9000\u{2}", "TIMER_DELAY_SEC\u{1}9\u{2}"];
    for time in times {
        client.ask_well(send("orders", "x").with("i", format!("DELAY\u{1}1\u{2}{time}KEYS\u{1}k\u{2}")));
        client.ask_well(send("orders", "x").with("i", format!("{time}KEYS\u{1}k\u{2}DELAY\u{1}1\u{2}")));
    }
    let_pass(&bench, &mut client, 1000);
    let arrived = client.ask_well(pull("billing", "orders", 0));
    let records: Vec<_> =
        format::record::split(&arrived.body).map(|bytes| Record::decode(bytes).expect("a record")).collect();
    assert_eq!(records.len(), 2 * times.len());
    for record in records {
        let timed = [names::TIMER_DELIVER_MS, names::TIMER_DELAY_MS, names::TIMER_DELAY_SECONDS];
        assert_eq!(timed.map(|name| record.property(name)), [None; 3]);
        assert_eq!(record.property("KEYS"), Some("k"));
    }
}

#[test]
fn no_later_property_hides_a_reason_to_refuse() {
    let bench = Bench::new();
    let mut client = bench.client();
    let time = "TIMER_DELAY_SEC\u{1}9\u{2}";
    for (reason, what) in [("TRAN_MSG\u{1}true\u{2}", "transactional"), ("INNER_NUM\u{1}2\u{2}", "batches")] {
        for (before, after) in [("", time), (time, ""), ("DELAY\u{1}1\u{2}", time), (time, "DELAY\u{1}1\u{2}")] {
            let reply = client.ask(send("orders", "x").with("i", format!("{before}{reason}{after}")));
            assert_eq!(reply.code, response::REQUEST_CODE_NOT_SUPPORTED, "{before:?} {reason:?} {after:?}");
            assert!(reply.remark.contains(what), "{}", reply.remark);
        }
    }
    assert_eq!((bench.count("orders", 0), parked(&bench)), (0, 0));
}

#[test]
fn of_the_system_flag_a_sender_has_a_say_in_its_own_bits_alone() {
    let bench = Bench::new();
    let mut client = bench.client();
    let wanted = !system_flag::TRANSACTION_MASK;
    client.ask_well(send("orders", "x").with("f", wanted));
    client.ask_well(send_batch("orders", &[("x", "")]).with("f", wanted));
    client.ask_well(send("orders", "x").with("f", 0x301));
    let found = client.ask_well(pull("billing", "orders", 0));
    let flags: Vec<_> =
        format::record::split(&found.body).map(|bytes| Record::decode(bytes).expect("a record").system_flag).collect();
    assert_eq!(flags, [0x703, 0x703, 0x301]);
}

/// 4.9 reads no record whose topic has more than 127 bytes, and so keeps no retries of such a group.
#[test]
fn a_group_whose_retry_topic_would_be_too_long_consumes_and_is_told_that_it_has_no_retries() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "hard"));
    let longest = "g".repeat(120);
    join(&mut client, &longest);
    client.ask_well(send_back(&bench, &longest));
    client.ask_well(send_back(&bench, &longest).with("delayLevel", -1));
    client.ask_well(send(&format!("%RETRY%{longest}"), "x"));
    let count = bench.broker.catalog.topics().len();

    let too_long = "g".repeat(121);
    join(&mut client, &too_long);
    client.ask_well(pull(&too_long, "orders", 0));
    let longer = "g".repeat(123);
    join(&mut client, &longer);
    let refused = [
        send_back(&bench, &too_long),
        send_back(&bench, &longer).with("delayLevel", -1),
        send(&format!("%RETRY%{too_long}"), "x"),
        send(&format!("%RETRY%{longer}"), "x").with("j", 100),
        send(&format!("%DLQ%{longer}"), "x"),
    ];
    for asked in refused {
        let reply = client.ask(asked);
        assert_eq!(reply.code, response::INVALID_PARAMETER, "{}", reply.remark);
        assert!(reply.remark.contains("longer than 120 bytes has no retries and no dead letters"), "{}", reply.remark);
    }
    assert_eq!(bench.broker.catalog.topics().len(), count);
}

/// RocketMQ 5.x makes such topics. They are read, and not written to.
#[test]
fn a_retry_topic_of_a_size_that_only_5_x_reads_takes_nothing_more() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "hard"));
    let group = "g".repeat(200);
    bench.make_group(&group, GroupDocument::default());
    for prefix in ["%RETRY%", "%DLQ%"] {
        bench.make_topic(&format!("{prefix}{group}"), format::document::TopicDocument::default());
    }
    let refused = [
        send_back(&bench, &group),
        send_back(&bench, &group).with("delayLevel", -1),
        send(&format!("%RETRY%{group}"), "x"),
        send(&format!("%RETRY%{group}"), "x").with("i", "DELAY\u{1}1\u{2}"),
        send(&format!("%DLQ%{group}"), "x"),
    ];
    for asked in refused {
        let reply = client.ask(asked);
        assert_eq!(reply.code, response::INVALID_PARAMETER, "{}", reply.remark);
    }
    assert_eq!(client.ask(pull(&group, &format!("%RETRY%{group}"), 0)).code, response::PULL_NOT_FOUND);
}

#[test]
fn topics_that_a_java_broker_reads_as_its_own_take_no_messages() {
    let bench = Bench::new();
    let mut client = bench.client();
    let own = [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "rmq_sys_wheel_timer",
    ];
    for topic in own {
        assert_eq!(client.ask(send(topic, "x")).code, response::NO_PERMISSION, "{topic}");
    }
}

/// A Java broker does not start over a topic whose files are not of the kind its attribute says.
#[test]
fn a_topic_of_queues_of_another_kind_is_not_made() {
    let bench = Bench::new();
    let mut client = bench.client();
    let fields = [
        ("topic", "orders"),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "4"),
        ("writeQueueNums", "4"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("order", "false"),
    ];
    let make = ask(request::UPDATE_AND_CREATE_TOPIC, &fields);
    for attributes in ["+queue.type=BatchCQ", "+message.type=NORMAL,+queue.type=RocksDBCQ"] {
        assert_eq!(client.ask(make.clone().with("attributes", attributes)).code, response::REQUEST_CODE_NOT_SUPPORTED);
    }
    let list = r#"{"topicConfigList":[{"topicName":"orders","attributes":{"queue.type":"BatchCQ"}}]}"#;
    let reply = client.ask(ask(request::UPDATE_AND_CREATE_TOPIC_LIST, &[]).body(list));
    assert_eq!(reply.code, response::REQUEST_CODE_NOT_SUPPORTED, "{}", reply.remark);
    assert!(bench.broker.catalog.topic("orders").is_none());
    client.ask_well(make.with("attributes", "+queue.type=SimpleCQ,+message.type=NORMAL"));
}
