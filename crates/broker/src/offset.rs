//! Committed offsets: how far each group has come in each queue, and where an administrator wants it to begin again.
//!
//! Kept in memory; what has changed gathers and goes into the log as one change of state (`keep_changes`): with the answers of a pass,
//! else within a tenth of a second. A commit that was answered outlives a killed process. A power cut may take messages from a queue's end that are consumed already: the
//! next ones get their offsets, so whoever was beyond the end goes on there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use base::{GroupName, LogOffset, Now, QueueId, QueueOffset, Refusal, Timestamp};
use format::state::StateChange;
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::StorageError;

use crate::RawOffset;
use crate::broker::{Broker, internal};
use crate::catalog::Catalog;
use crate::publish::refusal_of;
use crate::queue::Queue;
use crate::state::{OffsetTable, StateLog};

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

/// Every committed offset, keyed `topic@group` as in the document, and what of it is not in the log yet.
#[derive(Debug, Default)]
struct Committed {
    offsets: HashMap<String, QueueTable>,
    unkept: BTreeMap<String, BTreeSet<u32>>,
}

impl Committed {
    fn put(&mut self, key: String, queue: u32, offset: RawOffset) {
        if self.offsets.get(&key).and_then(|queues| queues.get(&queue)) == Some(&offset) {
            return;
        }
        self.offsets.entry(key.clone()).or_default().insert(queue, offset);
        self.unkept.entry(key).or_default().insert(queue);
    }

    /// Takes what is not in the log yet, as changes.
    fn take_unkept(&mut self) -> Vec<StateChange> {
        let unkept = std::mem::take(&mut self.unkept);
        let change = |(of, queues): (String, BTreeSet<u32>)| {
            let known = self.offsets.get(&of)?;
            let offsets = queues.into_iter().filter_map(|queue| Some((queue, *known.get(&queue)?))).collect();
            Some(StateChange::Offsets { of, replaces: false, offsets })
        };
        unkept.into_iter().filter_map(change).collect()
    }

    /// They could not be put into the log.
    fn put_back(&mut self, changes: Vec<StateChange>) {
        for change in changes {
            if let StateChange::Offsets { of, offsets, .. } = change {
                self.unkept.entry(of).or_default().extend(offsets.into_keys());
            }
        }
    }
}

/// Committed offsets and resets.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    committed: Mutex<Committed>,
    resets: Mutex<HashMap<String, QueueTable>>,
    /// Mirrors whether `resets` has anything: looked at with every fetch.
    has_resets: AtomicBool,
    /// Whether the document lacks something.
    unexported: AtomicBool,
    version: AtomicI64,
    /// Held from taking what is not in the log to having put it there: an older value never follows a newer one, and who finds
    /// nothing to take knows that it is there.
    keeping: Mutex<()>,
}

fn key(topic: &str, group: &str) -> String {
    format!("{topic}@{group}")
}

impl Offsets {
    pub(crate) fn open(table: OffsetTable, version: i64, catalog: &Catalog) -> Self {
        let offsets = Self { version: AtomicI64::new(version), unexported: AtomicBool::new(true), ..Self::default() };
        offsets.committed.lock().offsets = table.into_iter().collect();
        offsets.draw_back_to_ends(catalog);
        offsets
    }

    fn draw_back_to_ends(&self, catalog: &Catalog) {
        let mut committed = self.committed.lock();
        let Committed { offsets, unkept } = &mut *committed;
        for (key, queues) in offsets {
            let topic = key.split_once('@').map_or(&**key, |(topic, _)| topic);
            for (queue, offset) in queues {
                // A topic that is not there begins at 0 when it is made again.
                let end = match catalog.topic(topic) {
                    Some(topic) => topic.queue(QueueId(*queue)).ok().map(|queue| queue.end().0 as RawOffset),
                    None => Some(0),
                };
                if let Some(end) = end.filter(|end| end < offset) {
                    tracing::warn!(%key, queue, offset, end, "a committed offset was beyond its queue's end; it is there now");
                    *offset = end;
                    unkept.entry(key.clone()).or_default().insert(*queue);
                }
            }
        }
    }

    /// The table as a document, if it has changed since it was last asked for here.
    pub(crate) fn take_to_export(&self, now: Now) -> Option<Value> {
        self.unexported.swap(false, Ordering::AcqRel).then(|| {
            let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
            json!({
                "dataVersion": {"counter": version, "stateVersion": 0, "timestamp": now.wall.0},
                "offsetTable": self.committed.lock().offsets,
            })
        })
    }

    /// The table could not be written: it is to be asked for again.
    pub(crate) fn note_unexported(&self) {
        self.unexported.store(true, Ordering::Release);
    }

    /// Changes that lead to all offsets there are. Waits for whoever puts some into the log.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        let _one_at_a_time = self.keeping.lock();
        let offsets: BTreeMap<_, _> = self.committed.lock().offsets.clone().into_iter().collect();
        offsets.into_iter().map(|(of, offsets)| StateChange::Offsets { of, replaces: true, offsets }).collect()
    }

    /// Puts what has changed into the log. Gives where it ends there; `None` if nothing has.
    pub(crate) fn keep(&self, state: &StateLog, now: Now) -> Result<Option<LogOffset>, StorageError> {
        let _in_order = self.keeping.lock();
        let changes = self.committed.lock().take_unkept();
        if changes.is_empty() {
            return Ok(None);
        }
        self.unexported.store(true, Ordering::Release);
        let kept = state.propose(changes.clone(), now);
        kept.map(Some).inspect_err(|_| self.committed.lock().put_back(changes))
    }

    /// Replaces the offsets of some groups in some topics, by none where the table is empty.
    fn replace(&self, state: &StateLog, tables: Vec<(String, QueueTable)>, now: Now) -> Result<(), StorageError> {
        let _in_order = self.keeping.lock();
        if tables.is_empty() {
            return Ok(());
        }
        let changes = tables.iter().map(|(of, offsets)| StateChange::Offsets {
            of: of.clone(),
            replaces: true,
            offsets: offsets.clone(),
        });
        let mut committed = self.committed.lock();
        state.propose(changes.collect(), now)?;
        for (of, offsets) in tables {
            committed.unkept.remove(&of);
            if offsets.is_empty() {
                committed.offsets.remove(&of);
            } else {
                committed.offsets.insert(of, offsets);
            }
        }
        self.unexported.store(true, Ordering::Release);
        Ok(())
    }

    fn commit(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) {
        let key = key(topic, group);
        if self.has_resets.load(Ordering::Acquire)
            && self.resets.lock().get(&key).is_some_and(|queues| queues.contains_key(&queue.0))
        {
            // The consumer has not yet heard of the reset; what it commits is of before.
            return;
        }
        self.committed.lock().put(key, queue.0, offset);
    }

    fn committed(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        self.committed.lock().offsets.get(&key(topic, group)).and_then(|queues| queues.get(&queue.0)).copied()
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
        self.offsets.committed.lock().put(key.clone(), queue.0, offset);
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
        self.offsets.committed.lock().offsets.get(&key(topic, group)).cloned().unwrap_or_default()
    }

    /// The sum of a group's offsets in a topic, by the document's `topic@group`.
    pub(crate) fn committed_sums(&self) -> Vec<(String, u64)> {
        let committed = self.offsets.committed.lock();
        let sum = |queues: &QueueTable| queues.values().map(|&offset| offset.max(0) as u64).sum();
        committed.offsets.iter().map(|(key, queues)| (key.clone(), sum(queues))).collect()
    }

    /// Topics a group has offsets in.
    pub fn topics_with_offsets_of(&self, group: &str) -> Vec<String> {
        let suffix = format!("@{group}");
        let committed = self.offsets.committed.lock();
        let mut topics: Vec<_> =
            committed.offsets.keys().filter_map(|key| key.strip_suffix(suffix.as_str())).map(str::to_owned).collect();
        topics.sort_unstable();
        topics
    }

    /// Groups that have offsets in a topic.
    pub fn groups_with_offsets_in(&self, topic: &str) -> Vec<String> {
        let prefix = format!("{topic}@");
        let committed = self.offsets.committed.lock();
        let mut groups: Vec<_> =
            committed.offsets.keys().filter_map(|key| key.strip_prefix(prefix.as_str())).map(str::to_owned).collect();
        groups.sort_unstable();
        groups
    }

    /// Copies one group's offsets in some topics to another group.
    pub fn copy_offsets(&self, topics: &[String], source: &str, target: &str, now: Now) -> Result<(), Refusal> {
        let copied = topics.iter().map(|topic| (key(topic, target), self.offsets_of(topic, source)));
        self.offsets.replace(&self.state, copied.collect(), now).map_err(internal)
    }

    /// Every offset as the document has it.
    pub fn offset_document(&self) -> Value {
        json!({
            "dataVersion": {"counter": self.offsets.version.load(Ordering::Relaxed), "stateVersion": 0, "timestamp": 0},
            "offsetTable": self.offsets.committed.lock().offsets,
        })
    }

    /// Forgets offsets of a removed topic or group.
    pub(crate) fn forget_offsets(&self, concerns: impl Fn(&str, &str) -> bool, now: Now) -> Result<(), Refusal> {
        let is_concerned = |key: &String| key.split_once('@').is_some_and(|(topic, group)| concerns(topic, group));
        let known: Vec<_> =
            self.offsets.committed.lock().offsets.keys().filter(|key| is_concerned(key)).cloned().collect();
        let forgotten = known.into_iter().map(|key| (key, QueueTable::new())).collect();
        self.offsets.replace(&self.state, forgotten, now).map_err(internal)?;
        self.offsets.resets.lock().retain(|key, _| !is_concerned(key));
        self.fetched.forget(&concerns);
        Ok(())
    }

    /// Puts committed offsets that have changed into the log, and what else it does not know yet. Gives where they end there: what a
    /// watermark must pass for all that was taken before to be kept.
    pub fn keep_changes(&self, now: Now) -> Result<LogOffset, Refusal> {
        self.catalog().keep(now).and_then(|()| self.offsets.keep(&self.state, now)).map_err(refusal_of)?;
        Ok(self.state.end())
    }

    /// Queues of a topic with their numbers.
    pub fn queues_of(&self, topic: &str) -> Result<Vec<Queue>, Refusal> {
        let topic = self.catalog().topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        Ok(topic.queues.clone())
    }
}
