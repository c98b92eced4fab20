//! Which messages of a lane are settled: all below a floor, and single ones above it.

use std::ops::Range;

use base::QueueOffset;
use roaring::RoaringTreemap;

/// What is settled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    floor: u64,
    /// None of them is below or at the floor.
    above: RoaringTreemap,
}

impl Settled {
    /// All below `floor`.
    pub fn below(floor: QueueOffset) -> Self {
        Self { floor: floor.0, above: RoaringTreemap::new() }
    }

    /// The first that is not settled.
    pub const fn floor(&self) -> QueueOffset {
        QueueOffset(self.floor)
    }

    /// Whether one is.
    pub fn has(&self, offset: QueueOffset) -> bool {
        offset.0 < self.floor || self.above.contains(offset.0)
    }

    /// How many are from `start` on.
    pub fn count_from(&self, start: QueueOffset) -> u64 {
        self.floor.saturating_sub(start.0) + self.above.range_cardinality(start.0..)
    }

    /// Adds some; gives how many of them were not settled.
    pub fn add(&mut self, range: Range<QueueOffset>) -> u64 {
        let (start, end) = (range.start.0.max(self.floor), range.end.0);
        if start >= end {
            return 0;
        }
        if start > self.floor {
            // One alone, as most are, is found and set in one step; a range is counted first.
            let is_one = end - start == 1;
            return if is_one { u64::from(self.above.insert(start)) } else { self.above.insert_range(start..end) };
        }
        let added = end - start - self.above.remove_range(start..end);
        self.floor = end;
        while let Some(run) = first_run_from(&self.above, self.floor).filter(|run| run.start == self.floor) {
            self.above.remove_range(run.clone());
            self.floor = run.end;
        }
        added
    }

    /// Has nothing settled from `end` on.
    pub fn cut(&mut self, end: QueueOffset) {
        self.floor = self.floor.min(end.0);
        self.above.remove_range(end.0..);
    }

    /// Those above the floor, in runs, the lowest first.
    pub fn runs(&self) -> impl Iterator<Item = Range<QueueOffset>> {
        runs_of(&self.above)
    }
}

/// The runs of a set, the lowest first.
pub fn runs_of(set: &RoaringTreemap) -> impl Iterator<Item = Range<QueueOffset>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let run = first_run_from(set, from)?;
        from = run.end;
        Some(QueueOffset(run.start)..QueueOffset(run.end))
    })
}

/// The first run of a set that begins at `from` or behind it; one across a multiple of 2^32 may be given in two.
fn first_run_from(set: &RoaringTreemap, from: u64) -> Option<Range<u64>> {
    let high_of_from = (from >> 32) as u32;
    set.bitmaps().skip_while(|(high, _)| *high < high_of_from).find_map(|(high, bitmap)| {
        let low = if high == high_of_from { from as u32 } else { 0 };
        let run = bitmap.range(low..).next_range()?;
        let place = |low: u32| u64::from(high) << 32 | u64::from(low);
        Some(place(*run.start())..place(*run.end()) + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> Range<QueueOffset> {
        QueueOffset(start)..QueueOffset(end)
    }

    #[test]
    fn the_floor_passes_what_was_settled_above_it() {
        let mut settled = Settled::below(QueueOffset(10));
        assert_eq!(settled.add(range(12, 20)), 8);
        assert_eq!(settled.add(range(15, 25)), 5);
        assert_eq!(settled.add(range(30, 31)), 1);
        assert_eq!((settled.floor().0, settled.count_from(QueueOffset(0))), (10, 24));
        assert_eq!(settled.add(range(0, 11)), 1);
        assert_eq!(settled.floor().0, 11);
        assert_eq!(settled.add(range(5, 13)), 1);
        assert_eq!(settled.floor().0, 25);
        assert_eq!(settled.runs().collect::<Vec<_>>(), [range(30, 31)]);
        assert!(settled.has(QueueOffset(24)) && !settled.has(QueueOffset(25)) && settled.has(QueueOffset(30)));
    }

    #[test]
    fn a_run_may_reach_over_a_multiple_of_4_gibi() {
        let edge = 1 << 32;
        let mut settled = Settled::below(QueueOffset(edge - 10));
        assert_eq!(settled.add(range(edge - 8, edge + 70_000)), 70_008);
        assert_eq!(settled.runs().map(|run| run.end.0 - run.start.0).sum::<u64>(), 70_008);
        assert_eq!(settled.add(range(edge - 10, edge - 8)), 2);
        assert_eq!((settled.floor().0, settled.runs().count()), (edge + 70_000, 0));
    }
}
