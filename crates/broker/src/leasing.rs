//! Messages handed out one by one: taken from lease cursors, read, and given up as dead letters.
//!
//! **Always holds**: a message is leased before it is read, so nobody else is given it meanwhile; one that is given up is among the dead
//! letters before it is settled, so that a crash in between makes a second copy and loses none.

mod hand_out;
mod leased;
mod wanted;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::limits::STAGED_SIZE_MAX;
use base::metric::Metrics;
use base::{GroupName, Monotonic, Now, QueueOffset, Refusal};
use storage::{ReadMode, StorageError, Store};

use crate::cursor::lane::Lane;
use crate::cursor::lease::{GiveBack, Grant, Owner};
use crate::error::internal;
use crate::options::Options;
use crate::retry::Retries;
use crate::running::Running;

use leased::{Leased, read_one};

pub use hand_out::{Given, HandOut};
pub use wanted::{Expiry, Holder, Wanted};

/// Grants of one millisecond that can be told apart.
const GRANTS_PER_MS: u64 = 1 << 20;

/// How long what could not be put among the dead letters stays away.
const DOOM_RETRY_MS: u64 = 1000;

/// By what a grant is known outside: the time it was made, and a number among those of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantName {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Below 2^20.
    pub number: u32,
}

impl GrantName {
    /// The owner of what was handed out by it.
    pub const fn owner(self) -> Owner {
        Owner::grant(self.bits())
    }

    /// The owner of what is to be given up of it: no consumer's.
    const fn doom(self) -> Owner {
        self.owner().doom()
    }

    /// Until the year 2109.
    const fn bits(self) -> u64 {
        (self.time_ms.wrapping_mul(GRANTS_PER_MS) | (self.number as u64 % GRANTS_PER_MS)) & (u64::MAX >> 2)
    }
}

/// Why a message is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoomReason {
    /// It was handed out too often.
    DeliveredTooOften,
    /// Its time is over.
    Expired,
    /// A consumer does not want it to come again.
    Rejected,
    /// There were too many.
    TooMany,
}

/// A message that is to be given up. Nobody else is given it until it is among the dead letters; dropped before, it is ready again.
#[derive(Debug)]
pub struct Doomed {
    pub(crate) lane: Arc<Lane>,
    pub(crate) owner: Owner,
    pub(crate) offset: QueueOffset,
    pub(crate) deliveries: u32,
    pub(crate) reason: DoomReason,
}

impl Drop for Doomed {
    fn drop(&mut self) {
        // Nothing happens where it is settled.
        self.give_back(None);
    }
}

impl Doomed {
    /// What a channel has and rejects; `None` if it does not have it.
    pub fn rejected(lane: &Arc<Lane>, channel: Owner, offset: QueueOffset) -> Option<Self> {
        let until_given_up = Grant::without_end(channel.doom());
        let is_held = lane.with(|cursor| cursor.renew(channel, offset, until_given_up));
        let owner = channel.doom();
        is_held.then(|| Self { lane: lane.clone(), owner, offset, deliveries: 1, reason: DoomReason::Rejected })
    }

    /// Takes it from its consumer's grant until it is given up, however long that takes. It is no part of the consumer's attempt any more: who
    /// asks again by that name does not get it back.
    fn take_from(&self, grant: Owner) {
        let until_given_up = Grant::without_end(self.owner);
        self.lane.with(|cursor| cursor.renew(grant, self.offset, until_given_up));
    }

    /// Some of what was rejected in a lane and could not be given up then.
    pub(crate) fn postponed(lane: &Arc<Lane>, owner: Owner, count_max: usize) -> Vec<Self> {
        let until_given_up = Grant::without_end(owner);
        let taken = lane.with(|cursor| {
            let held: Vec<_> = cursor.held_by(Owner::REJECTED).take(count_max).collect();
            held.iter().for_each(|offset| _ = cursor.renew(Owner::REJECTED, *offset, until_given_up));
            held
        });
        let doomed = |offset| Self { lane: lane.clone(), owner, offset, deliveries: 1, reason: DoomReason::Rejected };
        taken.into_iter().map(doomed).collect()
    }

    /// Stays away: it could not be given up. What was rejected does so until it is taken by `postponed`; else it is looked at again, and found
    /// to be over or too much, when it is ready after a while.
    pub(crate) fn postpone(&self, now: Monotonic) {
        if self.reason == DoomReason::Rejected {
            let until_given_up = Grant::without_end(Owner::REJECTED);
            self.lane.with(|cursor| cursor.renew(self.owner, self.offset, until_given_up));
        } else {
            self.give_back(Some(now.plus_ms(DOOM_RETRY_MS)));
        }
    }

    /// The whole record; `None` if it is gone. Waits for the disk.
    pub(crate) fn read(&self, store: &Store) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(queue) = self.lane.queue() else { return Ok(None) };
        let Some(entry) = queue.index.entry(self.offset).map_err(internal)? else { return Ok(None) };
        let leased = Leased { offset: self.offset, entry, deliveries: self.deliveries };
        let records = read_one(store, queue, leased).map_err(internal)?;
        Ok(records.and_then(|records| records.iter().next().flatten().map(<[u8]>::to_vec)))
    }

    fn give_back(&self, ready: Option<Monotonic>) {
        // Whoever rejected it has had it.
        let is_counted = self.reason == DoomReason::Rejected;
        self.lane.give_back(self.owner, self.offset, GiveBack { ready, is_counted });
    }
}

/// Hands messages out.
#[derive(Debug)]
pub struct Leasing {
    store: Arc<Store>,
    options: Arc<Options>,
    running: Arc<Running>,
    metrics: Arc<Metrics>,
    retries: Arc<Retries>,
    grants: AtomicU64,
}

impl Leasing {
    pub(crate) fn new(
        store: &Arc<Store>,
        (options, running): (&Arc<Options>, &Arc<Running>),
        metrics: &Arc<Metrics>,
        retries: &Arc<Retries>,
    ) -> Self {
        let (store, options, running) = (store.clone(), options.clone(), running.clone());
        let (metrics, retries) = (metrics.clone(), retries.clone());
        Self { store, options, running, metrics, retries, grants: AtomicU64::new(0) }
    }

    /// A name that no other grant of this process has, and hardly one of another.
    pub fn name_grant(&self, now: Now) -> GrantName {
        let number = self.grants.fetch_add(1, Ordering::Relaxed) % GRANTS_PER_MS;
        GrantName { time_ms: now.wall.0, number: number as u32 }
    }

    /// Whether the broker lets messages out.
    pub fn check_may_read(&self) -> Result<(), Refusal> {
        if self.running.permission().read {
            return Ok(());
        }
        Err(Refusal::NotPermitted(format!(
            "the broker [{}] pulling message is forbidden (broker.permission)",
            self.options.broker_name
        )))
    }

    /// Hands out what is wanted, as far as it is in memory. `false`: it has to be read where waiting is allowed, by `hand_out`.
    pub fn hand_out_cached(&self, hand_out: &mut HandOut, now: Now) -> Result<bool, Refusal> {
        self.go_on(hand_out, (ReadMode::IfCached, usize::MAX), now)
    }

    /// Hands out what is wanted, or goes on with it, up to `room` bytes: what it takes is counted before it is read. `false`: it goes on where
    /// there is room for `HandOut::wanted_size`. Waits for the disk.
    pub fn hand_out(&self, hand_out: &mut HandOut, room: usize, now: Now) -> Result<bool, Refusal> {
        self.go_on(hand_out, (ReadMode::MayWait, room), now)
    }

    fn go_on(&self, hand_out: &mut HandOut, bounds: (ReadMode, usize), now: Now) -> Result<bool, Refusal> {
        match hand_out.go_on(&self.store, bounds, now.monotonic) {
            Ok(()) => {
                if hand_out.count() > 0 {
                    self.metrics.fetch_hits.add(1);
                    self.metrics.messages_out.add(hand_out.count() as u64);
                    self.metrics.message_bytes_out.add(hand_out.size() as u64);
                } else {
                    self.metrics.fetch_misses.add(1);
                }
                Ok(true)
            }
            Err(StorageError::WouldBlock) => {
                self.metrics.fetch_cold.add(u64::from(bounds.0 == ReadMode::IfCached));
                Ok(false)
            }
            Err(error) => Err(internal(error)),
        }
    }

    /// Puts messages that were handed out too often among the dead letters of the group. What fails is told, and tried again after a while.
    /// Waits for the disk.
    pub fn give_up(&self, group: &GroupName, doomed: Vec<Doomed>, now: Now) {
        let mut failed = 0;
        for doomed in doomed {
            let Err(error) = self.give_up_one(group, &doomed, now) else { continue };
            doomed.postpone(now.monotonic);
            if failed == 0 {
                let offset = doomed.offset.0;
                tracing::warn!(%error, %group, offset, "a message cannot be put among the dead letters; it is tried again");
            }
            failed += 1;
        }
    }

    fn give_up_one(&self, group: &GroupName, doomed: &Doomed, now: Now) -> Result<(), Refusal> {
        if self.store.staged_size() >= STAGED_SIZE_MAX {
            return Err(Refusal::Busy("the log is behind".to_owned()));
        }
        if let Some(bytes) = doomed.read(&self.store)? {
            self.retries.bury(group, &bytes, doomed.deliveries, now)?;
        }
        doomed.lane.settle(doomed.owner, [doomed.offset]);
        Ok(())
    }
}
