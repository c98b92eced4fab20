//! A pull that waits is answered by what is so when it goes on, not by what was so when it came: topic, permission, filter.

use std::sync::Arc;

use base::Permission;
use base::session::Session;
use format::document::{GroupDocument, TopicDocument};
use wire::rocketmq::code::response;
use wire::rocketmq::header::pull_flag;

use crate::bench::Bench;
use crate::client::{Ask, heartbeat, held_pull, send};

fn tagged(tag: &str) -> Ask {
    send("orders", tag).with("i", format!("TAGS\u{1}{tag}\u{2}"))
}

/// As RocketMQ's push consumer pulls: the expression is the heartbeat's.
fn held_subscribed_pull(offset: i64, sub_version: i64) -> Ask {
    held_pull("billing", "orders", offset)
        .without("subscription")
        .with("sysFlag", pull_flag::SUSPEND)
        .with("subVersion", sub_version)
}

#[test]
fn what_the_group_wants_by_now_is_given_to_who_waits() {
    let bench = Bench::new();
    let (mut producer, mut client) = (bench.client(), bench.client());
    producer.ask_well(tagged("A"));
    client.give(&[heartbeat("one", "billing", "orders", "A", 1)]);
    assert_eq!(client.give(&[held_subscribed_pull(1, 1)]), []);
    let told = client.give(&[heartbeat("one", "billing", "orders", "A || B", 2)]);
    assert!(told.iter().any(|reply| reply.is_response && reply.code == 0));
    producer.ask_well(tagged("B"));
    let heard: Vec<_> = client.hear().into_iter().filter(|reply| reply.is_response).collect();
    assert_eq!(heard.iter().flat_map(|reply| reply.bodies()).collect::<Vec<_>>(), ["B"]);
    assert_eq!(heard[0].number("nextBeginOffset"), 2);
}

#[test]
fn what_was_passed_over_is_looked_at_again_once_the_group_wants_more() {
    let bench = Bench::new();
    let (mut producer, mut client) = (bench.client(), bench.client());
    client.give(&[heartbeat("one", "billing", "orders", "A", 1)]);
    producer.ask_well(tagged("B"));
    assert_eq!(client.give(&[held_subscribed_pull(0, 1)]), []);
    client.give(&[heartbeat("one", "billing", "orders", "A || B", 2)]);
    producer.ask_well(tagged("A"));
    let heard: Vec<_> = client.hear().into_iter().filter(|reply| reply.is_response).collect();
    assert_eq!(heard.iter().flat_map(|reply| reply.bodies()).collect::<Vec<_>>(), ["B", "A"]);
}

#[test]
fn who_waits_gets_nothing_once_reading_was_forbidden() {
    let bench = Bench::new();
    let (mut client, mut producer) = (bench.client(), bench.client());
    bench.make_topic("orders", TopicDocument::plain(1, Permission::OPEN));
    assert_eq!(client.give(&[held_pull("billing", "orders", 0)]), []);
    bench.make_topic("orders", TopicDocument::plain(1, Permission { read: false, ..Permission::OPEN }));
    producer.ask_well(send("orders", "secret"));
    let heard = client.hear();
    assert!(heard.iter().all(|reply| reply.code == response::NO_PERMISSION), "{heard:?}");
}

#[test]
fn who_waits_gets_nothing_once_the_group_may_not_consume() {
    let bench = Bench::new();
    let (mut client, mut producer) = (bench.client(), bench.client());
    bench.make_topic("orders", TopicDocument::plain(1, Permission::OPEN));
    assert_eq!(client.give(&[held_pull("billing", "orders", 0)]), []);
    bench.make_group("billing", GroupDocument { consume_enable: false, ..GroupDocument::default() });
    producer.ask_well(send("orders", "secret"));
    let heard = client.hear();
    assert!(heard.iter().all(|reply| reply.code == response::NO_PERMISSION), "{heard:?}");
}

#[test]
fn who_waits_at_a_topic_that_is_removed_is_told_so_at_once() {
    let bench = Bench::new();
    let mut client = bench.client();
    bench.make_topic("orders", TopicDocument::plain(1, Permission::OPEN));
    assert_eq!(client.give(&[held_pull("billing", "orders", 0)]), []);
    bench.broker.removals.topic("orders", client.now).expect("removed");
    let heard: Vec<_> = client.hear().iter().map(|reply| reply.code).collect();
    assert_eq!(heard, [response::TOPIC_NOT_EXIST]);
}

#[test]
fn pulls_that_wait_keep_no_topics_of_before() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut before = Vec::new();
    for number in 0..50 {
        let permission = Permission { write: number % 2 == 0, ..Permission::OPEN };
        bench.make_topic("wide", TopicDocument::plain(65_536, permission));
        before.push(Arc::downgrade(&bench.broker.catalog.topic("wide").expect("there")));
        assert_eq!(client.give(&[held_pull("billing", "wide", 0).with("suspendTimeoutMillis", 60_000)]), []);
    }
    let topics = before.iter().filter_map(std::sync::Weak::upgrade);
    let size: usize = topics.skip(1).map(|topic| size_of_val(&*topic.queues)).sum();
    assert!(size < 1 << 20, "{size} bytes are kept by {} that are counted", client.session.held_size());
}
