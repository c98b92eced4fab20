//! Promises about groups' offsets and members under hostile conditions: races, bounds, a full disk.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use base::{GroupName, Now, QueueId, Refusal, TopicName};
use broker::{ConsumerRegistration, Description, Mailbox, Member};
use format::document::TopicDocument;
use storage::disk::{Disk, MemoryDisk};
use support::{Bench, layout, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);
const SEGMENT_SIZE: u64 = 64 << 10;

fn open() -> Bench {
    let disk = Disk::new(MemoryDisk::new());
    let bench = open_on(storage::Options { disk, ..layout(Path::new("/data"), vec![1000]) }, START, |_| ());
    let settings = TopicDocument { read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("made");
    bench
}

fn member() -> Member {
    Member {
        client_id: "one".to_owned(),
        address: "10.0.0.1:5000".parse().expect("address"),
        description: Description::default(),
        mailbox: Mailbox::new(Waker::noop().clone()),
        seen: START,
    }
}

fn consumers() -> ConsumerRegistration {
    ConsumerRegistration {
        group: GroupName::trusted("billing"),
        description: Description::default(),
        subscriptions: vec![],
        keeps_subscriptions: false,
    }
}

#[test]
fn a_commit_under_way_does_not_void_a_reset() {
    let bench = open();
    bench.broker.groups.register_consumer(&member(), consumers(), START).expect("registered");
    let offsets = &bench.broker.offsets;
    for round in 0..3000 {
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let stop = stop.clone();
                scope.spawn(move || {
                    let mut cursor = None;
                    let mut offset = 1000;
                    while !stop.load(Ordering::Relaxed) {
                        offset += 1;
                        offsets.commit_by(&mut cursor, ("orders", "billing"), QueueId(0), offset).expect("committed");
                    }
                });
            }
            offsets.reset("orders", "billing", QueueId(0), 7).expect("reset");
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(offsets.committed("orders", "billing", QueueId(0)), Some(7), "round {round}");
        assert_eq!(offsets.take_reset("orders", "billing", QueueId(0)), Some(7));
    }
}

#[test]
fn offsets_copied_to_a_group_take_the_place_of_a_reset_that_nobody_has_heard_of() {
    let bench = open();
    let (offsets, queue) = (&bench.broker.offsets, QueueId(0));
    bench.broker.groups.register_consumer(&member(), consumers(), START).expect("registered");
    offsets.commit("orders", "model", queue, 5).expect("committed");
    offsets.reset("orders", "billing", queue, 7).expect("reset");
    offsets.copy(&["orders".to_owned()], "model", "billing", START).expect("copied");
    assert_eq!(
        (offsets.reset_of("orders", "billing", queue), offsets.committed("orders", "billing", queue)),
        (None, Some(5))
    );
    offsets.commit("orders", "billing", queue, 6).expect("committed");
    assert_eq!(offsets.committed("orders", "billing", queue), Some(6));
}

#[test]
fn offsets_that_are_copied_are_bounded_as_those_that_are_committed() {
    let bench = open();
    let offsets = &bench.broker.offsets;
    let mut number = 0;
    while offsets.commit("orders", &format!("g{number}"), QueueId(0), 1).is_ok() {
        number += 1;
    }
    assert_eq!(number, base::limits::OFFSET_PAIRS_MAX);
    let topics = ["orders".to_owned()];
    assert!(matches!(offsets.copy(&topics, "g0", "another", START), Err(Refusal::Busy(_))));
    assert_eq!(offsets.groups_in("orders").len(), number);
    offsets.copy(&topics, "g0", "g1", START).expect("one that is there");
}

#[test]
fn who_consumes_is_taken_in_while_the_groups_retry_topic_cannot_be_removed() {
    let disk = MemoryDisk::new();
    let options = storage::Options {
        disk: Disk::new(disk.clone()),
        segment_size: SEGMENT_SIZE,
        checkpoint_reserve: Some(4096),
        ..layout(Path::new("/data"), vec![1000])
    };
    let bench = open_on(options, START, |_| ());
    bench.broker.groups.register_consumer(&member(), consumers(), START).expect("registered");
    let retries = "%RETRY%billing";
    for number in 0..600 {
        let group = format!("group-with-a-name-of-its-own-{number}");
        bench.broker.offsets.commit(retries, &group, QueueId(0), 1).expect("commits");
    }
    bench.broker.offsets.keep_changes(START).expect("kept");
    let store = bench.broker.store();
    store.write_staged().expect("writes");
    store.prepare_next_segment().expect("room is kept aside");
    let message = support::message(&[7; 1000], b"");
    let left = || SEGMENT_SIZE - store.watermarks().written().0 % SEGMENT_SIZE;
    for _ in 0..60 {
        bench.publish("others", &message).expect("stored");
    }
    while !(8 << 10..40 << 10).contains(&left()) {
        bench.publish("others", &message).expect("stored");
    }
    while left() > 8 << 10 {
        bench.publish("others", &message).expect("stored");
    }
    disk.set_capacity(Disk::new(disk.clone()).usage(Path::new("/data")).expect("usage").0);
    assert!(bench.broker.removals.topic(retries, START).is_err(), "the disk is full");
    // The consumer goes on with its heartbeats.
    let mut now = START;
    for _ in 0..10 {
        now = now.plus_ms(30_000);
        bench.broker.groups.register_consumer(&Member { seen: now, ..member() }, consumers(), now).expect("taken in");
        bench.broker.groups.expire(now);
    }
    assert!(bench.broker.groups.is_online("billing"));
}
