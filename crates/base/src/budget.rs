//! The memory that connections hold together: requests that are not whole, answers that are being made or not taken.
//!
//! Each connection has its own bound; this is the one for all. While much is held, a connection gets its next answer when it has
//! taken the last; beyond the bound no large request is begun to be read, and no request that may have a large answer is taken.
//! What is held is counted in steps, so that a connection which holds little costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::CONNECTIONS_HELD_SIZE_MAX;

/// What a connection holds is counted in these.
pub const STEP: usize = 64 * 1024;

/// Bytes of each kind that one connection may have while all together hold much.
pub const LITTLE_SIZE_MAX: usize = STEP;

/// How much memory there is for what connections hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Each connection has its own bound.
    Plenty,
    /// A connection gets its next answer when it has taken the last.
    Little,
    /// As with little, and no request is taken that may have a large answer.
    None,
}

/// What all connections hold, in bytes.
#[derive(Debug, Default)]
pub struct Budget(AtomicUsize);

/// What one connection, or one of its jobs, holds of it; given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    budget: Arc<Budget>,
    size: usize,
}

impl Budget {
    /// How much there is left.
    pub fn room(&self) -> Room {
        match self.0.load(Ordering::Relaxed) {
            held if held >= CONNECTIONS_HELD_SIZE_MAX => Room::None,
            held if held >= CONNECTIONS_HELD_SIZE_MAX / 2 => Room::Little,
            _ => Room::Plenty,
        }
    }

    /// Bytes that one connection may have, of which it may have `most` where there is plenty.
    pub fn at_most(&self, most: usize) -> usize {
        if self.room() == Room::Plenty { most } else { LITTLE_SIZE_MAX }
    }
}

impl Held {
    /// Nothing yet.
    pub const fn of(budget: Arc<Budget>) -> Self {
        Self { budget, size: 0 }
    }

    /// `size` bytes, whether or not they are within the bound.
    pub fn taken(budget: Arc<Budget>, size: usize) -> Self {
        let mut held = Self::of(budget);
        held.set(size);
        held
    }

    /// What is counted.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// From now on it is `size`.
    pub fn set(&mut self, size: usize) {
        let size = size - size % STEP;
        if size > self.size {
            self.budget.0.fetch_add(size - self.size, Ordering::Relaxed);
        } else if size < self.size {
            self.budget.0.fetch_sub(self.size - size, Ordering::Relaxed);
        }
        self.size = size;
    }

    /// Makes it `size` if that is within the bound.
    pub fn try_set(&mut self, size: usize) -> bool {
        let others = self.budget.0.load(Ordering::Relaxed).saturating_sub(self.size);
        let fits = others + size <= CONNECTIONS_HELD_SIZE_MAX;
        if fits {
            self.set(size);
        }
        fits
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connections_hold_is_counted_together_and_given_back() {
        let budget = Arc::new(Budget::default());
        let (mut one, mut two) = (Held::of(budget.clone()), Held::of(budget.clone()));
        one.set(STEP - 1);
        assert_eq!((one.size(), budget.room()), (0, Room::Plenty));
        one.set(CONNECTIONS_HELD_SIZE_MAX / 2);
        assert_eq!(budget.room(), Room::Little);
        assert!(!two.try_set(CONNECTIONS_HELD_SIZE_MAX / 2 + STEP));
        assert!(two.try_set(CONNECTIONS_HELD_SIZE_MAX / 2));
        assert_eq!(budget.room(), Room::None);
        drop(one);
        two.set(0);
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
