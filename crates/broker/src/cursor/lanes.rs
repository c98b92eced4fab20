//! Every lease cursor: by topic and group, and queue.
//!
//! What has changed of them gathers, and goes into the log with committed offsets (`offset/keep.rs`). **Always holds**: what the log tells
//! of a lane was so when it was told, and what is behind a queue's end is not settled.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use base::limits::LANES_MAX;
use base::{Monotonic, QueueOffset, Refusal};
use format::lease::{LeaseState, Settled};
use format::state::StateChange;
use format::state_tables::lease_changes;
use parking_lot::Mutex;

use crate::cursor::committed::key;
use crate::cursor::lane::{Lane, Place};
use crate::state::LeaseTable;

/// What the log does not have yet.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    pub(super) lanes: Vec<Arc<Lane>>,
}

/// Which lane has something to expire when; each is there once.
pub(super) type Expiry = BTreeMap<(Monotonic, u64), Weak<Lane>>;

/// By `topic@group`, then queue.
type Table = HashMap<Arc<str>, BTreeMap<u32, Arc<Lane>>>;

/// The lanes.
#[derive(Debug, Default)]
pub struct Lanes {
    table: Mutex<Table>,
    unkept: Arc<Mutex<Unkept>>,
    expiry: Arc<Mutex<Expiry>>,
    last_number: AtomicU64,
    /// How many there are.
    count: AtomicUsize,
}

impl Lanes {
    /// What a start knows. `end_of` tells where a queue of a topic ends, if that counts: of what is said to be behind it, nothing is known.
    pub(crate) fn open(table: LeaseTable, end_of: impl Fn(&str, u32) -> Option<QueueOffset>) -> Self {
        let lanes = Self::default();
        for (of, queues) in table {
            let Some((topic, _)) = of.split_once('@') else { continue };
            for (queue, mut state) in queues {
                let was = state.clone();
                end_of(topic, queue).into_iter().for_each(|end| state.cut(end));
                let is_whole = state != was;
                if is_whole {
                    tracing::warn!(
                        of,
                        queue,
                        "the queue ends before what was settled in it: messages are gone from its end, settled or not, or their entries are: those are made \
                         again from the log if the folder sluice/queues (of topics: consumequeue) is removed with the broker stopped"
                    );
                }
                lanes.put(&of, queue, state, is_whole);
            }
        }
        lanes
    }

    /// A group's cursor in a queue, if it has one.
    pub fn lane(&self, topic: &str, group: &str, queue: u32) -> Option<Arc<Lane>> {
        self.table.lock().get(&*key(topic, group))?.get(&queue).cloned()
    }

    /// The same at its place; it is made, with all settled below `floor`, if it is not there.
    pub(crate) fn lane_at(
        &self,
        topic: &str,
        group: &str,
        place: Place,
        floor: QueueOffset,
    ) -> Result<Arc<Lane>, Refusal> {
        let (of, queue) = (key(topic, group), place.queue.id().0);
        let mut table = self.table.lock();
        let known = table.get(&*of).and_then(|queues| queues.get(&queue)).cloned();
        let known = known.filter(|lane| {
            // A queue that its topic lost and got again begins anew.
            let is_the_one = lane.fits(&place.queue);
            if !is_the_one {
                lane.forget();
            }
            is_the_one
        });
        let lane = match known {
            Some(known) => known,
            None if self.count.load(Ordering::Relaxed) >= LANES_MAX => return Err(too_many_lanes()),
            None => self.put_into(&mut table, &of, queue, state_from(floor), true),
        };
        lane.put_at(place);
        Ok(lane)
    }

    /// Has a group go on at `floor` in a queue, whatever it has done there, if it has a cursor there.
    pub(crate) fn reset(&self, topic: &str, group: &str, queue: u32, floor: QueueOffset) {
        if let Some(lane) = self.lane(topic, group, queue) {
            lane.reset(state_from(floor));
        }
    }

    /// Has lanes settle what lies below committed offsets, among some changes, that were put elsewhere.
    pub(crate) fn follow_commits(&self, changes: &[StateChange]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for change in changes {
            let StateChange::Offsets { of, offsets, .. } = change else { continue };
            let lanes: Vec<_> = {
                let table = self.table.lock();
                let Some(queues) = table.get(&**of) else { continue };
                offsets.keys().filter_map(|queue| queues.get(queue).cloned()).collect()
            };
            lanes.iter().for_each(Lane::follow_commit);
        }
    }

    /// Ends leases that have lasted long enough. Gives when it is to be done again, if anything is leased.
    pub fn expire(&self, now: Monotonic) -> Option<Monotonic> {
        loop {
            let due = {
                let mut expiry = self.expiry.lock();
                match expiry.first_entry() {
                    None => return None,
                    Some(first) if first.key().0 > now => return Some(first.key().0),
                    Some(first) => first.remove(),
                }
            };
            due.upgrade().into_iter().for_each(|lane| lane.expire(now));
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Lane>> {
        self.table.lock().values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Groups with lanes in a topic, and topics with lanes of a group, as `topic@group`, sorted.
    pub(crate) fn of(&self, is_meant: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let table = self.table.lock();
        let is_meant = |of: &&Arc<str>| of.split_once('@').is_some_and(|(topic, group)| is_meant(topic, group));
        let mut meant: Vec<_> = table.keys().filter(is_meant).map(|of| of.to_string()).collect();
        meant.sort_unstable();
        meant
    }

    /// Forgets lanes, as the log is told by whoever calls this.
    pub(crate) fn forget(&self, of: &str) {
        let forgotten = self.table.lock().remove(of);
        for lane in forgotten.into_iter().flat_map(BTreeMap::into_values) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            lane.forget();
        }
    }

    /// Makes a change that a slave's master made.
    pub(crate) fn follow(&self, change: StateChange) {
        match change {
            StateChange::LeasesRemoved { of } => self.forget(&of),
            StateChange::Leases { of, queue, replaces, change } => {
                let mut table = self.table.lock();
                let known = table.get(&*of).and_then(|queues| queues.get(&queue)).cloned();
                match known.filter(|_| !replaces) {
                    Some(lane) => lane.learn(&change),
                    None => {
                        let mut state = LeaseState::default();
                        state.apply(&change);
                        drop(self.put_into(&mut table, &of, queue, state, false));
                    }
                }
            }
            _ => {}
        }
    }

    /// All there is.
    pub(crate) fn table(&self) -> LeaseTable {
        let mut table = LeaseTable::new();
        for lane in self.all() {
            table.entry(lane.of.to_string()).or_default().insert(lane.queue_id, lane.state());
        }
        table
    }

    /// Changes that lead to all there is, sorted.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        lease_changes(&self.table()).collect()
    }

    /// What is not in the log yet, as changes.
    pub(crate) fn take_unkept(&self) -> Vec<StateChange> {
        let mut lanes = std::mem::take(&mut self.unkept.lock().lanes);
        lanes.sort_unstable_by(|one, other| (&one.of, one.queue_id).cmp(&(&other.of, other.queue_id)));
        lanes.iter().filter_map(|lane| lane.take_unkept()).collect()
    }

    /// They could not be put into the log: it is told all of those lanes when it can be.
    pub(crate) fn put_back(&self, changes: Vec<StateChange>) {
        let table = self.table.lock();
        for change in changes {
            let StateChange::Leases { of, queue, .. } = change else { continue };
            let lane = table.get(&*of).and_then(|queues| queues.get(&queue));
            lane.into_iter().for_each(|lane| lane.note_whole());
        }
    }

    fn put(&self, of: &str, queue: u32, state: LeaseState, is_whole: bool) {
        drop(self.put_into(&mut self.table.lock(), of, queue, state, is_whole));
    }

    fn put_into(&self, table: &mut Table, of: &str, queue: u32, state: LeaseState, is_whole: bool) -> Arc<Lane> {
        let of = table.get_key_value(of).map_or_else(|| of.into(), |(of, _)| of.clone());
        let number = self.last_number.fetch_add(1, Ordering::Relaxed);
        let lane = Arc::new(Lane::new((of.clone(), queue, number), (state, is_whole), &self.unkept, &self.expiry));
        if is_whole {
            lane.note_whole();
        }
        if table.entry(of).or_default().insert(queue, lane.clone()).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        lane
    }
}

fn too_many_lanes() -> Refusal {
    Refusal::Busy(format!(
        "messages are handed out one by one from {LANES_MAX} queues, each priority and each group counted, and no more can be kept: remove queues, or groups with their offsets"
    ))
}

fn state_from(floor: QueueOffset) -> LeaseState {
    LeaseState { settled: Settled::below(floor), ..LeaseState::default() }
}
