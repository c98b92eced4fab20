//! A governed store whose log is cut at any offset above what is committed, with a power cut after every change of the disk meanwhile.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use base::{LogOffset, QueueId, Timestamp};
use storage::disk::{Disk, FaultyDisk, MemoryDisk};
use storage::{CommitRule, NoState, Options, StorageError, Store};
use support::orders;

const COUNT: u64 = 60;
const COMMITTED: u64 = 24;

fn options(disk: Disk, known: u64) -> Options {
    Options { disk, commit_rule: CommitRule::Told { known: LogOffset(known) }, ..orders::options(Path::new("/data")) }
}

fn open(disk: Disk, known: u64) -> Store {
    Store::open(options(disk, known), Arc::default(), &mut |_| ()).expect("opens").0
}

/// Appends and writes the message with that offset in its queue.
fn append(store: &Store, queue: u32, offset: u64) -> u64 {
    let index = store.queue(&orders::topic(), QueueId(queue));
    let (body, key) = (orders::body_of(queue, offset), format!("KEYS\u{1}k{queue}-{offset}\u{2}"));
    let properties: &[&[u8]] = &[key.as_bytes()];
    let mut batch = store.begin_batch(0);
    let draft = format::record::Draft { properties, ..orders::draft(&body, queue) };
    testkit::push(store, &mut batch, &index, &draft);
    let appended = store.append(batch, Timestamp(1000)).expect("appends");
    assert_eq!(appended.records[0].queue_offset.0, offset);
    store.write_staged().expect("writes");
    appended.end.0
}

fn commit(store: &Store, offset: u64) {
    store.set_committed(LogOffset(offset), &mut NoState).expect("commits");
}

/// A store of several segments that was killed, and where each of its messages ends.
fn killed(checkpoint_at: u64) -> (MemoryDisk, Vec<u64>) {
    let memory = MemoryDisk::new();
    let store = open(Disk::new(memory.clone()), 0);
    let mut ends = vec![0];
    for offset in 0..COUNT {
        ends.push(append(&store, 0, offset));
        if offset + 1 == checkpoint_at {
            commit(&store, ends[COMMITTED.min(checkpoint_at) as usize]);
            store.checkpoint().expect("a checkpoint");
        }
    }
    commit(&store, ends[COMMITTED as usize]);
    assert!(
        *ends.last().expect("an end") > 2 * orders::SEGMENT_SIZE && ends[COMMITTED as usize] < 2 * orders::SEGMENT_SIZE
    );
    drop(store);
    (memory, ends)
}

/// Messages of queue 0 that are left once everything is committed; they are the first ones, whole, found by their keys alone.
fn left(store: &Store) -> u64 {
    commit(store, store.watermarks().written().0);
    let count = orders::verify_queue(store, 0);
    for offset in 0..COUNT {
        let found = orders::found_by_key(store, &format!("k0-{offset}"));
        assert_eq!(found.len(), usize::from(offset < count), "key of {offset}, {count} are left");
    }
    count
}

#[test]
fn a_log_ends_at_any_offset_above_committed_whenever_the_power_fails() {
    for checkpoint_at in [10, 40, COUNT] {
        let (memory, ends) = killed(checkpoint_at);
        let committed = ends[COMMITTED as usize];
        for at in (committed..*ends.last().expect("an end") + 3).step_by(if cfg!(debug_assertions) { 149 } else { 7 }) {
            for at in [at, *ends.iter().rfind(|end| **end <= at).expect("an end")] {
                cut_at(&memory, at, &ends, (committed, checkpoint_at));
            }
        }
    }
}

fn cut_at(memory: &MemoryDisk, at: u64, ends: &[u64], (committed, checkpoint_at): (u64, u64)) {
    let kept = ends.iter().rposition(|end| *end <= at).expect("an end") as u64;
    let disk = FaultyDisk::over(&memory.copy());
    let store = open(Disk::new(disk.clone()), committed);
    let before = disk.points();
    let (store, _) = store.reopen_at(LogOffset(at), &mut NoState, &mut |_| ()).expect("opens again");
    let after = disk.points();
    let what = format!("cut at {at}, checkpoint after {checkpoint_at}");
    let written = store.watermarks().written().0;
    assert!((ends[kept as usize]..=at).contains(&written), "{what}: ends at {written}");
    assert_eq!(orders::verify_queue(&store, 0), COMMITTED, "{what}");
    // Other messages take the place of those before.
    let ends_now: Vec<_> = (0..9).map(|offset| append(&store, 1, offset)).collect();
    append(&store, 0, kept);
    assert_eq!((left(&store), orders::verify_queue(&store, 1)), (kept + 1, 9), "{what}");
    store.sync().expect("syncs");
    let synced = disk.points();
    store.checkpoint().expect("a checkpoint");

    for point in (before..=disk.points()).step_by(if cfg!(debug_assertions) { 3 } else { 1 }) {
        for keeps in [false, true] {
            let what = format!("{what}, power cut after change {point} of {before}..{after}, keeps {keeps}");
            let image = Disk::new(disk.after_power_cut(point, || keeps));
            let store = match Store::open(options(image, committed), Arc::default(), &mut |_| ()) {
                Ok((store, _)) => store,
                Err(error) => panic!("{what}: {error}"),
            };
            let first = left(&store);
            // Before the log is cut, whatever was there may be; once it is, only what came since.
            let least = if point >= synced { kept + 1 } else { COMMITTED.min(checkpoint_at) };
            let most = if point >= after { kept + 1 } else { COUNT };
            assert!((least..=most).contains(&first), "{what}: {first} are left");
            let second = orders::verify_queue(&store, 1);
            assert!(second <= 9 && (point < synced || second == 9), "{what}: {second} came since");
            assert!(point >= after || second == 0, "{what}");
            append(&store, 0, first);
            assert_eq!(left(&store), first + 1, "{what}");
            store.close().expect("closes");
        }
    }
    assert!(ends_now.iter().all(|end| *end > written));
}

#[test]
fn what_is_committed_cannot_be_taken_back_and_neither_can_a_failed_sync() {
    let (memory, ends) = killed(10);
    let committed = ends[COMMITTED as usize];
    for (at, is_refused) in [(committed - 1, true), (committed, false), (0, true)] {
        let store = open(Disk::new(memory.copy()), committed);
        let outcome = store.reopen_at(LogOffset(at), &mut NoState, &mut |_| ());
        assert_eq!(matches!(outcome, Err(StorageError::Committed { .. })), is_refused, "{at}");
    }
    // Said to be committed, though half of a batch.
    let store = open(Disk::new(memory.copy()), 0);
    commit(&store, committed + 1);
    let outcome = store.reopen_at(LogOffset(committed), &mut NoState, &mut |_| ());
    assert!(matches!(outcome, Err(StorageError::Committed { .. })));
    // Alone, everything written is committed.
    let alone = Options { commit_rule: CommitRule::Written, ..options(Disk::new(memory.copy()), 0) };
    let store = Store::open(alone, Arc::default(), &mut |_| ()).expect("opens").0;
    let written = store.watermarks().written();
    let outcome = store.reopen_at(LogOffset(written.0 - 1), &mut NoState, &mut |_| ());
    assert!(matches!(outcome, Err(StorageError::Committed { .. })));
}
