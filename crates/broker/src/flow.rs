//! How fast offsets move: messages a second by topic (stored) and by topic and group (consumed), for administrators.
//!
//! Sampled every ten seconds from offsets that are kept anyway, so that sends and fetches pay nothing for it.

use std::collections::HashMap;

use base::Timestamp;

/// How often samples are taken.
const SAMPLE_INTERVAL_MS: u64 = 10_000;

/// A sum of offsets at two moments.
#[derive(Clone, Copy, Debug)]
struct Samples {
    older: (Timestamp, u64),
    newer: (Timestamp, u64),
}

/// Samples by name.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    samples: HashMap<String, Samples>,
    sampled: Timestamp,
}

impl Flow {
    /// Whether it is time for new samples.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now.ms_since(self.sampled) >= SAMPLE_INTERVAL_MS
    }

    /// Takes new samples; names that are not among them are forgotten.
    pub(crate) fn sample(&mut self, now: Timestamp, sums: impl Iterator<Item = (String, u64)>) {
        self.sampled = now;
        let known = std::mem::take(&mut self.samples);
        for (name, sum) in sums {
            let newer = (now, sum);
            let older = known.get(&name).map_or(newer, |samples| samples.newer);
            self.samples.insert(name, Samples { older, newer });
        }
    }

    /// Messages a second between the older sample and now, when the sum is `sum`.
    pub(crate) fn rate(&self, name: &str, sum: u64, now: Timestamp) -> f64 {
        let Some(samples) = self.samples.get(name) else { return 0.0 };
        let (at, before) = samples.older;
        match now.ms_since(at) {
            0 => 0.0,
            elapsed => sum.saturating_sub(before) as f64 * 1000.0 / elapsed as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_the_last_ten_to_twenty_seconds() {
        let mut flow = Flow::default();
        for (second, sum) in [(10, 0), (20, 1000), (30, 3000)] {
            let now = Timestamp(second * 1000);
            assert!(flow.is_due(now));
            flow.sample(now, std::iter::once(("t".to_owned(), sum)));
        }
        assert_eq!(flow.rate("t", 4000, Timestamp(35_000)), 200.0);
        assert_eq!(flow.rate("other", 4000, Timestamp(35_000)), 0.0);
    }
}
