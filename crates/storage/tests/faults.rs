//! What a store does when its disk fails, and damage that only a disk made for it can show: named regressions of what the
//! crash enumeration found.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::metric::Metrics;
use base::offset::Watermark;
use base::{LogOffset, QueueId, Timestamp, TopicName};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{Options, ReadMode, StorageError, Store};
use support::beside::run_beside;
use support::orders;
use support::woken::Woken;
use support::world::{Chance, Model, TOPICS, World};

const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENOSPC: i32 = 28;
const EOPNOTSUPP: i32 = 95;

fn options(disk: &FaultyDisk) -> Options {
    Options {
        log_directory: None,
        segment_size: 4096,
        queue_file_entries: 30,
        gathered_entries: 0,
        open_queue_files: 256,
        key_index_entries: 40,
        recent_size: 1,
        ..support::world::options(&mut Chance::new(1), Disk::new(disk.clone()))
    }
}

/// A store on a faulty disk with some records, all of them written.
fn world() -> (FaultyDisk, Options, World, Chance) {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = options(&disk);
    let mut world = World::open(&options, &Model::default(), 0).expect("opens");
    let mut chance = Chance::new(7);
    for _ in 0..8 {
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    (disk, options, world, chance)
}

/// After a power cut that keeps what chance says, everything acknowledged is there and the store goes on.
fn survives_a_power_cut(disk: &FaultyDisk, options: &Options, model: &Model, chance: &mut Chance) {
    for percent in [0, 20, 50, 80, 100] {
        let image = disk.after_power_cut(disk.points(), || chance.percent(percent));
        let options = Options { disk: Disk::new(image), ..options.clone() };
        let world = World::open(&options, model, model.durable).expect("opens without help");
        world.live_on(chance);
    }
}

#[test]
fn a_failed_write_or_sync_of_the_log_poisons_it_and_a_restart_heals_it() {
    for operation in [Operation::Write, Operation::Sync] {
        let (disk, options, mut world, mut chance) = world();
        world.sync().expect("syncs");
        world.append(&mut chance).expect("appends");
        if operation == Operation::Sync {
            world.write().expect("writes");
        }
        disk.fail(Failure::error(operation, EIO).at("commitlog").times(1));
        let failed = if operation == Operation::Sync { world.sync() } else { world.write() };
        assert!(failed.is_err());
        assert!(world.store.poisoned().is_some_and(|why| why.contains("commitlog")), "{operation:?}");
        // The disk is well again, and still nothing is promised.
        assert!(matches!(world.append(&mut chance), Err(StorageError::Poisoned(_))));
        assert!(matches!(world.sync(), Err(StorageError::Poisoned(_))));
        assert!(world.checkpoint().is_err() && world.close().is_err());
        let late = Arc::new(Woken::default());
        let beyond = world.store.watermarks().written().after(1);
        world.store.when(Watermark::Durable, beyond, late.clone().into());
        assert!(late.0.load(Ordering::SeqCst), "nobody waits for what will never be, however late they come");
        let model = world.model.clone();
        survives_a_power_cut(&disk, &options, &model, &mut chance);
        drop(world);
        let world = World::open(&options, &model, model.written).expect("opens");
        assert_eq!(world.store.poisoned(), None);
        world.live_on(&mut chance);
    }
}

#[test]
fn a_slow_sync_holds_up_only_those_who_wait_for_it() {
    let (disk, _, mut world, mut chance) = world();
    disk.hold_syncs();
    let store = world.store.clone();
    let syncing = std::thread::spawn(move || store.sync());
    disk.wait_for_held(Operation::Sync);
    let (durable, asynchronous) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    for _ in 0..20 {
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    let end = world.store.watermarks().written();
    world.store.when(Watermark::Written, end, asynchronous.clone().into());
    world.store.when(Watermark::Durable, end, durable.clone().into());
    assert!(asynchronous.0.load(Ordering::SeqCst), "senders that do not wait for the disk are answered");
    world.verify();
    assert!(!syncing.is_finished() && !durable.0.load(Ordering::SeqCst), "who waits for the disk waits");
    assert!(world.store.waiting_for_sync() == 1 && world.store.watermarks().durable() < end);
    disk.release(Operation::Sync);
    let first = syncing.join().expect("no panic").expect("syncs");
    assert!(first < end, "a sync promises what was there when it began");
    assert!(!durable.0.load(Ordering::SeqCst));
    world.sync().expect("syncs");
    assert!(durable.0.load(Ordering::SeqCst));
}

#[test]
fn a_sync_beside_a_failing_one_promises_nothing() {
    let (disk, options, world, mut chance) = world();
    let before = world.store.watermarks().durable();
    disk.hold_syncs();
    // A system tells of lost bytes once: whoever syncs next hears that all is well.
    disk.fail(Failure::error(Operation::Sync, EIO).at("commitlog").times(1));
    let sync = || {
        let store = world.store.clone();
        run_beside(move || store.sync())
    };
    let both = [sync(), sync()];
    disk.wait_for_held(Operation::Sync);
    disk.release(Operation::Sync);
    assert!(both.into_iter().all(|syncing| syncing.join().expect("no panic").is_err()));
    assert_eq!(world.store.watermarks().durable(), before);
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

#[test]
fn a_failed_sync_of_entries_or_keys_never_counts_as_done() {
    for part in ["consumequeue", "index"] {
        let (disk, options, mut world, mut chance) = world();
        disk.fail(Failure::error(Operation::Sync, EIO).at(part).times(1));
        assert!(world.checkpoint().is_err());
        assert!(world.store.poisoned().is_some_and(|why| why.contains(part)));
        assert!(world.checkpoint().is_err(), "a second one would lie about what the first lost");
        survives_a_power_cut(&disk, &options, &world.model, &mut chance);
    }
}

#[test]
fn a_failed_sync_of_the_whole_disk_never_counts_as_done() {
    let (disk, options, world, mut chance) = world();
    let model = world.model.clone();
    drop(world);
    let options = Options { open_queue_files: 1, ..options };
    let mut world = World::open(&options, &model, model.written).expect("opens");
    for _ in 0..20 {
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    disk.fail(Failure::error(Operation::Sync, EIO).at("/machine/data/checkpoint").times(1));
    assert!(world.checkpoint().is_err(), "whichever file on that disk it is");
    assert!(world.store.poisoned().is_some_and(|why| why.contains("/machine/data")));
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

#[test]
fn short_writes_are_completed() {
    let (disk, options, mut world, mut chance) = world();
    disk.fail(Failure::short_write(7));
    for _ in 0..5 {
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    world.checkpoint().expect("checkpoint");
    world.verify();
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

/// Without it, nobody would know after a crash that there was one.
#[test]
fn a_store_that_cannot_leave_its_sign_does_not_begin_but_on_a_full_disk_where_one_is_left() {
    let (disk, options, world, _) = world();
    let begins = |code| {
        disk.fail(Failure::error(Operation::Write, code).at("/abort"));
        let opened = Store::open(options.clone(), Arc::default(), &mut |_| ()).map(|(store, _)| store);
        disk.heal();
        opened
    };
    drop(world);
    assert!(begins(EIO).is_err_and(|error| error.to_string().contains("/abort")));
    let store = begins(ENOSPC).expect("that of the process killed says the same");
    store.close().expect("closes");
    drop(store);
    assert!(begins(ENOSPC).is_err_and(|error| error.is_disk_full()), "there is none");
}

#[test]
fn a_full_disk_refuses_and_takes_messages_again_when_there_is_room() {
    let (disk, options, mut world, mut chance) = world();
    disk.fail(Failure::error(Operation::Resize, ENOSPC).at("commitlog"));
    let refused = loop {
        match world.append(&mut chance) {
            Ok(()) => world.write().expect("what has a place is written"),
            Err(error) => break error,
        }
    };
    assert!(refused.is_disk_full() && world.store.poisoned().is_none(), "{refused}");
    assert!(world.store.prepare_next_segment().is_err() && world.store.shortage().is_some());
    world.verify();
    world.sync().expect("what was taken is kept");
    disk.heal();
    world.store.prepare_next_segment().expect("there is room");
    assert!(world.store.shortage().is_none());
    world.append(&mut chance).expect("appends");
    world.write().expect("writes");
    world.verify();
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

/// Housekeeping has begun to make the next segment when an append needs it.
#[test]
fn a_segment_has_one_maker_though_two_want_it_on_a_full_disk() {
    for has_room_again in [false, true] {
        let (disk, options, mut world, mut chance) = world();
        // The last segment is more than half full, and the next one not made.
        while world.model.written % 4096 < 3000 {
            world.append(&mut chance).expect("appends");
            world.write().expect("writes");
        }
        disk.hold_next(Operation::Resize);
        disk.fail(Failure::error(Operation::Resize, ENOSPC).at("commitlog").times(1));
        let store = world.store.clone();
        let housekeeping = run_beside(move || store.prepare_next_segment());
        disk.wait_for_held(Operation::Resize);
        let senders = run_beside(move || {
            let mut refused = 0;
            while world.model.written < 4 * 4096 && refused == 0 {
                match world.append(&mut chance) {
                    Ok(()) => world.write().expect("what has a place is written"),
                    Err(error) => {
                        assert!(error.is_disk_full(), "{error}");
                        refused += 1;
                    }
                }
            }
            world.sync().expect("what was taken is kept");
            (world, chance)
        });
        if !has_room_again {
            disk.fail(Failure::error(Operation::Resize, ENOSPC).at("commitlog"));
        }
        disk.release(Operation::Resize);
        assert!(housekeeping.join().expect("no panic").is_err_and_full());
        let (world, mut chance) = senders.join().expect("no panic");
        world.verify();
        disk.heal();
        let model = world.model.clone();
        survives_a_power_cut(&disk, &options, &model, &mut chance);
        drop(world);
        let world = World::open(&options, &model, model.written).expect("a killed process lost nothing");
        assert_eq!(model.written >= 4 * 4096, has_room_again, "an append makes it itself once there is room");
        world.live_on(&mut chance);
    }
}

#[test]
fn entries_that_find_no_room_are_written_when_there_is_some() {
    let (disk, options, mut world, mut chance) = world();
    for part in ["consumequeue", "index"] {
        disk.fail(Failure::error(Operation::Write, ENOSPC).at(part));
        disk.fail(Failure::error(Operation::Resize, ENOSPC).at(part));
        assert!(world.checkpoint().is_err_and_full());
        disk.heal();
        assert_eq!(world.store.poisoned(), None);
        world.checkpoint().expect("there is room");
        assert!(world.append(&mut chance).is_err_and_full(), "not before there is room for the next checkpoint");
        world.store.prepare_next_segment().expect("room is kept aside again");
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    world.verify();
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

trait IsFull {
    fn is_err_and_full(&self) -> bool;
}

impl IsFull for Result<(), StorageError> {
    fn is_err_and_full(&self) -> bool {
        self.as_ref().is_err_and(StorageError::is_disk_full)
    }
}

#[test]
fn a_document_that_cannot_be_replaced_stays_as_it_was() {
    let (disk, options, mut world, mut chance) = world();
    for operation in [Operation::Open, Operation::Write, Operation::Sync, Operation::Name, Operation::SyncDirectory] {
        let version = world.begin_document("topics.json");
        world.write_document("topics.json", version).expect("writes");
        let version = world.begin_document("topics.json");
        disk.fail(Failure::error(operation, EIO).at("config"));
        assert!(world.write_document("topics.json", version).is_err(), "{operation:?}");
        disk.heal();
        world.verify();
        survives_a_power_cut(&disk, &options, &world.model, &mut chance);
    }
}

#[test]
fn a_document_written_by_many_at_once_is_written_whole_by_each() {
    let (_disk, _options, world, _chance) = world();
    let store = &world.store;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for version in 0..200 {
                    let text = format!("{{\"writer\":{writer},\"version\":{version}}}");
                    store.write_document("topics.json", &text).expect("writes");
                }
            });
        }
    });
    let last = store.read_document("topics.json").expect("reads").expect("is there");
    assert_eq!(last["version"], 199, "one of the writers' last");
}

#[test]
fn a_failed_read_is_an_error_and_nothing_worse() {
    let (disk, options, mut world, _) = world();
    world.close().expect("closes");
    let model = world.model.clone();
    drop(world);
    for passes in 0..200 {
        disk.fail(Failure::error(Operation::Read, EIO).after(passes).times(1));
        let opened = storage::Store::open(options.clone(), Arc::default(), &mut |_| ());
        disk.heal();
        if let Ok((store, _)) = opened {
            store.close().expect("closes");
        }
    }
    let world = World::open(&options, &model, model.written).expect("opens");
    let index = world.store.queue(&TopicName::trusted(TOPICS[0]), QueueId(0));
    let entries = support::entries(&index);
    disk.fail(Failure::error(Operation::Read, ENOMEM));
    assert!(world.store.read(&index, &entries, ReadMode::MayWait).is_err());
    assert!(world.store.record_at(LogOffset(0)).is_err());
    disk.heal();
    // What the disk cannot read back is damaged, but a disk that reads nothing has lost nothing.
    disk.fail(Failure::error(Operation::Read, EIO));
    assert!(world.store.read(&index, &entries, ReadMode::MayWait).is_err());
    assert!(world.store.record_at(LogOffset(0)).is_err());
    assert!(world.store.poisoned().is_none(), "reading breaks no promise");
    disk.heal();
    world.verify();
}

/// Whoever may not wait has the disk asked elsewhere, where a failure is looked into.
#[test]
fn what_cannot_be_read_at_once_is_left_to_who_may_wait() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let file = Disk::new(disk.clone()).open_sized(Path::new("/file"), 100, true).expect("makes");
    for code in [EIO, EAGAIN, EOPNOTSUPP] {
        disk.fail(Failure::error(Operation::Read, code));
        let tries = [file.read_into(&mut Vec::new(), 100, 0, false), file.read_at_if_cached(&mut [0; 100], 0)];
        assert!(tries.iter().all(|tried| matches!(tried, Err(StorageError::WouldBlock))), "{code}: {tries:?}");
        assert!(matches!(file.read_into(&mut Vec::new(), 100, 0, true), Err(StorageError::Io { .. })), "{code}");
        disk.heal();
    }
}

#[test]
fn records_and_entries_of_a_killed_process_are_synced_before_they_count_as_durable() {
    let (disk, options, world, mut chance) = world();
    let model = world.model.clone();
    drop(world);
    let mut world = World::open(&options, &model, model.written).expect("opens after a kill");
    world.checkpoint().expect("checkpoint");
    assert_eq!(world.model.durable, world.model.written);
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

#[test]
fn entries_made_again_after_a_kill_are_written_many_at_a_time() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = Options { queue_file_entries: 30, ..orders::options(Path::new("/data")) }.on(Disk::new(disk.clone()));
    let open = || Store::open(options.clone(), Arc::default(), &mut |_| ()).expect("opens").0;
    let store = open();
    (0..60).for_each(|number| _ = orders::append_to(&store, number % 2));
    drop(store);
    let before = disk.points();
    let store = open();
    let written = disk.trace().split_off(before);
    assert_eq!(written.iter().filter(|line| line.contains(" 600 bytes,")).count(), 2, "{written:#?}");
    assert_eq!((orders::verify_queue(&store, 0), orders::verify_queue(&store, 1)), (30, 30));
}

#[test]
fn entries_flushed_before_a_checkpoint_are_synced_by_it() {
    let (disk, options, mut world, mut chance) = world();
    world.store.flush_entries().expect("flushes");
    world.checkpoint().expect("checkpoint");
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

#[test]
fn a_hole_in_the_log_above_the_checkpoint_ends_it() {
    let (disk, options, mut world, mut chance) = world();
    while world.model.written < 3 * 4096 {
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    let model = world.model.clone();
    drop(world);
    let way = Disk::new(disk);
    way.remove_file(&PathBuf::from("/machine/data/commitlog/00000000000000004096")).expect("removes");
    let world = World::open(&options, &model, 0).expect("opens");
    assert!(world.model.written <= 4096 && world.model.written > 0);
    let later = (2..).map(|number| number * 4096).take_while(|base| *base < model.written);
    let later: Vec<_> = later.map(|base| format!("commitlog-{base:020}")).collect();
    assert_eq!(way.list(&PathBuf::from("/machine/data/set-aside")).expect("lists"), later);
    world.live_on(&mut chance);
}

/// A store of orders on a faulty disk, whose entries are in files alone.
fn orders_in_files(disk: &FaultyDisk, count: u64, queues: u32) -> (Options, Arc<Store>, Arc<Metrics>) {
    let options = Options { recent_size: 1, ..orders::options(Path::new("/data")) }.on(Disk::new(disk.clone()));
    let (store, _) = Store::open(options.clone(), Arc::default(), &mut |_| ()).expect("opens");
    for number in 0..count {
        orders::append_to(&store, number as u32 % queues);
    }
    store.close().expect("closes");
    drop(store);
    let metrics = Arc::new(Metrics::default());
    let (store, _) = Store::open(options.clone(), metrics.clone(), &mut |_| ()).expect("opens");
    (options, Arc::new(store), metrics)
}

#[test]
fn a_topic_made_again_gets_files_of_its_own_whoever_reads_the_old_ones() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let (options, store, _) = orders_in_files(&disk, 5, 1);
    let old = store.queue(&orders::topic(), QueueId(0));
    disk.hold_next(Operation::Name);
    let removing = {
        let store = store.clone();
        run_beside(move || store.remove_topic(&orders::topic()))
    };
    disk.wait_for_held(Operation::Name);
    // The files are about to go.
    let reading = run_beside(move || old.entry(old.first()).map(|_| ()));
    disk.release(Operation::Name);
    removing.join().expect("no panic").expect("removes");
    let _ = reading.join().expect("no panic");
    for _ in 0..5 {
        orders::append_to(&store, 0);
    }
    store.close().expect("closes");
    drop(store);
    let (store, _) = Store::open(options, Arc::default(), &mut |_| ()).expect("opens");
    assert_eq!(orders::verify_queue(&store, 0), 5);
}

#[test]
fn a_file_that_is_not_open_is_left_to_who_may_wait() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let (_, store, _) = orders_in_files(&disk, 5, 1);
    let index = store.queue(&orders::topic(), QueueId(0));
    let read = |mode| {
        let mut entries = Vec::new();
        index.read(index.first().after(2), 3, mode, &mut entries).map(|()| entries)
    };
    // Whoever opens a file now waits for a disk that hangs.
    disk.fail(Failure::error(Operation::Open, EIO));
    assert!(matches!(read(ReadMode::IfCached), Err(StorageError::WouldBlock)));
    disk.heal();
    let last: Vec<_> = support::entries(&index).into_iter().skip(2).map(|(_, entry)| entry).collect();
    assert_eq!(read(ReadMode::MayWait).expect("reads"), last);
    disk.fail(Failure::error(Operation::Open, EIO));
    assert_eq!(read(ReadMode::IfCached).expect("it is open now"), last);
}

#[test]
fn what_retention_takes_from_a_reader_is_no_damage() {
    // Their records lie close together, and far apart.
    for (count, queues) in [(1500, 1), (2500, 100)] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let (options, store, _) = orders_in_files(&disk, count, queues);
        store.close().expect("closes");
        drop(store);
        let mut options = options;
        options.retention.size = Some(orders::SEGMENT_SIZE);
        let metrics = Arc::new(Metrics::default());
        let store = Arc::new(Store::open(options, metrics.clone(), &mut |_| ()).expect("opens").0);
        let index = store.queue(&orders::topic(), QueueId(0));
        let entries = support::entries(&index);
        disk.hold_next(Operation::Read);
        let reading = {
            let (store, index) = (store.clone(), index.clone());
            run_beside(move || store.read(&index, &entries[..20], ReadMode::MayWait).map(|found| found.count()))
        };
        disk.wait_for_held(Operation::Read);
        store.checkpoint().expect("checkpoint");
        assert!(store.apply_retention(Timestamp(0), 0).expect("removes").removed > 20);
        disk.release(Operation::Read);
        reading.join().expect("no panic").expect("reads what there is");
        assert_eq!(metrics.records_damaged.get(), 0, "{queues} queues");
    }
}

#[test]
fn a_removed_topic_stays_removed_after_a_power_cut() {
    let (disk, options, mut world, mut chance) = world();
    world.checkpoint().expect("checkpoint");
    world.begin_removal(0);
    world.remove_topic(0).expect("removes");
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

#[test]
fn segments_that_the_last_checkpoint_does_not_cover_stay() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut options = options(&disk);
    options.retention.size = Some(4096);
    let mut world = World::open(&options, &Model::default(), 0).expect("opens");
    let mut chance = Chance::new(7);
    while world.model.written < 4 * 4096 {
        world.append(&mut chance).expect("appends");
        world.write().expect("writes");
    }
    world.sync().expect("syncs");
    world.begin_retention();
    world.apply_retention().expect("looks");
    assert_eq!(world.store.log_first(), LogOffset(0), "durable is the log, and not its entries");
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
    world.checkpoint().expect("checkpoint");
    world.begin_retention();
    world.apply_retention().expect("removes");
    assert!(world.model.written - world.store.log_first().0 <= 4096);
    survives_a_power_cut(&disk, &options, &world.model, &mut chance);
}

#[test]
fn old_records_far_behind_the_end_do_not_come_back() {
    let memory = MemoryDisk::new();
    let segment_size = 16 << 20;
    let at = |disk: &MemoryDisk| Options {
        segment_size,
        ..self::options(&FaultyDisk::over(&MemoryDisk::new())).on(Disk::new(disk.clone()))
    };
    let world = World::open(&at(&memory), &Model::default(), 0).expect("opens");
    drop(world);
    // A power cut left bytes beyond more zeroes than are looked at.
    let path = PathBuf::from("/machine/data/commitlog/00000000000000000000");
    assert!(memory.flip_bit(&path, 9 << 20, 0));
    let world = World::open(&at(&memory), &Model::default(), 0).expect("opens");
    drop(world);
    let bytes = Disk::new(memory).read_file(&path).expect("reads").expect("a file");
    assert!(bytes.iter().all(|&byte| byte == 0));
}

/// A file that cannot be removed, or a directory that cannot be synced, leaves no hole in the log.
#[test]
fn a_segment_that_cannot_be_removed_stays_the_first_until_it_can() {
    for operation in [Operation::Name, Operation::SyncDirectory] {
        for passes in 0..2 {
            let disk = FaultyDisk::over(&MemoryDisk::new());
            let mut options = options(&disk);
            options.retention.size = Some(4096);
            let mut world = World::open(&options, &Model::default(), 0).expect("opens");
            let mut chance = Chance::new(7);
            while world.model.written < 6 * 4096 {
                world.append(&mut chance).expect("appends");
                world.write().expect("writes");
            }
            world.checkpoint().expect("checkpoint");
            disk.fail(Failure::error(operation, EIO).at("commitlog").after(passes).times(1));
            world.begin_retention();
            assert!(world.apply_retention().is_err());
            survives_a_power_cut(&disk, &options, &world.model, &mut chance);
            world.apply_retention().expect("removes");
            assert!(world.model.written - world.store.log_first().0 <= 4096);
            world.verify();
            survives_a_power_cut(&disk, &options, &world.model, &mut chance);
            let model = world.model.clone();
            drop(world);
            let world = World::open(&options, &model, model.written).expect("opens after a kill");
            world.live_on(&mut chance);
        }
    }
}

/// The first write into a new file finds no room, and before the sync others are needed more than this file.
#[test]
fn a_new_file_of_entries_keeps_its_name_though_its_first_write_failed() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = orders::options(Path::new("/data"));
    let options = Options { gathered_entries: 0, open_queue_files: 4, key_index: false, ..options };
    let options = options.on(Disk::new(disk.clone()));
    let open = |options: &Options| Store::open(options.clone(), Arc::default(), &mut |_| ()).expect("opens").0;
    let store = open(&options);
    for queue in 1..40 {
        orders::append_to(&store, queue);
    }
    store.close().expect("closes");
    drop(store);
    let store = open(&options);
    orders::append_to(&store, 0);
    disk.fail(Failure::error(Operation::Write, ENOSPC).at("consumequeue/orders/0/").times(2));
    assert!(store.flush_entries().is_err_and_full());
    store.flush_entries().expect("there is room");
    for queue in 1..40 {
        let index = store.queue(&orders::topic(), QueueId(queue));
        for _ in 0..5 {
            index.entry(index.first()).expect("reads").expect("an entry");
        }
    }
    store.checkpoint().expect("checkpoint");
    drop(store);
    let image = disk.after_power_cut(disk.points(), || false);
    let store = open(&options.on(Disk::new(image)));
    assert_eq!(orders::verify_queue(&store, 0), 1);
}

#[test]
fn entries_that_cannot_be_written_do_not_gather_without_end() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let options = Options { gathered_entries: 100, ..orders::options(Path::new("/data")) };
    let (store, _) = Store::open(options.on(Disk::new(disk.clone())), Arc::default(), &mut |_| ()).expect("opens");
    // No full disk: one that fails in one place.
    disk.fail(Failure::error(Operation::Write, EIO).at("consumequeue"));
    let mut gathered = 0;
    while store.shortage().is_none() {
        for _ in 0..10 {
            orders::append_to(&store, 0);
        }
        gathered += 10;
        assert!(store.flush_entries().is_err());
        assert!(gathered <= 110);
    }
    let refused = store.append(store.begin_batch(0), Timestamp(1000)).expect_err("refused").to_string();
    assert!(refused.contains("/data/consumequeue"), "{refused}");
    assert_eq!(orders::verify_queue(&store, 0), gathered, "they are served all the same");
    disk.heal();
    store.flush_entries().expect("writes");
    assert!(store.shortage().is_none());
    orders::append_to(&store, 0);
}

trait On {
    fn on(self, disk: Disk) -> Self;
}

impl On for Options {
    fn on(self, disk: Disk) -> Self {
        Self { disk, ..self }
    }
}
