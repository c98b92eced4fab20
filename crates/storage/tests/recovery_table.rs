//! The table at the head of `recover.rs`, row by row: every kind of damage at every record of a log of several segments, below
//! and above what is known to be durable.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use format::record::Record;
use storage::disk::{Disk, MemoryDisk};
use storage::{Options, QueueIndex, ReadMode, Recovery, RecoveryProgress, StorageError, Store};

const SEGMENT_SIZE: u64 = 1536;
const RECORDS: u64 = 15;

/// How the last process ended, and so what is known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Killed before any checkpoint: nothing is, and all that was written is there.
    KilledAbove,
    /// The machine lost its power before any checkpoint: nothing is.
    PowerCutAbove,
    /// Killed after a checkpoint of everything; queues and keys are gone, so that the log is read again.
    KilledBelow,
    /// Stopped in good order; queues and keys are gone as well.
    Orderly,
}

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Whole,
    Zeroes,
    /// The record's body is not what was stored; its size leads to the next.
    BodyDamaged,
    /// The record is none; its size leads to the next.
    MagicDamaged,
    /// The record's size is not what was stored; its parts lead to the next.
    SizeDamaged,
    /// Nothing leads from here to the next.
    SizeAndBodyDamaged,
    /// The bodies of this record and the next, or the filler after it.
    NextDamagedToo,
    /// The filler after the record; its size leads to the next segment.
    FillerDamaged,
    /// The filler after the record has another size than the rest of the segment.
    FillerSizeDamaged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Kept,
    /// It is lost, and its place is kept.
    KeepsItsPlace,
    /// Whose it was cannot be told: its place is kept if its queue goes on around it.
    IsPassed,
    EndsHere,
    Refused,
}

/// The table. The last record of the log has none behind it.
const fn expected(place: Place, stop: Stop, is_last: bool) -> Outcome {
    match (place, stop) {
        (Place::Whole, _) => Outcome::Kept,
        (_, Stop::PowerCutAbove) => Outcome::EndsHere,
        (Place::BodyDamaged | Place::MagicDamaged | Place::SizeDamaged, Stop::KilledAbove) if is_last => {
            Outcome::EndsHere
        }
        (
            Place::Zeroes
            | Place::SizeAndBodyDamaged
            | Place::NextDamagedToo
            | Place::FillerDamaged
            | Place::FillerSizeDamaged,
            Stop::KilledAbove,
        ) => Outcome::EndsHere,
        (Place::FillerSizeDamaged, _) => Outcome::Kept,
        (Place::BodyDamaged, _) => Outcome::KeepsItsPlace,
        (Place::MagicDamaged | Place::SizeDamaged, _) => Outcome::IsPassed,
        (Place::FillerDamaged, _) => Outcome::Kept,
        (Place::Zeroes | Place::SizeAndBodyDamaged | Place::NextDamagedToo, _) => Outcome::Refused,
    }
}

fn options(memory: &MemoryDisk) -> Options {
    Options {
        disk: Disk::new(memory.clone()),
        segment_size: SEGMENT_SIZE,
        queue_file_entries: 8,
        key_index_slots: 16,
        key_index_entries: 40,
        recent_size: 1,
        checkpoint_reserve: Some(4096),
        ..Options::new(Path::new("/data"))
    }
}

fn open(memory: &MemoryDisk) -> Result<(Store, Recovery), StorageError> {
    Store::open(options(memory), Arc::default(), &mut |_| ())
}

fn queue(store: &Store) -> Arc<QueueIndex> {
    store.queue(&TopicName::trusted("orders"), QueueId(0))
}

fn body_of(number: u64) -> Vec<u8> {
    vec![b'a' + number as u8; 150 + 20 * (number as usize % 4)]
}

/// Appends record `number` and gives where it begins and ends.
fn append(store: &Store, number: u64) -> (u64, u64) {
    append_body(store, &body_of(number))
}

fn append_body(store: &Store, body: &[u8]) -> (u64, u64) {
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &queue(store), &testkit::draft("orders", QueueId(0), body));
    let size = batch.size() as u64;
    let appended = store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    let start = appended.records[0].log_offset.0;
    (start, start + size)
}

/// A log and where its records are.
fn build(stop: Stop) -> (MemoryDisk, Vec<(u64, u64)>) {
    let memory = MemoryDisk::new();
    let (store, _) = open(&memory).expect("opens");
    let places = (0..RECORDS).map(|number| append(&store, number)).collect();
    match stop {
        Stop::KilledAbove => return (memory, places),
        Stop::PowerCutAbove => return (memory.after_restart_of_the_machine(), places),
        Stop::KilledBelow => store.checkpoint().expect("checkpoint"),
        Stop::Orderly => store.close().expect("closes"),
    }
    drop(store);
    for part in ["consumequeue", "index"] {
        Disk::new(memory.clone()).remove_directory(&Path::new("/data").join(part)).expect("removes");
    }
    (memory, places)
}

fn segment_path(offset: u64) -> PathBuf {
    PathBuf::from(format!("/data/commitlog/{:020}", offset / SEGMENT_SIZE * SEGMENT_SIZE))
}

fn flip(memory: &MemoryDisk, offset: u64) {
    assert!(memory.flip_bit(&segment_path(offset), offset % SEGMENT_SIZE, 3));
}

/// Damages the log at record `number`; `None` if there can be no such damage there. Gives the place and its segment's path.
fn damage(memory: &MemoryDisk, places: &[(u64, u64)], number: usize, place: Place) -> Option<u64> {
    let (start, end) = places[number];
    let next = places.get(number + 1).map(|(next, _)| *next);
    let has_filler = next.is_some_and(|next| next != end);
    match place {
        Place::Whole => {}
        Place::Zeroes => {
            let file = Disk::new(memory.clone()).open(&segment_path(start)).expect("opens");
            file.write_at(&vec![0; (end - start) as usize], start % SEGMENT_SIZE).expect("writes");
        }
        Place::BodyDamaged => flip(memory, end - 40),
        Place::MagicDamaged => flip(memory, start + 5),
        Place::SizeDamaged => flip(memory, start + 1),
        Place::SizeAndBodyDamaged => {
            flip(memory, start + 1);
            flip(memory, end - 40);
        }
        Place::NextDamagedToo => {
            next?;
            flip(memory, end - 40);
            flip(memory, if has_filler { end + 5 } else { places[number + 1].1 - 40 });
        }
        Place::FillerDamaged | Place::FillerSizeDamaged if has_filler => {
            flip(memory, end + if place == Place::FillerDamaged { 5 } else { 2 });
            return Some(end);
        }
        Place::FillerDamaged | Place::FillerSizeDamaged => return None,
    }
    Some(start)
}

/// Everything in `range` is served and right, but for `lost`.
fn verify(store: &Store, range: Range<u64>, lost: Option<u64>) {
    let index = queue(store);
    assert_eq!((index.first(), index.end()), (QueueOffset(range.start), QueueOffset(range.end)));
    for number in range {
        let entry = index.entry(QueueOffset(number)).expect("reads").expect("an entry");
        let found = store.read(&index, &[(QueueOffset(number), entry)], ReadMode::MayWait).expect("reads");
        let bytes = found.iter().next().flatten();
        assert_eq!(bytes.is_none(), lost == Some(number), "record {number}");
        if let Some(bytes) = bytes {
            assert_eq!(Record::decode(bytes).expect("decodes").body, body_of(number));
        }
    }
}

fn check(stop: Stop, number: usize, place: Place) -> Option<()> {
    let (memory, places) = build(stop);
    let at = damage(&memory, &places, number, place)?;
    let opened = open(&memory);
    let outcome = expected(place, stop, number + 1 == places.len());
    let what = format!("{place:?} at record {number}, {stop:?}");
    if outcome == Outcome::Refused {
        let path = match opened {
            Err(StorageError::Damaged { path, .. }) => path,
            other => panic!("{what}: {other:?}"),
        };
        assert_eq!(path, segment_path(at), "{what}");
        return Some(());
    }
    let (store, recovery) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut first, mut end, mut lost) = (0, RECORDS, None);
    match outcome {
        Outcome::IsPassed if number == 0 => first = 1,
        Outcome::IsPassed if at == places[places.len() - 1].0 => end -= 1,
        Outcome::KeepsItsPlace | Outcome::IsPassed => lost = Some(number as u64),
        Outcome::EndsHere => {
            end = number as u64 + u64::from(matches!(place, Place::FillerDamaged | Place::FillerSizeDamaged));
            assert_eq!(store.watermarks().written(), LogOffset(at), "{what}");
        }
        _ => assert_eq!(recovery.truncated_bytes, 0, "{what}"),
    }
    // A filler's mark says all that a start has to know.
    let is_told = !matches!(place, Place::Whole | Place::FillerSizeDamaged)
        && matches!(outcome, Outcome::Kept | Outcome::KeepsItsPlace | Outcome::IsPassed);
    assert_eq!(recovery.damaged, is_told.then_some(LogOffset(at)).into_iter().collect::<Vec<_>>(), "{what}");
    verify(&store, first..end, lost);
    append(&store, end);
    store.close().expect("closes");
    drop(store);
    let (store, _) = open(&memory).expect("opens again");
    // What holds the place of a lost first record in the queue's file is no entry.
    verify(&store, first..end + 1, lost);
    Some(())
}

#[test]
fn every_place_of_the_log_goes_by_the_table() {
    let places = [
        Place::Whole,
        Place::Zeroes,
        Place::BodyDamaged,
        Place::MagicDamaged,
        Place::SizeDamaged,
        Place::SizeAndBodyDamaged,
        Place::NextDamagedToo,
        Place::FillerDamaged,
        Place::FillerSizeDamaged,
    ];
    let (_, records) = build(Stop::Orderly);
    let in_segment = |segment: u64| records.iter().filter(|(start, _)| start / SEGMENT_SIZE == segment).count();
    let last = records[records.len() - 1].0 / SEGMENT_SIZE;
    // Each segment, the last one too, has a first, a middle and a last record.
    assert!(last >= 2 && (0..=last).all(|segment| in_segment(segment) >= 3));
    for stop in [Stop::KilledAbove, Stop::PowerCutAbove, Stop::KilledBelow, Stop::Orderly] {
        for place in places {
            let tried = (0..records.len()).filter_map(|number| check(stop, number, place)).count();
            let fillers = last as usize;
            let can_be = match place {
                Place::NextDamagedToo => records.len() - 1,
                Place::FillerDamaged | Place::FillerSizeDamaged => fillers,
                _ => records.len(),
            };
            assert_eq!(tried, can_be, "{place:?}");
        }
    }
}

#[test]
fn a_missing_segment_stops_the_start_below_durable_and_ends_the_log_above() {
    for stop in [Stop::KilledAbove, Stop::KilledBelow, Stop::Orderly] {
        let (_, places) = build(stop);
        let last = places[places.len() - 1].0 / SEGMENT_SIZE;
        for missing in 1..last {
            let (memory, places) = build(stop);
            let base = missing * SEGMENT_SIZE;
            Disk::new(memory.clone()).remove_file(&segment_path(base)).expect("removes");
            let opened = open(&memory);
            if stop == Stop::KilledAbove {
                let (store, recovery) = opened.expect("opens");
                assert_eq!(store.watermarks().written(), LogOffset(base));
                assert!(recovery.set_aside.len() as u64 >= last - missing);
                let end = places.iter().filter(|(start, _)| *start < base).count() as u64;
                verify(&store, 0..end, None);
                append(&store, end);
                verify(&store, 0..end + 1, None);
            } else {
                assert!(matches!(opened, Err(StorageError::Damaged { .. })), "{stop:?}, segment {missing}");
            }
        }
    }
}

/// A file system may give a large file its size in steps; a power cut leaves it as long as it was after one of them.
#[test]
fn a_segment_cut_short_stops_the_start_below_durable_and_ends_the_log_above() {
    for stop in [Stop::KilledAbove, Stop::KilledBelow, Stop::Orderly] {
        let (_, places) = build(stop);
        let last = places[places.len() - 1].0 / SEGMENT_SIZE;
        for short in 1..=last {
            let (memory, places) = build(stop);
            let memory = memory.after_restart_of_the_machine();
            let base = short * SEGMENT_SIZE;
            cut_short(&memory, base);
            let opened = open(&memory);
            if stop != Stop::KilledAbove {
                assert!(matches!(opened, Err(StorageError::Damaged { .. })), "{stop:?}, segment {short}");
                continue;
            }
            let (store, recovery) = opened.expect("opens");
            assert_eq!(store.watermarks().written(), LogOffset(base));
            assert_eq!(recovery.set_aside.len() as u64, last + 1 - short);
            let end = places.iter().filter(|(start, _)| *start < base).count() as u64;
            verify(&store, 0..end, None);
            append(&store, end);
            verify(&store, 0..end + 1, None);
        }
    }
}

#[test]
fn a_segment_that_was_being_made_is_made_again() {
    for stop in [Stop::KilledAbove, Stop::KilledBelow] {
        for is_power_cut in [false, true] {
            let (memory, places) = build(stop);
            let next = (places[places.len() - 1].0 / SEGMENT_SIZE + 1) * SEGMENT_SIZE;
            let disk = Disk::new(memory.clone());
            drop(disk.open_sized(&segment_path(next), SEGMENT_SIZE, true).expect("makes"));
            cut_short(&memory, next);
            let memory = if is_power_cut { memory.after_restart_of_the_machine() } else { memory };
            let (store, recovery) = open(&memory).expect("opens without help");
            assert_eq!((recovery.truncated_bytes, recovery.set_aside.len()), (0, 0));
            verify(&store, 0..RECORDS, None);
            for number in RECORDS..RECORDS + 5 {
                append(&store, number);
            }
            verify(&store, 0..RECORDS + 5, None);
        }
    }
    // The very first one.
    let memory = MemoryDisk::new();
    drop(open(&memory).expect("opens"));
    cut_short(&memory, 0);
    let (store, _) = open(&memory).expect("opens without help");
    assert_eq!(Disk::new(memory).size(&segment_path(0)).expect("is there"), SEGMENT_SIZE);
    append(&store, 0);
}

fn cut_short(memory: &MemoryDisk, base: u64) {
    use storage::disk::{FileSystem, Opening};
    let file = memory.open(&segment_path(base), Opening::Existing).expect("opens");
    file.set_size(SEGMENT_SIZE / 2 + 100).expect("cuts");
}

#[test]
fn recovery_tells_how_far_it_is_within_a_segment_too() {
    let body = vec![b'x'; 1 << 20];
    for (checkpointed, expected) in [(0, &[16, 32, 40][..]), (20, &[16, 20])] {
        let memory = MemoryDisk::new();
        let open = |progress: &mut dyn FnMut(RecoveryProgress)| {
            let options = Options { segment_size: 64 << 20, ..options(&memory) };
            Store::open(options, Arc::default(), progress).expect("opens").0
        };
        let store = open(&mut |_| ());
        (0..checkpointed).for_each(|_| _ = append_body(&store, &body));
        store.checkpoint().expect("checkpoint");
        let start = store.watermarks().written().0;
        (checkpointed..40).for_each(|_| _ = append_body(&store, &body));
        let end = store.watermarks().written().0;
        drop(store);
        let mut told = Vec::new();
        open(&mut |progress| told.push((progress.done, progress.total)));
        let done: Vec<_> = told.iter().map(|(done, _)| done >> 20).collect();
        assert_eq!(done, expected);
        assert_eq!(told.last(), Some(&(end - start, (64 << 20) - start)));
    }
}
