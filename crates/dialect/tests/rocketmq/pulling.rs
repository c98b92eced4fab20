//! Promises to those who pull: what they find, when they wait, and where they are told to go on.

use std::time::Duration;

use base::limits::WAITING_FETCHES_PER_CONNECTION_MAX;
use base::session::Session;
use bytes::BytesMut;
use format::document::{GroupDocument, TopicDocument};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::{CLOCK_STEPS_MS, clock_set};
use wire::rocketmq::body::client::{ConsumerData, SubscriptionData};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;
use wire::rocketmq::header::pull_flag;

use crate::bench::{Bench, START, Setup};
use crate::client::{Ask, Reply, ask, heartbeat, heartbeat_of, held_pull, pull, send, send_batch};

const EIO: i32 = 5;

/// Where an answer to a pull says to go on, and the bounds of the queue.
fn places(reply: &Reply) -> (i64, i64, i64) {
    (reply.number("nextBeginOffset"), reply.number("minOffset"), reply.number("maxOffset"))
}

/// A pull with the subscription that a heartbeat registered.
fn registered(group: &str, topic: &str, version: i64) -> Ask {
    pull(group, topic, 0).with("sysFlag", 0).with("subVersion", version).without("subscription")
}

fn tagged(tag: &str) -> Ask {
    send("orders", tag).with("i", format!("TAGS\u{1}{tag}\u{2}"))
}

#[test]
fn messages_are_given_with_the_place_to_go_on_at() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.give(&[send("orders", "one"), send("orders", "two"), send("orders", "three")]);
    for code in [request::PULL_MESSAGE, request::LITE_PULL_MESSAGE] {
        for form in [Form::Json, Form::Binary] {
            let reply = client.ask_well(Ask { code, ..pull("billing", "orders", 1) }.form(form));
            assert_eq!(reply.bodies(), ["two", "three"]);
            assert_eq!((places(&reply), reply.number("suggestWhichBrokerId")), ((3, 0, 3), 0));
        }
    }
}

#[test]
fn a_pull_gets_no_more_than_it_asks_for_and_at_least_one_message() {
    let bench = Bench::with(|setup| setup.session.fetch_count_max = 3);
    let mut client = bench.client();
    client.give(&[(); 5].map(|()| send("orders", &"x".repeat(1000))));
    for (count, size, given) in [(2, 0, 2), (100, 0, 3), (0, 0, 1), (-1, -1, 1), (100, 2500, 2), (100, 1, 1)] {
        let asked = pull("billing", "orders", 0).with("maxMsgNums", count).with("maxMsgBytes", size);
        assert_eq!(client.ask_well(asked).bodies().len(), given, "{count} messages, {size} bytes");
    }
}

#[test]
fn a_pull_that_may_not_wait_is_told_that_there_is_nothing() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    // To wait takes both: the flag and a time.
    let cases = [
        pull("billing", "orders", 1),
        held_pull("billing", "orders", 1).with("suspendTimeoutMillis", 0),
        pull("billing", "orders", 1).with("suspendTimeoutMillis", 15_000),
    ];
    for asked in cases {
        let reply = client.ask(asked);
        assert_eq!((reply.code, places(&reply)), (response::PULL_NOT_FOUND, (1, 0, 1)));
    }
}

#[test]
fn a_held_pull_is_answered_by_the_next_send_to_its_queue() {
    let bench = Bench::new();
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "old"));
    for form in [Form::Json, Form::Binary] {
        let end = bench.count("orders", 0) as i64;
        assert_eq!(consumer.give(&[held_pull("billing", "orders", end).form(form)]), []);
        producer.ask_well(send("orders", "elsewhere").with("e", 1));
        assert_eq!(consumer.hear(), []);
        producer.ask_well(send("orders", "new"));
        let replies = consumer.hear();
        assert_eq!((replies.len(), replies[0].code, replies[0].form), (1, response::SUCCESS, form));
        assert_eq!((replies[0].bodies(), places(&replies[0])), (vec!["new".to_owned()], (end + 1, 0, end + 1)));
        assert_eq!(consumer.session.deadline(), None);
    }
}

#[test]
fn a_message_that_comes_while_a_pull_is_looked_up_on_the_disk_is_not_slept_through() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let on_disk = |setup: &mut Setup| {
        setup.store.disk = Disk::new(disk.clone());
        setup.store.directory = "/data".into();
    };
    let first = Bench::with(on_disk);
    first.client().ask_well(tagged("b"));
    first.broker.close(START).expect("closes");
    drop(first);
    let bench = Bench::with(on_disk);
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    // The entries are not in memory: a job looks at them, and finds none that is wanted.
    disk.fail(Failure::error(Operation::Read, EIO));
    let asked = held_pull("billing", "orders", 0).with("subscription", "a");
    consumer.receive(&mut asked.frame(1)).expect("a frame");
    disk.heal();
    let job = consumer.session.take_job().expect("a job");
    job();
    // The connection has not heard of that yet when the wanted one comes.
    producer.ask_well(tagged("a"));
    let replies = consumer.hear();
    assert_eq!(
        replies.iter().map(|reply| (reply.code, reply.bodies())).collect::<Vec<_>>(),
        [(0, vec!["a".to_owned()])]
    );
}

#[test]
fn a_held_pull_is_told_when_its_time_is_over() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    // A client waits as long as it says, but no longer than a minute.
    for (wanted_ms, waits_ms) in [(15_000, 15_000), (600_000, 60_000)] {
        let asked = held_pull("billing", "orders", 1).with("suspendTimeoutMillis", wanted_ms);
        assert_eq!(client.give(&[asked]), []);
        assert_eq!(client.session.deadline(), Some(client.now.monotonic.plus_ms(waits_ms)));
        assert_eq!(client.wait(waits_ms - 1), []);
        let replies = client.wait(1);
        assert_eq!((replies.len(), replies[0].code), (1, response::PULL_NOT_FOUND));
        assert_eq!(places(&replies[0]), (1, 0, 1));
    }
    let short = Bench::with(|setup| setup.session.long_polling = false);
    let mut client = short.client();
    client.ask_well(send("orders", "x"));
    assert_eq!(client.give(&[held_pull("billing", "orders", 1)]), []);
    assert_eq!(client.session.deadline(), Some(START.monotonic.plus_ms(1000)));
}

#[test]
fn setting_the_clock_by_an_hour_moves_no_end_of_a_held_pull() {
    for by_ms in CLOCK_STEPS_MS {
        let bench = Bench::new();
        let mut client = bench.client();
        client.ask_well(send("orders", "x"));
        assert_eq!(client.give(&[held_pull("billing", "orders", 1)]), []);
        client.now = clock_set(client.now, by_ms);
        // It may be woken at any time.
        client.session.wake(client.now);
        assert_eq!(client.wait(14_999), [], "{by_ms}");
        assert_eq!(client.wait(1).len(), 1, "{by_ms}");
    }
}

#[test]
fn pulls_of_one_connection_wait_each_for_itself_and_not_without_number() {
    let bench = Bench::new();
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "x"));
    let waiting = [1, 2].map(|queue| held_pull("billing", "orders", 0).with("queueId", queue));
    assert_eq!(consumer.give(&waiting), []);
    producer.ask_well(send("orders", "second").with("e", 2));
    let replies = consumer.hear();
    assert_eq!((replies.len(), replies[0].bodies()), (1, vec!["second".to_owned()]));
    // One still waits. As many may, with filters as they are.
    let asked = held_pull("billing", "orders", 1).with("subscription", "a || b || c");
    let frame = asked.form(Form::Binary).frame(7);
    for _ in 1..WAITING_FETCHES_PER_CONNECTION_MAX {
        consumer.receive(&mut frame.clone()).expect("a frame");
    }
    assert_eq!(consumer.hear(), []);
    assert_eq!(consumer.ask(held_pull("billing", "orders", 1)).code, response::SYSTEM_BUSY);
}

#[test]
fn a_pull_that_gives_no_time_to_wait_is_answered_at_once_however_waiting_is_done() {
    for long_polling in [true, false] {
        let bench = Bench::with(|setup| setup.session.long_polling = long_polling);
        let mut client = bench.client();
        client.ask_well(send("orders", "x"));
        let asked = held_pull("billing", "orders", 1);
        assert_eq!(client.ask(asked.clone().with("suspendTimeoutMillis", 0)).code, response::PULL_NOT_FOUND);
        assert_eq!(client.give(&[asked]), []);
    }
}

#[test]
fn an_offset_outside_the_queue_is_put_right() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.give(&[send("orders", "one"), send("orders", "two")]);
    for (offset, next) in [(-1, 0), (3, 2), (i64::MAX, 2), (i64::MIN, 0)] {
        let reply = client.ask(held_pull("billing", "orders", offset));
        assert_eq!((reply.code, places(&reply)), (response::PULL_OFFSET_MOVED, (next, 0, 2)), "{offset}");
    }
}

#[test]
fn a_filter_gives_only_messages_with_its_tags() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.give(&["a", "b", "c", "a"].map(tagged));
    client.ask_well(send("orders", "none"));
    for (expression, bodies) in [
        ("*", vec!["a", "b", "c", "a", "none"]),
        ("", vec!["a", "b", "c", "a", "none"]),
        ("a", vec!["a", "a"]),
        ("b || c", vec!["b", "c"]),
    ] {
        let reply = client.ask_well(pull("billing", "orders", 0).with("subscription", expression));
        assert_eq!(
            (reply.bodies(), reply.number("nextBeginOffset")),
            (bodies.into_iter().map(str::to_owned).collect(), 5)
        );
    }
    let reply = client.ask(pull("billing", "orders", 0).with("subscription", "z"));
    assert_eq!((reply.code, places(&reply)), (response::PULL_RETRY_IMMEDIATELY, (5, 0, 5)));
}

#[test]
fn a_held_pull_waits_on_while_messages_do_not_match() {
    let bench = Bench::new();
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(tagged("b"));
    let asked = held_pull("billing", "orders", 0).with("subscription", "a");
    assert_eq!(consumer.give(std::slice::from_ref(&asked)), []);
    producer.ask_well(tagged("b"));
    assert_eq!(consumer.hear(), []);
    producer.ask_well(tagged("a"));
    let replies = consumer.hear();
    assert_eq!((replies.len(), replies[0].bodies(), places(&replies[0]).0), (1, vec!["a".to_owned()], 3));
    // If none comes, what was looked at need not be looked at again.
    assert_eq!(consumer.give(&[asked.with("queueOffset", 3)]), []);
    producer.ask_well(tagged("b"));
    assert_eq!(consumer.hear(), []);
    let replies = consumer.wait(15_000);
    assert_eq!((replies.len(), replies[0].code), (1, response::PULL_RETRY_IMMEDIATELY));
    assert_eq!(places(&replies[0]), (4, 0, 4));
}

#[test]
fn how_long_a_message_took_to_a_consumer_that_waited_for_it_is_recorded() {
    let bench = Bench::new();
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "w"));
    assert_eq!(consumer.give(&[held_pull("billing", "orders", 1)]), []);
    producer.ask_well(send("orders", "x"));
    assert_eq!(consumer.wait(40).len(), 1);
    // A backlog is no delivery.
    consumer.ask_well(pull("billing", "orders", 0));
    let times = bench.broker.timings().delivery.buckets(&[39, 41].map(Duration::from_millis));
    assert_eq!(times.up_to.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((times.count, times.sum), (1, Duration::from_millis(40)));
}

#[test]
fn a_pull_that_passes_over_many_messages_comes_back_in_between() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send_batch("orders", &[("b", "TAGS\u{1}b\u{2}"); 900]));
    client.ask_well(tagged("a"));
    let reply = client.ask(held_pull("billing", "orders", 0).with("subscription", "a"));
    assert_eq!((reply.code, places(&reply)), (response::PULL_RETRY_IMMEDIATELY, (800, 0, 901)));
    let reply = client.ask_well(held_pull("billing", "orders", 800).with("subscription", "a"));
    assert_eq!(reply.bodies(), ["a"]);
}

#[test]
fn a_pull_without_a_filter_uses_the_one_from_the_heartbeat_if_that_is_there_and_new_enough() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.give(&["a", "b"].map(tagged));
    assert_eq!(client.ask(registered("billing", "orders", 5)).code, response::SUBSCRIPTION_NOT_EXIST);
    client.give(&[heartbeat("c", "billing", "other", "a", 5)]);
    assert_eq!(client.ask(registered("billing", "orders", 5)).code, response::SUBSCRIPTION_NOT_EXIST);
    client.give(&[heartbeat("c", "billing", "orders", "a", 5)]);
    assert_eq!(client.ask_well(registered("billing", "orders", 5)).bodies(), ["a"]);
    assert_eq!(client.ask_well(registered("billing", "orders", 4)).bodies(), ["a"]);
    assert_eq!(client.ask(registered("billing", "orders", 6)).code, response::SUBSCRIPTION_NOT_LATEST);
    // A filter in the request holds for that request.
    assert_eq!(client.ask_well(pull("billing", "orders", 0).with("subscription", "b")).bodies(), ["b"]);
}

#[test]
fn filters_other_than_tags_are_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(tagged("a"));
    let sql = pull("billing", "orders", 0).with("subscription", "a > 1").with("expressionType", "SQL92");
    let class = pull("billing", "orders", 0).with("sysFlag", pull_flag::SUBSCRIPTION | pull_flag::CLASS_FILTER);
    let nothing = pull("billing", "orders", 0).with("subscription", "||");
    for (asked, code) in [
        (sql, response::REQUEST_CODE_NOT_SUPPORTED),
        (class, response::REQUEST_CODE_NOT_SUPPORTED),
        (nothing, response::SUBSCRIPTION_PARSE_FAILED),
    ] {
        assert_eq!(client.ask(asked).code, code);
    }
}

#[test]
fn what_cannot_be_pulled_is_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    bench.make_topic("closed", TopicDocument { perm: 2, ..TopicDocument::default() });
    bench.make_group("stopped", GroupDocument { consume_enable: false, ..GroupDocument::default() });
    for (asked, code) in [
        (pull("billing", "none", 0), response::TOPIC_NOT_EXIST),
        (pull("billing", "orders", 0).with("queueId", 4), response::SYSTEM_ERROR),
        (pull("billing", "orders", 0).with("queueId", -1), response::SYSTEM_ERROR),
        (pull("billing", "orders", 0).without("queueOffset"), response::SYSTEM_ERROR),
        (pull("no group", "orders", 0), response::INVALID_PARAMETER),
        (pull("billing", "closed", 0), response::NO_PERMISSION),
        (pull("stopped", "orders", 0), response::NO_PERMISSION),
    ] {
        let fields = asked.fields.clone();
        let reply = client.ask(asked);
        assert_eq!(reply.code, code, "{fields:?}");
        assert!(!reply.remark.is_empty());
    }
    let strict = Bench::with(|setup| setup.broker.auto_create_groups = false);
    strict.client().ask_well(send("orders", "x"));
    assert_eq!(strict.client().ask(pull("billing", "orders", 0)).code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
}

#[test]
fn an_administrators_reset_is_told_with_the_next_pull_and_only_once() {
    let bench = Bench::new();
    let (mut consumer, mut administrator) = (bench.client(), bench.client());
    consumer.give(&[send("orders", "one"), send("orders", "two"), heartbeat("c", "billing", "orders", "*", 1)]);
    let reset = [("topic", "orders"), ("group", "billing"), ("timestamp", "0"), ("isForce", "true"), ("offset", "1")];
    administrator.ask_well(ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset));
    let reply = consumer.ask(held_pull("billing", "orders", 2));
    assert_eq!((reply.code, places(&reply)), (response::PULL_OFFSET_MOVED, (1, 0, 2)));
    assert_eq!(consumer.ask_well(held_pull("billing", "orders", 1)).bodies(), ["two"]);
}

/// Clients name the tags they want by code in their heartbeats, and leave the subscription out of their pulls.
#[test]
fn a_subscription_by_the_codes_of_two_tags_gets_those_two_alone() {
    let bench = Bench::new();
    let mut client = bench.client();
    let tags = ["red", "green", "blue"];
    for tag in tags {
        client.ask_well(send("orders", tag).with("i", format!("TAGS\u{1}{tag}\u{2}")));
    }
    client.ask_well(send("orders", "none"));
    // `String.hashCode`, as RocketMQ has it.
    for (group, codes, wanted) in [
        ("one", vec![112_785], &tags[..1]),
        ("two", vec![3_027_034, 112_785], &["red", "blue"][..]),
        ("three", vec![112_785, 98_619_139, 3_027_034], &tags[..]),
    ] {
        let data = SubscriptionData {
            topic: "orders".to_owned(),
            sub_string: "by code".to_owned(),
            code_set: codes,
            sub_version: 1,
            ..SubscriptionData::default()
        };
        let consumer = ConsumerData {
            group_name: group.to_owned(),
            consume_type: "CONSUME_PASSIVELY".to_owned(),
            message_model: "CLUSTERING".to_owned(),
            consume_from_where: "CONSUME_FROM_FIRST_OFFSET".to_owned(),
            subscription_data_set: vec![data],
            unit_mode: false,
        };
        client.give(&[heartbeat_of("c", consumer)]);
        let pulled = client.ask_well(registered(group, "orders", 1));
        assert_eq!(pulled.bodies(), wanted, "{group}");
    }
}

/// A client that pulls from many queues works on the first answers while the rest is prepared.
#[test]
fn of_many_pulls_that_come_at_once_the_first_are_answered_before_the_rest_is_read() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", &"x".repeat(5000)));
    let mut input = BytesMut::new();
    (0..64).for_each(|opaque| input.extend_from_slice(&pull("billing", "orders", 0).frame(opaque)));
    let mut answered = Vec::new();
    while !input.is_empty() {
        assert!(client.session.wants_input());
        client.session.receive(&mut input, client.now).expect("frames");
        assert_eq!(client.session.has_paused(), !input.is_empty());
        answered.push(client.hear().iter().map(|reply| reply.opaque).collect::<Vec<_>>());
    }
    assert_eq!(answered.concat(), (0..64).collect::<Vec<_>>());
    let counts: Vec<_> = answered.iter().map(Vec::len).collect();
    assert!(counts[0] == 2 && counts.len() <= 6, "few writes more: {counts:?}");
}

/// Reads of the old log fail for some seconds, as where a path to the storage is switched over. Who pulls meanwhile is told so, or waits, and has
/// not gone past everything when the disk is well again.
#[test]
fn a_disk_that_fails_for_some_seconds_costs_no_consumer_its_messages() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = Bench::with(|setup: &mut Setup| {
        (setup.store.recent_size, setup.store.disk) = (1 << 10, Disk::new(disk.clone()));
    });
    let mut client = bench.client();
    for _ in 0..500 {
        client.ask_well(send("orders", &"x".repeat(2000)));
    }
    disk.fail(Failure::error(Operation::Read, EIO).at("commitlog"));
    for offset in [0, 100, 499] {
        assert_eq!(client.ask(pull("billing", "orders", offset)).code, response::SYSTEM_ERROR);
    }
    disk.heal();
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).bodies().len(), 32);
}
