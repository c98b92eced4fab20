//! Topics and groups with their settings, read through an immutable snapshot, changed one at a time.
//!
//! Documents `topics.json` and `subscriptionGroup.json` follow every change: at once for changes an administrator asked
//! for, within a moment for topics made on the fly (which are found again from the log should the process be killed).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use base::limits::{GROUPS_MAX, QUEUES_PER_TOPIC_MAX, TOPICS_MAX};
use base::metric::Metrics;
use base::{GroupName, Now, QueueId, QueueOffset, Refusal, TopicName};
use format::document::{DataVersion, GroupDocument, GroupTableDocument, TopicDocument, TopicTableDocument};
use parking_lot::Mutex;
use rpds::HashTrieMapSync;
use storage::{StorageError, Store};

use crate::queue::Queue;

mod documents;

use documents::{GROUPS_FILE, TOPICS_FILE, read_table};

/// What a topic allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission(pub u32);

impl Permission {
    const INHERIT: u32 = 1;
    const WRITE: u32 = 2;
    const READ: u32 = 4;

    /// Whether producers may write.
    pub const fn can_write(self) -> bool {
        self.0 & Self::WRITE != 0
    }

    /// Whether consumers may read.
    pub const fn can_read(self) -> bool {
        self.0 & Self::READ != 0
    }

    /// Whether new topics may take their settings from this one.
    pub const fn is_inherited(self) -> bool {
        self.0 & Self::INHERIT != 0
    }
}

/// A topic with its queues.
#[derive(Debug)]
pub struct Topic {
    /// Name.
    pub name: TopicName,
    /// Settings.
    pub settings: TopicDocument,
    /// Queues: as many as the larger of read and write queues.
    pub queues: Vec<Queue>,
}

impl Topic {
    /// What it allows.
    pub const fn permission(&self) -> Permission {
        Permission(self.settings.perm)
    }

    /// A queue by its number.
    pub fn queue(&self, queue: QueueId) -> Result<&Queue, Refusal> {
        self.queues
            .get(queue.0 as usize)
            .ok_or_else(|| Refusal::no_queue_id(self.name.as_str(), queue, self.queues.len() as u32))
    }
}

/// What becomes of a topic or group that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Change,
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
    topics_unsaved: AtomicBool,
    groups_unsaved: AtomicBool,
    saving: Mutex<()>,
    /// Held while a topic's queues are removed: who comes second must not remove those of a topic made anew in between.
    pub(crate) removing: Mutex<()>,
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
    /// Reads the documents, and makes topics again that the store has queues of but the documents do not know.
    pub(crate) fn open(store: &Store, metrics: Arc<Metrics>) -> Result<Self, StorageError> {
        let topics: TopicTableDocument = read_table(store, TOPICS_FILE)?;
        let groups: GroupTableDocument = read_table(store, GROUPS_FILE)?;
        let mut snapshot = Snapshot::default();
        for (name, settings) in topics.topic_config_table {
            let name = TopicName::trusted(&name);
            snapshot.topics.insert_mut(name.clone(), Arc::new(new_topic(store, name, settings)));
        }
        for (name, mut settings) in groups.subscription_group_table {
            settings.group_name.clone_from(&name);
            snapshot.groups.insert_mut(GroupName::trusted(&name), Arc::new(settings));
        }
        let mut found = false;
        for (name, queues) in store.topics() {
            if !snapshot.topics.contains_key(&name) && !name.is_light() {
                let settings = TopicDocument {
                    topic_name: name.as_str().to_owned(),
                    read_queue_nums: queues,
                    write_queue_nums: queues,
                    ..TopicDocument::default()
                };
                tracing::warn!(topic = %name, queues, "topic found in the log but not in topics.json; made again");
                snapshot.topics.insert_mut(name.clone(), Arc::new(new_topic(store, name, settings)));
                found = true;
            }
        }
        let versions = Versions {
            topics: topics.data_version,
            groups: groups.data_version,
            forbidden: groups.forbidden_table,
            leaving: BTreeSet::new(),
        };
        metrics.topics.set(snapshot.topics.size() as u64);
        metrics.groups.set(snapshot.groups.size() as u64);
        Ok(Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            changes: Mutex::new(versions),
            generation: AtomicU64::new(1),
            topics_unsaved: AtomicBool::new(found),
            groups_unsaved: AtomicBool::new(false),
            saving: Mutex::default(),
            removing: Mutex::default(),
            metrics,
        })
    }

    /// A topic by name.
    pub fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.snapshot.load().topics.get(name).cloned()
    }

    /// One past the last message of a queue; `None` if there is no such queue.
    pub(crate) fn end_of(&self, topic: &str, queue: QueueId) -> Option<QueueOffset> {
        self.topic(topic)?.queue(queue).ok().map(|queue| queue.index.appended_end())
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
    pub fn put_topic(
        &self,
        store: &Store,
        name: TopicName,
        settings: TopicDocument,
        now: Now,
    ) -> Result<Arc<Topic>, Refusal> {
        let put = self.put_topics(store, vec![(name, settings)], now)?;
        put.into_iter().next().ok_or_else(|| Refusal::Internal("no topic was made".to_owned()))
    }

    /// Makes topics or changes their settings: all, or none if one of them is refused.
    pub(crate) fn put_topics(
        &self,
        store: &Store,
        wanted: Vec<(TopicName, TopicDocument)>,
        now: Now,
    ) -> Result<Vec<Arc<Topic>>, Refusal> {
        self.take_in_topics(store, wanted, Known::Change, now)
    }

    /// As `put_topics`, for topics that nobody asked for by their settings: one that was made meanwhile stays as it is. Its queues may have
    /// messages already, or an administrator has set it up.
    pub(crate) fn make_topics(
        &self,
        store: &Store,
        wanted: Vec<(TopicName, TopicDocument)>,
        now: Now,
    ) -> Result<Vec<Arc<Topic>>, Refusal> {
        self.take_in_topics(store, wanted, Known::Keep, now)
    }

    /// As `make_topics`, one.
    pub(crate) fn make_topic(
        &self,
        store: &Store,
        name: TopicName,
        settings: TopicDocument,
        now: Now,
    ) -> Result<Arc<Topic>, Refusal> {
        let made = self.make_topics(store, vec![(name, settings)], now)?;
        made.into_iter().next().ok_or_else(|| Refusal::Internal("no topic was made".to_owned()))
    }

    fn take_in_topics(
        &self,
        store: &Store,
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
        let (mut next, mut is_changed) = (Snapshot::clone(&current), false);
        let mut put = Vec::with_capacity(wanted.len());
        for (name, mut settings) in wanted {
            name.as_str().clone_into(&mut settings.topic_name);
            let known = next.topics.get(&name);
            if let Some(same) = known.filter(|topic| if_known == Known::Keep || topic.settings == settings) {
                put.push(same.clone());
                continue;
            }
            let topic = Arc::new(new_topic(store, name.clone(), settings));
            next.topics.insert_mut(name, topic.clone());
            is_changed = true;
            put.push(topic);
        }
        if is_changed {
            self.publish_topics(&mut versions, next, now);
        }
        Ok(put)
    }

    /// Whether such a topic is not refused for its own sake.
    pub(crate) fn may_be_made(&self, name: &TopicName, settings: &TopicDocument) -> bool {
        self.changes.lock().check_topic(name, settings).is_ok()
    }

    /// Takes a topic out; `false` if there was none. None of its name can be made until `free_name`. One whose queues could not
    /// be removed then is taken out as well, again.
    pub(crate) fn take_topic(&self, name: &str, now: Now) -> bool {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        if !current.topics.contains_key(name) {
            return versions.leaving.contains(name);
        }
        versions.leaving.insert(name.to_owned());
        let next = Snapshot { topics: current.topics.remove(name), groups: current.groups.clone() };
        self.publish_topics(&mut versions, next, now);
        true
    }

    /// Keeps a topic from being made or changed until `free_name`; `false` if it is kept from that already.
    pub(crate) fn hold_name(&self, name: &str) -> bool {
        self.changes.lock().leaving.insert(name.to_owned())
    }

    /// The queues of the topic that was taken out are gone.
    pub(crate) fn free_name(&self, name: &str) {
        self.changes.lock().leaving.remove(name);
    }

    /// Topics that were taken out and whose queues are not gone.
    pub(crate) fn leaving(&self) -> Vec<String> {
        self.changes.lock().leaving.iter().cloned().collect()
    }

    /// Makes a group or changes its settings.
    pub fn put_group(&self, name: &GroupName, settings: GroupDocument, now: Now) -> Arc<GroupDocument> {
        self.put_groups(vec![(name.clone(), settings)], now);
        self.group(name.as_str()).unwrap_or_default()
    }

    /// Makes groups or changes their settings.
    pub fn put_groups(&self, wanted: Vec<(GroupName, GroupDocument)>, now: Now) {
        self.take_in_groups(wanted, Known::Change, now);
    }

    /// As `put_groups`, for groups that nobody asked for by their settings: one that was made meanwhile stays as it is.
    pub(crate) fn make_groups(&self, wanted: Vec<(GroupName, GroupDocument)>, now: Now) {
        self.take_in_groups(wanted, Known::Keep, now);
    }

    fn take_in_groups(&self, wanted: Vec<(GroupName, GroupDocument)>, if_known: Known, now: Now) {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        let (mut next, mut is_changed) = (Snapshot::clone(&current), false);
        for (name, mut settings) in wanted {
            name.as_str().clone_into(&mut settings.group_name);
            if next.groups.get(&name).is_none_or(|group| if_known == Known::Change && **group != settings) {
                next.groups.insert_mut(name, Arc::new(settings));
                is_changed = true;
            }
        }
        if is_changed {
            self.publish_groups(&mut versions, next, now);
        }
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
    pub fn remove_group(&self, name: &str, now: Now) -> bool {
        let mut versions = self.changes.lock();
        let current = self.snapshot.load();
        if !current.groups.contains_key(name) {
            return false;
        }
        let next = Snapshot { topics: current.topics.clone(), groups: current.groups.remove(name) };
        self.publish_groups(&mut versions, next, now);
        true
    }

    fn publish_topics(&self, versions: &mut Versions, snapshot: Snapshot, now: Now) {
        bump(&mut versions.topics, now);
        self.publish(snapshot);
        self.topics_unsaved.store(true, Ordering::Release);
    }

    fn publish_groups(&self, versions: &mut Versions, snapshot: Snapshot, now: Now) {
        bump(&mut versions.groups, now);
        self.publish(snapshot);
        self.groups_unsaved.store(true, Ordering::Release);
    }

    fn publish(&self, snapshot: Snapshot) {
        self.metrics.topics.set(snapshot.topics.size() as u64);
        self.metrics.groups.set(snapshot.groups.size() as u64);
        self.snapshot.store(Arc::new(snapshot));
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

fn bump(version: &mut DataVersion, now: Now) {
    version.counter += 1;
    version.timestamp = now.wall.0 as i64;
}

fn new_topic(store: &Store, name: TopicName, mut settings: TopicDocument) -> Topic {
    name.as_str().clone_into(&mut settings.topic_name);
    let count = settings.read_queue_nums.max(settings.write_queue_nums).min(QUEUES_PER_TOPIC_MAX);
    let queues = (0..count).map(|number| Queue { index: store.queue(&name, QueueId(number)) }).collect();
    Topic { name, settings, queues }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn store() -> Store {
        let options = storage::Options {
            disk: storage::disk::Disk::new(storage::disk::MemoryDisk::new()),
            segment_size: 64 * 1024,
            key_index: false,
            checkpoint_reserve: Some(4096),
            ..storage::Options::new(std::path::Path::new("/data"))
        };
        Store::open(options, Arc::default(), &mut |_| ()).expect("opens").0
    }

    #[test]
    fn a_topic_cannot_be_made_again_before_its_queues_are_gone() {
        let (store, now) = (store(), Now::default());
        let catalog = Catalog::open(&store, Arc::default()).expect("opens");
        let name = TopicName::trusted("orders");
        let settings = || TopicDocument { read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
        let first = catalog.put_topic(&store, name.clone(), settings(), now).expect("makes");
        assert!(catalog.take_topic("orders", now));
        assert!(matches!(catalog.put_topic(&store, name.clone(), settings(), now), Err(Refusal::Busy(_))));
        store.remove_topic(&name).expect("removes");
        catalog.free_name("orders");
        let again = catalog.put_topic(&store, name, settings(), now).expect("makes again");
        assert!(!Arc::ptr_eq(&first.queues[0].index, &again.queues[0].index), "a queue of its own");
    }
}
