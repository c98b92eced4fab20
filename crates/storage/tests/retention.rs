//! What goes when a log is to be kept no longer, and what must not.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use base::metric::Metrics;
use base::{LogOffset, QueueId, QueueOffset, Timestamp};
use storage::disk::{Disk, MemoryDisk};
use storage::{Options, Store};
use support::orders::{SEGMENT_SIZE, append_to, found_by_key, open, options, segment_path, topic, verify_queue};

/// A store whose segments expire at once, at four o'clock.
fn open_forgetful(directory: &Path) -> Store {
    let mut settings = options(directory);
    settings.retention.delete_hours = vec![4];
    settings.retention.age_ms = 1000;
    // Tests must not depend on how full this machine's disk is.
    settings.retention.disk_used_percent = 100;
    settings.retention.disk_force_percent = None;
    settings.retention.disk_refuse_percent = 100;
    Store::open(settings, Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0
}

#[test]
fn old_segments_go_and_queues_begin_later() {
    let directory = tempfile::tempdir().expect("directory");
    let store = open_forgetful(directory.path());
    for number in 0..100 {
        append_to(&store, number % 2);
    }
    let far = Timestamp(u64::MAX / 2);
    let removed_at = |hour: u8| store.apply_retention(far, hour).expect("looks").removed;
    assert_eq!(removed_at(4), 0, "entries are not on the disk yet");
    store.checkpoint().expect("checkpoint");
    assert_eq!(removed_at(5), 0, "not the hour");
    let removed = removed_at(4);
    assert!(removed >= 3, "{removed}");
    let first = store.log_first();
    for behind in [1, SEGMENT_SIZE / 2, first.0] {
        let told = store.read_raw(LogOffset(first.0 - behind), 2 * SEGMENT_SIZE as usize).expect_err("removed");
        assert!(told.to_string().starts_with(&format!("the log begins at {first} by now")), "{told}");
    }
    assert!(!store.read_raw(first, 100).expect("kept").is_empty());
    let index = store.queue(&topic(), QueueId(0));
    assert!(index.first() > QueueOffset(0) && index.first() < index.end());
    verify_queue(&store, 0);
    assert_eq!(append_to(&store, 0).0, QueueOffset(50));
    store.close().expect("closes");
    let first = index.first();
    drop((store, index));
    let (store, _) = open(directory.path());
    assert_eq!(store.queue(&topic(), QueueId(0)).first(), first);
    verify_queue(&store, 1);
}

#[test]
fn a_log_above_its_size_loses_whole_segments_and_no_more() {
    for segments_kept in 1..5 {
        let directory = tempfile::tempdir().expect("directory");
        let mut settings = options(directory.path());
        settings.retention.size = Some(segments_kept * SEGMENT_SIZE);
        settings.retention.disk_force_percent = None;
        settings.retention.disk_refuse_percent = 100;
        let (store, _) = Store::open(settings, Arc::new(Metrics::default()), &mut |_| ()).expect("opens");
        for number in 0..150 {
            append_to(&store, number % 2);
            let size = store.watermarks().written().0 - store.log_first().0;
            store.checkpoint().expect("checkpoint");
            let removed = store.apply_retention(Timestamp(1000), 5).expect("looks").removed as u64;
            assert_eq!(removed, u64::from(size > segments_kept * SEGMENT_SIZE), "{size} bytes");
        }
        assert!(store.log_first().0 > SEGMENT_SIZE);
        assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1)), (75, 75));
        assert_eq!(found_by_key(&store, "k1-74").len(), 1);
        store.close().expect("closes");
        drop(store);
        let (store, _) = open(directory.path());
        assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1)), (75, 75));
    }
}

/// The room of a file comes back when the last who has it open is done with it: a slow sync, a backup, a reader.
#[test]
fn a_short_disk_costs_no_more_segments_than_needed_though_somebody_still_reads_them() {
    let (memory, directory) = (MemoryDisk::new(), Path::new("/data"));
    let disk = Disk::new(memory.clone());
    let settings = Options { disk: disk.clone(), ..options(directory) };
    let (store, _) = Store::open(settings, Arc::new(Metrics::default()), &mut |_| ()).expect("opens");
    for number in 0..150 {
        append_to(&store, number % 2);
    }
    store.checkpoint().expect("checkpoint");
    let segment_count = store.watermarks().written().0 / SEGMENT_SIZE;
    assert!(segment_count > 5, "{segment_count}");
    let read_by_others: Vec<_> = (0..segment_count)
        .map(|number| disk.open_read_only(&segment_path(directory, number * SEGMENT_SIZE)).expect("opens"))
        .collect();
    let look = || store.apply_retention(Timestamp(1000), 5).expect("looks").removed;
    let (used, _) = store.disk_usage().expect("tells");
    // 86 % and a little are used: two segments are enough.
    memory.set_capacity((used - SEGMENT_SIZE) * 100 / 86);
    assert_eq!(look(), 2);
    let (still_used, _) = store.disk_usage().expect("tells");
    assert!(used - still_used < SEGMENT_SIZE, "no segment's room came back yet: {still_used} of {used}");
    drop(read_by_others);
    assert_eq!(look(), 0);
    assert_eq!(store.log_first().0, 2 * SEGMENT_SIZE);
}

#[test]
fn a_queue_whose_messages_have_all_gone_goes_on_where_it_was() {
    // Eight entries fill a file.
    for count in [7, 8, 9, 16] {
        let directory = tempfile::tempdir().expect("directory");
        let store = open_forgetful(directory.path());
        for _ in 0..count {
            append_to(&store, 0);
        }
        for _ in 0..60 {
            append_to(&store, 1);
        }
        store.checkpoint().expect("checkpoint");
        assert!(store.apply_retention(Timestamp(u64::MAX / 2), 4).expect("removes").removed > 1);
        let index = store.queue(&topic(), QueueId(0));
        assert_eq!((index.first(), index.end()), (QueueOffset(count), QueueOffset(count)));
        store.close().expect("closes");
        drop((store, index));
        let (store, _) = open(directory.path());
        let index = store.queue(&topic(), QueueId(0));
        assert_eq!((index.first(), index.end()), (QueueOffset(count), QueueOffset(count)));
        assert_eq!(append_to(&store, 0).0, QueueOffset(count));
    }
}

#[test]
fn entries_made_again_in_the_middle_of_a_file_are_found_at_the_next_start() {
    let open_wide = |directory: &Path| {
        let wide = Options { queue_file_entries: 100, ..options(directory) };
        Store::open(wide, Arc::new(Metrics::default()), &mut |_| ()).expect("opens")
    };
    for removed in 1..6 {
        let directory = tempfile::tempdir().expect("directory");
        let (store, _) = open_wide(directory.path());
        for number in 0..100 {
            append_to(&store, number % 2);
        }
        store.close().expect("closes");
        drop(store);
        for base in (0..removed).map(|number| number * SEGMENT_SIZE) {
            std::fs::remove_file(segment_path(directory.path(), base)).expect("removes");
        }
        std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("removes");
        let (store, _) = open_wide(directory.path());
        let first = store.queue(&topic(), QueueId(0)).first();
        assert_eq!(verify_queue(&store, 0), 50);
        store.close().expect("closes");
        drop(store);
        let (store, _) = open_wide(directory.path());
        assert_eq!(store.queue(&topic(), QueueId(0)).first(), first, "{removed} segments removed");
        assert_eq!(verify_queue(&store, 0), 50, "{removed} segments removed, first entry {first:?}");
    }
}

/// An entry whose bytes were damaged such that it seems to be of a record before the log, or of none. Those before it are found all the
/// same, at a start and when segments are removed.
#[test]
fn an_entry_that_seems_to_be_gone_hides_none_that_is_kept() {
    let open_wide = |directory: &Path| {
        let mut wide = Options { queue_file_entries: 2000, ..options(directory) };
        wide.retention.size = Some(4 * SEGMENT_SIZE);
        wide.retention.disk_force_percent = None;
        wide.retention.disk_refuse_percent = 100;
        Store::open(wide, Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0
    };
    let first_of = |store: &Store| store.queue(&topic(), QueueId(0)).first().0;
    // With the entry of this number overwritten, if any: where the queue begins after a removal, after a start behind it, and after a
    // start behind segments that were removed by hand.
    let begins = |damaged: Option<(u64, [u8; 20])>| {
        let directory = tempfile::tempdir().expect("directory");
        let store = open_wide(directory.path());
        for number in 0..100 {
            append_to(&store, number % 2);
        }
        store.close().expect("closes");
        drop(store);
        if let Some((number, bytes)) = damaged {
            let path = directory.path().join("consumequeue/orders/0/00000000000000000000");
            let file = std::fs::OpenOptions::new().write(true).open(path).expect("opens");
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, number * 20).expect("writes");
        }
        let store = open_wide(directory.path());
        while store.apply_retention(Timestamp(1000), 5).expect("looks").removed > 0 {}
        let (at_removal, log_first) = (first_of(&store), store.log_first());
        store.close().expect("closes");
        drop(store);
        let at_start = first_of(&open_wide(directory.path()));
        std::fs::remove_file(segment_path(directory.path(), log_first.0)).expect("removes");
        [at_removal, at_start, first_of(&open_wide(directory.path()))]
    };
    let whole = begins(None);
    assert!(whole[0] > 0 && whole[0] == whole[1] && whole[1] < whole[2] && whole[2] < 40, "{whole:?}");
    let mut before_the_log = [0; 20];
    before_the_log[11] = 100;
    for number in (1..50).step_by(3) {
        for bytes in [before_the_log, [0; 20]] {
            for (seen, first) in begins(Some((number, bytes))).into_iter().zip(whole) {
                let is_right = seen == first || number == first && seen == first + 1;
                assert!(is_right, "begins at {seen} instead of {first} with number {number} damaged: {bytes:?}");
            }
        }
    }
}

/// Neither the log nor a file says any more how far the queue had come: its offsets are not given out again all the same.
#[test]
fn a_queue_whose_messages_have_all_gone_goes_on_behind_them_though_its_file_is_damaged() {
    for count in [1, 7, 8, 9, 16] {
        for is_stopped in [true, false] {
            let directory = tempfile::tempdir().expect("directory");
            let store = open_forgetful(directory.path());
            for _ in 0..count {
                append_to(&store, 0);
            }
            for _ in 0..60 {
                append_to(&store, 1);
            }
            store.checkpoint().expect("checkpoint");
            while store.apply_retention(Timestamp(u64::MAX / 2), 4).expect("looks").removed > 0 {}
            if is_stopped {
                store.close().expect("closes");
            }
            drop(store);
            let queue = directory.path().join("consumequeue/orders/0");
            let mut files: Vec<_> =
                std::fs::read_dir(&queue).expect("lists").map(|file| file.expect("a file").path()).collect();
            files.sort();
            let newest = files.last().expect("a file");
            std::fs::OpenOptions::new().write(true).open(newest).and_then(|file| file.set_len(100)).expect("cuts");
            let mut end = None;
            for _ in 0..3 {
                let (store, _) = open(directory.path());
                let index = store.queue(&topic(), QueueId(0));
                assert!(index.end().0 >= count && index.first() == index.end(), "{:?} of {count}", index.end());
                assert_eq!(*end.get_or_insert(index.end()), index.end());
                assert_eq!(verify_queue(&store, 1), 60);
            }
            let (store, _) = open(directory.path());
            assert_eq!(Some(append_to(&store, 0).0), end);
            drop(store);
            let (store, _) = open(directory.path());
            assert_eq!(verify_queue(&store, 0), end.map_or(0, |end| end.0 + 1));
        }
    }
}
