//! Promises to a client that sends and consumes by one connection: while the log is behind, its sends wait, and what consumes goes on.

use std::sync::Arc;

use base::budget::{Budget, Held};
use base::limits::{CONNECTIONS_HELD_SIZE_MAX, STAGED_SIZE_MAX};
use base::offset::AckPolicy;
use base::session::Session;
use bytes::BytesMut;
use wire::rocketmq::code::request;

use crate::back_pressure::roomy;
use crate::bench::Bench;
use crate::client::{Client, Reply, ask, heartbeat, pull, send};

/// A publisher whose last message fills what may wait for the log.
fn blocked_publisher(bench: &Bench) -> Client {
    let mut publisher = bench.client();
    bench.stop_writing();
    let body = "x".repeat(4 << 20);
    while bench.broker.store().staged_size() < STAGED_SIZE_MAX {
        assert_eq!(publisher.give(&[send("bulk", &body)]), []);
    }
    publisher
}

fn opaques(replies: &[Reply]) -> Vec<i32> {
    assert!(replies.iter().all(|reply| reply.code == 0), "{replies:?}");
    replies.iter().map(|reply| reply.opaque).collect()
}

#[test]
fn what_consumes_goes_on_while_sends_of_the_same_connection_wait_for_the_log() {
    let bench = roomy();
    bench.client().ask_well(send("orders", "x"));
    let mut client = blocked_publisher(&bench);
    let staged = bench.broker.store().staged_size();
    let named = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("commitOffset", "1")];
    let commit = ask(request::UPDATE_CONSUMER_OFFSET, &named).one_way();
    let mut sent = Vec::new();
    for number in 0..50 {
        sent.push(send("orders", &number.to_string()));
        sent.push(commit.clone());
    }
    assert_eq!(client.give(&sent), []);
    assert_eq!(bench.broker.store().staged_size(), staged, "the log is not given more");
    assert_eq!(bench.broker.offsets.committed("orders", "billing", base::QueueId(0)), Some(1));
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).bodies(), ["x"]);
    assert_eq!(client.give(&[heartbeat("one", "billing", "orders", "*", 1)])[0].code, 0);
    assert!(client.session.wants_input() && client.session.is_busy());
    bench.write();
    client.hear();
    bench.write();
    client.hear();
    assert!(!client.session.is_busy());
    let expected: Vec<_> = std::iter::once("x".to_owned()).chain((0..50).map(|number| number.to_string())).collect();
    let found = client.ask_well(pull("billing", "orders", 0).with("maxMsgNums", 64)).bodies();
    assert_eq!(found, expected, "in the order they came");
}

#[test]
fn sends_that_wait_for_the_log_are_answered_each_once_it_has_them() {
    let bench = roomy();
    let mut client = blocked_publisher(&bench);
    let first: Vec<_> = client.give(&[send("orders", "a"), send("orders", "b")]);
    assert_eq!(first, []);
    bench.write();
    let bulk = client.hear().len();
    assert!(bulk >= STAGED_SIZE_MAX / (4 << 20), "{bulk} of those that were taken are answered");
    bench.write();
    assert_eq!(opaques(&client.hear()).len(), 2);
    assert_eq!(bench.count("orders", 0), 2);
}

#[test]
fn a_connection_holds_so_many_sends_and_no_more() {
    let bench = roomy();
    let mut client = blocked_publisher(&bench);
    let body = "x".repeat(1 << 10);
    let mut given = 0;
    while client.session.wants_input() {
        assert!(given < 10_000, "{} bytes are counted", client.session.held_size());
        assert_eq!(client.give(&[send("orders", &body)]), []);
        given += 1;
    }
    let held = client.session.held_size();
    assert!((given * body.len()..400 << 10).contains(&held), "{held} bytes for {given} sends");
    // What came in one read is left where it is beyond that.
    let mut rest = BytesMut::new();
    (0..10).for_each(|_| rest.extend_from_slice(&send("orders", &body).frame(1)));
    let before = rest.len();
    client.receive(&mut rest).expect("frames");
    assert_eq!(rest.len(), before);
}

#[test]
fn while_connections_together_hold_much_none_holds_sends() {
    let bench = roomy();
    let mut client = blocked_publisher(&bench);
    let budget = Arc::<Budget>::default();
    client.session.share(budget.clone());
    assert!(client.session.wants_input());
    let _held = Held::taken(budget, CONNECTIONS_HELD_SIZE_MAX);
    assert!(!client.session.wants_input());
}

#[test]
fn sends_that_wait_when_their_connection_goes_are_stored_all_the_same() {
    let bench = roomy();
    let mut client = blocked_publisher(&bench);
    client.give(&[send("orders", "a").one_way(), send("orders", "b").one_way()]);
    client.close();
    bench.write();
    assert_eq!(bench.count("orders", 0), 2);
}

#[test]
fn held_sends_go_on_once_the_log_is_no_longer_behind_though_earlier_ones_wait_for_the_disk() {
    let bench = Bench::with(|setup| {
        (setup.store.segment_size, setup.store.recent_size) = (64 << 20, 64 << 20);
        setup.broker.ack_policy = AckPolicy::DURABLE;
    });
    let mut client = blocked_publisher(&bench);
    assert_eq!(client.give(&[send("orders", "held")]), []);
    bench.write();
    assert!(!bench.broker.durability.is_behind());
    // Everything is written; a sync takes its time, as does a replica.
    client.hear();
    let waited = client.wait(2_900);
    bench.write();
    assert_eq!(bench.count("orders", 0), 1, "a client waits 3 s for its answer: {waited:?}");
}
