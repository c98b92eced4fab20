//! What a start knows of the state: the snapshot, the state records behind it, and the documents that a foreign broker has written since.
//!
//! | there is | the state is |
//! |---|---|
//! | a snapshot | what it says, then what the state records from its position on say |
//! | one that ends before the log begins | the same, but for what later exports of ours are about: they say that |
//! | none that is whole | what our own exports say, then the state records from the position of the oldest of them on, and of what no document tells all there are |
//! | neither these nor foreign documents | what all state records say |
//! | a document without a position | a foreign broker wrote it: it wins over all of that, for what it is about, once |
//!
//! A log that has lost its end may end before the position of snapshot or exports. Then what they say of later counts as little as the
//! messages that are gone, as far as something older is there, and the snapshot is written anew before anything is appended: state
//! records that come below that position would pass for known. Offsets beyond their queues' ends are drawn back (`cursor/offset.rs`, `parked/delay.rs`).
//!
//! A topic that a foreign document does not list stays if the log has messages of it: foreign brokers write theirs in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base::metric::Metrics;
use base::{LogOffset, TopicName};
use format::state::{self, StateChange, StateError};
use format::state_documents::{self, StateDocuments};
use storage::checkpoint::Checkpoint;
use storage::disk::Disk;
use storage::{Recovery, RecoveryProgress, Snapshot, SnapshotContent, StateReplay, StorageError, Store};

use super::found::FoundDocuments;
use super::{SETTLED_FILE, SettledOffsets, StateTables};

/// The state as it is being found.
#[derive(Debug)]
pub(crate) struct OpenedState {
    pub(crate) tables: StateTables,
    pub(crate) snapshot: Snapshot,
    /// Whether there was one.
    pub(crate) has_snapshot: bool,
    /// Up to where the log is in snapshot or exports, if there are any.
    position: Option<LogOffset>,
    known_until: LogOffset,
    /// The same of what documents do not tell.
    undocumented_known_until: LogOffset,
    /// A snapshot that is gone told of what the log does not have any more, perhaps of users.
    pub(crate) may_lack_users: bool,
    /// Topics that the snapshot says are gone, and its position then.
    removed: BTreeMap<TopicName, LogOffset>,
    /// What the state records behind the snapshot said, for the next one.
    pub(crate) replayed: Vec<StateChange>,
    /// What foreign documents say.
    foreign: StateDocuments,
    /// Checksums of their texts.
    foreign_checksums: BTreeMap<&'static str, u32>,
    /// Documents that are our own exports.
    exported: Vec<&'static str>,
    /// Version of the offset table as its document has it.
    pub(crate) offsets_version: i64,
    /// What was settled at a slave, as the process before has left it.
    pub(crate) settled: SettledOffsets,
}

impl OpenedState {
    /// Opens a store, and what it and the files beside it say of the state.
    pub(crate) fn open_with_store(
        options: storage::Options,
        metrics: Arc<Metrics>,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Store, Recovery), StorageError> {
        let again = options.clone();
        let mut opened = Self::read(&options, LogOffset(u64::MAX))?;
        let (store, recovery) = Store::open_with_state(options, metrics, &mut opened, progress)?;
        let end = store.watermarks().written();
        if opened.position.is_none_or(|position| position <= end) {
            return Ok((opened, store, recovery));
        }
        let was_known_until = opened.position.unwrap_or_default();
        opened = Self::read(&again, end)?;
        let (store, _) = store.reopen_at(end, &mut opened, progress)?;
        store.sync_until(end)?;
        opened.snapshot.write_base(end, &state::encode(&opened.tables.all_changes()))?;
        opened.has_snapshot = true;
        tracing::error!(
            log_end = end.0,
            was_known_until = was_known_until.0,
            "the log has lost its end: topics, groups and offsets are as they were at the end it has now, as far as that is known"
        );
        Ok((opened, store, recovery))
    }

    /// Reads what the files and the log of a stopped broker say, and changes nothing. Gives where the log ends, too. Whoever calls this
    /// has locked the directory.
    pub(crate) fn read_with_log(
        options: &storage::Options,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, LogOffset), StorageError> {
        let mut opened = Self::read(options, LogOffset(u64::MAX))?;
        let end = storage::replay_state(options, &mut opened, progress)?;
        if opened.position.is_some_and(|position| position > end) {
            return Err(StorageError::Damaged {
                path: options.directory.join("state"),
                problem: format!(
                    "it tells of changes that the log, which ends at {end}, does not have any more: start Sluice and stop it once, \
                     which draws offsets back to their queues' ends and writes the documents"
                ),
            });
        }
        Ok((opened, end))
    }

    /// Whether there is a state beside foreign documents.
    pub(crate) fn is_ours(&self) -> bool {
        self.position.is_some() || !self.replayed.is_empty()
    }

    /// Foreign documents that were not taken in yet.
    pub(crate) fn foreign_news(&self) -> impl Iterator<Item = &'static str> {
        let is_news = |name: &str, checksum| self.tables.imported.get(name) != Some(checksum);
        self.foreign_checksums.iter().filter(move |(name, checksum)| is_news(name, checksum)).map(|(name, _)| *name)
    }

    /// Reads snapshot and documents of a data directory whose log ends at `log_end`, or before.
    fn read(options: &storage::Options, log_end: LogOffset) -> Result<Self, StorageError> {
        let (disk, directory) = (&options.disk, &options.directory);
        let (snapshot, mut content) = Snapshot::open(disk, directory)?;
        if let Some(problem) = content.unreadable {
            // The log alone may tell of queues no more, whose messages would be removed then.
            let problem = format!(
                "it cannot be read ({problem}). Start again once the disk can be read; if it never can, restore the file from a copy, or \
                 copy what can be read of it: whole frames at its beginning count. Without it, queues that only it tells of are removed \
                 with their messages"
            );
            return Err(StorageError::Damaged { path: directory.join("state"), problem });
        }
        if content.is_cut {
            tracing::error!(
                readable = content.readable(),
                "the snapshot of the state is damaged: what of it is whole is taken, and what documents in config and the log tell besides"
            );
        }
        content.end_at(log_end);
        // What the log does not tell any more, only later documents can.
        let log_tells_from =
            content.position().filter(|position| storage::log_begins(options).is_ok_and(|first| first <= *position));
        let is_wanted = |position: u64| match log_tells_from {
            Some(_) => false,
            None => content.position().is_none_or(|known| LogOffset(position) > known),
        };
        let found = FoundDocuments::read(disk, directory, is_wanted)?;
        let was_here = found.oldest_export.is_some() || Checkpoint::has_own_magic(disk, directory)?;
        let is_lost = content.position().is_none() && was_here;
        let mut opened = Self {
            tables: StateTables::default(),
            snapshot,
            has_snapshot: content.position().is_some() || content.is_cut,
            position: content.position().or(found.oldest_export),
            known_until: LogOffset(u64::MAX),
            undocumented_known_until: LogOffset(0),
            may_lack_users: is_lost && tell_lost(directory, storage::log_begins(options)?),
            removed: BTreeMap::new(),
            replayed: Vec::new(),
            foreign: found.foreign,
            foreign_checksums: found.foreign_checksums,
            exported: found.exported,
            offsets_version: found.offsets_version,
            settled: read_settled(disk, directory)?,
        };
        opened.take_in(&content, directory)?;
        let own_tells = found.own != StateDocuments::default();
        if own_tells {
            found.own.put_into(&mut opened.tables);
        }
        if is_lost || own_tells {
            opened.snapshot.want_base();
        }
        // What no document of ours says beside it is never changed here.
        opened.tables.groups.forbidden_table = found.forbidden.unwrap_or_default();
        opened.known_until = opened.told_from(log_end);
        opened.undocumented_known_until = match content.position() {
            Some(position) => position.min(log_end),
            None if is_lost => LogOffset(0),
            None => opened.known_until,
        };
        Ok(opened)
    }

    /// From where on the state records of a log that ends at `log_end` tell what is not known.
    fn told_from(&self, log_end: LogOffset) -> LogOffset {
        match self.position {
            Some(position) => position.min(log_end),
            // Nothing tells of anything but the log itself; where a foreign broker was at work it holds no state.
            None if self.foreign == StateDocuments::default() => LogOffset(0),
            None => LogOffset(u64::MAX),
        }
    }

    fn take_in(&mut self, content: &SnapshotContent, directory: &Path) -> Result<(), StorageError> {
        let of_file = |problem| StorageError::State { path: directory.join("state"), problem };
        for frame in &content.frames {
            for change in state::decode(&frame.changes).map_err(of_file)? {
                if let Some(topic) = change.removed_topic() {
                    self.removed.insert(topic, frame.position);
                } else if let StateChange::Topic { settings, .. } = &change {
                    self.removed.remove(&*settings.topic_name);
                }
                self.tables.apply(change);
            }
        }
        Ok(())
    }

    /// Changes that remove all offsets in a topic that is removed: also those that a slave has beyond what its master's log tells of.
    fn offsets_in(&self, topic: &str) -> Vec<StateChange> {
        let begin = format!("{topic}@");
        let of = self.tables.offsets.range(begin.clone()..).map(|(of, _)| of.clone());
        let of = of.take_while(|of| of.starts_with(&begin));
        of.map(|of| StateChange::Offsets { of, replaces: true, offsets: BTreeMap::new() }).collect()
    }

    /// Lets foreign documents win, and gives the changes that says so. `has_messages` tells whether the log has messages of a topic.
    pub(crate) fn let_foreign_win(&mut self, has_messages: impl Fn(&str) -> bool) -> Vec<StateChange> {
        let mut foreign = std::mem::take(&mut self.foreign);
        let mut changes = Vec::new();
        for (document, checksum) in std::mem::take(&mut self.foreign_checksums) {
            if self.tables.imported.get(document) == Some(&checksum) {
                // Taken in before; it could not be written anew since.
                foreign.forget(document);
            } else {
                changes.push(StateChange::Imported { document: document.to_owned(), checksum });
            }
        }
        // Written anew since: should a foreign broker write the same text again, it is news again.
        let written_anew =
            self.exported.iter().filter(|name| self.tables.imported.get(**name).is_some_and(|sum| *sum != 0));
        changes.extend(written_anew.map(|name| StateChange::Imported { document: (*name).to_owned(), checksum: 0 }));
        if let Some(mut topics) = foreign.topics {
            for (name, settings) in &self.tables.topics.topic_config_table {
                if !topics.topic_config_table.contains_key(name) && has_messages(name) {
                    topics.topic_config_table.insert(name.clone(), settings.clone());
                }
            }
            changes.extend(self.tables.topic_changes_to(&topics));
        }
        changes.extend(foreign.groups.iter().flat_map(|groups| self.tables.group_changes_to(groups)));
        changes.extend(foreign.offsets.iter().flat_map(|offsets| self.tables.offset_changes_to(offsets)));
        changes.extend(foreign.delay.iter().flat_map(|delay| self.tables.delay_changes_to(delay)));
        changes.extend(foreign.request_modes.iter().flat_map(|modes| self.tables.request_mode_changes_to(modes)));
        for change in &changes {
            self.tables.apply(change.clone());
        }
        changes
    }
}

impl StateReplay for OpenedState {
    fn known_until(&self) -> LogOffset {
        self.known_until.min(self.undocumented_known_until)
    }

    fn has_message_queues(&self) -> bool {
        !self.tables.model.queues.is_empty()
    }

    fn removed(&self) -> Vec<(TopicName, LogOffset)> {
        self.removed.iter().map(|(topic, at)| (topic.clone(), *at)).collect()
    }

    fn apply(&mut self, offset: LogOffset, changes: &[u8]) -> Result<Vec<TopicName>, StateError> {
        let changes = state::decode(changes)?;
        let mut removed = BTreeSet::new();
        self.settled.meet_again(offset, &changes);
        for change in changes {
            // Made again by the same record: its messages of before are gone all the same.
            removed.extend(change.removed_topic());
            let known_until = if change.is_undocumented() { self.undocumented_known_until } else { self.known_until };
            if offset >= known_until {
                let gone = change.removed_topic().map_or_else(Vec::new, |topic| self.offsets_in(topic.as_str()));
                for change in gone.into_iter().chain([change]) {
                    self.tables.apply(change.clone());
                    self.replayed.push(change);
                }
            }
        }
        Ok(removed.into_iter().collect())
    }
}

/// Tells that there is no snapshot where one was; gives whether the log, which begins there, may lack what it told of.
fn tell_lost(directory: &Path, log_begins: LogOffset) -> bool {
    let snapshot = directory.join("state");
    let is_lacking = log_begins > LogOffset(0);
    if is_lacking {
        tracing::error!(
            snapshot = %snapshot.display(),
            log_begins = log_begins.0,
            "the snapshot of the state is gone: virtual hosts, users, queues, and what was settled message by message are as the log tells \
             from its beginning on; what was made before that is lost, and no first user is made; restore the file from a copy with the \
             broker stopped, or make anew what is missing (sluice admin user add)"
        );
    } else {
        tracing::warn!(
            snapshot = %snapshot.display(),
            "the snapshot of the state is gone, and is made again of documents and of the whole log"
        );
    }
    is_lacking
}

fn read_settled(disk: &Disk, directory: &Path) -> Result<SettledOffsets, StorageError> {
    let document = storage::read_document_as(disk, directory, SETTLED_FILE, state_documents::parse)?;
    let unusable = |error: serde_json::Error| StorageError::Damaged {
        path: directory.join("config").join(SETTLED_FILE),
        problem: format!(
            "{error}; mend it by hand, or remove it: consumers then get again what they settled here last"
        ),
    };
    document.map_or_else(|| Ok(SettledOffsets::default()), |document| SettledOffsets::of(document).map_err(unusable))
}
