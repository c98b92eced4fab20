//! What a store promises across appends, orderly stops, kills at any byte, and damage.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::metric::Metrics;
use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use format::record::Draft;
use storage::{Options, ReadMode, StorageError, Store};
use support::orders::{
    SEGMENT_SIZE, append_to, body_of, draft, found_by_key, open, options, segment_path, topic, verify_queue,
};

/// Whoever finds another writing leaves its batch to that one, who must not miss it.
#[test]
fn whatever_several_threads_stage_is_written_by_one_of_them() {
    const THREADS: u32 = 4;
    const BATCHES: u64 = 2000;
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    std::thread::scope(|scope| {
        for queue in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let index = store.queue(&topic(), QueueId(queue));
                for number in 0..BATCHES {
                    let mut batch = store.begin_batch(0);
                    testkit::push(store, &mut batch, &index, &draft(&body_of(queue, number), queue));
                    store.append(batch, Timestamp(1000)).expect("appends");
                    assert!(store.write_if_little(usize::MAX).expect("writes"));
                }
            });
        }
    });
    assert_eq!(store.staged_size(), 0);
    assert!((0..THREADS).all(|queue| verify_queue(&store, queue) == BATCHES));
}

#[test]
fn what_is_not_little_is_left_to_the_writer() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let mut batch = store.begin_batch(0);
    testkit::push(&store, &mut batch, &store.queue(&topic(), QueueId(0)), &draft(&body_of(0, 0), 0));
    store.append(batch, Timestamp(1000)).expect("appends");
    assert!(!store.write_if_little(10).expect("nothing fails"));
    assert!(store.staged_size() > 0);
    assert!(store.write_staged().expect("writes"));
    assert_eq!(verify_queue(&store, 0), 1);
}

/// Writes over the log from `offset` on, through all segments.
fn overwrite_log(directory: &Path, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let base = offset / SEGMENT_SIZE * SEGMENT_SIZE;
    let file = std::fs::OpenOptions::new().write(true).open(segment_path(directory, base)).expect("opens");
    let room = (base + SEGMENT_SIZE - offset) as usize;
    let (here, rest) = bytes.split_at(bytes.len().min(room));
    file.write_all_at(here, offset - base).expect("writes");
    let next = base + SEGMENT_SIZE;
    if !rest.is_empty() && segment_path(directory, next).exists() {
        overwrite_log(directory, next, rest);
    }
}

#[test]
fn everything_is_there_after_an_orderly_stop() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let mut places = Vec::new();
    for number in 0..100 {
        places.push(append_to(&store, number % 3));
    }
    assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1), verify_queue(&store, 2)), (34, 33, 33));
    store.close().expect("closes");
    drop(store);
    let (store, recovery) = open(directory.path());
    assert!(recovery.was_clean && recovery.truncated_bytes == 0);
    assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1), verify_queue(&store, 2)), (34, 33, 33));
    assert_eq!(found_by_key(&store, "k0-33"), vec![places[99].1]);
    assert_eq!(found_by_key(&store, "k1-0"), vec![places[1].1]);
    assert_eq!(append_to(&store, 0).0, QueueOffset(34));
}

#[test]
fn a_kill_at_any_byte_loses_nothing_before_it_and_garbles_nothing() {
    let source = tempfile::tempdir().expect("directory");
    let (store, _) = open(source.path());
    for number in 0..20 {
        append_to(&store, number % 2);
    }
    store.checkpoint().expect("checkpoint");
    let checkpointed = store.watermarks().written().0;
    let mut ends = Vec::new();
    for number in 0..20 {
        let (_, at) = append_to(&store, number % 2);
        ends.push((number % 2, at.0, store.watermarks().written().0));
    }
    let end = store.watermarks().written().0;
    drop(store);
    for cut in (checkpointed..=end).step_by(7).chain(ends.iter().map(|(_, _, end)| *end)) {
        let target = tempfile::tempdir().expect("directory");
        testkit::copy_directory(source.path(), target.path());
        overwrite_log(target.path(), cut, &vec![0; (end - cut) as usize]);
        let (store, recovery) = open(target.path());
        assert!(!recovery.was_clean);
        let kept = ends.iter().filter(|(_, _, end)| *end <= cut).count() as u64;
        let total = verify_queue(&store, 0) + verify_queue(&store, 1);
        assert_eq!(total, 20 + kept, "cut at {cut}");
        assert_eq!(found_by_key(&store, "k0-0").len(), 1);
        for number in 0..10 {
            append_to(&store, number % 2);
        }
        assert_eq!(verify_queue(&store, 0) + verify_queue(&store, 1), 30 + kept);
        drop(store);
        // What lay beyond the cut must not come back now that new records reach up to it.
        let (store, _) = open(target.path());
        assert_eq!(verify_queue(&store, 0) + verify_queue(&store, 1), 30 + kept);
    }
}

#[test]
fn bytes_that_lie_after_the_end_are_counted_and_cleared() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    append_to(&store, 0);
    let end = store.watermarks().written().0;
    drop(store);
    overwrite_log(directory.path(), end, &[0xEE; 100]);
    assert_eq!(open(directory.path()).1.truncated_bytes, 100);
    assert_eq!(open(directory.path()).1.truncated_bytes, 0);
}

/// Of an entry that lies in two sectors, a power cut may leave one half of it and of another the other.
#[test]
fn half_an_entry_does_not_count_wherever_it_points() {
    let directory = tempfile::tempdir().expect("directory");
    let options = Options { queue_file_entries: 30, ..options(directory.path()) };
    let open = || Store::open(options.clone(), Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0;
    let store = open();
    let places: Vec<_> = (0..26).map(|number| append_to(&store, number / 25).1).collect();
    let other = store.queue(&topic(), QueueId(1)).entry(QueueOffset(0)).expect("reads").expect("an entry");
    store.checkpoint().expect("checkpoint");
    drop(store);
    assert!(places[25].0 > SEGMENT_SIZE);
    let of_another_queue = (other.log_offset.0, other.size);
    for (log_offset, size) in [of_another_queue, (places[3].0 + 8, 200), (SEGMENT_SIZE - 3, 200)] {
        let file = directory.path().join("consumequeue/orders/0/00000000000000000000");
        let file = std::fs::OpenOptions::new().write(true).open(file).expect("opens");
        let entry = [&log_offset.to_be_bytes()[..], &size.to_be_bytes(), &[0; 8]].concat();
        std::os::unix::fs::FileExt::write_all_at(&file, &entry, 25 * 20).expect("writes");
        let store = open();
        assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1)), (25, 1), "at {log_offset}");
    }
    let store = open();
    append_to(&store, 0);
    store.checkpoint().expect("checkpoint");
    drop(store);
    assert_eq!(verify_queue(&open(), 0), 26, "one that is whole counts");
}

#[test]
fn entries_and_keys_are_made_again_from_the_log() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    for number in 0..60 {
        append_to(&store, number % 2);
    }
    store.close().expect("closes");
    drop(store);
    std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("removes");
    std::fs::remove_dir_all(directory.path().join("index")).expect("removes");
    let (store, recovery) = open(directory.path());
    assert_eq!(recovery.records, 60);
    assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1)), (30, 30));
    assert_eq!(found_by_key(&store, "k1-7").len(), 1);
    store.close().expect("closes");
    drop(store);
    // One queue file cut short counts as lost too.
    let file = directory.path().join("consumequeue/orders/1/00000000000000000000");
    std::fs::OpenOptions::new().write(true).open(&file).expect("opens").set_len(33).expect("cuts");
    let (store, _) = open(directory.path());
    assert_eq!((verify_queue(&store, 0), verify_queue(&store, 1)), (30, 30));
}

#[test]
fn a_damaged_record_is_reported_and_its_neighbours_are_served() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let places: Vec<_> = (0..10).map(|_| append_to(&store, 0)).collect();
    store.close().expect("closes");
    drop(store);
    overwrite_log(directory.path(), places[4].1.0 + 90, b"\xff\xff");
    std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("removes");
    let (store, recovery) = open(directory.path());
    assert_eq!(recovery.damaged, vec![places[4].1]);
    let index = store.queue(&topic(), QueueId(0));
    assert_eq!(index.end(), QueueOffset(10));
    assert!(store.record_at(places[5].1).expect("reads").is_some());
    assert!(store.record_at(places[4].1).expect("reads").is_none(), "a damaged record is not served");
}

#[test]
fn what_is_set_aside_lies_where_no_broker_takes_it_for_its_own() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let places: Vec<_> = (0..60).map(|_| append_to(&store, 0)).collect();
    drop(store);
    // The first segment's end is damaged above what the checkpoint promised, such that nothing leads on.
    overwrite_log(directory.path(), places[2].1.0, &[0xff; 100]);
    let (store, recovery) = open(directory.path());
    assert!(!recovery.set_aside.is_empty());
    assert!(
        recovery.set_aside.iter().all(|path| path.starts_with(directory.path().join("set-aside")) && path.exists())
    );
    store.close().expect("closes");
    drop(store);
    let file = directory.path().join("consumequeue/orders/0/00000000000000000000");
    for _ in 0..2 {
        std::fs::OpenOptions::new().write(true).open(&file).expect("opens").set_len(33).expect("cuts");
        let (store, recovery) = open(directory.path());
        assert_eq!(recovery.unusable.len(), 1);
        assert!(recovery.unusable[0].starts_with(directory.path().join("set-aside")));
        assert_eq!(verify_queue(&store, 0), 2);
        store.close().expect("closes");
    }
    let names: Vec<_> = std::fs::read_dir(directory.path().join("set-aside")).expect("lists").collect();
    assert_eq!(names.len(), recovery.set_aside.len() + 2, "nothing set aside is overwritten");
    let kin = std::fs::read_dir(directory.path().join("commitlog")).expect("lists");
    assert!(kin.map(|entry| entry.expect("entry").file_name()).all(|name| name.len() == 20));
}

#[test]
fn entries_of_a_segment_that_was_taken_away_go_with_it() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let places: Vec<_> = (0..60).map(|_| append_to(&store, 0)).collect();
    store.close().expect("closes");
    drop(store);
    let mut base = SEGMENT_SIZE;
    while segment_path(directory.path(), base).exists() {
        std::fs::remove_file(segment_path(directory.path(), base)).expect("removes");
        base += SEGMENT_SIZE;
    }
    let kept = places.iter().filter(|(_, place)| place.0 < SEGMENT_SIZE).count() as u64;
    let (store, _) = open(directory.path());
    assert_eq!(verify_queue(&store, 0), kept);
    assert_eq!(append_to(&store, 0).0, QueueOffset(kept));
    // Killed before its first checkpoint, while the log is shorter than it once was.
    drop(store);
    let (store, _) = open(directory.path());
    assert_eq!(verify_queue(&store, 0), kept + 1);
}

#[test]
fn a_file_that_is_none_of_ours_stops_no_start() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    append_to(&store, 0);
    store.close().expect("closes");
    drop(store);
    for stray in ["consumequeue/notes.txt", "consumequeue/orders/notes.txt", "commitlog/notes.txt", "index/notes.txt"] {
        std::fs::write(directory.path().join(stray), "hello").expect("writes");
    }
    let (store, _) = open(directory.path());
    assert_eq!(verify_queue(&store, 0), 1);
}

#[test]
fn a_parked_message_of_a_level_above_the_highest_is_due_when_that_is_though_its_entry_is_made_again() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let parked = TopicName::trusted("SCHEDULE_TOPIC_XXXX");
    let index = store.queue(&parked, QueueId(0));
    let properties: &[&[u8]] = &[b"DELAY\x0199\x02"];
    let draft = Draft { topic: "SCHEDULE_TOPIC_XXXX", properties, ..draft(b"later", 0) };
    let mut batch = store.begin_batch(0);
    testkit::push(&store, &mut batch, &index, &draft);
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    let due = |store: &Store| {
        let entry = store.queue(&parked, QueueId(0)).entry(QueueOffset(0)).expect("reads");
        entry.expect("an entry").tag_code
    };
    assert_eq!(due(&store), 2000, "stored at 1000, one level of 1000");
    store.close().expect("closes");
    drop((index, store));
    std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("removes");
    let (store, _) = open(directory.path());
    assert_eq!(due(&store), 2000, "the same");
}

#[test]
fn a_log_without_keys_is_not_read_again() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let index = store.queue(&topic(), QueueId(0));
    let draft = Draft { properties: &[], ..draft(b"no key", 0) };
    let mut batch = store.begin_batch(0);
    testkit::push(&store, &mut batch, &index, &draft);
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    store.close().expect("closes");
    drop((index, store));
    let (store, recovery) = open(directory.path());
    assert_eq!((recovery.records, store.queue(&topic(), QueueId(0)).end()), (0, QueueOffset(1)));
}

#[test]
fn a_record_that_leads_to_no_file_of_ours_is_damage() {
    let queue_id_at = 12;
    let queue_offset_at = 20;
    let topic_at = |number| 89 + body_of(0, number).len() as u64;
    for (at, bytes) in [(Some(queue_id_at), &[0xFF; 4][..]), (Some(queue_offset_at), &[0xFF; 8]), (None, b"../../")] {
        let at = |number| at.unwrap_or_else(|| topic_at(number));
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path().join("data");
        let (store, _) = open(&root);
        let places: Vec<_> = (0..6).map(|_| append_to(&store, 0)).collect();
        drop(store);
        overwrite_log(&root, places[3].1.0 + at(3), bytes);
        let (store, recovery) = open(&root);
        assert_eq!(recovery.damaged, [places[3].1], "damage at {}", at(3));
        assert_eq!(
            (store.topics(), store.queue(&topic(), QueueId(0)).end()),
            (BTreeMap::from([(topic(), 1)]), QueueOffset(6)),
            "damage at {}",
            at(3)
        );
        assert_eq!(std::fs::read_dir(directory.path()).expect("lists").count(), 1);
        // Below the checkpoint its neighbours are kept, and it leads nowhere either.
        let later: Vec<_> = (0..3).map(|_| append_to(&store, 0)).collect();
        store.close().expect("closes");
        drop(store);
        overwrite_log(&root, later[0].1.0 + at(6), bytes);
        std::fs::remove_dir_all(root.join("consumequeue")).expect("removes");
        let (store, recovery) = open(&root);
        assert_eq!(recovery.damaged, [places[3].1, later[0].1], "damage at {}", at(3));
        assert_eq!(
            (store.topics(), store.queue(&topic(), QueueId(0)).end()),
            (BTreeMap::from([(topic(), 1)]), QueueOffset(9))
        );
        assert_eq!(std::fs::read_dir(directory.path()).expect("lists").count(), 1);
    }
}

#[test]
fn damage_below_the_checkpoint_stops_the_start_with_the_place_and_the_remedy() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let places: Vec<_> = (0..10).map(|_| append_to(&store, 0)).collect();
    store.close().expect("closes");
    drop(store);
    overwrite_log(directory.path(), places[4].1.0, &[0xEE; 200]);
    std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("removes");
    let refused = Store::open(options(directory.path()), Arc::new(Metrics::default()), &mut |_| ());
    let text = refused.expect_err("damaged").to_string();
    assert!(text.contains("00000000000000000000 is damaged") && text.contains("Restore"), "{text}");
}

#[test]
fn a_removed_topic_stays_removed_though_the_key_index_is_made_again() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    for _ in 0..3 {
        append_to(&store, 0);
    }
    store.remove_topic(&topic()).expect("removes");
    drop(store);
    std::fs::remove_dir_all(directory.path().join("index")).expect("removes");
    let (store, recovery) = open(directory.path());
    assert_eq!((recovery.records, store.topics()), (3, BTreeMap::new()));
    assert_eq!(found_by_key(&store, "k0-1").len(), 1);
}

#[test]
fn an_entry_that_points_nowhere_reads_as_no_record() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    append_to(&store, 0);
    for (log_offset, size) in [(0, 0), (0, u32::MAX), (u64::MAX, 0), (u64::MAX, 200)] {
        let entry = format::queue_entry::Entry { log_offset: LogOffset(log_offset), size, tag_code: 0 };
        let queue = store.queue(&topic(), QueueId(0));
        let found = store.read(&queue, &[(QueueOffset(0), entry)], ReadMode::MayWait).expect("reads");
        assert_eq!(found.iter().collect::<Vec<_>>(), [None]);
        let _ = store.store_time(&entry).expect("reads");
    }
}

#[test]
fn a_second_store_on_the_same_directory_is_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let _store = open(directory.path());
    let refused = Store::open(options(directory.path()), Arc::new(Metrics::default()), &mut |_| ());
    assert!(matches!(refused, Err(StorageError::Locked(_))));
}

#[test]
fn a_record_larger_than_a_segment_is_refused_and_nothing_is_stored() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let index = store.queue(&topic(), QueueId(0));
    let body = vec![1; SEGMENT_SIZE as usize];
    let mut batch = store.begin_batch(0);
    testkit::push(&store, &mut batch, &index, &draft(&body, 0));
    assert!(matches!(store.append(batch, Timestamp(1)), Err(StorageError::RecordTooLarge { .. })));
    assert_eq!(append_to(&store, 0).0, QueueOffset(0));
}

#[test]
fn keys_that_nobody_indexes_are_indexed_by_who_writes_the_log() {
    const KEYS: u64 = 1_000_000;
    let directory = tempfile::tempdir().expect("directory");
    let wide = Options {
        segment_size: 1 << 20,
        key_index_entries: 10_000_000,
        key_index_slots: 1000,
        queue_file_entries: 10_000,
        ..options(directory.path())
    };
    let (store, _) = Store::open(wide, Arc::default(), &mut |_| ()).expect("opens");
    let index = store.queue(&topic(), QueueId(0));
    let mut added = 0;
    while added < KEYS {
        let mut batch = store.begin_batch(0);
        let keys: Vec<_> = (added..added + 1000).map(|number| number.to_string()).collect();
        let property = format!("KEYS\u{1}{}\u{2}", keys.join(" "));
        let draft = Draft { properties: &[property.as_bytes()], ..draft(b"with many keys", 0) };
        testkit::push(&store, &mut batch, &index, &draft);
        added += 1000;
        store.append(batch, Timestamp(1000)).expect("appends");
        if !store.write_if_little(usize::MAX).expect("writes") {
            assert!(store.staged_size() > 1 << 20, "senders wait meanwhile");
            store.write_staged().expect("writes");
        }
        assert!(store.staged_size() < 12 << 20, "{} bytes", store.staged_size());
    }
    assert!(store.key_index_last().1 > LogOffset(0));
}

#[test]
fn no_record_is_stored_before_an_earlier_one() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    let index = store.queue(&topic(), QueueId(0));
    let stored_at = [5000, 4000, 4999, 6000, 1].map(|now| {
        let mut batch = store.begin_batch(0);
        testkit::push(&store, &mut batch, &index, &draft(b"in time", 0));
        store.append(batch, Timestamp(now)).expect("appends").store_timestamp
    });
    assert_eq!(stored_at, [5000, 5000, 5000, 6000, 6000].map(Timestamp), "whatever the clock says");
}

#[test]
fn listeners_and_waiters_hear_once_their_time_has_come() {
    use base::offset::Watermark;
    use std::sync::atomic::{AtomicUsize, Ordering};
    #[derive(Debug, Default)]
    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl storage::QueueListener for Count {
        fn entries_added(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    append_to(&store, 0);
    let arrivals: Arc<Count> = store.queue(&topic(), QueueId(0)).listener().expect("the first");
    append_to(&store, 1);
    assert_eq!(arrivals.0.load(Ordering::SeqCst), 0);
    append_to(&store, 0);
    append_to(&store, 0);
    let same: Arc<Count> = store.queue(&topic(), QueueId(0)).listener().expect("the same");
    assert_eq!(same.0.load(Ordering::SeqCst), 2);
    let durable = Arc::<Count>::default();
    store.when(Watermark::Durable, store.watermarks().written(), durable.clone().into());
    assert_eq!(durable.0.load(Ordering::SeqCst), 0);
    assert_eq!(store.waiting_for_sync(), 1);
    store.sync().expect("syncs");
    assert_eq!(durable.0.load(Ordering::SeqCst), 1);
}

#[test]
fn a_message_staged_when_its_topic_is_removed_does_not_bring_it_back() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = open(directory.path());
    append_to(&store, 0);
    let index = store.queue(&topic(), QueueId(0));
    let stage = || {
        let mut batch = store.begin_batch(0);
        testkit::push(&store, &mut batch, &index, &draft(b"late", 0));
        store.append(batch, Timestamp(1000))
    };
    assert!(stage().is_ok());
    store.remove_topic(&topic()).expect("removes");
    // Who looked the queue up before cannot put anything into it either.
    assert!(matches!(stage(), Err(StorageError::TopicRemoved(name)) if name == topic()));
    assert!(!store.write_staged().expect("writes"), "nothing is left to be written");
    drop((store, index));
    let (store, recovery) = open(directory.path());
    assert!(!recovery.was_clean);
    assert!(store.topics().is_empty());
    assert_eq!(append_to(&store, 0).0, QueueOffset(0));
}
