//! Snapshots of the broker for administrators: what the console and the admin commands show.

pub(crate) mod flow;
pub(crate) mod rate;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::metric::Metrics;
use base::offset::Watermark;
use base::{Now, QueueId, QueueOffset, Refusal, Timestamp};
use parking_lot::Mutex;
use storage::Store;

use crate::RawOffset;
use crate::catalog::Catalog;
use crate::cursor::fetched::FetchedTable;
use crate::cursor::offset::Offsets;
use crate::group::Groups;
use crate::queue::Queue;
use crate::snapshots::flow::{Flow, PeriodFlow};
use crate::snapshots::rate::Rates;

/// One queue's bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Number.
    pub queue: QueueId,
    /// First offset.
    pub first: QueueOffset,
    /// One past the last.
    pub end: QueueOffset,
    /// When its last message was stored; 0 if there is none.
    pub last_stored: Timestamp,
}

/// One group's progress in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Number.
    pub queue: QueueId,
    /// One past the last message of the queue.
    pub end: QueueOffset,
    /// Committed offset; 0 if there is none.
    pub committed: RawOffset,
    /// Where the group's next fetch begins, as far as is known: not before `committed`.
    pub fetched: RawOffset,
    /// Messages of the queue that the group has not consumed; 0 in a topic that it has no offset in.
    pub lag: u64,
    /// When the last message consumed was stored; 0 if it cannot be told.
    pub consumed_time: Timestamp,
}

/// How far a group has come in a topic that it has offsets in, over all its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupProgress {
    /// Topic.
    pub topic: String,
    /// Group.
    pub group: String,
    /// Sum of its committed offsets.
    pub consumed: u64,
    /// Messages it has not consumed.
    pub lag: u64,
}

/// The broker's figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeSnapshot {
    /// Messages stored a second, over the last 10, 60 and 600 s.
    pub put_rates: [f64; 3],
    /// Messages handed out a second, likewise.
    pub get_rates: [f64; 3],
    /// First byte of the log.
    pub log_first: u64,
    /// One past its last.
    pub log_end: u64,
    /// Bytes appended and not yet on the disk.
    pub unsynced_bytes: u64,
    /// Bytes used on the log's disk.
    pub disk_used_bytes: u64,
    /// Bytes there are on it.
    pub disk_total_bytes: u64,
}

/// Tells administrators.
#[derive(Debug)]
pub struct Snapshots {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    fetched: Arc<FetchedTable>,
    groups: Arc<Groups>,
    metrics: Arc<Metrics>,
    rates: Mutex<Rates>,
    flow: Mutex<Flow>,
}

impl Snapshots {
    pub(crate) fn new(
        store: &Arc<Store>,
        catalog: &Arc<Catalog>,
        offsets: &Arc<Offsets>,
        fetched: &Arc<FetchedTable>,
        groups: &Arc<Groups>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self {
            store: store.clone(),
            catalog: catalog.clone(),
            offsets: offsets.clone(),
            fetched: fetched.clone(),
            groups: groups.clone(),
            metrics: metrics.clone(),
            rates: Mutex::default(),
            flow: Mutex::default(),
        }
    }

    /// The broker's figures now.
    pub fn runtime(&self, now: Now) -> RuntimeSnapshot {
        let (put_rates, get_rates) = self.rates.lock().averages(now);
        let end = self.store.watermarks().get(Watermark::Written);
        let (disk_used_bytes, disk_total_bytes) = self.store.disk_usage().unwrap_or_default();
        RuntimeSnapshot {
            put_rates,
            get_rates,
            log_first: self.store.log_first().0,
            log_end: end.0,
            unsynced_bytes: end.0 - self.store.watermarks().get(Watermark::Durable).0.min(end.0),
            disk_used_bytes,
            disk_total_bytes,
        }
    }

    /// Takes new samples of how fast messages come and go, and of how fast offsets move if it is time for that.
    pub(crate) fn sample(&self, now: Now) {
        self.rates.lock().sample(now, self.metrics.messages_in.get(), self.metrics.messages_out.get());
        if !self.flow.lock().is_due(now) {
            return;
        }
        let topics = self.catalog.topics();
        let stored = topics
            .iter()
            .map(|topic| (topic.name.as_str().to_owned(), topic.queues.iter().map(|queue| queue.end().0).sum::<u64>()));
        let consumed = self.offsets.sums();
        self.flow.lock().sample(now, stored.chain(consumed));
    }

    /// Messages stored in a topic a second.
    pub fn put_rate(&self, topic: &str, now: Now) -> f64 {
        let end = self.catalog.queues_of(topic).unwrap_or_default().iter().map(|queue| queue.end().0).sum();
        self.flow.lock().rate(topic, end, now)
    }

    /// Messages of a topic a group consumes a second, by what it commits.
    pub fn consume_rate(&self, topic: &str, group: &str, now: Now) -> f64 {
        let sum = self.offsets.of(topic, group).values().map(|&offset| offset.max(0) as u64).sum();
        self.flow.lock().rate(&format!("{topic}@{group}"), sum, now)
    }

    /// Messages stored in a topic (`topic`) or consumed of it by a group (`topic@group`) within the last minute, hour and day;
    /// `None` if there were none since the start.
    pub fn flow_of(&self, name: &str) -> Option<[PeriodFlow; 3]> {
        self.flow.lock().periods(name)
    }

    /// Messages stored and handed out since the start, as they were when this day and the one before began (UTC).
    pub fn mornings(&self) -> [(u64, u64); 2] {
        self.rates.lock().mornings()
    }

    /// Bounds of a topic's queues. Waits for the disk.
    pub fn topic(&self, topic: &str) -> Result<Vec<QueueSnapshot>, Refusal> {
        let queues = self.catalog.queues_of(topic)?;
        let snapshots = queues.iter().map(|queue| {
            let (first, end) = (queue.first(), queue.end());
            let last_stored = if end > first { self.stored_at(topic, queue.id(), end.0 - 1) } else { Timestamp(0) };
            QueueSnapshot { queue: queue.id(), first, end, last_stored }
        });
        Ok(snapshots.collect())
    }

    /// A group's progress in a topic's queues. Waits for the disk.
    pub fn progress(&self, topic: &str, group: &str) -> Result<Vec<ProgressSnapshot>, Refusal> {
        let offsets = self.offsets.of(topic, group);
        let fetched = self.fetched.get(topic, group);
        let queues = self.catalog.queues_of(topic)?;
        let snapshots = queues.iter().map(|queue| {
            let committed = offsets.get(&queue.id().0).copied().unwrap_or_default().max(0);
            let fetched = fetched.as_ref().and_then(|fetched| fetched.of(queue.id())).unwrap_or_default();
            let consumed_time = match (committed as u64).checked_sub(1) {
                Some(last) => self.stored_at(topic, queue.id(), last),
                None => Timestamp(0),
            };
            ProgressSnapshot {
                queue: queue.id(),
                end: queue.end(),
                lag: lag_in(queue, &offsets),
                committed,
                fetched: fetched.max(committed),
                consumed_time,
            }
        });
        Ok(snapshots.collect())
    }

    /// Topics a group consumes: those it has offsets in and those its members subscribe to.
    pub fn topics_of_group(&self, group: &str) -> Vec<String> {
        let mut topics = self.offsets.topics_of(group);
        if let Some(snapshot) = self.groups.snapshot(group) {
            topics.extend(snapshot.subscriptions.iter().map(|subscription| subscription.topic.clone()));
        }
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Groups that consume a topic.
    pub fn groups_of_topic(&self, topic: &str) -> Vec<String> {
        let mut groups = self.offsets.groups_in(topic);
        groups.extend(self.groups.subscribed_to(topic));
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// When the message at an offset was stored; 0 if it cannot be told.
    pub fn stored_at(&self, topic: &str, queue: QueueId, offset: u64) -> Timestamp {
        let queues = self.catalog.queues_of(topic).unwrap_or_default();
        let entry =
            queues.get(queue.0 as usize).and_then(|queue| queue.index.entry(QueueOffset(offset)).ok().flatten());
        entry.and_then(|entry| self.store.store_time(&entry).ok().flatten()).unwrap_or_default()
    }

    /// When the oldest message of a queue was stored.
    pub fn earliest_stored(&self, topic: &str, queue: QueueId) -> Result<Timestamp, Refusal> {
        let queues = self.catalog.queues_of(topic)?;
        let known =
            queues.get(queue.0 as usize).ok_or_else(|| Refusal::no_queue_id(topic, queue, queues.len() as u32))?;
        Ok(self.stored_at(topic, queue, known.first().0))
    }

    /// When the oldest message still kept was stored; `None` if there is none.
    pub fn earliest_in_log(&self) -> Option<Timestamp> {
        self.store.earliest_store_time().ok().flatten()
    }

    /// How far each group has come in each topic that it has offsets in, sorted by group and topic.
    pub fn progress_by_group(&self) -> Vec<GroupProgress> {
        let mut all = Vec::new();
        for group in self.catalog.groups() {
            for topic in self.offsets.topics_of(&group.group_name) {
                let offsets = self.offsets.of(&topic, &group.group_name);
                let (mut consumed, mut lag) = (0, 0);
                for queue in self.catalog.queues_of(&topic).unwrap_or_default() {
                    consumed += offsets.get(&queue.id().0).map_or(0, |&offset| offset.max(0) as u64);
                    lag += lag_in(&queue, &offsets);
                }
                all.push(GroupProgress { topic, group: group.group_name.clone(), consumed, lag });
            }
        }
        all
    }

    /// Total messages not yet consumed by each group, over all topics.
    pub fn lag_by_group(&self) -> BTreeMap<String, u64> {
        let mut lags: BTreeMap<_, _> =
            self.catalog.groups().iter().map(|group| (group.group_name.clone(), 0)).collect();
        for progress in self.progress_by_group() {
            *lags.entry(progress.group).or_default() += progress.lag;
        }
        lags
    }
}

/// Messages of a queue that a group with these offsets in its topic has not consumed. In a queue without an offset of its own it begins
/// with the first. A group without any offset (its members may keep them themselves: broadcasting) lags behind nobody.
fn lag_in(queue: &Queue, offsets: &BTreeMap<u32, RawOffset>) -> u64 {
    let committed = match offsets.get(&queue.id().0) {
        Some(&offset) => offset.max(0) as u64,
        None if offsets.is_empty() => return 0,
        None => queue.first().0,
    };
    queue.end().0.saturating_sub(committed)
}
