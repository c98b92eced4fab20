//! How long things took, as histograms: percentiles for people, buckets for Prometheus.

use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Times beyond this are counted as this.
const LONGEST: Duration = Duration::from_secs(3600);
/// Significant digits that are kept: a time is right to a thousandth, whole milliseconds to the millisecond for seconds.
const DIGITS: u8 = 3;

/// Times since the start of the process, in microseconds. Whatever their number, they take some 200 KiB.
#[derive(Debug)]
pub struct Durations(Mutex<Recorded>);

#[derive(Debug)]
struct Recorded {
    histogram: Histogram<u64>,
    sum: Duration,
}

/// The times of a while: between two looks, or of several brokers together.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

/// What Prometheus wants to know of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// The upper end of each bucket, and how many times were no longer.
    pub up_to: Vec<(Duration, u64)>,
    /// How many there were.
    pub count: u64,
    /// All of them together.
    pub sum: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self(Mutex::new(Recorded { histogram: Times::default().0, sum: Duration::ZERO }))
    }
}

impl Durations {
    /// Records something that took `duration`, `count` times.
    pub fn record(&self, duration: Duration, count: u64) {
        let mut recorded = self.0.lock();
        recorded.histogram.saturating_record_n(micros(duration), count);
        recorded.sum = recorded.sum.saturating_add(duration.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)));
    }

    /// The time that `share` (0 to 1) of all did not exceed; zero if there are none.
    pub fn percentile(&self, share: f64) -> Duration {
        Duration::from_micros(self.0.lock().histogram.value_at_quantile(share))
    }

    /// All of them as they are now; two such looks tell of the time between them.
    pub fn look(&self) -> Times {
        Times(self.0.lock().histogram.clone())
    }

    /// How many took no longer than each of `ends`, which ascend.
    pub fn buckets(&self, ends: &[Duration]) -> Buckets {
        // Counted in a copy: whoever records does not wait for that.
        let (histogram, sum) = {
            let recorded = self.0.lock();
            (recorded.histogram.clone(), recorded.sum)
        };
        let up_to = ends.iter().map(|end| (*end, histogram.count_between(0, micros(*end)))).collect();
        Buckets { up_to, count: histogram.len(), sum }
    }
}

impl Default for Times {
    fn default() -> Self {
        let longest_us = u64::try_from(LONGEST.as_micros()).unwrap_or(u64::MAX);
        #[expect(clippy::expect_used, reason = "fails only for bounds that are out of order")]
        let histogram = Histogram::new_with_bounds(1, longest_us, DIGITS).expect("bounds are in order");
        Self(histogram)
    }
}

impl Times {
    /// Those that came after an earlier look at the same; none if it was at others.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        if self.0.subtract(&earlier.0).is_err() {
            self.0.reset();
        }
        self
    }

    /// These and others.
    #[must_use]
    pub fn plus(mut self, others: &Self) -> Self {
        // All have the same bounds, so nothing is refused.
        let _ = self.0.add(&others.0);
        self
    }

    /// The time that `share` (0 to 1) of them did not exceed; `None` if there are none.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        (!self.0.is_empty()).then(|| Duration::from_micros(self.0.value_at_quantile(share)))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn two_looks_tell_of_the_time_between_them() {
        let (times, others) = (Durations::default(), Durations::default());
        assert_eq!(times.look().percentile(0.5), None);
        times.record(900 * MS, 1000);
        let earlier = times.look();
        times.record(5 * MS, 99);
        times.record(20 * MS, 1);
        let between = times.look().since(&earlier);
        assert_eq!(between.percentile(0.5).map(|time| time.as_millis()), Some(5));
        assert_eq!(between.percentile(0.999).map(|time| time.as_millis()), Some(20));
        others.record(7 * MS, 1000);
        assert_eq!(between.plus(&others.look()).percentile(0.5).map(|time| time.as_millis()), Some(7));
        assert_eq!(earlier.since(&times.look()).percentile(0.5), None);
    }

    #[test]
    fn times_are_counted_by_bucket_and_share() {
        let times = Durations::default();
        times.record(Duration::ZERO, 97);
        times.record(7 * MS, 2);
        times.record(Duration::from_secs(1_000_000), 1);
        assert_eq!(times.percentile(0.5), Duration::ZERO);
        let p99 = times.percentile(0.99);
        assert!(p99 >= 7 * MS && p99 < 7 * MS + MS / 10, "{p99:?}");
        let buckets = times.buckets(&[MS, 10 * MS, LONGEST / 2]);
        let counts: Vec<_> = buckets.up_to.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts, buckets.count), (vec![97, 99, 99], 100));
        assert_eq!(buckets.sum, 14 * MS + Duration::from_secs(1_000_000));
    }
}
