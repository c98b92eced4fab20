//! A disk that does not answer: who needs nothing of it goes on, nothing is promised meanwhile, and the operation is told of.
//!
//! What is said not to wait runs on a thread of its own and is waited for so long and no longer; the disk is let go on whatever happens.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::{Duration, Instant};

use base::offset::Watermark;
use base::{Monotonic, QueueId, Timestamp};
use storage::disk::{Disk, FaultyDisk, MemoryDisk, Operation, Stall};
use storage::{Options, ReadMode, Store};
use support::orders;
use support::woken::Woken;

/// Far more than any of this takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A disk that answers again once the test is over, however it ends.
struct Hanging(FaultyDisk);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.release_all();
    }
}

impl Hanging {
    fn new() -> Self {
        Self(FaultyDisk::over(&MemoryDisk::new()))
    }

    /// The next such operation does not come back; waits for it while `act` runs.
    fn hangs<T: Send + 'static>(&self, operation: Operation, act: impl FnOnce() -> T + Send + 'static) -> Beside<T> {
        self.0.hold_next(operation);
        let beside = Beside::run(act);
        let began = Instant::now();
        while self.0.held_count(operation) == 0 {
            assert!(began.elapsed() < LIMIT, "nothing was {} anything", operation.doing());
            std::thread::yield_now();
        }
        beside
    }
}

/// Something that runs on a thread of its own.
struct Beside<T>(Receiver<T>);

impl<T: Send + 'static> Beside<T> {
    fn run(act: impl FnOnce() -> T + Send + 'static) -> Self {
        let (says, told) = mpsc::channel();
        std::thread::spawn(move || says.send(act()));
        Self(told)
    }

    fn still_runs(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Empty))
    }

    fn end(self) -> T {
        self.0.recv_timeout(LIMIT).expect("it waits for the disk, or has panicked")
    }
}

/// Runs `act`, which is not to wait for the disk.
fn at_once<T: Send + 'static>(store: &Arc<Store>, act: impl FnOnce(&Store) -> T + Send + 'static) -> T {
    let store = store.clone();
    Beside::run(move || act(&store)).end()
}

fn append(store: &Store, queue: u32, count: u64) {
    for _ in 0..count {
        orders::append_to(store, queue);
    }
}

/// So many orders in each queue, with entries in files.
fn orders_in_files(disk: &Hanging, counts: &[u64]) -> Arc<Store> {
    let options = Options { disk: Disk::new(disk.0.clone()), ..orders::options(Path::new("/data")) };
    let open = || Store::open(options.clone(), Arc::default(), &mut |_| ()).expect("opens").0;
    let store = open();
    for (queue, count) in (0..).zip(counts) {
        append(&store, queue, *count);
    }
    store.close().expect("closes");
    drop(store);
    Arc::new(open())
}

/// What is told after looks for 12 seconds.
fn told_after_12_s(store: &Store) -> Option<Stall> {
    (0..=12).for_each(|second| store.look_at_disk(Monotonic(second * 1000)));
    store.stall()
}

/// The newest message of a queue comes from memory.
fn read_newest(store: &Store, queue: u32) {
    let index = store.queue(&orders::topic(), QueueId(queue));
    let last = base::QueueOffset(index.end().0 - 1);
    let mut entries = Vec::new();
    index.read(last, 1, ReadMode::IfCached, &mut entries).expect("its entry is in memory");
    let found = store.read(&index, &[(last, entries[0])], ReadMode::IfCached).expect("it is in memory");
    assert!(found.iter().all(|bytes| bytes.is_some()));
}

#[test]
fn a_read_that_hangs_hinders_neither_appends_nor_reads_of_anything_else() {
    let disk = Hanging::new();
    let store = orders_in_files(&disk, &[1500, 20]);
    let index = store.queue(&orders::topic(), QueueId(0));
    let entries = support::entries(&index);
    let (old, newer) = (entries[..20].to_vec(), entries[1400..].to_vec());
    let reading = disk.hangs(Operation::Read, {
        let (store, index) = (store.clone(), index.clone());
        move || store.read(&index, &old, ReadMode::MayWait).map(|found| found.count())
    });
    let newest = at_once(&store, |store| {
        append(store, 2, 50);
        read_newest(store, 2);
        store.sync().expect("syncs")
    });
    assert_eq!(newest, store.watermarks().written());
    let found = at_once(&store, move |store| {
        let found = store.read(&index, &newer, ReadMode::MayWait).expect("reads other segments");
        found.iter().filter(|bytes| bytes.is_some()).count()
    });
    assert_eq!(found, 100);
    at_once(&store, |store| support::entries(&store.queue(&orders::topic(), QueueId(1))).len());
    let stall = told_after_12_s(&store).expect("it hangs");
    assert_eq!((stall.operation, stall.waited_ms), (Operation::Read, 12_000));
    assert!(stall.is_long() && stall.path.starts_with("/data/commitlog"), "{stall}");
    assert!(reading.still_runs());
    disk.0.release_all();
    assert_eq!(reading.end().expect("reads"), 20);
    assert_eq!(store.stall(), None);
}

#[test]
fn a_sync_that_hangs_hinders_no_append_and_no_read_and_promises_nothing() {
    let disk = Hanging::new();
    let store = orders_in_files(&disk, &[50]);
    append(&store, 0, 1);
    let before = store.watermarks().durable();
    let syncing = disk.hangs(Operation::Sync, {
        let store = store.clone();
        move || store.sync()
    });
    let count = at_once(&store, |store| {
        // Into new segments too.
        append(store, 0, 50);
        read_newest(store, 0);
        orders::verify_queue(store, 0)
    });
    assert_eq!(count, 101);
    let durable = Arc::new(Woken::default());
    let end = store.watermarks().written();
    store.when(Watermark::Durable, end, durable.clone().into());
    assert!(syncing.still_runs() && !durable.0.load(Ordering::SeqCst));
    assert_eq!(store.watermarks().durable(), before, "nothing is durable that was not");
    let stall = told_after_12_s(&store).expect("it hangs");
    assert_eq!((stall.operation, stall.waited_ms), (Operation::Sync, 12_000));
    let segment = format!("{:020}", before.0 / orders::SEGMENT_SIZE * orders::SEGMENT_SIZE);
    assert_eq!(&*stall.path, Path::new("/data/commitlog").join(segment), "{stall}");
    disk.0.release_all();
    assert!(syncing.end().expect("syncs") < end, "a sync promises what was there when it began");
    assert_eq!(store.stall(), None);
    assert_eq!(at_once(&store, |store| store.sync().expect("syncs")), end);
    assert!(durable.0.load(Ordering::SeqCst));
}

#[test]
fn how_a_store_is_can_be_told_whatever_it_waits_for() {
    type Act = fn(&Store);
    let acts: [(Operation, Act); 7] = [
        (Operation::Open, |store| append(store, 0, 50)),
        (Operation::Resize, |store| append(store, 0, 50)),
        (Operation::Write, |store| append(store, 0, 1)),
        (Operation::Sync, |store| store.checkpoint().expect("checkpoint")),
        (Operation::SyncDirectory, |store| store.checkpoint().expect("checkpoint")),
        (Operation::Name, |store| store.write_document("topics.json", "{}").expect("writes")),
        (Operation::Examine, |store| drop(store.apply_retention(Timestamp(0), 0))),
    ];
    for (operation, act) in acts {
        let disk = Hanging::new();
        let store = orders_in_files(&disk, &[5]);
        append(&store, 0, 1);
        let beside = disk.hangs(operation, {
            let store = store.clone();
            move || act(&store)
        });
        let told = at_once(&store, |store| {
            assert!(store.poisoned().is_none() && store.shortage().is_none());
            told_after_12_s(store)
        });
        assert_eq!(told.map(|stall| stall.operation), Some(operation));
        disk.0.release_all();
        beside.end();
        assert_eq!(store.stall(), None);
    }
}
