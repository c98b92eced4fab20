//! How far each group has fetched in each queue, which is further than it has committed while messages are on their way.
//!
//! For administrators alone, and in memory alone: after a restart what is committed counts. A connection keeps the cells it
//! writes to at hand, so that a fetch pays for one store into memory. Cells are bounded: if there are too many, those that no
//! connection keeps go, and what is fetched then is not noted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base::limits::FETCHED_QUEUES_MAX;
use base::{GroupName, QueueId, QueueOffset, TopicName};
use parking_lot::Mutex;

use crate::RawOffset;
use crate::catalog::Topic;

/// What a pair of topic and group takes besides its queues, as a number of these.
const PAIR_CELLS: usize = 32;

/// In a queue that was not fetched from.
const NONE: RawOffset = -1;

/// One group's places in one topic, by queue.
#[derive(Debug)]
pub struct FetchedOffsets(Box<[AtomicI64]>);

impl FetchedOffsets {
    /// Notes where the next fetch begins.
    pub fn note(&self, queue: QueueId, next: QueueOffset) {
        if let Some(cell) = self.0.get(queue.0 as usize) {
            cell.store(next.0 as RawOffset, Ordering::Relaxed);
        }
    }

    /// Notes the same of messages that are handed out one by one: some come again.
    pub fn advance(&self, queue: QueueId, next: QueueOffset) {
        if let Some(cell) = self.0.get(queue.0 as usize) {
            cell.fetch_max(next.0 as RawOffset, Ordering::Relaxed);
        }
    }

    /// Where the next fetch begins, if there was one.
    pub(crate) fn of(&self, queue: QueueId) -> Option<RawOffset> {
        self.0.get(queue.0 as usize).map(|cell| cell.load(Ordering::Relaxed)).filter(|&offset| offset != NONE)
    }

    fn forget(&self, queue: QueueId) {
        if let Some(cell) = self.0.get(queue.0 as usize) {
            cell.store(NONE, Ordering::Relaxed);
        }
    }
}

/// Where each group's fetches are.
#[derive(Debug, Default)]
pub struct FetchedTable(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_group: HashMap<GroupName, HashMap<TopicName, Arc<FetchedOffsets>>>,
    /// Groups that have cells in a topic.
    groups_by_topic: HashMap<TopicName, HashSet<GroupName>>,
    /// Cells of all of them, each pair with those it takes besides.
    cells: usize,
    /// How often there may be no room before it is looked again for what no connection keeps: a look walks them all.
    looks_after: usize,
}

impl Table {
    fn get(&self, topic: &str, group: &str) -> Option<&Arc<FetchedOffsets>> {
        self.by_group.get(group)?.get(topic)
    }

    /// Forgets what no connection keeps.
    fn make_room(&mut self) {
        let unused = self.by_group.iter().flat_map(|(group, topics)| {
            let unused =
                topics.iter().filter(|(_, known)| Arc::strong_count(known) == 1 && Arc::weak_count(known) == 0);
            unused.map(move |(topic, _)| (topic.clone(), group.clone()))
        });
        let unused: Vec<_> = unused.collect();
        unused.iter().for_each(|(topic, group)| self.forget(topic.as_str(), group.as_str()));
        self.looks_after = self.by_group.values().map(HashMap::len).sum();
    }

    fn forget(&mut self, topic: &str, group: &str) {
        if let Some(topics) = self.by_group.get_mut(group) {
            self.cells -= topics.remove(topic).map_or(0, |known| known.0.len() + PAIR_CELLS);
            if topics.is_empty() {
                self.by_group.remove(group);
            }
        }
        if let Some(groups) = self.groups_by_topic.get_mut(topic) {
            groups.remove(group);
            if groups.is_empty() {
                self.groups_by_topic.remove(topic);
            }
        }
    }

    fn make(&mut self, topic: &Topic, group: &GroupName) -> Option<Arc<FetchedOffsets>> {
        let wanted = topic.queues.len();
        if self.cells + wanted + PAIR_CELLS > FETCHED_QUEUES_MAX {
            match self.looks_after.checked_sub(1) {
                Some(fewer) => self.looks_after = fewer,
                None => self.make_room(),
            }
        }
        if self.cells + wanted + PAIR_CELLS > FETCHED_QUEUES_MAX {
            return None;
        }
        let before = self.get(topic.name.as_str(), group.as_str()).cloned();
        let offset_of = |queue| before.as_ref().and_then(|before| before.of(queue)).unwrap_or(NONE);
        let made = (0..wanted as u32).map(|queue| AtomicI64::new(offset_of(QueueId(queue)))).collect();
        let made = Arc::new(FetchedOffsets(made));
        self.by_group.entry(group.clone()).or_default().insert(topic.name.clone(), made.clone());
        self.groups_by_topic.entry(topic.name.clone()).or_default().insert(group.clone());
        self.cells = self.cells + wanted + PAIR_CELLS - before.map_or(0, |before| before.0.len() + PAIR_CELLS);
        Some(made)
    }
}

impl FetchedTable {
    pub(crate) fn get(&self, topic: &str, group: &str) -> Option<Arc<FetchedOffsets>> {
        self.0.lock().get(topic, group).cloned()
    }

    pub(crate) fn forget_queue(&self, topic: &str, group: &str, queue: QueueId) {
        if let Some(known) = self.get(topic, group) {
            known.forget(queue);
        }
    }

    pub(crate) fn forget_topic(&self, topic: &str) {
        let mut table = self.0.lock();
        let groups: Vec<_> = table.groups_by_topic.get(topic).into_iter().flatten().cloned().collect();
        groups.iter().for_each(|group| table.forget(topic, group.as_str()));
    }

    pub(crate) fn forget_group(&self, group: &str) {
        let mut table = self.0.lock();
        let topics: Vec<_> = table.by_group.get(group).into_iter().flat_map(HashMap::keys).cloned().collect();
        topics.iter().for_each(|topic| table.forget(topic.as_str(), group));
    }

    /// Where a group's fetches in a topic are noted; `None` if there is no room for more.
    pub fn offsets_of(&self, topic: &Topic, group: &GroupName) -> Option<Arc<FetchedOffsets>> {
        let mut table = self.0.lock();
        match table.get(topic.name.as_str(), group.as_str()) {
            Some(known) if known.0.len() >= topic.queues.len() => Some(known.clone()),
            _ => table.make(topic, group),
        }
    }
}
