//! Promises about what is removed: nothing of it comes back.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;

use base::offset::AckPolicy;
use base::{Now, QueueId, TopicName};
use format::document::TopicDocument;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);
const SEGMENT_SIZE: u64 = 64 << 10;
/// What a program gets whose write fails.
const EIO: i32 = 5;

fn open(disk: &MemoryDisk) -> Bench {
    let options = storage::Options {
        disk: Disk::new(disk.clone()),
        segment_size: SEGMENT_SIZE,
        checkpoint_reserve: Some(4096),
        ..layout(Path::new("/data"), vec![1000])
    };
    open_on(options, START, |_| ())
}

fn put_topic(bench: &Bench) {
    let settings = TopicDocument { read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("made");
}

#[test]
fn a_commit_under_way_with_a_removal_leaves_no_offset() {
    let bench = open(&MemoryDisk::new());
    for _ in 0..200 {
        put_topic(&bench);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let offsets = &bench.broker.offsets;
                let group = format!("g{number}");
                scope.spawn(move || while offsets.commit("orders", &group, QueueId(0), 500).is_ok() {});
            }
            bench.broker.removals.topic("orders", START).expect("removed");
        });
        assert_eq!(bench.broker.offsets.groups_in("orders"), Vec::<String>::new());
    }
}

#[test]
fn a_commit_by_a_connection_that_has_the_offsets_at_hand_leaves_none_of_a_topic_that_goes() {
    let disk = MemoryDisk::new();
    let bench = open(&disk);
    for _ in 0..200 {
        put_topic(&bench);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let offsets = &bench.broker.offsets;
                let group = format!("g{}", number % 2);
                scope.spawn(move || {
                    let mut cursor = None;
                    let mut commit = |offset| offsets.commit_by(&mut cursor, ("orders", &group), QueueId(0), offset);
                    (0..).try_for_each(&mut commit).expect_err("until it is removed")
                });
            }
            scope.spawn(|| {
                (0..20).try_for_each(|_| bench.broker.offsets.keep_changes(START).map(|_| ())).expect("kept")
            });
            bench.broker.removals.topic("orders", START).expect("removed");
        });
        assert_eq!(bench.broker.offsets.groups_in("orders"), Vec::<String>::new());
    }
    bench.broker.offsets.keep_changes(START).expect("kept");
    bench.broker.store().write_staged().expect("writes");
    drop(bench);
    let bench = open(&disk);
    assert_eq!(bench.broker.offsets.groups_in("orders"), Vec::<String>::new(), "nor of what the log says");
}

#[test]
fn a_removal_cut_short_by_a_full_disk_is_finished_with_the_offsets() {
    let disk = MemoryDisk::new();
    let bench = open(&disk);
    put_topic(&bench);
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    // Their offsets take a record that does not fit into the rest of the segment.
    for number in 0..600 {
        let group = format!("group-with-a-name-of-its-own-{number}");
        bench.broker.offsets.commit("orders", &group, QueueId(0), 1).expect("commits");
    }
    bench.broker.offsets.keep_changes(START).expect("kept");
    let store = bench.broker.store();
    store.write_staged().expect("writes");
    store.prepare_next_segment().expect("room is kept aside");
    let left = || SEGMENT_SIZE - store.watermarks().written().0 % SEGMENT_SIZE;
    while !(8 << 10..40 << 10).contains(&left()) {
        bench.publish("others", &message(&[7; 1000], b"")).expect("stored");
    }
    while left() > 8 << 10 {
        bench.publish("others", &message(&[7; 1000], b"")).expect("stored");
    }
    disk.set_capacity(Disk::new(disk.clone()).usage(Path::new("/data")).expect("usage").0);
    assert!(bench.broker.removals.topic("orders", START).is_err(), "the disk is full");
    disk.set_capacity(u64::MAX);
    store.prepare_next_segment().expect("room is kept aside");
    bench.broker.removals.finish(START).expect("finished");
    put_topic(&bench);
    assert_eq!(bench.broker.offsets.groups_in("orders"), Vec::<String>::new());
}

/// By power cuts of many seeds: each keeps some of what was not synced.
fn chance(seed: u64) -> impl FnMut() -> bool {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state & 1 == 0
    }
}

/// The files of a removed topic's queues cannot be removed, and the broker ends in any way before they can.
#[test]
fn what_a_removal_has_left_on_the_disk_is_no_topic_for_the_next_start() {
    let on = |disk: &FaultyDisk| {
        let options = layout(Path::new("/data"), vec![1000]);
        open_on(storage::Options { disk: Disk::new(disk.clone()), ..options }, START, |_| ())
    };
    for has_checkpoint in [false, true] {
        for is_closed in [false, true] {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let bench = on(&disk);
            put_topic(&bench);
            bench.publish("orders", &message(b"old", b"")).expect("stored");
            bench.broker.checkpoint(START).expect("writes a checkpoint");
            disk.fail(Failure::error(Operation::Name, EIO).at("consumequeue/orders"));
            bench.broker.removals.topic("orders", START).expect_err("its files stay");
            if has_checkpoint {
                bench.broker.checkpoint(START).expect("writes a checkpoint");
            }
            if is_closed {
                bench.broker.close(START).expect("closes");
            }
            disk.heal();
            let disk = FaultyDisk::over(&disk.memory().copy());
            let bench = on(&disk);
            assert!(bench.broker.catalog.topic("orders").is_none(), "{has_checkpoint} {is_closed}");
            put_topic(&bench);
            assert_eq!(bench.bodies("orders", 0), Vec::<String>::new(), "{has_checkpoint} {is_closed}");
            bench.publish("orders", &message(b"new", b"")).expect("stored");
            bench.broker.checkpoint(START).expect("writes a checkpoint");
            drop(bench);
            let left = FaultyDisk::over(&disk.after_power_cut(disk.points(), || false));
            assert_eq!(on(&left).bodies("orders", 0), ["new"], "nor after a power cut");
        }
    }
}

#[test]
fn a_power_cut_during_a_removal_leaves_the_topic_or_nothing_of_it() {
    let on = |disk: Disk| {
        let options = storage::Options { disk, ..layout(Path::new("/data"), vec![1000]) };
        open_on(options, START, |_| ())
    };
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = on(Disk::new(disk.clone()));
    put_topic(&bench);
    bench.publish("orders", &message(b"old", b"")).expect("stored");
    bench.broker.checkpoint(START).expect("writes a checkpoint");
    bench.publish("orders", &message(b"old too", b"")).expect("stored");
    bench.broker.store().sync().expect("syncs");
    let begun = disk.points();
    bench.broker.removals.topic("orders", START).expect("removed");
    for point in begun..=disk.points() {
        for seed in 0..20 {
            let again = on(Disk::new(disk.after_power_cut(point, chance(seed * 1000 + point as u64))));
            if again.broker.catalog.topic("orders").is_some() {
                assert_eq!(again.bodies("orders", 0), ["old", "old too"], "point {point}, seed {seed}");
            }
        }
    }
}

/// All entries are made again, as the pages advise for damaged ones, and the power is cut in that start or soon after.
#[test]
fn a_removed_topic_stays_removed_when_entries_are_made_again_and_the_power_is_cut() {
    let on = |disk: Disk| {
        let options = storage::Options { disk, segment_size: 16 << 10, ..layout(Path::new("/data"), vec![1000]) };
        open_on(options, START, |options| options.ack_policy = AckPolicy::DURABLE)
    };
    let memory = MemoryDisk::new();
    let disk = Disk::new(memory.clone());
    let bench = on(disk.clone());
    put_topic(&bench);
    bench.publish("orders", &message(b"old", b"")).expect("stored");
    for _ in 0..30 {
        bench.publish("others", &message(&[7; 1000], b"")).expect("stored");
    }
    bench.broker.removals.topic("orders", START).expect("removed");
    put_topic(&bench);
    bench.broker.close(START).expect("closes");
    drop(bench);
    disk.remove_directory(Path::new("/data/consumequeue")).expect("removes");
    let disk = FaultyDisk::over(&memory.after_restart_of_the_machine());
    let bench = on(Disk::new(disk.clone()));
    bench.publish("orders", &message(b"new", b"")).expect("stored");
    bench.broker.store().sync().expect("syncs");
    let sent_at = disk.points();
    for point in 0..=sent_at {
        for seed in 0..20 {
            let again = on(Disk::new(disk.after_power_cut(point, chance(seed * 1000 + point as u64))));
            let bodies = again.bodies("orders", 0);
            let is_right = if point < sent_at { bodies.iter().all(|body| body == "new") } else { bodies == ["new"] };
            assert!(is_right, "point {point} of {sent_at}, seed {seed}: {bodies:?}");
        }
    }
}
