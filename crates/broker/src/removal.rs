//! Removal: topics with their queues and offsets, groups, queues that nothing lists any more.
//!
//! **Always holds**: that a topic is gone is in the log before its files go, and its name is free only once they are. **On a crash** in
//! between a start removes what is left of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use base::{Now, QueueId, QueueOffset, Refusal, TopicName};
use storage::{QueueIndex, Store};

use crate::catalog::Catalog;
use crate::cursor::offset::Offsets;
use crate::durability::Durability;
use crate::error::internal;
use crate::queue::Queue;
use crate::state::StateLog;

/// Removes things.
#[derive(Debug)]
pub struct Removals {
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    durability: Arc<Durability>,
    state: Arc<StateLog>,
    store: Arc<Store>,
}

impl Removals {
    pub(crate) fn new(
        catalog: &Arc<Catalog>,
        offsets: &Arc<Offsets>,
        durability: &Arc<Durability>,
        state: &Arc<StateLog>,
        store: &Arc<Store>,
    ) -> Self {
        Self {
            catalog: catalog.clone(),
            offsets: offsets.clone(),
            durability: durability.clone(),
            state: state.clone(),
            store: store.clone(),
        }
    }

    /// Removes a topic with its queues and all offsets in it. Waits for the disk.
    pub fn topic(&self, name: &str, now: Now) -> Result<(), Refusal> {
        if self.catalog.system_topics().iter().any(|system| system == name) {
            return Err(Refusal::ReservedTopic(name.to_owned()));
        }
        {
            let _one_at_a_time = self.catalog.removing.lock();
            if !self.catalog.take_topic(name, now)? {
                // Somebody else's removal may not be kept yet.
                return self.keep(now);
            }
            self.catalog.announce_soon();
            // Whoever waits for messages of it is told that it is gone.
            let queues = self.store.queues_of(&TopicName::trusted(name));
            queues.into_iter().for_each(|index| Queue { index }.wake_waiting());
            self.remove_rest(name, now).map_err(|error| {
                Refusal::Internal(format!(
                    "topic [{name}] is removed, but not yet its offsets and the files of its queues, which is tried again: {error}"
                ))
            })?;
        }
        self.keep(now)
    }

    /// Removes a topic that a slave's master has no more.
    pub(crate) fn unlisted_topic(&self, name: &str, now: Now) -> Result<(), Refusal> {
        let _one_at_a_time = self.catalog.removing.lock();
        if self.catalog.take_topic(name, now)? {
            let queues = self.store.queues_of(&TopicName::trusted(name));
            queues.into_iter().for_each(|index| Queue { index }.wake_waiting());
            self.remove_rest(name, now)?;
        }
        Ok(())
    }

    /// Removes what belonged to a topic that was taken out. Its name is free only then: over files of before, its old messages would come
    /// back, and groups would be beyond its end.
    fn remove_rest(&self, name: &str, now: Now) -> Result<(), Refusal> {
        self.offsets.forget_topic(name, now)?;
        let topic = TopicName::trusted(name);
        let had_messages = |queue: &Arc<QueueIndex>| queue.appended_end() > QueueOffset(0);
        if self.store.queues_of(&topic).iter().any(had_messages) {
            // First: after a power cut the topic must not be there without what its files had.
            self.store.sync_until(self.state.end()).map_err(internal)?;
        }
        self.store.remove_topic(&topic).map_err(internal)?;
        self.catalog.free_name(name);
        Ok(())
    }

    /// Tries again to remove what could not be removed of topics. Waits for the disk.
    pub fn finish(&self, now: Now) -> Result<(), Refusal> {
        if self.catalog.leaving().is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.catalog.removing.lock();
        // What a request has removed meanwhile is not in the list any more.
        self.catalog.leaving().iter().try_for_each(|name| self.remove_rest(name, now))
    }

    /// Removes queues of topics that are not there: those whose removal has failed, mostly. Waits for the disk.
    pub fn unknown_topics(&self, now: Now) -> Result<(), Refusal> {
        self.finish(now)?;
        let _one_at_a_time = self.catalog.removing.lock();
        for (name, _) in self.store.topics() {
            let is_known = || name.is_light() || self.catalog.topic(name.as_str()).is_some();
            if is_known() || !self.catalog.hold_name(name.as_str()) {
                continue;
            }
            if is_known() {
                // Made since it was looked for.
                self.catalog.free_name(name.as_str());
            } else {
                self.catalog.note_unknown_removed(name.as_str(), now)?;
                self.remove_rest(name.as_str(), now)?;
            }
        }
        Ok(())
    }

    /// Removes queues that their topic does not have any more, once retention has taken their last message; gives how many.
    /// Waits for the disk.
    pub fn expired_queues(&self) -> Result<usize, Refusal> {
        let _one_at_a_time = self.catalog.removing.lock();
        let count_of = |name: &TopicName| self.catalog.topic(name.as_str()).map_or(0, |topic| topic.queues.len());
        let has_others = |name: &TopicName, count: u32| !name.is_light() && count as usize > count_of(name);
        // Meanwhile none of these topics gets queues anew.
        let mut held = HashSet::new();
        for (name, count) in self.store.topics() {
            if has_others(&name, count) && self.catalog.hold_name(name.as_str()) {
                held.insert(name);
            }
        }
        let is_used = |name: &TopicName, queue: QueueId| !held.contains(name) || (queue.0 as usize) < count_of(name);
        let before: HashMap<_, _> = held.iter().map(|name| (name, self.queues_of(name))).collect();
        let removed = self.store.remove_expired_queues(is_used);
        for (name, queues) in before {
            // Should the topic get them again, they begin at 0.
            let left = self.queues_of(name);
            queues.difference(&left).for_each(|queue| self.offsets.begin_anew(name.as_str(), *queue));
        }
        held.iter().for_each(|name| self.catalog.free_name(name.as_str()));
        removed.map_err(internal)
    }

    fn queues_of(&self, topic: &TopicName) -> BTreeSet<QueueId> {
        self.store.queues_of(topic).iter().map(|index| index.queue()).collect()
    }

    /// Removes a group and, if asked to, its offsets. Waits for the disk.
    pub fn group(&self, name: &str, forget_offsets: bool, now: Now) -> Result<(), Refusal> {
        self.catalog.remove_group(name, now)?;
        if forget_offsets {
            self.offsets.forget_group(name, now)?;
        }
        self.keep(now)
    }

    fn keep(&self, now: Now) -> Result<(), Refusal> {
        self.offsets.keep(now).and_then(|()| self.durability.keep_until(self.state.end())).map_err(internal)
    }
}
