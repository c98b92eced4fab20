//! Messages in: routed, confirmed, returned, in transactions.

use std::sync::Arc;

use base::session::Session;
use broker::ConnectionNumber;
use bytes::BytesMut;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{ConfirmSelect, Publish, TxCommit, TxRollback, TxSelect};
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::{QueueBind, QueueDelete};
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, message, persistent, short, to};

fn confirming(bench: &Bench) -> Client {
    let mut client = bench.client();
    client.simple_queue("q");
    client.send(1, ConfirmSelect { no_wait: false });
    assert_eq!(client.take(), ["confirm.select-ok"]);
    client
}

#[test]
fn a_body_of_any_length_comes_back_as_it_was() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    for size in [0, 1, 4088, 4089, 100_000] {
        let body: String = (0..size).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
        client.publish("", "q", body.as_bytes());
        assert_eq!(client.get("q", true).split_once(": "), Some((&*client_line(size), &*body)));
    }

    fn client_line(size: usize) -> String {
        let tag = [0, 1, 4088, 4089, 100_000].iter().position(|known| *known == size).expect("one of them") + 1;
        format!("got {tag}, 0 more")
    }
}

#[test]
fn confirms_come_once_messages_are_as_safe_as_promised_and_one_may_stand_for_many() {
    let bench = Bench::new();
    let mut client = confirming(&bench);
    bench.stop_writing();
    let mut pass = BytesMut::new();
    for body in [b"a", b"b", b"c"] {
        pass.extend_from_slice(&message(1, to("q"), persistent(), body));
    }
    client.bytes(&pass);
    assert_eq!(client.take(), [""; 0], "nothing is kept yet");
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(client.take(), [""; 0], "persistent messages of durable queues wait for the disk");
    bench.broker.store().sync().expect("syncs");
    assert_eq!(client.take(), ["ack 3 and before"]);
    client.bytes(&message(1, to("q"), Properties::default(), b"transient"));
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(client.take(), ["ack 4"], "others do not");
}

#[test]
fn a_quorum_queue_keeps_every_message_as_a_persistent_one() {
    let bench = Bench::new();
    let mut client = confirming(&bench);
    let quorum = Arguments::of(|table| _ = table.put("x-queue-type", Value::LongString(b"quorum")));
    assert_eq!(client.queue("kept", true, &quorum), ["queue kept 0/0"]);
    bench.stop_writing();
    client.publish("", "kept", b"of no delivery mode");
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(client.take(), [""; 0], "it waits for the disk");
    bench.broker.store().sync().expect("syncs");
    assert_eq!(client.take(), ["ack 1"]);
}

#[test]
fn what_goes_nowhere_is_confirmed_and_comes_back_to_who_wants_it() {
    let bench = Bench::new();
    let mut client = confirming(&bench);
    client.publish("", "nobody", b"lost");
    assert_eq!(client.take(), ["ack 1"]);
    client.publish_with(Publish { mandatory: true, ..to("nobody") }, Properties::default(), b"wanted");
    assert_eq!(client.take(), ["return 312 nobody: wanted", "ack 2"]);
}

#[test]
fn a_full_queue_that_refuses_is_told_by_a_nack() {
    let bench = Bench::new();
    let mut client = confirming(&bench);
    let arguments = Arguments::of(|table| {
        table.put("x-max-length", Value::I32(1)).put("x-overflow", Value::LongString(b"reject-publish"));
    });
    client.queue("small", true, &arguments);
    for expected in ["ack 1", "nack 2"] {
        client.publish("", "small", b"m");
        assert_eq!(client.take(), [expected]);
    }
    assert_eq!(client.get("small", true), "got 1, 0 more: m");
}

#[test]
fn every_kind_of_exchange_routes_and_a_queue_gets_a_message_once() {
    let bench = Bench::new();
    let mut client = bench.client();
    for name in ["a", "b"] {
        client.simple_queue(name);
    }
    let match_any = Arguments::of(|table| {
        table.put("x-match", Value::LongString(b"any")).put("colour", Value::LongString(b"red"));
    });
    let nothing = Arguments::of(|_| ());
    for (exchange, queue, key, arguments) in [
        ("amq.direct", "a", "k", &nothing),
        ("amq.direct", "a", "k2", &nothing),
        ("amq.fanout", "b", "", &nothing),
        ("amq.topic", "a", "*.stock.#", &nothing),
        ("amq.topic", "a", "eu.#", &nothing),
        ("amq.headers", "b", "", &match_any),
    ] {
        let arguments = arguments.table();
        client.send(
            1,
            QueueBind {
                queue: short(queue),
                exchange: short(exchange),
                routing_key: short(key),
                arguments,
                ..QueueBind::default()
            },
        );
        assert_eq!(client.take(), ["queue.bind-ok"]);
    }
    let red = Arguments::of(|table| _ = table.put("colour", Value::LongString(b"red")));
    let red = Properties { headers: Some(red.table()), ..Properties::default() };
    for (exchange, key, properties, reached) in [
        ("amq.direct", "k", Properties::default(), "a"),
        ("amq.direct", "k3", Properties::default(), ""),
        ("amq.fanout", "whatever", Properties::default(), "b"),
        ("amq.topic", "eu.stock.nyse", Properties::default(), "a"),
        ("amq.topic", "us.bond", Properties::default(), ""),
        ("amq.headers", "", red, "b"),
        ("amq.headers", "", Properties::default(), ""),
    ] {
        client.publish_with(Publish { exchange: short(exchange), ..to(key) }, properties, b"m");
        for queue in ["a", "b"] {
            let is_there = client.get(queue, true).starts_with("got");
            assert_eq!(is_there, queue == reached, "{exchange} {key} {queue}");
            assert_eq!(client.get(queue, true), "basic.get-empty", "once");
        }
    }
}

#[test]
fn copies_go_to_further_keys_and_blind_ones_are_not_told() {
    let bench = Bench::new();
    let mut client = bench.client();
    for name in ["a", "b", "c"] {
        client.simple_queue(name);
    }
    let headers = Arguments::of(|table| {
        table.array("CC", |keys| _ = keys.put(Value::LongString(b"b")));
        table.array("BCC", |keys| _ = keys.put(Value::LongString(b"c")));
    });
    let properties = Properties { headers: Some(headers.table()), ..Properties::default() };
    client.publish_with(to("a"), properties, b"m");
    for (tag, queue) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(client.get(queue, true), format!("got {}, 0 more: m", tag + 1));
    }
}

#[test]
fn a_transaction_counts_when_it_is_committed_and_not_when_it_is_rolled_back() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.send(1, TxSelect {});
    client.publish("", "q", b"forgotten");
    client.send(1, TxRollback {});
    client.publish("", "q", b"kept");
    assert_eq!(client.take(), ["tx.select-ok", "tx.rollback-ok"]);
    let mut other = bench.client();
    assert_eq!(other.get("q", true), "basic.get-empty", "not before the commit");
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["tx.commit-ok"]);
    assert_eq!(other.get("q", true), "got 1, 0 more: kept");
}

#[test]
fn a_producer_may_not_pretend_to_be_another_nor_use_an_exchange_that_is_not_its() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish_with(to("q"), Properties { user_id: Some(short("guest")), ..Properties::default() }, b"m");
    assert_eq!(client.get("q", true), "got 1, 0 more: m");
    let internal = ExchangeDeclare {
        exchange: short("inner"),
        kind: short("fanout"),
        internal: true,
        ..ExchangeDeclare::default()
    };
    client.send(1, internal);
    assert_eq!(client.take(), ["exchange.declare-ok"]);
    let cases = [
        (
            "",
            "q",
            Some("root"),
            None,
            "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'",
        ),
        ("inner", "q", None, None, "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'"),
        ("none", "q", None, None, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        (
            "",
            "q",
            None,
            Some("-1"),
            "PRECONDITION_FAILED - invalid expiration '-1': milliseconds in digits are expected",
        ),
    ];
    for (exchange, key, user, expiration, expected) in cases {
        let properties =
            Properties { user_id: user.map(short), expiration: expiration.map(short), ..Properties::default() };
        client.publish_with(Publish { exchange: short(exchange), ..to(key) }, properties, b"m");
        assert_eq!(client.take(), [format!("channel.close {expected}")]);
        client.send(1, wire::amqp::method::connection::ChannelCloseOk {});
        client.open(1);
    }
    assert!(!client.session.is_busy());
}

#[test]
fn a_confirm_of_a_channel_that_is_gone_goes_to_nobody_of_its_number() {
    let bench = Bench::new();
    let mut client = confirming(&bench);
    bench.stop_writing();
    client.bytes(&message(1, to("q"), persistent(), b"a"));
    client.send(1, wire::amqp::method::connection::ChannelClose::default());
    assert_eq!(client.take(), ["channel.close-ok"]);
    client.open(1);
    client.send(1, ConfirmSelect { no_wait: true });
    bench.broker.store().write_staged().expect("writes");
    bench.broker.store().sync().expect("syncs");
    assert_eq!(client.take(), [""; 0]);
}

#[test]
fn a_queue_that_refuses_takes_not_one_more_than_it_may() {
    let bench = Bench::new();
    let mut client = confirming(&bench);
    let arguments = Arguments::of(|table| {
        table.put("x-max-length", Value::I32(5)).put("x-overflow", Value::LongString(b"reject-publish"));
    });
    client.queue("small", true, &arguments);
    let mut pass = BytesMut::new();
    for _ in 0..8 {
        pass.extend_from_slice(&message(1, to("small"), Properties::default(), b"m"));
    }
    client.bytes(&pass);
    assert_eq!(client.take(), ["ack 5 and before", "nack 8 and before"], "all came at once");
    assert_eq!(client.get("small", true), "got 1, 4 more: m");
    bench.stop_writing();
    client.bytes(&pass);
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(client.take(), ["ack 9", "nack 16 and before"], "nor before what is there can be seen");
    assert_eq!(client.get("small", true), "got 2, 4 more: m");
}

#[test]
fn what_a_connection_remembers_of_routes_is_bounded_and_keeps_no_queue_that_has_gone() {
    let bench = Bench::new();
    let mut client = bench.client();
    for number in 0..100 {
        let name = number.to_string();
        client.simple_queue(&name);
        client.send(1, QueueBind { queue: short(&name), exchange: short("amq.fanout"), ..QueueBind::default() });
        assert_eq!(client.take(), ["queue.bind-ok"]);
    }
    let before = client.session.held_size();
    for number in 0..1000 {
        client.publish("amq.fanout", &number.to_string(), b"m");
    }
    let held_size = client.session.held_size() - before;
    let queue = bench.broker.model.host("/").expect("known").queue(b"0", ConnectionNumber(0)).expect("known");
    let count = Arc::strong_count(&queue);
    assert!(count < 200, "{count} users of a queue: each of as many routes has a hundred");
    assert!((count * 800..=128 * 1024).contains(&held_size), "{held_size} bytes of {count} routes are counted");
    let known = Arc::downgrade(&queue);
    drop(queue);
    bench.client().send(1, QueueDelete { queue: short("0"), ..QueueDelete::default() });
    assert!(known.upgrade().is_some());
    client.now = client.now.plus_ms(60_000);
    client.settle();
    assert!(known.upgrade().is_none(), "a minute later it is forgotten, though nothing was published");
    assert!(client.session.held_size() < before + 1024, "{} bytes", client.session.held_size());
}

#[test]
fn a_large_header_is_counted_while_its_message_comes_and_leaves_nothing() {
    let bench = Bench::new();
    let mut client = bench.client_with_frames_of(128 * 1024);
    let text = vec![b'x'; 100_000];
    let headers = Arguments::of(|table| _ = table.put("text", Value::LongString(&text)));
    let properties = Properties { headers: Some(headers.table()), ..Properties::default() };
    let frames = message(1, to("nowhere"), properties, b"m");
    let (begun, rest) = frames.split_at(frames.len() - 1);
    client.bytes(begun);
    assert!(client.session.held_size() >= text.len(), "{} bytes", client.session.held_size());
    client.bytes(rest);
    assert!(client.session.held_size() < 8 * 1024, "{} bytes", client.session.held_size());
}
