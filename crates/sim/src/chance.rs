//! Numbers that look random and follow from a seed.

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// A source of chance: the same seed, the same numbers.
#[derive(Clone, Debug)]
pub struct Chance(SmallRng);

impl Chance {
    /// What follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.random()
    }

    /// A number below `limit`, which is above 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.random_range(0..limit)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.random_range(0..choices.len())]
    }

    /// True so many times of 100.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
