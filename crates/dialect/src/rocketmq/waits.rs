//! Requests of one connection that wait for messages, each until its deadline at the latest.
//!
//! **Always holds**: one that is ready goes on once there is room for its answer; one that was answered does not wait.

use std::collections::{BTreeSet, HashMap, VecDeque};

use base::Monotonic;
use base::limits::WAITING_FETCHES_PER_CONNECTION_MAX;
use broker::Broker;

/// Bytes of a request that waits, with its places in tables, beside what it says itself.
pub(super) const WAITING_SIZE: usize = 512;

/// Bytes that the waiting requests of a connection take at most: as many as it may have, with usual filters.
const SIZE_MAX: usize = 2 * WAITING_SIZE * WAITING_FETCHES_PER_CONNECTION_MAX;

/// One that waits.
struct Waiting<T> {
    request: T,
    deadline: Monotonic,
    size: usize,
}

/// Those of one kind.
pub(super) struct Waits<T> {
    /// By number. Boxed: of thousands of connections each has room for more than it has.
    waiting: HashMap<u64, Box<Waiting<T>>>,
    /// Bytes that these take.
    size: usize,
    /// When they have to be answered.
    deadlines: BTreeSet<(Monotonic, u64)>,
    /// Those that may find messages or whose time is over, by number. One may be there twice, or no longer wait.
    ready: VecDeque<u64>,
    last_number: u64,
}

impl<T> Default for Waits<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), size: 0, deadlines: BTreeSet::new(), ready: VecDeque::new(), last_number: 0 }
    }
}

impl<T> Waits<T> {
    /// Whether another one may wait,
    pub(super) fn has_place(&self) -> bool {
        self.waiting.len() < WAITING_FETCHES_PER_CONNECTION_MAX
    }

    /// and one of that many bytes.
    pub(super) const fn has_room(&self, size: usize) -> bool {
        self.size + size <= SIZE_MAX
    }

    /// The number of the next one.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Has one wait.
    pub(super) fn hold(&mut self, number: u64, request: T, (deadline, size): (Monotonic, usize), broker: &Broker) {
        self.size += size;
        self.waiting.insert(number, Box::new(Waiting { request, deadline, size }));
        self.deadlines.insert((deadline, number));
        broker.metrics().fetch_waiting.add(1);
    }

    /// It may find messages.
    pub(super) fn note_ready(&mut self, number: u64) {
        self.ready.push_back(number);
    }

    /// How many may go on.
    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Those that may go on and have to wait for something else.
    pub(super) fn each_ready(&mut self, mut act: impl FnMut(&mut T)) {
        for number in &self.ready {
            self.waiting.get_mut(number).into_iter().for_each(|waiting| act(&mut waiting.request));
        }
    }

    /// The next that may go on. It does not wait any more.
    pub(super) fn take_ready(&mut self, broker: &Broker) -> Option<T> {
        loop {
            let number = self.ready.pop_front()?;
            let Some(waiting) = self.waiting.remove(&number) else { continue };
            self.deadlines.remove(&(waiting.deadline, number));
            self.size -= waiting.size;
            broker.metrics().fetch_waiting.subtract(1);
            return Some(waiting.request);
        }
    }

    /// Those whose time is over are ready, and told so.
    pub(super) fn expire(&mut self, now: Monotonic, end: impl Fn(&mut T)) {
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            if let Some(waiting) = self.waiting.get_mut(&number) {
                end(&mut waiting.request);
                self.ready.push_back(number);
            }
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next of them is due for an answer.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Bytes that they take.
    pub(super) const fn size(&self) -> usize {
        self.size
    }

    /// The connection is gone.
    pub(super) fn clear(&mut self, broker: &Broker) {
        broker.metrics().fetch_waiting.subtract(self.waiting.len() as u64);
        self.waiting.clear();
        self.size = 0;
        self.deadlines.clear();
        self.ready.clear();
    }
}
