//! How long sends took from their arrival to their acknowledgement, in whole milliseconds, since the start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Times of this and more are counted together.
const MILLISECONDS_MAX: usize = 16_384;

/// The ranges a Java broker prints, by their upper ends in ms; the last is open.
const RANGES: [(&str, u64); 13] = [
    ("<=0ms", 0),
    ("0~10ms", 10),
    ("10~50ms", 50),
    ("50~100ms", 100),
    ("100~200ms", 200),
    ("200~500ms", 500),
    ("500ms~1s", 1000),
    ("1~2s", 2000),
    ("2~3s", 3000),
    ("3~4s", 4000),
    ("4~5s", 5000),
    ("5~10s", 10_000),
    ("10s~", u64::MAX),
];

/// Counts by millisecond.
#[derive(Debug)]
pub struct PutTimes {
    counts: Box<[AtomicU64]>,
}

impl Default for PutTimes {
    fn default() -> Self {
        Self { counts: (0..MILLISECONDS_MAX).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl PutTimes {
    /// Notes `count` sends that took `milliseconds` each.
    pub(crate) fn note(&self, milliseconds: u64, count: u64) {
        let at = usize::try_from(milliseconds).unwrap_or(usize::MAX).min(MILLISECONDS_MAX - 1);
        if let Some(slot) = self.counts.get(at) {
            slot.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The time, ms, that `share` (0 to 1) of all sends did not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        let wanted = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count.load(Ordering::Relaxed);
            seen >= wanted
        });
        reached.unwrap_or_default() as u64
    }

    /// Sends by range, as `[<=0ms]:3 [0~10ms]:1 ...`.
    pub fn ranges(&self) -> String {
        let mut counts = [0; RANGES.len()];
        for (milliseconds, count) in self.counts.iter().enumerate() {
            let range = RANGES.iter().position(|(_, end)| milliseconds as u64 <= *end).unwrap_or_default();
            if let Some(sum) = counts.get_mut(range) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        let texts: Vec<_> = RANGES.iter().zip(counts).map(|((name, _), count)| format!("[{name}]:{count}")).collect();
        texts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_by_range_and_share() {
        let times = PutTimes::default();
        times.note(0, 98);
        times.note(7, 1);
        times.note(100_000, 1);
        assert_eq!((times.percentile(0.5), times.percentile(0.99)), (0, 7));
        assert!(times.ranges().starts_with("[<=0ms]:98 [0~10ms]:1 [10~50ms]:0"));
        assert!(times.ranges().ends_with("[10s~]:1"));
    }
}
