//! A start on a directory where the newest entries of a lane were written over: no offset that a message had is given to another, and none
//! is taken for a message that never had one.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, QueueOffset, Timestamp};
use format::lane_entry::LANE_ENTRY_SIZE;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk};
use storage::{CommitRule, NoState, Options, RecoveryProgress, RetentionPolicy, Store};
use support::entries;
use support::lanes::{append, lane};

/// Does something to the bytes of a record.
type Spoil = dyn Fn(&FaultyDisk, Range<u64>);

const EIO: i32 = 5;
const LANE: (u32, u8) = (1, 0);
const OTHER: (u32, u8) = (2, 0);
/// In the lane.
const MESSAGES: u64 = 10;
const SEGMENT_SIZE: u64 = 4096;
/// Within a record.
const SYSTEM_FLAG_AT: u64 = 36;

fn options(disk: &FaultyDisk) -> Options {
    Options {
        disk: Disk::new(disk.clone()),
        segment_size: SEGMENT_SIZE,
        lane_file_entries: 600,
        recent_size: 1,
        checkpoint_reserve: Some(4096),
        retention: RetentionPolicy { size: Some(1), ..RetentionPolicy::default() },
        ..Options::new(Path::new("/data"))
    }
}

fn open(options: Options, progress: &mut dyn FnMut(RecoveryProgress)) -> Store {
    Store::open(options, Arc::default(), progress).expect("opens").0
}

/// A lane and messages in it, stopped in good order. How its entries lie in the log.
fn filled(disk: &FaultyDisk) -> Vec<Range<LogOffset>> {
    let store = open(options(disk), &mut |_| ());
    (0..MESSAGES).for_each(|number| append(&store, number.to_string().as_bytes(), &[(LANE, None)]));
    let entries = entries(&lane(&store, LANE));
    store.close().expect("closes");
    entries.iter().map(|(_, entry)| entry.log_offset..entry.log_offset.after(u64::from(entry.size))).collect()
}

fn write_over(disk: &FaultyDisk, from: u64, count: u64) {
    let path = PathBuf::from("/data/sluice/queues/1/0").join("0".repeat(20));
    let bytes = vec![0x21; count as usize * LANE_ENTRY_SIZE];
    let file = Disk::new(disk.clone()).open(&path).expect("opens");
    file.write_at(&bytes, from * LANE_ENTRY_SIZE as u64).expect("writes");
}

/// Changes one byte of the log.
fn change(disk: &FaultyDisk, position: u64) {
    let log = Disk::new(disk.clone()).open(Path::new("/data/commitlog/00000000000000000000")).expect("opens");
    log.write_at(b"?", position).expect("writes");
}

/// Where the lane ends, and which offset its next message gets.
fn ends(store: &Store) -> (u64, u64) {
    let lane = lane(store, LANE);
    (lane.end().0, lane.appended_end().0)
}

#[test]
fn what_was_never_an_entry_is_none() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    filled(&disk);
    write_over(&disk, MESSAGES, 5);
    assert_eq!(ends(&open(options(&disk), &mut |_| ())), (MESSAGES, MESSAGES));
}

#[test]
fn a_message_that_cannot_be_read_keeps_its_place_though_its_entry_was_written_over() {
    let unreadable = |disk: &FaultyDisk, bytes: Range<u64>| {
        // Its size can be read.
        disk.fail(Failure::unreadable("commitlog/00000000000000000000", bytes.end - 10..bytes.end, EIO));
    };
    let damaged_topic = |disk: &FaultyDisk, bytes: Range<u64>| change(disk, bytes.end - 10);
    let damaged_flag = |disk: &FaultyDisk, bytes: Range<u64>| change(disk, bytes.start + SYSTEM_FLAG_AT + 2);
    let damaged_body = |disk: &FaultyDisk, bytes: Range<u64>| change(disk, bytes.end - 50);
    let all_gone = |disk: &FaultyDisk, _: Range<u64>| {
        disk.fail(Failure::unreadable("commitlog/00000000000000000000", 0..SEGMENT_SIZE, EIO))
    };
    let cases: [(&str, &Spoil); 5] = [
        ("unreadable", &unreadable),
        ("its topic is another", &damaged_topic),
        ("its system flag is another", &damaged_flag),
        ("its body is another", &damaged_body),
        ("a segment gone", &all_gone),
    ];
    for (what, spoil) in cases {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let newest = filled(&disk).pop().expect("messages");
        // Where the log ends can be read.
        let store = open(options(&disk), &mut |_| ());
        (0..5).for_each(|_| append(&store, &[b'x'; 1000], &[(OTHER, None)]));
        store.close().expect("closes");
        drop(store);
        write_over(&disk, MESSAGES - 1, 5);
        spoil(&disk, newest.start.0..newest.end.0);
        let (end, next) = ends(&open(options(&disk), &mut |_| ()));
        assert!(next >= MESSAGES && end == next, "{what}: it ends at {end}, and its next message gets {next}");
    }
}

#[test]
fn no_offset_is_given_out_again_where_the_messages_that_had_it_are_gone_from_the_log() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    filled(&disk);
    let store = open(options(&disk), &mut |_| ());
    (0..50).for_each(|_| append(&store, &[b'x'; 1000], &[(OTHER, None)]));
    store.checkpoint().expect("a checkpoint");
    store.apply_retention(Timestamp(1 << 40), 4).expect("applied");
    assert!(store.log_first() > LogOffset(SEGMENT_SIZE), "none of its messages is there");
    store.close().expect("closes");
    drop(store);
    for from in [0, MESSAGES - 1] {
        write_over(&disk, from, MESSAGES - from);
        assert_eq!(ends(&open(options(&disk), &mut |_| ())).1, MESSAGES, "written over from {from} on");
    }
}

/// Between what was written over and what is not committed the log decides.
#[test]
fn what_is_not_committed_keeps_its_offsets_too() {
    for uncommitted in 0..8 {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let committed = filled(&disk).pop().expect("messages").end;
        let governed = || Options { commit_rule: CommitRule::Told { known: committed }, ..options(&disk) };
        let store = open(governed(), &mut |_| ());
        (0..uncommitted).for_each(|_| append(&store, b"not committed", &[(LANE, None)]));
        store.close().expect("closes");
        drop(store);
        write_over(&disk, MESSAGES, 4);
        let store = open(governed(), &mut |_| ());
        assert_eq!(ends(&store), (MESSAGES, MESSAGES + uncommitted));
        let committed = store.watermarks().written();
        store.set_committed(committed, &mut NoState).expect("commits");
        let all = MESSAGES + uncommitted;
        assert_eq!(ends(&store), (all, all));
        let offsets = entries(&lane(&store, LANE)).into_iter().map(|(offset, entry)| (offset, entry.has_record()));
        assert!(offsets.eq((0..all).map(|offset| (QueueOffset(offset), true))), "{uncommitted}");
    }
}

#[test]
fn how_far_the_look_has_come_is_told() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    filled(&disk);
    write_over(&disk, MESSAGES, 5);
    let mut told = Vec::new();
    let store = open(options(&disk), &mut |progress| told.push((progress.done, progress.total)));
    assert_eq!(told.last(), Some(&(0, store.watermarks().written().0)));
}
