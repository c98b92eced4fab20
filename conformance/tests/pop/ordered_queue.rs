//! What consumers of a queue that pop in order are owed: whatever is given is the first that is not settled, and nobody else has any of it.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct OrderedQueue {
    /// Acknowledged for sure, or passed over in favour of later ones: never to come again.
    settled: BTreeSet<u64>,
    /// Acknowledged, without an answer that would say whether in time.
    doubtful: BTreeSet<u64>,
    /// Who has what and has not begun to acknowledge it, since when.
    held: BTreeMap<u64, (usize, u64)>,
    given: BTreeSet<u64>,
    pub(crate) repeated: usize,
}

impl OrderedQueue {
    /// Offsets are given to a consumer. `is_held` says of a time whether what was popped then is still its consumer's.
    pub(crate) fn hand_out(&mut self, consumer: usize, offsets: &[u64], popped_at: u64, is_held: impl Fn(u64) -> bool) {
        let Some(last) = offsets.last().copied() else { return };
        assert!(offsets.is_sorted_by(|one, next| one < next), "{offsets:?}");
        let is_others = |of: &(&u64, &(usize, u64))| of.1.0 != consumer && is_held(of.1.1);
        let others: Vec<_> = self.held.iter().filter(is_others).collect();
        assert!(
            others.is_empty(),
            "{consumer} is given {offsets:?}, popped at {popped_at}, while others have {others:?}"
        );
        let done: Vec<_> = offsets.iter().filter(|offset| self.settled.contains(offset)).collect();
        assert!(done.is_empty(), "{consumer} is given what is done: {done:?}");
        let begin = self.settled.iter().zip(0..).take_while(|(offset, place)| **offset == *place).count() as u64;
        for passed in (begin..last).filter(|offset| !offsets.contains(offset)) {
            let is_done = self.settled.contains(&passed) || self.doubtful.remove(&passed);
            assert!(is_done, "{consumer} is given {offsets:?} before {passed}");
            self.settled.insert(passed);
        }
        self.held.clear();
        for offset in offsets {
            self.repeated += usize::from(!self.given.insert(*offset));
            self.doubtful.remove(offset);
            self.held.insert(*offset, (consumer, popped_at));
        }
    }

    /// A consumer has begun to acknowledge what it was given then. Nothing happens if it is somebody else's by now.
    pub(crate) fn acknowledge(&mut self, offset: u64, holder: (usize, u64)) {
        if self.held.get(&offset) == Some(&holder) {
            self.held.remove(&offset);
            self.doubtful.insert(offset);
        }
    }

    /// Its consumer was told that it is done.
    pub(crate) fn settle(&mut self, offset: u64) {
        self.doubtful.remove(&offset);
        self.settled.insert(offset);
    }

    pub(crate) fn given(&self, queue: u32) -> impl Iterator<Item = (u32, u64)> {
        self.given.iter().map(move |offset| (queue, *offset))
    }
}
