//! Values under small numbers, which are given out again once they are free.
//!
//! **Always holds**: a value stays under its number until it is removed. Values lie in blocks: growing moves none but those of the first
//! block, and takes at most one block more than is needed. Memory is given back when all are gone.

use std::num::NonZeroU32;

/// Values of a block.
const BLOCK: usize = 1024;

/// Number of a value. Never zero, so that one that may be missing is no larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(NonZeroU32);

impl Id {
    /// What an empty slab gives out.
    pub(super) const FIRST: Self = Self(NonZeroU32::MIN);

    /// Memory ends long before numbers do.
    fn of(index: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// In which block, and where in it.
    const fn place(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / BLOCK, index % BLOCK)
    }
}

/// Values of one kind.
#[derive(Debug)]
pub(super) struct Slab<T> {
    blocks: Vec<Vec<Option<T>>>,
    free: Vec<Id>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> Id {
        if let Some(id) = self.free.pop() {
            if let Some(slot) = self.slot(id) {
                *slot = Some(value);
            }
            return id;
        }
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        match self.blocks.last_mut() {
            Some(last) if last.len() < BLOCK => {
                last.push(Some(value));
                Id::of(full + last.len() - 1)
            }
            Some(_) => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(Some(value));
                self.blocks.push(block);
                Id::of(full + BLOCK)
            }
            None => {
                self.blocks.push(vec![Some(value)]);
                Id::FIRST
            }
        }
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        let (block, at) = id.place();
        self.blocks.get(block)?.get(at)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slot(id)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let value = self.slot(id)?.take()?;
        self.free.push(id);
        let last = self.blocks.last().map_or(0, Vec::len);
        if self.free.len() == self.blocks.len().saturating_sub(1) * BLOCK + last {
            *self = Self::default();
        }
        Some(value)
    }

    /// All of them, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten().flatten()
    }

    fn slot(&mut self, id: Id) -> Option<&mut Option<T>> {
        let (block, at) = id.place();
        self.blocks.get_mut(block)?.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_where_they_are_and_numbers_come_again() {
        let mut slab = Slab::default();
        let ids: Vec<Id> = (0..3 * BLOCK).map(|value| slab.insert(value)).collect();
        assert_eq!(ids[0], Id::FIRST);
        assert!(ids.iter().enumerate().all(|(value, id)| slab.get(*id) == Some(&value)));
        for id in [ids[5], ids[2 * BLOCK]] {
            assert!(slab.remove(id).is_some() && slab.get(id).is_none() && slab.remove(id).is_none());
        }
        assert_eq!(slab.iter().count(), 3 * BLOCK - 2);
        assert_eq!((slab.insert(0), slab.insert(1)), (ids[2 * BLOCK], ids[5]));
        assert_eq!(slab.get_mut(ids[5]), Some(&mut 1));
    }

    #[test]
    fn an_empty_slab_has_no_memory_and_begins_again() {
        let mut slab = Slab::default();
        let ids: Vec<Id> = (0..BLOCK + 1).map(|value| slab.insert(value)).collect();
        assert!(ids.iter().all(|id| slab.remove(*id).is_some()));
        assert!(slab.blocks.is_empty() && slab.free.is_empty());
        assert_eq!(slab.insert(7), Id::FIRST);
    }
}
