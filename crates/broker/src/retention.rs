//! Old messages: what the store may remove, and what groups that settle messages one by one have not settled yet.
//!
//! **Always holds**: nothing is removed that is in a message queue and not settled; at a slave, in one that goes on where it becomes the
//! master. With `Options::keeps_unsettled` nothing is removed either
//! that such a group has not settled; without, retention asks no group, as of those that read by offset. Looked at anew each time retention is applied: a message that comes later lies behind all that is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::offset::Watermark;
use base::{LogOffset, Now, QueueId, QueueOffset, TopicName};
use parking_lot::Mutex;
use storage::{QueueIndex, RetentionOutcome, StorageError, Store};

use crate::catalog::Catalog;
use crate::cursor::lanes::Lanes;
use crate::cursor::lease::LeaseCounts;
use crate::model::Model;
use crate::model::message_queue::NO_GROUP;
use crate::options::Options;

/// What a group has of a topic that it settles message by message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Topic.
    pub topic: String,
    /// Group.
    pub group: String,
    /// How many messages are what.
    pub counts: LeaseCounts,
    /// Bytes of the log from the oldest of them on; 0 if there is none.
    pub log_size: u64,
}

/// Whose messages the oldest are that are not settled, and keep segments of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// A group of a topic.
    Group {
        /// The topic.
        topic: String,
        /// The group.
        group: String,
    },
    /// A message queue.
    MessageQueue {
        /// Its virtual host.
        virtual_host: String,
        /// Its name.
        queue: String,
    },
}

/// Applies retention.
#[derive(Debug)]
pub struct Retention {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    lanes: Arc<Lanes>,
    model: Arc<Model>,
    options: Arc<Options>,
    /// As it was when retention was last applied.
    unsettled: Mutex<Vec<Unsettled>>,
    /// The same.
    keeper: Mutex<Option<Keeper>>,
}

impl Retention {
    pub(crate) fn new(catalog: &Arc<Catalog>, model: &Arc<Model>, lanes: &Arc<Lanes>, options: &Arc<Options>) -> Self {
        let (catalog, model, lanes, options) = (catalog.clone(), model.clone(), lanes.clone(), options.clone());
        let (store, unsettled, keeper) = (model.store().clone(), Mutex::default(), Mutex::default());
        Self { store, catalog, lanes, model, options, unsettled, keeper }
    }

    /// What was not settled when retention was last applied.
    pub fn unsettled(&self) -> Vec<Unsettled> {
        self.unsettled.lock().clone()
    }

    /// Whose messages kept the most of the log when retention was last applied.
    pub fn keeper(&self) -> Option<Keeper> {
        self.keeper.lock().clone()
    }

    /// Removes what is to go. Waits for the disk.
    pub fn apply(&self, now: Now) -> Result<RetentionOutcome, StorageError> {
        self.apply_at(now, now.wall.hour_of_day())
    }

    /// Removes what is old enough to go, at whatever hour old messages go otherwise. Waits for the disk.
    pub fn apply_at_once(&self, now: Now) -> Result<RetentionOutcome, StorageError> {
        let hour = self.store.retention().delete_hours.first().copied().unwrap_or_default();
        self.apply_at(now, hour)
    }

    fn apply_at(&self, now: Now, hour_of_day: u8) -> Result<RetentionOutcome, StorageError> {
        let (unsettled, oldest) = self.look();
        *self.unsettled.lock() = unsettled;
        let of_groups = oldest.filter(|_| self.options.keeps_unsettled);
        let kept = of_groups.into_iter().chain(self.oldest_in_message_queues()).min_by_key(|(oldest, _)| *oldest);
        let (keep_from, keeper) = kept.map_or((LogOffset(u64::MAX), None), |(oldest, keeper)| (oldest, Some(keeper)));
        *self.keeper.lock() = keeper;
        self.store.apply_retention_below(keep_from, now.wall, hour_of_day)
    }

    /// Where the oldest message lies that is in a message queue, and in which: anywhere in the log, where that cannot be read.
    fn oldest_in_message_queues(&self) -> Option<(LogOffset, Keeper)> {
        let places = self.model.queue_numbers().into_iter().filter_map(|number| {
            let topic = TopicName::of_message_queue(number);
            let places = self.store.queues_of(&topic).into_iter().filter_map(|queue| {
                // Of one that nobody has worked with nothing is settled.
                let lane = self.lanes.lane(topic.as_str(), NO_GROUP, queue.queue().0);
                let floor = lane.map_or(QueueOffset(0), |lane| lane.floor());
                self.place_of(&queue, floor.max(queue.first()))
            });
            Some((places.min()?, number))
        });
        let (oldest, number) = places.min()?;
        let (virtual_host, queue) = self.model.queue_of_number(number).unwrap_or_default();
        let (virtual_host, queue) = (virtual_host.to_string(), String::from_utf8_lossy(&queue).into_owned());
        Some((oldest, Keeper::MessageQueue { virtual_host, queue }))
    }

    /// Where the message at an offset lies; anywhere in the log, where that cannot be read. `None`: there is none.
    fn place_of(&self, queue: &QueueIndex, offset: QueueOffset) -> Option<LogOffset> {
        let entry = if offset < queue.end() { queue.entry(offset).transpose() } else { None };
        entry.map(|entry| entry.map_or_else(|_| self.store.log_first(), |entry| entry.log_offset))
    }

    /// What is not settled, by topic and group, and where the oldest of it lies, and whose it is: anywhere in the log, where that cannot be
    /// read. A group that was removed keeps nothing.
    fn look(&self) -> (Vec<Unsettled>, Option<(LogOffset, Keeper)>) {
        let mut by_names: BTreeMap<(String, String), (LeaseCounts, Option<LogOffset>)> = BTreeMap::new();
        for lane in self.lanes.all() {
            let (topic, group) = lane.names();
            let Some(known) = self.catalog.topic(topic) else { continue };
            let Ok(queue) = known.queue(QueueId(lane.queue_id().0)) else { continue };
            let from = lane.floor().max(queue.first());
            let is_kept = self.catalog.group(group).is_some();
            let place = if is_kept { self.place_of(&queue.index, from) } else { None };
            let (counts, oldest) = by_names.entry((topic.to_owned(), group.to_owned())).or_default();
            *counts = counts.plus(lane.counts_until(queue.end()));
            *oldest = oldest.iter().copied().chain(place).min();
        }
        let end = self.store.watermarks().get(Watermark::Written);
        let oldest = by_names.iter().filter_map(|(names, (_, oldest))| Some((oldest.as_ref().copied()?, names))).min();
        let oldest = oldest
            .map(|(oldest, (topic, group))| (oldest, Keeper::Group { topic: topic.clone(), group: group.clone() }));
        let unsettled = by_names.into_iter().map(|((topic, group), (counts, oldest))| Unsettled {
            topic,
            group,
            counts,
            log_size: oldest.map_or(0, |oldest| end.0.saturating_sub(oldest.0)),
        });
        (unsettled.collect(), oldest)
    }
}
