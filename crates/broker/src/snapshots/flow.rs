//! How fast offsets move: messages by topic (stored) and by topic and group (consumed), a second and over the last minute, hour and
//! day, for administrators.
//!
//! Sampled every ten seconds from offsets that are kept anyway, so that sends and fetches pay nothing for it. A name has a history
//! once its offsets have moved since the start, so that topics nobody uses cost little.

use std::collections::{HashMap, VecDeque};

use base::limits::FLOW_HISTORIES_MAX;
use base::{Monotonic, Now};

/// How often samples are taken.
const SAMPLE_INTERVAL_MS: u64 = 10_000;

/// Length of a period, and time between two of its samples.
const PERIODS_MS: [(u64, u64); 3] = [(60_000, SAMPLE_INTERVAL_MS), (3_600_000, 600_000), (86_400_000, 3_600_000)];

/// A sum of offsets at a moment.
type Sample = (Monotonic, u64);

/// A sum of offsets at two moments.
#[derive(Debug)]
struct Samples {
    older: Sample,
    newer: Sample,
    history: Option<Box<History>>,
}

/// Samples of the last minute, hour and day, the oldest first.
#[derive(Debug)]
struct History([VecDeque<Sample>; 3]);

/// Messages within a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeriodFlow {
    /// How many.
    pub sum: u64,
    /// A second.
    pub rate: f64,
}

impl History {
    fn from(first: Sample) -> Self {
        Self(PERIODS_MS.map(|_| VecDeque::from([first])))
    }

    fn add(&mut self, sample: Sample) {
        for (samples, (length_ms, interval_ms)) in self.0.iter_mut().zip(PERIODS_MS) {
            if samples.back().is_some_and(|(at, _)| sample.0.ms_since(*at) < interval_ms) {
                continue;
            }
            samples.push_back(sample);
            while samples.len() as u64 > length_ms / interval_ms + 1 {
                samples.pop_front();
            }
        }
    }

    /// What came in each period, as far as it was sampled.
    fn periods(&self) -> [PeriodFlow; 3] {
        [0, 1, 2].map(|period| {
            let samples = self.0.get(period);
            let ends = samples.and_then(|samples| samples.front().zip(samples.back()));
            ends.map_or(PeriodFlow::default(), |(first, last)| between(*first, *last))
        })
    }
}

fn between(first: Sample, last: Sample) -> PeriodFlow {
    let sum = last.1.saturating_sub(first.1);
    match last.0.ms_since(first.0) {
        0 => PeriodFlow { sum, rate: 0.0 },
        elapsed => PeriodFlow { sum, rate: sum as f64 * 1000.0 / elapsed as f64 },
    }
}

/// Samples by name.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    samples: HashMap<String, Samples>,
    histories: usize,
    sampled: Option<Monotonic>,
}

impl Flow {
    /// Whether it is time for new samples.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        self.sampled.is_none_or(|sampled| now.monotonic.ms_since(sampled) >= SAMPLE_INTERVAL_MS)
    }

    /// Takes new samples; names that are not among them are forgotten.
    pub(crate) fn sample(&mut self, now: Now, sums: impl Iterator<Item = (String, u64)>) {
        self.sampled = Some(now.monotonic);
        let mut known = std::mem::take(&mut self.samples);
        self.histories = 0;
        for (name, sum) in sums {
            let newer = (now.monotonic, sum);
            let (older, mut history) = known.remove(&name).map_or((newer, None), |last| (last.newer, last.history));
            if history.is_none() && sum != older.1 && self.histories < FLOW_HISTORIES_MAX {
                history = Some(Box::new(History::from(older)));
            }
            if let Some(history) = &mut history {
                history.add(newer);
                self.histories += 1;
            }
            self.samples.insert(name, Samples { older, newer, history });
        }
    }

    /// Messages a second between the older sample and now, when the sum is `sum`.
    pub(crate) fn rate(&self, name: &str, sum: u64, now: Now) -> f64 {
        self.samples.get(name).map_or(0.0, |samples| between(samples.older, (now.monotonic, sum)).rate)
    }

    /// Messages of the last minute, hour and day; `None` if there were none since the start.
    pub(crate) fn periods(&self, name: &str) -> Option<[PeriodFlow; 3]> {
        self.samples.get(name)?.history.as_ref().map(|history| history.periods())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Now {
        Now { monotonic: Monotonic(second * 1000), ..Now::default() }
    }

    fn sample(flow: &mut Flow, second: u64, sum: u64) {
        let now = at(second);
        assert!(flow.is_due(now));
        flow.sample(now, std::iter::once(("t".to_owned(), sum)));
        assert!(!flow.is_due(now.plus_ms(SAMPLE_INTERVAL_MS - 1)));
    }

    #[test]
    fn a_rate_is_over_the_last_ten_to_twenty_seconds() {
        let mut flow = Flow::default();
        for (second, sum) in [(10, 0), (20, 1000), (30, 3000)] {
            sample(&mut flow, second, sum);
        }
        assert_eq!(flow.rate("t", 4000, at(35)), 200.0);
        assert_eq!(flow.rate("other", 4000, at(35)), 0.0);
    }

    #[test]
    fn sums_are_of_the_last_minute_hour_and_day() {
        let mut flow = Flow::default();
        // Ten messages a second, for three days.
        for second in (10..=3 * 86_400).step_by(10) {
            sample(&mut flow, second, second * 10);
            let [minute, hour, day] = flow.periods("t").unwrap_or_default();
            assert_eq!(minute.sum, 10 * (second - 10).min(60), "{second}");
            if second > 2 * 86_400 {
                assert_eq!((hour.sum, day.sum), (36_000, 864_000), "{second}");
                assert_eq!([minute, hour, day].map(|period| period.rate), [10.0; 3]);
            }
        }
        let history = flow.samples["t"].history.as_ref().expect("has moved");
        assert_eq!(history.0.each_ref().map(VecDeque::len), [7, 7, 25]);
    }

    #[test]
    fn what_never_moved_has_no_history() {
        let mut flow = Flow::default();
        for second in [10, 20, 30] {
            sample(&mut flow, second, 7);
        }
        assert_eq!(flow.periods("t"), None);
        sample(&mut flow, 40, 8);
        assert_eq!(flow.periods("t").map(|periods| periods.map(|period| period.sum)), Some([1, 0, 0]));
    }
}
