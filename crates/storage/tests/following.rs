//! A store that follows a leader's log from its middle on, and one of a leader that says nothing of the topics it removes.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, Timestamp};
use bytes::Bytes;
use format::record::{self, Kind};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{CommitRule, NoState, Options, StorageError, Store};
use support::orders;
use support::world::Chance;

const COUNT: u64 = 60;

fn options(disk: Disk) -> Options {
    Options { disk, ..orders::options(Path::new("/data")) }
}

/// A leader's log of several segments with messages of one queue.
fn leader() -> Bytes {
    let memory = MemoryDisk::new();
    let store = Store::open(options(Disk::new(memory.clone())), Arc::default(), &mut |_| ()).expect("opens").0;
    (0..COUNT).for_each(|_| _ = orders::append_to(&store, 0));
    let end = store.watermarks().written();
    let mut log = Vec::new();
    while (log.len() as u64) < end.0 {
        log.extend_from_slice(&store.read_raw(LogOffset(log.len() as u64), usize::MAX).expect("reads"));
    }
    log.into()
}

fn follower(disk: Disk) -> Store {
    Store::open(options(disk).following(), Arc::default(), &mut |_| ()).expect("opens").0
}

/// Takes bytes in as a slave does.
fn follow(store: &Store, start: u64, bytes: &Bytes) -> Result<(), StorageError> {
    let mut at = 0;
    while at < bytes.len() {
        let end = store.append_raw(LogOffset(start + at as u64), &bytes.slice(at..))?;
        store.write_staged()?;
        store.set_committed(end, &mut NoState)?;
        at = (end.0 - start) as usize;
    }
    Ok(())
}

/// Where records and fillers begin and end.
fn ends_of(log: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    while let Some(rest) = log.get(*ends.last().expect("an end")..).filter(|rest| !rest.is_empty()) {
        let size = match record::kind_at(rest).expect("a log") {
            Kind::Record(size) | Kind::Filler(size) => size,
            Kind::End => break,
        };
        ends.push(ends.last().expect("an end") + size);
    }
    ends
}

fn end(store: &Store) -> u64 {
    store.watermarks().committed().0
}

fn range_of(store: &Store) -> (u64, u64) {
    let queue = store.queue(&orders::topic(), QueueId(0));
    (queue.first().0, queue.end().0)
}

#[test]
fn a_log_begins_in_the_middle_and_goes_on_after_a_stop_a_kill_and_before_its_first_record() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    let memory = MemoryDisk::new();
    let disk = || Disk::new(memory.clone());
    let store = follower(disk());
    store.prepare_next_segment().expect("one is made ahead");
    store.begin_at(LogOffset(segment)).expect("begins");
    assert_eq!((store.log_first().0, end(&store)), (segment, segment));
    drop(store);
    let store = follower(disk());
    if end(&store) == 0 {
        store.begin_at(LogOffset(segment)).expect("nothing had come yet");
    }
    follow(&store, segment, &log.slice(segment as usize..2 * segment as usize)).expect("follows");
    let (first, middle) = range_of(&store);
    assert!(first > 0 && middle > first);
    store.checkpoint().expect("a checkpoint");
    drop(store);
    let store = follower(disk());
    assert_eq!((store.log_first().0, end(&store), range_of(&store)), (segment, 2 * segment, (first, middle)));
    follow(&store, 2 * segment, &log.slice(2 * segment as usize..)).expect("follows");
    store.close().expect("stops");
    drop(store);
    let store = follower(disk());
    assert_eq!((end(&store), range_of(&store)), (log.len() as u64, (first, COUNT)));
    orders::verify_queue(&store, 0);
    let newest = store.newest_listed().expect("reads").expect("a message");
    assert_eq!(newest.0.0 + u64::from(newest.1), log.len() as u64);
}

#[test]
fn only_an_empty_log_begins_elsewhere_and_only_where_a_segment_does() {
    let log = leader();
    let store = follower(Disk::new(MemoryDisk::new()));
    let told = store.begin_at(LogOffset(orders::SEGMENT_SIZE + 1)).expect_err("refused").to_string();
    assert!(told.contains("multiple of its segment size 4096"), "{told}");
    follow(&store, 0, &log.slice(..ends_of(&log)[1])).expect("follows");
    let refused = store.begin_at(LogOffset(orders::SEGMENT_SIZE));
    assert!(matches!(refused, Err(StorageError::CannotBegin { .. })), "{refused:?}");
    let batch = store.begin_batch(0);
    assert!(matches!(store.append(batch, Timestamp(1)), Err(StorageError::Follows)));
}

#[test]
fn a_log_that_begins_later_has_the_leaders_bytes_in_the_leaders_segments() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    let memory = MemoryDisk::new();
    let store = follower(Disk::new(memory.clone()));
    store.begin_at(LogOffset(segment)).expect("begins");
    let marks = store.watermarks();
    assert_eq!([marks.written(), marks.durable(), marks.committed()], [LogOffset(segment); 3]);
    follow(&store, segment, &log.slice(segment as usize..)).expect("follows");
    store.sync().expect("syncs");
    let disk = Disk::new(memory);
    assert!(!disk.exists(&orders::segment_path(Path::new("/data"), 0)).expect("looks"));
    for base in (segment..log.len() as u64).step_by(segment as usize) {
        let found = disk.read_file(&orders::segment_path(Path::new("/data"), base)).expect("reads").expect("a segment");
        let expected = &log[base as usize..log.len().min((base + segment) as usize)];
        assert_eq!(found[..expected.len()], *expected, "segment {base}");
        assert!(found[expected.len()..].iter().all(|&byte| byte == 0), "behind the log's end, segment {base}");
    }
    let (first, end) = range_of(&store);
    assert!(orders::found_by_key(&store, &format!("k0-{}", first - 1)).is_empty());
    (first..end).for_each(|offset| assert_eq!(orders::found_by_key(&store, &format!("k0-{offset}")).len(), 1));
}

#[test]
fn a_log_that_was_begun_is_closed_and_opened_before_its_first_record() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    for (is_prepared, has_checkpoint, is_closed) in
        [(false, true, true), (true, true, true), (false, true, false), (true, true, false), (true, false, false)]
    {
        let memory = MemoryDisk::new();
        let store = follower(Disk::new(memory.clone()));
        store.begin_at(LogOffset(segment)).expect("begins");
        if is_prepared {
            store.prepare_next_segment().expect("made ahead");
        }
        if has_checkpoint {
            store.checkpoint().expect("a checkpoint");
        }
        if is_closed {
            store.close().expect("closes");
        }
        drop(store);
        let store = follower(Disk::new(memory));
        assert_eq!(end(&store), if is_prepared { segment } else { 0 });
        store.begin_at(LogOffset(segment)).expect("nothing had come yet");
        follow(&store, segment, &log.slice(segment as usize..)).expect("follows");
        assert_eq!(orders::verify_queue(&store, 0), COUNT);
    }
}

#[test]
fn a_log_that_keeps_nothing_begins_again_later_and_never_before() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    let forgetful = |disk: Disk| {
        let mut settings = options(disk).following();
        settings.retention.size = Some(0);
        settings.retention.disk_force_percent = None;
        settings.retention.disk_refuse_percent = 100;
        Store::open(settings, Arc::default(), &mut |_| ()).expect("opens").0
    };
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = forgetful(Disk::new(disk.clone()));
    store.begin_at(LogOffset(segment)).expect("begins");
    follow(&store, segment, &log.slice(segment as usize..2 * segment as usize)).expect("follows");
    store.prepare_next_segment().expect("made ahead");
    let refused = store.begin_at(LogOffset(3 * segment));
    assert!(matches!(refused, Err(StorageError::CannotBegin { .. })), "{refused:?}");
    store.checkpoint().expect("a checkpoint");
    assert_eq!(store.apply_retention(Timestamp(1000), 5).expect("looks").removed, 1);
    assert_eq!(store.newest_listed().expect("reads"), None, "nothing is kept");
    let before = disk.points();
    let refused = store.begin_at(LogOffset(segment));
    assert!(matches!(refused, Err(StorageError::CannotBegin { .. })), "{refused:?}");
    store.begin_at(LogOffset(3 * segment)).expect("begins again");
    follow(&store, 3 * segment, &log.slice(3 * segment as usize..)).expect("follows");
    assert_eq!((store.log_first().0, orders::verify_queue(&store, 0)), (3 * segment, COUNT));
    store.checkpoint().expect("a checkpoint");
    let found = range_of(&store);
    drop(store);
    for point in before..=disk.points() {
        for keeps in [false, true] {
            let store = follower(Disk::new(disk.after_power_cut(point, || keeps)));
            let what = format!("power cut after change {point} of {before}..{}, keeps {keeps}", disk.points());
            let (first, end) = (store.log_first().0, end(&store));
            assert!([0, 2 * segment, 3 * segment].contains(&first), "{what}: begins at {first}");
            if end < 3 * segment {
                store.begin_at(LogOffset(3 * segment)).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let from = end.max(3 * segment);
            follow(&store, from, &log.slice(from as usize..)).expect("follows");
            assert_eq!(range_of(&store), found, "{what}");
            orders::verify_queue(&store, 0);
        }
    }
}

#[test]
fn what_fails_while_a_log_begins_leaves_one_that_goes_on_where_it_was_or_begins() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    let mut failed = 0;
    for passes in 0..4 {
        for begins in [false, true] {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let store = follower(Disk::new(disk.clone()));
            store.prepare_next_segment().expect("one is made ahead");
            disk.fail(Failure::error(Operation::Change, 5).after(passes).times(1));
            let outcome = store.begin_at(LogOffset(segment));
            disk.heal();
            let mut from = segment;
            if outcome.is_err() {
                failed += 1;
                assert_eq!((end(&store), store.log_first().0), (0, 0));
                if begins {
                    store.begin_at(LogOffset(segment)).expect("begins");
                } else {
                    from = 0;
                }
            }
            follow(&store, from, &log.slice(from as usize..)).expect("follows");
            store.sync().expect("syncs");
            drop(store);
            let store = follower(Disk::new(disk.after_power_cut(disk.points(), || false)));
            assert_eq!((store.log_first().0, end(&store)), (from, log.len() as u64), "{passes} went well");
            assert_eq!(orders::verify_queue(&store, 0), COUNT);
        }
    }
    assert_eq!(failed, 4, "the removal and the sync of its folder");
}

#[test]
fn the_end_of_a_log_that_was_begun_is_taken_back() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    let governed =
        Options { commit_rule: CommitRule::Told { known: LogOffset(0) }, ..options(Disk::new(MemoryDisk::new())) };
    let store = Store::open(governed, Arc::default(), &mut |_| ()).expect("opens").0;
    store.begin_at(LogOffset(segment)).expect("begins");
    let rest = log.slice(segment as usize..);
    store.append_raw(LogOffset(segment), &rest).expect("appends");
    store.write_staged().expect("writes");
    store.checkpoint().expect("a checkpoint");
    let refused = |store: Store| store.reopen_at(LogOffset(segment - 1), &mut NoState, &mut |_| ());
    let at = LogOffset(2 * segment);
    let (store, _) = store.reopen_at(at, &mut NoState, &mut |_| ()).expect("opens again");
    assert_eq!((store.log_first().0, store.watermarks().written()), (segment, at));
    let (store, _) = store.reopen_at(LogOffset(segment), &mut NoState, &mut |_| ()).expect("opens again");
    assert_eq!((store.log_first().0, store.watermarks().written().0), (segment, segment));
    follow(&store, segment, &rest).expect("follows");
    assert_eq!(orders::verify_queue(&store, 0), COUNT);
    assert!(matches!(refused(store), Err(StorageError::Committed { .. })));
}

#[test]
fn a_power_cut_at_any_step_leaves_a_log_that_begins_at_0_or_there() {
    let (log, segment) = (leader(), orders::SEGMENT_SIZE);
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = follower(Disk::new(disk.clone()));
    store.prepare_next_segment().expect("one is made ahead");
    let before = disk.points();
    store.begin_at(LogOffset(segment)).expect("begins");
    follow(&store, segment, &log.slice(segment as usize..2 * segment as usize)).expect("follows");
    store.sync().expect("syncs");
    let synced = disk.points();
    store.checkpoint().expect("a checkpoint");
    drop(store);
    for point in before..=disk.points() {
        for keeps in [false, true] {
            let what = format!("power cut after change {point} of {before}..{synced}, keeps {keeps}");
            let store = follower(Disk::new(disk.after_power_cut(point, || keeps)));
            let (first, end) = (store.log_first().0, end(&store));
            assert!((first, end) == (0, 0) || first == segment, "{what}: {first} to {end}");
            if point >= synced {
                assert_eq!(end, 2 * segment, "{what}");
            }
            // A record may be lost whose end was not synced: it is sent again.
            if end == 0 {
                store.begin_at(LogOffset(segment)).expect("begins");
            }
            let from = end.max(segment);
            follow(&store, from, &log.slice(from as usize..)).expect("follows");
            assert_eq!(range_of(&store).1, COUNT, "{what}");
            orders::verify_queue(&store, 0);
        }
    }
}

/// The log with its messages from `from` on, which get queue offsets `moved_by` later.
fn with_queue_offsets(log: &[u8], from: usize, moved_by: i64) -> Bytes {
    let mut bytes = log.to_vec();
    let ends = ends_of(log);
    for at in ends[from..].windows(2) {
        let sealed = &mut bytes[at[0]..at[1]];
        if matches!(record::kind_at(sealed), Ok(Kind::Record(_))) {
            let decoded = record::Record::decode(sealed).expect("a record");
            let offset = QueueOffset((decoded.queue_offset.0 as i64 + moved_by) as u64);
            let timestamp = decoded.store_timestamp;
            record::seal(sealed, offset, LogOffset(at[0] as u64), timestamp);
        }
    }
    bytes.into()
}

#[test]
fn a_queue_that_begins_again_or_has_a_gap_is_what_a_start_makes_of_the_same_log() {
    let plain = leader();
    for from in [1, 20, 40] {
        let offset_there = range_before(&plain, from);
        for moved_by in [-(offset_there as i64), -1, 1, 50, 2_000_000] {
            if offset_there as i64 + moved_by < 0 {
                continue;
            }
            let log = with_queue_offsets(&plain, from, moved_by);
            let memory = MemoryDisk::new();
            let live = follower(Disk::new(memory.clone()));
            // In pieces of any size: what is odd may be anywhere in them.
            for piece in ends_of(&log).chunks(7) {
                let (start, stop) =
                    (piece[0], ends_of(&log).into_iter().find(|end| end > piece.last().expect("an end")));
                follow(&live, start as u64, &log.slice(start..stop.unwrap_or(log.len()))).expect("follows");
            }
            let found = entries(&live);
            live.sync().expect("syncs");
            drop(live);
            let disk = Disk::new(memory.clone());
            for made in ["/data/consumequeue", "/data/index", "/data/checkpoint"] {
                remove_all(&disk, Path::new(made));
            }
            let rebuilt = follower(disk);
            assert_eq!(found, entries(&rebuilt), "{moved_by} from {from} on");
            assert!(!found.2.is_empty());
        }
    }
}

/// The queue offset of the record at that place in the log.
fn range_before(log: &[u8], place: usize) -> u64 {
    let ends = ends_of(log);
    record::Record::decode(&log[ends[place]..ends[place + 1]]).map_or(0, |record| record.queue_offset.0)
}

/// Bounds of the queue, and what its entries point at.
fn entries(store: &Store) -> (u64, u64, Vec<(u64, u64)>) {
    entries_of(store, 0)
}

fn entries_of(store: &Store, queue: u32) -> (u64, u64, Vec<(u64, u64)>) {
    let queue = store.queue(&orders::topic(), QueueId(queue));
    let (first, end) = (queue.first(), queue.end());
    let entry = |offset| queue.entry(QueueOffset(offset)).expect("reads").map(|entry| (offset, entry.log_offset.0));
    (first.0, end.0, (first.0..end.0).filter_map(entry).collect())
}

fn remove_all(disk: &Disk, path: &Path) {
    for name in disk.list(path).unwrap_or_default() {
        remove_all(disk, &path.join(name));
    }
    drop(disk.remove_file(path));
    drop(disk.remove_directory(path));
}

/// A leader's log with messages of two queues, whose offsets there go on, go back or leave some out.
fn of_a_leader_who_removes(chance: &mut Chance) -> Bytes {
    let store = Store::open(options(Disk::new(MemoryDisk::new())), Arc::default(), &mut |_| ()).expect("opens").0;
    (0..COUNT).for_each(|_| _ = orders::append_to(&store, chance.below(2) as u32));
    let (mut log, mut next) = (Vec::new(), [0_u64; 2]);
    while (log.len() as u64) < store.watermarks().written().0 {
        log.extend_from_slice(&store.read_raw(LogOffset(log.len() as u64), usize::MAX).expect("reads"));
    }
    for at in ends_of(&log).windows(2) {
        let sealed = &mut log[at[0]..at[1]];
        if !matches!(record::kind_at(sealed), Ok(Kind::Record(_))) {
            continue;
        }
        let decoded = record::Record::decode(sealed).expect("a record");
        let (timestamp, next) = (decoded.store_timestamp, &mut next[decoded.queue.0 as usize]);
        *next = match chance.below(12) {
            0 => 0,
            1 => chance.below(*next + 1),
            2 => *next + chance.below(20),
            3 => *next + 1_000_001,
            _ => *next,
        };
        record::seal(sealed, QueueOffset(*next), LogOffset(at[0] as u64), timestamp);
        *next += 1;
    }
    log.into()
}

#[test]
fn whatever_queue_offsets_a_leader_gives_a_follower_has_the_entries_that_a_start_finds() {
    for seed in 0..if cfg!(debug_assertions) { 40 } else { 400 } {
        let mut chance = Chance::new(seed);
        let log = of_a_leader_who_removes(&mut chance);
        let memory = MemoryDisk::new();
        let mut live = follower(Disk::new(memory.clone()));
        let ends = ends_of(&log);
        let mut at = 0;
        while at + 1 < ends.len() {
            let to = (at + 1 + chance.below(9) as usize).min(ends.len() - 1);
            follow(&live, ends[at] as u64, &log.slice(ends[at]..ends[to])).expect("follows");
            at = to;
            match chance.below(8) {
                0 => live.checkpoint().expect("a checkpoint"),
                // A kill.
                1 => {
                    drop(live);
                    live = follower(Disk::new(memory.clone()));
                }
                _ => {}
            }
        }
        live.sync().expect("syncs");
        let found: Vec<_> = [0, 1].map(|queue| entries_of(&live, queue)).into();
        drop(live);
        let disk = Disk::new(memory);
        for made in ["/data/consumequeue", "/data/index", "/data/checkpoint"] {
            remove_all(&disk, Path::new(made));
        }
        let rebuilt = follower(disk);
        for queue in [0, 1] {
            assert_eq!(found[queue as usize], entries_of(&rebuilt, queue), "queue {queue}, seed {seed}");
        }
    }
}
