//! Who waits for messages of a lane: the message goes to one of them, so only as many are told as will take what is ready. Those of a higher
//! priority first, and of one priority whoever has waited longest: who has taken is last.
//!
//! **Always holds**: of those who were told and have not taken yet, each counts with what it wants. Whoever goes without having taken what
//! it was told of has the next told instead.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use parking_lot::Mutex;

use crate::cursor::lane::Lane;
use crate::cursor::waiters::Waiters;
use crate::group::mailbox::{Mailbox, Signal};

/// Who waits at a lane; dropped, it does no longer: once it has taken, if it was told.
#[derive(Debug)]
pub struct Taker {
    lane: Arc<Lane>,
    waiters: Arc<Waiters>,
    place: Place,
    credit: u32,
    in_order: bool,
}

/// Who is told, and for how much.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The connection.
    pub mailbox: Arc<Mailbox>,
    /// By which that knows it.
    pub number: u64,
    /// How many messages it will take.
    pub credit: u32,
    /// Higher ones are told first.
    pub priority: i32,
    /// Whether it takes in order: nothing while anybody has messages of the lane.
    pub in_order: bool,
}

/// In the order in which they are told: by priority, then as they came.
type Place = (Reverse<i32>, u64);

/// Those of a lane.
#[derive(Debug, Default)]
pub(crate) struct Takers {
    table: Mutex<Table>,
    /// Whether there may be any: looked at with every message.
    has_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Table {
    waiting: BTreeMap<Place, Wish>,
    /// The same, those that take in order.
    waiting_in_order: BTreeMap<Place, Wish>,
    /// What those want who were told and are still there.
    promised: u64,
    last_id: u64,
}

impl Takers {
    /// Tells those who are next, until what they all want is as much as is ready. `ready` says how much that is, and whether anybody has
    /// messages of the lane: who takes in order waits on then.
    pub(crate) fn tell(&self, ready: impl FnOnce() -> (u64, bool)) {
        // With the fence of who waits between registering and looking: one of the two sides always sees the other.
        fence(Ordering::SeqCst);
        if !self.has_any.load(Ordering::Relaxed) {
            return;
        }
        let (ready, is_held) = ready();
        self.tell_while(|promised| promised < ready, !is_held);
    }

    /// Whether anybody waits, or was told and is still there.
    pub(crate) fn is_any_here(&self) -> bool {
        let table = self.table.lock();
        table.has_any() || table.promised > 0
    }

    /// Tells all, for what is not a message.
    pub(crate) fn tell_all(&self) {
        self.tell_while(|_| true, true);
    }

    fn tell_while(&self, is_wanted: impl Fn(u64) -> bool, in_order_too: bool) {
        let mut told = Vec::new();
        {
            let mut table = self.table.lock();
            while is_wanted(table.promised)
                && let Some(wish) = table.take_next(in_order_too)
            {
                table.promised += u64::from(wish.credit);
                told.push(wish);
            }
            self.has_any.store(table.has_any(), Ordering::Relaxed);
        }
        for Wish { mailbox, number, .. } in told {
            // One whose connection is gone goes soon, and has the next told.
            mailbox.send(Signal::LeaseReady(number));
        }
    }
}

impl Table {
    fn has_any(&self) -> bool {
        !self.waiting.is_empty() || !self.waiting_in_order.is_empty()
    }

    fn of(&mut self, in_order: bool) -> &mut BTreeMap<Place, Wish> {
        if in_order { &mut self.waiting_in_order } else { &mut self.waiting }
    }

    /// Takes whoever is next.
    fn take_next(&mut self, in_order_too: bool) -> Option<Wish> {
        let first = self.waiting.first_key_value().map(|(place, _)| *place);
        let first_in_order = self.waiting_in_order.first_key_value().map(|(place, _)| *place);
        let in_order = match (first, first_in_order.filter(|_| in_order_too)) {
            (Some(one), Some(other)) => other < one,
            (_, other) => other.is_some(),
        };
        self.of(in_order).pop_first().map(|(_, wish)| wish)
    }
}

impl Taker {
    /// Has a connection told with `LeaseReady(number)` once messages may be taken, not for those of before: look after it.
    pub(crate) fn wait(lane: &Arc<Lane>, waiters: Arc<Waiters>, wish: Wish) -> Self {
        let (credit, in_order) = (wish.credit, wish.in_order);
        let place = waiters.at_lane(lane, || {
            let mut table = lane.takers.table.lock();
            table.last_id += 1;
            let place = (Reverse(wish.priority), table.last_id);
            table.of(in_order).insert(place, wish);
            lane.takers.has_any.store(true, Ordering::Relaxed);
            (place, true)
        });
        fence(Ordering::SeqCst);
        Self { lane: lane.clone(), waiters, place, credit, in_order }
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let was_told = self.waiters.at_lane(&self.lane, || {
            let mut table = self.lane.takers.table.lock();
            let was_told = table.of(self.in_order).remove(&self.place).is_none();
            if was_told {
                table.promised -= u64::from(self.credit);
            }
            (was_told, table.has_any())
        });
        if was_told {
            self.lane.tell();
        }
    }
}
