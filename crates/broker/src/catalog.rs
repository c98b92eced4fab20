//! Topics and groups with their settings, read through an immutable snapshot, changed one at a time.
//!
//! Every change is a record of the log (`state`), appended before the change is visible here: a topic is in the log before its first
//! message. The documents of topics and of groups are exports that follow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base::limits::{GROUPS_MAX, QUEUES_PER_TOPIC_MAX, TOPICS_MAX};
use base::metric::Metrics;
use base::{GroupName, Now, QueueId, QueueOffset, Refusal, TopicName};
use format::document::{DataVersion, GroupDocument, TopicDocument};
use format::state::{self, STATE_BODY_SIZE_MAX, StateChange};
use parking_lot::Mutex;
use rpds::HashTrieMapSync;
use storage::StorageError;

use crate::error::refusal_of;
use crate::host::Host;
use crate::options::Options;
use crate::queue::Queue;
use crate::running::Running;
use crate::state::{StateLog, StateTables};

mod documents;
mod followed;
mod on_demand;
mod system_topics;
mod topic;

pub use topic::Topic;

/// What becomes of a topic or group that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Change,
    /// Nobody asked for it by its settings: one that was made meanwhile stays as it is. A topic's queues may have messages already, or an
    /// administrator has set it up.
    Keep,
}

/// One state of the catalog. The next one shares what did not change, so that a change costs the same among any number.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    topics: HashTrieMapSync<TopicName, Arc<Topic>>,
    groups: HashTrieMapSync<GroupName, Arc<GroupDocument>>,
}

/// The catalog.
#[derive(Debug)]
pub struct Catalog {
    snapshot: ArcSwap<Snapshot>,
    changes: Mutex<Versions>,
    /// Counts changes of topics: who keeps a topic looks whether it is still the one.
    generation: AtomicU64,
    topics_unexported: AtomicBool,
    groups_unexported: AtomicBool,
    /// Held while a topic's queues are removed: who comes second must not remove those of a topic made anew in between.
    pub(crate) removing: Mutex<()>,
    state: Arc<StateLog>,
    host: Arc<dyn Host>,
    options: Arc<Options>,
    running: Arc<Running>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Versions {
    topics: DataVersion,
    groups: DataVersion,
    forbidden: serde_json::Value,
    /// Topics whose queues are being removed: none of that name can be made meanwhile.
    leaving: BTreeSet<String>,
}

impl Versions {
    fn check_topic(&self, name: &TopicName, settings: &TopicDocument) -> Result<(), Refusal> {
        let queues = settings.read_queue_nums.max(settings.write_queue_nums);
        if queues > QUEUES_PER_TOPIC_MAX {
            return Err(Refusal::BadRequest(format!(
                "topic [{name}]: {queues} queues; at most {QUEUES_PER_TOPIC_MAX} are possible"
            )));
        }
        if self.leaving.contains(name.as_str()) {
            return Err(Refusal::Busy(format!(
                "topic [{name}] is being removed: create it again once its queues are gone; if their files cannot be removed, \
                 the log says why"
            )));
        }
        Ok(())
    }
}

impl Catalog {
    /// The topics and groups of these tables, and topics that the store has queues of but the tables do not know: a foreign broker
    /// may have been killed before it wrote its document.
    pub(crate) fn open(
        tables: StateTables,
        state: Arc<StateLog>,
        host: Arc<dyn Host>,
        (options, running): (&Arc<Options>, &Arc<Running>),
        metrics: Arc<Metrics>,
        now: Now,
    ) -> Result<Self, StorageError> {
        let StateTables { topics, groups, .. } = tables;
        let mut versions = Versions {
            topics: topics.data_version,
            groups: groups.data_version,
            forbidden: groups.forbidden_table,
            leaving: BTreeSet::new(),
        };
        let mut snapshot = Snapshot::default();
        let store = state.store();
        for (name, settings) in topics.topic_config_table {
            let name = TopicName::trusted(&name);
            snapshot.topics.insert_mut(name.clone(), Arc::new(Topic::new(store, name, settings)));
        }
        for (name, settings) in groups.subscription_group_table {
            snapshot.groups.insert_mut(GroupName::trusted(&name), Arc::new(settings));
        }
        let mut found = Vec::new();
        for (name, queues) in store.topics() {
            if !snapshot.topics.contains_key(&name) && !name.is_light() {
                let settings = TopicDocument {
                    topic_name: name.as_str().to_owned(),
                    read_queue_nums: queues,
                    write_queue_nums: queues,
                    ..TopicDocument::default()
                };
                tracing::warn!(topic = %name, queues, "topic found in the log that nothing tells of; made again");
                versions.topics = bumped(versions.topics, now);
                found.push(StateChange::Topic { settings: Box::new(settings.clone()), version: versions.topics });
                snapshot.topics.insert_mut(name.clone(), Arc::new(Topic::new(store, name, settings)));
            }
        }
        if !found.is_empty() {
            state.propose_at_start(found, now)?;
        }
        metrics.topics.set(snapshot.topics.size() as u64);
        metrics.groups.set(snapshot.groups.size() as u64);
        Ok(Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            changes: Mutex::new(versions),
            generation: AtomicU64::new(1),
            topics_unexported: AtomicBool::new(true),
            groups_unexported: AtomicBool::new(true),
            removing: Mutex::default(),
            state,
            host,
            options: options.clone(),
            running: running.clone(),
            metrics,
        })
    }

    /// Where a queue ends; `None`: its topic does not have it now. A topic that is not there begins at 0 when it is made again.
    pub(crate) fn end_of(&self, topic: &str, queue: QueueId) -> Option<QueueOffset> {
        self.topic(topic).map_or(Some(QueueOffset(0)), |topic| Some(topic.queue(queue).ok()?.end()))
    }

    /// A topic by name.
    pub fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.snapshot.load().topics.get(name).cloned()
    }

    /// Queues of a topic with their numbers.
    pub fn queues_of(&self, topic: &str) -> Result<Vec<Queue>, Refusal> {
        let topic = self.topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        Ok(topic.queues.clone())
    }

    /// Every topic, sorted by name.
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        let mut topics: Vec<_> = self.snapshot.load().topics.values().cloned().collect();
        topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        topics
    }

    /// A group's settings.
    pub fn group(&self, name: &str) -> Option<Arc<GroupDocument>> {
        self.snapshot.load().groups.get(name).cloned()
    }

    /// Every group, sorted by name.
    pub fn groups(&self) -> Vec<Arc<GroupDocument>> {
        let mut groups: Vec<_> = self.snapshot.load().groups.values().cloned().collect();
        groups.sort_unstable_by(|a, b| a.group_name.cmp(&b.group_name));
        groups
    }

    /// Changes whenever topics do.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Version of the topic table.
    pub fn topics_version(&self) -> DataVersion {
        self.changes.lock().topics
    }

    /// Makes a topic or changes its settings.
    pub fn put_topic(&self, name: TopicName, settings: TopicDocument, now: Now) -> Result<Arc<Topic>, Refusal> {
        let put = self.take_in_topics(vec![(name, settings)], Known::Change, now)?;
        put.into_iter().next().ok_or_else(|| Refusal::Internal("no topic was made".to_owned()))
    }

    /// Makes topics or changes their settings: all, or none if one of them is refused.
    pub fn put_topics(&self, wanted: Vec<(TopicName, TopicDocument)>, now: Now) -> Result<(), Refusal> {
        self.take_in_topics(wanted, Known::Change, now).map(drop)
    }

    /// The same; gives the topics.
    pub(crate) fn take_in_topics(
        &self,
        wanted: Vec<(TopicName, TopicDocument)>,
        if_known: Known,
        now: Now,
    ) -> Result<Vec<Arc<Topic>>, Refusal> {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        let mut new_count = 0;
        for (name, settings) in &wanted {
            versions.check_topic(name, settings)?;
            new_count += usize::from(!current.topics.contains_key(name));
        }
        if new_count > 0 && current.topics.size() + new_count > TOPICS_MAX {
            return Err(Refusal::Busy(format!(
                "there are {} topics already, and no more than {TOPICS_MAX} can be",
                current.topics.size()
            )));
        }
        let mut next = Snapshot::clone(&current);
        let (mut put, mut changed) = (Vec::with_capacity(wanted.len()), Vec::new());
        let version = bumped(versions.topics, now);
        let mut changes = Vec::new();
        for (name, mut settings) in wanted {
            name.as_str().clone_into(&mut settings.topic_name);
            let known = next.topics.get(&name);
            if let Some(same) = known.filter(|topic| if_known == Known::Keep || topic.settings == settings) {
                put.push(same.clone());
                continue;
            }
            changed.extend(known.cloned());
            changes.push(of_bounded_size(StateChange::Topic { settings: Box::new(settings.clone()), version })?);
            let topic = Arc::new(Topic::new(self.state.store(), name.clone(), settings));
            next.topics.insert_mut(name, topic.clone());
            put.push(topic);
        }
        if !changes.is_empty() {
            self.state.propose(changes, now).map_err(refusal_of)?;
            self.publish_topics(&mut versions, next, version);
        }
        drop(versions);
        // Who waits may wait at other queues now, or not at all.
        changed.iter().flat_map(|topic| &topic.queues).for_each(Queue::wake_waiting);
        Ok(put)
    }

    /// Whether such a topic is not refused for its own sake.
    pub(crate) fn may_be_made(&self, name: &TopicName, settings: &TopicDocument) -> bool {
        self.changes.lock().check_topic(name, settings).is_ok()
    }

    /// Takes a topic out; `false` if there was none. None of its name can be made until `free_name`. One whose queues could not
    /// be removed then is taken out as well, again.
    pub(crate) fn take_topic(&self, name: &str, now: Now) -> Result<bool, Refusal> {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        if !current.topics.contains_key(name) {
            return Ok(versions.leaving.contains(name));
        }
        let version = bumped(versions.topics, now);
        let removed = StateChange::TopicRemoved { name: name.to_owned(), version };
        self.state.propose(vec![removed], now).map_err(refusal_of)?;
        versions.leaving.insert(name.to_owned());
        let next = Snapshot { topics: current.topics.remove(name), groups: current.groups.clone() };
        self.publish_topics(&mut versions, next, version);
        Ok(true)
    }

    /// Keeps a topic from being made or changed until `free_name`; `false` if it is kept from that already.
    pub(crate) fn hold_name(&self, name: &str) -> bool {
        self.changes.lock().leaving.insert(name.to_owned())
    }

    /// Has the log know that a topic is removed that is not here, and whose name is held.
    pub(crate) fn note_unknown_removed(&self, name: &str, now: Now) -> Result<(), Refusal> {
        let mut versions = self.changes.lock();
        let version = bumped(versions.topics, now);
        let removed = StateChange::TopicRemoved { name: name.to_owned(), version };
        self.state.propose(vec![removed], now).map_err(refusal_of)?;
        versions.topics = version;
        Ok(())
    }

    /// The queues of the topic that was taken out are gone.
    pub(crate) fn free_name(&self, name: &str) {
        self.changes.lock().leaving.remove(name);
    }

    /// Topics that were taken out and whose queues are not gone.
    pub(crate) fn leaving(&self) -> Vec<String> {
        self.changes.lock().leaving.iter().cloned().collect()
    }

    /// Makes groups or changes their settings.
    pub fn put_groups(&self, wanted: Vec<(GroupName, GroupDocument)>, now: Now) -> Result<(), Refusal> {
        self.take_in_groups(wanted, Known::Change, now)
    }

    pub(crate) fn take_in_groups(
        &self,
        wanted: Vec<(GroupName, GroupDocument)>,
        if_known: Known,
        now: Now,
    ) -> Result<(), Refusal> {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        let mut next = Snapshot::clone(&current);
        let version = bumped(versions.groups, now);
        let mut changes = Vec::new();
        for (name, mut settings) in wanted {
            name.as_str().clone_into(&mut settings.group_name);
            if next.groups.get(&name).is_none_or(|group| if_known == Known::Change && **group != settings) {
                changes.push(of_bounded_size(StateChange::Group { settings: Box::new(settings.clone()), version })?);
                next.groups.insert_mut(name, Arc::new(settings));
            }
        }
        if !changes.is_empty() {
            match self.state.propose(changes.clone(), now) {
                // Who only reads is served by a full or failed disk too: the log hears of the group when it takes something again.
                Err(_) if if_known == Known::Keep => self.state.defer(changes),
                proposed => drop(proposed.map_err(refusal_of)?),
            }
            self.publish_groups(&mut versions, next, version);
        }
        Ok(())
    }

    /// Refuses more groups than are kept.
    pub fn check_room_for_groups(&self, new_count: usize) -> Result<(), Refusal> {
        let count = self.snapshot.load().groups.size();
        if new_count > 0 && count + new_count > GROUPS_MAX {
            return Err(Refusal::Busy(format!(
                "there are {count} groups already, and no more than {GROUPS_MAX} can be"
            )));
        }
        Ok(())
    }

    /// Removes a group; `false` if there was none.
    pub fn remove_group(&self, name: &str, now: Now) -> Result<bool, Refusal> {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        if !current.groups.contains_key(name) {
            return Ok(false);
        }
        let version = bumped(versions.groups, now);
        let removed = StateChange::GroupRemoved { name: name.to_owned(), version };
        self.state.propose(vec![removed], now).map_err(refusal_of)?;
        let next = Snapshot { topics: current.topics.clone(), groups: current.groups.remove(name) };
        self.publish_groups(&mut versions, next, version);
        Ok(true)
    }

    fn publish_topics(&self, versions: &mut Versions, snapshot: Snapshot, version: DataVersion) {
        versions.topics = version;
        self.publish(snapshot);
        self.topics_unexported.store(true, Ordering::Release);
    }

    fn publish_groups(&self, versions: &mut Versions, snapshot: Snapshot, version: DataVersion) {
        versions.groups = version;
        self.publish(snapshot);
        self.groups_unexported.store(true, Ordering::Release);
    }

    fn publish(&self, snapshot: Snapshot) {
        self.metrics.topics.set(snapshot.topics.size() as u64);
        self.metrics.groups.set(snapshot.groups.size() as u64);
        self.snapshot.store(Arc::new(snapshot));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// The version after this one.
/// Settings that a client gives fit into a state record of usual size: what is kept of one topic or group for ever is bounded.
fn of_bounded_size(change: StateChange) -> Result<StateChange, Refusal> {
    let size = state::encode(std::slice::from_ref(&change)).len();
    if size > STATE_BODY_SIZE_MAX {
        return Err(Refusal::BadRequest(format!(
            "the settings of a topic or group take at most {STATE_BODY_SIZE_MAX} bytes, and these take {size}"
        )));
    }
    Ok(change)
}

const fn bumped(version: DataVersion, now: Now) -> DataVersion {
    DataVersion { counter: version.counter + 1, timestamp: now.wall.0 as i64, ..version }
}
