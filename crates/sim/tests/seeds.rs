//! The seeds of every test run. More are run by `cargo run --release -p sim -- --seeds 0..10000`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of an everyday run.
const SEEDS: u64 = 200;

#[test]
fn no_story_of_an_everyday_run_breaks_a_promise_and_each_has_one_trace() {
    let next = AtomicU64::new(0);
    let run = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < SEEDS) {
            let checked = sim::check_seed(seed);
            assert_eq!(
                checked.map_err(|broken| broken.to_string()),
                Ok(()),
                "cargo run -p sim -- --seed {seed} tells its story"
            );
        }
    };
    std::thread::scope(|scope| {
        [(); 2].map(|()| scope.spawn(run)).map(|thread| thread.join().expect("every seed keeps the promises"))
    });
}
