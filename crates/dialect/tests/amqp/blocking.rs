//! A log that takes no messages: publishers are told and wait, and nobody else does.

use std::path::Path;

use base::Permission;
use base::limits::STAGED_SIZE_MAX;
use base::session::Session;
use broker::RunningOptions;
use storage::disk::{Disk, MemoryDisk};
use testkit::store_options;
use wire::amqp::content::Properties;
use wire::amqp::method::basic::{Ack, ConfirmSelect, Publish, TxCommit, TxSelect};
use wire::amqp::method::connection::{ChannelClose, ConnectionClose};
use wire::amqp::method::exchange::{ExchangeDeclare, ExchangeDelete};
use wire::amqp::method::queue::{QueueBind, QueueDeclare};

use crate::client::{Arguments, Bench, Client, START, message, persistent, short, to};

/// Bytes of a disk that is nearly full with what is on it.
const LITTLE: u64 = 1;

/// Bytes of a disk with room for all.
const PLENTY: u64 = 1 << 40;

fn on(disk: &MemoryDisk) -> Bench {
    let store = storage::Options { disk: Disk::new(disk.clone()), ..store_options(Path::new("/data")) };
    Bench::over(store, tempfile::tempdir().expect("directory"), START)
}

/// The disk has so many bytes from now on, and the broker finds out.
fn resize(disk: &MemoryDisk, bench: &Bench, bytes: u64) {
    disk.set_capacity(bytes);
    bench.broker.store().apply_retention(bench.now.wall, 5).expect("looks");
}

/// A second passes for a client.
fn pass(client: &mut Client, bench: &mut Bench) {
    bench.pass(1000);
    client.now = bench.now;
    client.settle();
}

fn told_of_disk(said: &[String]) -> bool {
    said.len() == 1 && said[0].starts_with("blocked: low on disk: the disk of /data is more than")
}

#[test]
fn a_broker_that_drains_takes_no_messages_and_consumers_empty_it() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish("", "q", b"a");
    client.open(2);
    client.send(2, TxSelect {});
    client.bytes(&message(2, to("q"), persistent(), b"of a transaction that was begun"));
    client.take();
    client.open(3);
    let permit = |write: bool| {
        let options = RunningOptions::from(bench.broker.options());
        let permission = Permission { write, ..options.permission };
        bench.broker.change(&RunningOptions { permission, ..options }, bench.now);
    };
    permit(false);
    let refused = "ACCESS_REFUSED - the broker [broker-a] sending message is forbidden (broker.permission)";
    client.bytes(&message(3, to("q"), persistent(), b"b"));
    assert_eq!(client.take(), [format!("channel.close {refused}")]);
    client.send(2, TxCommit {});
    assert_eq!(client.take(), [format!("channel.close {refused}")]);
    client.send(1, ConfirmSelect { no_wait: true });
    client.publish_with(to("q"), persistent(), b"c");
    assert_eq!(client.take(), ["nack 1"]);
    assert_eq!(client.consume("q", "c", false), ["basic.consume-ok", "deliver 1 to c: a"]);
    permit(true);
    client.publish_with(to("q"), persistent(), b"d");
    assert_eq!(client.take(), ["ack 2", "deliver 2 to c: d"]);
}

#[test]
fn publishers_wait_for_room_on_the_disk_and_consumers_and_acknowledgements_do_not() {
    let disk = MemoryDisk::new();
    let mut bench = on(&disk);
    let (mut client, mut other) = (bench.client(), bench.client());
    client.simple_queue("q");
    for body in [b"a", b"b", b"c"] {
        client.publish("", "q", body);
    }
    client.send(1, ConfirmSelect { no_wait: true });
    resize(&disk, &bench, LITTLE);
    client.publish_with(to("q"), persistent(), b"d");
    assert!(told_of_disk(&client.take()));
    client.publish_with(to("q"), persistent(), b"e");
    assert_eq!(client.take(), [""; 0], "it is told once, and nothing is refused");
    // All else goes on, on this connection and on others.
    assert_eq!(client.consume("q", "c", false)[..2], ["basic.consume-ok", "deliver 1 to c: a"]);
    client.send(1, Ack { delivery_tag: 2, multiple: true });
    client.open(2);
    assert_eq!(other.get("q", true), "basic.get-empty", "the consumer has them");
    other.settle();
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), [""; 0], "there is still no room");

    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    let said = client.take();
    assert_eq!(said, ["connection.unblocked", "ack 2 and before", "deliver 4 to c: d", "deliver 5 to c: e"]);
    client.publish("", "q", b"f");
    assert_eq!(client.take(), ["ack 3", "deliver 6 to c: f"]);
    assert_eq!(bench.broker.metrics().publishers_blocked.get(), 1);
    client.lose();
    // What was acknowledged while the disk was full does not come again.
    assert_eq!(other.get("q", true), "got 1, 3 more again: c");
}

#[test]
fn who_does_not_want_to_be_told_waits_all_the_same() {
    let disk = MemoryDisk::new();
    let mut bench = on(&disk);
    let mut client = bench.stranger("127.0.0.1:40000");
    client.hears_of_blocked = false;
    let mut client = client.connected();
    client.simple_queue("q");
    resize(&disk, &bench, LITTLE);
    client.publish("", "q", b"a");
    assert_eq!(client.take(), [""; 0]);
    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), [""; 0]);
    assert_eq!(client.get("q", true), "got 1, 0 more: a");
}

#[test]
fn what_waits_is_bounded_and_keeps_its_order() {
    let disk = MemoryDisk::new();
    let mut bench = on(&disk);
    let mut client = bench.client();
    client.simple_queue("q");
    resize(&disk, &bench, LITTLE);
    let mut sent = 0;
    while client.session.wants_input() {
        client.publish("", "q", format!("{sent:>1000}").as_bytes());
        sent += 1;
        assert!(sent < 1100, "{} bytes are held", client.session.held_size());
    }
    assert!(sent > 800 && client.session.held_size() > 1_000_000, "{sent} messages");
    assert!(told_of_disk(&client.take()));
    for _ in 0..100 {
        client.publish("", "q", format!("{sent:>1000}").as_bytes());
        sent += 1;
    }
    assert!(client.session.held_size() < 1_100_000, "the rest is not read");
    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), ["connection.unblocked"]);
    for number in 0..sent {
        let (tag, more) = (number + 1, sent - number - 1);
        assert_eq!(client.get("q", true), format!("got {tag}, {more} more: {number:>1000}"));
    }
    assert!(client.session.held_size() < 100_000, "given back");
}

#[test]
fn what_asks_for_messages_before_it_waits_for_them() {
    let disk = MemoryDisk::new();
    let mut bench = on(&disk);
    let mut client = bench.client();
    client.simple_queue("q");
    resize(&disk, &bench, LITTLE);
    client.publish("", "q", b"a");
    assert!(told_of_disk(&client.take()));
    client.send(1, QueueDeclare { queue: short("q"), passive: true, ..QueueDeclare::default() });
    client.send(1, ChannelClose::default());
    client.send(0, ConnectionClose::default());
    assert_eq!(client.take(), [""; 0]);
    assert!(!client.session.wants_input());
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), [""; 0]);
    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    let said = client.take();
    assert_eq!(said, ["connection.unblocked", "queue q 1/0", "channel.close-ok", "connection.close-ok"]);
}

#[test]
fn transactions_wait_if_they_have_messages() {
    let disk = MemoryDisk::new();
    let mut bench = on(&disk);
    let mut client = bench.client();
    client.simple_queue("q");
    client.publish("", "q", b"a");
    assert_eq!(client.get("q", false), "got 1, 0 more: a");
    client.open(2);
    client.send(1, TxSelect {});
    client.send(2, TxSelect {});
    assert_eq!(client.take(), ["tx.select-ok", "tx.select-ok"]);
    resize(&disk, &bench, LITTLE);
    client.bytes(&message(2, to("q"), Properties::default(), b"b"));
    assert!(told_of_disk(&client.take()));
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    client.send(1, TxCommit {});
    assert_eq!(client.take(), ["tx.commit-ok"], "it needs no room");
    client.send(2, TxCommit {});
    assert_eq!(client.take(), [""; 0]);
    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), ["connection.unblocked", "tx.commit-ok"]);
    assert_eq!(client.get("q", true), "got 2, 0 more: b");
}

#[test]
fn a_channel_whose_exchange_goes_meanwhile_fails_and_others_do_not() {
    let disk = MemoryDisk::new();
    let mut bench = on(&disk);
    let (mut client, mut other) = (bench.client(), bench.client());
    client.simple_queue("q");
    client.open(2);
    for exchange in ["x", "y"] {
        client.send(
            1,
            ExchangeDeclare { exchange: short(exchange), kind: short("fanout"), ..ExchangeDeclare::default() },
        );
        client.send(1, QueueBind { queue: short("q"), exchange: short(exchange), ..QueueBind::default() });
        assert_eq!(client.take(), ["exchange.declare-ok", "queue.bind-ok"]);
    }
    resize(&disk, &bench, LITTLE);
    let through = |exchange| Publish { exchange: short(exchange), ..Publish::default() };
    client.bytes(&message(1, through("y"), Properties::default(), b"before"));
    client.bytes(&message(1, through("x"), Properties::default(), b"fails"));
    client.bytes(&message(1, through("y"), Properties::default(), b"behind"));
    client.bytes(&message(2, through("y"), Properties::default(), b"of another"));
    assert!(told_of_disk(&client.take()));
    other.send(1, ExchangeDelete { exchange: short("x"), ..ExchangeDelete::default() });
    assert_eq!(other.take(), ["exchange.delete-ok"], "changes need little");
    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    let said = client.take();
    assert_eq!(said[0], "connection.unblocked");
    assert!(said[1].starts_with("channel.close NOT_FOUND - no exchange 'x'"), "{said:?}");
    assert_eq!(other.get("q", true), "got 1, 1 more: before");
    assert_eq!(other.get("q", true), "got 2, 0 more: of another");
    // Of a channel that is gone for another reason what it had sent is published, and nobody hears of it.
    resize(&disk, &bench, LITTLE);
    client.send(2, ConfirmSelect { no_wait: true });
    client.bytes(&message(2, through("y"), Properties::default(), b"sent"));
    client.send(2, Ack { delivery_tag: 7, multiple: false });
    let said = client.take();
    assert!(said[0].starts_with("blocked: ") && said[1].starts_with("channel.close PRECONDITION_FAILED"), "{said:?}");
    resize(&disk, &bench, PLENTY);
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), ["connection.unblocked"]);
    assert_eq!(other.get("q", true), "got 3, 0 more: sent");
}

#[test]
fn what_cannot_be_published_is_said_at_once_and_who_goes_takes_what_waits_along() {
    let disk = MemoryDisk::new();
    let bench = on(&disk);
    let (mut client, mut other) = (bench.client(), bench.client());
    client.simple_queue("q");
    resize(&disk, &bench, LITTLE);
    client.publish("", "q", b"waits");
    assert!(told_of_disk(&client.take()));
    client.publish("nowhere", "q", b"never");
    assert!(client.take()[0].starts_with("channel.close NOT_FOUND - no exchange 'nowhere'"));
    client.lose();
    resize(&disk, &bench, PLENTY);
    other.settle();
    assert_eq!(other.get("q", true), "basic.get-empty", "it was promised to nobody");
}

#[test]
fn a_log_that_stays_behind_has_publishers_told_after_a_second() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    assert_eq!(client.queue("q", true, &Arguments::of(|_| ())), ["queue q 0/0"]);
    client.publish("", "q", b"first");
    assert_eq!(client.consume("q", "c", false), ["basic.consume-ok", "deliver 1 to c: first"]);
    bench.stop_writing();
    let body = vec![b'm'; 32 << 10];
    let mut sent = 0;
    while client.session.wants_input() {
        client.publish("", "q", &body);
        sent += 1;
        assert!(sent <= STAGED_SIZE_MAX / body.len(), "{:?}", client.take());
    }
    client.publish("", "q", b"held");
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    assert_eq!(client.take(), [""; 0], "for a moment the socket alone is not read");
    pass(&mut client, &mut bench);
    assert_eq!(client.take(), ["blocked: low on memory: messages come faster than the log's disk takes them"]);
    assert!(client.session.wants_input(), "the client is heard again");
    client.open(2);
    bench.broker.store().write_staged().expect("writes");
    let said = client.take();
    assert_eq!(said[0], "connection.unblocked", "{:?}", &said[0]);
    bench.broker.store().write_staged().expect("writes");
    client.lose();
    let mut other = bench.client();
    let first = other.get("q", true);
    assert!(first.starts_with(&format!("got 1, {sent} more again: mmm")), "{}", &first[..40]);
}
