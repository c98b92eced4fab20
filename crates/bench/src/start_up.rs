//! When a broker that was just started is as fast as it gets: a virtual machine runs slowly at first, and is not what people have
//! running for weeks. Load is put on it a slice at a time until its rate rises no more.

use std::time::Duration;

/// How long a broker is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartUp {
    /// Length of a slice.
    pub slice: Duration,
    /// Slices at most.
    pub slices_max: usize,
}

/// A rate has risen if it is above the best of those before by more than this.
const RISE: f64 = 1.05;
/// So many slices in a row without a rise, and it rises no more.
const FLAT_SLICES: usize = 2;

impl StartUp {
    /// Whether another slice is due after those with these rates.
    pub fn goes_on(&self, rates: &[f64]) -> bool {
        rates.len() < self.slices_max && !is_flat(rates)
    }
}

fn is_flat(rates: &[f64]) -> bool {
    let Some((before, last)) = rates.len().checked_sub(FLAT_SLICES).map(|at| rates.split_at(at)) else { return false };
    let best = before.iter().copied().fold(0.0, f64::max);
    !before.is_empty() && last.iter().all(|rate| *rate <= best * RISE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices until it ends, for a broker with that rate in each.
    fn slices(rate: impl Fn(usize) -> f64) -> usize {
        let start_up = StartUp { slice: Duration::from_secs(2), slices_max: 20 };
        let mut rates = Vec::new();
        while start_up.goes_on(&rates) {
            rates.push(rate(rates.len()));
        }
        rates.len()
    }

    #[test]
    fn a_broker_is_given_time_for_as_long_as_it_gets_faster() {
        assert_eq!(slices(|_| 500.0), 3, "one that is fast at once");
        // Thousands of messages a second of a Java broker, two seconds each.
        let java = [11.0, 17.5, 32.0, 41.0, 44.0, 47.0, 61.5, 66.5, 68.5, 61.5, 62.0, 70.0];
        assert_eq!(slices(|slice| java[slice.min(11)]), 10);
        assert_eq!(slices(|slice| (1 << slice) as f64), 20, "not for ever");
        assert_eq!(slices(|slice| [10.0, 5.0, 20.0, 20.0][slice.min(3)]), 5, "a pause is no end");
        assert_eq!(slices(|_| 0.0), 3, "one that takes nothing");
    }
}
