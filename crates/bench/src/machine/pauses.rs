//! How long the machine leaves a thread waiting that wants nothing but to be woken: no program on it can promise less.
//!
//! A thread sleeps for a millisecond again and again. By what it wakes late, its processor was elsewhere: with other work, or, on
//! a virtual machine, with other guests of the host.

use std::thread;
use std::time::Duration;

use crate::load::latency::Latency;
use crate::machine::clock::{Clock, SECOND_NS};

const SLEEP: Duration = Duration::from_millis(1);
const SLEEP_NS: u64 = SECOND_NS / 1000;

/// Sleeps until `is_over`, and tells `late` each time when it woke and by how many nanoseconds late.
pub fn watch(clock: Clock, is_over: impl Fn() -> bool, mut late: impl FnMut(u64, u64)) {
    let mut begun_ns = clock.now_ns();
    while !is_over() {
        thread::sleep(SLEEP);
        let now_ns = clock.now_ns();
        late(now_ns, (now_ns - begun_ns).saturating_sub(SLEEP_NS));
        begun_ns = now_ns;
    }
}

/// The same for a while, with every processor at work.
pub fn while_busy(seconds_ns: u64) -> (Latency, u64) {
    let (clock, mut latency) = (Clock::start(), Latency::new());
    let is_over = || clock.now_ns() >= seconds_ns;
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| while !is_over() {});
        }
        watch(clock, is_over, |_, late_ns| latency.record(late_ns, 1));
    });
    (latency, clock.now_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sleeps_beside_busy_processors_is_counted() {
        let (latency, took_ns) = while_busy(SECOND_NS / 20);
        let summary = latency.summary().expect("sleeps");
        assert!(summary.count >= 1 && took_ns >= SECOND_NS / 20, "{summary:?}");
    }
}
