//! Fetches that wait for a queue's next message, and the lanes of the queue at which somebody waits.
//!
//! Offsets are each group's own, and so is each of its members' way through a queue: every message is work for all that wait, and all
//! are woken. **Always holds**: one that registered and then found nothing behind its offset is signalled by the next message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use storage::QueueListener;

use crate::cursor::lane::Lane;
use crate::group::mailbox::{Mailbox, Signal};

/// A fetch that waits; dropped, it does no longer.
#[derive(Debug)]
pub struct Waiter {
    waiters: Arc<Waiters>,
    id: u64,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.table.lock().waiting.remove(&self.id);
    }
}

/// Who waits at one queue. Any of them comes and goes in the same time, however many there are.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    table: Mutex<Table>,
    /// Whether there may be any: looked at with every message.
    has_any: AtomicBool,
    /// Lanes of the queue at which somebody waits.
    lanes: Mutex<BTreeMap<u64, Arc<Lane>>>,
    has_lanes: AtomicBool,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order they came: the connection, and the number by which it knows the fetch.
    waiting: LinkedHashMap<u64, (Arc<Mailbox>, u64)>,
    last_id: u64,
}

impl Waiters {
    pub(crate) fn add(self: Arc<Self>, mailbox: Arc<Mailbox>, number: u64) -> Waiter {
        let id = {
            let mut table = self.table.lock();
            table.last_id += 1;
            let id = table.last_id;
            table.waiting.insert(id, (mailbox, number));
            self.has_any.store(true, Ordering::Relaxed);
            id
        };
        // Before the caller looks at the queue's end: see `QueueIndex::listener`.
        fence(Ordering::SeqCst);
        Waiter { waiters: self, id }
    }

    /// Has somebody come or go at a lane of the queue: `act` says whether anybody waits there then.
    pub(crate) fn at_lane<T>(&self, lane: &Arc<Lane>, act: impl FnOnce() -> (T, bool)) -> T {
        let mut lanes = self.lanes.lock();
        let (outcome, is_waited_at) = act();
        if is_waited_at {
            lanes.entry(lane.number).or_insert_with(|| lane.clone());
        } else {
            lanes.remove(&lane.number);
        }
        self.has_lanes.store(!lanes.is_empty(), Ordering::Relaxed);
        outcome
    }

    /// Has all look again that wait here, or at lanes of the queue.
    pub(crate) fn tell_all(&self) {
        self.wake_all();
        let lanes: Vec<_> = self.lanes.lock().values().cloned().collect();
        lanes.iter().for_each(|lane| lane.takers.tell_all());
    }

    /// Signals all, those first that have waited longest.
    pub(crate) fn wake_all(&self) {
        if !self.has_any.load(Ordering::Relaxed) {
            return;
        }
        let waiting: Vec<_> = {
            let mut table = self.table.lock();
            self.has_any.store(false, Ordering::Relaxed);
            table.waiting.drain().map(|(_, waiting)| waiting).collect()
        };
        for (mailbox, number) in waiting {
            mailbox.send(Signal::FetchReady(number));
        }
    }
}

impl QueueListener for Waiters {
    fn entries_added(&self) {
        self.wake_all();
        if self.has_lanes.load(Ordering::Relaxed) {
            self.lanes.lock().values().for_each(|lane| lane.tell());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn who_waits_longest_is_signalled_first_and_who_left_is_not() {
        let mailbox = Mailbox::new(Waker::noop().clone());
        let waiters = Arc::<Waiters>::default();
        let mut waiting: Vec<_> = (0..20).map(|number| waiters.clone().add(mailbox.clone(), number)).collect();
        drop(waiting.remove(3));
        waiters.wake_all();
        let expected: Vec<_> = (0..20).filter(|number| *number != 3).map(Signal::FetchReady).collect();
        assert_eq!(mailbox.take(), expected);
        waiters.wake_all();
        assert_eq!(mailbox.take(), [], "each is signalled once");
        drop(waiting);
    }

    #[test]
    fn thousands_leave_as_fast_as_they_came() {
        let mailbox = Mailbox::new(Waker::noop().clone());
        let waiters = Arc::<Waiters>::default();
        let mut waiting: Vec<_> = (0..100_000).map(|number| waiters.clone().add(mailbox.clone(), number)).collect();
        let began = std::time::Instant::now();
        // The last that came first: a list would be searched from end to end.
        while waiting.pop().is_some() {}
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
        waiters.wake_all();
        assert_eq!(mailbox.take(), []);
    }
}
