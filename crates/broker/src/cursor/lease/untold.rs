//! What has happened in a lane and the log was not told.

use std::collections::BTreeMap;
use std::ops::Range;

use base::QueueOffset;
use format::lease::LeaseChange;
use roaring::RoaringTreemap;

/// Runs of settled messages that are kept as they came before they are put in order.
const RUNS_MIN: usize = 4096;

/// Runs of messages, put in order when there are twice as many as were left the last time.
#[derive(Debug, Default)]
struct Runs {
    runs: Vec<Range<u64>>,
    /// How many were left.
    in_order: usize,
}

impl Runs {
    fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some(last) = self.runs.last_mut().filter(|last| last.end == range.start) {
            last.end = range.end;
            return;
        }
        self.runs.push(range);
        if self.runs.len() > RUNS_MIN.max(2 * self.in_order) {
            self.put_in_order();
        }
    }

    /// The lowest first, and what touches is one.
    fn put_in_order(&mut self) {
        self.runs.sort_unstable_by_key(|run| run.start);
        self.runs.dedup_by(|next, last| {
            let touches = next.start <= last.end;
            last.end = if touches { last.end.max(next.end) } else { last.end };
            touches
        });
        self.in_order = self.runs.len();
    }
}

#[derive(Debug, Default)]
pub(super) struct Untold {
    settled: Runs,
    returned: BTreeMap<u64, u32>,
    /// Messages of which was told, or is to be, that they were not handed out once: what is told of others need not be said.
    odd: RoaringTreemap,
    delivered_until: u64,
    told_delivered_until: u64,
}

impl Untold {
    /// Nothing, where of these messages it is known how often they were handed out.
    pub(super) fn knowing<'a>(offsets: impl Iterator<Item = &'a u64>) -> Self {
        Self { odd: offsets.copied().collect(), ..Self::default() }
    }

    pub(super) fn settle(&mut self, range: Range<u64>) {
        if !self.returned.is_empty() {
            self.returned.extract_if(range.clone(), |_, _| true).for_each(drop);
        }
        if !self.odd.is_empty() {
            self.odd.remove_range(range.clone());
        }
        self.settled.add(range);
    }

    pub(super) fn give_back(&mut self, offset: u64, deliveries: u32) {
        if deliveries != 1 {
            self.odd.insert(offset);
        }
        if self.odd.contains(offset) {
            self.returned.insert(offset, deliveries);
        }
    }

    /// For the first time, or again after that did not count: if the log was told that, after a crash it would pass for a message that
    /// nobody has had.
    pub(super) fn hand_out(&mut self, offset: u64) {
        if !self.odd.is_empty() && self.odd.contains(offset) {
            self.returned.insert(offset, 1);
        }
    }

    /// The log tells how often that one was handed out.
    pub(super) fn know(&mut self, offset: u64) {
        self.odd.insert(offset);
    }

    pub(super) fn deliver_until(&mut self, until: u64) {
        self.delivered_until = self.delivered_until.max(until);
    }

    pub(super) const fn delivered_until(&self) -> u64 {
        self.delivered_until
    }

    pub(super) fn is_empty(&self) -> bool {
        self.settled.runs.is_empty() && self.returned.is_empty() && self.delivered_until <= self.told_delivered_until
    }

    /// All of it, for a lane in which all below `floor` is settled.
    pub(super) fn take(&mut self, floor: QueueOffset) -> Option<LeaseChange> {
        if self.is_empty() {
            return None;
        }
        self.told_delivered_until = self.delivered_until;
        let (mut settled, returned) = (std::mem::take(&mut self.settled), std::mem::take(&mut self.returned));
        settled.put_in_order();
        let runs = settled.runs.into_iter().map(|run| (run.start, run.end));
        Some(LeaseChange::of(floor, runs, returned.into_iter(), QueueOffset(self.delivered_until)))
    }
}
