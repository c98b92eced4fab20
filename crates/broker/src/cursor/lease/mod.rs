//! Lease cursors: how far a group has come in a lane whose messages are handed out one by one, and settled or given back in any order.
//!
//! Of a lane's messages each is *settled*, *leased* to an owner, *delayed* (given back, for later) or *ready*: given back, or never handed
//! out. **Always holds**: nobody else is given what is leased; what is not settled is handed out again until it is.
//!
//! **On a crash** nothing is leased any more. What was settled, given back and handed out is told to the log as a [`LeaseChange`], gathered;
//! what was not told counts as it was before: a settled message may come again, and none that is not settled is lost. Messages that were
//! handed out before count as redelivered.
//!
//! Pure: who calls says what time it is and where the lane ends, and knows the messages.

mod leases;
mod untold;
mod weight;

use std::collections::BTreeMap;
use std::ops::Range;

use base::{Monotonic, QueueOffset};
use format::lease::{LeaseChange, LeaseState, Settled, runs_of};
use roaring::RoaringTreemap;

pub use leases::Owner;
use leases::{Lease, Leases, Step};
use untold::Untold;
use weight::Weight;

/// How messages are handed out.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// To whom.
    pub owner: Owner,
    /// When they come back; `None`: not by themselves.
    pub deadline: Option<Monotonic>,
}

impl Grant {
    /// For as long as the owner does nothing about it.
    pub const fn without_end(owner: Owner) -> Self {
        Self { owner, deadline: None }
    }
}

/// What becomes of a ready message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is handed out.
    Lease,
    /// It is settled: nobody wants it.
    Settle,
    /// It stays ready, and so do all behind it.
    Stop,
}

impl From<bool> for Verdict {
    fn from(is_taken: bool) -> Self {
        if is_taken { Self::Lease } else { Self::Stop }
    }
}

/// How a message is given back.
#[derive(Clone, Copy, Debug)]
pub struct GiveBack {
    /// When it is ready again; `None`: at once.
    pub ready: Option<Monotonic>,
    /// Whether it counts as delivered.
    pub is_counted: bool,
}

/// How many messages are what. Those that are settled are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// May be handed out.
    pub ready: u64,
    /// Are handed out.
    pub leased: u64,
    /// Were given back for later.
    pub delayed: u64,
}

impl LeaseCounts {
    /// Those of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            ready: self.ready + other.ready,
            leased: self.leased + other.leased,
            delayed: self.delayed + other.delayed,
        }
    }
}

/// A group's cursor in a lane.
#[derive(Debug, Default)]
pub struct LeaseCursor {
    settled: Settled,
    /// The first that was not looked at since the cursor was opened: all ready ones below are in `returned`.
    next: u64,
    /// How many are settled from there on.
    settled_ahead: u64,
    /// Below this, messages were handed out before the cursor was opened.
    redelivered_below: u64,
    /// Given back and ready.
    returned: RoaringTreemap,
    /// How often those were handed out that are ready, where that is not once.
    known: BTreeMap<u64, u32>,
    delayed: BTreeMap<(Monotonic, u64), u32>,
    leases: Leases,
    /// What the log was not told yet.
    untold: Untold,
    /// Where a limit of bytes asks for it.
    weight: Option<Box<Weight>>,
}

impl LeaseCursor {
    /// Goes on where a state ends.
    pub fn open(state: LeaseState) -> Self {
        let LeaseState { settled, known, delivered_until } = state;
        let next = settled.floor();
        Self {
            settled_ahead: settled.count_from(next),
            next: next.0,
            settled,
            redelivered_below: delivered_until.0,
            untold: Untold::knowing(known.keys()),
            known,
            ..Self::default()
        }
    }

    /// The first message that is not settled.
    pub const fn floor(&self) -> QueueOffset {
        self.settled.floor()
    }

    /// How many messages of a lane that ends at `end` are what.
    pub fn counts(&self, end: QueueOffset) -> LeaseCounts {
        LeaseCounts {
            ready: self.returned.len() + end.0.saturating_sub(self.next).saturating_sub(self.settled_ahead),
            leased: self.leases.len() as u64,
            delayed: self.delayed.len() as u64,
        }
    }

    /// From here on the bytes of what is ready are known, once they are weighed. What was weighed before is forgotten.
    pub fn begin_weight(&mut self) {
        self.weight = Some(Box::new(Weight::begin(self.next, &self.returned)));
    }

    /// Weighs what is ready in a lane that ends at `end`: bytes, by what `size_of` says each message has. After an error it goes on where it
    /// stood when it is called again.
    pub fn weigh<E>(
        &mut self,
        end: QueueOffset,
        mut size_of: impl FnMut(QueueOffset) -> Result<u64, E>,
    ) -> Result<(), E> {
        let Some(weight) = &mut self.weight else { return Ok(()) };
        weight.weigh_noted(self.next, |offset| size_of(QueueOffset(offset)))?;
        while weight.until < end.0 {
            if !self.settled.has(QueueOffset(weight.until)) {
                weight.size += size_of(QueueOffset(weight.until))?;
            }
            weight.until += 1;
        }
        Ok(())
    }

    /// Bytes of what is ready, as far as it was weighed.
    pub fn weighed(&self) -> u64 {
        self.weight.as_ref().map_or(0, |weight| weight.size)
    }

    /// Up to where what was never handed out is weighed; `None` where nothing is.
    pub fn weighed_until(&self) -> Option<QueueOffset> {
        self.weight.as_ref().map(|weight| QueueOffset(weight.until.max(self.next)))
    }

    fn begin_weight_again(&mut self) {
        if self.weight.is_some() {
            self.begin_weight();
        }
    }

    /// Hands ready messages out, the lowest first, until `judge` stops, which is told how often each was handed out before. Gives how
    /// many.
    pub fn take<V: Into<Verdict>>(
        &mut self,
        end: QueueOffset,
        grant: Grant,
        mut judge: impl FnMut(QueueOffset, u32) -> V,
    ) -> usize {
        let (mut count, until) = (0, Step::of(grant.deadline));
        while let Some((offset, deliveries)) = self.first_ready(end) {
            let verdict = judge(QueueOffset(offset), deliveries).into();
            if verdict == Verdict::Stop {
                break;
            }
            self.pass(offset);
            if verdict == Verdict::Settle {
                self.note_settled(offset..offset + 1);
                continue;
            }
            self.leases.grant(offset, Lease { owner: grant.owner, until, deliveries: deliveries.saturating_add(1) });
            self.untold.deliver_until(offset + 1);
            if deliveries == 0 {
                self.untold.hand_out(offset);
            }
            count += 1;
        }
        count
    }

    /// The lowest ready message, and how often it was handed out.
    pub fn lowest_ready(&mut self, end: QueueOffset) -> Option<(QueueOffset, u32)> {
        self.first_ready(end).map(|(offset, deliveries)| (QueueOffset(offset), deliveries))
    }

    /// Settles the lowest ready message: it has become too old, or one too many.
    pub fn settle_lowest_ready(&mut self, end: QueueOffset) -> Option<QueueOffset> {
        let (offset, _) = self.first_ready(end)?;
        self.pass(offset);
        self.note_settled(offset..offset + 1);
        Some(QueueOffset(offset))
    }

    /// Settles what the owner has of `offsets`; gives how many that are.
    pub fn settle(&mut self, owner: Owner, offsets: impl IntoIterator<Item = QueueOffset>) -> u64 {
        let held = offsets.into_iter().filter(|offset| {
            let is_held = self.leases.end(offset.0, owner).is_some();
            if is_held {
                self.settled.add(*offset..offset.after(1));
                self.untold.settle(offset.0..offset.0 + 1);
            }
            is_held
        });
        held.count() as u64
    }

    /// What a channel has, the lowest first.
    pub fn held_by(&self, channel: Owner) -> impl Iterator<Item = QueueOffset> {
        self.leases.of_channel(channel).map(QueueOffset)
    }

    /// Hands a message that its owner has out anew, for as long as `grant` says; whether the owner had it. Not counted as a delivery.
    pub fn renew(&mut self, owner: Owner, offset: QueueOffset, grant: Grant) -> bool {
        let Some(lease) = self.leases.end(offset.0, owner) else { return false };
        self.leases.grant(offset.0, Lease { owner: grant.owner, until: Step::of(grant.deadline), ..lease });
        true
    }

    /// Takes a message back from its owner; whether that had it.
    pub fn give_back(&mut self, owner: Owner, offset: QueueOffset, how: GiveBack) -> bool {
        let Some(lease) = self.leases.end(offset.0, owner) else { return false };
        self.take_back(offset.0, lease.deliveries - u32::from(!how.is_counted), how.ready);
        true
    }

    /// How many messages these owners have. All leases are looked at.
    pub fn count_of(&self, owners: &[Owner]) -> usize {
        self.leases.iter().filter(|(_, lease)| owners.contains(&lease.owner)).count()
    }

    /// Takes back all of a grant, which does not count as delivered: its answer was lost. Gives how many that are.
    pub fn hand_back(&mut self, grant: Owner) -> usize {
        let held: Vec<_> =
            self.leases.iter().filter(|(_, lease)| lease.owner == grant).map(|(offset, _)| offset).collect();
        for offset in &held {
            self.give_back(grant, QueueOffset(*offset), GiveBack { ready: None, is_counted: false });
        }
        held.len()
    }

    /// Takes back all that a channel has: it is closed. Gives how many that are.
    pub fn release(&mut self, channel: Owner) -> usize {
        let count = self.leases.len();
        while let Some((offsets, lease)) = self.leases.end_some_of(channel) {
            offsets.for_each(|offset| self.take_back(offset, lease.deliveries, None));
        }
        count - self.leases.len()
    }

    /// Takes back what was leased for long enough, and has ready what was delayed for long enough; gives how many that are.
    pub fn expire(&mut self, now: Monotonic) -> usize {
        let mut count = self.leases.len();
        while let Some((offsets, lease)) = self.leases.end_some_expired(now) {
            offsets.for_each(|offset| self.take_back(offset, lease.deliveries, None));
        }
        count -= self.leases.len();
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, offset), deliveries) = first.remove_entry();
            self.note_ready(offset, deliveries);
            count += 1;
        }
        count
    }

    /// When there is something to expire.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let delayed = self.delayed.first_key_value().map(|((ready, _), _)| *ready);
        self.leases.next_deadline().into_iter().chain(delayed).min()
    }

    /// Settles all that is ready; gives how many that are.
    pub fn purge(&mut self, end: QueueOffset) -> u64 {
        let ready = self.counts(end).ready;
        for run in runs_of(&std::mem::take(&mut self.returned)) {
            self.known.extract_if(run.start.0..run.end.0, |_, _| true).for_each(drop);
            self.note_settled(run.start.0..run.end.0);
        }
        if end.0 > self.next {
            self.note_settled(self.next..end.0);
            self.next = end.0;
            self.settled_ahead = self.settled.count_from(end);
            self.known = self.known.split_off(&end.0);
        }
        self.begin_weight_again();
        ready
    }

    /// Settles all below `first`, whoever has it: the messages are gone.
    pub fn forget_before(&mut self, first: QueueOffset) {
        if first <= self.settled.floor() {
            return;
        }
        self.drop_all_in(0..first.0);
        self.note_settled(self.settled.floor().0..first.0);
        if first.0 > self.next {
            self.next = first.0;
            self.settled_ahead = self.settled.count_from(first);
        }
        self.begin_weight_again();
    }

    /// Takes in what the log tells of a cursor that somebody else works with: what is settled there is nobody's here.
    pub fn learn(&mut self, change: &LeaseChange) {
        for (start, end) in std::iter::once((self.settled.floor().0, change.floor())).chain(change.runs()) {
            if start < end {
                self.settled.add(QueueOffset(start)..QueueOffset(end));
                self.drop_all_in(start..end);
            }
        }
        for (offset, deliveries) in change.known().filter(|(offset, _)| !self.settled.has(QueueOffset(*offset))) {
            self.untold.know(offset);
            if offset >= self.next || self.returned.contains(offset) {
                self.known.insert(offset, deliveries);
            }
        }
        self.redelivered_below = self.redelivered_below.max(change.delivered_until());
        self.next = self.next.max(self.settled.floor().0);
        self.settled_ahead = self.settled.count_from(QueueOffset(self.next));
        self.begin_weight_again();
    }

    /// Whether something has happened that was not gathered.
    pub fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }

    /// What has happened since this was called last, for the log; `None` if nothing has.
    pub fn gather(&mut self) -> Option<LeaseChange> {
        self.untold.take(self.settled.floor())
    }

    /// All that the log has been told, or will be, for a snapshot.
    pub fn state(&self) -> LeaseState {
        let delayed = self.delayed.iter().map(|((_, offset), deliveries)| (*offset, *deliveries));
        let leased = self.leases.iter().map(|(offset, lease)| (offset, lease.deliveries));
        let known = self.known.iter().map(|(offset, deliveries)| (*offset, *deliveries));
        let counts = known.chain(delayed).chain(leased);
        LeaseState {
            settled: self.settled.clone(),
            known: counts.filter(|(_, deliveries)| *deliveries != 1).collect(),
            delivered_until: QueueOffset(self.redelivered_below.max(self.untold.delivered_until())),
        }
    }

    /// The lowest ready message, and how often it was handed out.
    fn first_ready(&mut self, end: QueueOffset) -> Option<(u64, u32)> {
        if let Some(offset) = self.returned.min() {
            return Some((offset, self.known.get(&offset).copied().unwrap_or(1)));
        }
        while self.settled_ahead > 0 && self.next < end.0 && self.settled.has(QueueOffset(self.next)) {
            self.settled_ahead -= 1;
            self.next += 1;
        }
        let offset = (self.next < end.0).then_some(self.next)?;
        let known = if self.known.is_empty() { None } else { self.known.get(&offset).copied() };
        Some((offset, known.unwrap_or(u32::from(offset < self.redelivered_below))))
    }

    /// The lowest ready message is not ready any more.
    fn pass(&mut self, offset: u64) {
        if let Some(weight) = &mut self.weight {
            weight.note_taken(offset);
        }
        if offset == self.next {
            self.next += 1;
        } else {
            self.returned.remove(offset);
        }
        if !self.known.is_empty() {
            self.known.remove(&offset);
        }
    }

    /// A message that was handed out before is ready.
    fn note_ready(&mut self, offset: u64, deliveries: u32) {
        self.returned.insert(offset);
        if let Some(weight) = &mut self.weight {
            weight.note_ready(offset);
        }
        if deliveries != 1 {
            self.known.insert(offset, deliveries);
        }
    }

    /// Nobody has a message of the range any more, and none comes back.
    fn drop_all_in(&mut self, range: Range<u64>) {
        self.leases.drop_in(&range);
        self.returned.remove_range(range.clone());
        self.known.extract_if(range.clone(), |_, _| true).for_each(drop);
        self.delayed.retain(|(_, offset), _| !range.contains(offset));
    }

    fn take_back(&mut self, offset: u64, deliveries: u32, ready: Option<Monotonic>) {
        self.untold.give_back(offset, deliveries);
        match ready {
            Some(ready) => drop(self.delayed.insert((ready, offset), deliveries)),
            None => self.note_ready(offset, deliveries),
        }
    }

    fn note_settled(&mut self, range: Range<u64>) {
        self.settled.add(QueueOffset(range.start)..QueueOffset(range.end));
        self.untold.settle(range);
    }
}

#[cfg(test)]
mod tests;
