//! Entries that their files do not give back, while a broker runs: they are made again from the log, and nobody is told anything wrong.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base::{QueueId, QueueOffset, Timestamp};
use format::queue_entry::Entry;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{Options, QueueIndex, ReadMode, RecoveryProgress, RetentionPolicy, StorageError, Store};
use support::{entries, orders};

const EIO: i32 = 5;
/// Of which the log has several.
const SEGMENT_SIZE: u64 = 32 * 1024;
/// Of each of two queues, which lie between each other in the log.
const MESSAGES: u64 = 1000;

/// A store that was closed and opened again: nothing of it is in memory. Files hold 600 entries, which are almost three blocks.
fn cold() -> (FaultyDisk, Store) {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = Options {
        recent_size: 1,
        queue_file_entries: 600,
        segment_size: SEGMENT_SIZE,
        disk: Disk::new(disk.clone()),
        ..orders::options(Path::new("/data"))
    };
    let open = || Store::open(options.clone(), Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens").0;
    let store = open();
    for number in 0..2 * MESSAGES {
        orders::append_to(&store, number as u32 % 2);
    }
    store.close().expect("closes");
    drop(store);
    (disk, open())
}

fn queue(store: &Store) -> Arc<QueueIndex> {
    store.queue(&orders::topic(), QueueId(0))
}

fn unreadable(file: &str, bytes: Range<u64>) -> Failure {
    Failure::unreadable(format!("consumequeue/orders/0/{file}").as_str(), bytes, EIO)
}

#[test]
fn entries_of_blocks_that_cannot_be_read_are_those_that_were_there() {
    let files = ["00000000000000000000", "00000000000000012000"];
    let blocks = [0..4096, 4096..8192, 8192..12_000, 0..12_000, 100..120];
    for bad in files.iter().flat_map(|file| blocks.iter().map(move |bytes| vec![(*file, bytes.clone())])) {
        let (disk, store) = cold();
        let before = entries(&queue(&store));
        bad.iter().for_each(|(file, bytes)| disk.fail(unreadable(file, bytes.clone())));
        assert!(entries(&queue(&store)) == before, "{bad:?}");
    }
    // All of the queue: there is nothing beside it to go by.
    let (disk, store) = cold();
    let before = entries(&queue(&store));
    files.iter().for_each(|file| disk.fail(unreadable(file, 0..12_000)));
    assert!(entries(&queue(&store)) == before);
}

#[test]
fn entries_are_made_again_by_who_may_wait_alone() {
    let (disk, store) = cold();
    disk.fail(unreadable("", 0..4096));
    let (queue, mut found) = (queue(&store), Vec::new());
    let read = |mode, found: &mut Vec<Entry>| queue.read(QueueOffset(7), 3, mode, found);
    assert!(matches!(read(ReadMode::IfCached, &mut found), Err(StorageError::WouldBlock)));
    read(ReadMode::MayWait, &mut found).expect("made again");
    let mut again = Vec::new();
    read(ReadMode::IfCached, &mut again).expect("in memory now");
    assert_eq!((found.len(), again), (3, found));
}

#[test]
fn nothing_is_made_again_or_called_damaged_while_the_disk_is_gone() {
    let (disk, store) = cold();
    let before = entries(&queue(&store));
    disk.fail(Failure::error(Operation::Read, EIO));
    disk.fail(Failure::error(Operation::ReadPastCache, EIO));
    for _ in 0..3 {
        let refused = queue(&store).entry(QueueOffset(5)).expect_err("nothing can be read");
        assert!(refused.is_unreadable(), "{refused}");
    }
    disk.heal();
    assert!(entries(&queue(&store)) == before);
}

#[test]
fn an_entry_whose_record_is_damaged_too_stands_for_none_and_those_around_it_are_whole() {
    let (disk, store) = cold();
    let before = entries(&queue(&store));
    let (_, damaged) = before[50];
    disk.fail(unreadable("", 0..4096));
    let bytes = damaged.log_offset.0..damaged.log_offset.0 + u64::from(damaged.size);
    // Its size can be read.
    disk.fail(Failure::unreadable("commitlog/00000000000000000000", bytes.end - 10..bytes.end, EIO));
    for (offset, entry) in &before {
        let found = queue(&store).entry(*offset).expect("made again");
        let expected = if *offset == QueueOffset(50) { Entry::lost(before[51].1.log_offset) } else { *entry };
        assert_eq!(found, Some(expected), "{offset}");
    }
}

#[test]
fn where_the_log_does_not_show_what_was_there_the_error_says_what_to_do() {
    let (disk, store) = cold();
    let before = entries(&queue(&store));
    disk.fail(unreadable("", 0..4096));
    let damaged = before[50].1.log_offset.0;
    // Where the next record begins cannot be told.
    disk.fail(Failure::unreadable("commitlog/00000000000000000000", damaged..damaged + 8, EIO));
    for _ in 0..2 {
        let refused = queue(&store).entry(QueueOffset(5)).expect_err("nobody knows").to_string();
        assert!(refused.contains("remove all of consumequeue and start again"), "{refused}");
    }
    // It was no medium error after all.
    disk.heal();
    assert_eq!(queue(&store).entry(QueueOffset(5)).expect("read"), Some(before[5].1));
}

/// A wrong entry of a topic does not say that it is: who makes another again believes none that its record does not bear out.
#[test]
fn an_entry_beside_a_wrong_one_is_made_again() {
    for (unreadable_one, wrong) in [(203, 205), (204, 203), (205, 204), (100, 205), (0, 1), (998, 999), (999, 998)] {
        let (disk, store) = cold();
        let (queue, before) = (queue(&store), entries(&queue(&store)));
        let place = |offset: u64| {
            let name = if offset < 600 { "00000000000000000000" } else { "00000000000000012000" };
            (Path::new("/data/consumequeue/orders/0").join(name), offset % 600 * 20)
        };
        let (file, position) = place(wrong);
        let file = Disk::new(disk.clone()).open(&file).expect("opens");
        let mut size = [0];
        file.read_at(&mut size, position + 11).expect("reads");
        file.write_at(&[size[0] ^ 1], position + 11).expect("writes");
        let (file, position) = place(unreadable_one);
        disk.fail(Failure::unreadable(file.to_str().expect("a name"), position..position + 20, EIO));
        let made = queue.entry(QueueOffset(unreadable_one)).expect("reads");
        assert_eq!(made, Some(before[unreadable_one as usize].1), "{unreadable_one} beside {wrong}");
    }
}

/// One bit of the offset that a record says it has, and a block of entries that cannot be read.
#[test]
fn a_record_that_says_it_is_elsewhere_takes_no_others_with_it() {
    for bit in 0..10 {
        let (disk, store) = cold();
        let (queue, before) = (queue(&store), entries(&queue(&store)));
        let place = before[138].1.log_offset.0 + 26;
        let (begin, position) = (place / SEGMENT_SIZE * SEGMENT_SIZE, place % SEGMENT_SIZE);
        let log = Path::new("/data/commitlog").join(format!("{begin:020}"));
        let log = Disk::new(disk.clone()).open(&log).expect("opens");
        let mut number = [0; 2];
        log.read_at(&mut number, position).expect("reads");
        let flipped = u16::from_be_bytes(number) ^ 1 << bit;
        log.write_at(&flipped.to_be_bytes(), position).expect("writes");
        disk.fail(unreadable("", 0..4096));
        let is_whole = |(offset, entry): &&(QueueOffset, Entry)| queue.entry(*offset).expect("reads") == Some(*entry);
        let lost: Vec<_> = before[..204].iter().filter(|one| !is_whole(one)).map(|(offset, _)| offset.0).collect();
        assert!(lost.iter().all(|offset| [138, u64::from(flipped)].contains(offset)), "bit {bit}: {lost:?}");
    }
}

/// The log begins within the block: who has not noticed yet that the first of its messages are gone finds the others.
#[test]
fn entries_whose_records_retention_has_removed_keep_no_others_from_being_made_again() {
    let (disk, store) = cold();
    let before = entries(&queue(&store));
    disk.fail(unreadable("", 0..4096));
    store.set_retention(RetentionPolicy { size: Some(1), ..RetentionPolicy::default() });
    store.apply_retention(Timestamp(1 << 40), 4).expect("applied");
    let first = store.log_first();
    assert!(first > before[20].1.log_offset, "{first}");
    for (offset, entry) in before.iter().filter(|(_, entry)| entry.log_offset >= first) {
        assert_eq!(queue(&store).entry(*offset).expect("made again"), Some(*entry));
    }
}
