//! Committed offsets: how far each group has come in each queue, and where an administrator wants it to begin again.
//!
//! Kept in memory; what has changed gathers and goes into the log as one change of state (`keep_changes`): what somebody's answer waits
//! for as soon as `gathering.rs` allows, the rest within a tenth of a second. A commit that was answered outlives a killed process. A power cut may take messages from a queue's end that are consumed already: the
//! next ones get their offsets, so whoever was beyond the end goes on there.

mod follow;
mod keep;
mod leases;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use base::{GroupName, Now, QueueId, QueueOffset, Refusal, Timestamp};
use format::state::StateChange;
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage::StorageError;

use crate::RawOffset;
use crate::catalog::Catalog;
use crate::cursor::committed::{Committed, OffsetCursor, QueueTable, key, too_many_pairs};
use crate::cursor::fetched::FetchedTable;
use crate::cursor::gathering::Gathering;
use crate::cursor::lanes::Lanes;
use crate::error::internal;
use crate::group::Groups;
use crate::queue::Queue;
use crate::state::{OffsetTable, StateLog, documents};

pub use leases::Beginning;

/// Which end of equal store times is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// The first message of that time or later.
    #[default]
    Lower,
    /// The last message of that time or earlier.
    Upper,
}

/// Committed offsets and resets.
#[derive(Debug)]
pub struct Offsets {
    catalog: Arc<Catalog>,
    groups: Arc<Groups>,
    fetched: Arc<FetchedTable>,
    state: Arc<StateLog>,
    lanes: Arc<Lanes>,
    /// A queue that begins this close to the log's end is read from its start by new groups, bytes.
    young_queue_size: u64,
    committed: Mutex<Committed>,
    /// How many resets consumers have not heard of.
    resets: Arc<AtomicUsize>,
    /// Whether the document lacks something.
    unexported: AtomicBool,
    version: AtomicI64,
    /// Held from taking what is not in the log to having put it there: an older value never follows a newer one, and who finds
    /// nothing to take knows that it is there.
    keeping: Mutex<()>,
    gathering: Mutex<Gathering>,
}

impl Offsets {
    /// With what a start knows: the table of offsets, and the version its document has.
    pub(crate) fn open(
        (table, version): (OffsetTable, i64),
        (catalog, groups, fetched, lanes): (&Arc<Catalog>, &Arc<Groups>, &Arc<FetchedTable>, &Arc<Lanes>),
        state: &Arc<StateLog>,
        young_queue_size: u64,
    ) -> Self {
        let committed = Committed::of(table);
        let resets = committed.resets().clone();
        let offsets = Self {
            catalog: catalog.clone(),
            groups: groups.clone(),
            fetched: fetched.clone(),
            state: state.clone(),
            lanes: lanes.clone(),
            young_queue_size,
            committed: Mutex::new(committed),
            resets,
            unexported: AtomicBool::new(true),
            version: AtomicI64::new(version),
            keeping: Mutex::default(),
            gathering: Mutex::default(),
        };
        // A slave's log may not be as far yet as its master's tables.
        if !offsets.state.store().follows() {
            offsets.draw_back_to_ends();
        }
        offsets
    }

    fn draw_back_to_ends(&self) {
        let mut committed = self.committed.lock();
        let mut beyond = Vec::new();
        for (name, group, queues) in committed.all() {
            for (&queue, &offset) in queues.iter() {
                let end = self.catalog.end_of(name, QueueId(queue)).map(|end| end.0 as RawOffset);
                if let Some(end) = end.filter(|&end| end < offset) {
                    tracing::warn!(
                        topic = name,
                        group,
                        queue,
                        offset,
                        end,
                        "a committed offset was beyond its queue's end; it is there now"
                    );
                    beyond.push((name.to_owned(), group.to_owned(), queue, end));
                }
            }
        }
        for (topic, group, queue, end) in beyond {
            committed.cursor(&topic, &group).put(queue, end);
        }
    }

    /// The table as a document, if it has changed since it was last asked for here.
    pub(crate) fn take_to_export(&self, now: Now) -> Option<Value> {
        self.unexported.swap(false, Ordering::AcqRel).then(|| {
            let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
            documents::offsets(version, &self.copy_of_all(), now)
        })
    }

    /// Every offset. Copied topic by topic, so that commits wait for one of them at most.
    pub(crate) fn copy_of_all(&self) -> OffsetTable {
        let topics = self.committed.lock().topics();
        let mut all = OffsetTable::new();
        for topic in topics {
            let groups = self.committed.lock().groups_of(&topic);
            all.extend(groups.into_iter().map(|(group, offsets)| (key(&topic, &group), QueueTable::clone(&offsets))));
        }
        all
    }

    /// The table could not be written: it is to be asked for again.
    pub(crate) fn note_unexported(&self) {
        self.unexported.store(true, Ordering::Release);
    }

    /// Changes that lead to all offsets there are. Waits for whoever puts some into the log.
    pub(crate) fn state_changes(&self) -> Vec<StateChange> {
        let _one_at_a_time = self.keeping.lock();
        let committed = self.committed.lock();
        let all = committed.table().into_iter();
        all.map(|(of, offsets)| StateChange::Offsets { of, replaces: true, offsets: QueueTable::clone(&offsets) })
            .chain(self.lanes.state_changes())
            .collect()
    }

    /// Replaces the offsets of a group in some topics.
    fn replace(&self, group: &str, mut tables: Vec<(String, QueueTable)>, now: Now) -> Result<(), Refusal> {
        let _in_order = self.keeping.lock();
        let mut committed = self.committed.lock();
        tables.retain(|(topic, _)| self.catalog.topic(topic).is_some());
        if !committed.has_room(tables.iter().map(|(topic, _)| &**topic), group) {
            return Err(too_many_pairs());
        }
        let tables = tables.into_iter().map(|(topic, offsets)| (topic, group.to_owned(), offsets)).collect();
        self.replace_all(&mut committed, tables, now).map_err(internal)
    }

    /// Replaces offsets, by none where the table is empty.
    fn replace_all(
        &self,
        committed: &mut Committed,
        tables: Vec<(String, String, QueueTable)>,
        now: Now,
    ) -> Result<(), StorageError> {
        if tables.is_empty() {
            return Ok(());
        }
        let changes = tables.iter().map(|(topic, group, offsets)| StateChange::Offsets {
            of: key(topic, group),
            replaces: true,
            offsets: offsets.clone(),
        });
        self.state.propose(changes.collect(), now)?;
        for (topic, group, offsets) in tables {
            committed.replace(&topic, &group, offsets.clone());
            offsets.into_iter().for_each(|(queue, offset)| self.reset_lane(&topic, &group, queue, offset));
        }
        self.unexported.store(true, Ordering::Release);
        Ok(())
    }

    /// Takes a consumer's word for how far it has come, even if it is less than before.
    pub fn commit(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) -> Result<(), Refusal> {
        self.commit_by(&mut None, (topic, group), queue, offset)
    }

    /// The same, by the cursor of an earlier commit of the group in the topic, if there was one; the caller knows that the topic has the
    /// queue.
    pub fn commit_by(
        &self,
        cursor: &mut Option<Arc<OffsetCursor>>,
        (topic, group): (&str, &str),
        queue: QueueId,
        offset: RawOffset,
    ) -> Result<(), Refusal> {
        if offset < 0 {
            return Err(Refusal::BadRequest(format!("the offset {offset} is negative")));
        }
        if cursor.as_ref().is_none_or(|cursor| !cursor.put(queue.0, offset)) {
            // Offsets are kept under `topic@group`: nothing else may look like that.
            GroupName::checked(group)?;
            *cursor = Some(self.put(topic, group, queue, |cursor| cursor.put(queue.0, offset))?);
        }
        Ok(())
    }

    fn put(
        &self,
        topic: &str,
        group: &str,
        queue: QueueId,
        put: impl FnOnce(&Arc<OffsetCursor>) -> bool,
    ) -> Result<Arc<OffsetCursor>, Refusal> {
        let mut committed = self.committed.lock();
        // With the table locked: a removal takes the topic out first and forgets its offsets then, so that none comes behind that.
        let known = self.catalog.topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        known.queue(queue)?;
        if !committed.has_room([topic], group) {
            return Err(too_many_pairs());
        }
        let cursor = committed.cursor(topic, group);
        put(&cursor);
        Ok(cursor)
    }

    /// The committed offset, if there is one.
    pub fn committed(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        self.committed.lock().get(topic, group).and_then(|queues| queues.get(&queue.0).copied())
    }

    /// Where a consumer of the group begins: its committed offset, or the start of a young queue that nobody need
    /// skip. `None` leaves the choice to the consumer's own rule.
    pub fn start_of(
        &self,
        topic: &str,
        group: &str,
        queue: QueueId,
        zero_if_new: bool,
    ) -> Result<Option<RawOffset>, Refusal> {
        match self.committed(topic, group, queue) {
            Some(offset) => Ok(Some(offset)),
            None => self.start_of_new(topic, queue, zero_if_new),
        }
    }

    /// The same of a group that has no offset.
    fn start_of_new(&self, topic: &str, queue: QueueId, zero_if_new: bool) -> Result<Option<RawOffset>, Refusal> {
        let known = self.catalog.topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?;
        let is_young = known.queue(queue)?.first() == QueueOffset(0);
        Ok((is_young && zero_if_new && self.fits_memory(known.queue(queue)?)).then_some(0))
    }

    /// Whether the whole queue is so short that reading it from the start costs nobody anything.
    fn fits_memory(&self, queue: &Queue) -> bool {
        match queue.index.entry(queue.first()) {
            Ok(Some(first)) => {
                let behind = self.state.store().watermarks().written().0.saturating_sub(first.log_offset.0);
                behind < self.young_queue_size
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// The offset of the message stored at `time` or, by `boundary`, just after or before. Waits for the disk.
    pub fn search(&self, queue: &Queue, time: Timestamp, boundary: Boundary) -> Result<QueueOffset, Refusal> {
        let mut failure = None;
        let found = queue.index.search(|entry| match self.state.store().store_time(entry) {
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
    pub fn reset(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) -> Result<(), Refusal> {
        self.reset_with((topic, group, queue), offset, true)
    }

    /// Has it go on where it is, as consumers hear of a reset; what was handed out one by one stays so.
    pub fn stay(&self, topic: &str, group: &str, queue: QueueId, offset: RawOffset) -> Result<(), Refusal> {
        self.reset_with((topic, group, queue), offset, false)
    }

    fn reset_with(
        &self,
        (topic, group, queue): (&str, &str, QueueId),
        offset: RawOffset,
        is_moved: bool,
    ) -> Result<(), Refusal> {
        let is_online = self.groups.is_online(group);
        {
            let _in_order = self.keeping.lock();
            self.put(topic, group, queue, |cursor| cursor.reset(queue.0, offset, is_online))?;
            if is_moved {
                self.reset_lane(topic, group, queue.0, offset);
            }
        }
        self.fetched.forget_queue(topic, group, queue);
        if is_online {
            // Fetches that wait for a message hear of it now rather than when their time is over.
            if let Some(topic) = self.catalog.topic(topic)
                && let Ok(queue) = topic.queue(queue)
            {
                queue.wake_waiting();
            }
        }
        Ok(())
    }

    /// The reset that waits for the queue's consumer, if there is one. Who hears it by a fetch that was made before may not be the
    /// consumer any more: it waits on.
    pub fn reset_of(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        if self.resets.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.committed.lock().known(topic, group)?.reset_of(queue.0)
    }

    /// The same, heard by a new fetch.
    pub fn take_reset(&self, topic: &str, group: &str, queue: QueueId) -> Option<RawOffset> {
        if self.resets.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.committed.lock().known(topic, group)?.take_reset(queue.0)
    }

    /// Offsets of a group in a topic by queue.
    pub fn of(&self, topic: &str, group: &str) -> BTreeMap<u32, RawOffset> {
        self.committed.lock().get(topic, group).map(|offsets| QueueTable::clone(&offsets)).unwrap_or_default()
    }

    /// The sum of a group's offsets in a topic, by the document's `topic@group`.
    pub(crate) fn sums(&self) -> Vec<(String, u64)> {
        let committed = self.committed.lock();
        let sum = |queues: &QueueTable| queues.values().map(|&offset| offset.max(0) as u64).sum();
        committed.all().map(|(topic, group, queues)| (key(topic, group), sum(&queues))).collect()
    }

    /// Topics a group has offsets in.
    pub fn topics_of(&self, group: &str) -> Vec<String> {
        self.committed.lock().topics_of(group)
    }

    /// Groups that have offsets in a topic.
    pub fn groups_in(&self, topic: &str) -> Vec<String> {
        self.committed.lock().groups_in(topic)
    }

    /// Copies one group's offsets in some topics to another group. Where it has none, the other keeps its own.
    pub fn copy(&self, topics: &[String], source: &str, target: &str, now: Now) -> Result<(), Refusal> {
        let copied = topics.iter().map(|topic| (topic.clone(), self.of(topic, source)));
        self.replace(target, copied.filter(|(_, offsets)| !offsets.is_empty()).collect(), now)
    }

    /// Every offset as the document has it.
    pub fn document(&self) -> Value {
        json!({
            "dataVersion": {"counter": self.version.load(Ordering::Relaxed), "stateVersion": 0, "timestamp": 0},
            "offsetTable": self.copy_of_all(),
        })
    }

    /// Forgets the offsets of all groups in a topic that is removed.
    pub(crate) fn forget_topic(&self, topic: &str, now: Now) -> Result<(), Refusal> {
        let pairs = self.groups_in(topic).into_iter().map(|group| (topic.to_owned(), group)).collect();
        self.fetched.forget_topic(topic);
        self.forget_all(pairs, |of, _| of == topic, now)
    }

    /// Forgets the offsets of a group that is removed.
    pub(crate) fn forget_group(&self, group: &str, now: Now) -> Result<(), Refusal> {
        let pairs = self.topics_of(group).into_iter().map(|topic| (topic, group.to_owned())).collect();
        self.fetched.forget_group(group);
        self.forget_all(pairs, |_, of| of == group, now)
    }

    /// Forgets offsets and leases in one change: nothing is made anew of one by the other.
    fn forget_all(
        &self,
        pairs: Vec<(String, String)>,
        is_meant: impl Fn(&str, &str) -> bool,
        now: Now,
    ) -> Result<(), Refusal> {
        let _in_order = self.keeping.lock();
        let mut committed = self.committed.lock();
        let lanes = self.lanes.of(is_meant);
        if pairs.is_empty() && lanes.is_empty() {
            return Ok(());
        }
        let offsets = pairs.iter().map(|(topic, group)| StateChange::Offsets {
            of: key(topic, group),
            replaces: true,
            offsets: QueueTable::new(),
        });
        let leases = lanes.iter().map(|of| StateChange::LeasesRemoved { of: of.clone() });
        self.state.propose(offsets.chain(leases).collect(), now).map_err(internal)?;
        pairs.iter().for_each(|(topic, group)| committed.replace(topic, group, QueueTable::new()));
        lanes.iter().for_each(|of| self.lanes.forget(of));
        self.unexported.store(true, Ordering::Release);
        Ok(())
    }
}
