//! Places that the disk cannot read back, whose records are not at stake: what can be made again is made again, and nothing else stops for it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use base::{QueueId, QueueOffset, Timestamp};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{Options, ReadMode, RecoveryProgress, Store};
use support::orders;

const EIO: i32 = 5;
const MESSAGES: u64 = 100;

fn options(disk: &FaultyDisk) -> Options {
    Options { recent_size: 1, disk: Disk::new(disk.clone()), ..orders::options(Path::new("/data")) }
}

fn open(options: &Options) -> (Store, storage::Recovery) {
    Store::open(options.clone(), Arc::default(), &mut |_: RecoveryProgress| ()).expect("opens")
}

/// A disk with a closed store of messages in two queues.
fn closed() -> (FaultyDisk, Options) {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = options(&disk);
    let (store, _) = open(&options);
    for number in 0..MESSAGES {
        orders::append_to(&store, number as u32 % 2);
    }
    store.close().expect("closes");
    (disk, options)
}

#[test]
fn a_file_of_entries_that_a_start_cannot_read_is_made_again() {
    for file in [0, 320, 960] {
        for entry in 0..8 {
            for is_killed in [false, true] {
                let (disk, options) = closed();
                if is_killed {
                    orders::append_to(&open(&options).0, 0);
                }
                let part = format!("consumequeue/orders/0/{file:020}");
                disk.fail(Failure::unreadable(&part, entry * 20..entry * 20 + 20, EIO));
                let (store, recovery) = open(&options);
                assert!(recovery.unusable.len() <= 1, "only that one");
                disk.heal();
                let added = u64::from(is_killed);
                assert_eq!(orders::verify_queue(&store, 0), MESSAGES / 2 + added, "{part} {entry}");
                assert_eq!(orders::verify_queue(&store, 1), MESSAGES / 2);
                if entry % 2 == 0 {
                    // The next start knows of nothing to be made again: what was is on the disk.
                    drop(store);
                    let left = FaultyDisk::over(&disk.after_power_cut(disk.points(), || false));
                    for left in [&disk, &left] {
                        let (store, _) = open(&self::options(left));
                        assert_eq!(orders::verify_queue(&store, 0), MESSAGES / 2 + added, "{part} {entry}");
                        assert_eq!(orders::verify_queue(&store, 1), MESSAGES / 2);
                    }
                    continue;
                }
                store.close().expect("closes");
            }
        }
    }
}

/// It fails where the queue is looked at, and once more where it is looked at again.
#[test]
fn a_disk_that_goes_twice_while_a_queue_is_looked_at_costs_it_no_entry() {
    for passes in 0..80 {
        let (disk, options) = closed();
        disk.fail(Failure::unreadable("consumequeue/orders/0", 0..160, EIO).times(1));
        disk.fail(Failure::unreadable("consumequeue/orders/0", 0..160, EIO).after(passes).times(1));
        drop(Store::open(options.clone(), Arc::default(), &mut |_: RecoveryProgress| ()));
        disk.heal();
        verify(&disk, 0..=0, &format!("{passes} reads between"));
    }
}

#[test]
fn a_start_that_cannot_look_at_the_folder_of_keys_is_refused_and_costs_none() {
    const LOOKS_AT_KEYS: u64 = 3;
    for passes in 0..8 {
        let (disk, options) = closed();
        disk.fail(Failure::error(Operation::Examine, EIO).at("data/index").after(passes).times(3));
        let started = Store::open(options.clone(), Arc::default(), &mut |_: RecoveryProgress| ());
        disk.heal();
        // So many looks are all there are.
        assert_eq!(started.is_err(), passes < LOOKS_AT_KEYS, "{passes}");
        drop(started);
        verify(&disk, 0..=0, &format!("the look behind {passes} others failed"));
    }
}

/// Number 25 lies in two sectors: a power cut may have left half of it, so its record is looked at.
#[test]
fn a_record_that_cannot_be_read_for_a_moment_or_at_all_costs_its_queue_no_entry() {
    for times in [1, 2, 1000] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let options = Options { queue_file_entries: 600, segment_size: 1 << 16, ..options(&disk) };
        let (store, _) = open(&options);
        let last = (0..26).map(|_| orders::append_to(&store, 0)).last().expect("messages").1.0;
        store.checkpoint().expect("a checkpoint");
        drop(store);
        disk.fail(Failure::unreadable("commitlog", last..last + 8, EIO).times(times));
        let (store, _) = open(&options);
        disk.heal();
        assert_eq!(orders::verify_queue(&store, 0), 26, "read badly {times} times");
    }
}

/// Number 20 of the keys lies in two sectors: a power cut may have left half of it, so its record is looked at.
#[test]
fn a_record_that_cannot_be_read_for_a_moment_costs_its_message_no_key() {
    for (passes, times) in (0..4).flat_map(|passes| (1..6).map(move |times| (passes, times))) {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let options = Options { segment_size: 1 << 16, ..options(&disk) };
        let (store, _) = open(&options);
        let last = (0..20).map(|_| orders::append_to(&store, 0)).last().expect("messages").1.0;
        store.checkpoint().expect("a checkpoint");
        orders::append_to(&store, 0);
        disk.fail(Failure::error(Operation::Write, EIO).at("data/checkpoint"));
        store.checkpoint().expect_err("keys are on the disk, and no checkpoint says so");
        drop(store);
        disk.heal();
        disk.fail(Failure::unreadable("commitlog", last..last + 8, EIO).after(passes).times(times));
        // The disk may seem to be gone.
        drop(Store::open(options.clone(), Arc::default(), &mut |_: RecoveryProgress| ()));
        disk.heal();
        let (store, _) = open(&options);
        for number in 0..21 {
            assert_eq!(
                orders::found_by_key(&store, &format!("k0-{number}")).len(),
                1,
                "{number}, {times} times after {passes}"
            );
        }
    }
}

#[test]
fn a_topic_is_not_removed_in_part_because_a_look_at_its_folder_failed() {
    for times in [1, 1000] {
        let (disk, options) = closed();
        let (store, _) = open(&options);
        disk.fail(Failure::error(Operation::Examine, EIO).at("consumequeue/orders").times(times));
        let removed = store.remove_topic(&orders::topic());
        disk.heal();
        assert_eq!(removed.is_ok(), times == 1);
        store.close().expect("closes");
        drop(store);
        if removed.is_ok() {
            assert!(open(&options).0.topics().is_empty(), "it came back");
        } else {
            verify(&disk, 0..=0, "it was not removed");
        }
    }
}

#[test]
fn what_was_set_aside_is_not_written_over_because_a_look_at_it_failed() {
    for (times, is_moved) in [(1, true), (3, true), (u64::MAX, false)] {
        let faulty = FaultyDisk::over(&MemoryDisk::new());
        let (disk, root, path) = (Disk::new(faulty.clone()), Path::new("/data"), Path::new("/data/commitlog/0"));
        let write = |byte: u8| disk.open_sized(path, 1, true).expect("makes").write_at(&[byte], 0).expect("writes");
        write(1);
        let first = disk.set_aside(root, path).expect("moves");
        write(2);
        faulty.fail(Failure::error(Operation::Examine, EIO).at("commitlog-0").times(times));
        let second = disk.set_aside(root, path);
        faulty.heal();
        assert_eq!((disk.read_file(&first).expect("reads"), second.is_ok()), (Some(vec![1]), is_moved));
        assert_eq!(disk.read_file(&second.unwrap_or_else(|_| path.to_owned())).expect("reads"), Some(vec![2]));
    }
}

#[test]
fn a_look_at_a_document_that_failed_is_told_of_and_leaves_nothing_beside_it() {
    let faulty = FaultyDisk::over(&MemoryDisk::new());
    let (disk, root) = (Disk::new(faulty.clone()), Path::new("/data"));
    for text in ["{}", "{"] {
        storage::write_document(&disk, root, "topics.json", text).expect("writes");
    }
    disk.remove_file(&root.join("config/topics.json.bak")).expect("removes");
    faulty.fail(Failure::error(Operation::Examine, EIO).at("topics.json"));
    storage::write_document(&disk, root, "topics.json", "{}").expect_err("a look that failed");
    assert_eq!(disk.list(&root.join("config")).expect("lists"), ["topics.json"]);
    storage::read_document(&disk, root, "topics.json").expect_err("it is damaged, and has no older copy");
}

#[test]
fn key_files_that_a_start_cannot_read_are_made_again() {
    // The header, and an entry behind the slots.
    for place in [0..40, 150..160] {
        let (disk, options) = closed();
        let index = Disk::new(disk.clone());
        let newest = index.list(Path::new("/data/index")).expect("lists").pop().expect("a file");
        disk.fail(Failure::unreadable(&format!("data/index/{newest}"), place, EIO));
        let (store, recovery) = open(&options);
        assert!(!recovery.unusable.is_empty());
        // What was made again lies elsewhere on the disk.
        disk.heal();
        for number in 0..MESSAGES {
            let (queue, offset) = (number % 2, number / 2);
            assert_eq!(orders::found_by_key(&store, &format!("k{queue}-{offset}")).len(), 1, "{queue}-{offset}");
        }
        store.close().expect("closes");
    }
}

/// Every message is in its queue and found by its key.
fn verify(disk: &FaultyDisk, added: RangeInclusive<u64>, when: &str) {
    let (store, _) = open(&options(disk));
    assert!(added.contains(&(orders::verify_queue(&store, 0) - MESSAGES / 2)), "{when}");
    assert_eq!(orders::verify_queue(&store, 1), MESSAGES / 2, "{when}");
    for number in 0..MESSAGES {
        let (queue, offset) = (number % 2, number / 2);
        let found = orders::found_by_key(&store, &format!("k{queue}-{offset}"));
        assert_eq!(found.len(), 1, "{when}: {queue}-{offset}");
    }
}

#[test]
fn what_a_start_that_ends_early_has_set_aside_is_made_again_by_the_next() {
    let newest_keys = |disk: &FaultyDisk| {
        let names = Disk::new(disk.clone()).list(Path::new("/data/index")).expect("lists");
        format!("data/index/{}", names.last().expect("a file"))
    };
    for (is_killed, is_keys) in [(false, false), (false, true), (true, false), (true, true)] {
        let ends_early = (0..).find(|&changes| {
            let (disk, options) = closed();
            if is_killed {
                orders::append_to(&open(&options).0, 0);
            }
            let part = if is_keys { newest_keys(&disk) } else { format!("consumequeue/orders/0/{:020}", 320) };
            disk.fail(Failure::unreadable(&part, 0..20, EIO));
            disk.fail(Failure::error(Operation::Change, EIO).after(changes));
            let before = disk.points();
            let opened = Store::open(options, Arc::default(), &mut |_: RecoveryProgress| ());
            let is_whole = opened.is_ok();
            drop(opened);
            // What was made again lies elsewhere on the disk.
            disk.heal();
            let when = format!("killed before: {is_killed}, keys: {is_keys}, after {changes} changes");
            // What was written last may not have been on the disk.
            let added = u64::from(is_killed);
            for point in (before..=disk.points()).filter(|_| is_whole) {
                for kept in [false, true] {
                    let left = FaultyDisk::over(&disk.after_power_cut(point, || kept));
                    verify(&left, 0..=added, &format!("{when}, power cut at {point}"));
                }
            }
            verify(&disk, added..=added, &when);
            is_whole
        });
        assert!(ends_early.is_some_and(|changes| changes > 5), "the start makes changes: {ends_early:?}");
    }
}

#[test]
fn folders_that_are_gone_are_made_again_also_by_a_start_after_one_that_ended_early() {
    for gone in ["consumequeue", "index"] {
        let ends_early = (0..).find(|&changes| {
            let (disk, options) = closed();
            Disk::new(disk.clone()).remove_directory(&Path::new("/data").join(gone)).expect("removes");
            disk.fail(Failure::error(Operation::Change, EIO).after(changes));
            let is_whole = Store::open(options, Arc::default(), &mut |_: RecoveryProgress| ()).is_ok();
            disk.heal();
            verify(&disk, 0..=0, &format!("{gone} is gone, {changes} changes"));
            is_whole
        });
        assert!(ends_early.is_some_and(|changes| changes > 5), "the start makes changes: {ends_early:?}");
    }
}

#[test]
fn a_document_that_cannot_be_read_is_replaced_by_its_backup() {
    let (disk, options) = closed();
    let (store, _) = open(&options);
    store.write_document("topics.json", r#"{"version":1}"#).expect("writes");
    store.write_document("topics.json", r#"{"version":2}"#).expect("writes");
    for (times, version) in [(1, 2), (2, 2), (3, 1)] {
        disk.fail(Failure::unreadable("config/topics.json", 0..2, EIO).times(times));
        let found = store.read_document("topics.json").expect("reads").expect("a document");
        assert_eq!(found["version"], version, "read badly {times} times");
    }
    disk.fail(Failure::unreadable("config/topics.json", 0..2, EIO));
    let error = store.read_document("topics.json").expect_err("neither can be read").to_string();
    assert!(error.contains("topics.json is damaged") && error.contains("restore"), "{error}");
}

#[test]
fn a_document_that_cannot_be_read_and_has_no_backup_is_not_taken_for_one_that_never_was() {
    let (disk, options) = closed();
    let (store, _) = open(&options);
    assert!(store.read_document("new.json").expect("reads").is_none());
    store.write_document("new.json", "{}").expect("writes");
    disk.fail(Failure::unreadable("config/new.json", 0..2, EIO));
    let error = store.read_document("new.json").expect_err("it is there").to_string();
    assert!(error.contains("new.json is damaged"), "{error}");
}

#[test]
fn entries_before_one_that_cannot_be_read_are_read() {
    let (disk, options) = closed();
    let (store, _) = open(&options);
    let queue = store.queue(&orders::topic(), QueueId(0));
    for unreadable in 1..8 {
        disk.heal();
        disk.fail(Failure::unreadable("orders/0/00000000000000000000", unreadable * 20..unreadable * 20 + 20, EIO));
        let mut entries = Vec::new();
        queue.read(QueueOffset(0), 8, ReadMode::MayWait, &mut entries).expect("reads");
        assert!((1..=unreadable).contains(&(entries.len() as u64)), "{} before {unreadable}", entries.len());
    }
}

#[test]
fn checkpoints_go_on_though_a_segment_cannot_tell_when_it_began() {
    let (disk, options) = closed();
    let (store, _) = open(&options);
    let newest = store.watermarks().written().0 / orders::SEGMENT_SIZE * orders::SEGMENT_SIZE;
    disk.fail(Failure::unreadable(&format!("commitlog/{newest:020}"), 0..10, EIO));
    orders::append_to(&store, 0);
    store.checkpoint().expect("the time of an older one will do");
    store.close().expect("closes");
    drop(store);
    let (store, recovery) = open(&options);
    assert!(recovery.was_clean);
    assert_eq!(store.queue(&orders::topic(), QueueId(0)).end().0, MESSAGES / 2 + 1);
}

#[test]
fn an_entry_that_cannot_be_read_keeps_no_other_queue_from_letting_go() {
    let (disk, mut options) = closed();
    options.retention.size = Some(orders::SEGMENT_SIZE);
    let (store, _) = open(&options);
    let queues = [0, 1].map(|number| store.queue(&orders::topic(), QueueId(number)));
    let middle = queues[0].end().0 / 2;
    for entry in [0, middle] {
        let (file, place) = (entry / 8 * 160, entry % 8 * 20);
        disk.fail(Failure::unreadable(&format!("orders/0/{file:020}"), place..place + 20, EIO));
    }
    assert!(store.apply_retention(Timestamp(0), 0).expect("removes").removed > 1);
    let log_first = store.log_first();
    let [damaged, whole] = queues;
    let entry = whole.entry(whole.first()).expect("reads").expect("an entry");
    assert!(whole.first().0 > 0 && entry.log_offset >= log_first, "it begins where the log does");
    assert!(damaged.first().0 <= middle, "too early, and never too late");
}

#[test]
fn a_log_that_a_start_cannot_read_is_told_of_with_what_to_do() {
    let (disk, options) = closed();
    drop(open(&options));
    disk.fail(Failure::unreadable("commitlog/00000000000000004096", 1000..1010, EIO));
    Disk::new(disk).remove_directory(Path::new("/data/consumequeue")).expect("removes");
    let error = Store::open(options, Arc::default(), &mut |_| ()).map(drop).expect_err("all of it is read").to_string();
    for part in ["00000000000000004096 is damaged", "os error 5", "Restore the file", "all later segments away"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

/// The disk fails once, as a path of a SAN does while it is switched over, and answers well when it is asked again.
#[test]
fn one_passing_error_costs_no_message() {
    for count in [1, 2, 8] {
        let (disk, options) = closed();
        let (store, _) = open(&options);
        let index = store.queue(&orders::topic(), QueueId(0));
        let entries: Vec<_> = support::entries(&index).into_iter().take(count).collect();
        disk.fail(Failure::error(Operation::Read, EIO).at("commitlog").times(1));
        let found = store.read(&index, &entries, ReadMode::MayWait).map(|found| found.count());
        assert!(found.is_err() || found.is_ok_and(|found| found == count), "of {count} one is passed over for good");
    }
}

/// The whole disk fails for a while, as one does that is detached: who reads on is told so, and not sent past all that is on it.
#[test]
fn a_disk_that_is_gone_for_a_while_is_no_damaged_record() {
    let (disk, options) = closed();
    let (store, _) = open(&options);
    let index = store.queue(&orders::topic(), QueueId(0));
    let entries = support::entries(&index);
    disk.fail(Failure::error(Operation::Read, EIO).at("commitlog"));
    for mode in [ReadMode::IfCached, ReadMode::MayWait] {
        assert!(store.read(&index, &entries, mode).is_err(), "others would be passed over");
    }
    disk.heal();
    assert_eq!(store.read(&index, &entries, ReadMode::MayWait).expect("reads").count(), entries.len());
}

/// The same where the page cache has most of the log, from when it was written: it is the disk that is asked elsewhere.
#[test]
fn what_the_page_cache_still_has_does_not_speak_for_a_disk_that_is_gone() {
    let (disk, options) = closed();
    let (store, _) = open(&options);
    let index = store.queue(&orders::topic(), QueueId(0));
    let entries: Vec<_> = support::entries(&index).into_iter().take(4).collect();
    let first = entries[0].1.log_offset.0;
    disk.fail(Failure::error(Operation::ReadPastCache, EIO).at("commitlog"));
    disk.fail(Failure::unreadable(&format!("commitlog/{:020}", 0), first..first + 10, EIO));
    assert!(store.read(&index, &entries, ReadMode::MayWait).is_err(), "the first would be passed over");
    disk.heal();
    disk.fail(Failure::unreadable(&format!("commitlog/{:020}", 0), first..first + 10, EIO));
    let found = store.read(&index, &entries, ReadMode::MayWait).expect("the disk reads all else");
    assert_eq!(found.count(), 3, "one is damaged");
}

/// It comes back while it is found out whether it is gone.
#[test]
fn a_disk_that_comes_back_at_any_moment_costs_no_message() {
    for count in [1, 8] {
        for failures in 1..40 {
            let (disk, options) = closed();
            let (store, _) = open(&options);
            let index = store.queue(&orders::topic(), QueueId(0));
            let entries: Vec<_> = support::entries(&index).into_iter().take(count).collect();
            disk.fail(Failure::error(Operation::Read, EIO).at("commitlog").times(failures));
            let found = store.read(&index, &entries, ReadMode::MayWait).map(|found| found.count());
            assert!(found.is_err() || found.is_ok_and(|found| found == count), "{count} messages, gone for {failures}");
        }
    }
}
