//! What groups settle message by message: what of it outlives a process, a power cut and a master.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use base::{GroupName, Monotonic, QueueOffset};
use broker::lease::{GiveBack, Grant, Owner};
use broker::{GrantName, Holder, Lane, Wanted};
use format::document::GroupDocument;
use storage::disk::MemoryDisk;
use support::handing_out::{hand_out, lane as lane_from_start, make_topic, wanted};
use support::pair::{follow, open, take_tables};
use support::{Bench, message};

const OWNER: Owner = Owner::grant(7);

/// A broker whose topic `orders` has ten messages in queue 0, all that it has.
fn with_messages(disk: &MemoryDisk) -> Bench {
    let bench = open(disk, false, 1000);
    make_topic(&bench, 1);
    (0..10).for_each(|_| _ = bench.publish("orders", &message(b"body", b"")).expect("published"));
    bench
}

fn lane(bench: &Bench) -> Option<Arc<Lane>> {
    bench.broker.lanes.lane("orders", "billing", 0)
}

fn end(bench: &Bench) -> QueueOffset {
    bench.broker.catalog.topic("orders").expect("a topic").queue(base::QueueId(0)).expect("a queue").end()
}

/// Takes all that is ready in a lane that ends at `end`: offsets, and how often each was handed out before.
fn take(lane: &Arc<Lane>, end: QueueOffset) -> Vec<(u64, u32)> {
    let grant = Grant { owner: OWNER, deadline: Some(Monotonic(u64::MAX - 1)) };
    let mut taken = Vec::new();
    let note = |offset: QueueOffset, deliveries| {
        taken.push((offset.0, deliveries));
        true
    };
    lane.with(|cursor| cursor.take(end, grant, note));
    taken
}

fn settle(lane: &Arc<Lane>, offsets: &[u64]) {
    let count = lane.with(|cursor| cursor.settle(OWNER, offsets.iter().copied().map(QueueOffset)));
    assert_eq!(count, offsets.len() as u64);
}

/// All ten are handed out, some settled, one given back twice.
fn consume(bench: &Bench) {
    let lane = lane_from_start(bench, 0);
    assert_eq!(take(&lane, end(bench)).len(), 10);
    settle(&lane, &[0, 1, 3, 4, 8]);
    let again = GiveBack { ready: None, is_counted: true };
    assert!(lane.with(|cursor| cursor.give_back(OWNER, QueueOffset(5), again)));
    assert_eq!(take(&lane, end(bench)), [(5, 1)]);
    assert!(lane.with(|cursor| cursor.give_back(OWNER, QueueOffset(5), again)));
}

/// What the next process hands out: what was not settled, and how often it was handed out before.
const LEFT: [(u64, u32); 5] = [(2, 1), (5, 2), (6, 1), (7, 1), (9, 1)];

#[test]
fn what_was_kept_outlives_the_process_and_what_was_not_settled_comes_again() {
    for has_checkpoint in [false, true] {
        let disk = MemoryDisk::new();
        let bench = with_messages(&disk);
        consume(&bench);
        bench.broker.keep(bench.now).expect("kept");
        if has_checkpoint {
            bench.broker.checkpoint(bench.now).expect("written");
        }
        drop(bench);
        let bench = open(&disk, false, 2000);
        assert_eq!(take(&lane_from_start(&bench, 0), end(&bench)), LEFT, "with a checkpoint: {has_checkpoint}");
    }
}

/// Changes of settings, one after another, until the snapshot of the state holds all of it again instead of what has changed.
fn have_the_snapshot_written_anew(bench: &Bench) {
    let name = GroupName::checked("large").expect("a name");
    for number in 0..4 {
        let note = format!("{number}{}", "x".repeat(600_000));
        let settings = GroupDocument { attributes: [("note".to_owned(), note)].into(), ..GroupDocument::default() };
        bench.broker.catalog.put_groups(vec![(name.clone(), settings)], bench.now).expect("changed");
        bench.broker.checkpoint(bench.now).expect("written");
    }
    bench.broker.catalog.put_groups(vec![(name, GroupDocument::default())], bench.now).expect("changed");
}

#[test]
fn a_snapshot_that_is_written_anew_has_what_was_settled() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    consume(&bench);
    have_the_snapshot_written_anew(&bench);
    bench.broker.checkpoint(bench.now).expect("written");
    drop(bench);
    let bench = open(&disk, false, 2000);
    assert_eq!(take(&lane_from_start(&bench, 0), end(&bench)), LEFT);
}

#[test]
fn changes_behind_a_checkpoint_are_laid_over_it() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    consume(&bench);
    bench.broker.checkpoint(bench.now).expect("written");
    let lane = lane_from_start(&bench, 0);
    settle(&lane, &[2, 9]);
    bench.broker.keep(bench.now).expect("kept");
    drop((lane, bench));
    let bench = open(&disk, false, 2000);
    assert_eq!(take(&lane_from_start(&bench, 0), end(&bench)), [(5, 2), (6, 1), (7, 1)]);
}

#[test]
fn what_was_not_kept_comes_again_and_nothing_is_lost() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    bench.broker.keep(bench.now).expect("kept");
    consume(&bench);
    drop(bench);
    let bench = open(&disk, false, 2000);
    assert!(lane(&bench).is_none(), "the log was not told of it");
    assert_eq!(take(&lane_from_start(&bench, 0), end(&bench)).len(), 10);
}

/// Others take the places of messages that a power cut took from a queue's end: nobody has settled those.
#[test]
fn messages_that_come_where_settled_ones_were_lost_are_handed_out() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    let lane = lane_from_start(&bench, 0);
    let beyond = QueueOffset(15);
    assert_eq!(take(&lane, beyond).len(), 15);
    settle(&lane, &(0..15).collect::<Vec<_>>());
    bench.broker.keep(bench.now).expect("kept");
    drop((lane, bench));
    let bench = open(&disk, false, 2000);
    let send = |bench: &Bench| _ = bench.publish("orders", &message(b"other", b"")).expect("published");
    (0..3).for_each(|_| send(&bench));
    drop(bench);
    let bench = open(&disk, false, 3000);
    assert_eq!(take(&lane_from_start(&bench, 0), end(&bench)), [(10, 0), (11, 0), (12, 0)]);
}

#[test]
fn a_slave_has_what_its_master_was_told_whatever_tables_it_took_meanwhile() {
    let (master, slave_disk) = (with_messages(&MemoryDisk::new()), MemoryDisk::new());
    let slave = open(&slave_disk, true, 1000);
    consume(&master);
    master.broker.keep(master.now).expect("kept");
    // Their position is behind what the log has to say.
    take_tables(&slave, &master);
    follow(&slave, &master);
    let master_lane = lane_from_start(&master, 0);
    settle(&master_lane, &[6]);
    follow(&slave, &master);
    let left = [(2, 1), (5, 2), (7, 1), (9, 1)];
    assert_eq!(take(&lane_from_start(&slave, 0), end(&slave)), left);
    drop(slave);
    let promoted = open(&slave_disk, false, 2000);
    assert_eq!(take(&lane_from_start(&promoted, 0), end(&promoted)), left, "a slave that takes over goes on with them");
}

#[test]
fn leases_of_a_topic_or_group_that_is_removed_are_forgotten() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    consume(&bench);
    bench.broker.keep(bench.now).expect("kept");
    bench.broker.checkpoint(bench.now).expect("written");
    bench.broker.removals.topic("orders", bench.now).expect("removed");
    assert!(lane(&bench).is_none());
    make_topic(&bench, 1);
    drop(bench);
    let bench = open(&disk, false, 2000);
    assert!(lane(&bench).is_none(), "it is not known again");
    (0..2).for_each(|_| _ = bench.publish("orders", &message(b"body", b"")).expect("published"));
    let made = lane_from_start(&bench, 0);
    assert_eq!(take(&made, end(&bench)), [(0, 0), (1, 0)]);
    settle(&made, &[0]);
    bench.broker.removals.group("billing", true, bench.now).expect("removed");
    assert!(lane(&bench).is_none());
    settle(&made, &[1]);
    bench.broker.keep(bench.now).expect("kept");
    drop((made, bench));
    assert!(lane(&open(&disk, false, 3000)).is_none(), "who still had the cursor brings nothing back");
}

#[test]
fn a_reset_takes_the_place_of_all_that_was_settled() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    consume(&bench);
    bench.broker.offsets.reset("orders", "billing", base::QueueId(0), 3).expect("reset");
    bench.broker.keep(bench.now).expect("kept");
    drop(bench);
    let bench = open(&disk, false, 2000);
    let left: Vec<_> = (3..10).map(|offset| (offset, 0)).collect();
    assert_eq!(take(&lane_from_start(&bench, 0), end(&bench)), left);
}

#[test]
fn what_the_log_had_no_room_for_is_told_once_it_has() {
    let disk = MemoryDisk::new();
    let bench = with_messages(&disk);
    bench.broker.checkpoint(bench.now).expect("written");
    consume(&bench);
    disk.set_capacity(1);
    let mut refused = Ok(());
    while refused.is_ok() {
        refused = bench.publish("orders", &message(&[0; 500], b"")).map(drop);
    }
    assert!(refused.is_err(), "the disk is full");
    drop(bench.broker.keep(bench.now));
    settle(&lane_from_start(&bench, 0), &[2]);
    disk.set_capacity(u64::MAX);
    bench.broker.keep(bench.now).expect("kept");
    drop(bench);
    let bench = open(&disk, false, 2000);
    assert_eq!(take(&lane_from_start(&bench, 0), QueueOffset(10)), LEFT[1..]);
}

/// How many messages, at most four, are handed out in order to an attempt of that name, by a grant that others may have the name of too.
fn taken_in_order(bench: &Bench, name: &str) -> usize {
    let wanted = Wanted {
        count_max: 4,
        holder: Holder::Grant(GrantName { time_ms: 1, number: 999 }, Monotonic(u64::MAX - 1)),
        attempt: Some(name.into()),
        ..wanted(bench)
    };
    hand_out(bench, wanted).count()
}

#[test]
fn attempts_of_one_millisecond_are_told_apart_where_messages_are_taken_in_order() {
    let bench = with_messages(&MemoryDisk::new());
    assert_eq!(["a", "b", "", ""].map(|name| taken_in_order(&bench, name)), [4, 0, 0, 0]);
    assert_eq!(taken_in_order(&bench, "a"), 4, "who asks again gets the same");
    assert_eq!(taken_in_order(&bench, "b"), 0);
    assert_eq!(
        lane_from_start(&bench, 0).settle(GrantName { time_ms: 1, number: 999 }.owner(), (0..4).map(QueueOffset)),
        4
    );
    assert_eq!(["b", "a"].map(|name| taken_in_order(&bench, name)), [4, 0]);
}
