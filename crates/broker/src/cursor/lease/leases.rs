//! Who has which messages of a lane, and until when.
//!
//! Messages are handed out many at a time, so neighbours have equal leases: those of a [`Block`] of messages are held once, with a bit for
//! each message. One at random is found with one look at a table of blocks, in which the few leases of each lie.

use std::collections::BTreeSet;
use std::ops::Range;

use base::Monotonic;
use foldhash::HashMap;
use smallvec::SmallVec;

/// Leases end up to this much later than they should: those of one step are kept together.
const STEP_MS: u64 = 50;

/// Messages whose leases lie together, a bit for each.
const BLOCK: u64 = u64::BITS as u64;

/// Memory that was needed is given back when it is this many times what is.
const SPARE: usize = 8;

/// Who holds leases: a channel, whose leases end with it, or a grant, which whoever names it may settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u64);

impl Owner {
    const CHANNEL: u64 = 1 << 63;
    /// What no grant of a consumer has.
    const DOOM: u64 = 1 << 62;

    /// What was rejected for good and waits for its dead letter: listed as a channel's is, and no channel's.
    pub(crate) const REJECTED: Self = Self(Self::CHANNEL | 1 << 32);

    /// A channel of a connection, by its number in this process.
    pub const fn channel(number: u32) -> Self {
        Self(Self::CHANNEL | number as u64)
    }

    /// One of 2^63 grants.
    pub const fn grant(number: u64) -> Self {
        Self(number & !Self::CHANNEL)
    }

    /// Another one, of what is to be given up of what this one had: no consumer's.
    pub(crate) const fn doom(self) -> Self {
        Self::grant(self.0 & (Self::DOOM - 1) | Self::DOOM)
    }

    const fn is_channel(self) -> bool {
        self.0 & Self::CHANNEL != 0
    }
}

/// A message that is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) owner: Owner,
    /// When it comes back.
    pub(super) until: Step,
    /// How often it was handed out, this time too.
    pub(super) deliveries: u32,
}

/// A time at which leases end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step(u64);

impl Step {
    const NEVER: Self = Self(u64::MAX);

    /// The first at or behind a deadline; never if there is none.
    pub(super) fn of(deadline: Option<Monotonic>) -> Self {
        deadline.map_or(Self::NEVER, |deadline| Self(deadline.0.div_ceil(STEP_MS)))
    }

    const fn time(self) -> Monotonic {
        Monotonic(self.0.saturating_mul(STEP_MS))
    }
}

/// Messages of a block with equal leases.
#[derive(Debug)]
struct Bunch {
    /// Bits of the messages; there is one.
    held: u64,
    lease: Lease,
}

impl Bunch {
    const fn offsets(&self, number: u64) -> Offsets {
        Offsets { number, held: self.held }
    }
}

/// The messages of a block whose bits are set, the lowest first.
pub(super) struct Offsets {
    number: u64,
    held: u64,
}

impl Iterator for Offsets {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let bit = u64::from(self.held.trailing_zeros());
        self.held &= self.held.checked_sub(1)?;
        Some(self.number * BLOCK + bit)
    }
}

/// Leases of neighbours: no two bunches have the same lease, or a message in common. There are mostly one or two, which lie inside the table.
type Block = SmallVec<[Bunch; 2]>;

/// The leases of a lane.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// Blocks in which there are leases, by number.
    blocks: HashMap<u64, Block>,
    count: usize,
    /// Blocks in which leases end at a time.
    by_step: BTreeSet<(Step, u64)>,
    /// Blocks in which a channel has leases.
    by_channel: BTreeSet<(Owner, u64)>,
}

impl Leases {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Hands a message out that nobody has.
    pub(super) fn grant(&mut self, offset: u64, lease: Lease) {
        let (number, bit) = (offset / BLOCK, 1 << (offset % BLOCK));
        self.count += 1;
        let block = self.blocks.entry(number).or_default();
        if let Some(bunch) = block.iter_mut().rev().find(|bunch| bunch.lease == lease) {
            bunch.held |= bit;
            return;
        }
        block.push(Bunch { held: bit, lease });
        if lease.until != Step::NEVER {
            self.by_step.insert((lease.until, number));
        }
        if lease.owner.is_channel() {
            self.by_channel.insert((lease.owner, number));
        }
    }

    /// Takes a message from its owner; `None` if that has no lease of it.
    pub(super) fn end(&mut self, offset: u64, owner: Owner) -> Option<Lease> {
        let (number, bit) = (offset / BLOCK, 1 << (offset % BLOCK));
        let block = self.blocks.get_mut(&number)?;
        let (place, bunch) = block.iter_mut().enumerate().find(|(_, bunch)| bunch.held & bit != 0)?;
        let lease = bunch.lease;
        if lease.owner != owner {
            return None;
        }
        if bunch.held == bit {
            self.remove(number, place);
        } else {
            bunch.held &= !bit;
            self.count -= 1;
        }
        Some(lease)
    }

    /// What a channel has, the lowest first.
    pub(super) fn of_channel(&self, owner: Owner) -> impl Iterator<Item = u64> {
        let blocks = self.by_channel.range((owner, 0)..=(owner, u64::MAX));
        blocks.flat_map(move |(_, number)| {
            let bunches = self.blocks.get(number).into_iter().flatten().filter(|bunch| bunch.lease.owner == owner);
            let held = bunches.fold(0, |held, bunch| held | bunch.held);
            Offsets { number: *number, held }
        })
    }

    /// Ends some leases of a channel; gives the offsets and their lease, `None` if it has none any more.
    pub(super) fn end_some_of(&mut self, owner: Owner) -> Option<(Offsets, Lease)> {
        let (_, number) = *self.by_channel.range((owner, 0)..=(owner, u64::MAX)).next()?;
        self.end_first_in(number, |lease| lease.owner == owner)
    }

    /// Ends some that have lasted long enough, in order of their ends; gives the offsets and their lease, `None` if all have longer.
    pub(super) fn end_some_expired(&mut self, now: Monotonic) -> Option<(Offsets, Lease)> {
        let (until, number) = *self.by_step.first().filter(|(until, _)| until.time() <= now)?;
        self.end_first_in(number, |lease| lease.until == until)
    }

    /// Ends all leases of messages in a range.
    pub(super) fn drop_in(&mut self, range: &Range<u64>) {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let numbers: Vec<_> = if blocks.end - blocks.start < self.blocks.len() as u64 {
            blocks.filter(|number| self.blocks.contains_key(number)).collect()
        } else {
            self.blocks.keys().copied().filter(|number| blocks.contains(number)).collect()
        };
        for number in numbers {
            let bunches = self.blocks.get(&number).into_iter().flatten();
            let held = bunches.flat_map(|bunch| bunch.offsets(number).map(|offset| (offset, bunch.lease.owner)));
            let held: Vec<_> = held.filter(|(offset, _)| range.contains(offset)).collect();
            for (offset, owner) in held {
                self.end(offset, owner);
            }
        }
    }

    /// When the next ends.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.by_step.first().map(|(step, _)| step.time())
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Lease)> {
        let bunches = self.blocks.iter().flat_map(|(number, block)| block.iter().map(|bunch| (*number, bunch)));
        bunches.flat_map(|(number, bunch)| bunch.offsets(number).map(|offset| (offset, &bunch.lease)))
    }

    fn end_first_in(&mut self, number: u64, is_it: impl Fn(&Lease) -> bool) -> Option<(Offsets, Lease)> {
        let place = self.blocks.get(&number)?.iter().position(|bunch| is_it(&bunch.lease))?;
        let bunch = self.remove(number, place)?;
        Some((bunch.offsets(number), bunch.lease))
    }

    /// Takes a bunch out of its block.
    fn remove(&mut self, number: u64, place: usize) -> Option<Bunch> {
        let block = self.blocks.get_mut(&number)?;
        let bunch = block.swap_remove(place);
        self.count -= bunch.held.count_ones() as usize;
        let Lease { owner, until, .. } = bunch.lease;
        if until != Step::NEVER && block.iter().all(|other| other.lease.until != until) {
            self.by_step.remove(&(until, number));
        }
        if owner.is_channel() && block.iter().all(|other| other.lease.owner != owner) {
            self.by_channel.remove(&(owner, number));
        }
        if block.is_empty() {
            self.blocks.remove(&number);
        } else if block.capacity() > SPARE * block.len() {
            block.shrink_to_fit();
        }
        Some(bunch)
    }
}
