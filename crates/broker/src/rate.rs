//! Rates over the last 10, 60 and 600 seconds, from samples of two counters.

use std::collections::VecDeque;

use base::Timestamp;

const WINDOWS_MS: [u64; 3] = [10_000, 60_000, 600_000];

/// Samples of how many messages came in and went out.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    samples: VecDeque<(Timestamp, u64, u64)>,
}

impl Rates {
    /// Notes the counters; samples older than the longest window go.
    pub(crate) fn sample(&mut self, now: Timestamp, stored: u64, fetched: u64) {
        self.samples.push_back((now, stored, fetched));
        while self.samples.front().is_some_and(|(at, ..)| now.ms_since(*at) > WINDOWS_MS[2] + 1000) {
            self.samples.pop_front();
        }
    }

    /// Rates a second of both counters over each window.
    pub(crate) fn averages(&self, now: Timestamp) -> ([f64; 3], [f64; 3]) {
        let Some(&(last, stored, fetched)) = self.samples.back() else { return ([0.0; 3], [0.0; 3]) };
        let rate = |window: u64, of: fn(&(Timestamp, u64, u64)) -> u64, newest: u64| {
            let oldest = self.samples.iter().find(|(at, ..)| now.ms_since(*at) <= window);
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
    use super::*;

    #[test]
    fn rates_are_over_their_windows() {
        let mut rates = Rates::default();
        for second in 0..=20 {
            let stored = if second < 10 { second * 100 } else { 1000 + (second - 10) * 300 };
            rates.sample(Timestamp(second * 1000), stored, second);
        }
        let (put, get) = rates.averages(Timestamp(20_000));
        assert_eq!((put[0], get[0]), (300.0, 1.0));
        assert_eq!(put[1], 200.0);
    }
}
