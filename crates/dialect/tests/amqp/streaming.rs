//! Streams: read by offset, by any number of consumers, and nothing of them is taken away.

use base::session::Session as _;
use broker::Keeper;
use bytes::BytesMut;
use storage::RetentionPolicy;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::store_options;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::frame::{self, Kind};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Ack, Consume, Get, Nack, Publish, Qos, Reject, TxCommit, TxSelect};
use wire::amqp::method::queue::{QueueDeclare, QueueDelete, QueuePurge};
use wire::amqp::table::{TableWriter, Value};

use crate::client::{Arguments, Bench, Client, FRAME_MAX, START, put, short};

fn stream_of(write: impl FnOnce(&mut TableWriter<'_>)) -> Arguments {
    Arguments::of(|table| {
        table.put("x-queue-type", Value::LongString(b"stream"));
        write(table);
    })
}

/// A client with a stream `s` and a prefetch.
fn with_stream(bench: &Bench, prefetch: u16, write: impl FnOnce(&mut TableWriter<'_>)) -> Client {
    let mut client = bench.client();
    let told = client.queue("s", true, &stream_of(write));
    assert!(told[0].starts_with("queue s"), "{told:?}");
    limit(&mut client, prefetch);
    client
}

fn limit(client: &mut Client, prefetch_count: u16) {
    client.send(1, Qos { prefetch_count, ..Qos::default() });
    assert_eq!(client.take(), ["basic.qos-ok"]);
}

fn publish(client: &mut Client, bodies: &[&str]) {
    for body in bodies {
        let publish = Publish { routing_key: short("s"), ..Publish::default() };
        let properties = Properties { delivery_mode: Some(PERSISTENT), ..Properties::default() };
        client.publish_with(publish, properties, body.as_bytes());
    }
}

fn read(client: &mut Client, tag: &str, write: impl FnOnce(&mut TableWriter<'_>)) -> Vec<String> {
    let arguments = Arguments::of(write);
    let arguments = arguments.table();
    client.send(1, Consume { queue: short("s"), consumer_tag: short(tag), arguments, ..Consume::default() });
    client.take()
}

/// The same from an offset on, as a list of `offset: body`.
fn read_from(client: &mut Client, tag: &str, from: Value<'_>) -> Vec<String> {
    let mut told = read(client, tag, |table| _ = table.put("x-stream-offset", from));
    assert_eq!(told.remove(0), "basic.consume-ok");
    places(&told)
}

/// Deliveries as `offset: body`.
fn places(told: &[String]) -> Vec<String> {
    told.iter().map(|line| line.split_once(" at ").expect("an offset").1.to_owned()).collect()
}

fn count(client: &mut Client) -> String {
    client.send(1, QueueDeclare { queue: short("s"), passive: true, ..QueueDeclare::default() });
    client.take().join("; ")
}

const FIRST: Value<'static> = Value::LongString(b"first");

#[test]
fn every_consumer_reads_all_from_where_it_wants_to_and_nothing_is_taken_away() {
    let bench = Bench::new();
    let mut client = with_stream(&bench, 100, |_| ());
    publish(&mut client, &["a", "b", "c"]);
    assert_eq!(read_from(&mut client, "all", FIRST), ["0: a", "1: b", "2: c"]);
    assert_eq!(read_from(&mut client, "last", Value::LongString(b"last")), ["2: c"]);
    assert_eq!(read_from(&mut client, "one", Value::I32(1)), ["1: b", "2: c"]);
    assert_eq!(read_from(&mut client, "beyond", Value::I64(1000)), [""; 0]);
    assert_eq!(read(&mut client, "next", |_| ()), ["basic.consume-ok"]);
    client.send(1, Ack { delivery_tag: 0, multiple: true });
    let mut other = bench.client();
    limit(&mut other, 10);
    assert_eq!(read_from(&mut other, "all", FIRST), ["0: a", "1: b", "2: c"], "also what others have acknowledged");
    assert_eq!(count(&mut other), "queue s 3/6");
    publish(&mut client, &["d"]);
    assert_eq!(places(&other.take()), ["3: d"]);
    assert_eq!(places(&client.take()), ["3: d"; 5]);
}

#[test]
fn settling_a_message_makes_room_for_another_however_it_is_settled() {
    let bench = Bench::new();
    let mut client = with_stream(&bench, 2, |_| ());
    publish(&mut client, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(read_from(&mut client, "c", FIRST), ["0: a", "1: b"]);
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    assert_eq!(places(&client.take()), ["2: c"]);
    client.send(1, Nack { delivery_tag: 2, requeue: true, ..Nack::default() });
    assert_eq!(places(&client.take()), ["3: d"]);
    client.send(1, Reject { delivery_tag: 3, requeue: false });
    assert_eq!(places(&client.take()), ["4: e"]);
    // Nor does a transaction take anything away, whatever the log was told before.
    bench.broker.keep(bench.now).expect("told");
    client.send(1, TxSelect {});
    client.send(1, Ack { delivery_tag: 5, multiple: true });
    client.send(1, TxCommit {});
    assert_eq!(client.take()[..2], ["tx.select-ok", "tx.commit-ok"]);
    client.lose();
    let bench = bench.killed();
    let mut client = with_stream(&bench, 100, |_| ());
    assert_eq!(count(&mut client), "queue s 6/0");
    assert_eq!(read_from(&mut client, "c", FIRST), ["0: a", "1: b", "2: c", "3: d", "4: e", "5: f"]);
}

#[test]
fn a_consumer_may_begin_at_a_time() {
    let mut bench = Bench::new();
    let mut client = with_stream(&bench, 100, |_| ());
    let begin = bench.now.wall.0 / 1000;
    for body in ["a", "b", "c"] {
        publish(&mut client, &[body]);
        bench.pass(3_600_000);
        client.now = bench.now;
    }
    assert_eq!(read_from(&mut client, "time", Value::Timestamp(begin + 3600)), ["1: b", "2: c"]);
    assert_eq!(read_from(&mut client, "age", Value::LongString(b"90m")), ["2: c"]);
    assert_eq!(read_from(&mut client, "old", Value::LongString(b"1D")), ["0: a", "1: b", "2: c"]);
    assert_eq!(read_from(&mut client, "future", Value::Timestamp(begin * 2)), [""; 0]);
    let told = read(&mut client, "wrong", |table| _ = table.put("x-stream-offset", Value::LongString(b"sometime")));
    assert!(told[0].contains("PRECONDITION_FAILED - invalid arg 'x-stream-offset'"), "{told:?}");
}

#[test]
fn a_delivery_has_the_messages_own_headers_beside_its_offset() {
    let bench = Bench::new();
    let mut client = with_stream(&bench, 100, |_| ());
    let headers = Arguments::of(|table| {
        table.put("mine", Value::LongString(b"kept")).put("x-stream-offset", Value::I64(77));
    });
    let properties = Properties { headers: Some(headers.table()), priority: Some(4), ..Properties::default() };
    client.publish_with(Publish { routing_key: short("s"), ..Publish::default() }, properties, b"body");
    let arguments = Arguments::of(|table| _ = table.put("x-stream-offset", FIRST));
    client.send(1, Consume { queue: short("s"), arguments: arguments.table(), ..Consume::default() });
    let bytes = client.take_bytes();
    let mut rest = &bytes[..];
    let mut frames = std::iter::from_fn(|| {
        let frame = frame::decode(rest, FRAME_MAX).expect("frames")?;
        rest = &rest[frame.size()..];
        Some(frame)
    });
    let header = frames.find(|frame| frame.kind == Kind::Header).expect("a header");
    let header = ContentHeader::decode(header.payload).expect("a header");
    assert_eq!((header.body_size, header.properties.priority), (4, Some(4)));
    let headers: Vec<_> = header.properties.headers.expect("headers").iter().collect();
    assert_eq!(headers, [(short("mine"), Value::LongString(b"kept")), (short("x-stream-offset"), Value::I64(0))]);
}

#[test]
fn a_filter_lets_through_what_has_one_of_its_values() {
    let bench = Bench::new();
    let mut client = with_stream(&bench, 1, |_| ());
    for (value, body) in
        [(Some("red"), "r"), (Some("blue"), "b"), (None, "n"), (Some("green"), "g"), (Some("red"), "r2")]
    {
        let headers = Arguments::of(|table| {
            if let Some(value) = value {
                table.put("x-stream-filter-value", Value::LongString(value.as_bytes()));
            }
        });
        let properties = Properties { headers: Some(headers.table()), ..Properties::default() };
        client.publish_with(Publish { routing_key: short("s"), ..Publish::default() }, properties, body.as_bytes());
    }
    for (values, with_others, expected) in [
        (&["red"][..], false, &["0: r", "4: r2"][..]),
        (&["blue", "green"], false, &["1: b", "3: g"]),
        (&["blue"], true, &["1: b", "2: n"]),
        (&["none"], false, &[]),
    ] {
        let mut client = bench.client();
        limit(&mut client, 10);
        let mut told = read(&mut client, "c", |table| {
            table.put("x-stream-offset", FIRST).put("x-stream-match-unfiltered", Value::Bool(with_others));
            table.array("x-stream-filter", |array| {
                for value in values {
                    array.put(Value::LongString(value.as_bytes()));
                }
            });
        });
        told.remove(0);
        assert_eq!(places(&told), expected, "{values:?}");
    }
    // What is passed over needs no room.
    let told = read(&mut client, "one", |table| {
        table.put("x-stream-offset", FIRST).put("x-stream-filter", Value::LongString(b"green"));
    });
    assert_eq!(places(&told[1..]), ["3: g"]);
}

#[test]
fn what_is_older_than_a_stream_keeps_goes_and_consumers_go_on_behind_it() {
    let mut bench = Bench::new();
    let mut client = with_stream(&bench, 1, |table| _ = table.put("x-max-age", Value::LongString(b"10s")));
    let properties = Properties { expiration: Some(short("1")), ..Properties::default() };
    client.publish_with(Publish { routing_key: short("s"), ..Publish::default() }, properties, b"a");
    publish(&mut client, &["b"]);
    bench.pass(8000);
    client.now = bench.now;
    publish(&mut client, &["c"]);
    assert_eq!(read_from(&mut client, "c", FIRST), ["0: a"], "a message's own time is nothing to a stream");
    bench.pass(3000);
    client.now = bench.now;
    assert_eq!(count(&mut client), "queue s 1/1");
    client.send(1, Ack { delivery_tag: 1, multiple: false });
    assert_eq!(places(&client.take()), ["2: c"]);
    client.lose();
    let bench = bench.killed();
    let mut client = with_stream(&bench, 100, |table| _ = table.put("x-max-age", Value::LongString(b"10s")));
    assert_eq!(read_from(&mut client, "c", FIRST), ["2: c"], "offsets stay what they were");
}

#[test]
fn a_stream_of_at_most_so_many_bytes_loses_its_oldest_messages() {
    let mut bench = Bench::new();
    let mut client = with_stream(&bench, 100, |table| _ = table.put("x-max-length-bytes", Value::I32(10)));
    publish(&mut client, &["1111", "2222", "3333"]);
    bench.pass(1);
    assert_eq!(read_from(&mut client, "c", FIRST), ["1: 2222", "2: 3333"]);
    client.lose();
    let mut bench = bench.killed();
    let mut client = with_stream(&bench, 100, |table| _ = table.put("x-max-length-bytes", Value::I32(10)));
    publish(&mut client, &["444"]);
    bench.pass(1);
    assert_eq!(count(&mut client), "queue s 2/0");
}

#[test]
fn the_log_keeps_what_a_stream_keeps_whoever_has_read_it() {
    for limit in [None, Some(50_000)] {
        let scratch = tempfile::tempdir().expect("directory");
        let retention = RetentionPolicy { size: Some(1), ..RetentionPolicy::default() };
        let store = storage::Options { segment_size: 64 * 1024, retention, ..store_options(scratch.path()) };
        let mut bench = Bench::over(store, scratch, START);
        let mut client = with_stream(&bench, 1000, |table| {
            limit.into_iter().for_each(|limit| _ = table.put("x-max-length-bytes", Value::I32(limit)));
        });
        let body = "x".repeat(1000);
        for _ in 0..300 {
            publish(&mut client, &[&body]);
        }
        bench.pass(1);
        let kept = if limit.is_some() { 50 } else { 300 };
        assert_eq!(read_from(&mut client, "c", FIRST).len(), kept);
        client.send(1, Ack { delivery_tag: 0, multiple: true });
        bench.broker.keep(bench.now).expect("told");
        bench.broker.checkpoint(bench.now).expect("written");
        let removed = bench.broker.retention.apply(bench.now).expect("applied").removed;
        assert_eq!(removed > 0, limit.is_some(), "{removed} segments");
        let keeper = Keeper::MessageQueue { virtual_host: "/".to_owned(), queue: "s".to_owned() };
        assert_eq!(bench.broker.retention.keeper(), Some(keeper), "who looks for room is told");
        assert_eq!(read_from(&mut client, "again", FIRST).len(), kept);
    }
}

#[test]
fn what_streams_cannot_do_is_refused() {
    let ends = |act: &dyn Fn(&mut Client)| {
        let bench = Bench::new();
        let mut client = with_stream(&bench, 10, |_| ());
        act(&mut client);
        client.take().join("; ")
    };
    let is = |told: String, wanted: &str| assert!(told.contains(wanted), "{told}, not {wanted}");
    let hard = "connection.close NOT_IMPLEMENTED";
    is(ends(&|client| client.send(1, Get { queue: short("s"), ..Get::default() })), hard);
    is(ends(&|client| client.send(1, QueuePurge { queue: short("s"), ..QueuePurge::default() })), hard);
    let consume = || Consume { queue: short("s"), ..Consume::default() };
    is(ends(&|client| client.send(1, Consume { no_ack: true, ..consume() })), hard);
    let none: fn(&mut Client) = |client| limit(client, 0);
    is(
        ends(&|client| {
            none(client);
            client.send(1, consume());
        }),
        "channel.close PRECONDITION_FAILED - consumer prefetch count is not set",
    );
    is(
        ends(&|client| {
            client.send(1, Qos { prefetch_count: 5, global: true, ..Qos::default() });
            client.send(1, consume());
        }),
        hard,
    );
    let arguments = stream_of(|_| ());
    let declare =
        || QueueDeclare { queue: short("x"), durable: true, arguments: arguments.table(), ..QueueDeclare::default() };
    let soft = "channel.close PRECONDITION_FAILED";
    for declare in [
        QueueDeclare { durable: false, ..declare() },
        QueueDeclare { exclusive: true, ..declare() },
        QueueDeclare { auto_delete: true, ..declare() },
        QueueDeclare { queue: short(""), ..declare() },
        QueueDeclare { queue: short("s"), arguments: Arguments::of(|_| ()).table(), ..declare() },
    ] {
        is(ends(&|client| client.send(1, Method::from(declare))), soft);
    }
}

#[test]
fn a_stream_that_is_removed_ends_its_consumers() {
    let bench = Bench::new();
    let mut client = with_stream(&bench, 10, |_| ());
    publish(&mut client, &["a"]);
    assert_eq!(read_from(&mut client, "c", FIRST), ["0: a"]);
    client.send(1, QueueDelete { queue: short("s"), ..QueueDelete::default() });
    assert_eq!(client.take(), ["deleted 1", "cancel c"]);
    assert_eq!(client.queue("s", true, &stream_of(|_| ())), ["queue s 0/0"]);
    assert_eq!(read_from(&mut client, "c", FIRST), [""; 0], "nothing of the one before");
}

#[test]
fn a_consumer_far_behind_reads_all_in_order() {
    let bench = Bench::new();
    let mut client = with_stream(&bench, 50, |_| ());
    let total = 3000;
    let body = "x".repeat(2000);
    for _ in 0..total {
        publish(&mut client, &[&body]);
    }
    client.lose();
    // Nothing of it is in memory any more.
    let bench = bench.killed();
    let mut client = with_stream(&bench, 50, |_| ());
    let (mut next, mut tag) = (0, 0);
    let mut told = read_from(&mut client, "c", FIRST);
    while !told.is_empty() {
        for line in &told {
            assert!(line.starts_with(&format!("{next}: x")), "{next}");
            next += 1;
        }
        tag += told.len() as u64;
        client.send(1, Ack { delivery_tag: tag, multiple: true });
        told = places(&client.take());
    }
    assert_eq!(next, total);
}

#[test]
fn what_is_not_in_memory_is_read_by_a_job_and_what_cannot_be_read_comes_once_it_can() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let open = || {
        let store = store_options(std::path::Path::new("/data"));
        let store = storage::Options { disk: Disk::new(disk.clone()), recent_size: 1, ..store };
        Bench::over(store, tempfile::tempdir().expect("directory"), START)
    };
    let bench = open();
    let mut client = with_stream(&bench, 100, |_| ());
    publish(&mut client, &["a", "b", "c"]);
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    let mut bench = open();
    let mut client = with_stream(&bench, 100, |_| ());
    let arguments = Arguments::of(|table| _ = table.put("x-stream-offset", FIRST));
    let consume = Consume { queue: short("s"), arguments: arguments.table(), ..Consume::default() };
    let mut bytes = BytesMut::new();
    put(&mut bytes, 1, consume);
    disk.fail(Failure::error(Operation::Read, 5));
    let now = client.now;
    client.session.receive(&mut bytes, now).expect("taken");
    disk.heal();
    client.session.take_job().expect("it has to be read from the disk")();
    assert_eq!(places(&client.take()[1..]), ["0: a", "1: b", "2: c"]);
    disk.fail(Failure::error(Operation::Read, 5));
    assert_eq!(read(&mut client, "again", |table| _ = table.put("x-stream-offset", FIRST)), ["basic.consume-ok"]);
    let mut later = |ms| {
        bench.pass(ms);
        client.now = bench.now;
        client.take()
    };
    assert_eq!(later(1000), [""; 0], "it is tried in vain");
    disk.heal();
    assert_eq!(later(999), [""; 0]);
    assert_eq!(places(&later(1)), ["0: a", "1: b", "2: c"]);
}
