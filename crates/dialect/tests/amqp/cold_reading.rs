//! Promises about long messages that have to be read from the disk: what they take is counted before they are read, and none is lost.

use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::session::{Job, Session};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::store_options;
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Cancel, Consume, Get, Qos};
use wire::amqp::method::connection::ChannelClose;
use wire::amqp::table::Value;

use crate::client::{Arguments, Bench, Client, START, persistent, put, short, to};

/// Longer than what is read at once by far.
const LONG: usize = 3 << 20;

const COUNT: usize = 20;

/// What a read that may not wait is told.
const EAGAIN: i32 = 11;

fn on_disk(disk: &FaultyDisk) -> Bench {
    let store = store_options(std::path::Path::new("/data"));
    let store = storage::Options { disk: Disk::new(disk.clone()), recent_size: 1, segment_size: 128 << 20, ..store };
    Bench::over(store, tempfile::tempdir().expect("directory"), START)
}

/// A queue `q` with long messages, of which nothing is in memory.
fn cold_bench(disk: &FaultyDisk, arguments: &Arguments) -> Bench {
    let bench = on_disk(disk);
    let mut client = bench.client();
    assert_eq!(client.queue("q", true, arguments), ["queue q 0/0"]);
    for _ in 0..COUNT {
        client.publish_with(to("q"), persistent(), &vec![b'x'; LONG]);
    }
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    on_disk(disk)
}

/// A client that takes nothing, with channels 2 and 3 for consumers of one message each.
fn stuck(bench: &Bench) -> Client {
    let mut client = bench.client();
    for channel in [2, 3] {
        client.open(channel);
        client.send(channel, Qos { prefetch_count: 1, ..Qos::default() });
        client.take();
    }
    client.is_stuck = true;
    client
}

/// Gives the session methods while nothing is in memory, and does not do what that leads to.
fn send_cold<'m, M: Into<Method<'m>>>(
    client: &mut Client,
    disk: &FaultyDisk,
    channel: u16,
    methods: impl IntoIterator<Item = M>,
) -> Vec<Job> {
    disk.fail(Failure::error(Operation::Read, EAGAIN));
    let mut bytes = bytes::BytesMut::new();
    methods.into_iter().for_each(|method| put(&mut bytes, channel, method));
    let now = client.now;
    client.session.receive(&mut bytes, now).expect("taken");
    assert!(bytes.is_empty());
    disk.heal();
    std::iter::from_fn(|| client.session.take_job()).collect()
}

fn consume<'m>(tag: &'m str, arguments: &'m Arguments) -> Consume<'m> {
    Consume { queue: short("q"), consumer_tag: short(tag), arguments: arguments.table(), ..Consume::default() }
}

/// A client that takes nothing, with as many consumers on channel 2 as there are messages.
fn consuming(bench: &Bench, disk: &FaultyDisk, arguments: &Arguments) -> Client {
    let mut client = stuck(bench);
    let tags: Vec<_> = (0..COUNT).map(|number| number.to_string()).collect();
    let jobs = send_cold(&mut client, disk, 2, tags.iter().map(|tag| consume(tag, arguments)));
    jobs.into_iter().for_each(|job| job());
    client.settle();
    client
}

/// How many messages somebody else gets.
fn others_get(bench: &Bench, now: base::Now) -> usize {
    let mut other = bench.client();
    other.now = now;
    (0..=COUNT).take_while(|_| other.get("q", true).starts_with("got")).count()
}

fn plain() -> Arguments {
    Arguments::of(|_| ())
}

fn stream() -> Arguments {
    Arguments::of(|table| _ = table.put("x-queue-type", Value::LongString(b"stream")))
}

/// How many long messages were delivered.
fn deliveries(told: &[String]) -> usize {
    let bodies = told.iter().filter_map(|line| line.strip_prefix("deliver")?.split_once(": "));
    bodies.filter(|(_, body)| body.len() == LONG).count()
}

#[test]
fn long_messages_of_many_consumers_are_read_as_there_is_room_for_them() {
    let from_first = Arguments::of(|table| _ = table.put("x-stream-offset", Value::LongString(b"first")));
    for (queue, consumer) in [(plain(), plain()), (stream(), from_first)] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold_bench(&disk, &queue);
        let mut client = consuming(&bench, &disk, &consumer);
        let size = client.session.output().size();
        assert!((LONG..OUTPUT_BACKLOG_SIZE_MAX + 2 * LONG).contains(&size), "{size} bytes wait");
        client.take_output();
        let is_due = client.session.deadline().is_some_and(|deadline| deadline <= client.now.monotonic);
        assert!(is_due, "it goes on once the client has taken its messages");
        client.is_stuck = false;
        assert_eq!(deliveries(&client.take()), COUNT);
        assert!(!client.session.is_busy());
    }
}

#[test]
fn what_was_not_read_yet_is_there_for_others_when_its_channel_or_connection_ends() {
    for is_lost in [false, true] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold_bench(&disk, &plain());
        let mut client = consuming(&bench, &disk, &plain());
        if is_lost {
            client.lose();
        } else {
            client.send(2, ChannelClose::default());
            client.is_stuck = false;
            client.settle();
        }
        assert_eq!(others_get(&bench, bench.now), COUNT, "lost {is_lost}");
    }
}

#[test]
fn the_same_when_a_client_that_takes_nothing_has_had_messages_for_too_long() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold_bench(&disk, &plain());
    let mut client = consuming(&bench, &disk, &plain());
    // RabbitMQ's time for an acknowledgement, and the look for it.
    client.now = client.now.plus_ms(1_800_000 + 61_000);
    client.session.wake(client.now);
    client.settle();
    assert_eq!(others_get(&bench, client.now), COUNT);
}

#[test]
fn the_same_when_its_consumer_is_cancelled_while_it_is_looked_how_long_it_is() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold_bench(&disk, &plain());
    let mut client = stuck(&bench);
    let arguments = plain();
    let jobs = send_cold(&mut client, &disk, 2, ["0", "1", "2", "3"].map(|tag| consume(tag, &arguments)));
    assert_eq!(jobs.len(), 4);
    drop(send_cold(&mut client, &disk, 2, [Cancel { consumer_tag: short("3"), no_wait: false }]));
    jobs.into_iter().for_each(|job| job());
    client.settle();
    assert_eq!(others_get(&bench, client.now), COUNT - client.session.output().size() / LONG);
}

#[test]
fn the_same_when_its_channel_ends_while_reads_of_others_are_slow() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold_bench(&disk, &plain());
    let mut client = stuck(&bench);
    let arguments = plain();
    let mut jobs = send_cold(&mut client, &disk, 2, ["0", "1", "2"].map(|tag| consume(tag, &arguments)));
    jobs.extend(send_cold(&mut client, &disk, 3, [consume("3", &arguments)]));
    jobs.into_iter().for_each(|job| job());
    client.session.wake(client.now);
    let slow: Vec<_> = std::iter::from_fn(|| client.session.take_job()).collect();
    assert_eq!(slow.len(), 3, "there is no room for the fourth");
    client.send(3, ChannelClose::default());
    assert_eq!(others_get(&bench, client.now), COUNT - slow.len());
}

#[test]
fn a_get_that_waits_for_room_goes_on() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold_bench(&disk, &plain());
    let mut client = stuck(&bench);
    let arguments = plain();
    let mut jobs = send_cold(&mut client, &disk, 2, ["0", "1", "2"].map(|tag| consume(tag, &arguments)));
    jobs.extend(send_cold(&mut client, &disk, 3, [Get { queue: short("q"), no_ack: true, ..Get::default() }]));
    assert!(!client.session.wants_input(), "what follows waits");
    jobs.into_iter().for_each(|job| job());
    client.settle();
    client.is_stuck = false;
    assert!(client.take().iter().any(|line| line.starts_with("got")));
    assert!(client.session.wants_input() && !client.session.is_busy());
}

/// Gives the session methods of channel 1 while nothing is in memory; nothing that this leads to is begun.
fn receive_cold<'m>(client: &mut Client, disk: &FaultyDisk, methods: impl IntoIterator<Item = Method<'m>>) {
    disk.fail(Failure::error(Operation::Read, EAGAIN));
    let mut bytes = bytes::BytesMut::new();
    methods.into_iter().for_each(|method| put(&mut bytes, 1, method));
    let now = client.now;
    client.session.receive(&mut bytes, now).expect("taken");
    disk.heal();
}

#[test]
fn a_consumer_that_waits_for_what_another_was_promised_goes_on_when_that_gets_less_or_goes() {
    for is_cancelled in [false, true] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = on_disk(&disk);
        let mut client = bench.client();
        ["q", "r"].into_iter().for_each(|name| client.simple_queue(name));
        client.publish_with(to("q"), persistent(), b"first");
        client.publish_with(to("r"), persistent(), b"second");
        client.send(1, Qos { prefetch_count: 10, global: true, ..Qos::default() });
        client.take();
        let arguments = plain();
        receive_cold(&mut client, &disk, [consume("a", &arguments).into()]);
        let of_another = Consume { queue: short("r"), ..consume("b", &arguments) };
        receive_cold(&mut client, &disk, [of_another.into()]);
        if is_cancelled {
            receive_cold(&mut client, &disk, [Cancel { consumer_tag: short("a"), no_wait: false }.into()]);
        }
        let told = client.take();
        assert!(told.iter().any(|line| line.ends_with("to b: second")), "cancelled {is_cancelled}: {told:?}");
    }
}

#[test]
fn the_next_of_single_active_consumers_begins_with_what_the_last_had_not_read() {
    for end in ["basic.cancel", "channel.close", "the connection is lost"] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = on_disk(&disk);
        let (mut client, mut other) = (bench.client(), bench.client());
        let single = Arguments::of(|table| _ = table.put("x-single-active-consumer", Value::Bool(true)));
        assert_eq!(client.queue("q", true, &single), ["queue q 0/0"]);
        ["1", "2"].into_iter().for_each(|body| client.publish_with(to("q"), persistent(), body.as_bytes()));
        client.send(1, Qos { prefetch_count: 1, ..Qos::default() });
        client.take();
        let arguments = plain();
        receive_cold(&mut client, &disk, [consume("a", &arguments).into()]);
        other.send(1, consume("b", &arguments));
        assert_eq!(other.take(), ["basic.consume-ok"]);
        match end {
            "basic.cancel" => {
                receive_cold(&mut client, &disk, [Cancel { consumer_tag: short("a"), no_wait: false }.into()]);
            }
            "channel.close" => receive_cold(&mut client, &disk, [ChannelClose::default().into()]),
            _ => client.session.closed(client.now),
        }
        // Before the first session is driven on.
        assert_eq!(other.take(), ["deliver 1 to b: 1", "deliver 2 to b: 2"], "{end}");
    }
}
