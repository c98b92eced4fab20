//! A message queue: its rules, its lanes (one for each priority that was used), and who consumes from it.
//!
//! A lane is a list of entries in the store with a lease cursor that is the queue's own: what is settled is gone. **Always holds**: whoever
//! waits for messages waits at every lane there is; a lane that comes has them look again. **On a crash** lanes and cursors come back as the
//! log tells; consumers do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::limits::LANES_PER_QUEUE_MAX;
use base::{Monotonic, QueueId, QueueNumber, Refusal, TopicName};
use format::model::{QueueRules, QueueState, Text};
use parking_lot::{Mutex, RwLock};
use storage::{QueueIndex, Store};

use super::consumers::{Consumer, Consumers, Seat};
use super::error::ModelError;
use crate::cursor::lane::{Lane, Place};
use crate::cursor::lanes::Lanes;
use crate::cursor::lease::{LeaseCounts, LeaseCursor};
use crate::cursor::takers::{Taker, Wish};
use crate::publish::promised::Incoming;
use crate::queue::Queue;

/// The name of lease cursors that belong to the queue itself, and to no group.
pub(crate) const NO_GROUP: &str = "";

/// Names a connection, as the owner of queues that are its alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionNumber(pub u64);

/// How a queue is to be.
#[derive(Clone, Debug)]
pub struct QueueWish {
    /// Its name.
    pub name: Text,
    /// Whether it outlives a restart.
    pub is_durable: bool,
    /// Whose alone it is.
    pub owner: Option<ConnectionNumber>,
    /// Whether it goes with its last consumer.
    pub auto_delete: bool,
    /// What holds for it.
    pub rules: QueueRules,
    /// As they came.
    pub arguments: Text,
}

/// One priority of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueLane {
    pub(crate) priority: u8,
    pub(crate) index: Arc<QueueIndex>,
    pub(crate) lane: Arc<Lane>,
}

/// A message queue.
#[derive(Debug)]
pub struct MessageQueue {
    number: QueueNumber,
    host: Arc<str>,
    wish: QueueWish,
    topic: TopicName,
    store: Arc<Store>,
    table: Arc<Lanes>,
    /// The highest priority first.
    pub(super) lanes: RwLock<Vec<QueueLane>>,
    consumers: Mutex<Consumers>,
    /// Whether some of them come before others.
    has_priorities: AtomicBool,
    is_gone: AtomicBool,
    /// When it was last declared, read or left by a consumer, ms of the monotonic clock.
    used: AtomicU64,
    has_timed: AtomicBool,
    pub(super) incoming: Arc<Mutex<Incoming>>,
}

impl MessageQueue {
    /// A queue with the lanes that the store has of it.
    pub(super) fn open(
        (number, host): (QueueNumber, &Arc<str>),
        wish: QueueWish,
        store: &Arc<Store>,
        table: &Arc<Lanes>,
        now: Monotonic,
    ) -> Result<Self, Refusal> {
        let has_timed = wish.rules.time_to_live_ms.is_some();
        let queue = Self {
            number,
            host: host.clone(),
            wish,
            topic: TopicName::of_message_queue(number),
            store: store.clone(),
            table: table.clone(),
            lanes: RwLock::default(),
            consumers: Mutex::default(),
            has_priorities: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            used: AtomicU64::new(now.0),
            has_timed: AtomicBool::new(has_timed),
            incoming: Arc::default(),
        };
        for index in store.queues_of(&queue.topic) {
            if let Ok(priority) = u8::try_from(index.queue().0) {
                queue.make_lane(priority)?;
            }
            // What is there may be of any kind.
            queue.has_timed.store(true, Ordering::Relaxed);
        }
        Ok(queue)
    }

    /// Its number.
    pub const fn number(&self) -> QueueNumber {
        self.number
    }

    /// Its virtual host.
    pub const fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.wish.name
    }

    /// How it was wished for.
    pub const fn wish(&self) -> &QueueWish {
        &self.wish
    }

    /// What holds for it.
    pub const fn rules(&self) -> &QueueRules {
        &self.wish.rules
    }

    pub(super) fn state(&self) -> QueueState {
        let QueueWish { name, auto_delete, rules, arguments, .. } = self.wish.clone();
        QueueState { host: self.host.to_string(), name, auto_delete, rules, arguments }
    }

    /// Whether it was removed.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// How many messages are what.
    pub fn counts(&self) -> LeaseCounts {
        self.lanes.read().iter().fold(LeaseCounts::default(), |counts, one| counts.plus(one.lane.counts()))
    }

    /// Its lanes, the highest priority first.
    pub fn lanes(&self) -> Vec<Arc<Lane>> {
        self.lanes.read().iter().map(|one| one.lane.clone()).collect()
    }

    /// The lane of messages with a priority, made when it is first used.
    pub(crate) fn lane_for(&self, priority: u8) -> Result<QueueLane, Refusal> {
        let priority = priority.min(self.wish.rules.priority_max);
        let known = self.lanes.read().iter().find(|one| one.priority == priority).cloned();
        match known {
            Some(known) => Ok(known),
            None => self.make_lane(priority),
        }
    }

    fn make_lane(&self, priority: u8) -> Result<QueueLane, Refusal> {
        let mut lanes = self.lanes.write();
        let at = match lanes.binary_search_by(|one| priority.cmp(&one.priority)) {
            Ok(at) => return lanes.get(at).cloned().ok_or_else(|| Refusal::Internal("no lane".to_owned())),
            Err(at) => at,
        };
        debug_assert!(lanes.len() < LANES_PER_QUEUE_MAX);
        let index = self.store.queue(&self.topic, QueueId(priority.into()));
        let place = Place { queue: Queue { index: index.clone() }, committed: None };
        let lane = self.table.lane_at(self.topic.as_str(), NO_GROUP, place, index.first())?;
        if self.wish.rules.size_max.is_some() {
            lane.with(LeaseCursor::begin_weight);
        }
        let made = QueueLane { priority, index, lane };
        lanes.insert(at, made.clone());
        // Who waits at the others waits at this one too from now on.
        lanes.iter().filter(|one| one.priority != priority).for_each(|one| one.lane.tell_all());
        Ok(made)
    }

    /// Has a consumer come.
    pub fn add_consumer(&self, consumer: Consumer, now: Monotonic) -> Result<Seat, ModelError> {
        let (host, name) = (self.host.clone(), self.wish.name.clone());
        self.note_used(now);
        // Whoever waits has to wait somewhere.
        self.lane_for(0)?;
        let mut consumers = self.consumers.lock();
        if self.is_gone() {
            return Err(ModelError::NoSuchQueue { host, name });
        }
        // One that is active alone and one that is there alone are two wishes for the same place.
        if consumer.is_exclusive && self.wish.rules.is_single_active {
            return Err(ModelError::ExclusiveUse { host, name });
        }
        let added = consumers.add(consumer).ok_or(ModelError::ExclusiveUse { host, name });
        self.has_priorities.store(consumers.have_priorities(), Ordering::Release);
        added
    }

    /// Has a consumer go. Gives whether the queue goes with it.
    pub fn remove_consumer(&self, seat: Seat, now: Monotonic) -> bool {
        self.note_used(now);
        let left = {
            let mut consumers = self.consumers.lock();
            let Some(left) = consumers.remove(seat) else { return false };
            self.has_priorities.store(consumers.have_priorities(), Ordering::Release);
            left
        };
        if left.had_priorities {
            self.tell_all();
        }
        if let Some(next) = left.next.filter(|_| self.wish.rules.is_single_active) {
            next.mailbox.send(crate::Signal::LeaseReady(next.number));
        }
        left.is_last && self.wish.auto_delete
    }

    /// How many consumers there are.
    pub fn consumer_count(&self) -> usize {
        self.consumers.lock().len()
    }

    /// Whether a consumer may take messages: where only one may, the first; else those that none of a higher priority takes.
    pub fn may_take(&self, seat: &Seat) -> bool {
        if self.wish.rules.is_single_active {
            return self.consumers.lock().is_first(seat);
        }
        !self.has_priorities.load(Ordering::Acquire) || self.consumers.lock().is_next(seat)
    }

    /// A consumer does not take what is there any more: those of a lower priority may.
    pub fn tell_lower(&self) {
        if self.has_priorities.load(Ordering::Acquire) {
            self.tell_all();
        }
    }

    /// Tells as many of those who wait as it takes to take what is ready.
    fn tell_all(&self) {
        self.lanes.read().iter().for_each(|one| one.lane.tell());
    }

    /// Has a consumer told with `LeaseReady` when messages may be taken, not for those of before: look after it.
    pub fn wait(&self, wish: &Wish) -> Vec<Taker> {
        self.lanes.read().iter().filter_map(|one| one.lane.wait(wish.clone())).collect()
    }

    /// Whether messages may be taken now.
    pub fn has_ready(&self) -> bool {
        self.lanes.read().iter().any(|one| one.lane.ready().0 > 0)
    }

    /// Settles all that is ready; gives how many that were.
    pub(crate) fn purge(&self) -> u64 {
        let purge = |one: &QueueLane| {
            let end = one.index.end();
            one.lane.with(|cursor| cursor.purge(end))
        };
        self.lanes.read().iter().map(purge).sum()
    }

    /// Somebody has used it.
    pub fn note_used(&self, now: Monotonic) {
        self.used.fetch_max(now.0, Ordering::Relaxed);
    }

    /// When it is removed for not having been used, if it is.
    pub(super) fn expires(&self) -> Option<Monotonic> {
        let expires_ms = self.wish.rules.expires_ms?;
        Some(Monotonic(self.used.load(Ordering::Relaxed)).plus_ms(expires_ms))
    }

    /// Nobody finds it any more: consumers are told, and none comes.
    pub(super) fn note_gone(&self) {
        let mut consumers = self.consumers.lock();
        self.is_gone.store(true, Ordering::Release);
        consumers.dismiss();
    }

    /// The same, if somebody uses it all the time.
    pub(super) fn note_used_if(&self, is_used: bool, now: Monotonic) {
        if is_used {
            self.note_used(now);
        }
    }

    /// Messages that expire come here.
    pub(super) fn note_timed(&self) {
        self.has_timed.store(true, Ordering::Relaxed);
    }

    /// Whether there may be messages that expire.
    pub(super) fn has_timed(&self) -> bool {
        self.has_timed.load(Ordering::Relaxed)
    }

    /// Whether messages of it may end by themselves: by their time, or for being too many.
    pub(super) fn is_swept(&self) -> bool {
        self.has_timed() || self.wish.rules.has_length_limit()
    }

    pub(super) fn queue_lanes(&self) -> Vec<QueueLane> {
        self.lanes.read().clone()
    }
}
