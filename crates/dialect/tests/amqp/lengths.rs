//! Queues that hold so many bytes of messages: what is too much goes, or is refused.

use bytes::BytesMut;
use wire::amqp::content::{PERSISTENT, Properties};
use wire::amqp::method::basic::{Ack, ConfirmSelect, Nack, Publish};
use wire::amqp::method::queue::{QueueBind, QueueDeclare, QueuePurge};
use wire::amqp::table::{TableWriter, Value};

use crate::client::{Arguments, Bench, Client, message, short};

/// A queue `q` of at most 10 bytes with further arguments, and `dead` for its dead letters.
fn with_queue(bench: &Bench, write: impl FnOnce(&mut TableWriter<'_>)) -> Client {
    bench.client_with_dead_letters(|table| {
        table.put("x-max-length-bytes", Value::I32(10));
        write(table);
    })
}

fn refusing(overflow: &'static [u8]) -> impl FnOnce(&mut TableWriter<'_>) {
    move |table| _ = table.put("x-overflow", Value::LongString(overflow))
}

fn confirming(client: &mut Client) {
    client.send(1, ConfirmSelect::default());
    assert_eq!(client.take(), ["confirm.select-ok"]);
}

/// Publishes all at once.
fn publish_together(client: &mut Client, bodies: &[&str]) {
    let mut bytes = BytesMut::new();
    for body in bodies {
        let publish = Publish { routing_key: short("q"), ..Publish::default() };
        bytes.extend_from_slice(&message(1, publish, Properties::default(), body.as_bytes()));
    }
    client.bytes(&bytes);
}

fn ready(client: &mut Client, queue: &str) -> String {
    client.send(1, QueueDeclare { queue: short(queue), passive: true, ..QueueDeclare::default() });
    client.take().join("; ")
}

#[test]
fn the_oldest_of_too_many_bytes_become_dead_letters_and_only_bodies_count() {
    let mut bench = Bench::new();
    let mut client = with_queue(&bench, |_| ());
    let headers = Arguments::of(|table| _ = table.put("long", Value::LongString(&[b'x'; 1000])));
    let properties = Properties { headers: Some(headers.table()), ..Properties::default() };
    for body in ["1111", "2222", "33"] {
        let publish = Publish { routing_key: short("q"), ..Publish::default() };
        client.publish_with(publish, properties, body.as_bytes());
    }
    bench.pass(1);
    assert_eq!((ready(&mut client, "q"), ready(&mut client, "dead")), ("queue q 3/0".into(), "queue dead 0/0".into()));
    client.publish("", "q", b"4");
    bench.pass(1);
    assert_eq!(client.get("dead", true), "got 1, 0 more: 1111");
    client.publish("", "q", b"longer than is allowed at all");
    bench.pass(1);
    assert_eq!(client.get("q", true), "basic.get-empty", "it is too much, and whatever is before it goes first");
    assert_eq!(ready(&mut client, "dead"), "queue dead 4/0");
}

#[test]
fn bytes_that_somebody_has_do_not_count_until_they_come_back() {
    let mut bench = Bench::new();
    let mut client = with_queue(&bench, |_| ());
    client.publish("", "q", b"11111");
    client.publish("", "q", b"22222");
    assert_eq!(client.get("q", false), "got 1, 1 more: 11111");
    client.publish("", "q", b"33333");
    bench.pass(1);
    assert_eq!(ready(&mut client, "q"), "queue q 2/0");
    client.send(1, Nack { delivery_tag: 1, requeue: true, ..Nack::default() });
    bench.pass(1100);
    assert_eq!(client.get("dead", true), "got 2, 0 more: 11111");
    assert_eq!(client.get("q", false), "got 3, 1 more: 22222");
    client.send(1, Ack { delivery_tag: 3, multiple: false });
    client.publish("", "q", b"44444");
    bench.pass(1);
    assert_eq!(ready(&mut client, "q"), "queue q 2/0");
    client.send(1, QueuePurge { queue: short("q"), ..QueuePurge::default() });
    assert_eq!(client.take(), ["purged 2"]);
    client.publish("", "q", b"5555555555");
    bench.pass(1);
    assert_eq!(client.get("q", true), "got 4, 0 more: 5555555555", "what was purged does not count");
}

#[test]
fn a_message_for_which_there_is_no_room_is_refused_also_behind_others_that_came_with_it() {
    let bench = Bench::new();
    let mut client = with_queue(&bench, refusing(b"reject-publish"));
    confirming(&mut client);
    publish_together(&mut client, &["11111", "22222", "3", "", "4"]);
    assert_eq!(client.take(), ["ack 2 and before", "nack 3", "ack 4", "nack 5"], "one without a body has room");
    assert_eq!(client.get("q", true), "got 1, 2 more: 11111");
    publish_together(&mut client, &["666666", "55555"]);
    assert_eq!(client.take(), ["nack 6", "ack 7"]);
    assert_eq!(ready(&mut client, "q"), "queue q 3/0");
    assert_eq!(ready(&mut client, "dead"), "queue dead 0/0");
}

#[test]
fn of_several_who_publish_at_a_time_only_as_many_are_confirmed_as_there_is_room_for() {
    let bench = Bench::new();
    let mut first = with_queue(&bench, refusing(b"reject-publish"));
    let mut second = bench.client();
    confirming(&mut first);
    confirming(&mut second);
    // Nothing of what they publish is in the queue yet.
    bench.stop_writing();
    publish_together(&mut first, &["11111", "2"]);
    publish_together(&mut second, &["33333", "4444"]);
    assert_eq!(second.take(), [""; 0]);
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(first.take(), ["ack 2 and before"]);
    assert_eq!(second.take(), ["nack 1", "ack 2"]);
    assert_eq!(ready(&mut first, "q"), "queue q 3/0");
}

#[test]
fn what_is_refused_becomes_a_dead_letter_where_that_is_asked_for() {
    let bench = Bench::new();
    let mut client = with_queue(&bench, refusing(b"reject-publish-dlx"));
    confirming(&mut client);
    publish_together(&mut client, &["1111111", "2222", "333"]);
    assert_eq!(client.take(), ["ack 1", "nack 2", "ack 3"]);
    assert_eq!(client.get("dead", true), "got 1, 0 more: 2222");
}

/// Publishes to so many full queues whose dead letters go to all of them, and to `dead`; gives what that has then.
fn dead_letters_of_full_queues(count: usize) -> String {
    let bench = Bench::new();
    let mut client = with_queue(&bench, |_| ());
    let full = Arguments::of(|table| {
        table.put("x-max-length", Value::I32(0)).put("x-overflow", Value::LongString(b"reject-publish-dlx"));
        table.put("x-dead-letter-exchange", Value::LongString(b"amq.fanout"));
    });
    for number in 0..count {
        let name = format!("full {number}");
        assert_eq!(client.queue(&name, true, &full), [format!("queue {name} 0/0")]);
        client.send(1, QueueBind { queue: short(&name), exchange: short("amq.fanout"), ..QueueBind::default() });
        assert_eq!(client.take(), ["queue.bind-ok"]);
    }
    confirming(&mut client);
    client.publish("amq.fanout", "", b"m");
    assert_eq!(client.take(), ["nack 1"]);
    ready(&mut client, "dead")
}

#[test]
fn each_full_queue_makes_one_dead_letter_of_a_message_whatever_ways_lead_there() {
    assert_eq!(dead_letters_of_full_queues(9), "queue dead 10/0");
}

#[test]
fn what_full_queues_make_of_one_message_is_bounded() {
    assert_eq!(dead_letters_of_full_queues(200), "queue dead 22/0", "by queues to which dead letters are offered");
}

#[test]
fn limits_of_bytes_and_of_messages_hold_together() {
    let mut bench = Bench::new();
    let mut client = with_queue(&bench, |table| _ = table.put("x-max-length", Value::I32(3)));
    for body in ["1", "2", "3", "4"] {
        client.publish("", "q", body.as_bytes());
    }
    bench.pass(1);
    assert_eq!(client.get("dead", true), "got 1, 0 more: 1", "too many messages");
    client.publish("", "q", b"555555555");
    bench.pass(1);
    assert_eq!(ready(&mut client, "dead"), "queue dead 2/0");
    assert_eq!(client.get("q", true), "got 2, 1 more: 4", "too many bytes");
}

#[test]
fn a_limit_of_messages_holds_after_a_start_before_their_bytes_are_counted() {
    let bench = Bench::new();
    let mut client = bench.client();
    let limits = Arguments::of(|table| {
        table.put("x-overflow", Value::LongString(b"reject-publish"));
        table.put("x-max-length", Value::I64(2002)).put("x-max-length-bytes", Value::I64(1 << 40));
    });
    assert_eq!(client.queue("q", true, &limits), ["queue q 0/0"]);
    publish_together(&mut client, &["m"; 2000]);
    client.lose();
    let bench = bench.killed();
    let mut client = bench.client();
    confirming(&mut client);
    publish_together(&mut client, &["the last but one"]);
    publish_together(&mut client, &["the last", "one too many"]);
    assert_eq!(client.take(), ["ack 1", "ack 2", "nack 3"]);
}

#[test]
fn of_too_many_bytes_those_of_the_lowest_priority_go_first() {
    let mut bench = Bench::new();
    let mut client = with_queue(&bench, |table| _ = table.put("x-max-priority", Value::I32(5)));
    for (priority, body) in [(5, "11111"), (1, "222"), (3, "333"), (1, "444")] {
        let publish = Publish { routing_key: short("q"), ..Publish::default() };
        let properties = Properties { priority: Some(priority), ..Properties::default() };
        client.publish_with(publish, properties, body.as_bytes());
    }
    bench.pass(1);
    assert_eq!(client.get("dead", true), "got 1, 1 more priority 1: 222");
    assert_eq!(client.get("dead", true), "got 2, 0 more priority 1: 444");
    assert_eq!(client.get("q", true), "got 3, 1 more priority 5: 11111");
}

#[test]
fn bytes_of_before_a_killed_process_count_without_those_that_were_settled() {
    for overflow in [&b"drop-head"[..], b"reject-publish"] {
        let bench = Bench::new();
        let mut client = with_queue(&bench, |table| _ = table.put("x-overflow", Value::LongString(overflow)));
        for body in ["1111", "22", "333"] {
            let publish = Publish { routing_key: short("q"), ..Publish::default() };
            let properties = Properties { delivery_mode: Some(PERSISTENT), ..Properties::default() };
            client.publish_with(publish, properties, body.as_bytes());
        }
        assert_eq!(client.get("q", false), "got 1, 2 more: 1111");
        assert_eq!(client.get("q", false), "got 2, 1 more: 22");
        client.send(1, Ack { delivery_tag: 2, multiple: false });
        client.lose();
        let mut bench = bench.killed();
        bench.pass(1);
        let mut client = bench.client();
        confirming(&mut client);
        publish_together(&mut client, &["444", "5"]);
        bench.pass(1);
        if overflow == b"drop-head" {
            assert_eq!(client.take(), ["ack 2 and before"]);
            assert_eq!(client.get("dead", true), "got 1, 0 more: 1111");
            assert_eq!(client.get("q", true), "got 2, 2 more again: 333");
        } else {
            assert_eq!(client.take(), ["ack 1", "nack 2"]);
            assert_eq!(client.get("q", true), "got 1, 2 more again: 1111");
        }
    }
}
