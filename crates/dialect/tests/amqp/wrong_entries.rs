//! Entries of queues that were written over, or are those of another place: nothing of them is believed, and no message is lost with them.

use std::path::{Path, PathBuf};

use format::lane_entry::LANE_ENTRY_SIZE;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use wire::amqp::method::basic::{Ack, Consume, Publish, Qos};
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::QueueBind;
use wire::amqp::table::{TableWriter, Value};

use crate::client::{Arguments, Bench, Client, START, persistent, short, to};
use crate::entries::{EIO, bodies, cold, counts, on_disk, pass, with_retention};

const BLOCK: usize = 4096;
const ENTRY: u64 = LANE_ENTRY_SIZE as u64;
const LOG: &str = "/data/commitlog/00000000000000000000";

/// A first file of entries for each lane, in the order of their queues' numbers.
struct Files<'a> {
    disk: &'a FaultyDisk,
    paths: Vec<PathBuf>,
}

type Change = fn(&Files<'_>);

impl<'a> Files<'a> {
    fn of(disk: &'a FaultyDisk) -> Self {
        let mut paths = Vec::new();
        let list = |folder: &Path| {
            let mut names = Disk::new(disk.clone()).list(folder).expect("a folder");
            names.sort_by_key(|name| name.parse::<u32>().expect("a number"));
            names.into_iter().map(|name| folder.join(name)).collect::<Vec<_>>()
        };
        for queue in list(Path::new("/data/sluice/queues")) {
            paths.extend(list(&queue).iter().map(|lane| lane.join("0".repeat(20))));
        }
        Self { disk, paths }
    }

    fn read(&self, number: usize, position: u64, size: usize) -> Vec<u8> {
        read(self.disk, &self.paths[number], position, size)
    }

    fn write(&self, number: usize, position: u64, bytes: &[u8]) {
        write(self.disk, &self.paths[number], position, bytes);
    }

    /// Changes one entry.
    fn change(&self, number: usize, offset: u64, change: impl FnOnce(&mut [u8])) {
        let mut entry = self.read(number, offset * ENTRY, LANE_ENTRY_SIZE);
        change(&mut entry);
        self.write(number, offset * ENTRY, &entry);
    }

    /// Where the record of an entry lies.
    fn place(&self, number: usize, offset: u64) -> u64 {
        u64::from_be_bytes(self.read(number, offset * ENTRY, 8).try_into().expect("eight"))
    }
}

fn read(disk: &FaultyDisk, path: &Path, position: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    Disk::new(disk.clone()).open(path).expect("opens").read_at(&mut bytes, position).expect("reads");
    bytes
}

fn write(disk: &FaultyDisk, path: &Path, position: u64, bytes: &[u8]) {
    Disk::new(disk.clone()).open(path).expect("opens").write_at(bytes, position).expect("writes");
}

/// The broker is stopped in good order and started again once its files have been changed.
fn changed<'a>(disk: &'a FaultyDisk, bench: Bench, change: impl FnOnce(&Files<'a>)) -> Bench {
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    change(&Files::of(disk));
    on_disk(disk)
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:06}")).collect()
}

/// So many messages in each of some queues, in turn.
fn fill(client: &mut Client, queues: &[&str], count: usize) {
    for body in numbers(count) {
        queues.iter().for_each(|queue| client.publish_with(to(queue), persistent(), body.as_bytes()));
    }
}

/// What a queue has, to the last.
fn drained(bench: &Bench, queue: &str) -> Vec<String> {
    bodies(&bench.client().consume(queue, "c", true)).into_iter().map(str::to_owned).collect()
}

fn stream(fill: impl FnOnce(&mut TableWriter<'_>)) -> Arguments {
    Arguments::of(|table| {
        table.put("x-queue-type", Value::LongString(b"stream"));
        fill(table);
    })
}

/// Asks for messages of the stream `q`, and gives what is said at once.
fn read_stream(client: &mut Client, from: Value<'_>) -> Vec<String> {
    client.send(1, Qos { prefetch_count: 500, ..Qos::default() });
    client.take();
    let arguments = Arguments::of(|table| _ = table.put("x-stream-offset", from));
    let consume = Consume { queue: short("q"), consumer_tag: short("c"), ..Consume::default() };
    client.send(1, Consume { arguments: arguments.table(), ..consume });
    client.take()
}

#[test]
fn all_messages_of_a_queue_come_in_order_whatever_was_written_over_its_entries() {
    // Beside the queue there is one whose messages expire.
    let changes: [(&str, Change); 8] = [
        ("zeros", |files| files.write(0, 0, &[0; BLOCK])),
        ("what would be a time of long ago", |files| files.write(0, 0, &[0x21; BLOCK])),
        ("what would be a time to come", |files| files.write(0, 4096, &[0x5a; BLOCK])),
        ("entries that expire", |files| files.write(0, 0, &files.read(1, 0, BLOCK))),
        ("its own, a block further on", |files| files.write(0, 4096, &files.read(0, 0, BLOCK))),
        ("its own, a block before", |files| files.write(0, 0, &files.read(0, 4096, BLOCK))),
        ("the entry before", |files| files.write(0, ENTRY, &files.read(0, 0, LANE_ENTRY_SIZE))),
        ("one bit of a size", |files| files.change(0, 250, |entry| entry[8] ^= 0x80)),
    ];
    for (what, change) in changes {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold(&disk, 0, |client| {
            client.queue("q", true, &Arguments::of(|table| _ = table.put("x-max-length-bytes", Value::I32(1 << 20))));
            client.queue("short", true, &Arguments::of(|table| _ = table.put("x-message-ttl", Value::I32(1000))));
            fill(client, &["q", "short"], 400);
        });
        let mut bench = changed(&disk, bench, change);
        pass(&mut bench, 10);
        assert_eq!(drained(&bench, "q"), numbers(400), "{what}");
    }
}

#[test]
fn messages_become_dead_letters_though_a_block_has_entries_of_a_queue_without_time_to_live() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk, 0, |client| {
        client.simple_queue("other");
        client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(1000)));
        fill(client, &["q", "other"], 300);
    });
    let mut bench = changed(&disk, bench, |files| files.write(1, 0, &files.read(0, 0, BLOCK)));
    pass(&mut bench, 100);
    assert_eq!((&*counts(&bench, "q"), &*counts(&bench, "dead")), ("queue q 0/0", "queue dead 300/0"));
}

#[test]
fn a_message_in_many_queues_is_given_at_its_place_in_each() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk, 0, |client| {
        let kind = short("fanout");
        client.send(1, ExchangeDeclare { exchange: short("fan"), kind, durable: true, ..ExchangeDeclare::default() });
        client.take();
        for number in 0..40 {
            let name = format!("q{number}");
            client.simple_queue(&name);
            client.send(1, QueueBind { queue: short(&name), exchange: short("fan"), ..QueueBind::default() });
            client.take();
        }
        for body in numbers(5) {
            client.publish_with(
                Publish { exchange: short("fan"), ..Publish::default() },
                persistent(),
                body.as_bytes(),
            );
        }
    });
    let bench = changed(&disk, bench, |files| files.write(0, ENTRY, &files.read(0, 0, LANE_ENTRY_SIZE)));
    assert_eq!(drained(&bench, "q0"), numbers(5));
}

#[test]
fn a_stream_has_every_message_though_entries_are_wrong_from_whatever_place_or_time_it_is_read() {
    let changes: [Change; 2] =
        [|files| files.change(0, 250, |entry| entry[8] ^= 0x80), |files| files.change(0, 150, |entry| entry[1] ^= 1)];
    for (change, from) in changes.into_iter().flat_map(|change| {
        let since = Value::Timestamp(START.wall.0 / 1000 - 100);
        [(change, Value::LongString(b"first")), (change, since)]
    }) {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold(&disk, 0, |client| {
            client.queue("q", true, &stream(|table| _ = table.put("x-max-length-bytes", Value::I32(1 << 20))));
            fill(client, &["q"], 300);
        });
        let mut bench = changed(&disk, bench, change);
        pass(&mut bench, 10);
        assert_eq!(bodies(&read_stream(&mut bench.client(), from)), numbers(300));
    }
}

/// The message and its entry are damaged: those behind it do not wait for it.
#[test]
fn what_stands_for_a_lost_message_keeps_none_behind_it_from_expiring() {
    let lose_first = |files: &Files<'_>| {
        let number = files.paths.len() - 1;
        let checksum_at = files.place(number, 0) + 8;
        write(files.disk, Path::new(LOG), checksum_at, &[0xff; 4]);
        files.change(number, 0, |entry| entry.fill(0));
    };
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk, 5, |client| client.dying_queue(|table| _ = table.put("x-message-ttl", Value::I32(1000))));
    let mut bench = changed(&disk, bench, lose_first);
    pass(&mut bench, 10);
    assert_eq!((&*counts(&bench, "q"), &*counts(&bench, "dead")), ("queue q 0/0", "queue dead 4/0"));

    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk, 5, |client| {
        client.queue("q", true, &stream(|table| _ = table.put("x-max-age", Value::LongString(b"1s"))));
    });
    let mut bench = changed(&disk, bench, lose_first);
    bench.client().publish_with(to("q"), persistent(), b"new");
    pass(&mut bench, 100);
    assert_eq!(counts(&bench, "q"), "queue q 0/0");
}

#[test]
fn a_message_that_cannot_be_read_while_entries_are_made_again_is_not_lost_once_it_can() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = cold(&disk, 0, |client| {
        client.simple_queue("q");
        client.simple_queue("other");
        fill(client, &["q"], 50);
        fill(client, &["other"], 400);
    });
    let mut place = 0;
    let bench = changed(&disk, bench, |files| {
        files.change(0, 1, |entry| entry[7] ^= 1);
        place = files.place(0, 40);
    });
    let mut client = bench.client();
    assert_eq!(client.get("q", true), "got 1, 49 more: 000000");
    // Nobody comes to message 40 while this lasts.
    disk.fail(Failure::unreadable("commitlog", place + 60..place + 62, EIO));
    assert_eq!(client.get("q", true), "got 2, 48 more: 000001");
    disk.heal();
    assert_eq!(bodies(&client.consume("q", "c", true)), numbers(50)[2..]);
}

/// The log is damaged beside it, so that it cannot be told what the entry was: the message may be whole.
#[test]
fn a_queue_is_held_up_at_an_entry_that_cannot_be_made_again() {
    let arguments = [
        Arguments::of(|_| ()),
        Arguments::of(|table| _ = table.put("x-single-active-consumer", Value::Bool(true))),
        stream(|_| ()),
    ];
    for (kind, arguments) in arguments.into_iter().enumerate() {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold(&disk, 0, |client| {
            client.queue("q", true, &arguments);
            client.simple_queue("other");
            fill(client, &["q", "other"], 10);
        });
        let mut sound = Vec::new();
        let mut bench = changed(&disk, bench, |files| {
            write(files.disk, Path::new(LOG), files.place(1, 5), &[0x5a; 8]);
            sound = files.read(0, 5 * ENTRY, LANE_ENTRY_SIZE);
            files.change(0, 5, |entry| entry[7] ^= 1);
        });
        let mut client = bench.client();
        let mut said = match kind {
            2 => read_stream(&mut client, Value::LongString(b"first")),
            _ => client.consume("q", "c", true),
        };
        pass(&mut bench, 10);
        client.now = bench.now;
        said.extend(client.take());
        assert_eq!(bodies(&said), numbers(5), "kind {kind}");
        client.lose();
        let bench = changed(&disk, bench, |files| files.write(0, 5 * ENTRY, &sound));
        let mut client = bench.client();
        let rest = match kind {
            2 => read_stream(&mut client, Value::I64(5)),
            _ => client.consume("q", "c", true),
        };
        assert_eq!(bodies(&rest), numbers(10)[5..], "kind {kind}");
    }
}

#[test]
fn retention_takes_nothing_that_is_in_a_queue_though_its_first_block_has_entries_of_another() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = with_retention(&disk);
    let mut client = bench.client();
    client.simple_queue("q");
    client.simple_queue("other");
    for queue in ["q", "other"] {
        (0..300).for_each(|_| client.publish_with(to(queue), persistent(), &[b'x'; 500]));
    }
    client.lose();
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    let files = Files::of(&disk);
    files.write(0, 0, &files.read(1, 0, BLOCK));
    let bench = with_retention(&disk);
    bench.broker.store().checkpoint().expect("written");
    let removed = bench.broker.retention.apply(bench.now).expect("applied").removed;
    assert_eq!((removed, drained(&bench, "q").len()), (0, 300));
}

#[test]
fn a_start_passes_over_no_message_whose_entry_says_that_it_is_before_the_log() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = with_retention(&disk);
    let mut client = bench.client();
    client.simple_queue("gone");
    client.simple_queue("q");
    (0..300).for_each(|_| client.publish_with(to("gone"), persistent(), &[b'x'; 1000]));
    client.consume("gone", "c", true);
    fill(&mut client, &["q"], 10);
    client.lose();
    bench.broker.keep(bench.now).expect("kept");
    bench.broker.checkpoint(bench.now).expect("written");
    assert!(bench.broker.retention.apply(bench.now).expect("applied").removed > 0);
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    let files = Files::of(&disk);
    files.change(files.paths.len() - 1, 0, |entry| entry[..8].fill(0));
    assert_eq!(drained(&with_retention(&disk), "q"), numbers(10));
}

/// In good order, or without a last word. Entry 21 lies in two sectors.
#[test]
fn a_start_finds_the_end_of_a_queue_though_its_last_entries_are_wrong() {
    let cases = [(0, 5), (3, 5), (4, 5), (21, 40), (20, 22)].into_iter().flat_map(|(from, count)| {
        let is_torn = from == 20;
        [(from, count, true)].into_iter().chain((!is_torn).then_some((from, count, false)))
    });
    for (from, count, is_in_order) in cases {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = cold(&disk, count, |client| client.simple_queue("q"));
        if is_in_order {
            bench.broker.close(bench.now).expect("closes");
        } else {
            bench.broker.checkpoint(bench.now).expect("written");
            let mut client = bench.client();
            client.publish_with(to("q"), persistent(), b"behind the checkpoint");
            drop(client);
            bench.broker.keep(bench.now).expect("kept");
        }
        drop(bench);
        (from..count as u64).for_each(|offset| Files::of(&disk).change(0, offset, |entry| entry[0] ^= 0x40));
        let bench = on_disk(&disk);
        bench.client().publish_with(to("q"), persistent(), b"new");
        let mut expected: Vec<_> = (0..count).map(|number| number.to_string()).collect();
        expected.extend((!is_in_order).then(|| "behind the checkpoint".to_owned()));
        expected.push("new".to_owned());
        assert_eq!(drained(&bench, "q"), expected, "from {from} of {count}, in order: {is_in_order}");
    }
}

/// In good order, or without a last word.
#[test]
fn bytes_behind_the_last_entry_of_a_queue_are_no_messages() {
    for (count, is_in_order) in [(3, true), (100, true), (170, true), (3, false), (100, false), (170, false)] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let arguments = Arguments::of(|table| _ = table.put("x-max-length", Value::I32(count)));
        let bench = cold(&disk, count as usize, |client| _ = client.queue("q", true, &arguments));
        if is_in_order {
            bench.broker.close(bench.now).expect("closes");
        }
        drop(bench);
        Files::of(&disk).write(0, count as u64 * ENTRY, &[0x21; 2 * BLOCK]);
        let mut bench = on_disk(&disk);
        pass(&mut bench, 2);
        assert_eq!(counts(&bench, "q"), format!("queue q {count}/0"), "in order: {is_in_order}");
        bench.client().publish_with(to("q"), persistent(), b"new");
        pass(&mut bench, 2);
        let expected: Vec<_> = (1..count).map(|number| number.to_string()).chain(["new".to_owned()]).collect();
        assert_eq!(drained(&bench, "q"), expected, "{count}, in order: {is_in_order}");
    }
}

/// Their entries were written over, and their records are damaged.
#[test]
fn no_more_is_dropped_than_a_queue_is_too_long_though_lost_messages_lie_within() {
    for (lost, left) in [([0, 1, 2], 9), ([1, 2, 3], 8)] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let arguments = Arguments::of(|table| _ = table.put("x-max-length", Value::I32(10)));
        let bench = cold(&disk, 10, |client| _ = client.queue("q", true, &arguments));
        let mut bench = changed(&disk, bench, |files| {
            for offset in lost {
                write(files.disk, Path::new(LOG), files.place(0, offset) + 8, &[0xff; 4]);
                files.write(0, offset * ENTRY, &[0x21; LANE_ENTRY_SIZE]);
            }
        });
        let mut client = bench.client();
        ["new 1", "new 2"].iter().for_each(|body| client.publish_with(to("q"), persistent(), body.as_bytes()));
        pass(&mut bench, 3);
        let found = drained(&bench, "q");
        assert_eq!((found.len(), found.contains(&"4".to_owned())), (left, true), "without {lost:?}: {found:?}");
    }
}

#[test]
fn lost_messages_count_as_dropped_where_a_queue_is_too_long() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = cold(&disk, 0, |client| {
        client.queue("q", true, &Arguments::of(|table| _ = table.put("x-max-length", Value::I32(10))));
        fill(client, &["q"], 10);
    });
    let files = Files::of(&disk);
    for offset in 0..5 {
        write(&disk, Path::new(LOG), files.place(0, offset) + 8, &[0xff; 4]);
        files.change(0, offset, |entry| entry.fill(0));
    }
    let mut client = bench.client();
    ["new 1", "new 2"].iter().for_each(|body| client.publish_with(to("q"), persistent(), body.as_bytes()));
    pass(&mut bench, 3);
    let expected: Vec<_> = numbers(10)[5..].iter().cloned().chain(["new 1".to_owned(), "new 2".to_owned()]).collect();
    assert_eq!(drained(&bench, "q"), expected);
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Writes over some entries of the first file, with the bits of others, with zeros, or with blocks of either file.
    fn spoil(&mut self, files: &Files<'_>, count: u64) {
        for _ in 0..self.below(4) {
            let at = self.below(count);
            match self.below(3) {
                0 => files.change(0, at, |entry| entry[self.below(ENTRY) as usize] ^= 1 << self.below(8)),
                1 => files.change(0, at, |entry| entry.fill(0)),
                _ => {
                    let (from, to) = (self.below(2), self.below(2));
                    let block = files.read(self.below(2) as usize, from * BLOCK as u64, BLOCK);
                    files.write(0, to * BLOCK as u64, &block);
                }
            }
        }
    }
}

#[test]
fn all_come_in_order_whatever_entries_say_and_however_often_the_disk_is_gone() {
    for seed in 1..=20_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let has_priorities = random.below(2) == 0;
        let count = 350 + random.below(300) as usize;
        let mut bench = cold(&disk, 0, |client| {
            let arguments = Arguments::of(|table| {
                if has_priorities {
                    table.put("x-max-priority", Value::I32(2));
                }
            });
            client.queue("q", true, &arguments);
            client.simple_queue("other");
            fill(client, &["q", "other"], count);
        });
        random.spoil(&Files::of(&disk), count as u64);
        let mut client = bench.client();
        client.send(1, Qos { prefetch_count: 1 + random.below(40) as u16, ..Qos::default() });
        client.take();
        let mut said = client.consume("q", "c", false);
        for _ in 0..4000 {
            if bodies(&said).len() == count {
                break;
            }
            match random.below(12) {
                0 => {
                    let of = ["sluice/queues", "commitlog", ""][random.below(3) as usize];
                    disk.fail(Failure::error(Operation::Read, EIO).at(of));
                    disk.fail(Failure::error(Operation::ReadPastCache, EIO));
                }
                1 | 2 => disk.heal(),
                _ => {}
            }
            bench.pass(200);
            client.now = bench.now;
            client.send(1, Ack { delivery_tag: 0, multiple: true });
            said.extend(client.take());
        }
        assert_eq!(bodies(&said), numbers(count), "seed {seed}");
    }
}
