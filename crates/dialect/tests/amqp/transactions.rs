//! Transactions: all of one counts, or nothing does.

use base::limits::TRANSACTION_SIZE_MAX;
use base::session::Session;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{Ack, Nack, Publish, TxCommit, TxRollback, TxSelect};
use wire::amqp::method::exchange::{ExchangeDeclare, ExchangeDelete};
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, short};

fn in_transaction(bench: &Bench) -> Client {
    let mut client = bench.client();
    client.simple_queue("q");
    client.send(1, TxSelect {});
    assert_eq!(client.take(), ["tx.select-ok"]);
    client
}

fn length(bench: &Bench, queue: &str) -> Vec<String> {
    let mut client = bench.client();
    client.send(1, QueueDeclare { queue: short(queue), passive: true, ..QueueDeclare::default() });
    client.take()
}

#[test]
fn a_mistake_is_told_before_anything_is_stored() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    let exchange = ExchangeDeclare { exchange: short("x"), kind: short("fanout"), ..ExchangeDeclare::default() };
    client.send(1, exchange);
    client.publish("", "q", b"m");
    client.publish("x", "", b"m");
    assert_eq!(client.take(), ["exchange.declare-ok"]);
    let mut other = bench.client();
    other.send(1, ExchangeDelete { exchange: short("x"), ..ExchangeDelete::default() });
    assert_eq!(other.take(), ["exchange.delete-ok"]);
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["channel.close NOT_FOUND - no exchange 'x' in vhost '/'"]);
    assert_eq!(length(&bench, "q"), ["queue q 0/0"]);
}

#[test]
fn what_a_channel_does_not_have_it_cannot_settle_in_a_transaction_either() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    client.publish("", "q", b"m");
    client.send(1, Ack { delivery_tag: 9, multiple: false });
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["channel.close PRECONDITION_FAILED - unknown delivery tag 9"]);
    assert_eq!(length(&bench, "q"), ["queue q 0/0"]);
}

#[test]
fn a_queue_without_room_refuses_the_whole_transaction() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    let arguments = Arguments::of(|table| {
        table.put("x-max-length", Value::I32(2)).put("x-overflow", Value::LongString(b"reject-publish"));
    });
    client.queue("small", true, &arguments);
    for queue in ["q", "small", "small", "small"] {
        client.publish("", queue, b"m");
    }
    client.send(1, TxCommit {});
    let said = client.take();
    assert!(said[0].starts_with("channel.close PRECONDITION_FAILED - partial tx completion"), "{said:?}");
    assert_eq!([length(&bench, "q"), length(&bench, "small")], [["queue q 0/0"], ["queue small 0/0"]]);
}

#[test]
fn a_kill_right_after_a_commit_takes_none_of_it_back() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    for body in ["0", "1", "2"] {
        bench.client().publish("", "q", body.as_bytes());
        client.get("q", false);
    }
    client.publish("", "q", b"answer");
    for delivery_tag in [3, 1] {
        client.send(1, Ack { delivery_tag, multiple: false });
    }
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["tx.commit-ok"]);
    let scratch = tempfile::tempdir().expect("directory");
    testkit::copy_directory(bench.directory(), scratch.path());
    let bench = Bench::on(scratch, bench.now);
    let mut client = bench.client();
    assert_eq!(client.get("q", true), "got 1, 1 more again: 1");
    assert_eq!(client.get("q", true), "got 2, 0 more again: answer");
}

#[test]
fn what_was_settled_in_a_transaction_that_is_rolled_back_is_the_channels_again() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    for body in ["0", "1", "2"] {
        bench.client().publish("", "q", body.as_bytes());
        client.get("q", false);
    }
    client.send(1, Ack { delivery_tag: 2, multiple: true });
    client.send(1, Nack { delivery_tag: 3, multiple: false, requeue: true });
    client.send(1, TxRollback {});
    assert_eq!(client.take(), ["tx.rollback-ok"]);
    assert_eq!(client.get("q", false), "basic.get-empty", "nothing came back");
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    client.send(1, Ack { delivery_tag: 2, multiple: false });
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["tx.commit-ok"]);
    client.lose();
    assert_eq!(bench.client().get("q", true), "got 1, 0 more again: 2");
}

#[test]
fn a_channel_that_goes_gives_back_what_it_has_settled_and_not_committed() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    bench.client().publish("", "q", b"m");
    client.get("q", false);
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    client.lose();
    assert_eq!(bench.client().get("q", true), "got 1, 0 more again: m");
}

#[test]
fn what_a_transaction_holds_is_counted_and_bounded() {
    let bench = Bench::new();
    let mut client = in_transaction(&bench);
    let body = vec![b'x'; TRANSACTION_SIZE_MAX / 10];
    let to_queue = || Publish { routing_key: short("q"), ..Publish::default() };
    for number in 1..10 {
        client.publish_with(to_queue(), Properties::default(), &body);
        assert!(client.session.held_size() > number * body.len(), "{number}: {}", client.session.held_size());
    }
    client.publish_with(to_queue(), Properties::default(), &body);
    let said = client.take();
    assert!(said[0].starts_with("channel.close PRECONDITION_FAILED - the messages of a transaction"), "{said:?}");
    assert!(client.session.held_size() < body.len(), "it holds nothing more");
}
