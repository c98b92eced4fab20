//! A place on the disk that cannot be read back costs the record that lies there, and nothing else.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;
use std::sync::Arc;

use base::{LogOffset, Now, QueueId};
use broker::{Fetch, FetchStatus, Filter};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use support::{Bench, layout, message, open_on};
use testkit::{ManualHost, at, broker_options};

const START: Now = at(1_700_000_000_000);
const EIO: i32 = 5;

/// What is old is read from the disk.
fn open(disk: &FaultyDisk, now: Now) -> Bench {
    let layout = storage::Options {
        disk: Disk::new(disk.clone()),
        recent_size: 1,
        ..layout(Path::new("/data"), vec![1000, 1000])
    };
    open_on(layout, now, |_| ())
}

fn lose(disk: &FaultyDisk, place: LogOffset) {
    // Some bytes within the record, which has a page of its own in none of these tests.
    disk.fail(Failure::unreadable("commitlog", place.0 + 60..place.0 + 62, EIO));
}

fn bodies(bench: &Bench, offset: i64) -> Vec<String> {
    let fetched = bench.fetch("orders", 0, offset, Filter::All);
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(format::record::Record::decode(bytes).expect("a record").body).trim_end().to_owned()
    };
    fetched.records().map(text).collect()
}

#[test]
fn a_pull_passes_a_record_that_cannot_be_read_and_serves_its_neighbours() {
    // Close together, where whole blocks are read, and far apart, where single records are.
    for (size, between) in [(1000, 0), (100, 20_000)] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let bench = open(&disk, START);
        let places: Vec<_> = (0..30)
            .map(|number| {
                bench.publish("others", &message(&vec![b'x'; between], b"")).expect("stored");
                let body = format!("{number:size$}");
                bench.publish("orders", &message(body.as_bytes(), b"KEYS\x01k\x02")).expect("stored")
            })
            .collect();
        for _ in 0..100 {
            bench.publish("others", &message(&[b'x'; 1000], b"")).expect("stored");
        }
        lose(&disk, places[7]);
        let expected: Vec<_> = (0..30).filter(|number| *number != 7).map(|number| number.to_string()).collect();
        let found: Vec<_> = bodies(&bench, 0).iter().map(|body| body.trim().to_owned()).collect();
        assert_eq!((found, bench.broker.metrics().records_damaged.get()), (expected, 1));
        let alone = bench.fetch("orders", 0, 7, Filter::All);
        assert_eq!((alone.status, alone.next.0, alone.count), (FetchStatus::Found, 30, 22));
        // Where waiting is not allowed, the disk is asked elsewhere.
        let fetch = Fetch {
            topic: &bench.broker.catalog.topic("orders").expect("is there"),
            queue: QueueId(0),
            offset: 7,
            count_max: 1,
            size_max: 1000,
            filter: &Filter::All,
        };
        assert!(bench.broker.fetcher.fetch_cached(&fetch).expect("no refusal").is_none());
        assert_eq!(bench.broker.store().record_at(places[7]).expect("no failure"), None);
        assert!(bench.broker.store().record_at(places[8]).expect("reads").is_some());
        assert_eq!(bench.broker.metrics().records_damaged.get(), 1, "told once");
    }
}

#[test]
fn delivery_passes_a_record_that_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open(&disk, START);
    let publish = |body: &[u8], level: &[u8]| bench.publish("orders", &message(body, level)).expect("stored");
    publish(b"one", b"DELAY\x011\x02");
    let lost = publish(b"lost", b"DELAY\x011\x02");
    publish(b"two", b"DELAY\x011\x02");
    publish(b"other level", b"DELAY\x012\x02");
    publish(b"now", b"");
    lose(&disk, lost);
    bench.advance(1000);
    assert_eq!(bodies(&bench, 0), ["now", "one", "two", "other level"]);
    assert_eq!(bench.broker.metrics().records_damaged.get(), 1);
    bench.advance(1000);
    assert_eq!(bodies(&bench, 0).len(), 4);
}

#[test]
fn a_level_whose_queue_cannot_be_read_holds_up_no_other_and_goes_on_when_it_can() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open(&disk, START);
    for (body, level) in [(&b"one"[..], &b"DELAY\x011\x02"[..]), (b"two", b"DELAY\x012\x02")] {
        bench.publish("orders", &message(body, level)).expect("stored");
    }
    bench.broker.close(START).expect("closes");
    drop(bench);
    let mut bench = open(&disk, START);
    // A time-out of the disk.
    disk.fail(Failure::unreadable("SCHEDULE_TOPIC_XXXX/0", 0..20, 110));
    for _ in 0..3 {
        bench.advance(1000);
    }
    assert_eq!((bodies(&bench, 0), bench.broker.metrics().delayed_failures.get()), (vec!["two".to_owned()], 3));
    disk.heal();
    bench.advance(1000);
    assert_eq!(bodies(&bench, 0), ["two", "one"]);
}

#[test]
fn a_pull_gets_all_messages_though_entries_of_them_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open(&disk, START);
    for number in 0..10 {
        bench.publish("orders", &message(number.to_string().as_bytes(), b"")).expect("stored");
    }
    bench.broker.close(START).expect("closes");
    drop(bench);
    let bench = open(&disk, START);
    disk.fail(Failure::unreadable("orders/0", 120..130, EIO));
    let mut found = Vec::new();
    while found.len() < 10 {
        found.extend(bodies(&bench, found.len() as i64));
    }
    assert_eq!(found, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

/// The broker of a directory in which a small file cannot be read, after an orderly stop or a kill.
fn open_without(file: &str, is_killed: bool) -> (FaultyDisk, Result<broker::Broker, String>) {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open(&disk, START);
    bench.publish("orders", &message(b"one", b"")).expect("stored");
    if is_killed {
        bench.broker.checkpoint(START).expect("a checkpoint");
    } else {
        bench.broker.close(START).expect("closes");
    }
    drop(bench);
    disk.fail(Failure::unreadable(file, 0..4096, EIO));
    let opened = start(&disk);
    (disk, opened)
}

fn start(disk: &FaultyDisk) -> Result<broker::Broker, String> {
    let layout = storage::Options { disk: Disk::new(disk.clone()), ..layout(Path::new("/data"), vec![1000]) };
    testkit::open_broker(broker_options(), layout, Arc::new(ManualHost::default()), START)
        .map_err(|error| error.to_string())
}

#[test]
fn a_checkpoint_that_cannot_be_read_stops_the_start_and_without_it_all_is_there() {
    for is_killed in [false, true] {
        let (disk, opened) = open_without("checkpoint", is_killed);
        let told = opened.map(drop).expect_err("the start is refused");
        assert!(told.contains("/data/checkpoint") && told.contains("or remove it"), "{told}");
        disk.heal();
        Disk::new(disk.clone()).remove_file(Path::new("/data/checkpoint")).expect("removes");
        let bench = Bench { broker: start(&disk).expect("opens"), now: START };
        assert_eq!(bodies(&bench, 0), ["one"], "killed: {is_killed}");
    }
}

/// What it tells of may be nowhere else.
#[test]
fn a_snapshot_of_the_state_that_cannot_be_read_stops_the_start_unless_that_passes() {
    for is_killed in [false, true] {
        let (disk, opened) = open_without("data/state", is_killed);
        let told = opened.map(drop).expect_err("the start is refused");
        assert!(told.contains("/data/state") && told.contains("Start again once the disk can be read"), "{told}");
        disk.heal();
        for times in [1, 2] {
            disk.fail(Failure::unreadable("data/state", 0..4096, EIO).times(times));
            let bench = Bench { broker: start(&disk).expect("opens"), now: START };
            assert_eq!(bodies(&bench, 0), ["one"], "killed: {is_killed}");
        }
    }
}

#[test]
fn an_abort_file_that_cannot_be_read_stops_no_start() {
    let (disk, opened) = open_without("abort", true);
    let bench = Bench { broker: opened.expect("opens"), now: START };
    assert_eq!(bodies(&bench, 0), ["one"]);
    bench.broker.close(START).expect("closes");
    assert!(!Disk::new(disk).exists(Path::new("/data/abort")).expect("looks"), "an orderly stop");
}

/// One read fails once; asked again the disk answers. A message that waits for its time is worth asking again.
#[test]
fn one_passing_error_costs_no_delayed_message() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open(&disk, START);
    bench.publish("orders", &message(b"delayed", b"DELAY\x011\x02")).expect("stored");
    bench.publish("others", &message(&[b'x'; 1000], b"")).expect("stored");
    disk.fail(Failure::error(Operation::Read, EIO).at("commitlog").times(1));
    bench.advance(1000);
    disk.heal();
    (0..10).for_each(|_| bench.advance(1000));
    assert_eq!(bodies(&bench, 0), ["delayed"], "damaged: {}", bench.broker.metrics().records_damaged.get());
}
