//! Who has which messages of a lane, and until when.

use std::collections::{BTreeMap, HashMap};

use base::Monotonic;
use roaring::RoaringTreemap;

/// Leases end up to this much later than they should: those of one step are kept together.
const STEP_MS: u64 = 50;

/// Who holds leases: a channel, whose leases end with it, or a grant, which whoever names it may settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u64);

impl Owner {
    const CHANNEL: u64 = 1 << 63;

    /// A channel of a connection, by its number in this process.
    pub const fn channel(number: u32) -> Self {
        Self(Self::CHANNEL | number as u64)
    }

    /// One of 2^63 grants.
    pub const fn grant(number: u64) -> Self {
        Self(number & !Self::CHANNEL)
    }

    const fn is_channel(self) -> bool {
        self.0 & Self::CHANNEL != 0
    }
}

/// A message that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) owner: Owner,
    /// When it comes back; the end of time if it does not by itself.
    pub(super) deadline: Monotonic,
    /// How often it was handed out, this time too.
    pub(super) deliveries: u32,
}

impl Lease {
    fn step(&self) -> Option<u64> {
        (self.deadline.0 != u64::MAX).then(|| self.deadline.0.div_ceil(STEP_MS))
    }
}

/// The leases of a lane.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_offset: HashMap<u64, Lease>,
    by_step: BTreeMap<u64, RoaringTreemap>,
    by_channel: HashMap<Owner, RoaringTreemap>,
}

impl Leases {
    pub(super) fn len(&self) -> usize {
        self.by_offset.len()
    }

    /// Hands a message out that nobody has.
    pub(super) fn grant(&mut self, offset: u64, lease: Lease) {
        if let Some(step) = lease.step() {
            self.by_step.entry(step).or_default().insert(offset);
        }
        if lease.owner.is_channel() {
            self.by_channel.entry(lease.owner).or_default().insert(offset);
        }
        self.by_offset.insert(offset, lease);
    }

    /// Takes a message from its owner; `None` if that has no lease of it.
    pub(super) fn end(&mut self, offset: u64, owner: Owner) -> Option<Lease> {
        let lease = *self.by_offset.get(&offset).filter(|lease| lease.owner == owner)?;
        self.by_offset.remove(&offset);
        self.forget(offset, &lease);
        Some(lease)
    }

    /// Has a lease end at another time; whether its owner has one.
    pub(super) fn extend(&mut self, offset: u64, owner: Owner, deadline: Monotonic) -> bool {
        let Some(lease) = self.end(offset, owner) else { return false };
        self.grant(offset, Lease { deadline, ..lease });
        true
    }

    /// What a channel has in `range`, the lowest first.
    pub(super) fn of_channel(&self, owner: Owner, range: std::ops::Range<u64>) -> Vec<u64> {
        let Some(offsets) = self.by_channel.get(&owner) else { return Vec::new() };
        let mut found = offsets.iter();
        found.advance_to(range.start);
        found.take_while(|offset| *offset < range.end).collect()
    }

    /// Ends what has lasted long enough; gives the offsets and their leases, in order.
    pub(super) fn expire(&mut self, now: Monotonic) -> Vec<(u64, Lease)> {
        let mut expired = Vec::new();
        while let Some(step) = self.by_step.first_entry().filter(|step| step.key().saturating_mul(STEP_MS) <= now.0) {
            for offset in step.remove() {
                let Some(lease) = self.by_offset.remove(&offset) else { continue };
                self.forget(offset, &lease);
                expired.push((offset, lease));
            }
        }
        expired
    }

    /// When the next ends.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.by_step.first_key_value().map(|(step, _)| Monotonic(step.saturating_mul(STEP_MS)))
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Lease)> {
        self.by_offset.iter().map(|(offset, lease)| (*offset, lease))
    }

    fn forget(&mut self, offset: u64, lease: &Lease) {
        if let Some(step) = lease.step()
            && let Some(offsets) = self.by_step.get_mut(&step)
        {
            offsets.remove(offset);
            if offsets.is_empty() {
                self.by_step.remove(&step);
            }
        }
        if lease.owner.is_channel()
            && let Some(offsets) = self.by_channel.get_mut(&lease.owner)
        {
            offsets.remove(offset);
            if offsets.is_empty() {
                self.by_channel.remove(&lease.owner);
            }
        }
    }
}
