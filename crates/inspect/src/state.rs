//! State records and their snapshot, and RocketMQ's documents against what these lead to.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use format::record::Record;
use format::state::{self, StateChange, StateError};
use format::state_documents::{DELAY_FILE, FILES, GROUPS_FILE, OFFSETS_FILE, REQUEST_MODES_FILE, TOPICS_FILE};
use format::state_tables::StateTables;
use storage::disk::Disk;
use storage::{Snapshot, SnapshotContent, StorageError};

use crate::documents::Documents;
use crate::finding::{Findings, Kind};
use crate::scene::Scene;

const FILE: &str = "state";

/// The state as snapshot and log have it, as far as the log was read.
#[derive(Debug)]
pub(crate) struct State {
    content: SnapshotContent,
    tables: StateTables,
    /// State records below this are in what was read before the log.
    known_until: u64,
    /// Where in the log each document was last changed.
    changed_at: BTreeMap<&'static str, u64>,
    /// Whether all of it could be read: otherwise nothing is held against it.
    is_readable: bool,
    pub(crate) records: u64,
}

impl State {
    /// Reads the snapshot of a data directory, or takes our own documents for it as a start would.
    pub(crate) fn open(
        disk: &Disk,
        root: &Path,
        documents: &Documents,
        findings: &mut Findings,
    ) -> Result<Self, StorageError> {
        let (_, content) = Snapshot::open(disk, root)?;
        let mut state = Self {
            tables: StateTables::default(),
            known_until: 0,
            changed_at: BTreeMap::new(),
            is_readable: true,
            records: 0,
            content,
        };
        if let Some(problem) = &state.content.unreadable {
            findings.add(Kind::StateUnreadable, FILE, None, problem.clone());
        } else if state.content.is_cut {
            let whole: u64 = state.content.frames.iter().map(storage::SnapshotFrame::size).sum();
            findings.add(Kind::SnapshotDamaged, FILE, Some(whole), state.content.readable());
        }
        match state.content.position() {
            Some(position) => {
                state.known_until = position.0;
                state.take_in_frames(findings);
            }
            None => {
                state.known_until = documents.positions.values().min().copied().unwrap_or(0);
                state.tables = documents.own.clone().into_tables();
            }
        }
        Ok(state)
    }

    fn take_in_frames(&mut self, findings: &mut Findings) {
        let mut position = 0;
        for (number, frame) in (1..).zip(&self.content.frames) {
            match state::decode(&frame.changes) {
                Ok(changes) => changes.into_iter().for_each(|change| self.tables.apply(change)),
                Err(problem) => {
                    self.is_readable = false;
                    let kind = match problem {
                        StateError::Newer(_) => Kind::StateNewer,
                        StateError::Damaged(_) => Kind::SnapshotUnreadable,
                    };
                    findings.add(kind, FILE, Some(position), format!("frame {number}: {problem}"));
                }
            }
            position += frame.size();
        }
    }

    /// Takes in a record, if it is one of state. Gives whether it is.
    pub(crate) fn record(&mut self, record: &Record<'_>, is_intact: bool, scene: &mut Scene) -> bool {
        if !scene.rules.apply_to(record).is_state {
            return false;
        }
        self.records += 1;
        let offset = record.log_offset.0;
        let problem = match state::decode(record.body) {
            _ if !is_intact => "its body does not have its checksum".to_owned(),
            Ok(changes) => {
                changes.into_iter().for_each(|change| self.take_in(change, offset));
                return true;
            }
            Err(problem @ StateError::Newer(_)) => {
                self.is_readable = false;
                let (file, position) = scene.log.locate(offset);
                scene.findings.add(Kind::StateNewer, file, position, format!("log offset {offset}: {problem}"));
                return true;
            }
            Err(problem) => problem.to_string(),
        };
        self.is_readable = false;
        let what = format!("the state record at log offset {offset}: {problem}");
        crate::broken(scene, Kind::StateRecordDamaged, offset, what);
        true
    }

    fn take_in(&mut self, change: StateChange, offset: u64) {
        if let Some(document) = document_of(&change) {
            self.changed_at.insert(document, offset);
        }
        if offset >= self.known_until {
            self.tables.apply(change);
        }
    }

    /// Whether there is a state beside what documents say.
    const fn is_there(&self) -> bool {
        self.records > 0 || !self.content.frames.is_empty()
    }

    /// Topics as the next start finds them, if not by topics.json alone.
    pub(crate) fn topics(&self, documents: &Documents) -> Option<HashSet<String>> {
        let is_ours = self.is_there() && self.is_readable && !documents.foreign.contains(TOPICS_FILE);
        is_ours.then(|| self.tables.topics.topic_config_table.keys().cloned().collect())
    }

    /// Message queues as the next start finds them, by number.
    pub(crate) fn message_queues(&self) -> Option<HashSet<u32>> {
        (self.is_there() && self.is_readable).then(|| self.tables.model.queues.keys().copied().collect())
    }

    /// Holds snapshot and documents against the log, which ends at `log_end`, and the documents against the state.
    pub(crate) fn judge(&self, documents: &Documents, log_end: u64, is_live: bool, scene: &mut Scene) {
        // Java's documents win over all of it, and its brokers remove segments without asking us.
        let is_ours = documents.foreign.is_empty();
        let (log_first, known_until) = (scene.log.first(), self.known_until);
        if self.is_there() && is_ours && known_until < log_first {
            let what = format!("known up to log offset {known_until}; the log begins at {log_first}");
            scene.findings.add(Kind::StateLost, FILE, None, what);
        }
        if is_live || !self.is_there() {
            return;
        }
        let mut is_ahead = false;
        let snapshot = self.content.position().map(|position| (FILE.to_owned(), position.0));
        let exports = documents.positions.iter().map(|(name, position)| (format!("config/{name}"), *position));
        for (file, position) in snapshot.into_iter().chain(exports).filter(|(_, position)| *position > log_end) {
            is_ahead = true;
            let what = format!("it is of log offset {position}, and the log ends at {log_end}");
            scene.findings.add(Kind::StateAhead, file, None, what);
        }
        if !is_ahead && self.is_readable {
            self.judge_exports(documents, scene);
        }
    }

    fn judge_exports(&self, documents: &Documents, scene: &mut Scene) {
        let exported = documents.own.clone().into_tables();
        for name in FILES {
            let file = format!("config/{name}");
            let Some(&position) = documents.positions.get(name) else {
                // One that says nothing may be missing: brokers before it was known have not written it.
                let is_needed = !self.differences(&exported, name).is_empty();
                if !documents.seen.contains(name) && is_needed {
                    scene.findings.add(Kind::ExportBehind, file, None, "it is missing");
                }
                continue;
            };
            let differences = self.differences(&exported, name);
            let Some(example) = differences.first() else { continue };
            let what = format!(
                "written at log offset {position}; of {} differences the first, as it would have to change: {example}",
                differences.len()
            );
            let changed_since = self.changed_at.get(name).is_some_and(|changed_at| *changed_at >= position);
            // A killed process may have exported what it had not put into the log yet.
            let may_lag = changed_since || scene.unsure_from < u64::MAX;
            let kind = if may_lag { Kind::ExportBehind } else { Kind::ExportDiffers };
            scene.findings.add(kind, file, None, what);
        }
    }

    /// Changes that would make a document say what the state is.
    fn differences(&self, exported: &StateTables, name: &str) -> Vec<StateChange> {
        match name {
            TOPICS_FILE => exported.topic_changes_to(&self.tables.topics),
            GROUPS_FILE => exported.group_changes_to(&self.tables.groups),
            OFFSETS_FILE => exported.offset_changes_to(&self.tables.offsets),
            REQUEST_MODES_FILE => exported.request_mode_changes_to(&self.tables.request_modes),
            _ => exported.delay_changes_to(&self.tables.delay),
        }
    }
}

/// The document that a change is exported to.
const fn document_of(change: &StateChange) -> Option<&'static str> {
    match change {
        StateChange::Topic { .. } | StateChange::TopicRemoved { .. } => Some(TOPICS_FILE),
        StateChange::Group { .. } | StateChange::GroupRemoved { .. } => Some(GROUPS_FILE),
        StateChange::Offsets { .. } => Some(OFFSETS_FILE),
        StateChange::Delay { .. } => Some(DELAY_FILE),
        StateChange::RequestMode { .. } | StateChange::RequestModeRemoved { .. } => Some(REQUEST_MODES_FILE),
        // RocketMQ has no document of leases.
        StateChange::Imported { .. }
        | StateChange::Leases { .. }
        | StateChange::LeasesRemoved { .. }
        | StateChange::Model(_) => None,
    }
}
