//! Latencies of a run: a histogram of nanoseconds with three exact digits, and the summary people read.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::machine::clock::{SECOND_NS, ns_to_ms};

/// What is slower than this counts as this slow.
const LATENCY_MAX_NS: u64 = 3600 * SECOND_NS;
const EXACT_DIGITS: u8 = 3;

/// Every latency of a run or of one of its threads.
#[derive(Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "fails only for bounds that are out of order")]
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_NS, EXACT_DIGITS).expect("bounds are in order");
        Self { histogram }
    }
}

impl Latency {
    /// Counts `count` messages of this latency.
    pub fn record(&mut self, latency_ns: u64, count: u64) {
        self.histogram.saturating_record_n(latency_ns.max(1), count);
    }

    /// Takes in what another thread measured.
    pub fn add(&mut self, other: &Self) {
        // Fails only for histograms of other bounds; all are made by `default`.
        let _ = self.histogram.add(&other.histogram);
    }

    /// The summary; `None` if nothing was measured.
    pub fn summary(&self) -> Option<LatencySummary> {
        let histogram = &self.histogram;
        let at = |percent| ns_to_ms(histogram.value_at_percentile(percent));
        (!histogram.is_empty()).then(|| LatencySummary {
            count: histogram.len(),
            min: ns_to_ms(histogram.min()),
            mean: histogram.mean() / 1e6,
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            max: ns_to_ms(histogram.max()),
        })
    }
}

/// Latencies in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Messages measured.
    pub count: u64,
    /// Fastest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 9 of 10 are faster.
    pub p90: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1000 are faster.
    pub p99_9: f64,
    /// Slowest.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_merged_threads() {
        let (mut all, mut other) = (Latency::default(), Latency::default());
        assert_eq!(all.summary(), None);
        for ms in 1..=500 {
            all.record(ms * 1_000_000, 1);
            other.record((ms + 500) * 1_000_000, 1);
        }
        all.add(&other);
        let summary = all.summary().expect("measured");
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.002;
        assert!(summary.count == 1000 && near(summary.min, 1.0) && near(summary.mean, 500.5));
        assert!(near(summary.p50, 500.0) && near(summary.p99, 990.0) && near(summary.max, 1000.0));
    }
}
