//! Crash enumeration: whatever is cut short, wherever, the store opens again to what was promised.
//!
//! A seed makes a workload: appends that fill segments, queue files and key files, writes, syncs, checkpoints, retention,
//! removed topics, documents, kills, orderly stops. It runs on
//! a disk that keeps its history. For every prefix of that history the power is cut, with a chosen part of what was not
//! synced; the store must open, hold every record that was acknowledged as durable, serve nothing else, and go on. From
//! one of those disks the next life begins. Each seed runs twice and must give the same trace.
//!
//! `SEED=n cargo test -p storage --test crashes` runs one seed, and with `TRACE=1` tells what it did; `FROM=n SEEDS=n` runs so
//! many, for thousands with `--release`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{Options, StorageError};
use support::world::{Chance, DOCUMENTS, Model, TOPICS, World};

/// Seeds of an everyday run.
const SEEDS: u64 = 100;

/// Lives of one seed: the second and third begin with what a power cut left.
const LIVES: u64 = 3;

const STEPS_MAX: u64 = 14;

/// Every how manyth prefix is tried: all of them, but for slow builds.
const STRIDE: usize = if cfg!(debug_assertions) { 4 } else { 1 };

/// What a killed process gets from its disk.
const EIO: i32 = 5;

/// What was promised from one point of the disk's history on.
struct Mark {
    point: usize,
    model: Model,
}

/// One life of a store, between two power cuts.
struct Life<'a> {
    disk: FaultyDisk,
    options: Options,
    marks: Vec<Mark>,
    chance: &'a mut Chance,
}

impl Life<'_> {
    fn mark(&mut self, model: &Model) {
        self.marks.push(Mark { point: self.disk.points(), model: model.clone() });
    }

    fn open(&mut self, model: &Model, at_least: u64) -> World {
        let world = World::open(&self.options, model, at_least).expect("opens without help");
        self.mark(&world.model);
        world
    }

    /// Does some steps and leaves marks; `model` is what was before.
    fn run(&mut self, model: &Model) {
        self.mark(model);
        let mut world = self.open(model, model.durable);
        for _ in 0..=self.chance.below(STEPS_MAX) {
            if self.chance.percent(8) {
                // The process is killed after some changes of the next step; the page cache stays.
                let passes = self.chance.below(12);
                self.disk.fail(Failure::error(Operation::Change, EIO).after(passes));
                drop(self.step(&mut world));
                self.disk.heal();
                let model = world.model.clone();
                self.mark(&model);
                drop(world);
                let at_least = model.written;
                world = self.open(&model, at_least);
            } else if self.chance.percent(8) {
                world.close().expect("closes");
                let model = world.model.clone();
                self.mark(&model);
                drop(world);
                let at_least = model.written;
                world = self.open(&model, at_least);
            } else {
                self.step(&mut world).expect("goes well");
            }
            world.verify();
            let model = world.model.clone();
            self.mark(&model);
        }
    }

    fn step(&mut self, world: &mut World) -> Result<(), StorageError> {
        match self.chance.below(100) {
            0..30 => {
                world.append(self.chance)?;
                if self.chance.percent(70) {
                    self.mark(&world.model);
                    world.write()?;
                }
                Ok(())
            }
            30..36 => world.write(),
            36..48 => world.sync(),
            48..58 => {
                world.begin_retention();
                self.mark(&world.model);
                world.apply_retention()
            }
            58..62 => world.store.flush_entries(),
            62..66 => world.commit(self.chance),
            66..70 => world.store.index_staged(),
            70..78 => world.checkpoint(),
            78..85 => world.store.prepare_next_segment(),
            85..91 => {
                let topic = self.chance.below(TOPICS.len() as u64) as usize;
                world.begin_removal(topic);
                self.mark(&world.model);
                world.remove_topic(topic)
            }
            _ => {
                let name = self.chance.pick(&DOCUMENTS);
                let version = world.begin_document(name);
                self.mark(&world.model);
                world.write_document(name, version)
            }
        }
    }

    /// What was promised by the time the disk had seen `point` changes.
    fn promised_at(&self, point: usize) -> &Model {
        let after = self.marks.partition_point(|mark| mark.point <= point);
        &self.marks[after.saturating_sub(1)].model
    }
}

/// The disk after a power cut, with a part of what was not synced that depends on chance.
fn cut(disk: &FaultyDisk, point: usize, chance: &mut Chance) -> MemoryDisk {
    let percent = chance.pick(&[0, 5, 30, 50, 70, 95, 100]);
    disk.after_power_cut(point, || chance.percent(percent))
}

fn open_after_cut(options: &Options, image: &MemoryDisk, model: &Model) -> World {
    let options = Options { disk: Disk::new(image.clone()), ..options.clone() };
    World::open(&options, model, model.durable).expect("opens without help")
}

/// Runs one seed; gives everything that happened, line by line.
fn run(seed: u64, said: &mut String) -> Vec<String> {
    let mut chance = Chance::new(seed);
    let mut trace = Vec::new();
    let mut image = MemoryDisk::new();
    let mut model = Model::default();
    let options = support::world::options(&mut chance, Disk::new(MemoryDisk::new()));
    for life in 0..LIVES {
        let disk = FaultyDisk::over(&image);
        let on_disk = Options { disk: Disk::new(disk.clone()), ..options.clone() };
        *said = format!("life {life}");
        let mut now = Life { disk: disk.clone(), options: on_disk, marks: Vec::new(), chance: &mut chance };
        now.run(&model);
        trace.extend(disk.trace());
        let points = disk.points();
        if std::env::var("TRACE").is_ok() {
            disk.trace().iter().enumerate().for_each(|(at, line)| eprintln!("{life} {at} {line}"));
            now.marks
                .iter()
                .for_each(|mark| eprintln!("{life} mark {} {} {}", mark.point, mark.model.written, mark.model.durable));
        }
        let mut own = Chance::new(now.chance.number());
        for point in (seed as usize % STRIDE..=points).step_by(STRIDE) {
            *said = format!("life {life}, power cut after change {point} of {points}");
            let image = cut(&disk, point, &mut own);
            let world = open_after_cut(&options, &image, now.promised_at(point));
            trace.push(format!("{point}: {}", world.model.written));
            if own.percent(25) {
                *said += ", lived on";
                world.live_on(&mut own);
            }
        }
        let point = own.below(points as u64 + 1) as usize;
        image = cut(&disk, point, &mut own);
        model = now.promised_at(point).clone();
    }
    trace
}

fn check_seed(seed: u64) {
    let mut said = String::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let first = run(seed, &mut said);
        let second = run(seed, &mut said);
        let differs = first.iter().zip(&second).position(|(one, other)| one != other);
        assert!(first == second, "two runs differ at line {differs:?}");
    }));
    if let Err(panic) = outcome {
        eprintln!("SEED={seed}: {said}");
        resume_unwind(panic);
    }
}

#[test]
fn whatever_a_power_cut_leaves_opens_to_what_was_promised() {
    let setting = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = setting("SEED") {
        return check_seed(seed);
    }
    let (from, count) = (setting("FROM").unwrap_or_default(), setting("SEEDS").unwrap_or(SEEDS));
    // Seeds have nothing in common: half of them on each of two threads.
    std::thread::scope(|scope| {
        let halves =
            [0, 1].map(|half| scope.spawn(move || (from + half..from + count).step_by(2).for_each(check_seed)));
        for half in halves {
            half.join().expect("every seed keeps the promises");
        }
    });
}
