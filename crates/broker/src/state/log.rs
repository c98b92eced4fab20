//! The way of a change: proposed by who decided it, appended to the log as a record, and kept for the next snapshot.
//!
//! **Always holds**: changes are in the log in the order in which they were proposed, each behind what it follows from; what a
//! snapshot says was on the disk as records before. Whoever proposes changes of one table holds that table's lock, so that its
//! changes in memory have the same order.
//!
//! The log of a slave has only what its master put there. What is changed here all the same is kept *beside* the log: in the snapshot, and
//! in documents that say no position, which a start believes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{LogOffset, Now};
use format::state::{self, STATE_BODY_SIZE_MAX, StateChange};
use parking_lot::Mutex;
use storage::{AppendBatch, Snapshot, StorageError, Store};

use crate::host::Host;
use crate::state::open::OpenedState;
use crate::state::settled::SettledOffsets;
use crate::state::unsaved::Unsaved;

/// Changes that were appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proposed {
    /// Bytes of their records, and of the messages before them.
    pub(crate) size: u64,
}

/// Where changes go.
#[derive(Debug)]
pub(crate) struct StateLog {
    store: Arc<Store>,
    host: Arc<dyn Host>,
    /// What state records say they come from.
    store_host: SocketAddr,
    unsaved: Mutex<Unsaved>,
    /// Changes that are made, and that the log could not take yet: they go before anything else.
    deferred: Mutex<Vec<StateChange>>,
    /// Mirrors whether there are some: looked at with every append.
    has_deferred: AtomicBool,
    /// Held while a snapshot is written: one at a time.
    snapshot: Mutex<Snapshot>,
    /// Checksums of the documents that were taken in; 0 where ours took their place.
    imported: Mutex<BTreeMap<String, u32>>,
    /// Whether the state is a slave's master's tables, as far as is known, and not what the log tells. What was settled here is kept in its
    /// own document either way.
    is_beside_log: AtomicBool,
    /// Something beside the log is neither in the snapshot nor in what was settled here.
    lacks_beside: AtomicBool,
    /// What of that the master may not know.
    settled: Mutex<SettledOffsets>,
}

impl StateLog {
    pub(crate) fn new(store: Arc<Store>, host: Arc<dyn Host>, store_host: SocketAddr, opened: OpenedState) -> Self {
        let OpenedState { tables, snapshot, replayed, .. } = opened;
        let size = encode_all(replayed.iter()).len() as u64;
        // What the file does not tell whole goes into it whole.
        let saved_size =
            if snapshot.wants_base() { state::encode(&tables.all_changes()).len() as u64 } else { snapshot.size() };
        let follows = store.follows();
        let end = if follows { store.watermarks().committed() } else { LogOffset(0) };
        let mut unsaved = Unsaved::of(size, saved_size, end);
        replayed.into_iter().for_each(|change| unsaved.add(change));
        store.reserve_for_state(unsaved.snapshot_size_max());
        Self {
            store,
            host,
            store_host,
            unsaved: Mutex::new(unsaved),
            deferred: Mutex::default(),
            has_deferred: AtomicBool::new(false),
            snapshot: Mutex::new(snapshot),
            imported: Mutex::new(tables.imported),
            // Until it is known that the log tells of everything.
            is_beside_log: AtomicBool::new(follows),
            lacks_beside: AtomicBool::new(false),
            settled: Mutex::default(),
        }
    }

    pub(crate) const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Has changes that are made, and that the log does not take now, go into it before anything else does.
    pub(crate) fn defer(&self, changes: Vec<StateChange>) {
        self.deferred.lock().extend(changes);
        self.has_deferred.store(true, Ordering::Release);
    }

    /// Appends what was deferred. Whoever appends anything calls this before.
    pub(crate) fn settle(&self, now: Now) -> Result<(), StorageError> {
        if !self.has_deferred.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut deferred = self.deferred.lock();
        self.append(self.store.begin_batch(0), deferred.clone(), now)?;
        deferred.clear();
        self.has_deferred.store(false, Ordering::Release);
        Ok(())
    }

    /// Appends changes that a start has made; without room on the disk they are deferred. A slave's log is its master's, and what its
    /// documents say is what it knew of its master, perhaps long ago: nothing that its consumers did.
    pub(crate) fn propose_at_start(&self, changes: Vec<StateChange>, now: Now) -> Result<(), StorageError> {
        if self.store.follows() {
            self.note(changes);
            return Ok(());
        }
        match self.propose(changes.clone(), now) {
            Err(error) if error.is_disk_full() => {
                tracing::error!(%error, "changes of topics, groups or offsets wait for room on the disk");
                self.defer(changes);
                Ok(())
            }
            proposed => proposed.map(drop),
        }
    }

    /// Appends changes to the log.
    pub(crate) fn propose(&self, changes: Vec<StateChange>, now: Now) -> Result<Proposed, StorageError> {
        if self.store.follows() {
            self.keep_beside(changes);
            return Ok(Proposed { size: 0 });
        }
        self.propose_with(self.store.begin_batch(0), changes, now).map(|(proposed, _)| proposed)
    }

    /// Appends changes to the log behind the messages of `batch`, at once: a crash leaves both or nothing of what comes later.
    pub(crate) fn propose_with(
        &self,
        batch: AppendBatch,
        changes: Vec<StateChange>,
        now: Now,
    ) -> Result<(Proposed, Arc<storage::AppendInfo>), StorageError> {
        self.settle(now)?;
        self.append(batch, changes, now)
    }

    fn append(
        &self,
        mut batch: AppendBatch,
        changes: Vec<StateChange>,
        now: Now,
    ) -> Result<(Proposed, Arc<storage::AppendInfo>), StorageError> {
        let properties = [self.store.checksum_room()];
        let beside_body = state::draft(&[], &properties, self.store_host, now.wall).encoded_len();
        let size_max = STATE_BODY_SIZE_MAX.min(self.store.record_size_max().saturating_sub(beside_body));
        let bodies = bodies(changes.clone(), size_max);
        for body in &bodies {
            batch.push_unlisted(&state::draft(body, &properties, self.store_host, now.wall));
        }
        for change in &changes {
            if let Some(topic) = change.removed_topic() {
                self.store.queues_of(&topic).into_iter().for_each(|queue| batch.close(queue));
            }
        }
        let size = batch.size() as u64;
        // Held while it is appended, so that a snapshot has what the log has below its position.
        let mut unsaved = self.unsaved.lock();
        let appended = self.store.append(batch, now.wall)?;
        changes.into_iter().for_each(|change| unsaved.add(change));
        unsaved.end = appended.end;
        unsaved.size += bodies.iter().map(|body| body.len() as u64).sum::<u64>();
        self.store.reserve_for_state(unsaved.snapshot_size_max());
        drop(unsaved);
        self.host.log_changed();
        Ok((Proposed { size }, appended))
    }

    /// Keeps changes that are not in the log.
    fn keep_beside(&self, changes: Vec<StateChange>) {
        let mut settled = self.settled.lock();
        changes.iter().for_each(|change| settled.note(change));
        drop(settled);
        let is_settled = |change: &StateChange| matches!(change, StateChange::Offsets { .. });
        let lacks = !changes.iter().all(is_settled);
        self.note(changes);
        self.lacks_beside.fetch_or(lacks, Ordering::AcqRel);
    }

    /// Whether a start would not know of something that was changed beside the log: once there is a snapshot, documents that say its position
    /// are not read.
    pub(crate) fn lacks_beside(&self) -> bool {
        self.lacks_beside.load(Ordering::Acquire)
    }

    /// Notes changes that a master told of, in its log or beside it.
    pub(crate) fn note(&self, changes: Vec<StateChange>) {
        let mut unsaved = self.unsaved.lock();
        unsaved.size += encode_all(changes.iter()).len() as u64;
        changes.into_iter().for_each(|change| unsaved.add(change));
        self.store.reserve_for_state(unsaved.snapshot_size_max());
    }

    /// Every change that a master's log tells of below `end` is made.
    pub(crate) fn note_followed(&self, end: LogOffset) {
        let mut unsaved = self.unsaved.lock();
        unsaved.end = unsaved.end.max(end);
    }

    /// The tables are the master's. `is_in_log`: its log tells of whatever changes from here on.
    pub(crate) fn note_taken(&self, is_in_log: bool) {
        self.is_beside_log.store(!is_in_log, Ordering::Release);
    }

    /// Offsets that were committed at a slave, and that its master may not know.
    pub(crate) const fn settled(&self) -> &Mutex<SettledOffsets> {
        &self.settled
    }

    /// What the log says below this is in the tables; `None`: the state is not in the log.
    pub(crate) fn position_in_log(&self) -> Option<LogOffset> {
        (!self.is_beside_log.load(Ordering::Acquire)).then(|| self.position())
    }

    /// What the log says below this is in the tables.
    pub(crate) fn position(&self) -> LogOffset {
        let end = self.end();
        if self.store.follows() { end } else { end.max(self.store.watermarks().written()) }
    }

    /// A document of ours took the place of a foreign one: should a foreign broker write the same text again, that is news.
    pub(crate) fn note_exported(&self, document: &str, now: Now) -> Result<(), StorageError> {
        if self.is_beside_log.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut imported = self.imported.lock();
        if let Some(checksum) = imported.get_mut(document).filter(|checksum| **checksum != 0) {
            self.propose(vec![StateChange::Imported { document: document.to_owned(), checksum: 0 }], now)?;
            *checksum = 0;
        }
        Ok(())
    }

    /// Where the last change ends in the log.
    pub(crate) fn end(&self) -> LogOffset {
        self.unsaved.lock().end
    }

    /// Writes what has changed into the snapshot, or now and then all of the state as `all` gives it, which waits for whoever changes a
    /// table. Waits for the disk. A start then reads state records from there on.
    pub(crate) fn save_snapshot(&self, all: impl FnOnce() -> Vec<StateChange>) -> Result<(), StorageError> {
        let mut snapshot = self.snapshot.lock();
        let lacked = self.lacks_beside.swap(false, Ordering::AcqRel);
        let (taken, position) = {
            let mut unsaved = self.unsaved.lock();
            let position = match self.store.follows() {
                true => unsaved.end,
                false => unsaved.end.max(self.store.watermarks().committed()),
            };
            if unsaved.end > self.store.watermarks().committed() && self.store.is_governed() {
                // It may yet be taken back: a start reads it from the log.
                return Ok(());
            }
            (unsaved.take(), position)
        };
        // What `all` gives may be later than the position: read again, those changes lead to the same.
        let base = snapshot.wants_base().then(all);
        // Never ahead of the log: after a power cut the snapshot would know of what never was.
        let synced = self.store.sync_until(position.max(self.end()));
        let mut write = || match &base {
            Some(all) => {
                let imported = self.imported.lock().clone();
                let imported = imported
                    .iter()
                    .map(|(document, &checksum)| StateChange::Imported { document: document.clone(), checksum });
                let all: Vec<_> = all.iter().cloned().chain(imported).collect();
                snapshot.write_base(position, &state::encode(&all))
            }
            None => snapshot.write_delta(position, &state::encode(&taken.changes())),
        };
        let written = synced.and_then(|()| self.store.with_reserve(&mut write));
        written.inspect_err(|_| {
            self.unsaved.lock().put_back(taken);
            self.lacks_beside.fetch_or(lacked, Ordering::AcqRel);
        })?;
        let mut unsaved = self.unsaved.lock();
        unsaved.saved_size = snapshot.size();
        self.store.reserve_for_state(unsaved.snapshot_size_max());
        drop(unsaved);
        self.store.note_state_known(position);
        Ok(())
    }
}

fn encode_all<'a>(changes: impl Iterator<Item = &'a StateChange>) -> Vec<u8> {
    state::encode(&changes.cloned().collect::<Vec<_>>())
}

/// Bodies of records for some changes, as few as `size_max` allows.
fn bodies(changes: Vec<StateChange>, size_max: usize) -> Vec<Vec<u8>> {
    if changes.is_empty() {
        return Vec::new();
    }
    let whole = state::encode(&changes);
    if whole.len() <= size_max {
        return vec![whole];
    }
    match halves(changes) {
        Ok((first, second)) => [bodies(first, size_max), bodies(second, size_max)].concat(),
        Err(_) => vec![whole],
    }
}

/// The same changes in two parts, unless it is one that has no parts.
fn halves(mut changes: Vec<StateChange>) -> Result<(Vec<StateChange>, Vec<StateChange>), Vec<StateChange>> {
    if changes.len() > 1 {
        let second = changes.split_off(changes.len() / 2);
        return Ok((changes, second));
    }
    match changes.first_mut() {
        Some(StateChange::Offsets { of, offsets, .. }) if offsets.len() > 1 => {
            let middle = offsets.keys().nth(offsets.len() / 2).copied().unwrap_or_default();
            let second = StateChange::Offsets { of: of.clone(), replaces: false, offsets: offsets.split_off(&middle) };
            Ok((changes, vec![second]))
        }
        Some(StateChange::Leases { of, queue, change, .. }) => match change.split() {
            Some(change) => {
                let second = StateChange::Leases { of: of.clone(), queue: *queue, replaces: false, change };
                Ok((changes, vec![second]))
            }
            None => Err(changes),
        },
        _ => Err(changes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(of: &str, queues: u32, replaces: bool) -> StateChange {
        StateChange::Offsets { of: of.to_owned(), replaces, offsets: (0..queues).map(|queue| (queue, 7)).collect() }
    }

    #[test]
    fn records_of_changes_are_as_large_as_allowed_and_lead_to_the_same() {
        let changes = vec![
            offsets("orders@billing", 900, true),
            offsets("orders@audit", 3, false),
            StateChange::Delay { level: 3, delivered: 9 },
        ];
        let bodies = bodies(changes.clone(), 1000);
        assert!(bodies.iter().all(|body| body.len() <= 1000), "{:?}", bodies.iter().map(Vec::len).collect::<Vec<_>>());
        let applied = |changes: Vec<StateChange>| {
            let mut tables = format::state_tables::StateTables::default();
            changes.into_iter().for_each(|change| tables.apply(change));
            tables
        };
        let again = bodies.iter().flat_map(|body| state::decode(body).expect("decodes")).collect();
        assert_eq!(applied(again), applied(changes));
    }
}
