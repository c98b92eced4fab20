//! A disk that is full to the last byte: the broker makes room again by itself, however much state it has.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use base::{GroupName, Now, Refusal};
use format::document::GroupDocument;
use storage::RetentionPolicy;
use storage::disk::{Disk, MemoryDisk};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);
const SEGMENT_SIZE: u64 = 64 << 10;

fn open_on_disk_of(memory: &MemoryDisk) -> Bench {
    let options = storage::Options {
        disk: Disk::new(memory.clone()),
        segment_size: SEGMENT_SIZE,
        checkpoint_reserve: Some(2 * SEGMENT_SIZE),
        retention: RetentionPolicy { size: None, disk_refuse_percent: 100, ..RetentionPolicy::default() },
        ..layout(Path::new("/data"), vec![1000])
    };
    open_on(options, START, |_| ())
}

/// What the broker's background work does over and over.
fn prepare(bench: &Bench) -> bool {
    bench.broker.store().prepare_next_segment().is_ok()
}

fn make_groups(bench: &Bench, count: u32) {
    for number in 0..count {
        let name = GroupName::trusted(&format!("group-{number}"));
        bench.broker.catalog.put_groups(vec![(name, GroupDocument::default())], START).expect("made");
        prepare(bench);
    }
}

fn fill(bench: &Bench) {
    while bench.publish("orders", &message(&[7; 1000], b"")).is_ok() {
        prepare(bench);
    }
    assert!(!prepare(bench), "no room for another segment");
}

fn goes_on(bench: &Bench, groups: u32) {
    let outcome = bench.broker.checkpoint(START).and_then(|()| bench.broker.store().apply_retention(START.wall, 5));
    assert!(outcome.expect("makes room").removed > 0, "{groups} groups");
    assert!(prepare(bench), "{groups} groups");
    bench.publish("orders", &message(b"more", b"")).expect("there is room again");
}

#[test]
fn a_broker_with_much_state_makes_room_on_a_full_disk() {
    for groups in [1, 400, 2000] {
        let memory = MemoryDisk::new();
        memory.set_capacity(64 * SEGMENT_SIZE);
        let bench = open_on_disk_of(&memory);
        make_groups(&bench, groups);
        fill(&bench);
        goes_on(&bench, groups);
    }
}

#[test]
fn a_broker_that_starts_on_a_full_disk_makes_room_also_with_much_state() {
    for is_saved in [false, true] {
        let memory = MemoryDisk::new();
        memory.set_capacity(64 * SEGMENT_SIZE);
        let bench = open_on_disk_of(&memory);
        make_groups(&bench, 2000);
        if is_saved {
            bench.broker.checkpoint(START).expect("saved");
        }
        fill(&bench);
        // The process is killed.
        drop(bench);
        let bench = open_on_disk_of(&memory);
        fill(&bench);
        goes_on(&bench, 2000);
    }
}

#[test]
fn who_sends_to_a_broker_that_has_not_even_room_for_its_own_topics_is_told_so() {
    let memory = MemoryDisk::new();
    memory.set_capacity(4 * SEGMENT_SIZE);
    let others = vec![0; (4 * SEGMENT_SIZE - 8192) as usize];
    Disk::new(memory.clone()).replace_file(Path::new("/others"), &others).expect("there was room");
    let bench = open_on_disk_of(&memory);
    let refusal = bench.publish("orders", &message(b"x", b"")).expect_err("no room");
    assert!(matches!(refusal, Refusal::Unavailable(_)), "{refusal:?}");
    memory.set_capacity(u64::MAX);
    prepare(&bench);
    bench.publish("orders", &message(b"x", b"")).expect("there is room");
}
