//! Promises about memory: who does not take its answers, or sends more than the log can write, is not read from.

use std::sync::Arc;

use base::budget::{Budget, Held, Room};
use base::limits::{CONNECTIONS_HELD_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX, STAGED_SIZE_MAX};
use base::session::Session;
use bytes::BytesMut;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::Form;

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, heartbeat, held_pull, pull, send};

/// A broker whose log takes long messages and keeps them in memory.
pub fn roomy() -> Bench {
    Bench::with(|setup| (setup.store.segment_size, setup.store.recent_size) = (64 << 20, 64 << 20))
}

#[test]
fn a_client_that_does_not_take_its_answers_is_not_read_from() {
    let bench = roomy();
    let mut client = bench.client();
    client.ask_well(send("orders", &"x".repeat(1 << 20)));
    let mut asked = 0;
    while client.session.wants_input() && asked < 100 {
        let mut frame = pull("billing", "orders", 0).frame(asked);
        client.receive(&mut frame).expect("a frame");
        asked += 1;
    }
    let size = client.session.output().size();
    assert!((OUTPUT_BACKLOG_SIZE_MAX..OUTPUT_BACKLOG_SIZE_MAX + (2 << 20)).contains(&size), "{size}");
    // What was taken makes room at once.
    client.session.output().advance(size + 1 - OUTPUT_BACKLOG_SIZE_MAX);
    assert!(client.session.wants_input());
}

#[test]
fn the_size_of_a_frame_is_told_once_it_is_known() {
    let client = Bench::new().client();
    let frame = send("orders", &"x".repeat(5000)).frame(1);
    let told = |size: usize| client.session.frame_size(&frame[..size]);
    assert_eq!([0, 3, 4, frame.len()].map(told), [0, 0, frame.len(), frame.len()]);
}

#[test]
fn a_publisher_is_not_read_from_while_the_log_is_behind() {
    let bench = roomy();
    let (mut publisher, mut reader) = (bench.client(), bench.client());
    bench.stop_writing();
    let body = "x".repeat(4 << 20);
    while publisher.session.wants_input() && bench.broker.store().staged_size() < 2 * STAGED_SIZE_MAX {
        assert_eq!(publisher.give(&[send("orders", &body)]), []);
    }
    assert!(!publisher.session.wants_input());
    assert!(bench.broker.store().staged_size() >= STAGED_SIZE_MAX);
    // Who waits for no send of its own may go on.
    assert_eq!(reader.give(&[held_pull("billing", "orders", 0)]), []);
    assert!(reader.session.wants_input());
    bench.write();
    assert!(publisher.hear().iter().all(|reply| reply.code == 0));
    bench.write();
    publisher.hear();
    assert!(publisher.session.wants_input());
    assert_eq!(reader.hear().len(), 1);
}

#[test]
fn waiting_for_messages_keeps_nobody_from_asking_more() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    assert_eq!(client.give(&[held_pull("billing", "orders", 1)]), []);
    assert!(client.session.wants_input() && !client.session.is_busy());
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).bodies(), ["x"]);
}

#[test]
fn what_may_wait_for_a_disk_is_a_job_and_others_are_answered_meanwhile() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0")];
    client.receive(&mut ask(request::QUERY_CONSUMER_OFFSET, &fields).frame(1)).expect("a frame");
    client.receive(&mut ask(request::GET_MAX_OFFSET, &fields[1..]).frame(2)).expect("a frame");
    assert!(client.session.is_busy());
    let job = client.session.take_job().expect("a job");
    assert_eq!(client.hear().iter().map(|reply| reply.opaque).collect::<Vec<_>>(), [2]);
    job();
    assert_eq!(client.hear().iter().map(|reply| reply.opaque).collect::<Vec<_>>(), [1]);
    assert!(!client.session.is_busy());
}

#[test]
fn a_client_that_keeps_many_jobs_running_is_not_read_from() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0")];
    // Fewer of those whose answer may be long.
    for (code, count) in [(request::QUERY_CONSUMER_OFFSET, 64), (request::GET_ALL_TOPIC_CONFIG, 16)] {
        let frame = ask(code, &fields).frame(1);
        let mut asked = 0;
        while client.session.wants_input() && asked < 100_000 {
            client.receive(&mut frame.clone()).expect("a frame");
            asked += 1;
        }
        assert_eq!(asked, count);
        assert_eq!(client.hear().len(), asked);
        assert!(client.session.wants_input());
    }
}

#[test]
fn what_there_is_no_room_to_answer_is_left_until_there_is() {
    let bench = roomy();
    let mut client = bench.client();
    client.ask_well(send("orders", &"x".repeat(1 << 20)));
    let asked = 100;
    let mut input = BytesMut::new();
    (0..asked).for_each(|opaque| input.extend_from_slice(&pull("billing", "orders", 0).frame(opaque)));
    let mut answered = Vec::new();
    while !input.is_empty() {
        client.receive(&mut input).expect("frames");
        assert!(client.session.output().size() < OUTPUT_BACKLOG_SIZE_MAX + (2 << 20));
        assert!(input.is_empty() || !client.session.wants_input());
        answered.extend(client.hear().iter().map(|reply| reply.opaque));
    }
    assert_eq!(answered, (0..asked).collect::<Vec<_>>());
}

#[test]
fn a_pull_that_is_over_leaves_nothing_behind_in_its_queue() {
    let bench = Bench::new();
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "x"));
    // What it left behind would wake it with the next message.
    let is_rung = |consumer: &mut Client, producer: &mut Client| {
        consumer.take_wake();
        producer.ask_well(send("orders", "x"));
        consumer.take_wake()
    };
    assert_eq!(consumer.give(&[held_pull("billing", "orders", 1)]), []);
    assert!(is_rung(&mut consumer, &mut producer), "while it waits it is told");
    consumer.session.wake(consumer.now);
    assert_eq!(consumer.hear().len(), 1);
    assert!(!is_rung(&mut consumer, &mut producer), "answered");
    assert_eq!(consumer.give(&[held_pull("billing", "orders", 3)]), []);
    assert_eq!(consumer.wait(15_000).len(), 1);
    assert!(!is_rung(&mut consumer, &mut producer), "its time was over");
    assert_eq!(consumer.give(&[held_pull("billing", "orders", 4)]), []);
    consumer.session.closed(consumer.now);
    assert!(!is_rung(&mut consumer, &mut producer), "its connection is closed");
}

#[test]
fn an_answer_that_no_frame_holds_is_cut_to_what_one_does() {
    let bench = roomy();
    let mut client = bench.client();
    let body = "x".repeat(4 << 20);
    for _ in 0..5 {
        client.ask_well(send("orders", &body).with("i", "KEYS\u{1}large\u{2}"));
    }
    let times = [("beginTimestamp", "0"), ("endTimestamp", "9999999999999")];
    let found = client
        .ask_well(ask(request::QUERY_MESSAGE, &times).with("topic", "orders").with("key", "large").with("maxNum", 32));
    assert_eq!(found.bodies().len(), 3);
}

/// Holds pulls of the message that comes next, by one connection.
fn hold(client: &mut Client, count: i32) {
    for opaque in 0..count {
        client.receive(&mut held_pull("billing", "orders", 1).frame(opaque)).expect("a frame");
    }
    assert_eq!(client.hear(), []);
}

#[test]
fn held_pulls_that_one_message_wakes_are_answered_only_as_far_as_there_is_room() {
    let bench = roomy();
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "first"));
    let held = 100;
    hold(&mut consumer, held);
    producer.ask_well(send("orders", &"x".repeat(1 << 20)));
    assert!(consumer.take_wake());
    consumer.session.wake(consumer.now);
    let size = consumer.session.output().size();
    assert!((OUTPUT_BACKLOG_SIZE_MAX..OUTPUT_BACKLOG_SIZE_MAX + (2 << 20)).contains(&size), "{size}");
    // Without room the others wait: the clock alone, and time that passes, bring nothing.
    assert!(consumer.session.deadline().is_some_and(|deadline| deadline > consumer.now.monotonic));
    consumer.now = consumer.now.plus_ms(15_000);
    consumer.session.wake(consumer.now);
    assert_eq!(consumer.session.output().size(), size);
    assert_eq!(consumer.session.deadline(), None);
    assert!(consumer.session.is_busy());
    // What was taken makes room at once; each is answered, and once.
    let replies = consumer.hear();
    assert!(replies.iter().all(|reply| reply.code == 0));
    let mut answered: Vec<_> = replies.iter().map(|reply| reply.opaque).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..held).collect::<Vec<_>>());
    assert!(!consumer.session.is_busy());
    assert_eq!(bench.broker.metrics().fetch_waiting.get(), 0);
}

#[test]
fn held_pulls_that_one_message_wakes_start_no_more_jobs_than_a_connection_may_have() {
    /// What a read that may not wait is told.
    const EAGAIN: i32 = 11;
    let disk = FaultyDisk::over(&MemoryDisk::default());
    let bench = Bench::with(|setup| {
        (setup.store.recent_size, setup.store.disk) = (1 << 10, Disk::new(disk.clone()));
    });
    let (mut consumer, mut producer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "first"));
    let held = 200;
    hold(&mut consumer, held);
    producer.ask_well(send("orders", "second"));
    // So that it is no longer in memory.
    (0..2).for_each(|_| drop(producer.ask_well(send("orders", &"x".repeat(100_000)).with("e", 1))));
    disk.fail(Failure::error(Operation::Read, EAGAIN));
    assert!(consumer.take_wake());
    consumer.session.wake(consumer.now);
    let jobs: Vec<_> = std::iter::from_fn(|| consumer.session.take_job()).collect();
    assert_eq!(jobs.len(), 64);
    disk.heal();
    jobs.into_iter().for_each(|job| job());
    let replies = consumer.hear();
    assert!(replies.iter().all(|reply| reply.bodies() == ["second"]));
    assert_eq!((replies.len(), consumer.session.is_busy()), (held as usize, false));
}

#[test]
fn requests_and_answers_of_jobs_are_bounded_by_their_bytes() {
    let bench = Bench::new();
    let asked = |long: Ask| {
        let mut client = bench.client();
        let (mut asked, mut size) = (0, 0);
        while client.session.wants_input() && asked < 100 {
            let mut frame = long.frame(asked);
            size += frame.len();
            client.receive(&mut frame).expect("a frame");
            asked += 1;
        }
        (asked, size, client)
    };
    let by_key = ask(request::QUERY_MESSAGE, &[("topic", "orders"), ("key", "k"), ("maxNum", "64")]);
    let by_key = by_key.with("beginTimestamp", 0).with("endTimestamp", i64::MAX);
    // Each may be answered with as much as a frame holds.
    let (looked_up, _, mut client) = asked(by_key.clone());
    assert!((2..=8).contains(&looked_up), "{looked_up} look-ups at once");
    assert_eq!(client.hear().len(), looked_up as usize);
    assert!(client.session.wants_input(), "there is room again");
    // And what is asked is kept until it is answered.
    let (_, size, _) = asked(ask(request::CLONE_GROUP_OFFSET, &[]).body(vec![0; 8 << 20]));
    assert!(size <= 128 << 20, "{size} bytes are kept");
}

#[test]
fn while_connections_hold_all_they_may_sends_go_on_and_large_answers_are_refused() {
    let bench = roomy();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let budget = Arc::new(Budget::default());
    client.session.share(budget.clone());
    let others = Held::taken(budget.clone(), CONNECTIONS_HELD_SIZE_MAX);
    client.ask_well(send("orders", "y"));
    for asked in
        [pull("billing", "orders", 0), held_pull("billing", "orders", 2), ask(request::GET_ALL_TOPIC_CONFIG, &[])]
    {
        let reply = client.ask(asked);
        assert_eq!((reply.code, reply.remark.contains("try again later")), (response::SYSTEM_BUSY, true));
    }
    drop(others);
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).bodies(), ["x", "y"]);
}

#[test]
fn while_connections_hold_much_each_gets_its_next_answer_when_it_has_taken_the_last() {
    let bench = roomy();
    let mut client = bench.client();
    client.ask_well(send("orders", &"x".repeat(1 << 20)));
    let budget = Arc::new(Budget::default());
    client.session.share(budget.clone());
    let _others = Held::taken(budget, CONNECTIONS_HELD_SIZE_MAX / 2);
    client.ask_well(send("notes", &"x".repeat(30_000)));
    client.receive(&mut pull("billing", "notes", 0).frame(1)).expect("a frame");
    assert!(client.session.wants_input(), "a short one does not count");
    assert_eq!(client.hear().len(), 1);
    client.receive(&mut pull("billing", "orders", 0).frame(1)).expect("a frame");
    assert!(!client.session.wants_input());
    assert_eq!(client.hear().len(), 1);
    assert!(client.session.wants_input());
}

#[test]
fn what_a_job_needs_is_held_until_its_answer_is_there_or_its_connection_is_gone() {
    let bench = Bench::new();
    let budget = Arc::new(Budget::default());
    let ask_all = ask(request::QUERY_MESSAGE, &[("topic", "orders"), ("key", "k"), ("maxNum", "1")]);
    let mut jobs = Vec::new();
    // Large look-ups of many connections: beyond the bound there are no more.
    let mut clients: Vec<_> = (0..20).map(|_| bench.client()).collect();
    for client in &mut clients {
        client.session.share(budget.clone());
        client.receive(&mut ask_all.frame(1)).expect("a frame");
        jobs.extend(client.session.take_job());
    }
    assert!((3..8).contains(&jobs.len()), "{}", jobs.len());
    assert_eq!(budget.room(), Room::None);
    clients.into_iter().for_each(Client::close);
    assert_eq!(budget.room(), Room::None);
    jobs.into_iter().for_each(|job| job());
    assert_eq!(budget.room(), Room::Plenty);
}

#[test]
fn pulls_with_long_filters_do_not_wait_without_number() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    let tags: Vec<_> = (0..100_000).map(|tag| tag.to_string()).collect();
    let long = held_pull("billing", "orders", 1).with("subscription", tags.join("||"));
    let frame = long.form(Form::Binary).frame(1);
    let mut held = 0;
    while client.session.held_size() < 128 << 20 {
        client.receive(&mut frame.clone()).expect("a frame");
        if let [reply] = &*client.hear() {
            assert_eq!(reply.code, response::SYSTEM_BUSY);
            break;
        }
        held += 1;
    }
    assert!((20..100).contains(&held), "{held}");
    client.wait(15_000);
    assert_eq!(client.session.held_size(), 0);
}

#[test]
fn who_takes_nothing_is_not_told_of_ever_more_changes() {
    let bench = Bench::new();
    let group = "g".repeat(240);
    let mut idle = bench.client();
    idle.give(&[heartbeat("idle", &group, "orders", "*", 1)]);
    let leave = ask(request::UNREGISTER_CLIENT, &[("clientID", "restless"), ("consumerGroup", &group)]);
    let join = heartbeat("restless", &group, "orders", "*", 1);
    let mut restless = bench.client();
    for _ in 0..14_000 {
        restless.give(&[join.clone(), leave.clone()]);
        idle.session.wake(idle.now);
    }
    let size = idle.session.output().size();
    assert!((OUTPUT_BACKLOG_SIZE_MAX..OUTPUT_BACKLOG_SIZE_MAX + 1000).contains(&size), "{size}");
}

#[test]
fn commits_are_not_read_while_many_wait_for_a_disk_that_hangs() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.ask_well(send("orders", "x"));
    bench.stop_writing();
    let named = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("commitOffset", "1")];
    let many = vec![ask(request::UPDATE_CONSUMER_OFFSET, &named); 512];
    let mut given = 0;
    while client.session.wants_input() {
        assert!(given < 100_000, "all are read, {} bytes are counted", client.session.held_size());
        assert!(client.give(&many).is_empty(), "none is answered");
        given += many.len();
    }
    assert!(client.session.held_size() > 0);
    bench.broker.store().write_staged().expect("writes");
    client.wait(100);
    assert!(client.session.wants_input());
}
