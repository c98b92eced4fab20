//! The engine of lease cursors alone: how many messages it hands out and settles in a second of one core's time, whatever else runs on the
//! machine, how many bytes the log is told for it, and the memory of many ready and leased ones.
//!
//! `cargo bench -p broker --bench leases`

#![allow(missing_docs, clippy::expect_used, reason = "a measurement: what goes wrong ends it")]

use std::collections::VecDeque;
use std::time::Duration;

use base::{Monotonic, QueueOffset};
use broker::lease::{GiveBack, Grant, LeaseCursor, Owner};
use format::state::{self, StateChange};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const READY: u64 = 10_000_000;
const LEASED: u64 = 1_000_000;
/// Messages of one grant, as a consumer asks for them.
const GRANT: usize = 32;
/// Settlements between two changes for the log: 5 ms of 500 000 a second.
const GATHERED: u64 = 2500;
const SETTLEMENTS_PER_SECOND: f64 = 500_000.0;

fn main() {
    println!("{:<58} {:>12} {:>14}", "one lane, 10 M ready", "M a second", "bytes settled");
    report("taken and settled in order, 32 at a time", in_order());
    report("settled at random among 1 M leased", at_random(false));
    report("the same, one channel holds all", at_random(true));
    report("given back and taken again before", given_back());
    println!();
    println!("{:<58} {:>12}", "memory of one lane", "MB");
    for (what, is_given_back) in
        [("10 M ready, 1 M leased", false), ("10 M ready that were given back, 1 M leased", true)]
    {
        println!("{what:<58} {:>12.1}", memory_of(is_given_back));
    }
}

struct Measured {
    took: Duration,
    settled: u64,
    told_size: usize,
}

fn report(what: &str, measured: Measured) {
    let Measured { took, settled, told_size } = measured;
    let size = told_size as f64 / settled as f64;
    let rate = settled as f64 / took.as_secs_f64() / 1e6;
    println!(
        "{what:<58} {rate:>12.2} {size:>8.2} ({:.2} MB/s at 500 000 a second)",
        size * SETTLEMENTS_PER_SECOND / 1e6
    );
}

/// A lane, and who uses it.
struct Bench {
    cursor: LeaseCursor,
    grants: u64,
    is_channel: bool,
    leased: VecDeque<(QueueOffset, Owner)>,
    gathered_at: u64,
    settled: u64,
    told_size: usize,
}

impl Bench {
    fn new(is_channel: bool) -> Self {
        let (cursor, leased) = (LeaseCursor::default(), VecDeque::new());
        Self { cursor, grants: 0, is_channel, leased, gathered_at: 0, settled: 0, told_size: 0 }
    }

    fn take(&mut self, count: usize) -> usize {
        self.grants += 1;
        let owner = if self.is_channel { Owner::channel(1) } else { Owner::grant(self.grants) };
        let deadline = Some(Monotonic(60_000 + self.grants / 100));
        let leased = &mut self.leased;
        let mut left = count;
        self.cursor.take(QueueOffset(READY + LEASED), Grant { owner, deadline }, |offset, _| {
            let is_wanted = left > 0;
            if is_wanted {
                left -= 1;
                leased.push_back((offset, owner));
            }
            is_wanted
        })
    }

    fn settle(&mut self, offset: QueueOffset, owner: Owner) {
        self.settled += self.cursor.settle(owner, [offset]);
        if self.settled - self.gathered_at >= GATHERED {
            self.gather();
        }
    }

    fn gather(&mut self) {
        self.gathered_at = self.settled;
        if let Some(change) = self.cursor.gather() {
            let change = StateChange::Leases { of: "orders@billing".to_owned(), queue: 3, replaces: false, change };
            self.told_size += state::encode(&[change]).len();
        }
    }

    fn measure(mut self, act: impl FnOnce(&mut Self)) -> Measured {
        let (began, settled, told_size) = (core_time(), self.settled, self.told_size);
        act(&mut self);
        self.gather();
        Measured { took: core_time() - began, settled: self.settled - settled, told_size: self.told_size - told_size }
    }
}

fn in_order() -> Measured {
    Bench::new(false).measure(|bench| {
        while bench.take(GRANT) > 0 {
            while let Some((offset, owner)) = bench.leased.pop_front() {
                bench.settle(offset, owner);
            }
        }
    })
}

/// As many are leased at any time, of which any one is settled next.
fn at_random(is_channel: bool) -> Measured {
    let mut bench = Bench::new(is_channel);
    while (bench.leased.len() as u64) < LEASED {
        bench.take(GRANT);
    }
    let mut chance = 7_u64;
    bench.measure(|bench| {
        while bench.take(GRANT) > 0 {
            for _ in 0..GRANT {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (chance >> 33) as usize % bench.leased.len();
                let (offset, owner) = bench.leased.swap_remove_back(at).expect("one of them");
                bench.settle(offset, owner);
            }
        }
    })
}

/// Every message is given back once.
fn given_back() -> Measured {
    let again = GiveBack { ready: None, is_counted: true };
    Bench::new(false).measure(|bench| {
        while bench.take(GRANT) > 0 {
            for (offset, owner) in std::mem::take(&mut bench.leased) {
                assert!(bench.cursor.give_back(owner, offset, again));
            }
            bench.take(GRANT);
            while let Some((offset, owner)) = bench.leased.pop_front() {
                bench.settle(offset, owner);
            }
        }
    })
}

fn memory_of(is_given_back: bool) -> f64 {
    let before = resident_size();
    let mut bench = Bench::new(true);
    if is_given_back {
        while bench.take(GRANT) > 0 {
            bench.leased.clear();
        }
        bench.cursor.release(Owner::channel(1));
        bench.cursor.gather();
    }
    bench.is_channel = false;
    let mut leased = 0;
    while leased < LEASED {
        leased += bench.take(GRANT) as u64;
        bench.leased.clear();
    }
    let counts = bench.cursor.counts(QueueOffset(READY + LEASED));
    assert_eq!((counts.ready, counts.leased), (READY, LEASED));
    (resident_size() - before) / 1e6
}

/// For how long this process, which has one thread, was on a core.
fn core_time() -> Duration {
    let status = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    Duration::from_nanos(status.split(' ').next().and_then(|time| time.parse().ok()).expect("a number"))
}

/// Bytes of this process that are in memory.
fn resident_size() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
}
