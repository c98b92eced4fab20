//! Entries of queues that the disk does not give back, while the broker runs: whatever a queue does with its messages, it does it with those
//! too, and in their order.

use std::path::{Path, PathBuf};

use format::lane_entry::LANE_ENTRY_SIZE;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use testkit::store_options;
use wire::amqp::method::basic::{Ack, Consume, Qos};
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::{TableWriter, Value};

use crate::client::{Arguments, Bench, Client, START, persistent, short, to};

pub(crate) const EIO: i32 = 5;

pub(crate) fn on_disk(disk: &FaultyDisk) -> Bench {
    let store = storage::Options { disk: Disk::new(disk.clone()), recent_size: 1, ..store_options(Path::new("/data")) };
    Bench::over(store, tempfile::tempdir().expect("directory"), START)
}

/// The same, where retention takes all that it may.
pub(crate) fn with_retention(disk: &FaultyDisk) -> Bench {
    let store = storage::Options {
        disk: Disk::new(disk.clone()),
        recent_size: 1,
        segment_size: 64 * 1024,
        retention: storage::RetentionPolicy { size: Some(1), ..storage::RetentionPolicy::default() },
        ..store_options(Path::new("/data"))
    };
    Bench::over(store, tempfile::tempdir().expect("directory"), START)
}

/// A queue `q` with messages `0` and so on, in a broker that was started again since: nothing of it is in memory.
pub(crate) fn cold(disk: &FaultyDisk, count: usize, declare: impl FnOnce(&mut Client)) -> Bench {
    let bench = on_disk(disk);
    let mut client = bench.client();
    declare(&mut client);
    for number in 0..count {
        client.publish_with(to("q"), persistent(), number.to_string().as_bytes());
    }
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    on_disk(disk)
}

/// The same of a queue of priorities with so many messages `low`, and as many urgent ones, `high`, that came later.
pub(crate) fn with_urgent(disk: &FaultyDisk, count: usize, fill: impl FnOnce(&mut TableWriter<'_>)) -> Bench {
    cold(disk, 0, |client| {
        let arguments = Arguments::of(|table| {
            table.put("x-max-priority", Value::I32(2));
            fill(table);
        });
        client.queue("q", true, &arguments);
        for (priority, body) in [(0, "low"), (2, "high")] {
            let properties = wire::amqp::content::Properties { priority: Some(priority), ..persistent() };
            (0..count).for_each(|_| client.publish_with(to("q"), properties, body.as_bytes()));
        }
    })
}

pub(crate) fn with_arguments(fill: impl FnOnce(&mut TableWriter<'_>)) -> impl FnOnce(&mut Client) {
    |client| _ = client.queue("q", true, &Arguments::of(fill))
}

/// How many messages of a queue are ready, and its consumers.
pub(crate) fn counts(bench: &Bench, name: &str) -> String {
    let mut client = bench.client();
    client.send(1, QueueDeclare { queue: short(name), passive: true, ..QueueDeclare::default() });
    client.take().join("; ")
}

/// Lets seconds pass.
pub(crate) fn pass(bench: &mut Bench, seconds: usize) {
    (0..seconds).for_each(|_| bench.pass(1000));
}

/// Bodies of what was delivered.
pub(crate) fn bodies(said: &[String]) -> Vec<&str> {
    said.iter().filter_map(|line| line.split_once(": ")).map(|(_, body)| body).collect()
}

/// Writes over the entry at an offset of each queue.
fn overwrite(disk: &FaultyDisk, offset: u64, change: impl Fn(&mut [u8; LANE_ENTRY_SIZE])) {
    let position = offset * LANE_ENTRY_SIZE as u64;
    let disk = Disk::new(disk.clone());
    let mut folders = vec![PathBuf::from("/data/sluice/queues")];
    while let Some(folder) = folders.pop() {
        for name in disk.list(&folder).unwrap_or_default() {
            let path = folder.join(&name);
            let Some(file) = disk.open(&path).ok().filter(|_| name.len() == 20) else {
                folders.push(path);
                continue;
            };
            let mut bytes = [0; LANE_ENTRY_SIZE];
            file.read_at(&mut bytes, position).expect("reads");
            change(&mut bytes);
            file.write_at(&bytes, position).expect("writes");
        }
    }
}

#[test]
fn messages_expire_though_entries_cannot_be_read_and_become_dead_letters_in_order() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = cold(&disk, 300, |client| {
        client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(1000)));
    });
    disk.fail(Failure::unreadable("sluice/queues", 0..4096, EIO));
    pass(&mut bench, 10);
    assert_eq!((&*counts(&bench, "q"), &*counts(&bench, "dead")), ("queue q 0/0", "queue dead 300/0"));
    let mut client = bench.client();
    let letters: Vec<_> = (0..300).map(|_| client.get("dead", true)).collect();
    assert!(letters.iter().enumerate().all(|(number, letter)| letter.ends_with(&format!(": {number}"))));
}

#[test]
fn a_queue_stays_as_short_as_it_is_to_be_though_entries_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = cold(&disk, 300, with_arguments(|table| _ = table.put("x-max-length", Value::I32(300))));
    disk.fail(Failure::unreadable("sluice/queues", 0..4096, EIO));
    let mut client = bench.client();
    (0..1000).for_each(|_| client.publish_with(to("q"), persistent(), b"x"));
    pass(&mut bench, 10);
    assert_eq!(counts(&bench, "q"), "queue q 300/0");
}

#[test]
fn messages_with_damaged_entries_are_not_lost_when_their_queue_is_swept() {
    // All of it, and one bit.
    let changes: [fn(&mut [u8; LANE_ENTRY_SIZE]); 2] = [|bytes| bytes.fill(0), |bytes| bytes[7] ^= 1];
    for (number, change) in changes.into_iter().enumerate() {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold(&disk, 5, |client| {
            client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(1000)));
        });
        bench.broker.close(bench.now).expect("closes");
        drop(bench);
        overwrite(&disk, 1, change);
        let mut bench = on_disk(&disk);
        pass(&mut bench, 10);
        assert_eq!((&*counts(&bench, "q"), &*counts(&bench, "dead")), ("queue q 0/0", "queue dead 5/0"), "{number}");
    }
}

#[test]
fn what_is_urgent_comes_first_though_its_entries_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = with_urgent(&disk, 100, |_| ());
    disk.fail(Failure::unreadable("sluice/queues", 0..1000, EIO));
    let said = bench.client().consume("q", "c", true);
    assert_eq!(bodies(&said), [["high"; 100], ["low"; 100]].concat());
}

/// The disk is gone for a while, or the broker has no file descriptor left.
#[test]
fn one_consumer_gets_all_in_order_whatever_fails_for_a_while() {
    for (of, code) in [("sluice/queues", EIO), ("commitlog", EIO), ("commitlog", 24), ("", EIO)] {
        for is_single in [false, true] {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let single = |table: &mut TableWriter<'_>| {
                table.put("x-single-active-consumer", Value::Bool(is_single));
            };
            let mut bench = cold(&disk, 20, with_arguments(single));
            let mut client = bench.client();
            client.send(1, Qos { prefetch_count: 2, ..Qos::default() });
            client.take();
            disk.fail(Failure::error(Operation::Read, code).at(of).times(30));
            let mut said = client.consume("q", "c", false);
            disk.heal();
            for _ in 0..60 {
                bench.pass(100);
                client.now = bench.now;
                client.send(1, Ack { delivery_tag: 0, multiple: true });
                said.extend(client.take());
            }
            let expected: Vec<_> = (0..20).map(|number| number.to_string()).collect();
            assert_eq!(bodies(&said), expected, "error {code} of {of:?}, single active: {is_single}");
        }
    }
}

/// While nothing can be read a consumer costs little, and the log does not grow.
#[test]
fn a_consumer_of_a_disk_that_is_gone_tries_once_in_a_while() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = cold(&disk, 300, |client| {
        client.queue("q", true, &Arguments::of(|table| _ = table.put("x-max-priority", Value::I32(2))));
        let urgent = wire::amqp::content::Properties { priority: Some(2), ..persistent() };
        client.publish_with(to("q"), urgent, b"urgent");
    });
    disk.fail(Failure::error(Operation::Read, EIO));
    let (mut client, mut other) = (bench.client(), bench.client());
    client.consume("q", "c", true);
    other.consume("q", "d", true);
    bench.broker.keep(bench.now).expect("kept");
    let end = bench.broker.store().log_end();
    for _ in 0..100 {
        bench.pass(1000);
        for client in [&mut client, &mut other] {
            client.now = bench.now;
            assert_eq!(client.take(), [""; 0]);
        }
        bench.broker.keep(bench.now).expect("kept");
    }
    assert_eq!(bench.broker.store().log_end(), end);
    disk.heal();
    bench.pass(1000);
    (client.now, other.now) = (bench.now, bench.now);
    let said = [client.take(), other.take()].concat();
    assert_eq!((bodies(&said).len(), bodies(&said)[0]), (301, "urgent"));
}

#[test]
fn a_message_far_from_others_of_its_queue_is_not_lost_with_its_entry() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk, 1, |client| {
        client.simple_queue("other");
        client.simple_queue("q");
    });
    let mut client = bench.client();
    (0..12_000).for_each(|_| client.publish_with(to("other"), persistent(), b"x"));
    for body in [b"1", b"2"] {
        client.publish_with(to("q"), persistent(), body);
        (0..12_000).for_each(|_| client.publish_with(to("other"), persistent(), b"x"));
    }
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    overwrite(&disk, 1, |bytes| bytes[7] ^= 1);
    let mut client = on_disk(&disk).client();
    let got = [(); 3].map(|()| client.get("q", true));
    assert_eq!(got, ["got 1, 2 more: 0", "got 2, 1 more: 1", "got 3, 0 more: 2"]);
}

#[test]
fn a_stream_has_every_message_whatever_bit_of_its_entry_is_wrong() {
    for bit in 0..LANE_ENTRY_SIZE * 8 {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let stream = |table: &mut TableWriter<'_>| _ = table.put("x-queue-type", Value::LongString(b"stream"));
        let bench = cold(&disk, 5, with_arguments(stream));
        bench.broker.close(bench.now).expect("closes");
        drop(bench);
        overwrite(&disk, 1, |bytes| bytes[bit / 8] ^= 0x80 >> (bit % 8));
        let bench = on_disk(&disk);
        let mut client = bench.client();
        client.send(1, Qos { prefetch_count: 10, ..Qos::default() });
        client.take();
        let arguments = Arguments::of(|table| _ = table.put("x-stream-offset", Value::LongString(b"first")));
        let consume = Consume { queue: short("q"), consumer_tag: short("c"), ..Consume::default() };
        client.send(1, Consume { arguments: arguments.table(), ..consume });
        assert_eq!(bodies(&client.take()), ["0", "1", "2", "3", "4"], "bit {bit}");
    }
}

#[test]
fn what_is_urgent_comes_first_though_reads_fail_for_a_while() {
    for (of, times) in
        ["sluice/queues", "commitlog", ""].into_iter().flat_map(|of| (1..12).map(move |times| (of, times)))
    {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let mut bench = with_urgent(&disk, 3, |_| ());
        let mut client = bench.client();
        client.send(1, Qos { prefetch_count: 1, ..Qos::default() });
        client.take();
        disk.fail(Failure::error(Operation::Read, EIO).at(of).times(times));
        let mut said = client.consume("q", "c", false);
        for _ in 0..60 {
            bench.pass(100);
            client.now = bench.now;
            client.send(1, Ack { delivery_tag: 0, multiple: true });
            said.extend(client.take());
        }
        assert_eq!(bodies(&said), ["high", "high", "high", "low", "low", "low"], "{times} times of {of:?}");
    }
}

#[test]
fn messages_of_one_priority_expire_though_another_cannot_be_read_at_all() {
    for unreadable in ["sluice/queues/0/0", "sluice/queues/0/2"] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let mut bench = with_urgent(&disk, 3, |table| _ = table.put("x-message-ttl", Value::I32(1000)));
        // Nor can they be made again.
        [unreadable, "commitlog"].into_iter().for_each(|part| disk.fail(Failure::error(Operation::Read, EIO).at(part)));
        pass(&mut bench, 3);
        assert_eq!(counts(&bench, "q"), "queue q 3/0", "{unreadable}");
        disk.heal();
        pass(&mut bench, 3);
        assert_eq!(counts(&bench, "q"), "queue q 0/0", "{unreadable}");
    }
}

#[test]
fn retention_takes_nothing_that_is_in_a_queue_though_its_first_entry_says_that_it_is_elsewhere() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = with_retention(&disk);
    let mut client = bench.client();
    client.simple_queue("q");
    (0..300).for_each(|_| client.publish_with(to("q"), persistent(), &[b'x'; 1000]));
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    // 128 KiB further on.
    overwrite(&disk, 0, |bytes| bytes[5] ^= 2);
    let bench = with_retention(&disk);
    for _ in 0..10 {
        bench.broker.store().checkpoint().expect("written");
        assert_eq!(bench.broker.retention.apply(bench.now).expect("applied").removed, 0);
    }
    assert!(bench.client().get("q", true).starts_with("got 1, 299 more: x"));
}
