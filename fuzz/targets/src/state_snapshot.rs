//! The snapshot of the state, damaged anywhere.

use std::path::Path;

use base::LogOffset;
use storage::disk::{Disk, MemoryDisk};
use storage::{Snapshot, SnapshotContent, SnapshotFrame};
use testkit::at;

use crate::taker::Taker;
use crate::{scratch, session, state_changes};

/// Frames of one file at most.
const FRAMES_MAX: u8 = 5;

/// Changes of one input at most.
const DAMAGES_MAX: usize = 4;

const DIRECTORY: &str = "/data";

/// Frames that were written are read; of a damaged file those before the damage are, what is written next is read again, and a broker
/// refuses to start or works with it.
pub fn run(data: &[u8]) {
    let mut taker = Taker::new(data);
    let (disk, directory) = (Disk::new(MemoryDisk::new()), Path::new(DIRECTORY));
    let file = directory.join("state");
    let (mut snapshot, _) = Snapshot::open(&disk, directory).expect("an empty directory");
    let mut written = Vec::new();
    for number in 0..taker.byte() % FRAMES_MAX {
        let (position, size) = (LogOffset(u64::from(taker.u16())), usize::from(taker.u16()));
        let frame = SnapshotFrame { position, changes: taker.slice(size).to_vec() };
        let write = if number == 0 { Snapshot::write_base } else { Snapshot::write_delta };
        write(&mut snapshot, frame.position, &frame.changes).expect("a frame");
        written.push(frame);
    }
    let whole = disk.read_file(&file).expect("a read").unwrap_or_default();
    assert_eq!(SnapshotContent::of(&whole), SnapshotContent { frames: written.clone(), ..SnapshotContent::default() });
    let mut bytes = whole.clone();
    for _ in 0..DAMAGES_MAX {
        if taker.is_empty() {
            break;
        }
        damage(&mut bytes, &mut taker);
    }
    disk.replace_file(&file, &bytes).expect("a file");
    read_and_go_on(&disk, &written, same_front(&whole, &bytes));
    disk.replace_file(&file, &bytes).expect("a file");
    open_broker(&disk);
}

/// place (2) | kind | bytes: write over, insert, cut, remove
fn damage(bytes: &mut Vec<u8>, taker: &mut Taker<'_>) {
    let place = usize::from(taker.u16()) % (bytes.len() + 1);
    let kind = taker.byte();
    let count = usize::from(kind / 4) + 1;
    let end = bytes.len().min(place + count);
    match kind % 4 {
        0 => drop(bytes.splice(place..end, taker.slice(count).iter().copied())),
        1 => drop(bytes.splice(place..place, taker.slice(count).iter().copied())),
        2 => bytes.truncate(place),
        _ => drop(bytes.drain(place..end)),
    }
}

fn same_front(one: &[u8], other: &[u8]) -> u64 {
    one.iter().zip(other).take_while(|(one, other)| one == other).count() as u64
}

/// Reads a file whose first `same` bytes are as they were written, and writes the next frame.
fn read_and_go_on(disk: &Disk, written: &[SnapshotFrame], same: u64) {
    let (mut snapshot, content) = Snapshot::open(disk, Path::new(DIRECTORY)).expect("a read");
    let mut end = 0;
    let is_before = |frame: &&SnapshotFrame| {
        end += frame.size();
        end <= same
    };
    let before: Vec<_> = written.iter().take_while(is_before).cloned().collect();
    assert!(content.frames.starts_with(&before), "what is before the damage is kept");
    for log_end in written.iter().map(|frame| frame.position) {
        let mut of_shorter_log = content.clone();
        of_shorter_log.end_at(log_end);
        assert!(content.frames.starts_with(&of_shorter_log.frames));
        let is_ahead = of_shorter_log.position().is_some_and(|position| position > log_end);
        assert!(!is_ahead || of_shorter_log.frames.len() == 1);
    }
    let next = SnapshotFrame { position: LogOffset(1 << 20), changes: b"next".to_vec() };
    let expected = if snapshot.wants_base() {
        snapshot.write_base(next.position, &next.changes).expect("a frame");
        vec![next]
    } else {
        assert!(!content.is_cut, "nothing is written behind what cannot be read");
        snapshot.write_delta(next.position, &next.changes).expect("a frame");
        [content.frames, vec![next]].concat()
    };
    let (_, content) = Snapshot::open(disk, Path::new(DIRECTORY)).expect("a read");
    assert_eq!(content, SnapshotContent { frames: expected, ..SnapshotContent::default() });
}

/// The broker refuses to start, or it works and has the same topics and groups when it starts again.
fn open_broker(disk: &Disk) {
    let open = || {
        let options = scratch::store_options(Path::new(DIRECTORY));
        session::open_broker(storage::Options { disk: disk.clone(), ..options })
    };
    let Ok(broker) = open() else { return };
    let now = at(1_700_000_000_000);
    broker.save(now).expect("a save");
    broker.close(now).expect("an orderly stop");
    let known = (broker.catalog.topic_table(), broker.catalog.group_table());
    drop(broker);
    let broker = open().expect("a broker that opens what it wrote");
    assert_eq!((broker.catalog.topic_table(), broker.catalog.group_table()), known);
}

/// Whole files of one frame to all, and some of every damage.
pub fn seeds() -> Vec<Vec<u8>> {
    let frames = |count: u8| {
        let mut input = vec![count];
        for (number, changes) in (0..count).zip(state_changes::seeds()) {
            input.extend([0, number]);
            input.extend((changes.len() as u16).to_be_bytes());
            input.extend(changes);
        }
        input
    };
    let mut seeds: Vec<_> = (0..FRAMES_MAX).map(frames).collect();
    for damage in [[0, 100, 0, 0xFF], [2, 30, 0, 1], [0, 30, 1, 7], [1, 200, 2, 0], [0, 0, 2, 0], [0, 24, 3, 0]] {
        seeds.extend((1..FRAMES_MAX).map(|count| [&frames(count)[..], &damage].concat()));
    }
    seeds
}
