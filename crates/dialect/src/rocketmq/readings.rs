//! What a connection's pulls and commits name, a topic and a group, with what they need of the two: looked up once, and again when topics,
//! groups or what members want has changed.

use std::sync::{Arc, Weak};

use base::limits::{GROUP_NAME_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX};
use base::{GroupName, Now, QueueId, Refusal};
use broker::{Broker, FetchedOffsets, Lane, OffsetCursor, Subscription, Topic};
use format::document::GroupDocument;

use super::pop_lanes::PopLanes;

/// How many are kept at hand: a consumer has few, each with its retry topic; a proxy has those of many consumers.
const READINGS_MAX: usize = 64;

/// A topic and a group. What belongs to tables of the broker is kept weakly: what is gone from there does not stay for the sake of an
/// idle connection.
#[derive(Default)]
pub(super) struct Reading {
    topic_name: Box<str>,
    group_name: Box<str>,
    /// The catalog's when the rest was looked up.
    generation: u64,
    topic: Weak<Topic>,
    group: Option<(GroupName, Arc<GroupDocument>)>,
    /// With the version of all groups' wants.
    subscription: (u64, Weak<Subscription>),
    fetched: Weak<FetchedOffsets>,
    /// There was no room for `fetched`.
    has_no_fetched: bool,
    cursor: Option<Arc<OffsetCursor>>,
    /// Where it pops from.
    pub(super) pop_lanes: PopLanes,
}

/// Those of one connection.
#[derive(Default)]
pub(super) struct Readings {
    kept: Vec<Reading>,
    /// That which was asked for last: mostly the next one too.
    last: usize,
    /// Replaced next, once there are many.
    oldest: usize,
}

impl Readings {
    /// What is known of a topic and a group. Names that are too long for any are refused.
    pub(super) fn find(&mut self, topic: &str, group: &str, broker: &Broker) -> Result<&mut Reading, Refusal> {
        if !self.kept.get(self.last).is_some_and(|reading| reading.is_of(topic, group)) {
            self.last = match self.kept.iter().position(|reading| reading.is_of(topic, group)) {
                Some(place) => place,
                None => self.add(topic, group)?,
            };
        }
        let reading = self.kept.get_mut(self.last).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        let generation = broker.catalog.generation();
        if reading.generation != generation {
            reading.forget(generation);
        }
        Ok(reading)
    }

    fn add(&mut self, topic: &str, group: &str) -> Result<usize, Refusal> {
        if topic.len() > INTERNAL_TOPIC_NAME_SIZE_MAX {
            return Err(Refusal::NoSuchTopic(topic.to_owned()));
        }
        if group.len() > GROUP_NAME_SIZE_MAX {
            GroupName::checked(group)?;
        }
        let added = Reading { topic_name: topic.into(), group_name: group.into(), ..Reading::default() };
        if self.kept.len() < READINGS_MAX {
            // Of thousands of connections each has few.
            self.kept.reserve_exact(1);
            self.kept.push(added);
            return Ok(self.kept.len() - 1);
        }
        self.oldest = (self.oldest + 1) % READINGS_MAX;
        if let Some(replaced) = self.kept.get_mut(self.oldest) {
            *replaced = added;
        }
        Ok(self.oldest)
    }
}

impl Reading {
    fn is_of(&self, topic: &str, group: &str) -> bool {
        *self.topic_name == *topic && *self.group_name == *group
    }

    /// Forgets what was looked up; offsets tell by themselves when they are no longer those of the topic.
    fn forget(&mut self, generation: u64) {
        self.generation = generation;
        self.topic = Weak::new();
        (self.group, self.subscription) = (None, (0, Weak::new()));
        (self.fetched, self.has_no_fetched) = (Weak::new(), false);
        self.pop_lanes.forget();
    }

    /// The catalog's generation that it is of.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The topic.
    pub(super) fn topic(&mut self, broker: &Broker) -> Result<Arc<Topic>, Refusal> {
        if let Some(topic) = self.topic.upgrade() {
            return Ok(topic);
        }
        let topic = broker.catalog.topic(&self.topic_name);
        let topic = topic.ok_or_else(|| Refusal::NoSuchTopic((*self.topic_name).to_owned()))?;
        self.topic = Arc::downgrade(&topic);
        Ok(topic)
    }

    /// The group with its settings, made on the fly if that is allowed.
    pub(super) fn group(&mut self, broker: &Broker, now: Now) -> Result<&(GroupName, Arc<GroupDocument>), Refusal> {
        let known = match self.group.take() {
            Some(known) => known,
            None => {
                let group = GroupName::checked(&self.group_name)?;
                let settings = broker.catalog.group_for_use(&group, now)?;
                (group, settings)
            }
        };
        Ok(self.group.insert(known))
    }

    /// What the group wants of the topic, of version `version_min` or a later one if there is one.
    pub(super) fn subscription(&mut self, version_min: i64, broker: &Broker) -> Result<Arc<Subscription>, Refusal> {
        // Before it is looked up: a change in between is seen with the next pull.
        let version = broker.groups.version();
        let (of, known) = &self.subscription;
        let known = if *of == version { known.upgrade() } else { None };
        if let Some(known) = known.filter(|known| known.version >= version_min) {
            return Ok(known);
        }
        let found = broker.groups.subscription(&self.group_name, &self.topic_name)?;
        self.subscription = (version, Arc::downgrade(&found));
        Ok(found)
    }

    /// Where the group's fetches from the topic are noted, if there is room for it.
    pub(super) fn fetched(&mut self, topic: &Topic, group: &GroupName, broker: &Broker) -> Option<Arc<FetchedOffsets>> {
        if self.has_no_fetched {
            return None;
        }
        if let Some(known) = self.fetched.upgrade() {
            return Some(known);
        }
        let found = broker.fetched.offsets_of(topic, group);
        self.fetched = found.as_ref().map_or_else(Weak::new, Arc::downgrade);
        self.has_no_fetched = found.is_none();
        found
    }

    /// What the group has handed out of a queue of the topic, if it ever popped there.
    pub(super) fn lane(&mut self, queue: QueueId, broker: &Broker) -> Option<Arc<Lane>> {
        if let Some(known) = self.pop_lanes.get(queue) {
            return Some(known);
        }
        let found = broker.lanes.lane(&self.topic_name, &self.group_name, queue.0)?;
        if found.is_in_use() {
            self.pop_lanes.put(queue, &found);
        }
        Some(found)
    }

    /// Commits an offset in a queue that the topic has.
    pub(super) fn commit(&mut self, queue: QueueId, offset: i64, broker: &Broker) -> Result<(), Refusal> {
        broker.offsets.commit_by(&mut self.cursor, (&self.topic_name, &self.group_name), queue, offset)
    }
}
