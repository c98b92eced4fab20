//! Promises about long messages that have to be read from the disk: what they take is counted before they are read, and none is lost.

use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::session::Session;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::store_options;
use wire::amqp::method::basic::{Consume, Qos};
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

/// A client that takes nothing, with as many consumers of one message each on channel 2 as there are messages, while nothing is in memory.
fn consuming(bench: &Bench, disk: &FaultyDisk, arguments: &Arguments) -> Client {
    let mut client = bench.client();
    client.open(2);
    client.send(2, Qos { prefetch_count: 1, ..Qos::default() });
    client.take();
    client.is_stuck = true;
    disk.fail(Failure::error(Operation::Read, EAGAIN));
    let mut bytes = bytes::BytesMut::new();
    for number in 0..COUNT {
        let (tag, arguments) = (number.to_string(), arguments.table());
        put(&mut bytes, 2, Consume { queue: short("q"), consumer_tag: short(&tag), arguments, ..Consume::default() });
    }
    let now = client.now;
    client.session.receive(&mut bytes, now).expect("taken");
    disk.heal();
    client.settle();
    client
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
        let mut other = bench.client();
        for left in (0..COUNT).rev() {
            let got = other.get("q", true);
            assert!(got.contains(&format!(", {left} more")), "{:.60}, lost {is_lost}", got);
        }
    }
}
