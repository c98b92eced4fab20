//! Pop consumers where something is odd: unusual times and orders, clients that take no answers, topics that change, and much of everything.

use std::sync::mpsc;
use std::time::Duration;

use base::session::Session;
use base::{Permission, QueueId, QueueOffset};
use bytes::BytesMut;
use format::document::{GroupDocument, TopicDocument};
use wire::rocketmq::code::{request, response};

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, pop, send, send_batch};

fn bench_of(queues: u32) -> Bench {
    let bench = Bench::new();
    bench.make_topic("orders", TopicDocument::plain(queues, Permission::OPEN));
    bench
}

/// Gives the session a request without driving it on.
fn give_only(client: &mut Client, asked: &Ask) {
    let mut input: BytesMut = asked.frame(7);
    client.receive(&mut input).expect("a frame");
}

fn run_jobs(client: &mut Client) -> usize {
    let mut count = 0;
    while let Some(job) = client.session.take_job() {
        job();
        count += 1;
    }
    count
}

#[test]
fn a_pop_in_order_that_waits_while_one_without_order_has_messages_does_not_hang_its_thread() {
    let bench = bench_of(1);
    let mut client = bench.client();
    ["a", "b"].iter().for_each(|body| drop(client.ask_well(send("orders", body))));
    assert_eq!(client.ask_well(pop().with("maxMsgNums", 1)).bodies(), ["a"], "without order");
    let mut other = bench.client();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let answered = other.give(&[pop().with("order", true).with("pollTime", 5000)]);
        done.send(answered.len()).expect("somebody waits");
    });
    let answered = ended.recv_timeout(Duration::from_secs(5));
    assert_eq!(answered.ok(), Some(0), "the session never comes back from `wake`");
}

#[test]
fn a_filter_that_lets_nothing_through_does_not_keep_a_network_thread_until_all_is_passed() {
    let bench = bench_of(1);
    let mut client = bench.client();
    let items = [("x", "TAGS\u{1}other\u{2}"); 1000];
    for _ in 0..200 {
        client.ask_well(send_batch("orders", &items));
    }
    assert_eq!(bench.count("orders", 0), 200_000);
    // The lane is there.
    client.ask_well(pop().with("maxMsgNums", 1));
    let lane = bench.broker.lanes.lane("orders", "billing", 0).expect("made");
    give_only(&mut client, &pop().with("pollTime", 5000).with("exp", "wanted").with("expType", "TAG"));
    let settled = || 200_000 - lane.counts().ready;
    let before = settled();
    assert!(before <= 8193, "{before}");
    let began = std::time::Instant::now();
    client.session.wake(client.now);
    let looked_at = settled() - before;
    assert!(looked_at <= 4 * 8192, "{looked_at} entries were looked at in one call, which took {:?}", began.elapsed());
}

#[test]
fn a_message_given_too_often_is_one_dead_letter_however_short_the_invisible_time() {
    let bench = bench_of(1);
    bench.make_group("billing", GroupDocument { retry_max_times: 0, ..GroupDocument::default() });
    let mut client = bench.client();
    client.ask_well(send("orders", "a"));
    assert_eq!(client.ask_well(pop()).bodies(), ["a"]);
    client.wait(10_050);
    // What one client gets from a busy pool of jobs: its time is over before its job has run.
    for _ in 0..5 {
        give_only(&mut client, &pop().with("invisibleTime", 1000));
        client.now = client.now.plus_ms(1050);
    }
    run_jobs(&mut client);
    client.session.wake(client.now);
    assert_eq!(bench.count("%DLQ%billing", 0), 1);
}

#[test]
fn one_pop_with_no_invisible_time_makes_one_dead_letter() {
    let bench = bench_of(1);
    bench.make_group("billing", GroupDocument { retry_max_times: 0, ..GroupDocument::default() });
    let mut client = bench.client();
    client.ask_well(send("orders", "a"));
    assert_eq!(client.ask_well(pop()).bodies(), ["a"]);
    client.wait(10_050 + 50 - client.now.monotonic.0 % 50);
    assert_eq!(client.now.monotonic.0 % 50, 0);
    give_only(&mut client, &pop().with("invisibleTime", 0).with("pollTime", 5000));
    client.session.wake(client.now);
    let jobs = run_jobs(&mut client);
    let lane = bench.broker.lanes.lane("orders", "billing", 0).expect("made");
    assert_eq!((jobs, bench.count("%DLQ%billing", 0), lane.floor()), (1, 1, QueueOffset(1)));
}

#[test]
fn who_asks_is_not_told_of_messages_in_queues_that_no_pop_reads() {
    let bench = bench_of(2);
    let mut client = bench.client();
    client.ask_well(send("orders", "a").with("e", 1));
    let settings = TopicDocument { read_queue_nums: 1, ..TopicDocument::plain(2, Permission::OPEN) };
    bench.make_topic("orders", settings);
    assert_eq!(bench.client().ask(pop()).code, response::PULL_NOT_FOUND);
    let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "-1"), ("bornTime", "0")];
    let mut asking = bench.client();
    let answered = asking.give(&[ask(request::NOTIFICATION, &fields).with("pollTime", 5000)]);
    let told: Vec<_> = answered.iter().map(|reply| reply.fields["hasMsg"].clone()).collect();
    assert_eq!(told, [""; 0], "it waits: nothing can be popped");
}

#[test]
fn who_asks_as_a_group_that_has_pulled_everything_waits() {
    let bench = bench_of(1);
    let mut client = bench.client();
    client.ask_well(send("orders", "a"));
    client.ask_well(pop().with("consumerGroup", "others"));
    bench.make_group("billing", GroupDocument::default());
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1).expect("committed");
    let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "-1"), ("bornTime", "0")];
    let answered = client.give(&[ask(request::NOTIFICATION, &fields).with("pollTime", 5000)]);
    let told: Vec<_> = answered.iter().map(|reply| reply.fields["hasMsg"].clone()).collect();
    assert_eq!(told, [""; 0], "it waits: all was consumed");
}

#[test]
fn in_order_who_asks_again_gets_the_same_messages_also_of_several_queues() {
    let bench = bench_of(2);
    let mut client = bench.client();
    for (body, queue) in [("a", 0), ("b", 0), ("c", 1), ("d", 1)] {
        client.ask_well(send("orders", body).with("e", queue));
    }
    let in_order = pop().with("order", true).with("attemptId", "x").with("maxMsgNums", 2);
    let first = client.ask_well(in_order.clone()).bodies();
    let again = client.ask_well(in_order).bodies();
    assert_eq!(first, again);
}

#[test]
fn what_a_new_group_was_given_and_did_not_acknowledge_comes_again_after_a_kill() {
    let young = |setup: &mut crate::bench::Setup| setup.broker.young_queue_size = 0;
    let bench = Bench::with(young);
    bench.make_topic("orders", TopicDocument::plain(1, Permission::OPEN));
    let mut client = bench.client();
    client.ask_well(send("orders", "before"));
    let newest = pop().with("initMode", 1);
    assert_eq!(client.ask(newest.clone()).code, response::PULL_NOT_FOUND, "it begins behind the last");
    client.ask_well(send("orders", "a"));
    assert_eq!(client.ask_well(newest.clone()).bodies(), ["a"]);
    drop(client);
    let bench = bench.killed_with(|_| (), young);
    let mut client = bench.client();
    assert_eq!(client.ask(newest).bodies(), ["a"], "it was given out and not acknowledged");
}

#[test]
fn who_waits_at_a_topic_is_told_of_messages_in_queues_that_it_got_meanwhile() {
    let bench = bench_of(1);
    let mut client = bench.client();
    assert_eq!(client.give(&[pop().with("pollTime", 5000)]).len(), 0);
    bench.make_topic("orders", TopicDocument::plain(2, Permission::OPEN));
    bench.client().ask_well(send("orders", "a").with("e", 1));
    let bodies: Vec<_> = client.hear().iter().flat_map(crate::client::Reply::bodies).collect();
    assert_eq!(bodies, ["a"]);
}

#[test]
fn a_connection_that_pops_from_20_topics_in_turn_needs_no_jobs() {
    let bench = Bench::new();
    let mut client = bench.client();
    let names: Vec<_> = (0..20).map(|number| format!("topic-{number}")).collect();
    names.iter().for_each(|name| bench.make_topic(name, TopicDocument::plain(1, Permission::OPEN)));
    names.iter().for_each(|name| drop(client.ask(pop().with("topic", name))));
    let mut jobs = 0;
    for name in &names {
        give_only(&mut client, &pop().with("topic", name));
        jobs += run_jobs(&mut client);
        client.session.wake(client.now);
    }
    assert_eq!(jobs, 0);
}

#[test]
fn a_reset_that_moves_nothing_changes_nothing() {
    let bench = bench_of(1);
    let mut client = bench.client();
    ["a", "b", "c"].iter().for_each(|body| drop(client.ask_well(send("orders", body))));
    let found = client.ask_well(pop());
    assert_eq!(found.bodies(), ["a", "b", "c"]);
    let receipt = format!("0 {} 10000 {} 0 broker-a 0 1", found.number("popTime"), found.number("reviveQid"));
    let fields = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("extraInfo", &*receipt)];
    client.ask_well(ask(request::ACK_MESSAGE, &fields).with("offset", 1));
    assert_eq!(client.ask(pop()).code, response::PULL_NOT_FOUND, "one has \"a\" and \"c\", and \"b\" is done");
    bench.broker.keep(client.now).expect("kept");
    let fields = [("topic", "orders"), ("group", "billing"), ("timestamp", "-1"), ("isForce", "false")];
    client.ask_well(ask(request::INVOKE_BROKER_TO_RESET_OFFSET, &fields));
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(0), "it was not moved");
    assert_eq!(client.ask(pop()).bodies(), [""; 0]);
}

#[test]
fn a_client_that_takes_no_answers_keeps_no_message_from_another_that_waits() {
    let bench = bench_of(1);
    bench.make_topic("big", TopicDocument::plain(1, Permission::OPEN));
    let mut producer = bench.client();
    producer.ask_well(send("big", &"x".repeat(900_000)));
    let mut stuck = bench.client();
    assert_eq!(stuck.give(&[pop().with("pollTime", 60_000)]).len(), 0);
    for _ in 0..12 {
        give_only(&mut stuck, &crate::client::pull("others", "big", 0));
        run_jobs(&mut stuck);
        stuck.session.wake(stuck.now);
    }
    let mut other = bench.client();
    assert_eq!(other.give(&[pop().with("pollTime", 5000)]).len(), 0);
    producer.ask_well(send("orders", "a"));
    stuck.session.wake(stuck.now);
    let bodies: Vec<_> = other.hear().iter().flat_map(crate::client::Reply::bodies).collect();
    assert_eq!(bodies, ["a"], "the stuck one has {} bytes to take", stuck.session.held_size());
}

#[test]
fn what_a_java_broker_has_given_too_often_is_not_given_as_often_again() {
    let bench = bench_of(1);
    bench.make_group("billing", GroupDocument { retry_max_times: 3, ..GroupDocument::default() });
    bench.make_topic("%RETRY%billing_orders", TopicDocument::plain(1, Permission::OPEN));
    let mut client = bench.client();
    let asked = send("%RETRY%billing_orders", "again").with("j", 3);
    client.ask_well(asked);
    assert_eq!(client.ask_well(pop()).bodies(), ["again"], "for the last time");
    client.wait(10_050);
    assert_eq!(client.ask(pop()).bodies(), [""; 0], "given a fifth time");
}
