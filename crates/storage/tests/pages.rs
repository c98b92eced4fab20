//! Where memory is dear, what is read of old data does not stay in it; what is new goes to the disk in large pieces.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::metric::Metrics;
use base::{QueueId, Timestamp};
use storage::disk::{Disk, MemoryDisk};
use storage::{Options, QueueIndex, ReadMode, Store};
use support::entries;
use support::orders::{draft, topic};

const MIB: u64 = 1024 * 1024;
/// Bytes from the first record read to the last.
const READ_SIZE: u64 = 24 * MIB;

fn open(memory: &MemoryDisk) -> Store {
    let options = Options {
        segment_size: 64 * MIB,
        checkpoint_reserve: Some(4096),
        disk: Disk::new(memory.clone()),
        ..Options::new(Path::new("/data"))
    };
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

/// Reads what lies from `start` on, while `meanwhile` is done again and again.
fn read_from(store: &Store, index: &QueueIndex, start: u64, meanwhile: impl Fn()) {
    let is_wanted = |offset: u64| (start..start + READ_SIZE).contains(&offset);
    let old: Vec<_> = entries(index).into_iter().filter(|(_, entry)| is_wanted(entry.log_offset.0)).collect();
    for some in old.chunks(32) {
        let found = store.read(index, some, ReadMode::MayWait).expect("reads");
        assert!(found.iter().all(|record| record.is_some()));
        meanwhile();
    }
}

/// Bytes of old data given back while they are read: where memory is not dear, where it is and the log grows, and where it does not.
fn given_back_of(body_size: usize) -> (u64, u64, u64) {
    let memory = MemoryDisk::new();
    let store = open(&memory);
    let index = store.queue(&topic(), QueueId(0));
    while store.watermarks().written().0 < 512 * MIB + 3 * READ_SIZE + 8 * MIB {
        append(&store, &index, body_size);
    }
    read_from(&store, &index, 0, || ());
    let where_cheap = memory.given_back();
    // Pages cost ten times what they cost as a rule, often enough to be believed.
    (0..64).for_each(|_| store.note_page_cost(MIB, Duration::from_micros(2500)));
    let before = memory.given_back();
    read_from(&store, &index, READ_SIZE, || append(&store, &index, body_size));
    let where_dear = memory.given_back() - before;
    read_from(&store, &index, 2 * READ_SIZE, || ());
    (where_cheap, where_dear, memory.given_back() - before - where_dear)
}

#[test]
fn what_a_reader_of_old_data_has_gone_through_is_given_back_where_memory_is_dear_while_the_log_grows() {
    for body_size in [8 * 1024, 48 * 1024] {
        let (where_cheap, where_dear, at_rest) = given_back_of(body_size);
        assert_eq!(where_cheap, 0, "bodies of {body_size} bytes");
        // A piece may be told of twice: by the block before its end, and by the record across it.
        let is_most = (READ_SIZE - 4 * MIB..=2 * READ_SIZE).contains(&where_dear);
        assert!(is_most, "bodies of {body_size} bytes: {} of {} MiB", where_dear / MIB, READ_SIZE / MIB);
        assert!(at_rest <= 4 * MIB, "bodies of {body_size} bytes: {} MiB though nothing is written", at_rest / MIB);
    }
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
