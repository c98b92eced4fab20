//! Which names a page shows: a bounded number of them, and the rest summed.

use std::collections::BTreeSet;

/// Stands for all names that a page has no room for.
pub(super) const OTHER: &str = "_other";

/// Those that are shown by name, and the rest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown<T> {
    /// Those with a name, at most as many as there may be.
    pub(super) named: Vec<T>,
    /// The others.
    pub(super) rest: Vec<T>,
}

impl<T> Shown<T> {
    /// Chooses the `names_max` largest by `size`, for figures that go up and down; of equal ones those that stand first, so that one page
    /// shows the same as the next. One that `is_nameless` is never among them.
    pub(super) fn largest<V: Ord>(
        all: Vec<T>,
        names_max: usize,
        is_nameless: impl Fn(&T) -> bool,
        size: impl Fn(&T) -> V,
    ) -> Self {
        let (mut rest, mut named): (Vec<_>, Vec<_>) = all.into_iter().partition(is_nameless);
        if named.len() > names_max {
            named.sort_by_cached_key(|one| std::cmp::Reverse(size(one)));
            rest.extend(named.split_off(names_max));
        }
        Self { named, rest }
    }
}

/// Names that stay once they are shown, for figures that only grow: if one went to the rest and back, both would seem to have begun anew.
#[derive(Debug, Default)]
pub(super) struct Lasting(BTreeSet<String>);

impl Lasting {
    /// Chooses those shown before that are still there, and the largest by `size` while there is room.
    pub(super) fn choose<T>(
        &mut self,
        all: Vec<T>,
        names_max: usize,
        name: impl Fn(&T) -> &str,
        size: impl Fn(&T) -> u64,
    ) -> Shown<T> {
        let before = std::mem::take(&mut self.0);
        let size = |one: &T| (before.contains(name(one)), size(one));
        let shown = Shown::largest(all, names_max, |one| name(one) == OTHER, size);
        self.0 = shown.named.iter().map(|one| name(one).to_owned()).collect();
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Named = (&'static str, u64);

    #[test]
    fn the_largest_are_named_and_the_rest_is_left() {
        let all: Vec<Named> = vec![("a", 1), ("b", 3), ("c", 1), ("d", 2)];
        let of = |names_max| Shown::largest(all.clone(), names_max, |_| false, |(_, size)| *size);
        assert_eq!(of(4), Shown { named: all.clone(), rest: Vec::new() });
        assert_eq!(of(3), Shown { named: vec![("b", 3), ("d", 2), ("a", 1)], rest: vec![("c", 1)] });
        assert_eq!(of(0).rest.len(), 4);
        let without_b = Shown::largest(all, 3, |(name, _)| *name == "b", |(_, size)| *size);
        assert_eq!(without_b, Shown { named: vec![("a", 1), ("c", 1), ("d", 2)], rest: vec![("b", 3)] });
    }

    #[test]
    fn a_name_stays_while_it_is_there() {
        let mut lasting = Lasting::default();
        let mut choose = |all: &[Named]| {
            let shown = lasting.choose(all.to_vec(), 2, |(name, _)| *name, |(_, size)| *size);
            let names = |of: Vec<Named>| of.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>();
            (names(shown.named), names(shown.rest))
        };
        assert_eq!(choose(&[("a", 5), (OTHER, 9), ("b", 1)]), (["a", "b"].into(), [OTHER].into()));
        assert_eq!(choose(&[("a", 5), ("b", 1), ("c", 7)]), (["a", "b"].into(), ["c"].into()));
        assert_eq!(choose(&[("a", 5), ("c", 7), ("d", 8)]), (["a", "d"].into(), ["c"].into()));
    }
}
