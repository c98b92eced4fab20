//! Where memory is dear, what is read of old data does not stay in it; what is new goes to the disk in large pieces.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use base::metric::Metrics;
use base::{QueueId, Timestamp};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{Options, QueueIndex, ReadMode, StorageError, Store};
use support::entries;
use support::orders::{draft, topic};

const MIB: u64 = 1024 * 1024;
/// Bytes from the first record read to the last.
const READ_SIZE: u64 = 24 * MIB;

fn open(memory: &MemoryDisk) -> Store {
    open_on(Disk::new(memory.clone()))
}

fn open_on(disk: Disk) -> Store {
    let options =
        Options { segment_size: 64 * MIB, checkpoint_reserve: Some(4096), disk, ..Options::new(Path::new("/data")) };
    Store::open(options, Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0
}

/// Appends some more.
fn append(store: &Store, index: &Arc<QueueIndex>, body_size: usize) {
    let body = vec![b'x'; body_size];
    let mut batch = store.begin_batch(0);
    for _ in 0..64 {
        testkit::push(store, &mut batch, index, &draft(&body, 0));
    }
    store.append(batch, Timestamp(1000)).expect("appends");
    assert!(store.write_staged().expect("writes"));
}

/// Reads what lies from `start` on.
fn read_from(store: &Store, index: &QueueIndex, start: u64) {
    let is_wanted = |offset: u64| (start..start + READ_SIZE).contains(&offset);
    let old: Vec<_> = entries(index).into_iter().filter(|(_, entry)| is_wanted(entry.log_offset.0)).collect();
    for some in old.chunks(32) {
        let found = store.read(index, some, ReadMode::MayWait).expect("reads");
        assert!(found.iter().all(|record| record.is_some()));
    }
}

/// Bytes of old data read past the page cache: where memory is not dear, and where it is.
fn read_past_of(body_size: usize) -> (u64, u64) {
    let memory = MemoryDisk::new();
    let store = open(&memory);
    let index = store.queue(&topic(), QueueId(0));
    while store.watermarks().written().0 < 512 * MIB + 2 * READ_SIZE + 8 * MIB {
        append(&store, &index, body_size);
    }
    read_from(&store, &index, 0);
    let where_cheap = memory.read_past();
    // Pages cost ten times what they cost as a rule, often enough to be believed.
    (0..64).for_each(|_| store.note_page_cost(MIB, Duration::from_micros(2500)));
    read_from(&store, &index, READ_SIZE);
    (where_cheap, memory.read_past() - where_cheap)
}

#[test]
fn old_data_is_read_past_the_page_cache_where_memory_is_dear() {
    for body_size in [8 * 1024, 48 * 1024] {
        let (where_cheap, where_dear) = read_past_of(body_size);
        assert_eq!(where_cheap, 0, "bodies of {body_size} bytes");
        let is_all = (READ_SIZE..=READ_SIZE + MIB).contains(&where_dear);
        assert!(is_all, "bodies of {body_size} bytes: {} of {} KiB", where_dear / 1024, READ_SIZE / 1024);
    }
}

#[test]
fn who_reads_on_finds_the_next_extents_read_and_waits_for_no_disk() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open_on(Disk::new(disk.clone()));
    store.set_reader(Waker::noop().clone());
    let index = store.queue(&topic(), QueueId(0));
    while store.watermarks().written().0 < 128 * MIB {
        append(&store, &index, 8 * 1024);
    }
    let old = entries(&index);
    let at_once = |some| match store.read(&index, some, ReadMode::IfCached) {
        Ok(found) => found.iter().all(|record| record.is_some()),
        Err(error) => panic!("{error}"),
    };
    let is_cold = |some| matches!(store.read(&index, some, ReadMode::IfCached), Err(StorageError::WouldBlock));
    let (first, second) = (&old[..8], &old[40..48]);
    assert!(is_cold(first) && store.read_ahead() == 0, "nobody has read yet");
    assert_eq!(store.read(&index, first, ReadMode::MayWait).expect("reads").count(), first.len());
    assert!(is_cold(second));
    assert!(store.read_ahead() > 0 && store.read_ahead() == 0, "one extent");
    // From here on a read of the disk fails.
    disk.fail(Failure::error(Operation::Read, libc::EIO));
    assert!(at_once(first) && at_once(second));
    assert!(is_cold(&old[200..208]));
    // Whoever reads ahead is kept from nothing by what cannot be read, and whoever comes there is told.
    assert!((0..8).all(|_| store.read_ahead() > 0) && store.read_ahead() == 0);
    let told = store.read(&index, &old[200..208], ReadMode::MayWait);
    assert!(told.is_err());
    disk.heal();
    assert!(is_cold(&old[200..208]));
    assert_eq!(store.read(&index, &old[200..208], ReadMode::MayWait).expect("reads").count(), 8);
}

#[test]
fn the_system_is_asked_to_write_four_mebibytes_at_a_time() {
    let store = open(&MemoryDisk::new());
    let index = store.queue(&topic(), QueueId(0));
    let asks = || {
        append(&store, &index, 16 * 1024);
        store.start_write_back().expect("asks")
    };
    let asked: Vec<_> = (0..8).map(|_| asks()).collect();
    assert_eq!(asked, [false, false, false, true, false, false, false, true]);
}
