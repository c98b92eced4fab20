//! What was met on one way already.

use std::hash::Hash;

use foldhash::HashSet;
use smallvec::SmallVec;

/// So many are looked through one by one, without memory of their own.
const FEW: usize = 16;

/// A set that is mostly small and short-lived.
#[derive(Debug)]
pub(super) struct Seen<T> {
    few: SmallVec<[T; FEW]>,
    many: Option<HashSet<T>>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self { few: SmallVec::new(), many: None }
    }
}

impl<T: Copy + Eq + Hash> Seen<T> {
    /// Adds one. Gives whether it is new.
    pub(super) fn add(&mut self, one: T) -> bool {
        if self.few.contains(&one) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(one);
            return true;
        }
        self.many.get_or_insert_default().insert(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once() {
        let mut seen = Seen::default();
        for round in 0..2 {
            assert!((0..FEW * 3).all(|one| seen.add(one) == (round == 0)));
        }
    }
}
