//! How many times as much: the ratios of the rounds that two brokers did. A round in which one of them did nothing counts too.

use std::fmt;

use serde::Serialize;

/// Ratios of rounds. Infinite where the one they are divided by did nothing; JSON has no such number and says `null`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The least.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Ratio {
    /// Of several; `None` of none. A round in which neither did anything has no ratio: it stands among the problems of both.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = ratios.iter().copied().filter(|ratio| !ratio.is_nan()).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, *sorted.get(middle)?)
        } else {
            *sorted.get(middle)?
        };
        Some(Self { min: *sorted.first()?, median, max: *sorted.last()? })
    }

    /// Whether the first broker did less, as its figure is shown.
    pub fn is_below_one(&self) -> bool {
        self.median < 0.995
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} to {})", times(self.median, 2), times(self.min, 2), times(self.max, 2))
    }
}

/// A number of times with so many decimal places, and a word for what has no bound.
pub fn times(ratio: f64, places: usize) -> String {
    if ratio.is_finite() { format!("{ratio:.places$}") } else { "\u{221e}".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_the_middle() {
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[2.0]), Some(Ratio { min: 2.0, median: 2.0, max: 2.0 }));
        assert_eq!(Ratio::of(&[3.0, 1.0, 2.0]), Some(Ratio { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Ratio::of(&[4.0, 1.0, 2.0, 3.0]), Some(Ratio { min: 1.0, median: 2.5, max: 4.0 }));
    }

    #[test]
    fn what_did_nothing_in_a_round_counts() {
        let ratio = Ratio::of(&[2.0, 5.0 / 0.0, 0.0]).expect("three rounds");
        assert_eq!((ratio.min, ratio.median, ratio.max), (0.0, 2.0, f64::INFINITY));
        assert_eq!(ratio.to_string(), "2.00 (0.00 to \u{221e})");
        assert_eq!(Ratio::of(&[f64::NAN]), None, "neither did anything");
    }

    #[test]
    fn what_is_shown_as_one_is_not_below_it() {
        let is_below = |median| Ratio { min: median, median, max: median }.is_below_one();
        assert_eq!([0.8, 0.994, 0.996, 1.0, f64::INFINITY].map(is_below), [true, true, false, false, false]);
    }
}
