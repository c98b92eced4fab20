//! A thread beside the test, brought to where it can get no further.

use std::sync::mpsc;
use std::thread::{JoinHandle, spawn, yield_now};

/// Runs `act` on a thread of its own, and comes back once that has ended or waits for somebody.
pub fn run_beside<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let (says, told) = mpsc::channel();
    let beside = spawn(move || {
        says.send(rustix::thread::gettid()).expect("the test listens");
        act()
    });
    let thread = told.recv().expect("a thread");
    let state = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    // Its state follows its name, which is in parentheses.
    let sleeps = || {
        std::fs::read_to_string(&state)
            .is_ok_and(|line| line.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')))
    };
    while !beside.is_finished() && !sleeps() {
        yield_now();
    }
    beside
}
