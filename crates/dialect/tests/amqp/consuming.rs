//! Messages out: deliveries, acknowledgements, prefetch, and what comes again.

use std::sync::Arc;

use base::budget::{Budget, Held};
use base::limits::CONNECTIONS_HELD_SIZE_MAX;
use base::session::Session;
use wire::amqp::method::basic::{Ack, Cancel, Consume, Get, Nack, Qos, Recover, Reject};
use wire::amqp::method::connection::ChannelClose;
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, message, short};

fn with_messages(bench: &Bench, count: usize) -> Client {
    let mut client = bench.client();
    client.simple_queue("q");
    for number in 0..count {
        client.publish("", "q", number.to_string().as_bytes());
    }
    client
}

/// All connections together hold as much as they may, until this is dropped.
fn without_memory(client: &mut Client) -> Held {
    let budget = Arc::new(Budget::default());
    client.session.share(budget.clone());
    Held::taken(budget, CONNECTIONS_HELD_SIZE_MAX)
}

fn ack(tag: u64, multiple: bool) -> Ack {
    Ack { delivery_tag: tag, multiple }
}

#[test]
fn a_consumer_gets_what_is_there_and_what_comes() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 2);
    assert_eq!(client.consume("q", "c", true), ["basic.consume-ok", "deliver 1 to c: 0", "deliver 2 to c: 1"]);
    let mut producer = bench.client();
    producer.publish("", "q", b"2");
    assert_eq!(client.take(), ["deliver 3 to c: 2"]);
    client.send(1, Cancel { consumer_tag: short("c"), no_wait: false });
    producer.publish("", "q", b"3");
    assert_eq!(client.take(), ["basic.cancel-ok"]);
    assert_eq!(client.get("q", true), "got 4, 0 more: 3");
}

#[test]
fn a_consumer_has_no_more_unsettled_than_its_prefetch() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 6);
    client.send(1, Qos { prefetch_count: 2, ..Qos::default() });
    let given = client.consume("q", "c", false);
    assert_eq!(given, ["basic.qos-ok", "basic.consume-ok", "deliver 1 to c: 0", "deliver 2 to c: 1"]);
    client.send(1, ack(1, false));
    assert_eq!(client.take(), ["deliver 3 to c: 2"]);
    client.send(1, ack(3, true));
    assert_eq!(client.take(), ["deliver 4 to c: 3", "deliver 5 to c: 4"]);
    client.send(1, ack(0, true));
    assert_eq!(client.take(), ["deliver 6 to c: 5"]);
}

#[test]
fn consumers_of_a_channel_may_share_a_prefetch() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 3);
    client.send(1, Qos { prefetch_count: 1, global: true, ..Qos::default() });
    assert_eq!(client.consume("q", "a", false).last().map(String::as_str), Some("deliver 1 to a: 0"));
    assert_eq!(client.consume("q", "b", false), ["basic.consume-ok"]);
    client.send(1, ack(1, false));
    assert_eq!(client.take().len(), 1, "either of them, one message");
}

#[test]
fn what_is_asked_for_one_by_one_is_no_part_of_a_shared_prefetch() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 3);
    client.send(1, Qos { prefetch_count: 1, global: true, ..Qos::default() });
    client.take();
    assert_eq!(client.get("q", false), "got 1, 2 more: 0");
    assert_eq!(client.consume("q", "a", false), ["basic.consume-ok", "deliver 2 to a: 1"]);
    client.send(1, ack(1, false));
    assert_eq!(client.take(), [""; 0], "the consumer has what it may have");
    client.send(1, ack(2, false));
    assert_eq!(client.take(), ["deliver 3 to a: 2"]);
}

#[test]
fn one_message_that_is_held_for_long_keeps_nothing_else_in_memory() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 1);
    assert_eq!(client.get("q", false), "got 1, 0 more: 0");
    let mut producer = bench.client();
    producer.simple_queue("other");
    client.send(1, Qos { prefetch_count: 10, ..Qos::default() });
    client.consume("other", "c", false);
    let before = client.session.held_size();
    for tag in 2..10_000 {
        producer.publish("", "other", b"m");
        assert_eq!(client.take(), [format!("deliver {tag} to c: m")]);
        client.send(1, ack(tag, false));
    }
    assert!(client.session.held_size() < before + 64 * 1024, "{} bytes", client.session.held_size());
    client.send(1, ack(1, true));
    assert_eq!(client.take(), [""; 0]);
}

#[test]
fn what_is_not_settled_is_counted() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 5000);
    client.consume("q", "c", false);
    assert!(client.session.held_size() > 5000 * 32, "{} bytes", client.session.held_size());
    client.send(1, ack(5000, true));
    assert!(client.session.held_size() < 64 * 1024, "{} bytes", client.session.held_size());
}

#[test]
fn what_is_not_settled_comes_again_at_its_place_and_says_so() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 3);
    assert_eq!(client.get("q", false), "got 1, 2 more: 0");
    assert_eq!(client.get("q", false), "got 2, 1 more: 1");
    client.send(1, Nack { delivery_tag: 2, multiple: true, requeue: true });
    assert_eq!(client.get("q", false), "got 3, 2 more again: 0");
    client.send(1, Reject { delivery_tag: 3, requeue: true });
    client.send(1, Recover { requeue: true });
    assert_eq!(client.take(), ["basic.recover-ok"]);
    assert_eq!(client.get("q", false), "got 4, 2 more again: 0");
    client.send(1, ChannelClose::default());
    assert_eq!(client.take(), ["channel.close-ok"]);
    client.open(1);
    assert_eq!(client.get("q", true), "got 1, 2 more again: 0");
    client.lose();
    let mut other = bench.client();
    assert_eq!(other.get("q", true), "got 1, 1 more again: 1");
    assert_eq!(other.get("q", true), "got 2, 0 more: 2");
}

#[test]
fn a_lost_connection_gives_back_what_it_had_to_who_waits() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 2);
    client.consume("q", "c", false);
    let mut other = bench.client();
    assert_eq!(other.consume("q", "d", false), ["basic.consume-ok"]);
    client.lose();
    assert_eq!(other.take(), ["deliver 1 to d again: 0", "deliver 2 to d again: 1"]);
}

#[test]
fn after_a_kill_what_is_settled_is_gone_and_the_rest_is_there() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 4);
    client.get("q", false);
    client.get("q", false);
    client.send(1, ack(1, false));
    client.lose();
    let bench = bench.killed();
    let mut client = bench.client();
    assert_eq!(client.get("q", true), "got 1, 2 more again: 1");
    assert_eq!(client.get("q", true), "got 2, 1 more again: 2");
}

#[test]
fn what_may_have_been_delivered_in_the_moment_before_a_crash_comes_again_and_says_so() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 1);
    client.get("q", false);
    client.lose();
    // Nobody has told the log of that delivery.
    let bench = bench.reopened(false);
    let mut client = bench.client();
    client.publish("", "q", b"new");
    assert_eq!(client.get("q", true), "got 1, 1 more again: 0");
    assert_eq!(client.get("q", true), "got 2, 0 more: new");
}

#[test]
fn of_a_single_active_consumer_the_next_follows_when_it_goes() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.queue("q", true, &Arguments::of(|table| _ = table.put("x-single-active-consumer", Value::Bool(true))));
    let mut alone = bench.client();
    alone.send(1, Consume { queue: short("q"), exclusive: true, ..Consume::default() });
    assert!(alone.take()[0].starts_with("channel.close ACCESS_REFUSED - "), "both cannot be");
    let mut other = bench.client();
    assert_eq!(client.consume("q", "a", true), ["basic.consume-ok"]);
    assert_eq!(other.consume("q", "b", true), ["basic.consume-ok"]);
    for number in ["0", "1"] {
        client.publish("", "q", number.as_bytes());
    }
    assert_eq!((client.take(), other.take()), (vec!["deliver 1 to a: 0".into(), "deliver 2 to a: 1".into()], vec![]));
    client.lose();
    let mut producer = bench.client();
    producer.publish("", "q", b"2");
    assert_eq!(other.take(), ["deliver 1 to b: 2"]);
}

/// Consumes of `q` as `high`, by a priority above the usual.
fn consume_before_others(client: &mut Client, no_ack: bool) {
    let arguments = Arguments::of(|table| _ = table.put("x-priority", Value::I32(5)));
    let arguments = arguments.table();
    client.send(1, Consume { queue: short("q"), consumer_tag: short("high"), no_ack, arguments, ..Consume::default() });
}

#[test]
fn consumers_of_a_higher_priority_come_first() {
    let bench = Bench::new();
    let mut low = with_messages(&bench, 0);
    low.consume("q", "low", true);
    let mut high = bench.client();
    consume_before_others(&mut high, true);
    assert_eq!(high.take(), ["basic.consume-ok"]);
    low.publish("", "q", b"m");
    high.settle();
    assert_eq!((high.take(), low.take()), (vec!["deliver 1 to high: m".to_owned()], vec![]));
}

#[test]
fn a_quorum_queue_says_how_often_a_message_was_delivered_in_vain() {
    let bench = Bench::new();
    let mut client = bench.client();
    for kind in ["quorum", "classic"] {
        client.queue(
            kind,
            true,
            &Arguments::of(|table| _ = table.put("x-queue-type", Value::LongString(kind.as_bytes()))),
        );
        client.publish("", kind, b"m");
    }
    assert_eq!(client.get("quorum", false), "got 1, 0 more: m");
    client.send(1, Reject { delivery_tag: 1, requeue: true });
    assert_eq!(client.get("quorum", false), "got 2, 0 more again after 1: m");
    client.send(1, Reject { delivery_tag: 2, requeue: true });
    assert_eq!(client.consume("quorum", "c", false), ["basic.consume-ok", "deliver 3 to c again after 2: m"]);
    assert_eq!(client.get("classic", false), "got 4, 0 more: m");
    client.send(1, Reject { delivery_tag: 4, requeue: true });
    assert_eq!(client.get("classic", false), "got 5, 0 more again: m");
}

#[test]
fn who_does_not_acknowledge_for_too_long_loses_its_channel_and_others_get_what_it_had() {
    let mut bench = Bench::new();
    bench.options.consumer_timeout_ms = 300_000;
    let mut client = with_messages(&bench, 1);
    client.queue("short", true, &Arguments::of(|table| _ = table.put("x-consumer-timeout", Value::I32(100_000))));
    client.publish("", "short", b"m");
    client.consume("q", "c", false);
    client.open(2);
    client.send(2, Get { queue: short("short"), ..Get::default() });
    assert_eq!(client.take(), ["got 1, 0 more: m"]);
    let start = client.now;
    let text = |channel, ms| {
        format!(
            "channel.close PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. Timeout value used: {ms} ms. This timeout value can be configured, see consumers doc guide to learn more"
        )
    };
    for (s, expected) in [(61, vec![]), (122, vec![text(2, 100_000)]), (290, vec![]), (361, vec![text(1, 300_000)])] {
        client.now = start.plus_ms(s * 1000);
        client.settle();
        assert_eq!(client.take(), expected, "after {s} s");
    }
    let mut other = bench.client();
    assert_eq!(other.get("short", true), "got 1, 0 more again: m");
    assert_eq!(other.get("q", true), "got 2, 0 more again: 0");
}

#[test]
fn a_burst_goes_to_the_highest_for_as_long_as_they_have_room() {
    let bench = Bench::new();
    for (prefetch, for_low) in [(0, 0), (700, 300)] {
        let mut low = with_messages(&bench, 0);
        low.consume("q", "low", true);
        let mut high = bench.client();
        high.send(1, Qos { prefetch_count: prefetch, ..Qos::default() });
        consume_before_others(&mut high, false);
        assert_eq!(high.take(), ["basic.qos-ok", "basic.consume-ok"]);
        let mut producer = bench.client();
        let mut pass = bytes::BytesMut::new();
        for _ in 0..1000 {
            let publish = wire::amqp::method::basic::Publish { routing_key: short("q"), ..Default::default() };
            pass.extend_from_slice(&message(1, publish, Default::default(), b"m"));
        }
        producer.bytes(&pass);
        let (mut given_to_low, mut given_to_high) = (0, 0);
        for _ in 0..10 {
            given_to_low += low.take().len();
            given_to_high += high.take().len();
        }
        assert_eq!((given_to_low, given_to_high), (for_low, 1000 - for_low), "prefetch {prefetch}");
        producer.publish("", "q", b"more");
        assert_eq!(low.take().len(), usize::from(prefetch > 0));
        high.lose();
        assert!(!low.take().is_empty(), "what the other had is its own now");
        low.lose();
    }
}

#[test]
fn who_does_not_read_what_it_is_sent_leaves_the_rest_to_those_of_a_lower_priority() {
    let bench = Bench::new();
    let mut low = with_messages(&bench, 0);
    low.consume("q", "low", true);
    let mut high = bench.client();
    consume_before_others(&mut high, false);
    assert_eq!(high.take(), ["basic.consume-ok"]);
    high.is_stuck = true;
    let mut producer = bench.client();
    let body = [b'x'; 10_000];
    for _ in 0..300 {
        producer.publish("", "q", &body);
        high.settle();
        low.settle();
    }
    let given_to_low = low.take().len();
    assert!(given_to_low > 100, "{given_to_low} of 300: a socket takes about a mebibyte of the others");
}

#[test]
fn who_waited_for_memory_goes_on_when_there_is_some_again() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 3000);
    let others = without_memory(&mut client);
    assert_eq!(client.consume("q", "c", false).len() - 1, 2048, "as many as a channel may have meanwhile");
    client.now = client.now.plus_ms(1000);
    assert_eq!(client.take(), [""; 0], "there is none yet");
    drop(others);
    client.now = client.now.plus_ms(1000);
    assert_eq!(client.take().len(), 3000 - 2048, "the rest comes without an acknowledgement of what came before");
}

#[test]
fn who_asks_one_by_one_has_no_more_than_a_channel_may_have() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 2100);
    let _others = without_memory(&mut client);
    assert!((0..2048).all(|_| client.get("q", false).starts_with("got")));
    let text =
        "channel.close PRECONDITION_FAILED - a channel has at most 2048 messages now that it has not acknowledged";
    assert_eq!(client.get("q", false), text);
    let mut other = bench.client();
    assert_eq!(other.get("q", true), "got 1, 2099 more again: 0", "the channel was closed, and has none any more");
}

#[test]
fn consumers_are_counted() {
    let bench = Bench::new();
    let mut client = with_messages(&bench, 0);
    let before = client.session.held_size();
    for number in 0..1000 {
        client.consume("q", &number.to_string(), false);
    }
    assert!(client.session.held_size() > before + 1000 * 512, "{} bytes", client.session.held_size());
    for number in 0..1000 {
        client.send(1, Cancel { consumer_tag: short(&number.to_string()), no_wait: true });
    }
    client.take();
    assert_eq!(client.session.held_size(), before);
}

#[test]
fn messages_of_a_higher_priority_come_first() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.queue("q", true, &Arguments::of(|table| _ = table.put("x-max-priority", Value::I32(5))));
    for priority in [1, 9, 0, 5] {
        let properties = wire::amqp::content::Properties { priority: Some(priority), ..Default::default() };
        let publish = wire::amqp::method::basic::Publish { routing_key: short("q"), ..Default::default() };
        client.publish_with(publish, properties, priority.to_string().as_bytes());
    }
    let given: Vec<_> = (0..4).map(|_| client.get("q", true)).collect();
    let bodies: Vec<_> = given.iter().filter_map(|line| line.rsplit(": ").next()).collect();
    assert_eq!(bodies, ["9", "5", "1", "0"], "above the queue's highest is as the highest");
}
