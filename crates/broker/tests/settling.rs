//! What consumers settle at a slave: it is kept, its master hears of it once, and nothing is lowered. And what a slave says it has.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::QueueId;
use base::offset::AckPolicy;
use broker::{Unknown, Work};
use format::master_tables::MasterTables;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use support::pair::{commit, committed, follow, master_tables, open, tables, take_tables};
use support::{Bench, layout, message, open_on};
use testkit::at;

/// A master with ten messages and its slave, at which `billing` has come to 7 while the master was away.
fn settled_at_the_slave(slave_disk: &MemoryDisk) -> (Bench, Bench) {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(slave_disk, true, 1000));
    take_tables(&slave, &master);
    (0..10).for_each(|_| drop(master.publish("orders", &message(b"body", b""))));
    commit(&master, "billing", 0);
    follow(&slave, &master);
    commit(&slave, "billing", 7);
    (master, slave)
}

/// The master takes what the slave tells it (request 15).
fn pay(slave: &Bench, master: &Bench) {
    let unknown = slave.broker.following.unknown_to(&tables(master)).offsets;
    for (_, group, _, offset) in &unknown {
        commit(master, group, *offset);
    }
    let told = unknown.iter().map(|(topic, group, queue, offset)| (&**topic, &**group, *queue, *offset));
    slave.broker.note_told(told).expect("notes");
}

#[test]
fn what_is_settled_while_the_master_is_being_told_is_not_forgotten() {
    let (master, slave) = settled_at_the_slave(&MemoryDisk::new());
    pay(&slave, &master);
    // A consumer that has not heard yet that the master is back goes on here; tables come once more after what was told.
    commit(&slave, "billing", 9);
    take_tables(&slave, &master);
    let told_next = slave.broker.following.unknown_to(&tables(&master)).offsets;
    assert_eq!(
        (committed(&slave, "billing"), told_next.len()),
        (Some(9), 1),
        "an answered commit is neither taken back at the slave nor kept from the master"
    );
}

#[test]
fn what_a_master_under_load_was_told_is_not_told_again_after_a_reset_there() {
    let (master, slave) = settled_at_the_slave(&MemoryDisk::new());
    pay(&slave, &master);
    // While the tables travel the log goes on, and is followed: so in every round.
    for _ in 0..5 {
        let copied = master_tables(&master);
        drop(master.publish("orders", &message(b"more", b"")));
        follow(&slave, &master);
        slave.broker.take_tables(copied, slave.now).expect("passes over them");
    }
    // Hours later an administrator has the group begin again.
    commit(&master, "billing", 1);
    follow(&slave, &master);
    assert_eq!(committed(&slave, "billing"), Some(1), "the slave knows of the reset");
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
}

#[test]
fn what_the_master_has_taken_is_not_told_again_when_the_connection_was_lost_before_its_tables_came() {
    let (master, slave) = settled_at_the_slave(&MemoryDisk::new());
    pay(&slave, &master);
    // The connection is lost. Before the next an administrator has the group begin again.
    commit(&master, "billing", 1);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
}

#[test]
fn what_a_slave_with_sync_flush_says_it_has_was_synced_also_after_a_failed_sync() {
    said_is_synced(true);
}

#[test]
fn what_a_slave_with_sync_flush_says_it_has_was_synced_also_while_a_sync_goes_on() {
    said_is_synced(false);
}

fn said_is_synced(fails: bool) {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let layout = storage::Options { disk: Disk::new(disk.clone()), ..layout(Path::new("/data"), vec![1000, 5000]) };
    let slave = open_on(layout.following(), at(1000), |options| {
        options.ack_policy = AckPolicy { durable: true, ..AckPolicy::WRITTEN }
    });
    let master = open(&MemoryDisk::new(), false, 1000);
    take_tables(&slave, &master);
    drop(master.publish("orders", &message(b"first", b"")));
    follow(&slave, &master);
    (0..20).for_each(|_| drop(master.publish("orders", &message(&[7; 10_000], b""))));
    master.broker.keep(master.now).expect("keeps");
    let start = slave.broker.following.end();
    let bytes = master.broker.store().read_raw(start, usize::MAX).expect("reads");
    std::thread::scope(|scope| {
        if fails {
            disk.fail(Failure::error(Operation::Sync, 5));
            slave.broker.following.append(start, std::slice::from_ref(&bytes)).expect_err("nothing is synced");
        } else {
            disk.hold_syncs();
            scope.spawn(|| slave.broker.following.append(start, std::slice::from_ref(&bytes)));
            disk.wait_for_held(Operation::Sync);
        }
        // The heartbeat of a connection says `end`, a new connection at first what `tail` begins with.
        let durable = slave.broker.store().watermarks().durable();
        let said_later = slave.broker.following.kept();
        disk.heal();
        disk.release(Operation::Sync);
        assert!(said_later <= durable, "sync fails: {fails}: {said_later} is said, {durable} is durable");
    });
    // What a new connection says first.
    if let Ok((said_first, _)) = slave.broker.following.tail(4096) {
        assert!(said_first <= slave.broker.store().watermarks().durable());
    } else {
        assert!(fails, "after a failed sync nothing is said any more");
    }
}

#[test]
fn a_slave_that_is_killed_and_becomes_the_master_has_the_offsets_that_its_log_tells_of() {
    let disk = MemoryDisk::new();
    let (master, slave) = settled_at_the_slave(&disk);
    slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
    // The master is back, and makes a topic; the slave has the log, and is killed.
    drop(master.publish("later", &message(b"body", b"")));
    commit(&master, "billing", 9);
    follow(&slave, &master);
    assert_eq!((slave.broker.catalog.topic("later").is_some(), committed(&slave, "billing")), (true, Some(9)));
    drop(slave);
    let promoted = open(&disk, false, 2000);
    assert_eq!((promoted.broker.catalog.topic("later").is_some(), committed(&promoted, "billing")), (true, Some(9)));
}

/// How a slave ends, whose documents were written once, before it is the master.
const ENDS: [&str; 3] = ["it is stopped", "it is killed", "it is killed behind a checkpoint"];

fn promote(slave: Bench, disk: &MemoryDisk, end: &str) -> Bench {
    match end {
        "it is stopped" => slave.broker.close(slave.now).expect("stops"),
        "it is killed" => {}
        _ => slave.broker.checkpoint(slave.now).expect("a checkpoint"),
    }
    drop(slave);
    open(disk, false, 2000)
}

#[test]
fn what_was_settled_at_a_slave_stands_where_its_masters_log_tells_of_less() {
    for end in ENDS {
        let disk = MemoryDisk::new();
        let (master, slave) = settled_at_the_slave(&disk);
        slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
        commit(&master, "billing", 5);
        follow(&slave, &master);
        assert_eq!(committed(&slave, "billing"), Some(7));
        assert_eq!(slave.broker.following.unknown_to(&tables(&master)).offsets.len(), 1, "the master is to hear of it");
        assert_eq!(committed(&promote(slave, &disk, end), "billing"), Some(7), "{end}");
    }
}

#[test]
fn a_reset_is_not_undone_by_a_slave_whose_masters_log_has_told_that_the_group_was_further() {
    for end in ENDS {
        let disk = MemoryDisk::new();
        let (master, slave) = settled_at_the_slave(&disk);
        slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
        commit(&master, "billing", 9);
        follow(&slave, &master);
        assert_eq!(committed(&slave, "billing"), Some(9));
        master.broker.offsets.reset("orders", "billing", QueueId(0), 1).expect("resets");
        follow(&slave, &master);
        assert_eq!(committed(&slave, "billing"), Some(1));
        assert_eq!(slave.broker.following.unknown_to(&tables(&master)), Unknown::default());
        assert_eq!(committed(&promote(slave, &disk, end), "billing"), Some(1), "{end}");
    }
}

#[test]
fn offsets_that_others_take_the_place_of_at_the_master_are_not_told_to_it() {
    for end in ENDS {
        let disk = MemoryDisk::new();
        let (master, slave) = settled_at_the_slave(&disk);
        slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
        commit(&master, "audit", 2);
        master.broker.offsets.copy(&["orders".to_owned()], "audit", "billing", master.now).expect("copies");
        follow(&slave, &master);
        assert_eq!(committed(&slave, "billing"), Some(2));
        assert_eq!(slave.broker.following.unknown_to(&tables(&master)), Unknown::default());
        assert_eq!(committed(&promote(slave, &disk, end), "billing"), Some(2), "{end}");
    }
}

#[test]
fn a_group_that_was_removed_with_its_offsets_is_not_made_again_by_a_slave_that_heard_of_it() {
    let (master, slave) = settled_at_the_slave(&MemoryDisk::new());
    master.broker.removals.group("billing", true, master.now).expect("removes");
    follow(&slave, &master);
    assert_eq!(committed(&slave, "billing"), None);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), Unknown::default());
}

#[test]
fn who_becomes_the_master_skips_nothing_of_a_topic_that_was_made_again() {
    for end in ENDS {
        let disk = MemoryDisk::new();
        let (master, slave) = settled_at_the_slave(&disk);
        // Its master has never heard of this one.
        commit(&slave, "new", 3);
        slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
        master.broker.removals.topic("orders", master.now).expect("removes");
        (0..3).for_each(|_| drop(master.publish("orders", &message(b"new", b""))));
        follow(&slave, &master);
        assert_eq!(slave.broker.following.unknown_to(&tables(&master)).offsets, []);
        let promoted = promote(slave, &disk, end);
        assert_eq!(promoted.bodies("orders", 0).len(), 3);
        for group in ["billing", "new"] {
            assert_eq!(committed(&promoted, group).unwrap_or(0), 0, "{end}: {group} has consumed nothing of it");
        }
    }
}

#[test]
fn a_commit_at_a_slave_that_is_answered_is_kept_whatever_the_log_told_meanwhile() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    take_tables(&slave, &master);
    (0..10).for_each(|_| drop(master.publish("orders", &message(b"body", b""))));
    commit(&master, "billing", 3);
    follow(&slave, &master);
    commit(&master, "billing", 5);
    // As a session has it: put, then gathered, then answered.
    slave.broker.offsets.commit("orders", "billing", QueueId(0), 7).expect("commits");
    follow(&slave, &master);
    slave.broker.offsets.keep_changes(slave.now).expect("keeps");
    let owed = slave.broker.following.unknown_to(&tables(&master)).offsets;
    assert_eq!((committed(&slave, "billing"), owed.len()), (Some(7), 1), "the slave has it, and owes it to its master");
}

#[test]
fn a_commit_at_a_slave_that_is_answered_is_kept_whatever_tables_were_taken_meanwhile() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    drop(master.publish("orders", &message(b"body", b"")));
    commit(&master, "billing", 0);
    (0..500).for_each(|number| commit(&master, &format!("other-{number}"), 0));
    take_tables(&slave, &master);
    follow(&slave, &master);
    let of_master = MasterTables { undocumented: None, ..master_tables(&master) };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                slave.broker.take_tables(of_master.clone(), slave.now).expect("takes");
            }
        });
        let began = Instant::now();
        let lost = (1..).take_while(|_| began.elapsed() < Duration::from_secs(2)).find(|offset| {
            slave.broker.offsets.commit("orders", "billing", QueueId(0), *offset).expect("commits");
            std::thread::yield_now();
            slave.broker.offsets.keep_changes(slave.now).expect("keeps");
            let owed = slave.broker.following.unknown_to(&of_master.documents).offsets;
            committed(&slave, "billing") != Some(*offset) || !owed.iter().any(|owed| owed.3 == *offset)
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(lost, None);
    });
}
