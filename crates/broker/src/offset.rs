//! Committed offsets: how far each group has come in each queue, and where an administrator wants it to begin again.
//!
//! Kept in memory, written to `consumerOffset.json` whenever they changed. After a crash a commit may be lost that was made
//! since: its messages are consumed again. A power cut may take messages from a queue's end that are consumed already: the
//! next ones get their offsets, so whoever was beyond the end goes on there.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use base::{GroupName, Now, QueueId, QueueOffset, Refusal, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::{StorageError, Store};

use crate::RawOffset;
use crate::broker::{Broker, internal};
use crate::catalog::Catalog;
use crate::queue::Queue;

const FILE: &str = "consumerOffset.json";

/// Which end of equal store times is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// The first message of that time or later.
    #[default]
    Lower,
    /// The last message of that time or earlier.
    Upper,
}

/// One group's offsets in one topic.
type QueueTable = BTreeMap<u32, RawOffset>;

/// Every committed offset, keyed `topic@group` as in the document.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    committed: Mutex<HashMap<String, QueueTable>>,
    resets: Mutex<HashMap<String, QueueTable>>,
    /// Mirrors whether `resets` has anything: looked at with every fetch.
    has_resets: AtomicBool,
    unsaved: AtomicBool,
    version: AtomicI64,
    /// Held from the look at `unsaved` to the end of the write: an older table never replaces a newer one, and who finds
    /// nothing unsaved knows it is written.
    saving: Mutex<()>,
}

fn key(topic: &str, group: &str) -> String {
    format!("{topic}@{group}")
}

impl Offsets {
    pub(crate) fn open(store: &Store, catalog: &Catalog) -> Result<Self, StorageError> {
        let offsets = Self::default();
        if let Some(value) = store.read_document(FILE)? {
            let mut committed = offsets.committed.lock();
            for (name, queues) in value.get("offsetTable").and_then(Value::as_object).into_iter().flatten() {
                let queues = queues.as_object().into_iter().flatten();
                let table = queues.filter_map(|(queue, offset)| Some((queue.parse().ok()?, offset.as_i64()?)));
                committed.insert(name.clone(), table.collect());
            }
            let counter = value.pointer("/dataVersion/counter").and_then(Value::as_i64);
            offsets.version.store(counter.unwrap_or_default(), Ordering::Relaxed);
            drop(committed);
        }
        offsets.draw_back_to_ends(catalog);
        Ok(offsets)
    }

    fn draw_back_to_ends(&self, catalog: &Catalog) {
        for (key, queues) in &mut *self.committed.lock() {
            let topic = key.split_once('@').map_or(&**key, |(topic, _)| topic);
            for (queue, offset) in queues {
                let end = catalog.end_of(topic, QueueId(*queue)).map(|end| end.0 as RawOffset);
                if let Some(end) = end.filter(|end| end < offset) {
                    tracing::warn!(%key, queue, offset, end, "a committed offset was beyond its queue's end; it is there now");
                    *offset = end;
                    self.unsaved.store(true, Ordering::Release);
                }
            }
        }
    }

    pub(crate) fn save(&self, store: &Store, now: Now) -> Result<(), StorageError> {
        let _one_at_a_time = self.saving.lock();
        if !self.unsaved.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        let text = json!({
            "dataVersion": {"counter": version, "stateVersion": 0, "timestamp": now.wall.0},
            "offsetTable": *self.committed.lock(),
        });
        store.write_document(FILE, &text.to_string()).inspect_err(|_| self.unsaved.store(true, Ordering::Release))
    }

    fn commit(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) {
        let key = key(topic, group);
        if self.has_resets.load(Ordering::Acquire)
            && self.resets.lock().get(&key).is_some_and(|queues| queues.contains_key(&queue.0))
        {
            // The consumer has not yet heard of the reset; what it commits is of before.
            return;
        }
        let previous = self.committed.lock().entry(key).or_default().insert(queue.0, offset);
        if previous != Some(offset) {
            self.unsaved.store(true, Ordering::Release);
        }
    }

    fn committed(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        self.committed.lock().get(&key(topic, group)).and_then(|queues| queues.get(&queue.0)).copied()
    }
}

impl Broker {
    /// Takes a consumer's word for how far it has come, even if it is less than before.
    pub fn commit_offset(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) -> Result<(), Refusal> {
        let known = self.catalog().topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        known.queue(queue)?;
        if offset < 0 {
            return Err(Refusal::BadRequest(format!("the offset {offset} is negative")));
        }
        // Offsets are kept under `topic@group`: nothing else may look like that.
        GroupName::checked(group)?;
        self.offsets.commit(topic, group, queue, offset);
        Ok(())
    }

    /// The committed offset, if there is one.
    pub fn committed_offset(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        self.offsets.committed(topic, group, queue)
    }

    /// Where a consumer of the group begins: its committed offset, or the start of a young queue that nobody need
    /// skip. `None` leaves the choice to the consumer's own rule.
    pub fn start_offset(
        &self,
        topic: &str,
        group: &str,
        queue: QueueId,
        zero_if_new: bool,
    ) -> Result<Option<RawOffset>, Refusal> {
        if let Some(offset) = self.offsets.committed(topic, group, queue) {
            return Ok(Some(offset));
        }
        let known = self.catalog().topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        let is_young = known.queue(queue)?.first() == QueueOffset(0);
        Ok((is_young && zero_if_new && self.fits_memory(known.queue(queue)?)).then_some(0))
    }

    /// Whether the whole queue is so short that reading it from the start costs nobody anything.
    fn fits_memory(&self, queue: &Queue) -> bool {
        match queue.index.entry(queue.first()) {
            Ok(Some(first)) => {
                let behind = self.store().watermarks().written().0.saturating_sub(first.log_offset.0);
                behind < self.options().young_queue_size
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// The offset of the message stored at `time` or, by `boundary`, just after or before. Waits for the disk.
    pub fn search_offset(&self, queue: &Queue, time: Timestamp, boundary: Boundary) -> Result<QueueOffset, Refusal> {
        let mut failure = None;
        let found = queue.index.search(|entry| match self.store().store_time(entry) {
            Ok(Some(stored)) => match boundary {
                Boundary::Lower => stored >= time,
                Boundary::Upper => stored > time,
            },
            Ok(None) => false,
            Err(error) => {
                failure.get_or_insert(error);
                true
            }
        });
        if let Some(error) = failure {
            return Err(internal(error));
        }
        let found = found.map_err(internal)?;
        Ok(match boundary {
            Boundary::Lower => found,
            Boundary::Upper => QueueOffset(found.0.saturating_sub(1)).max(queue.first()),
        })
    }

    /// Has the group begin again at `offset`: consumers hear of it with their next fetch, or the one that waits, and commits of
    /// before are void.
    pub fn reset_offset(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) {
        let key = key(topic, group);
        self.offsets.committed.lock().entry(key.clone()).or_default().insert(queue.0, offset);
        self.offsets.unsaved.store(true, Ordering::Release);
        self.fetched.forget_queue(topic, group, queue);
        if self.group_is_online(group) {
            self.offsets.resets.lock().entry(key).or_default().insert(queue.0, offset);
            self.offsets.has_resets.store(true, Ordering::Release);
            // Fetches that wait for a message hear of it now rather than when their time is over.
            if let Some(topic) = self.catalog().topic(topic)
                && let Ok(queue) = topic.queue(queue)
            {
                queue.index.wake_watchers();
            }
        }
    }

    /// Whether a reset waits for this consumer.
    pub fn has_reset(&self, topic: &str, group: &str, queue: QueueId) -> bool {
        self.offsets.has_resets.load(Ordering::Acquire) && {
            let resets = self.offsets.resets.lock();
            resets.get(&key(topic, group)).is_some_and(|queues| queues.contains_key(&queue.0))
        }
    }

    /// Takes the reset that waits for this consumer, if there is one.
    pub fn take_reset(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        if !self.offsets.has_resets.load(Ordering::Acquire) {
            return None;
        }
        let mut resets = self.offsets.resets.lock();
        let queues = resets.get_mut(&key(topic, group))?;
        let offset = queues.remove(&queue.0);
        if queues.is_empty() {
            resets.remove(&key(topic, group));
        }
        self.offsets.has_resets.store(!resets.is_empty(), Ordering::Release);
        offset
    }

    /// Offsets of a group in a topic by queue.
    pub fn offsets_of(&self, topic: &str, group: &str) -> BTreeMap<u32, RawOffset> {
        self.offsets.committed.lock().get(&key(topic, group)).cloned().unwrap_or_default()
    }

    /// The sum of a group's offsets in a topic, by the document's `topic@group`.
    pub(crate) fn committed_sums(&self) -> Vec<(String, u64)> {
        let committed = self.offsets.committed.lock();
        let sum = |queues: &QueueTable| queues.values().map(|&offset| offset.max(0) as u64).sum();
        committed.iter().map(|(key, queues)| (key.clone(), sum(queues))).collect()
    }

    /// Topics a group has offsets in.
    pub fn topics_with_offsets_of(&self, group: &str) -> Vec<String> {
        let suffix = format!("@{group}");
        let committed = self.offsets.committed.lock();
        let mut topics: Vec<_> =
            committed.keys().filter_map(|key| key.strip_suffix(suffix.as_str())).map(str::to_owned).collect();
        topics.sort_unstable();
        topics
    }

    /// Groups that have offsets in a topic.
    pub fn groups_with_offsets_in(&self, topic: &str) -> Vec<String> {
        let prefix = format!("{topic}@");
        let committed = self.offsets.committed.lock();
        let mut groups: Vec<_> =
            committed.keys().filter_map(|key| key.strip_prefix(prefix.as_str())).map(str::to_owned).collect();
        groups.sort_unstable();
        groups
    }

    /// Copies one group's offsets in a topic to another group.
    pub fn copy_offsets(&self, topic: &str, source: &str, target: &str) {
        let offsets = self.offsets_of(topic, source);
        self.offsets.committed.lock().insert(key(topic, target), offsets);
        self.offsets.unsaved.store(true, Ordering::Release);
    }

    /// Every offset as the document has it.
    pub fn offset_document(&self) -> Value {
        json!({
            "dataVersion": {"counter": self.offsets.version.load(Ordering::Relaxed), "stateVersion": 0, "timestamp": 0},
            "offsetTable": *self.offsets.committed.lock(),
        })
    }

    /// Forgets offsets of a removed topic or group.
    pub(crate) fn forget_offsets(&self, concerns: impl Fn(&str, &str) -> bool) {
        let is_concerned = |key: &String| key.split_once('@').is_some_and(|(topic, group)| concerns(topic, group));
        self.offsets.committed.lock().retain(|key, _| !is_concerned(key));
        self.offsets.resets.lock().retain(|key, _| !is_concerned(key));
        self.fetched.forget(&concerns);
        self.offsets.unsaved.store(true, Ordering::Release);
    }

    /// Queues of a topic with their numbers.
    pub fn queues_of(&self, topic: &str) -> Result<Vec<Queue>, Refusal> {
        let topic = self.catalog().topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        Ok(topic.queues.clone())
    }
}
