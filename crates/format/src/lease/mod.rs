//! What outlives a process of a lease cursor: how far a group has settled a lane whose messages are handed out one by one.
//!
//! [`LeaseState`] is what is known of a lane. [`LeaseChange`] is what has changed, or all of it, as a record of the log has it: sorted, as
//! differences, so that settlements in any order take few bytes. Values, not steps: what is made twice is as if made once.

mod settled;

use std::collections::BTreeMap;
use std::fmt;

use base::QueueOffset;
use serde::{Deserialize, Serialize};

pub use settled::{Settled, runs_of};

/// Messages above the floor that one change settles at most, and offsets it spans: a log that says more is damaged.
const SPAN_MAX: u64 = 1 << 36;

/// What is known of a lane. Nothing of it is leased.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseState {
    /// What is settled.
    pub settled: Settled,
    /// How often messages that are not settled were handed out, where that is not once below `delivered_until` and never above.
    pub known: BTreeMap<u64, u32>,
    /// Below this, messages were handed out.
    pub delivered_until: QueueOffset,
}

/// What has become of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseChange {
    /// All below are settled.
    floor: u64,
    /// Runs of settled ones above it: how many others lie before each, and how many it has.
    runs: Vec<(u64, u64)>,
    /// Messages that are not settled: how many others lie before each, and how often each was handed out.
    known: Vec<(u64, u32)>,
    /// Below this, messages were handed out.
    delivered_until: u64,
}

impl LeaseState {
    /// Makes a change, which has to be sound.
    pub fn apply(&mut self, change: &LeaseChange) {
        self.delivered_until = self.delivered_until.max(QueueOffset(change.delivered_until));
        self.settle(0, change.floor);
        change.runs().for_each(|(start, end)| self.settle(start, end));
        for (offset, deliveries) in change.known().filter(|(offset, _)| !self.settled.has(QueueOffset(*offset))) {
            self.known.insert(offset, deliveries);
        }
    }

    /// Forgets what it says of a lane's messages from `end` on: there are none.
    pub fn cut(&mut self, end: QueueOffset) {
        self.settled.cut(end);
        drop(self.known.split_off(&end.0));
        self.delivered_until = self.delivered_until.min(end);
    }

    /// All of it, as a change of nothing.
    pub fn change(&self) -> LeaseChange {
        let runs = self.settled.runs().map(|run| (run.start.0, run.end.0));
        let known = self.known.iter().map(|(offset, deliveries)| (*offset, *deliveries));
        LeaseChange::of(self.settled.floor(), runs, known, self.delivered_until)
    }

    fn settle(&mut self, start: u64, end: u64) {
        self.settled.add(QueueOffset(start)..QueueOffset(end));
        if !self.known.is_empty() {
            self.known.extract_if(start..end, |_, _| true).for_each(drop);
        }
    }
}

/// For people who look at a log.
impl fmt::Display for LeaseChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let above = self.runs.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
        let (floor, back, until) = (self.floor, self.known.len(), self.delivered_until);
        write!(out, "settled below {floor} and {above} above, {back} given back, handed out below {until}")
    }
}

impl LeaseChange {
    /// One by which all below `floor` and in `runs` is settled, and messages were handed out as often as `known` says: both in order, what
    /// is below the floor is left out. Below `delivered_until`, messages were handed out.
    pub fn of(
        floor: QueueOffset,
        runs: impl Iterator<Item = (u64, u64)>,
        known: impl Iterator<Item = (u64, u32)>,
        delivered_until: QueueOffset,
    ) -> Self {
        let floor = floor.0;
        let mut last = floor;
        let runs = runs.filter(|(_, end)| *end > floor).map(|(start, end)| {
            let start = start.max(last);
            (start - std::mem::replace(&mut last, end), end - start)
        });
        let runs = runs.collect();
        let mut last = floor;
        let known = known.filter(|(offset, _)| *offset >= floor).map(|(offset, deliveries)| {
            let before = std::mem::replace(&mut last, offset + 1);
            (offset - before, deliveries)
        });
        Self { floor, runs, known: known.collect(), delivered_until: delivered_until.0 }
    }

    /// All below are settled.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Below this, messages were handed out.
    pub const fn delivered_until(&self) -> u64 {
        self.delivered_until
    }

    /// How many runs and counts it has.
    pub const fn len(&self) -> usize {
        self.runs.len() + self.known.len()
    }

    /// Whether it says no more than how far all is settled, and handed out.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same in two, unless it is one that has no parts.
    #[must_use]
    pub fn split(&mut self) -> Option<Self> {
        if self.len() < 2 {
            return None;
        }
        let mut second = Self { floor: self.floor, delivered_until: self.delivered_until, ..Self::default() };
        let middle = self.runs.len().div_ceil(2);
        let end = self.floor_of_run(middle);
        second.runs = self.runs.split_off(middle);
        if let Some(first) = second.runs.first_mut() {
            first.0 = first.0.saturating_add(end - self.floor);
        }
        let middle = self.known.len() / 2;
        let before: u64 = self.known.iter().take(middle).map(|(gap, _)| gap + 1).sum();
        second.known = self.known.split_off(middle);
        if let Some(first) = second.known.first_mut() {
            first.0 = first.0.saturating_add(before);
        }
        Some(second)
    }

    /// First offset of each settled run above the floor, and one past its last.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut last = self.floor;
        self.runs.iter().map(move |(before, count)| {
            let start = last.saturating_add(*before);
            last = start.saturating_add(*count);
            (start, last)
        })
    }

    /// Offsets that are not settled, and how often each was handed out.
    pub fn known(&self) -> impl Iterator<Item = (u64, u32)> {
        let mut next = self.floor;
        self.known.iter().map(move |(before, deliveries)| {
            let offset = next.saturating_add(*before);
            next = offset.saturating_add(1);
            (offset, *deliveries)
        })
    }

    /// Where the run before the one with that number ends.
    fn floor_of_run(&self, number: usize) -> u64 {
        number.checked_sub(1).and_then(|last| self.runs().nth(last)).map_or(self.floor, |(_, end)| end)
    }

    /// Whether a lane can have come to this: else it is damaged.
    pub fn is_sound(&self) -> bool {
        let end = self.floor_of_run(self.runs.len());
        end.saturating_sub(self.floor) <= SPAN_MAX && end < u64::MAX && self.runs.iter().all(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(floor: u64, settled: &[(u64, u64)], known: &[(u64, u32)], delivered_until: u64) -> LeaseState {
        let mut all = Settled::below(QueueOffset(floor));
        for (start, end) in settled {
            all.add(QueueOffset(*start)..QueueOffset(*end));
        }
        LeaseState {
            settled: all,
            known: known.iter().copied().collect(),
            delivered_until: QueueOffset(delivered_until),
        }
    }

    fn states() -> Vec<LeaseState> {
        vec![
            LeaseState::default(),
            state(10, &[], &[], 20),
            state(10, &[(11, 12), (14, 20)], &[(12, 2), (13, 0)], 20),
            state(1 << 40, &[((1 << 40) + 1, (1 << 40) + 100_000)], &[(1 << 40, u32::MAX)], 1 << 41),
        ]
    }

    #[test]
    fn a_state_is_a_change_of_nothing_also_in_parts_and_made_twice() {
        for state in states() {
            let mut parts = vec![state.change()];
            while let Some(more) = parts.iter_mut().find_map(LeaseChange::split) {
                parts.push(more);
            }
            let mut made = LeaseState::default();
            for part in [parts.clone(), parts].concat() {
                let bytes = postcard::to_allocvec(&part).expect("encodes");
                made.apply(&postcard::from_bytes(&bytes).expect("decodes"));
            }
            assert_eq!(made, state);
        }
    }

    #[test]
    fn what_is_settled_later_has_no_count_any_more_and_no_later_count_brings_it_back() {
        let mut lane = state(10, &[], &[(10, 3), (11, 4), (12, 5)], 20);
        let settled = state(0, &[(11, 12)], &[], 0).change();
        lane.apply(&settled);
        lane.apply(&state(0, &[], &[(5, 1), (11, 9), (12, 6)], 0).change());
        assert_eq!(lane, state(10, &[(11, 12)], &[(10, 3), (12, 6)], 20));
        lane.apply(&state(12, &[], &[], 0).change());
        assert_eq!(lane, state(12, &[], &[(12, 6)], 20));
    }

    #[test]
    fn every_second_message_settled_takes_two_bytes_each() {
        let runs: Vec<_> = (0..1000).map(|number| (2 * number + 1, 2 * number + 2)).collect();
        let bytes = postcard::to_allocvec(&state(0, &runs, &[], 2000).change()).expect("encodes");
        assert!(bytes.len() < 2 * 1000 + 8, "{}", bytes.len());
    }

    #[test]
    fn what_no_lane_can_have_come_to_is_not_sound() {
        let all = LeaseChange { runs: vec![(0, SPAN_MAX + 1)], ..LeaseChange::default() };
        let none = LeaseChange { runs: vec![(1, 0)], ..LeaseChange::default() };
        let beyond = LeaseChange { floor: u64::MAX - 1, runs: vec![(u64::MAX, 1)], ..LeaseChange::default() };
        assert!([all, none, beyond].iter().all(|change| !change.is_sound()));
        assert!(states().iter().all(|state| state.change().is_sound()));
    }

    #[test]
    fn of_a_lane_that_has_lost_its_end_nothing_is_known_behind_it() {
        let whole = state(10, &[(11, 12), (14, 20)], &[(12, 2), (13, 0)], 20);
        let cut = |end| {
            let mut lane = whole.clone();
            lane.cut(QueueOffset(end));
            lane
        };
        assert_eq!(cut(20), whole);
        assert_eq!(cut(15), state(10, &[(11, 12), (14, 15)], &[(12, 2), (13, 0)], 15));
        assert_eq!(cut(13), state(10, &[(11, 12)], &[(12, 2)], 13));
        assert_eq!(cut(4), state(4, &[], &[], 4));
    }
}
