//! What clients hear of slaves, and from slaves.

use base::LogOffset;
use wire::rocketmq::code::{request, response};

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, held_pull, pull, send};

/// A slave of `master`, which has what that has.
fn slave_of(master: &Bench) -> Bench {
    slave_with(master, |_| ())
}

fn slave_with(master: &Bench, change: impl FnOnce(&mut crate::bench::Setup)) -> Bench {
    let slave = Bench::with(|setup| {
        setup.store = setup.store.clone().following();
        change(setup);
    });
    follow(&slave, master);
    slave
}

fn follow(slave: &Bench, master: &Bench) {
    master.broker.keep(crate::bench::START).expect("keeps");
    let (store, end) = (master.broker.store(), master.broker.store().watermarks().committed());
    while slave.broker.following.end() < end {
        let start = slave.broker.following.end();
        let bytes = store.read_raw(start, usize::MAX).expect("reads");
        slave.broker.following.append(start, &[bytes]).expect("appends");
    }
}

/// A master with messages of 1000 bytes.
fn master(count: usize) -> Bench {
    let bench = Bench::new();
    let mut client = bench.client();
    client.give(&vec![send("orders", &"x".repeat(1000)); count]);
    bench
}

fn commit(group: &str, offset: i64) -> Ask {
    let fields = [("consumerGroup", group), ("topic", "orders"), ("queueId", "0")];
    ask(request::UPDATE_CONSUMER_OFFSET, &fields).with("commitOffset", offset)
}

#[test]
fn a_slave_gives_messages_and_keeps_offsets_also_of_groups_never_seen_before() {
    let slave = slave_of(&master(3));
    let mut client = slave.client();
    let reply = client.ask_well(pull("new", "orders", 0));
    assert_eq!((reply.bodies().len(), reply.number("suggestWhichBrokerId")), (3, 0));
    client.ask_well(commit("new", 2));
    let fields = [("consumerGroup", "new"), ("topic", "orders"), ("queueId", "0")];
    assert_eq!(client.ask_well(ask(request::QUERY_CONSUMER_OFFSET, &fields)).number("offset"), 2);
}

#[test]
fn a_slave_stores_nothing_and_leaves_administration_to_its_master() {
    let slave = slave_of(&master(1));
    let mut client = slave.client();
    for sent in [send("orders", "x"), send("other", "x"), crate::client::send_batch("orders", &[("x", "")])] {
        let refused = client.ask(sent);
        assert_eq!(refused.code, response::SERVICE_NOT_AVAILABLE, "{}", refused.remark);
        assert!(refused.remark.contains("stored, and topics and groups changed, at its master"), "{}", refused.remark);
    }
    let of_topic = [("topic", "orders")];
    let reset = [("topic", "orders"), ("group", "billing"), ("timestamp", "0"), ("isForce", "true")];
    for (code, fields) in [
        (request::DELETE_TOPIC_IN_BROKER, &of_topic[..]),
        (request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[]),
        (request::INVOKE_BROKER_TO_RESET_OFFSET, &reset),
        (request::CLEAN_UNUSED_TOPIC, &[]),
    ] {
        let refused = client.ask(ask(code, fields));
        assert_eq!(refused.code, response::SYSTEM_ERROR);
        assert!(refused.remark.contains("please execute it from master broker"), "{}", refused.remark);
    }
    assert!(slave.broker.catalog.topic("other").is_none());
}

#[test]
fn who_is_beyond_what_a_slave_has_waits_and_is_sent_nowhere() {
    let master = master(3);
    let slave = slave_of(&master);
    let mut client = slave.client();
    // The master had more, and took it with it.
    let reply = client.ask(pull("billing", "orders", 5));
    assert_eq!((reply.code, reply.number("nextBeginOffset")), (response::PULL_NOT_FOUND, 5));
    assert_eq!(client.give(&[held_pull("billing", "orders", 5)]), []);
    let mut producer = Client::new(&master.broker, &master.options);
    producer.give(&[send("orders", "four"), send("orders", "five")]);
    follow(&slave, &master);
    assert_eq!(client.hear(), []);
    producer.give(&[send("orders", "six")]);
    follow(&slave, &master);
    let replies = client.hear();
    assert_eq!(replies.iter().map(|reply| reply.bodies().join("")).collect::<Vec<_>>(), ["six"]);
    client.give(&[held_pull("billing", "orders", 100)]);
    let late = client.wait(15_000);
    assert_eq!((late[0].code, late[0].number("nextBeginOffset")), (response::PULL_NOT_FOUND, 100));
}

#[test]
fn consumers_that_are_far_behind_are_sent_to_a_slave_and_back_once_they_are_not() {
    let suggested = |bench: &Bench, offset| {
        bench.client().ask_well(pull("billing", "orders", offset)).number("suggestWhichBrokerId")
    };
    for (slave_reads, is_near, expected) in [(true, true, 1), (false, true, 0), (true, false, 0)] {
        let master = Bench::with(|setup| {
            setup.session.slave_reads = slave_reads;
            setup.session.slow_reader_gap = 5000;
        });
        master.client().give(&vec![send("orders", &"x".repeat(1000)); 10]);
        let end = master.broker.store().watermarks().written();
        master.broker.durability.note_replicas(is_near.then_some(end));
        assert_eq!((suggested(&master, 0), suggested(&master, 8)), (expected, 0), "{slave_reads} {is_near}");
        let slave = slave_with(&master, |setup| {
            setup.session.slave_reads = slave_reads;
            setup.session.slow_reader_gap = 5000;
        });
        assert_eq!((suggested(&slave, 0), suggested(&slave, 8)), (i64::from(slave_reads), 0));
    }
}

#[test]
fn tables_for_slaves_say_which_part_of_the_log_is_in_them_and_those_of_a_slave_do_not() {
    let master = master(1);
    let slave = slave_of(&master);
    for code in [
        request::GET_ALL_TOPIC_CONFIG,
        request::GET_ALL_SUBSCRIPTION_GROUP_CONFIG,
        request::GET_ALL_CONSUMER_OFFSET,
        request::GET_ALL_DELAY_OFFSET,
    ] {
        let position = LogOffset(master.client().ask_well(ask(code, &[])).number("sluiceLogPosition") as u64);
        assert_eq!(position, master.broker.store().watermarks().written());
        assert!(!slave.client().ask_well(ask(code, &[])).fields.contains_key("sluiceLogPosition"));
    }
}

#[test]
fn a_member_that_hears_of_another_first_member_registers_anew() {
    let slave = slave_of(&master(0));
    let before = slave.registrations();
    slave
        .client()
        .ask_well(ask(request::NOTIFY_MIN_BROKER_ID_CHANGE, &[("minBrokerId", "0"), ("brokerName", "broker-a")]));
    assert_eq!(slave.registrations(), before + 1);
}

#[test]
fn a_new_group_reads_from_a_lone_slave_also_what_is_left_after_its_retention() {
    let master = master(3000);
    // As the tables of the master would tell of it.
    let mut settings =
        format::document::TopicDocument::clone(&master.broker.catalog.topic("orders").expect("a topic").settings);
    settings.read_queue_nums += 1;
    let name = base::TopicName::trusted("orders");
    master.broker.catalog.put_topic(name, settings, crate::bench::START).expect("changes");
    master.broker.keep(crate::bench::START).expect("keeps");
    // The slave's log begins later (or its retention is shorter): its queue lacks the begin.
    let slave = Bench::with(|setup| setup.store = setup.store.clone().following());
    let (store, mut start) = (master.broker.store(), LogOffset(1 << 20));
    while start < store.watermarks().committed() {
        let bytes = store.read_raw(start, usize::MAX).expect("reads");
        start = slave.broker.following.append(start, &[bytes]).expect("appends");
    }
    let queue = slave.broker.catalog.topic("orders").expect("a topic").queues[0].clone();
    assert!(queue.first().0 > 0 && queue.end().0 > queue.first().0, "{} to {}", queue.first(), queue.end());
    let mut client = slave.client();
    // So an official client begins that is to consume from the first offset (`CONSUME_FROM_FIRST_OFFSET`: 0).
    let reply = client.ask(pull("never-seen-before", "orders", 0));
    assert_eq!(
        (reply.code, reply.number("nextBeginOffset")),
        (response::PULL_OFFSET_MOVED, queue.first().0 as i64),
        "nobody else has what it asks for, and it asks for that again and again"
    );
}
