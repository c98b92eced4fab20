//! A start on a directory where the newest entries of a lane were written over: no offset that a message had is given to another, and none
//! is taken for a message that never had one.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, QueueNumber, QueueOffset, Timestamp, TopicName};
use format::lane_entry::LANE_ENTRY_SIZE;
use format::queue_entry::Entry;
use format::record::Record;
use format::state::StateError;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{CommitRule, NoState, Options, RecoveryProgress, RetentionPolicy, StateReplay, Store};
use support::entries;
use support::lanes::{append, lane};
use support::world::Chance;

/// Does something to the bytes of a record.
type Spoil = dyn Fn(&FaultyDisk, Range<u64>);

/// Two counts, or offsets.
type FromTo = (u64, u64);

const EIO: i32 = 5;
const LANE: (u32, u8) = (1, 0);
const OTHER: (u32, u8) = (2, 0);
/// In the lane.
const MESSAGES: u64 = 10;
const SEGMENT_SIZE: u64 = 4096;
/// Within a record.
const SYSTEM_FLAG_AT: u64 = 36;
const BODY_AT: u64 = 88;
/// As much of a body as each has.
const BODY_SIZE: u64 = 60;

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

fn open(options: Options) -> Store {
    Store::open(options, Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens").0
}

/// A lane and messages in it, stopped in good order. How its entries lie in the log.
fn filled(disk: &FaultyDisk) -> Vec<Range<LogOffset>> {
    let store = open(options(disk));
    (0..MESSAGES).for_each(|number| append(&store, number.to_string().as_bytes(), &[(LANE, None)]));
    let entries = entries(&lane(&store, LANE));
    store.close().expect("closes");
    entries.iter().map(|(_, entry)| entry.log_offset..entry.log_offset.after(u64::from(entry.size))).collect()
}

fn write(disk: &FaultyDisk, position: usize, bytes: &[u8]) {
    let path = PathBuf::from("/data/sluice/queues/1/0").join("0".repeat(20));
    Disk::new(disk.clone()).open(&path).expect("opens").write_at(bytes, position as u64).expect("writes");
}

fn write_over(disk: &FaultyDisk, from: u64, count: u64) {
    write(disk, from as usize * LANE_ENTRY_SIZE, &vec![0x21; count as usize * LANE_ENTRY_SIZE]);
}

/// A closed store with messages of the lane, whose entries are written over from the sixth on; what they were.
fn written_over(disk: &FaultyDisk, options: Options, messages: u64) -> Vec<(QueueOffset, Entry)> {
    let store = open(options);
    (0..messages).for_each(|_| append(&store, &[b'x'; 200], &[(LANE, None)]));
    let before = entries(&lane(&store, LANE));
    store.close().expect("closes");
    drop(store);
    write_over(disk, 5, messages - 5);
    before
}

/// Messages of the lane, and a log that begins behind them.
fn with_none_in_log(disk: &FaultyDisk, messages: u64) -> Store {
    let store = open(options(disk));
    (0..messages).for_each(|_| append(&store, b"", &[(LANE, None)]));
    (0..50).for_each(|_| append(&store, &[b'x'; 1000], &[(OTHER, None)]));
    store.checkpoint().expect("a checkpoint");
    store.apply_retention(Timestamp(1 << 40), 4).expect("applied");
    assert!(store.log_first() > LogOffset(SEGMENT_SIZE), "none of its messages is there");
    store
}

/// Changes one byte of the log.
fn change(disk: &FaultyDisk, position: u64, byte: u8) {
    let log = Disk::new(disk.clone()).open(Path::new("/data/commitlog/00000000000000000000")).expect("opens");
    log.write_at(&[byte], position).expect("writes");
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
    assert_eq!(ends(&open(options(&disk))), (MESSAGES, MESSAGES));
}

#[test]
fn a_message_that_cannot_be_read_keeps_its_place_though_its_entry_was_written_over() {
    let unreadable = |disk: &FaultyDisk, bytes: Range<u64>| {
        // Its size can be read.
        disk.fail(Failure::unreadable("commitlog/00000000000000000000", bytes.end - 10..bytes.end, EIO));
    };
    let damaged_topic = |disk: &FaultyDisk, bytes: Range<u64>| change(disk, bytes.end - 10, b'?');
    let damaged_flag = |disk: &FaultyDisk, bytes: Range<u64>| change(disk, bytes.start + SYSTEM_FLAG_AT + 1, 0);
    let damaged_body = |disk: &FaultyDisk, bytes: Range<u64>| change(disk, bytes.end - 50, b'?');
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
        let store = open(options(&disk));
        (0..5).for_each(|_| append(&store, &[b'x'; 1000], &[(OTHER, None)]));
        store.close().expect("closes");
        drop(store);
        let before = entries(&lane(&open(options(&disk)), LANE));
        write_over(&disk, 3, 1);
        write_over(&disk, MESSAGES - 1, 5);
        spoil(&disk, newest.start.0..newest.end.0);
        // Killed in between.
        for _ in 0..3 {
            let store = open(options(&disk));
            let (end, next) = ends(&store);
            assert!(next >= MESSAGES && end == next, "{what}: it ends at {end}, and its next message gets {next}");
            let lane = lane(&store, LANE);
            let is_other =
                |(offset, entry): &&(QueueOffset, Entry)| lane.entry(*offset).expect("reads") != Some(*entry);
            let others: Vec<_> = before.iter().filter(is_other).map(|(offset, _)| offset.0).collect();
            let expected: &[u64] = if what == "a segment gone" { &[3, MESSAGES - 1] } else { &[MESSAGES - 1] };
            assert_eq!(others, expected, "{what}");
        }
    }
}

#[test]
fn no_offset_is_given_out_again_where_the_messages_that_had_it_are_gone_from_the_log() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = with_none_in_log(&disk, MESSAGES);
    store.close().expect("closes");
    drop(store);
    for from in [0, MESSAGES - 1] {
        write_over(&disk, from, MESSAGES - from);
        assert_eq!(ends(&open(options(&disk))).1, MESSAGES, "written over from {from} on");
    }
}

/// Between what was written over and what is not committed the log decides.
#[test]
fn what_is_not_committed_keeps_its_offsets_too() {
    for uncommitted in 0..8 {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let committed = filled(&disk).pop().expect("messages").end;
        let governed = || Options { commit_rule: CommitRule::Told { known: committed }, ..options(&disk) };
        let store = open(governed());
        (0..uncommitted).for_each(|_| append(&store, b"not committed", &[(LANE, None)]));
        store.close().expect("closes");
        drop(store);
        write_over(&disk, MESSAGES, 4);
        let store = open(governed());
        assert_eq!(ends(&store), (MESSAGES, MESSAGES + uncommitted));
        let committed = store.watermarks().written();
        store.set_committed(committed, &mut NoState).expect("commits");
        let all = MESSAGES + uncommitted;
        assert_eq!(ends(&store), (all, all));
        let offsets = entries(&lane(&store, LANE)).into_iter().map(|(offset, entry)| (offset, entry.has_record()));
        assert!(offsets.eq((0..all).map(|offset| (QueueOffset(offset), true))), "{uncommitted}");
    }
}

/// Something keeps the log from saying that there is nothing where entries were written over. Who reads there finds nothing that is not committed,
/// and each message is in the queue once when it is.
#[test]
fn what_is_not_committed_is_not_made_again() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    filled(&disk);
    let store = open(options(&disk));
    let damaged = store.log_end().0;
    append(&store, b"of another queue", &[(OTHER, None)]);
    let committed = store.log_end();
    store.close().expect("closes");
    drop(store);
    let governed = |known| Options { commit_rule: CommitRule::Told { known }, ..options(&disk) };
    let store = open(governed(committed));
    (0..2).for_each(|_| append(&store, b"not committed", &[(LANE, None)]));
    store.close().expect("closes");
    drop(store);
    write_over(&disk, MESSAGES, 5);
    change(&disk, damaged + 95, b'?');
    let store = open(governed(committed));
    assert!(!matches!(lane(&store, LANE).entry(QueueOffset(MESSAGES)), Ok(Some(_))), "it is not committed");
    for _ in 0..2 {
        store.set_committed(store.watermarks().written(), &mut NoState).expect("commits");
        append(&store, b"new", &[(LANE, None)]);
    }
    store.set_committed(store.watermarks().written(), &mut NoState).expect("commits");
    assert_eq!(ends(&store), (MESSAGES + 4, MESSAGES + 4));
    let entries = entries(&lane(&store, LANE));
    assert!(entries.windows(2).all(|pair| pair[0].1.log_offset < pair[1].1.log_offset), "{entries:?}");
}

/// So many entries that a search by halves does not see over what was written over, in one stretch or in two, before the newest or up to them.
#[test]
fn no_message_is_lost_behind_long_stretches_that_were_written_over() {
    let all_below = (4000, 0);
    let cases: [(FromTo, &[FromTo]); 5] = [
        (all_below, &[(1000, 2200), (3100, 4000)]),
        (all_below, &[(0, 3999)]),
        (all_below, &[(0, 4000)]),
        ((3000, 1100), &[(1400, 2260)]),
        ((3000, 1100), &[(1000, 1900), (2200, 3000)]),
    ];
    for ((below, above), stretches) in cases {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let options =
            || Options { lane_file_entries: 8192, segment_size: 1 << 22, gathered_entries: 0, ..options(&disk) };
        let store = open(options());
        (0..below).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        (0..above).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.flush_entries().expect("flushed");
        let before = entries(&lane(&store, LANE));
        if above == 0 {
            store.close().expect("closes");
        }
        drop(store);
        stretches.iter().for_each(|(from, until)| write_over(&disk, *from, until - from));
        let store = open(options());
        assert_eq!(ends(&store), (below + above, below + above), "{stretches:?}");
        let lane = lane(&store, LANE);
        // From the end on: whoever comes from the begin has what is wrong made again by the way.
        for (offset, entry) in before.iter().rev() {
            assert_eq!(lane.entry(*offset).expect("reads"), Some(*entry), "{offset}, {stretches:?}");
        }
    }
}

/// Number 21 lies in two sectors, and is the last below the checkpoint. Whether or not the machine ran on, its record is in the log.
#[test]
fn an_entry_in_two_sectors_is_not_lost_where_others_follow() {
    for runs_on in [true, false] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let store = open(options(&disk));
        (0..22).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        (0..50).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.flush_entries().expect("flushed");
        store.sync().expect("synced");
        let before = entries(&lane(&store, LANE));
        drop(store);
        let disk = if runs_on { disk } else { FaultyDisk::over(&disk.after_power_cut(disk.points(), || true)) };
        write_over(&disk, 21, 1);
        let store = open(options(&disk));
        assert_eq!(lane(&store, LANE).entry(QueueOffset(21)).expect("reads"), Some(before[21].1), "{runs_on}");
        assert_eq!(ends(&store), (72, 72));
    }
}

/// Number 21 lies in two sectors, and there was never a message that had it: a power cut has kept half of its entry, and not its record. The log
/// does not say so, since it begins behind what the lane has there.
#[test]
fn an_entry_that_a_power_cut_left_half_written_holds_up_nothing() {
    for (runs_on, end) in [(false, 21), (true, 22)] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        drop(with_none_in_log(&disk, 21));
        let disk = if runs_on { disk } else { FaultyDisk::over(&disk.after_power_cut(disk.points(), || true)) };
        write(&disk, 21 * LANE_ENTRY_SIZE, &[0x21; 8]);
        assert_eq!(ends(&open(options(&disk))), (end, end), "it runs on: {runs_on}");
    }
}

/// The same, and there is a message, which was confirmed: its record was synced.
#[test]
fn a_message_whose_entry_a_power_cut_left_half_written_keeps_its_place() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = with_none_in_log(&disk, 21);
    append(&store, b"confirmed", &[(LANE, None)]);
    store.flush_entries().expect("flushed");
    store.sync().expect("synced");
    let before = lane(&store, LANE).entry(QueueOffset(21)).expect("reads");
    drop(store);
    let disk = FaultyDisk::over(&disk.after_power_cut(disk.points(), || true));
    write(&disk, 21 * LANE_ENTRY_SIZE, &[0; 8]);
    let store = open(options(&disk));
    assert_eq!((ends(&store), lane(&store, LANE).entry(QueueOffset(21)).expect("reads")), ((22, 22), before));
}

/// A state that says that the queue was removed.
struct Removed(LogOffset);

impl StateReplay for Removed {
    fn known_until(&self) -> LogOffset {
        LogOffset(u64::MAX)
    }

    fn removed(&self) -> Vec<(TopicName, LogOffset)> {
        vec![(TopicName::of_message_queue(QueueNumber(LANE.0)), self.0)]
    }

    fn apply(&mut self, _: LogOffset, _: &[u8]) -> Result<Vec<TopicName>, StateError> {
        Ok(Vec::new())
    }
}

#[test]
fn what_a_crash_left_of_a_removed_queue_is_removed_whatever_its_entries_are() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open(options(&disk));
    (0..MESSAGES).for_each(|_| append(&store, b"", &[(LANE, None)]));
    store.checkpoint().expect("a checkpoint");
    let mut state = Removed(store.log_end());
    drop(store);
    write_over(&disk, MESSAGES - 1, 1);
    let (store, recovery) =
        Store::open_with_state(options(&disk), Arc::default(), &mut state, &mut |_| ()).expect("starts");
    assert_eq!((recovery.removed_queues, store.message_queues()), (1, vec![]));
}

/// Whatever of its files a power cut has kept, and whatever stands in the newest.
#[test]
fn a_start_passes_over_a_file_of_entries_without_the_one_before_it() {
    let mut were_apart = 0;
    for seed in 0..60 {
        let mut chance = Chance::new(seed);
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let store = open(options(&disk));
        (0..600).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        (0..1300).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.flush_entries().expect("flushed");
        store.sync().expect("synced");
        drop(store);
        let disk = FaultyDisk::over(&disk.after_power_cut(disk.points(), || chance.below(2) == 0));
        let folder = Path::new("/data/sluice/queues/1/0");
        let files = Disk::new(disk.clone()).list(folder).expect("files");
        let newest = folder.join(files.iter().max().expect("a file"));
        let file = Disk::new(disk.clone()).open(&newest).expect("opens");
        if file.size().expect("a size") == 600 * LANE_ENTRY_SIZE as u64 {
            were_apart += usize::from(files.len() == 2 && !newest.ends_with("00000000000000014400"));
            file.write_at(&[0x21; 512], 0).expect("writes");
        }
        let store = open(options(&disk));
        let (end, next) = ends(&store);
        assert!(end == next && entries(&lane(&store, LANE)).iter().all(|(_, entry)| entry.has_record()), "seed {seed}");
    }
    assert!(were_apart > 3, "{were_apart}");
}

/// In good order or by a kill.
#[test]
fn zeros_within_what_was_written_over_end_no_queue() {
    for is_orderly in [true, false] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let store = open(options(&disk));
        (0..340).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        let before = entries(&lane(&store, LANE));
        if is_orderly {
            store.close().expect("closes");
        }
        drop(store);
        let mut block = [0x21; 4096];
        block[1000..1048].fill(0);
        write(&disk, 4096, &block);
        let store = open(options(&disk));
        assert_eq!(
            (ends(&store), entries(&lane(&store, LANE)) == before),
            ((340, 340), true),
            "in order: {is_orderly}"
        );
    }
}

/// A power cut has kept entries of messages that it has not kept, and a sector of them was written over.
#[test]
fn entries_of_messages_that_are_not_there_are_none() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = |disk: &FaultyDisk| Options { segment_size: 1 << 20, gathered_entries: 0, ..options(disk) };
    let store = open(options(&disk));
    (0..700).for_each(|_| append(&store, b"", &[(LANE, None)]));
    store.checkpoint().expect("a checkpoint");
    (0..100).for_each(|_| append(&store, b"", &[(LANE, None)]));
    store.sync().expect("synced");
    let end = store.log_end();
    (0..500).for_each(|_| append(&store, b"", &[(LANE, None)]));
    store.flush_entries().expect("flushed");
    drop(store);
    let disk = FaultyDisk::over(&disk.after_power_cut(disk.points(), || true));
    let files = Disk::new(disk.clone());
    let log = files.open(Path::new("/data/commitlog/00000000000000000000")).expect("opens");
    log.write_at(&vec![0; (1 << 20) - end.0 as usize], end.0).expect("writes");
    let newest = files.open(Path::new("/data/sluice/queues/1/0/00000000000000028800")).expect("opens");
    newest.write_at(&[0x21; 512], 0).expect("writes");
    let store = open(options(&disk));
    assert_eq!(ends(&store), (800, 800));
    assert!(entries(&lane(&store, LANE)).iter().all(|(_, entry)| entry.has_record() && entry.log_offset < end));
}

/// The queue's first entry lies in two blocks, and its record is gone: only of that one nobody knows what it was.
#[test]
fn an_entry_that_is_asked_for_in_vain_keeps_none_of_another_block_from_being_made_again() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open(options(&disk));
    (0..512).for_each(|_| append(&store, b"", &[(LANE, None)]));
    let entry = |store: &Store, offset| lane(store, LANE).entry(QueueOffset(offset));
    let (gone, newest) = (entry(&store, 341), entry(&store, 511));
    store.checkpoint().expect("a checkpoint");
    let first = gone.expect("reads").expect("there").log_offset;
    // Retention has removed the record, and the queue has not noticed.
    store
        .apply_retention_below(LogOffset(first.0 / SEGMENT_SIZE * SEGMENT_SIZE + SEGMENT_SIZE), Timestamp(1 << 40), 4)
        .expect("applied");
    assert!(store.log_first() > first);
    write(&disk, 8192, &[0x21; 4096]);
    (0..20).for_each(|_| _ = entry(&store, lane(&store, LANE).first().0));
    assert_eq!(entry(&store, 511).expect("made again"), newest.expect("reads"));
}

/// Two messages, one after the other, begin in a block that the disk cannot read.
#[test]
fn a_block_that_cannot_be_read_costs_its_own_messages_alone() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = || Options { segment_size: 1 << 16, ..options(&disk) };
    let store = open(options());
    (0..100).for_each(|_| append(&store, b"", &[(LANE, None)]));
    let before = entries(&lane(&store, LANE));
    store.close().expect("closes");
    drop(store);
    write_over(&disk, 5, 95);
    disk.fail(Failure::unreadable("commitlog", 4096..8192, EIO));
    let (store, recovery) = Store::open(options(), Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens");
    let bad = recovery.damaged.iter().map(|offset| offset.0).collect::<Vec<_>>();
    assert!(bad.len() == 1 && bad[0] < 4096, "reported where it cannot be read on: {bad:?}");
    assert_eq!(ends(&store), (100, 100));
    let lane = lane(&store, LANE);
    for (offset, entry) in &before {
        let is_readable = entry.log_offset.after(u64::from(entry.size)).0 <= 4096 || entry.log_offset.0 >= 8192;
        let has_its_own = lane.entry(*offset).expect("reads") == Some(*entry);
        assert_eq!(has_its_own, is_readable, "{offset}");
    }
}

/// A message is of a version that this one does not know: skipped once, it would be lost for good.
#[test]
fn a_message_of_a_newer_version_stops_the_start() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let newest = filled(&disk).pop().expect("messages");
    write_over(&disk, MESSAGES - 2, 2);
    let log = Disk::new(disk.clone()).open(Path::new("/data/commitlog/00000000000000000000")).expect("opens");
    let mut bytes = vec![0; (newest.end.0 - newest.start.0) as usize];
    log.read_at(&mut bytes, newest.start.0).expect("reads");
    let body = Record::decode(&bytes).expect("a record").body;
    let (at, size) = (body.as_ptr() as usize - bytes.as_ptr() as usize, body.len());
    bytes[at] = 0x7f;
    let crc = crc32fast::hash(&bytes[at..at + size]) & 0x7fff_ffff;
    bytes[8..12].copy_from_slice(&crc.to_be_bytes());
    log.write_at(&bytes, newest.start.0).expect("writes");
    let error =
        Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ()).map(drop).expect_err("refused");
    assert!(error.to_string().contains("newer"), "{error}");
}

/// Where the log cannot say what a lane had, and its newest messages, of another lane, are not committed.
#[test]
fn offsets_that_are_kept_are_so_after_a_kill_though_the_log_goes_on_uncommitted() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let newest = filled(&disk).pop().expect("messages");
    let store = open(options(&disk));
    append(&store, b"of another queue", &[(OTHER, None)]);
    let committed = store.log_end();
    store.close().expect("closes");
    drop(store);
    let governed = || Options { commit_rule: CommitRule::Told { known: committed }, ..options(&disk) };
    let store = open(governed());
    (0..3).for_each(|_| append(&store, b"not committed", &[(OTHER, None)]));
    store.close().expect("closes");
    drop(store);
    write_over(&disk, MESSAGES - 1, 4);
    disk.fail(Failure::unreadable("commitlog/00000000000000000000", newest.start.0..newest.start.0 + 1, EIO));
    let before = {
        let store = open(governed());
        store.checkpoint().expect("a checkpoint");
        ends(&store)
    };
    assert_eq!(before, (MESSAGES + 3, MESSAGES + 3));
    assert_eq!(ends(&open(governed())), before);
}

/// A start that looks into a lane is killed, or loses power, at any of its steps.
#[test]
fn a_crash_of_a_start_that_looks_into_a_lane_costs_nothing() {
    for (at_end, loses_power) in [(0, false), (0, true), (1, false), (1, true)] {
        for steps in 0..40 {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let options = |disk: &FaultyDisk| Options { gathered_entries: 0, ..options(disk) };
            let store = open(options(&disk));
            (0..20).for_each(|_| append(&store, b"", &[(OTHER, None)]));
            (0..30).for_each(|_| append(&store, b"", &[(LANE, None)]));
            store.checkpoint().expect("a checkpoint");
            let before = entries(&lane(&store, LANE));
            drop(store);
            write_over(&disk, 20, 9 + at_end);
            let unreadable = |disk: &FaultyDisk| {
                disk.fail(Failure::unreadable("commitlog/00000000000000000000", 100..101, EIO));
            };
            unreadable(&disk);
            disk.fail(Failure::error(Operation::Change, EIO).after(steps));
            let started = Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ());
            let was_killed = started.is_err();
            drop(started);
            let disk = match loses_power {
                true => FaultyDisk::over(&disk.after_power_cut(disk.points(), || steps % 2 == 0)),
                false => disk,
            };
            disk.heal();
            unreadable(&disk);
            let store = open(options(&disk));
            assert_eq!(ends(&store), (30, 30), "{at_end} {loses_power} {steps}, killed: {was_killed}");
            let lane = lane(&store, LANE);
            assert!(
                before.iter().all(|(offset, entry)| lane.entry(*offset).expect("reads") == Some(*entry)),
                "{at_end} {loses_power} {steps}"
            );
        }
    }
}

/// Retention has removed a lane's first messages, all its entries are written over, and a start is killed at any of its steps.
#[test]
fn a_crash_of_a_start_costs_nothing_of_a_lane_whose_beginning_is_gone() {
    for steps in 0..40 {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let store = open(options(&disk));
        (0..60).for_each(|_| append(&store, &[b'x'; 100], &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        store.apply_retention(Timestamp(1 << 40), 4).expect("applied");
        let before = entries(&lane(&store, LANE));
        assert!(before[0].0 > QueueOffset(0) && before.len() > 5);
        drop(store);
        write_over(&disk, 0, 60);
        disk.fail(Failure::error(Operation::Change, EIO).after(steps));
        drop(Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ()));
        disk.heal();
        let store = open(options(&disk));
        let lane = lane(&store, LANE);
        assert_eq!(ends(&store), (60, 60), "{steps}");
        assert!(before.iter().all(|(offset, entry)| lane.entry(*offset).expect("reads") == Some(*entry)), "{steps}");
    }
}

/// None of a lane's messages is in the log, and its entries, which were written over, filled a file.
#[test]
fn offsets_that_end_with_a_file_are_kept_over_a_kill() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = with_none_in_log(&disk, 600);
    store.close().expect("closes");
    drop(store);
    write_over(&disk, 0, 600);
    for _ in 0..3 {
        assert_eq!(ends(&open(options(&disk))).1, 600);
    }
}

/// What is left of a record says that it ends where nothing was ever written.
#[test]
fn a_damaged_size_that_leads_beyond_the_log_hides_nothing_behind_it() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = || Options { segment_size: 1 << 20, ..options(&disk) };
    let store = open(options());
    (0..30).for_each(|_| append(&store, b"", &[(LANE, None)]));
    let before = entries(&lane(&store, LANE));
    store.close().expect("closes");
    drop(store);
    let damaged = before[10].1;
    let mut bytes = vec![0x3f; damaged.size as usize];
    bytes[..2].fill(0);
    let log = Disk::new(disk.clone()).open(Path::new("/data/commitlog/00000000000000000000")).expect("opens");
    log.write_at(&bytes, damaged.log_offset.0).expect("writes");
    write_over(&disk, 5, 25);
    let (store, recovery) = Store::open(options(), Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens");
    let lane = lane(&store, LANE);
    let is_other = |(offset, entry): &&(QueueOffset, Entry)| lane.entry(*offset).expect("reads") != Some(*entry);
    let others: Vec<_> = before.iter().filter(is_other).map(|(offset, _)| offset.0).collect();
    assert_eq!((others, recovery.damaged), (vec![10], vec![damaged.log_offset]));
}

/// Gaps are all that a lane has, and behind them messages that are not committed.
#[test]
fn what_is_not_committed_keeps_its_offsets_behind_gaps() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = with_none_in_log(&disk, MESSAGES);
    let committed = store.log_end();
    store.close().expect("closes");
    drop(store);
    write_over(&disk, 0, MESSAGES);
    let governed = || Options { commit_rule: CommitRule::Told { known: committed }, ..options(&disk) };
    let store = open(governed());
    (0..3).for_each(|_| append(&store, b"not committed", &[(LANE, None)]));
    assert_eq!(ends(&store), (MESSAGES, MESSAGES + 3));
    store.close().expect("closes");
    drop(store);
    assert_eq!(ends(&open(governed())), (MESSAGES, MESSAGES + 3));
}

/// The newest message whose entry is whole comes behind one that was lost.
#[test]
fn a_message_behind_a_lost_one_is_not_passed_over() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let newest = filled(&disk).pop().expect("messages");
    let options = || Options { segment_size: 1 << 16, ..options(&disk) };
    let store = open(options());
    append(&store, b"of another queue", &[(OTHER, None)]);
    store.close().expect("closes");
    drop(store);
    write_over(&disk, MESSAGES - 1, 1);
    disk.fail(Failure::unreadable("commitlog/00000000000000000000", newest.start.0..newest.start.0 + 1, EIO));
    let store = open(options());
    assert_eq!(ends(&store), (MESSAGES, MESSAGES));
    (0..3).for_each(|_| append(&store, b"behind", &[(LANE, None)]));
    store.checkpoint().expect("a checkpoint");
    let before = entries(&lane(&store, LANE));
    drop(store);
    write_over(&disk, MESSAGES, 3);
    let (store, recovery) = Store::open(options(), Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens");
    assert_eq!((entries(&lane(&store, LANE)), recovery.damaged), (before, vec![]));
}

/// Of its body, where its places in queues are: it seems to be before the first message of its lane that there is.
#[test]
fn a_damaged_message_whose_place_is_gone_refuses_no_start() {
    for body_byte in 0..BODY_SIZE {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let store = open(options(&disk));
        (0..700).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        store.apply_retention(Timestamp(1 << 40), 4).expect("applied");
        let before = entries(&lane(&store, LANE));
        assert!(before[0].0 >= QueueOffset(600), "its first file is gone");
        store.close().expect("closes");
        drop(store);
        let damaged = before[before.len() - 3].1.log_offset.0;
        let file = PathBuf::from("/data/sluice/queues/1/0").join(format!("{:020}", 600 * LANE_ENTRY_SIZE));
        let entries_file = Disk::new(disk.clone()).open(&file).expect("opens");
        entries_file.write_at(&[0x21; 5 * LANE_ENTRY_SIZE], (95 * LANE_ENTRY_SIZE) as u64).expect("writes");
        let segment = format!("/data/commitlog/{:020}", damaged / SEGMENT_SIZE * SEGMENT_SIZE);
        let log = Disk::new(disk.clone()).open(Path::new(&segment)).expect("opens");
        log.write_at(&[0], damaged % SEGMENT_SIZE + BODY_AT + body_byte).expect("writes");
        assert_eq!(ends(&open(options(&disk))), (700, 700), "{body_byte}");
    }
}

/// Nothing of the log can be read for some reads, at any time of a start: it is refused or finds all that there is.
#[test]
fn a_disk_that_is_gone_for_a_while_costs_no_message() {
    for passes in 0..40 {
        for times in [1, 3, 10, 100] {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let options = || Options { segment_size: 1 << 15, ..options(&disk) };
            let before = written_over(&disk, options(), 200);
            disk.fail(Failure::unreadable("commitlog", 0..u64::MAX, EIO).after(passes).times(times));
            let started = Store::open(options(), Arc::default(), &mut |_: RecoveryProgress| ());
            drop(started.inspect(|(_, recovery)| assert_eq!(recovery.damaged, [], "{passes} {times}")));
            disk.heal();
            assert_eq!(entries(&lane(&open(options()), LANE)), before, "{passes} {times}");
        }
    }
}

/// It comes back, and goes once more.
#[test]
fn a_disk_that_goes_twice_costs_no_message() {
    for (passes, gap) in (0..25).flat_map(|passes| (1..12).map(move |gap| (passes, gap))) {
        for (first, second) in [(2, 1), (2, 2), (2, 3), (2, 5), (3, 3)] {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let options = || Options { segment_size: 1 << 15, ..options(&disk) };
            written_over(&disk, options(), 200);
            let gone = |after, times| Failure::unreadable("commitlog", 0..u64::MAX, EIO).after(after).times(times);
            disk.fail(gone(passes, first));
            disk.fail(gone(passes + first + gap, second));
            let started = Store::open(options(), Arc::default(), &mut |_: RecoveryProgress| ());
            let what = format!("{passes}, {first}, {gap}, {second}");
            drop(started.inspect(|(_, recovery)| assert_eq!(recovery.damaged, [], "{what}")));
        }
    }
}

/// One place of the only segment can be read, and most others cannot.
#[test]
fn a_large_part_of_the_only_segment_that_cannot_be_read_refuses_no_start() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = || Options { segment_size: 1 << 20, ..options(&disk) };
    written_over(&disk, options(), 100);
    disk.fail(Failure::unreadable("commitlog", 4096..32_000, EIO));
    assert_eq!(ends(&open(options())), (100, 100));
}

/// Messages above the checkpoint, of which one is damaged: nobody knows where it was. A start is killed at any of its steps.
#[test]
fn offsets_that_are_kept_are_so_after_a_kill_of_that_start() {
    for (steps, body_byte) in (0..25).flat_map(|steps| (0..BODY_SIZE).map(move |byte| (steps, byte))) {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let store = open(options(&disk));
        (0..MESSAGES).for_each(|_| append(&store, b"", &[(LANE, None)]));
        store.checkpoint().expect("a checkpoint");
        (0..3).for_each(|_| append(&store, b"", &[(LANE, None)]));
        let damaged = entries(&lane(&store, LANE)).pop().expect("messages").1.log_offset.0;
        append(&store, b"of another queue", &[(OTHER, None)]);
        store.flush_entries().expect("flushed");
        drop(store);
        write_over(&disk, MESSAGES, 4);
        change(&disk, damaged + BODY_AT + body_byte, 0xff);
        disk.fail(Failure::error(Operation::Change, EIO).after(steps));
        drop(Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ()));
        disk.heal();
        let (end, next) = ends(&open(options(&disk)));
        let what = format!("{steps}, {body_byte}: it ends at {end}, and its next message gets {next}");
        assert!(next >= MESSAGES + 3 && end == next, "{what}");
    }
}

/// A lane's newest message, above the checkpoint, says no more in which lane it is. The lane's file does.
#[test]
fn a_damaged_newest_message_keeps_its_offset() {
    for (messages, body_byte) in (0..6).flat_map(|messages| (0..BODY_SIZE).map(move |byte| (messages, byte))) {
        let (messages, has_checkpoint) = (messages / 2 + 1, messages % 2 > 0);
        let disk = newest_damaged(messages, has_checkpoint, body_byte);
        for start in 0..3 {
            let ends = ends(&open(options(&disk)));
            assert_eq!(ends, (messages, messages), "{body_byte}, start {start}");
        }
    }
}

/// It may fail while it is asked whether the lane's file lists the message.
#[test]
fn a_damaged_newest_message_keeps_its_offset_though_the_disk_fails_for_a_moment() {
    let chances = (0..8).flat_map(|passes| (1..5).map(move |times| (passes, times)));
    for (operation, (passes, times)) in [Operation::Open, Operation::Read]
        .into_iter()
        .flat_map(|operation| chances.clone().map(move |at| (operation, at)))
    {
        for body_byte in (0..BODY_SIZE).step_by(4) {
            let disk = newest_damaged(2, false, body_byte);
            disk.fail(Failure::error(operation, EIO).at("sluice/queues/1").after(passes).times(times));
            let started = Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ());
            disk.heal();
            if let Err(error) = &started {
                assert!(error.to_string().contains("sluice/queues/1"), "the file at fault is named: {error}");
            }
            drop(started);
            let (told, store) =
                (format!("{body_byte}, {operation:?} after {passes}, {times} times"), open(options(&disk)));
            // A file that cannot be read four times is set aside; the lane goes on behind all that it may have had.
            assert!(ends(&store).0 >= 2, "{told}: {:?}", ends(&store));
            assert!(
                entries(&lane(&store, LANE)).iter().any(|(offset, entry)| offset.0 == 0 && entry.has_record()),
                "{told}"
            );
        }
    }
}

/// The entry of one before it was never on the disk: a start listed that as lost, and was killed before the next checkpoint.
#[test]
fn a_damaged_newest_message_behind_a_lost_one_keeps_its_offset() {
    for body_byte in (0..BODY_SIZE).step_by(2) {
        let disk = newest_damaged(2, false, 0);
        let options = || Options { gathered_entries: 0, ..options(&disk) };
        let store = open(options());
        append(&store, b"", &[(LANE, None)]);
        append(&store, b"of another queue", &[(OTHER, None)]);
        let newest = entries(&lane(&store, LANE)).pop().expect("messages");
        store.flush_entries().expect("flushed");
        drop(store);
        write(&disk, LANE_ENTRY_SIZE, &[0; LANE_ENTRY_SIZE]);
        let store = open(options());
        store.flush_entries().expect("flushed");
        let listed = lane(&store, LANE).entry(QueueOffset(1)).expect("reads");
        assert_eq!((newest.0, listed.is_some_and(|listed| listed.has_record())), (QueueOffset(2), false));
        drop(store);
        change(&disk, newest.1.log_offset.0 + BODY_AT + body_byte, 0xff);
        assert_eq!(ends(&open(options())), (3, 3), "{body_byte}");
    }
}

/// The one behind it says which offset it had.
#[test]
fn a_message_behind_a_damaged_one_is_found_though_the_disk_cannot_read_the_lanes_file() {
    for passes in 0..20 {
        let disk = newest_damaged(2, false, 0);
        let store = open(options(&disk));
        append(&store, b"behind it", &[(LANE, None)]);
        let newest = entries(&lane(&store, LANE)).pop().expect("messages");
        assert_eq!(newest.0, QueueOffset(2));
        drop(store);
        disk.fail(Failure::error(Operation::Read, EIO).at("sluice/queues/1").after(passes));
        let started = Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ());
        disk.heal();
        match started {
            Ok((store, recovery)) => {
                drop(store);
                assert!(!recovery.damaged.contains(&newest.1.log_offset), "{passes}");
            }
            Err(error) => assert!(!error.to_string().contains("commitlog"), "the log is read well: {error}"),
        }
        let store = open(options(&disk));
        assert_eq!(lane(&store, LANE).entry(newest.0).expect("reads"), Some(newest.1), "{passes}");
    }
}

/// A killed store whose newest message of the lane, of so many, is damaged in its body.
fn newest_damaged(messages: u64, has_checkpoint: bool, body_byte: u64) -> FaultyDisk {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open(Options { gathered_entries: 0, ..options(&disk) });
    if has_checkpoint {
        append(&store, b"of another queue", &[(OTHER, None)]);
        store.checkpoint().expect("a checkpoint");
    }
    (0..messages).for_each(|_| append(&store, b"", &[(LANE, None)]));
    let damaged = entries(&lane(&store, LANE)).pop().expect("messages").1.log_offset.0;
    append(&store, b"of another queue", &[(OTHER, None)]);
    store.flush_entries().expect("flushed");
    drop(store);
    change(&disk, damaged + BODY_AT + body_byte, 0xff);
    disk
}

/// All entries are made again, as a file of another lane cannot be used, while a start is killed at any of its steps.
#[test]
fn entries_that_were_written_over_cost_those_behind_them_nothing_when_all_are_made_again() {
    for (steps, body_byte) in (0..25).flat_map(|steps| (0..BODY_SIZE).map(move |byte| (steps, byte))) {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let newest = filled(&disk).pop().expect("messages");
        let store = open(options(&disk));
        (0..3).for_each(|_| append(&store, b"of another queue", &[(OTHER, None)]));
        let before = entries(&lane(&store, LANE));
        store.close().expect("closes");
        drop(store);
        write_over(&disk, 3, 2);
        change(&disk, newest.start.0 + BODY_AT + body_byte, 0xff);
        let other = PathBuf::from("/data/sluice/queues/2/0").join("0".repeat(20));
        let size = 600 * LANE_ENTRY_SIZE as u64;
        Disk::new(disk.clone()).open(&other).expect("opens").write_at(&[0], size).expect("of another size");
        disk.fail(Failure::error(Operation::Change, EIO).after(steps));
        drop(Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ()));
        disk.heal();
        let store = open(options(&disk));
        assert_eq!(ends(&store), (MESSAGES, MESSAGES), "{steps}, {body_byte}");
        let lane = lane(&store, LANE);
        let mut sound = before.iter().take(MESSAGES as usize - 1);
        let is_whole = sound.all(|(offset, entry)| lane.entry(*offset).expect("reads") == Some(*entry));
        assert!(is_whole, "{steps}, {body_byte}");
    }
}

/// The newest message whose entry is whole is damaged: it is not one that anybody is in doubt about.
#[test]
fn a_damaged_message_that_a_lane_has_leaves_no_doubt_about_those_behind_it() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let messages = filled(&disk);
    write_over(&disk, MESSAGES - 1, 20);
    change(&disk, messages[MESSAGES as usize - 2].start.0 + BODY_AT + 4, b'?');
    assert_eq!(ends(&open(options(&disk))), (MESSAGES, MESSAGES));
}

/// Behind a message that cannot be read is a damaged one, which is told of and keeps its place.
#[test]
fn a_damaged_message_behind_one_that_cannot_be_read_is_told_of() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let messages = filled(&disk);
    let (unreadable, damaged) = (messages[4].clone(), messages[5].clone());
    write_over(&disk, 2, MESSAGES - 2);
    disk.fail(Failure::unreadable("commitlog", unreadable.end.0 - 10..unreadable.end.0, EIO));
    change(&disk, damaged.start.0 + BODY_AT + 4, b'?');
    let (store, recovery) = Store::open(options(&disk), Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens");
    assert_eq!((ends(&store), recovery.damaged), ((MESSAGES, MESSAGES), vec![unreadable.start, damaged.start]));
}

/// An older segment cannot be read for the most part. The disk is there: it reads the other segments.
#[test]
fn a_large_part_of_a_segment_that_cannot_be_read_refuses_no_start() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = || Options { segment_size: 1 << 15, ..options(&disk) };
    let before = written_over(&disk, options(), 300);
    disk.fail(Failure::unreadable("commitlog/00000000000000000000", 4096..1 << 15, EIO));
    // Where those begin is bad, too.
    for base in 1..3 {
        disk.fail(Failure::unreadable(&format!("commitlog/{:020}", base << 15), 0..4096, EIO));
    }
    let store = open(options());
    assert_eq!(ends(&store), (300, 300));
    let lane = lane(&store, LANE);
    let mut readable =
        before.iter().filter(|(_, entry)| entry.log_offset.0 >> 15 > 0 && entry.log_offset.0 % (1 << 15) >= 4096);
    assert!(readable.all(|(offset, entry)| lane.entry(*offset).expect("reads") == Some(*entry)));
    let is_rising = entries(&lane).windows(2).all(|pair| pair[0].1.log_offset <= pair[1].1.log_offset);
    assert!(is_rising, "a search by time needs it");
}
