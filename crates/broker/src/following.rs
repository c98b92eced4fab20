//! A slave's broker: takes its master's log in as it is, and makes the changes of state that its master made.
//!
//! **Always holds**: the log is the begin of the master's. A change that the log tells of is made once it is written here, in the order of
//! the log. **On a crash** the log ends at a whole record, and a start finds the state as on a master.
//!
//! A Sluice master's log tells of every change. Its tables, asked for when a slave connects, tell besides of what the slave's part of the log
//! does not have; below their position the log's word does not count. What no document has, leases and the model, is told with those of the
//! first round of a connection alone, and is in the snapshot before the log goes on. A foreign master's log tells of nothing: there its tables are the
//! state.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base::{LogOffset, Now, QueueId, QueueOffset, Refusal, TopicName};
use bytes::{Buf as _, Bytes};
use format::document::GroupDocument;
use format::master_tables::MasterTables;
use format::state::{self, StateChange, StateError};
use format::state_documents::StateDocuments;
use format::state_tables::{StateTables, lease_changes_between};
use parking_lot::Mutex;
use storage::{StateReplay, StorageError, Store};

use crate::catalog::Catalog;
use crate::cursor::lanes::Lanes;
use crate::cursor::offset::Offsets;
use crate::error::internal;
use crate::export::Exports;
use crate::model::Model;
use crate::parked::delay::Delay;
use crate::removal::Removals;
use crate::request_modes::RequestModes;
use crate::state::StateLog;

/// Most bytes that a network thread takes in. The connection they came by has nothing else for it to do meanwhile, unlike a producer's.
const LITTLE_SIZE: usize = 256 * 1024;

/// A master that says nothing for this long is gone: it sends something every 5 s (`haSendHeartbeatInterval`).
const MASTER_SILENT_MS: u64 = 20_000;

/// The tables of a broker.
pub(crate) type Tables<'a> = (&'a Arc<Catalog>, &'a Arc<Offsets>, &'a Arc<Delay>, &'a Arc<RequestModes>);

/// What a slave does.
#[derive(Debug)]
pub struct Following {
    store: Arc<Store>,
    state: Arc<StateLog>,
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    delay: Arc<Delay>,
    request_modes: Arc<RequestModes>,
    lanes: Arc<Lanes>,
    model: Arc<Model>,
    is_durable: bool,
    master: Mutex<Option<MasterSeen>>,
    /// What the master's tables tell. Held while its log or its tables are taken in.
    told: Mutex<Told>,
}

/// Up to where in its log the master's tables tell what changed.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Of what documents tell,
    documented: LogOffset,
    /// and of what they do not: leases and the model.
    undocumented: LogOffset,
}

impl Told {
    /// Whether a change, that a record of the log there tells of, is news.
    fn is_news(self, record: LogOffset, change: &StateChange) -> bool {
        record >= if change.is_undocumented() { self.undocumented } else { self.documented }
    }
}

/// What a slave has seen of its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MasterSeen {
    /// The end of the log as it was sent.
    pub sent: LogOffset,
    /// When anything was sent.
    pub at: Now,
}

/// What consumers did at a slave, and its master does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unknown {
    /// Groups that the master does not have.
    pub groups: Vec<GroupDocument>,
    /// Offsets beyond the master's: topic, group, queue, offset.
    pub offsets: Vec<(String, String, u32, i64)>,
}

impl Following {
    pub(crate) fn new(
        state: &Arc<StateLog>,
        (catalog, offsets, delay, request_modes): Tables<'_>,
        (lanes, model): (&Arc<Lanes>, &Arc<Model>),
        is_durable: bool,
    ) -> Self {
        Self {
            store: state.store().clone(),
            state: state.clone(),
            catalog: catalog.clone(),
            offsets: offsets.clone(),
            delay: delay.clone(),
            request_modes: request_modes.clone(),
            lanes: lanes.clone(),
            model: model.clone(),
            is_durable,
            master: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// The master had sent everything below `sent` when this came.
    pub fn note_sent(&self, sent: LogOffset, now: Now) {
        *self.master.lock() = Some(MasterSeen { sent, at: now });
    }

    /// What the master has said last over the connection on which it sends its log; `None`: it has not been there.
    pub fn master(&self) -> Option<MasterSeen> {
        *self.master.lock()
    }

    /// Whether the master was heard of lately over that connection.
    pub fn has_master(&self, now: Now) -> bool {
        self.master().is_some_and(|seen| now.monotonic.ms_since(seen.at.monotonic) < MASTER_SILENT_MS)
    }

    /// Below this the log is as safe as messages are to be here.
    pub fn kept(&self) -> LogOffset {
        let durable = if self.is_durable { self.store.watermarks().durable() } else { self.end() };
        durable.min(self.end())
    }

    /// Where the log ends.
    pub fn end(&self) -> LogOffset {
        self.store.watermarks().committed()
    }

    /// At most `size` bytes in front of the log's end, of one segment, and where they begin; all below is kept by then. Waits for the disk.
    pub fn tail(&self, size: usize) -> Result<(LogOffset, Bytes), StorageError> {
        let end = self.end();
        if self.is_durable {
            self.store.sync_until(end)?;
        }
        let size = (size as u64).min(end.0 - self.store.log_first().0.min(end.0)).min(self.store.in_segment(end));
        let start = LogOffset(end.0 - size);
        Ok((start, self.store.read_raw(start, size as usize)?))
    }

    /// Takes in what the master's log has from `start` on, in pieces of whole records and fillers. `start` is the end of this log; one that
    /// has nothing begins there. Gives the new end, once all below is as safe as messages are to be here. Waits for the disk.
    pub fn append(&self, start: LogOffset, pieces: &[Bytes]) -> Result<LogOffset, StorageError> {
        let told = self.told.lock();
        if self.end() == LogOffset(0) && start != LogOffset(0) {
            self.store.begin_at(start)?;
            self.state.note_followed(start);
        }
        let end = self.take_in(start, pieces, *told)?;
        drop(told);
        if self.is_durable {
            self.store.sync_until(end)?;
        }
        Ok(end)
    }

    /// The same for as little as a network thread may take in. `None`: it would wait, for a sync or for another thread.
    pub fn append_little(&self, start: LogOffset, pieces: &[Bytes]) -> Option<Result<LogOffset, StorageError>> {
        let is_much = pieces.iter().map(Bytes::len).sum::<usize>() > LITTLE_SIZE || self.store.is_index_behind();
        let may_wait = is_much || self.is_durable || self.end() == LogOffset(0);
        let told = (!may_wait).then(|| self.told.try_lock())??;
        Some(self.take_in(start, pieces, *told))
    }

    /// Writes what the master's log has from `start` on, and makes the changes that it tells of. Gives the new end.
    fn take_in(&self, start: LogOffset, pieces: &[Bytes], told: Told) -> Result<LogOffset, StorageError> {
        if self.store.has_untold_states() {
            self.publish(start, told)?;
        }
        let mut end = start;
        for piece in pieces {
            let mut rest = piece.clone();
            while !rest.is_empty() {
                let appended = self.store.append_raw(end, &rest)?;
                rest.advance((appended.0 - end.0) as usize);
                end = appended;
                self.store.write_staged()?;
                self.publish(end, told)?;
            }
        }
        Ok(end)
    }

    /// Has everything below `end` visible, and makes the changes that it tells of.
    fn publish(&self, end: LogOffset, told: Told) -> Result<(), StorageError> {
        let mut changes = FollowedChanges { following: self, told, removed: BTreeSet::new() };
        self.store.set_committed(end, &mut changes)?;
        self.catalog.renew_queues(&changes.removed);
        self.state.note_followed(end);
        Ok(())
    }

    /// The newest message of the log, and where it begins. Waits for the disk.
    pub fn newest(&self) -> Result<Option<(LogOffset, Bytes)>, StorageError> {
        let Some((start, _)) = self.store.newest_listed()? else { return Ok(None) };
        Ok(self.store.record_at(start)?.map(|record| (start, record)))
    }

    /// The newest message of a queue: its queue offset, and where it begins in the log. It tells a queue from another of the same name. Waits
    /// for the disk.
    pub fn newest_in(&self, topic: &str, queue: QueueId) -> Result<Option<(QueueOffset, LogOffset)>, StorageError> {
        let topic = TopicName::trusted(topic);
        let found = self.store.queues_of(&topic).into_iter().find(|found| found.queue() == queue);
        let Some(found) = found else { return Ok(None) };
        let last = found.end().0.checked_sub(1).map(QueueOffset).filter(|last| *last >= found.first());
        let Some(last) = last else { return Ok(None) };
        Ok(found.entry(last)?.map(|entry| (last, entry.log_offset)))
    }

    /// What consumers did here, and a master with these tables does not know. What it knows is forgotten.
    pub fn unknown_to(&self, tables: &StateDocuments) -> Unknown {
        let mut settled = self.state.settled().lock();
        settled.retain(|of, queue, offset| is_unknown(tables, of, queue, offset));
        let settled = settled.table().clone();
        let mut unknown = Unknown::default();
        let mut groups = BTreeSet::new();
        for (of, queues) in settled {
            let Some((topic, group)) = of.split_once('@') else { continue };
            let settled = queues.into_iter().map(|(queue, offset)| (topic.to_owned(), group.to_owned(), queue, offset));
            unknown.offsets.extend(settled);
            groups.insert(group.to_owned());
        }
        let is_group = |group: &str| {
            tables.groups.as_ref().is_some_and(|groups| groups.subscription_group_table.contains_key(group))
        };
        let missing = groups.iter().filter(|group| !is_group(group)).filter_map(|group| self.catalog.group(group));
        unknown.groups = missing.map(|group| (*group).clone()).collect();
        unknown
    }

    /// The master knows of these by now: topic, group, queue, offset.
    pub(crate) fn note_told<'a>(&self, told: impl Iterator<Item = (&'a str, &'a str, u32, i64)>) {
        let told: HashMap<_, _> =
            told.map(|(topic, group, queue, offset)| ((format!("{topic}@{group}"), queue), offset)).collect();
        let is_owed = |of: &str, queue, offset| told.get(&(of.to_owned(), queue)).is_none_or(|told| *told < offset);
        self.state.settled().lock().retain(is_owed);
    }

    /// Has the tables as the master has them; what its log says below their position is in them, where it tells of changes at all. Gives
    /// whether the snapshot is to be written before the log goes on: nothing else has what no document tells. Waits for the disk.
    pub(crate) fn take_tables(
        &self,
        tables: MasterTables,
        removals: &Removals,
        exports: &Exports,
        now: Now,
    ) -> Result<bool, Refusal> {
        let MasterTables { documents, undocumented, position } = tables;
        // So that what was settled here is known to be.
        self.offsets.keep_changes(now)?;
        let mut told = self.told.lock();
        self.state.settled().lock().retain(|of, queue, offset| is_unknown(&documents, of, queue, offset));
        if position.is_some_and(|position| position < self.end()) {
            // Since they were copied the log has told of more.
            return Ok(false);
        }
        self.take_documents(documents, removals, now)?;
        told.documented = position.unwrap_or(LogOffset(u64::MAX));
        let has_undocumented = undocumented.is_some();
        if let Some(changes) = undocumented {
            self.take_undocumented(changes);
            told.undocumented = position.unwrap_or_default();
        }
        self.state.note_taken(position.is_some());
        drop(told);
        if position.is_some() {
            // As the log tells of changes from here on, all documents say so.
            self.catalog.note_unexported();
            self.offsets.note_unexported();
            self.delay.note_unexported();
            self.request_modes.note_unexported();
        }
        exports.save(now).map_err(internal)?;
        Ok(has_undocumented)
    }

    fn take_documents(&self, documents: StateDocuments, removals: &Removals, now: Now) -> Result<(), Refusal> {
        let known = StateTables {
            topics: self.catalog.topic_table(),
            groups: self.catalog.group_table(),
            delay: self.delay.delivered().into_iter().map(|(level, delivered)| (level as u32, delivered)).collect(),
            request_modes: self.request_modes.table().message_request_mode_map,
            ..StateTables::default()
        };
        let topics = documents.topics.iter().flat_map(|topics| known.topic_changes_to(topics));
        let (gone, topics): (Vec<_>, Vec<_>) =
            topics.partition(|change| matches!(change, StateChange::TopicRemoved { .. }));
        for change in gone {
            let StateChange::TopicRemoved { name, .. } = change else { continue };
            removals.unlisted_topic(&name, now)?;
        }
        let groups = documents.groups.iter().flat_map(|groups| known.group_changes_to(groups));
        self.follow(topics.into_iter().chain(groups).collect());
        // What the master does not know yet stands.
        documents.offsets.into_iter().for_each(|offsets| self.offsets.follow_table(offsets));
        self.follow(documents.delay.iter().flat_map(|delay| known.delay_changes_to(delay)).collect());
        let modes = documents.request_modes.iter();
        self.follow(modes.flat_map(|modes| known.request_mode_changes_to(modes)).collect());
        Ok(())
    }

    /// Has leases and model as a master has them.
    fn take_undocumented(&self, changes: Vec<StateChange>) {
        let mut masters = StateTables::default();
        changes.into_iter().for_each(|change| masters.apply(change));
        self.offsets.follow(lease_changes_between(&self.lanes.table(), &masters.leases));
        self.model.follow_table(&masters.model);
    }

    /// Removes what the disk has of message queues that no start would know, once a master has told which there are. Waits for the disk.
    pub(crate) fn remove_unknown_queues(&self) -> Result<(), StorageError> {
        // Held: nothing is appended meanwhile.
        let told = self.told.lock();
        if told.undocumented == LogOffset(0) {
            return Ok(());
        }
        self.model.remove_unknown()
    }

    /// Makes changes, each in its table.
    fn follow(&self, changes: Vec<StateChange>) {
        let (mut catalog, mut offsets, mut delay, mut modes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut model = Vec::new();
        for change in changes {
            match change {
                StateChange::Offsets { .. } | StateChange::Leases { .. } | StateChange::LeasesRemoved { .. } => {
                    offsets.push(change);
                }
                StateChange::Delay { .. } => delay.push(change),
                StateChange::RequestMode { .. } | StateChange::RequestModeRemoved { .. } => modes.push(change),
                // Which documents its master has taken over is nothing to a slave, whose documents are others.
                StateChange::Imported { .. } => {}
                StateChange::Model(change) => model.push(*change),
                _ => catalog.push(change),
            }
        }
        if !catalog.is_empty() {
            self.catalog.follow(catalog);
        }
        if !offsets.is_empty() {
            self.offsets.follow(offsets);
        }
        if !delay.is_empty() {
            self.delay.follow(&self.state, delay);
        }
        if !modes.is_empty() {
            self.request_modes.follow(modes);
        }
        if !model.is_empty() {
            self.model.follow(model);
        }
    }
}

/// Whether a master with these tables has the topic and is not as far.
fn is_unknown(tables: &StateDocuments, of: &str, queue: u32, offset: i64) -> bool {
    let topic = of.split_once('@').map_or(of, |(topic, _)| topic);
    let is_topic = tables.topics.as_ref().is_some_and(|topics| topics.topic_config_table.contains_key(topic));
    let known = tables.offsets.as_ref().and_then(|offsets| offsets.get(of)?.get(&queue));
    is_topic && known.is_none_or(|known| *known < offset)
}

/// Makes the changes that records of the master's log tell of.
struct FollowedChanges<'a> {
    following: &'a Following,
    told: Told,
    /// Topics whose queues go.
    removed: BTreeSet<TopicName>,
}

impl StateReplay for FollowedChanges<'_> {
    fn known_until(&self) -> LogOffset {
        self.told.documented.min(self.told.undocumented)
    }

    fn apply(&mut self, offset: LogOffset, changes: &[u8]) -> Result<Vec<TopicName>, StateError> {
        let changes = state::decode(changes)?;
        let removed: BTreeSet<_> = changes.iter().filter_map(StateChange::removed_topic).collect();
        self.removed.extend(removed.iter().cloned());
        let settled = self.following.state.settled();
        let mut told = Vec::new();
        for topic in &removed {
            let begun_anew = settled.lock().forget_topic(topic.as_str());
            let is_in_tables = offset < self.told.documented;
            told.extend(if is_in_tables { begun_anew } else { self.following.offsets.removals_in(topic.as_str()) });
        }
        told.extend(changes.into_iter().filter(|change| self.told.is_news(offset, change)));
        self.following.follow(told);
        settled.lock().note_met(offset);
        Ok(removed.into_iter().collect())
    }
}
