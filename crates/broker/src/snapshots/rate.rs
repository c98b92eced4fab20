//! Rates over the last 10, 60 and 600 seconds, from samples of two counters.

use std::collections::VecDeque;

use base::{Monotonic, Now};

const WINDOWS_MS: [u64; 3] = [10_000, 60_000, 600_000];

/// Samples of how many messages came in and went out.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<(Monotonic, u64, u64)>,
    /// Number of the day, counted from 1970.
    day: u64,
    /// The counters when this day and the one before began.
    mornings: [(u64, u64); 2],
}

const DAY_MS: u64 = 86_400_000;

impl Rates {
    /// Notes the counters; samples older than the longest window go.
    pub(crate) fn sample(&mut self, now: Now, stored: u64, fetched: u64) {
        self.samples.push_back((now.monotonic, stored, fetched));
        let day = now.wall.0 / DAY_MS;
        if day > self.day {
            let [today, _] = self.mornings;
            // After a day without a look, nothing came in between.
            let yesterday = if day == self.day + 1 { today } else { (stored, fetched) };
            // Of the day it was started on, all came after its morning.
            self.mornings = if self.day == 0 { [(0, 0); 2] } else { [(stored, fetched), yesterday] };
            self.day = day;
        }
        while self.samples.front().is_some_and(|(at, ..)| now.monotonic.ms_since(*at) > WINDOWS_MS[2] + 1000) {
            self.samples.pop_front();
        }
    }

    /// The counters when this day and the one before began.
    pub(crate) const fn mornings(&self) -> [(u64, u64); 2] {
        self.mornings
    }

    /// Rates a second of both counters over each window.
    pub(crate) fn averages(&self, now: Now) -> ([f64; 3], [f64; 3]) {
        let Some(&(last, stored, fetched)) = self.samples.back() else { return ([0.0; 3], [0.0; 3]) };
        let rate = |window: u64, of: fn(&(Monotonic, u64, u64)) -> u64, newest: u64| {
            let oldest = self.samples.iter().find(|(at, ..)| now.monotonic.ms_since(*at) <= window);
            oldest
                .filter(|(at, ..)| last > *at)
                .map_or(0.0, |oldest| (newest - of(oldest)) as f64 * 1000.0 / last.ms_since(oldest.0) as f64)
        };
        (
            WINDOWS_MS.map(|window| rate(window, |sample| sample.1, stored)),
            WINDOWS_MS.map(|window| rate(window, |sample| sample.2, fetched)),
        )
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    #[test]
    fn counters_are_kept_as_they_were_in_the_morning() {
        let mut rates = Rates::default();
        let mut at = |day: u64, ms: u64, count: u64| {
            let wall = Timestamp((20_000 + day) * DAY_MS + ms);
            rates.sample(Now { wall, ..Now::default() }, count, count / 2);
            rates.mornings()
        };
        assert_eq!(at(0, 50_000, 10), [(0, 0), (0, 0)]);
        assert_eq!(at(0, DAY_MS - 1, 100), [(0, 0), (0, 0)]);
        assert_eq!(at(1, 0, 102), [(102, 51), (0, 0)]);
        assert_eq!(at(1, 70_000, 150), [(102, 51), (0, 0)]);
        assert_eq!(at(2, 500, 200), [(200, 100), (102, 51)]);
        assert_eq!(at(7, 500, 200), [(200, 100), (200, 100)]);
    }

    fn at(second: u64) -> Now {
        Now { monotonic: Monotonic(second * 1000), ..Now::default() }
    }

    #[test]
    fn rates_are_over_their_windows() {
        let mut rates = Rates::default();
        for second in 0..=20 {
            let stored = if second < 10 { second * 100 } else { 1000 + (second - 10) * 300 };
            rates.sample(at(second), stored, second);
        }
        let (put, get) = rates.averages(at(20));
        assert_eq!((put[0], get[0]), (300.0, 1.0));
        assert_eq!(put[1], 200.0);
    }
}
