//! Finds numbers by the hash of what they stand for, which the caller holds: a map that has its keys elsewhere, in eight bytes a slot.
//!
//! **Always holds**: a number is found from its hash's home slot on without a gap; a quarter of the slots is free. Whoever makes the hashes
//! seeds them, so that no client knows which keys get into each other's way.

use super::slab::Id;

const SLOTS_MIN: usize = 4;

/// Slots are given up when so many times fewer would do.
const SPARE: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    id: Option<Id>,
}

/// Numbers by hash. A power of two of slots, or none.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    len: usize,
}

impl Table {
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number with that hash which is the one that is looked for.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Id) -> bool) -> Option<Id> {
        self.slots.get(self.position(hash, is_it)?)?.id
    }

    /// Adds a number that is not there.
    pub(super) fn insert(&mut self, hash: u64, id: Id) {
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN));
        }
        self.place(Slot { hash: short(hash), id: Some(id) });
        self.len += 1;
    }

    /// Has another number there for one, with the same hash.
    pub(super) fn replace(&mut self, hash: u64, old: Id, new: Id) {
        let at = self.position(hash, |id| id == old);
        if let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) {
            slot.id = Some(new);
        }
    }

    pub(super) fn remove(&mut self, hash: u64, id: Id) {
        let Some(at) = self.position(hash, |known| known == id) else { return };
        self.close(at);
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        } else if self.len * SPARE < self.slots.len() && self.slots.len() > SLOTS_MIN {
            self.resize(self.slots.len() / 2);
        }
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Id> {
        self.slots.iter().filter_map(|slot| slot.id)
    }

    /// With no slots nothing is found at any place.
    const fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    fn position(&self, hash: u64, is_it: impl Fn(Id) -> bool) -> Option<usize> {
        let (hash, mask) = (short(hash), self.mask());
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at)?;
            let id = slot.id?;
            if slot.hash == hash && is_it(id) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts a slot into the first free place from its home on.
    fn place(&mut self, new: Slot) {
        let mask = self.mask();
        let mut at = new.hash as usize & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.id.is_none() {
                *slot = new;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Frees a place; those behind it that are not at home move up, so that no gap parts them from there.
    fn close(&mut self, mut gap: usize) {
        let mask = self.mask();
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let Some(slot) = self.slots.get(at).copied().filter(|slot| slot.id.is_some()) else { break };
            let from_home = at.wrapping_sub(slot.hash as usize) & mask;
            if from_home >= (at.wrapping_sub(gap) & mask) {
                self.set(gap, slot);
                gap = at;
            }
        }
        self.set(gap, Slot::default());
    }

    fn set(&mut self, at: usize, new: Slot) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = new;
        }
    }

    fn resize(&mut self, count: usize) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); count]);
        old.into_iter().filter(|slot| slot.id.is_some()).for_each(|slot| self.place(slot));
    }
}

/// What a slot keeps of a hash.
const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::super::slab::Slab;
    use super::*;

    /// Few hashes, so that numbers share one or lie in another's way, from the last slots on to the first.
    fn hash(chance: &mut StdRng) -> u64 {
        u64::from(chance.random_range(0..40_u32).wrapping_sub(20)) << 32
    }

    #[test]
    fn numbers_are_found_by_their_hashes_whatever_came_and_went() {
        for seed in 0..300 {
            let mut chance = StdRng::seed_from_u64(seed);
            let (mut table, mut known, mut slab) = (Table::default(), BTreeMap::new(), Slab::default());
            for step in 0..400 {
                // It grows, and shrinks again.
                if chance.random_bool(if step < 200 { 0.7 } else { 0.3 }) {
                    let (id, hash) = (slab.insert(()), hash(&mut chance));
                    table.insert(hash, id);
                    known.insert(id, hash);
                } else if let Some((id, hash)) = known.iter().nth(chance.random_range(0..=known.len())) {
                    let (id, hash) = (*id, *hash);
                    if chance.random() {
                        table.remove(hash, id);
                    } else {
                        let new = slab.insert(());
                        table.replace(hash, id, new);
                        known.insert(new, hash);
                    }
                    known.remove(&id);
                }
                assert!(known.iter().all(|(id, hash)| table.find(*hash, |found| found == *id) == Some(*id)), "{seed}");
                let mut all: Vec<Id> = table.iter().collect();
                all.sort_unstable();
                assert!(all.iter().eq(known.keys()) && table.is_empty() == known.is_empty(), "{seed}");
                assert!(
                    table.slots.len() <= (table.len * SPARE).max(SLOTS_MIN) && table.len * 4 <= table.slots.len() * 3
                );
            }
            assert_eq!(table.find(1 << 40, |_| false), None);
        }
    }
}
