//! What outlives a process of a lease cursor, and the changes by which the log tells of it.

use std::collections::BTreeMap;
use std::ops::Range;

use base::QueueOffset;
use roaring::RoaringTreemap;

use super::settled::{Settled, runs_of};

/// What outlives a process. Nothing of it is leased.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseState {
    /// What is settled.
    pub settled: Settled,
    /// How often messages that are not settled were handed out, where that is not once below `delivered_until` and never above.
    pub known: BTreeMap<u64, u32>,
    /// Below this, messages were handed out.
    pub delivered_until: QueueOffset,
}

/// What has happened. Values, not differences: what is made twice is as if made once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseChanges {
    /// Runs of messages that are settled, the lowest first.
    pub settled: Vec<Range<QueueOffset>>,
    /// Messages that were given back, and how often each was handed out.
    pub returned: Vec<(QueueOffset, u32)>,
    /// Below this, messages were handed out; 0 if that has not changed.
    pub delivered_until: QueueOffset,
}

impl LeaseState {
    /// Makes changes.
    pub fn apply(&mut self, changes: &LeaseChanges) {
        self.delivered_until = self.delivered_until.max(changes.delivered_until);
        for run in &changes.settled {
            self.settled.add(run.clone());
            self.known.extract_if(run.start.0..run.end.0, |_, _| true).for_each(drop);
        }
        for (offset, deliveries) in changes.returned.iter().filter(|(offset, _)| !self.settled.has(*offset)) {
            self.known.insert(offset.0, *deliveries);
        }
    }
}

/// What has happened and is not told.
#[derive(Debug, Default)]
pub(super) struct Untold {
    settled: RoaringTreemap,
    returned: BTreeMap<u64, u32>,
    delivered_until: u64,
    told_delivered_until: u64,
}

impl Untold {
    pub(super) fn settle(&mut self, range: Range<u64>) {
        if !self.returned.is_empty() {
            self.returned.extract_if(range.clone(), |_, _| true).for_each(drop);
        }
        self.settled.insert_range(range);
    }

    pub(super) fn give_back(&mut self, offset: u64, deliveries: u32) {
        self.returned.insert(offset, deliveries);
    }

    pub(super) fn deliver_until(&mut self, until: u64) {
        self.delivered_until = self.delivered_until.max(until);
    }

    pub(super) const fn delivered_until(&self) -> u64 {
        self.delivered_until
    }

    pub(super) fn take(&mut self) -> Option<LeaseChanges> {
        let has_delivered = self.delivered_until > self.told_delivered_until;
        if self.settled.is_empty() && self.returned.is_empty() && !has_delivered {
            return None;
        }
        self.told_delivered_until = self.delivered_until;
        let (settled, returned) = (std::mem::take(&mut self.settled), std::mem::take(&mut self.returned));
        Some(LeaseChanges {
            settled: runs_of(&settled).collect(),
            returned: returned.into_iter().map(|(offset, deliveries)| (QueueOffset(offset), deliveries)).collect(),
            delivered_until: QueueOffset(if has_delivered { self.delivered_until } else { 0 }),
        })
    }
}
