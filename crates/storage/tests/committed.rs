//! A governed store: what is written is seen by nobody until it is committed, in whatever order that comes, and whatever comes between.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use base::offset::Watermark;
use base::{LogOffset, QueueId, Timestamp, TopicName};
use format::state::{self, StateError};
use storage::disk::{Disk, MemoryDisk};
use storage::{AppendInfo, CommitRule, NoState, Options, QueueListener, StateReplay, StorageError, Store};
use support::orders;

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl QueueListener for Bell {
    fn entries_added(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn options(disk: &MemoryDisk, known: u64) -> Options {
    Options {
        disk: Disk::new(disk.clone()),
        commit_rule: CommitRule::Told { known: LogOffset(known) },
        ..orders::options(Path::new("/data"))
    }
}

fn open(disk: &MemoryDisk, known: u64) -> Store {
    Store::open(options(disk, known), Arc::default(), &mut |_| ()).expect("opens").0
}

/// Appends so many messages as one batch, the bodies and keys of which follow from their queue offsets.
fn append(store: &Store, offsets: std::ops::Range<u64>) -> Arc<AppendInfo> {
    let index = store.queue(&orders::topic(), QueueId(0));
    let mut batch = store.begin_batch(0);
    for offset in offsets {
        let (body, key) = (orders::body_of(0, offset), format!("KEYS\u{1}k0-{offset}\u{2}"));
        let properties: &[&[u8]] = &[key.as_bytes()];
        testkit::push(store, &mut batch, &index, &format::record::Draft { properties, ..orders::draft(&body, 0) });
    }
    store.append(batch, Timestamp(1000)).expect("appends")
}

fn commit(store: &Store, offset: u64) {
    store.set_committed(LogOffset(offset), &mut NoState).expect("commits");
}

/// Messages that are seen, each in its place and under its key; the others under none.
fn seen(store: &Store) -> u64 {
    let count = orders::verify_queue(store, 0);
    for offset in 0..count + 3 {
        assert_eq!(orders::found_by_key(store, &format!("k0-{offset}")).len(), usize::from(offset < count), "{offset}");
    }
    count
}

#[test]
fn batches_are_seen_in_order_once_they_are_committed() {
    let store = open(&MemoryDisk::new(), 0);
    let waiter = Arc::new(Bell::default());
    let queue = store.queue(&orders::topic(), QueueId(0));
    let listener: Arc<Bell> = queue.listener().expect("the first");
    let ends: Vec<_> = [0..2, 2..3, 3..6].map(|offsets| append(&store, offsets).end.0).to_vec();
    store.when(Watermark::Committed, LogOffset(ends[1]), Waker::from(waiter.clone()));
    let size = store.staged_size();
    store.write_staged().expect("writes");
    let watermarks = store.watermarks();
    assert_eq!((watermarks.written().0, watermarks.committed().0, seen(&store)), (ends[2], 0, 0));
    assert_eq!((listener.rung(), store.staged_size()), (0, size), "senders wait for what is not committed");
    assert_eq!(store.record_at(LogOffset(0)).expect("reads"), None);

    commit(&store, ends[0] - 1);
    assert_eq!((watermarks.committed().0, seen(&store)), (0, 0), "a batch is seen whole or not at all");
    commit(&store, ends[0]);
    assert_eq!((watermarks.committed().0, seen(&store), listener.rung(), waiter.rung()), (ends[0], 2, 1, 0));
    commit(&store, ends[2] - 1);
    assert_eq!((watermarks.committed().0, seen(&store), waiter.rung()), (ends[1], 3, 1));
    commit(&store, 0);
    assert_eq!(seen(&store), 3, "nothing is taken back");
    commit(&store, u64::MAX);
    assert_eq!((watermarks.committed().0, seen(&store), store.staged_size()), (ends[2], 6, 0));
    assert!(store.record_at(LogOffset(0)).expect("reads").is_some());

    let end = append(&store, 6..7).end.0;
    commit(&store, end);
    assert_eq!(seen(&store), 6, "not written yet");
    store.write_staged().expect("writes");
    assert_eq!(seen(&store), 6, "it is told again");
    commit(&store, end);
    assert_eq!(seen(&store), 7);
}

#[test]
fn a_store_that_is_alone_commits_what_it_writes() {
    let store = Store::open(
        Options { commit_rule: CommitRule::Written, ..options(&MemoryDisk::new(), 0) },
        Arc::default(),
        &mut |_| (),
    )
    .expect("opens")
    .0;
    let waiter = Arc::new(Bell::default());
    let end = append(&store, 0..2).end;
    store.when(Watermark::Committed, end, Waker::from(waiter.clone()));
    assert_eq!((seen(&store), waiter.rung()), (0, 0));
    store.write_staged().expect("writes");
    assert_eq!((seen(&store), waiter.rung(), store.watermarks().committed()), (2, 1, end));
    commit(&store, 0);
    assert_eq!(seen(&store), 2);
}

/// However the process stopped, whatever was known, and with a checkpoint anywhere.
#[test]
fn a_start_shows_what_is_known_to_be_committed_and_the_rest_once_it_is() {
    const COUNT: u64 = 40;
    for (is_clean, checkpoint_at, checkpoint_tells) in
        [(false, None, 0), (true, None, 0), (false, Some(25), 0), (false, Some(25), 17), (true, Some(30), 30)]
    {
        let disk = MemoryDisk::new();
        let store = open(&disk, 0);
        let mut ends = vec![0];
        for offset in 0..COUNT {
            ends.push(append(&store, offset..offset + 1).end.0);
            store.write_staged().expect("writes");
            if checkpoint_at == Some(offset) {
                commit(&store, ends[checkpoint_tells]);
                store.checkpoint().expect("a checkpoint");
            }
        }
        let least = if checkpoint_at.is_some() { checkpoint_tells as u64 } else { 0 };
        if is_clean {
            store.close().expect("closes");
        }
        drop(store);
        for known in 0..=COUNT {
            let what = format!("clean {is_clean}, checkpoint {checkpoint_at:?} {checkpoint_tells}, known {known}");
            let copy = disk.copy();
            // One byte too few is one message too few.
            let store = open(&copy, ends[known as usize] + known % 2);
            assert_eq!(seen(&store), known.max(least), "{what}");
            assert_eq!(store.watermarks().written().0, ends[COUNT as usize], "{what}");
            let next = append(&store, COUNT..COUNT + 1);
            assert_eq!(next.records[0].queue_offset.0, COUNT, "{what}");
            store.write_staged().expect("writes");
            let told = (known.max(least) + COUNT) / 2;
            commit(&store, ends[told as usize]);
            assert_eq!(seen(&store), told, "{what}");
            store.checkpoint().expect("a checkpoint");
            commit(&store, next.end.0 - 1);
            assert_eq!(seen(&store), COUNT, "{what}");
            commit(&store, next.end.0);
            assert_eq!((seen(&store), store.watermarks().committed()), (COUNT + 1, next.end), "{what}");
            store.close().expect("closes");
            drop(store);
            let alone = Options { commit_rule: CommitRule::Written, ..options(&copy, 0) };
            let (store, recovery) = Store::open(alone, Arc::default(), &mut |_| ()).expect("opens");
            assert_eq!((seen(&store), recovery.truncated_bytes), (COUNT + 1, 0), "{what}");
        }
    }
}

#[test]
fn what_a_store_that_was_alone_wrote_into_files_is_not_seen_above_what_is_known() {
    let disk = MemoryDisk::new();
    let alone = Options { commit_rule: CommitRule::Written, ..options(&disk, 0) };
    let store = Store::open(alone, Arc::default(), &mut |_| ()).expect("opens").0;
    let ends: Vec<_> = (0..12).map(|offset| append(&store, offset..offset + 1).end.0).collect();
    store.write_staged().expect("writes");
    store.flush_entries().expect("flushes");
    drop(store);
    let store = open(&disk, ends[4]);
    assert_eq!(seen(&store), 5);
    commit(&store, ends[11]);
    assert_eq!(seen(&store), 12);
}

/// Removes the topic that a body names.
struct Removals(Vec<LogOffset>);

impl StateReplay for Removals {
    fn known_until(&self) -> LogOffset {
        self.0.last().map_or(LogOffset(0), |last| last.after(1))
    }

    fn apply(&mut self, offset: LogOffset, body: &[u8]) -> Result<Vec<TopicName>, StateError> {
        self.0.push(offset);
        Ok(vec![TopicName::trusted(std::str::from_utf8(body).expect("text"))])
    }
}

#[test]
fn a_topic_that_was_removed_and_made_again_above_committed_has_its_later_messages_alone() {
    for known_count in 0..=6 {
        let disk = MemoryDisk::new();
        let store = open(&disk, 0);
        let mut ends = vec![0];
        let mut note = |appended: Arc<AppendInfo>| {
            store.write_staged().expect("writes");
            ends.push(appended.end.0);
        };
        (0..3).for_each(|offset| note(append(&store, offset..offset + 1)));
        let mut batch = store.begin_batch(0);
        let host = "127.0.0.1:1".parse().expect("address");
        batch.push_unlisted(&state::draft(b"orders", &[], host, Timestamp(1)));
        store.queues_of(&orders::topic()).into_iter().for_each(|queue| batch.close(queue));
        note(store.append(batch, Timestamp(1000)).expect("appends"));
        assert!(matches!(store.remove_topic(&orders::topic()), Err(StorageError::Uncommitted)));
        commit(&store, ends[4]);
        store.remove_topic(&orders::topic()).expect("removes");
        let mut note = |appended: Arc<AppendInfo>| {
            store.write_staged().expect("writes");
            ends.push(appended.end.0);
        };
        (0..2).for_each(|offset| note(append(&store, offset..offset + 1)));
        drop(store);
        // No entry of it reached a file: this start knows of nothing that was removed.
        let copy = disk.copy();
        let files = Disk::new(copy.clone());
        files.remove_file(Path::new("/data/checkpoint")).expect("removes");
        files.remove_directory(Path::new("/data/consumequeue")).expect("removes");
        let mut removals = Removals(Vec::new());
        let known = ends[known_count];
        let store = Store::open_with_state(options(&copy, known), Arc::default(), &mut removals, &mut |_| ());
        let store = store.expect("opens").0;
        let visible = |known: usize| if known < 4 { known } else { known - 4 } as u64;
        assert_eq!(orders::verify_queue(&store, 0), visible(known_count), "{known_count}");
        let third = append(&store, 2..3);
        assert_eq!(third.records[0].queue_offset.0, 2, "{known_count}");
        store.write_staged().expect("writes");
        for (told, end) in ends.iter().enumerate().skip(known_count) {
            store.set_committed(LogOffset(*end), &mut removals).expect("commits");
            assert_eq!(orders::verify_queue(&store, 0), visible(told), "{known_count} to {told}");
        }
        store.set_committed(third.end, &mut removals).expect("commits");
        assert_eq!((orders::verify_queue(&store, 0), removals.0.len()), (3, 1), "{known_count}");
    }
}
