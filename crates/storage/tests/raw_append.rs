//! A store that is fed with the bytes of another's log has the same files, byte for byte.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use bytes::Bytes;
use format::record::{self, Kind};
use format::state::{self, StateError};
use storage::disk::{Disk, MemoryDisk};
use storage::{CommitRule, NoState, Options, RetentionPolicy, StateReplay, StorageError, Store};
use support::orders;
use support::world::{Chance, Model, World};

const SEEDS: u64 = if cfg!(debug_assertions) { 25 } else { 400 };

/// The log of a store, from its first byte on.
fn log_of(disk: &MemoryDisk, options: &Options, end: u64) -> Bytes {
    let directory = options.log_directory.clone().unwrap_or_else(|| options.directory.join("commitlog"));
    let disk = Disk::new(disk.clone());
    let mut log = Vec::new();
    for name in disk.list(&directory).expect("lists") {
        log.extend(disk.read_file(&directory.join(name)).expect("reads").expect("a segment"));
    }
    log.truncate(end as usize);
    log.into()
}

/// Where records and fillers end.
fn ends_of(log: &[u8]) -> Vec<usize> {
    let mut ends = vec![0];
    let mut at = 0;
    while at < log.len() {
        at += match record::kind_at(&log[at..]).expect("a log") {
            Kind::Record(size) | Kind::Filler(size) => size,
            Kind::End => break,
        };
        ends.push(at);
    }
    ends
}

/// Every file of log, entries and keys with something in it.
fn files_of(disk: &MemoryDisk, options: &Options) -> BTreeMap<PathBuf, Vec<u8>> {
    let disk = Disk::new(disk.clone());
    let log = options.log_directory.clone().unwrap_or_else(|| options.directory.join("commitlog"));
    let mut directories = vec![log, options.directory.join("consumequeue"), options.directory.join("index")];
    let mut files = BTreeMap::new();
    while let Some(directory) = directories.pop() {
        for name in disk.list(&directory).expect("lists") {
            let path = directory.join(name);
            match disk.read_file(&path) {
                Ok(Some(bytes)) if bytes.iter().any(|&byte| byte != 0) => drop(files.insert(path, bytes)),
                Ok(_) => {}
                Err(_) => directories.push(path),
            }
        }
    }
    files
}

fn open(options: &Options) -> Store {
    Store::open(options.clone(), Arc::default(), &mut |_| ()).expect("opens").0
}

fn run(seed: u64) {
    let mut chance = Chance::new(seed);
    let (memory, own) = (MemoryDisk::new(), MemoryDisk::new());
    let layout = support::world::options(&mut chance, Disk::new(memory.clone()));
    // What retention leaves depends on when it runs.
    let layout = Options { retention: RetentionPolicy::default(), commit_rule: CommitRule::Written, ..layout };
    let mut leader = World::open(&layout, &Model::default(), 0).expect("opens");
    for _ in 0..chance.below(40) {
        leader.append(&mut chance).expect("appends");
        if chance.percent(60) {
            leader.write().expect("writes");
        }
    }
    leader.close().expect("closes");
    let end = leader.store.watermarks().written().0;
    let log = log_of(&memory, &layout, end);
    let ends = ends_of(&log);

    let is_governed = chance.percent(60);
    let rule = |known: u64| match is_governed {
        true => CommitRule::Told { known: LogOffset(known) },
        false => CommitRule::Written,
    };
    let at = |known: u64| Options { disk: Disk::new(own.clone()), commit_rule: rule(known), ..layout.clone() };
    let mut store = open(&at(0));
    let (mut from, mut told) = (0, 0);
    while from + 1 < ends.len() {
        let to = (from + 1 + chance.below(12) as usize).min(ends.len() - 1);
        let reached =
            store.append_raw(LogOffset(ends[from] as u64), &log.slice(ends[from]..ends[to])).expect("appends");
        assert_eq!(reached.0, ends[to] as u64);
        from = to;
        let is_killed = chance.percent(10);
        if is_killed || chance.percent(60) {
            store.write_staged().expect("writes");
        }
        if chance.percent(40) {
            told = told.max(chance.below(reached.0 + 1));
            store.set_committed(LogOffset(told), &mut NoState).expect("commits");
        }
        if chance.percent(10) {
            store.checkpoint().expect("a checkpoint");
        }
        if is_killed {
            drop(store);
            store = open(&at(told));
        }
    }
    store.write_staged().expect("writes");
    assert_eq!(store.watermarks().written().0, log.len() as u64);
    store.set_committed(LogOffset(u64::MAX), &mut NoState).expect("commits");
    store.close().expect("closes");
    let (wanted, found) = (files_of(&memory, &layout), files_of(&own, &layout));
    assert_eq!(wanted.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>());
    for (path, bytes) in wanted {
        let differs = bytes.iter().zip(&found[&path]).position(|(one, other)| one != other);
        assert!(bytes == found[&path], "{} differs from byte {differs:?} on", path.display());
    }
}

#[test]
fn log_entries_and_keys_are_those_of_the_leader_byte_for_byte() {
    for seed in 0..SEEDS {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn options(disk: &MemoryDisk) -> Options {
    Options {
        disk: Disk::new(disk.clone()),
        commit_rule: CommitRule::Told { known: LogOffset(0) },
        ..orders::options(Path::new("/data"))
    }
}

fn append_some(store: &Store, count: u64) {
    for _ in 0..count {
        orders::append_to(store, 0);
    }
}

/// A leader's log with so many messages of one queue.
fn leader(count: u64) -> Bytes {
    let memory = MemoryDisk::new();
    let layout = Options { commit_rule: CommitRule::Written, ..options(&memory) };
    let store = open(&layout);
    append_some(&store, count);
    let end = store.watermarks().written().0;
    log_of(&memory, &layout, end)
}

#[test]
fn what_does_not_belong_at_the_end_of_the_log_is_refused_and_nothing_of_it_is_stored() {
    let log = leader(60);
    let ends = ends_of(&log);
    let filler =
        (1..ends.len()).find(|at| record::kind_at(&log[ends[*at]..]).is_ok_and(|kind| matches!(kind, Kind::Filler(_))));
    let filler = filler.expect("a filler");
    let memory = MemoryDisk::new();
    let store = open(&options(&memory));
    let append = |start: usize, bytes: Bytes| store.append_raw(LogOffset(start as u64), &bytes);
    append(0, log.slice(..ends[5])).expect("appends");
    let changed = |at: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = log[ends[5]..ends[at]].to_vec();
        change(&mut bytes);
        append(ends[5], bytes.into())
    };
    let refused: [(&str, Result<LogOffset, StorageError>); 9] = [
        ("earlier", append(ends[4], log.slice(ends[4]..ends[6]))),
        ("later", append(ends[6], log.slice(ends[6]..ends[8]))),
        ("of another offset", append(ends[5], log.slice(ends[6]..ends[8]))),
        ("half a record", append(ends[5], log.slice(ends[5]..ends[7] - 1))),
        ("half a filler", append(ends[5], log.slice(ends[5]..ends[filler] + 9))),
        ("a damaged body", changed(8, &|bytes| *bytes.iter_mut().rfind(|byte| **byte == b'x').expect("a body") = b'y')),
        ("a filler too short", changed(filler + 1, &|bytes| bytes.truncate(bytes.len() - 1))),
        ("something in a filler", changed(filler + 1, &|bytes| *bytes.last_mut().expect("a byte") = 1)),
        ("zeroes", append(ends[5], vec![0; 200].into())),
    ];
    for (what, outcome) in refused {
        let is_refused = matches!(outcome, Err(StorageError::NotAtEnd { .. } | StorageError::NotOfThisLog { .. }));
        assert!(is_refused, "{what}: {outcome:?}");
    }
    append(ends[5], log.slice(ends[5]..)).expect("appends what was refused before");
    store.write_staged().expect("writes");
    store.set_committed(LogOffset(u64::MAX), &mut NoState).expect("commits");
    assert_eq!(orders::verify_queue(&store, 0), 60);
}

#[test]
fn a_gap_in_a_queue_or_an_overlap_is_told_and_a_queue_without_entries_begins_anywhere() {
    let log = leader(60);
    let ends = ends_of(&log);
    // A replica that begins with the leader's second segment.
    let begin = ends.iter().rposition(|end| *end as u64 == orders::SEGMENT_SIZE).expect("a segment's end");
    let memory = MemoryDisk::new();
    let disk = Disk::new(memory.clone());
    let segment = Path::new("/data/commitlog").join(format!("{:020}", orders::SEGMENT_SIZE));
    drop(disk.open_sized(&segment, orders::SEGMENT_SIZE, true).expect("makes"));
    let store = open(&options(&memory));
    store.append_raw(LogOffset(ends[begin] as u64), &log.slice(ends[begin]..ends[begin + 3])).expect("appends");
    store.write_staged().expect("writes");
    store.set_committed(LogOffset(u64::MAX), &mut NoState).expect("commits");
    let queue = store.queue(&orders::topic(), QueueId(0));
    let first = record::Record::decode(&log[ends[begin]..ends[begin + 1]]).expect("decodes").queue_offset;
    assert_eq!((queue.first(), queue.end()), (first, first.after(3)));
    orders::verify_queue(&store, 0);

    // Another leader's log with the same offsets, but for one message in another queue.
    for (queue_offset, what) in [(first.0 + 4, "a gap"), (first.0 + 2, "an overlap")] {
        let mut bytes = log[ends[begin + 3]..ends[begin + 4]].to_vec();
        let log_offset = LogOffset(ends[begin + 3] as u64);
        record::seal(&mut bytes, QueueOffset(queue_offset), log_offset, Timestamp(1000));
        let told = store.append_raw(log_offset, &bytes.into()).expect_err("refused").to_string();
        assert!(told.contains(what) && told.contains("orders queue 0"), "{told}");
    }
}

/// Removes the topic that a body names.
struct Removals(usize);

impl StateReplay for Removals {
    fn known_until(&self) -> LogOffset {
        LogOffset(0)
    }

    fn apply(&mut self, _: LogOffset, body: &[u8]) -> Result<Vec<TopicName>, StateError> {
        self.0 += 1;
        Ok(vec![TopicName::trusted(std::str::from_utf8(body).expect("text"))])
    }
}

#[test]
fn a_state_record_is_told_once_it_is_committed_and_then_the_topic_may_begin_anew() {
    let memory = MemoryDisk::new();
    let layout = Options { commit_rule: CommitRule::Written, ..options(&memory) };
    let store = open(&layout);
    append_some(&store, 3);
    let mut batch = store.begin_batch(0);
    batch.push_unlisted(&state::draft(b"orders", &[], "127.0.0.1:1".parse().expect("address"), Timestamp(1)));
    store.queues_of(&orders::topic()).into_iter().for_each(|queue| batch.close(queue));
    let removal = store.append(batch, Timestamp(1000)).expect("appends").end;
    store.remove_topic(&orders::topic()).expect("removes");
    append_some(&store, 2);
    let log = log_of(&memory, &layout, store.watermarks().written().0);

    let replica = open(&options(&MemoryDisk::new()));
    let told = replica.append_raw(LogOffset(0), &log).expect_err("refused").to_string();
    assert!(told.contains("an overlap"), "{told}");
    replica.append_raw(LogOffset(0), &log.slice(..removal.0 as usize)).expect("appends");
    replica.write_staged().expect("writes");
    let mut removals = Removals(0);
    replica.set_committed(LogOffset(removal.0 - 1), &mut removals).expect("commits");
    assert_eq!((removals.0, replica.topics().len()), (0, 0), "all of it was stored at once");
    replica.set_committed(removal, &mut removals).expect("commits");
    assert_eq!((removals.0, replica.topics().len()), (1, 0));
    replica.append_raw(removal, &log.slice(removal.0 as usize..)).expect("appends");
    replica.write_staged().expect("writes");
    replica.set_committed(LogOffset(u64::MAX), &mut removals).expect("commits");
    assert_eq!((removals.0, orders::verify_queue(&replica, 0)), (1, 2));
}
