//! When a broker is as fast as it gets: a virtual machine runs slowly at first, and slowly again when the load takes another shape,
//! and is not what people have running for weeks. Load is put on it a slice at a time until its speed rises no more.

use std::time::Duration;

use serde::Serialize;

/// How long a broker is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartUp {
    /// Length of a slice.
    pub slice: Duration,
    /// Slices at most.
    pub slices_max: u32,
}

/// What a warm-up was, before anything was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WarmUp {
    /// How fast the broker was in each slice: messages a second; for a load at a pace, messages a second of its processors' time.
    pub speeds: Vec<f64>,
    /// Whether it was still getting faster when its time was over.
    pub was_rising: bool,
}

/// A speed has risen if it is above the best of those before by more than this.
const RISE: f64 = 1.05;
/// So many slices in a row without a rise, and it rises no more.
const FLAT_SLICES: usize = 3;

impl StartUp {
    /// Whether another slice is due after those with these speeds, which took so long.
    pub fn goes_on(&self, speeds: &[f64], taken: Duration) -> bool {
        taken < self.slice * self.slices_max && !is_flat(speeds)
    }

    /// The same, no longer than that.
    pub fn within(self, most: Duration) -> Self {
        let slices = most.as_millis().div_ceil(self.slice.as_millis().max(1));
        Self { slices_max: self.slices_max.min(u32::try_from(slices).unwrap_or(u32::MAX)), ..self }
    }

    /// The same for a cluster of so many brokers that share the processors.
    pub fn for_brokers(self, brokers: u32) -> Self {
        Self { slices_max: self.slices_max * brokers.max(1), ..self }
    }
}

impl WarmUp {
    /// Of slices with these speeds.
    pub fn of(speeds: Vec<f64>) -> Self {
        let was_rising = !is_flat(&speeds);
        Self { speeds, was_rising }
    }
}

fn is_flat(speeds: &[f64]) -> bool {
    let split = speeds.len().checked_sub(FLAT_SLICES).map(|at| speeds.split_at(at));
    let Some((before, last)) = split else { return false };
    let best = before.iter().copied().fold(0.0, f64::max);
    !before.is_empty() && last.iter().all(|speed| *speed <= best * RISE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_takes_no_longer_than_it_may() {
        let start_up = StartUp { slice: Duration::from_secs(2), slices_max: 20 };
        for (most, slices) in [(0, 0), (1, 1), (2000, 1), (2001, 2), (60_000, 20)] {
            assert_eq!(start_up.within(Duration::from_millis(most)).slices_max, slices, "{most}");
        }
    }

    /// The warm-up of a broker with that speed in each slice of two seconds.
    fn warm_up(speed: impl Fn(usize) -> f64) -> WarmUp {
        let start_up = StartUp { slice: Duration::from_secs(2), slices_max: 20 };
        let mut speeds = Vec::new();
        while start_up.goes_on(&speeds, Duration::from_secs(2) * speeds.len() as u32) {
            speeds.push(speed(speeds.len()));
        }
        WarmUp::of(speeds)
    }

    fn slices(speed: impl Fn(usize) -> f64) -> usize {
        warm_up(speed).speeds.len()
    }

    #[test]
    fn a_broker_is_given_time_for_as_long_as_it_gets_faster() {
        assert_eq!(slices(|_| 500.0), 4, "one that is fast at once");
        // Thousands of messages a second of a Java broker, two seconds each.
        let java = [11.0, 17.5, 32.0, 41.0, 44.0, 47.0, 61.5, 66.5, 68.5, 61.5, 62.0, 70.0];
        assert_eq!(slices(|slice| java[slice.min(11)]), 11);
        assert_eq!(slices(|slice| [10.0, 5.0, 20.0, 20.0][slice.min(3)]), 6, "a pause is no end");
        assert_eq!(slices(|slice| 100.0 * 1.02_f64.powi(slice as i32)), 20, "two percent a slice are a rise");
        assert_eq!(slices(|_| 0.0), 4, "one that takes nothing");
    }

    #[test]
    fn one_that_never_ends_to_rise_is_not_waited_for_and_is_told() {
        let rising = warm_up(|slice| (1 << slice) as f64);
        assert_eq!((rising.speeds.len(), rising.was_rising), (20, true));
        assert!(!warm_up(|_| 500.0).was_rising);
        let start_up = StartUp { slice: Duration::from_secs(2), slices_max: 20 };
        assert!(!start_up.goes_on(&[1.0], Duration::from_secs(40)), "slices that take longer than they should");
        assert_eq!(start_up.for_brokers(4).slices_max, 80);
    }
}
