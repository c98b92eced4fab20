//! A disk that is full to the last byte: what the store needs to make room again is kept aside.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use storage::disk::{Disk, MemoryDisk};
use storage::{Options, RetentionPolicy, Store};
use support::world::{Chance, Model, World};

const SEGMENT_SIZE: u64 = 4096;

/// Entries and keys of a full log need more than half of this.
const ROOM: u64 = 16 * SEGMENT_SIZE;

/// A small disk, whose oldest segments go when it is short of room.
fn options(memory: &MemoryDisk) -> Options {
    memory.set_capacity(48 * SEGMENT_SIZE);
    Options {
        log_directory: None,
        segment_size: SEGMENT_SIZE,
        queue_file_entries: 120,
        checkpoint_reserve: Some(ROOM),
        gathered_entries: 1 << 20,
        key_index_entries: 1000,
        retention: RetentionPolicy { size: None, disk_refuse_percent: 100, ..RetentionPolicy::default() },
        ..support::world::options(&mut Chance::new(1), Disk::new(memory.clone()))
    }
}

/// Appends until there is no room for more.
fn fill(world: &mut World, chance: &mut Chance) {
    loop {
        match world.append(chance) {
            Ok(()) => world.write().expect("what has a place is written"),
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                return;
            }
        }
    }
}

/// Housekeeping and the key index's thread look after a full disk.
fn goes_on(mut world: World, chance: &mut Chance) {
    // Before retention looks, all of these have found the disk full, again and again.
    for _ in 0..3 {
        let _ = world.store.flush_entries();
        let _ = world.store.index_staged();
        let _ = world.store.prepare_next_segment();
        assert!(world.store.shortage().is_some());
    }
    world.begin_retention_for_room();
    world.apply_retention().expect("removes what a checkpoint covers");
    assert!(world.store.log_first().0 > 0);
    world.store.prepare_next_segment().expect("there is room");
    assert!(world.store.shortage().is_none());
    world.append(chance).expect("appends");
    world.write().expect("writes");
    world.verify();
    world.live_on(chance);
}

#[test]
fn a_disk_that_fills_before_the_first_checkpoint_has_room_again_by_itself() {
    let (memory, mut chance) = (MemoryDisk::new(), Chance::new(7));
    let mut world = World::open(&options(&memory), &Model::default(), 0).expect("opens");
    fill(&mut world, &mut chance);
    goes_on(world, &mut chance);
}

#[test]
fn a_store_starts_on_a_full_disk_and_makes_room() {
    for has_looked in [false, true] {
        let (memory, mut chance) = (MemoryDisk::new(), Chance::new(7));
        let options = options(&memory);
        let mut world = World::open(&options, &Model::default(), 0).expect("opens");
        fill(&mut world, &mut chance);
        if has_looked {
            world.store.flush_entries().expect("with the room kept aside");
            world.store.index_staged().expect("with the room kept aside");
        }
        // The process is killed.
        let model = world.model.clone();
        drop(world);
        let world = World::open(&options, &model, model.written).expect("opens on the full disk");
        goes_on(world, &mut chance);
    }
}

#[test]
fn room_that_others_give_back_is_kept_aside_before_the_log_has_it() {
    let (memory, mut chance) = (MemoryDisk::new(), Chance::new(7));
    let options = options(&memory);
    let disk = Disk::new(memory.clone());
    // Somebody else's file takes all that is left before the store begins, but for a segment.
    let path = std::path::Path::new("/machine/filler");
    let filler = disk.open_sized(path, 48 * SEGMENT_SIZE - ROOM, true).expect("takes room");
    let mut world = World::open(&options, &Model::default(), 0).expect("opens");
    fill(&mut world, &mut chance);
    assert_eq!(world.model.written, 0, "nothing is taken that could not be checkpointed");
    assert!(world.store.shortage().is_some());
    drop(filler);
    disk.remove_file(path).expect("removes");
    world.store.prepare_next_segment().expect("there is room");
    fill(&mut world, &mut chance);
    assert!(world.model.written > SEGMENT_SIZE);
    goes_on(world, &mut chance);
}

#[test]
fn a_disk_that_can_never_hold_a_segment_is_told_of_at_the_start() {
    let memory = MemoryDisk::new();
    let options = options(&memory);
    memory.set_capacity(ROOM + SEGMENT_SIZE - 1);
    let error = Store::open(options.clone(), Default::default(), &mut |_| ()).expect_err("too small").to_string();
    for part in ["69631 bytes in all", "at least 69632", "storage.segment_size"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    memory.set_capacity(ROOM + SEGMENT_SIZE);
    Store::open(options, Default::default(), &mut |_| ()).expect("large enough");
}
