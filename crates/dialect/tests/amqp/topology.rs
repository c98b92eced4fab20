//! Exchanges, queues and bindings: declared, found again, removed.

use wire::amqp::method::basic::{Cancel, Consume};
use wire::amqp::method::connection::ChannelCloseOk;
use wire::amqp::method::exchange::{ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind};
use wire::amqp::method::queue::{QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind};
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, short};

fn exchange<'a>(name: &'a str, kind: &'a str) -> ExchangeDeclare<'a> {
    ExchangeDeclare { exchange: short(name), kind: short(kind), durable: true, ..ExchangeDeclare::default() }
}

fn declare(name: &str) -> QueueDeclare<'_> {
    QueueDeclare { queue: short(name), ..QueueDeclare::default() }
}

/// The channel was closed for that; it is opened again.
fn closed_for(client: &mut Client, why: &str) {
    let said = client.take();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].strip_prefix("channel.close "), Some(why));
    client.send(1, ChannelCloseOk {});
    client.open(1);
}

#[test]
fn what_is_there_may_be_declared_again_if_it_is_the_same() {
    let bench = Bench::new();
    let mut client = bench.client();
    let arguments = Arguments::of(|table| _ = table.put("x-message-ttl", Value::I32(60_000)));
    assert_eq!(client.queue("q", true, &arguments), ["queue q 0/0"]);
    let same = Arguments::of(|table| {
        table.put("x-message-ttl", Value::I64(60_000)).put("x-queue-type", Value::LongString(b"classic"));
    });
    assert_eq!(client.queue("q", true, &same), ["queue q 0/0"], "of another width, and as it is by default");
    client.send(1, exchange("x", "topic"));
    client.send(1, exchange("x", "topic"));
    assert_eq!(client.take(), ["exchange.declare-ok", "exchange.declare-ok"]);
    client.send(1, QueueDeclare { durable: false, arguments: same.table(), ..declare("q") });
    let of_queue = "PRECONDITION_FAILED - inequivalent arg";
    closed_for(
        &mut client,
        &format!("{of_queue} 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"),
    );
    client.send(1, QueueDeclare { durable: true, ..declare("q") });
    closed_for(
        &mut client,
        &format!("{of_queue} 'x-message-ttl' for queue 'q' in vhost '/': received 'none' but current is '60000'"),
    );
    client.send(1, exchange("x", "fanout"));
    closed_for(
        &mut client,
        &format!("{of_queue} 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'topic'"),
    );
}

#[test]
fn what_is_durable_is_there_after_a_kill_and_the_rest_is_not() {
    let bench = Bench::new();
    let mut client = bench.client();
    for durable in [true, false] {
        let name = |kind: &str| format!("{kind}-{durable}");
        client.send(1, ExchangeDeclare { durable, ..exchange(&name("x"), "topic") });
        client.send(1, QueueDeclare { durable, ..declare(&name("q")) });
        client.send(
            1,
            QueueBind {
                queue: short(&name("q")),
                exchange: short(&name("x")),
                routing_key: short("k.#"),
                ..QueueBind::default()
            },
        );
        client.publish(&name("x"), "k.1", b"m");
        assert_eq!(client.take(), ["exchange.declare-ok", &format!("queue q-{durable} 0/0"), "queue.bind-ok"]);
    }
    client.lose();
    let bench = bench.killed();
    let mut client = bench.client();
    client.publish("x-true", "k.2", b"n");
    client.send(1, QueueDeclare { passive: true, ..declare("q-true") });
    assert_eq!(client.take(), ["queue q-true 2/0"]);
    client.send(1, QueueDeclare { passive: true, ..declare("q-false") });
    closed_for(&mut client, "NOT_FOUND - no queue 'q-false' in vhost '/'");
    client.send(1, ExchangeDeclare { passive: true, ..exchange("x-false", "") });
    closed_for(&mut client, "NOT_FOUND - no exchange 'x-false' in vhost '/'");
}

#[test]
fn what_was_purged_does_not_come_again_after_a_kill() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish("", "q", b"m");
    client.send(1, QueuePurge { queue: short("q"), ..QueuePurge::default() });
    assert_eq!(client.take(), ["purged 1"]);
    client.lose();
    let bench = bench.reopened(false);
    assert_eq!(bench.client().get("q", true), "basic.get-empty");
}

#[test]
fn queues_of_one_connection_are_nobody_elses_and_go_with_it() {
    let bench = Bench::new();
    let (mut owner, mut other) = (bench.client(), bench.client());
    owner.send(1, QueueDeclare { exclusive: true, ..declare("mine") });
    assert_eq!(owner.take(), ["queue mine 0/0"]);
    other.send(1, QueueDeclare { passive: true, ..declare("mine") });
    let said = other.take();
    assert!(said[0].starts_with("channel.close RESOURCE_LOCKED - cannot obtain exclusive access"), "{said:?}");
    owner.lose();
    let mut third = bench.client();
    third.send(1, QueueDeclare { passive: true, ..declare("mine") });
    closed_for(&mut third, "NOT_FOUND - no queue 'mine' in vhost '/'");
}

#[test]
fn a_queue_goes_with_its_last_consumer_if_that_is_how_it_is() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.send(1, QueueDeclare { auto_delete: true, ..declare("q") });
    client.take();
    assert_eq!(client.consume("q", "a", true), ["basic.consume-ok"]);
    assert_eq!(client.consume("q", "b", true), ["basic.consume-ok"]);
    for (tag, is_there) in [("a", true), ("b", false)] {
        client.send(1, Cancel { consumer_tag: short(tag), no_wait: false });
        assert_eq!(client.take(), ["basic.cancel-ok"]);
        client.send(1, QueueDeclare { passive: true, ..declare("q") });
        assert_eq!(client.take()[0].starts_with("queue q"), is_there);
    }
}

#[test]
fn names_are_made_on_demand_and_the_last_declared_is_meant_by_none() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.send(1, declare(""));
    let said = client.take();
    let name = said[0].split(' ').nth(1).expect("a name").to_owned();
    assert!(name.starts_with("amq.gen-") && name.len() == 30, "{name}");
    client.publish("", &name, b"m");
    client.send(1, QueueBind { exchange: short("amq.direct"), ..QueueBind::default() });
    assert_eq!(client.take(), ["queue.bind-ok"], "its key is its name then");
    client.publish("amq.direct", &name, b"n");
    assert_eq!(client.get("", true), "got 1, 1 more: m");
    client.send(1, QueuePurge::default());
    assert_eq!(client.take(), ["purged 1"]);
    client.send(1, QueueDelete::default());
    assert_eq!(client.take(), ["deleted 0"]);
    client.open(2);
    client.send(2, QueueDelete::default());
    assert_eq!(client.take(), ["channel.close NOT_FOUND - no previously declared queue"]);
}

#[test]
fn a_queue_is_removed_unless_it_is_used_or_has_messages_where_that_is_asked() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish("", "q", b"m");
    let delete = QueueDelete { queue: short("q"), ..QueueDelete::default() };
    client.send(1, QueueDelete { if_empty: true, ..delete });
    closed_for(&mut client, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty");
    assert_eq!(client.consume("q", "c", false).len(), 2);
    client.send(1, QueueDelete { if_unused: true, ..delete });
    closed_for(&mut client, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use");
    let mut consumer = bench.client();
    assert_eq!(consumer.consume("q", "d", false).len(), 2);
    client.send(1, delete);
    assert_eq!(client.take(), ["deleted 0"], "nothing of it was ready");
    assert_eq!(consumer.take(), ["cancel d"], "who consumes is told");
    client.send(1, delete);
    assert_eq!(client.take(), ["deleted 0"], "one that is not there, too");
}

#[test]
fn what_is_the_brokers_own_is_not_the_clients_to_change() {
    let bench = Bench::new();
    let mut client = bench.client();
    let default = "ACCESS_REFUSED - operation not permitted on the default exchange";
    client.send(1, exchange("", "direct"));
    closed_for(&mut client, default);
    client.simple_queue("q");
    client.send(1, QueueBind { queue: short("q"), ..QueueBind::default() });
    closed_for(&mut client, default);
    client.send(1, exchange("amq.mine", "direct"));
    closed_for(&mut client, "ACCESS_REFUSED - exchange name 'amq.mine' in vhost '/' contains reserved prefix 'amq.*'");
    client.send(1, declare("amq.mine"));
    closed_for(&mut client, "ACCESS_REFUSED - queue name 'amq.mine' in vhost '/' contains reserved prefix 'amq.*'");
    client.send(1, exchange("amq.topic", "topic"));
    assert_eq!(client.take(), ["exchange.declare-ok"], "as it is");
    client.send(1, exchange("x", "random"));
    closed_for(&mut client, "PRECONDITION_FAILED - invalid exchange type 'random'");
}

#[test]
fn exchanges_lead_to_exchanges_and_what_nobody_gets_goes_to_the_alternate() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.simple_queue("rest");
    let alternate = Arguments::of(|table| _ = table.put("alternate-exchange", Value::LongString(b"others")));
    client.send(1, exchange("others", "fanout"));
    client.send(1, ExchangeDeclare { arguments: alternate.table(), ..exchange("first", "topic") });
    client.send(1, ExchangeDeclare { auto_delete: true, ..exchange("second", "fanout") });
    client.send(1, QueueBind { queue: short("rest"), exchange: short("others"), ..QueueBind::default() });
    client.send(1, QueueBind { queue: short("q"), exchange: short("second"), ..QueueBind::default() });
    let way = ExchangeBind {
        destination: short("second"),
        source: short("first"),
        routing_key: short("a.*"),
        ..ExchangeBind::default()
    };
    client.send(1, way);
    assert_eq!(client.take().len(), 6);
    client.publish("first", "a.b", b"m");
    client.publish("first", "b", b"n");
    assert_eq!(client.get("q", true), "got 1, 0 more: m");
    assert_eq!(client.get("rest", true), "got 2, 0 more: n");
    let unbind = ExchangeUnbind {
        destination: short("second"),
        source: short("first"),
        routing_key: short("a.*"),
        ..ExchangeUnbind::default()
    };
    client.send(1, unbind);
    client.send(1, ExchangeDelete { exchange: short("first"), if_unused: true, ..ExchangeDelete::default() });
    client.send(1, QueueUnbind { queue: short("q"), exchange: short("second"), ..QueueUnbind::default() });
    assert_eq!(client.take(), ["exchange.unbind-ok", "exchange.delete-ok", "queue.unbind-ok"]);
    client.send(1, ExchangeDeclare { passive: true, ..exchange("second", "") });
    closed_for(&mut client, "NOT_FOUND - no exchange 'second' in vhost '/'");
}

#[test]
fn a_queue_that_nobody_uses_goes_after_its_time_and_one_that_is_used_stays() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let arguments = Arguments::of(|table| _ = table.put("x-expires", Value::I32(1000)));
    for name in ["unused", "used"] {
        client.queue(name, true, &arguments);
    }
    client.send(1, Consume { queue: short("used"), ..Consume::default() });
    for _ in 0..3 {
        bench.pass(600);
    }
    client.now = bench.now;
    client.take();
    client.send(1, QueueDeclare { passive: true, ..declare("used") });
    assert_eq!(client.take(), ["queue used 0/1"]);
    client.send(1, QueueDeclare { passive: true, ..declare("unused") });
    closed_for(&mut client, "NOT_FOUND - no queue 'unused' in vhost '/'");
}
