//! The seeds of every test run. More are run by `cargo run --release -p sim -- --seeds 0..10000`.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicUsize, Ordering};

/// Seeds that once showed what no everyday one does: the process is killed between a delayed message's copy and its progress; one group
/// is made and removed at once.
const STORIES: [u64; 2] = [8200, 9266];
/// Seeds of an everyday run.
const SEEDS: u64 = 200;

#[test]
fn no_story_of_an_everyday_run_breaks_a_promise_and_each_has_one_trace() {
    let next = AtomicUsize::new(0);
    let seeds: Vec<_> = (0..SEEDS).chain(STORIES).collect();
    let run = || {
        while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
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
