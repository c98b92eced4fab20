//! Crash enumeration of the broker: whatever is cut short, wherever, what was acknowledged arrives and what was answered holds.
//!
//! As the store's own enumeration, with what the broker keeps beside the log. A seed makes a workload: sends, delayed sends,
//! retries, deliveries, commits, resets, changes of topics and groups, saves, two of them at once, syncs, checkpoints, a clock that is
//! set back, kills, orderly stops. For every prefix of what that did to the disk the power is cut, with a chosen part of what was not
//! synced. The broker must open; every document must say what was answered last, or something tried since; no offset may be
//! beyond its queue; and once all delays have passed every message that was durable must be where consumers find it, also if the
//! disk cannot read back another. No message may be early at any time. From one of those disks the next life begins. Each seed
//! runs twice and must give the same trace.
//!
//! `SEED=n cargo test -p broker --test crashes` runs one seed, and with `TRACE=1` tells what it did; `FROM=n SEEDS=n` runs so many, for thousands with `--release`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use storage::disk::{Failure, FaultyDisk, MemoryDisk, Operation};
use support::world::{Chance, Model, Setup, World};

/// Seeds of an everyday run.
const SEEDS: u64 = 30;

/// Lives of one seed: the second begins with what a power cut left.
const LIVES: u64 = 2;

const STEPS_MAX: u64 = 14;

/// Every how manyth prefix is tried: all of them, but for slow builds.
const STRIDE: usize = if cfg!(debug_assertions) { 7 } else { 1 };

/// What a killed process gets from its disk.
const EIO: i32 = 5;

/// What held from one point of the disk's history on.
struct Mark {
    point: usize,
    model: Model,
    /// A process began here: nothing was tried on the way, but what was found counts from now on.
    is_opened: bool,
}

/// One life of a broker, between two power cuts.
struct Life<'a> {
    disk: FaultyDisk,
    setup: &'a Setup,
    marks: Vec<Mark>,
    chance: &'a mut Chance,
}

impl Life<'_> {
    fn mark(&mut self, model: &Model, is_opened: bool) {
        self.marks.push(Mark { point: self.disk.points(), model: model.clone(), is_opened });
    }

    /// Opens after a killed process or an orderly stop: nothing that was written is missing.
    fn reopen(&mut self, world: World) -> World {
        let model = world.model.clone();
        self.mark(&model, false);
        drop(world);
        let world = World::open(self.setup, &self.disk, &model, model.written);
        self.mark(&world.model, true);
        world
    }

    /// Does some steps and leaves marks; `model` is what was before.
    fn run(&mut self, model: &Model) {
        self.mark(model, true);
        let mut world = World::open(self.setup, &self.disk, model, model.durable);
        self.mark(&world.model, true);
        for _ in 0..=self.chance.below(STEPS_MAX) {
            match self.chance.below(100) {
                0..8 => {
                    // The process is killed after some changes of the next step; the page cache stays.
                    let passes = self.chance.below(12);
                    self.disk.fail(Failure::error(Operation::Change, EIO).after(passes));
                    drop(world.step(self.chance));
                    self.disk.heal();
                    world.note_watermarks();
                    world = self.reopen(world);
                }
                8..14 => {
                    world.close().expect("closes");
                    world = self.reopen(world);
                }
                14..22 => world.save_from_two_threads(self.chance),
                _ => world.step(self.chance).expect("goes well"),
            }
            world.verify_nothing_is_early();
            self.mark(&world.model, false);
        }
    }

    /// What held by the time the disk had seen `point` changes.
    fn held_at(&self, point: usize) -> Model {
        let after = self.marks.partition_point(|mark| mark.point <= point);
        let mark = &self.marks[after.saturating_sub(1)];
        match self.marks.get(after).filter(|next| !next.is_opened) {
            Some(next) => mark.model.on_the_way_to(&next.model),
            None => mark.model.clone(),
        }
    }
}

/// The disk after a power cut, with a part of what was not synced that depends on chance.
fn cut(disk: &FaultyDisk, point: usize, chance: &mut Chance) -> MemoryDisk {
    let percent = chance.pick(&[0, 5, 50, 95, 100]);
    disk.after_power_cut(point, || chance.percent(percent))
}

/// Runs one seed; gives everything that happened, line by line.
fn run(seed: u64, said: &mut String) -> Vec<String> {
    let mut chance = Chance::new(seed);
    let setup = Setup::new(&mut chance);
    let (mut trace, mut image, mut model) = (Vec::new(), MemoryDisk::new(), Model::new());
    for life in 0..LIVES {
        *said = format!("life {life}");
        let disk = FaultyDisk::over(&image);
        let mut now = Life { disk: disk.clone(), setup: &setup, marks: Vec::new(), chance: &mut chance };
        now.run(&model);
        trace.extend(disk.trace());
        let points = disk.points();
        if std::env::var("TRACE").is_ok() {
            disk.trace().iter().enumerate().for_each(|(at, line)| eprintln!("{life} {at} {line}"));
            now.marks.iter().for_each(|mark| eprintln!("{life} mark {} {:?}", mark.point, mark.model));
        }
        let mut own = Chance::new(now.chance.number());
        for point in (seed as usize % STRIDE..=points).step_by(STRIDE) {
            *said = format!("life {life}, power cut after change {point} of {points}");
            let left = FaultyDisk::over(&cut(&disk, point, &mut own));
            let held = now.held_at(point);
            let mut world = World::open(&setup, &left, &held, held.durable);
            trace.push(format!("{point}: {}", world.model.written));
            world.verify_everything_arrives(held.durable, &mut own);
        }
        let point = own.below(points as u64 + 1) as usize;
        image = cut(&disk, point, &mut own);
        model = now.held_at(point);
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
fn whatever_is_cut_short_what_was_acknowledged_arrives_and_what_was_answered_holds() {
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
