//! What a start knows of the state: the snapshot, the state records behind it, and the documents that a Java broker has written since.
//!
//! | there is | the state is |
//! |---|---|
//! | a snapshot | what it says, then what the state records from its position on say |
//! | none that is whole | what our own exports say, then the state records from the position of the oldest of them on |
//! | a document without a position | Java wrote it: it wins over all of that, for what it is about, once |
//!
//! A topic that a document of Java's does not list stays if the log has messages of it: Java writes its documents in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::{LogOffset, TopicName};
use format::state::{self, StateChange, StateError};
use format::state_documents::{FILES, StateDocuments, position_of};
use serde_json::Value;
use storage::disk::Disk;
use storage::{Snapshot, SnapshotContent, StateReplay, StorageError};

use super::{OFFSETS_FILE, StateTables};

/// The state as it is being found.
#[derive(Debug)]
pub(crate) struct OpenedState {
    pub(crate) tables: StateTables,
    pub(crate) snapshot: Snapshot,
    known_until: LogOffset,
    /// What the state records behind the snapshot said, for the next one.
    pub(crate) replayed: Vec<StateChange>,
    /// What Java wrote.
    foreign: StateDocuments,
    /// Checksums of the texts of those documents.
    foreign_checksums: BTreeMap<&'static str, u32>,
    /// Documents that are our own exports.
    exported: Vec<&'static str>,
    /// Version of the offset table as its document has it.
    pub(crate) offsets_version: i64,
}

impl OpenedState {
    /// Reads snapshot and documents of a data directory.
    pub(crate) fn read(disk: &Disk, directory: &Path) -> Result<Self, StorageError> {
        let (snapshot, content) = Snapshot::open(disk, directory)?;
        let (mut own, mut foreign) = (StateDocuments::default(), StateDocuments::default());
        let (mut positions, mut exported, mut foreign_checksums) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut offsets_version = 0;
        for name in FILES {
            let Some(document) = storage::read_document(disk, directory, name)? else { continue };
            if name == OFFSETS_FILE {
                offsets_version = document.pointer("/dataVersion/counter").and_then(Value::as_i64).unwrap_or_default();
            }
            let documents = match position_of(&document) {
                Some(position) => {
                    positions.push(position);
                    exported.push(name);
                    &mut own
                }
                None => {
                    foreign_checksums.insert(name, crc32fast::hash(document.to_string().as_bytes()));
                    &mut foreign
                }
            };
            documents.take_in(name, document).map_err(|error| unusable(directory, name, &error))?;
        }
        let mut opened = Self {
            tables: StateTables::default(),
            snapshot,
            known_until: LogOffset(u64::MAX),
            replayed: Vec::new(),
            foreign,
            foreign_checksums,
            exported,
            offsets_version,
        };
        // What no document of ours says beside it is never changed here.
        let forbidden = [&own.groups, &opened.foreign.groups].into_iter().flatten().next();
        opened.tables.groups.forbidden_table =
            forbidden.map(|groups| groups.forbidden_table.clone()).unwrap_or_default();
        match content.position {
            Some(position) => opened.take_in(&content, position, directory)?,
            None => {
                if content.is_cut {
                    tracing::error!(
                        "the snapshot of the state cannot be read; topics, groups and offsets are those of the documents and of the log"
                    );
                }
                opened.tables = own.into_tables();
                opened.known_until = positions.into_iter().min().unwrap_or(LogOffset(u64::MAX));
            }
        }
        Ok(opened)
    }

    fn take_in(
        &mut self,
        content: &SnapshotContent,
        position: LogOffset,
        directory: &Path,
    ) -> Result<(), StorageError> {
        let of_file = |problem| StorageError::State { path: directory.join("state"), problem };
        for frame in &content.frames {
            for change in state::decode(frame).map_err(of_file)? {
                self.tables.apply(change);
            }
        }
        self.known_until = position;
        Ok(())
    }

    /// Lets what Java wrote win, and gives the changes that says so. `has_messages` tells whether the log has messages of a topic.
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
        // Written anew since: should Java write the same text again, it is news again.
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
        for change in &changes {
            self.tables.apply(change.clone());
        }
        changes
    }
}

impl StateReplay for OpenedState {
    fn known_until(&self) -> LogOffset {
        self.known_until
    }

    fn apply(&mut self, offset: LogOffset, changes: &[u8]) -> Result<Vec<TopicName>, StateError> {
        let changes = state::decode(changes)?;
        let mut removed = BTreeSet::new();
        for change in changes {
            // Made again by the same record: its messages of before are gone all the same.
            if let StateChange::TopicRemoved { name, .. } = &change {
                removed.insert(TopicName::trusted(name));
            }
            if offset >= self.known_until {
                self.tables.apply(change.clone());
                self.replayed.push(change);
            }
        }
        Ok(removed.into_iter().collect())
    }
}

fn unusable(directory: &Path, name: &str, error: &serde_json::Error) -> StorageError {
    StorageError::Damaged {
        path: directory.join("config").join(name),
        problem: format!("{error}; mend it by hand or restore the {name}.bak beside it"),
    }
}
