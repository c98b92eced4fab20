//! The documents in `config`, each with its backup, and the offsets they hold against the queues.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use format::document::{GroupTableDocument, TopicTableDocument};
use format::index_rules::DELAY_TOPIC;
use format::state_documents::{DELAY_FILE, FILES, GROUPS_FILE, OFFSETS_FILE, StateDocuments, TOPICS_FILE, position_of};
use serde_json::Value;
use storage::disk::Disk;

use crate::finding::{Findings, Kind};
use crate::queues::Queues;

/// Larger documents are not read: no broker writes such.
const DOCUMENT_SIZE_MAX: u64 = 512 * 1024 * 1024;

/// What the documents say.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// Names in topics.json; `None` if it cannot be read.
    pub(crate) topics: Option<HashSet<String>>,
    offsets: Option<Value>,
    delay: Option<Value>,
    /// Those of the state that we wrote,
    pub(crate) own: StateDocuments,
    /// up to where the log is in each of them,
    pub(crate) positions: BTreeMap<&'static str, u64>,
    /// and those that Java wrote.
    pub(crate) foreign: BTreeSet<&'static str>,
    /// Every document that is there, readable or not.
    pub(crate) seen: HashSet<String>,
    pub(crate) count: u64,
}

impl Documents {
    /// Reads all of `config` below `root`.
    pub(crate) fn read(disk: &Disk, root: &Path, findings: &mut Findings) -> Self {
        let mut documents = Self::default();
        let names = disk.list(&root.join("config")).unwrap_or_else(|error| {
            findings.add(Kind::Unreadable, "config", None, error.to_string());
            Vec::new()
        });
        for name in &names {
            let document = name.strip_suffix(".bak").unwrap_or(name);
            if name.ends_with(".tmp") {
                findings.add(Kind::UnknownFile, format!("config/{name}"), None, "left by an interrupted change");
            } else if document.ends_with(".json") && documents.seen.insert(document.to_owned()) {
                documents.document(disk, root, document, findings);
            }
        }
        documents
    }

    fn document(&mut self, disk: &Disk, root: &Path, name: &str, findings: &mut Findings) {
        self.count += 1;
        let file = format!("config/{name}");
        let main = parse(disk, root, &file, name);
        let backup = parse(disk, root, &format!("{file}.bak"), name);
        let value = match (main, backup) {
            (Parsed::Whole(value), Parsed::Broken(problem)) => {
                findings.add(Kind::BackupBroken, format!("{file}.bak"), None, problem);
                value
            }
            (Parsed::Whole(value), _) => value,
            (Parsed::Broken(problem), Parsed::Whole(value)) => {
                findings.add(Kind::DocumentFallsBack, file, None, problem);
                value
            }
            (Parsed::Missing, Parsed::Whole(value)) => {
                findings.add(Kind::DocumentFallsBack, file, None, "it is missing");
                value
            }
            (Parsed::Broken(problem), _) => return findings.add(Kind::DocumentBroken, file, None, problem),
            (Parsed::Missing, Parsed::Broken(problem)) => {
                return findings.add(Kind::DocumentBroken, format!("{file}.bak"), None, problem);
            }
            (Parsed::Missing, Parsed::Missing) => return,
        };
        self.note_writer(name, &value);
        match name {
            TOPICS_FILE => {
                let table = value.get("topicConfigTable").and_then(Value::as_object);
                self.topics = Some(table.into_iter().flatten().map(|(name, _)| name.clone()).collect());
            }
            OFFSETS_FILE => self.offsets = Some(value),
            DELAY_FILE => self.delay = Some(value),
            _ => {}
        }
    }

    /// Notes who wrote a document of the state, and what it says if that was us.
    fn note_writer(&mut self, name: &str, value: &Value) {
        let Some(name) = FILES.into_iter().find(|known| *known == name) else { return };
        match position_of(value) {
            Some(position) if self.own.take_in(name, value.clone()).is_ok() => {
                self.positions.insert(name, position.0);
            }
            _ => {
                self.foreign.insert(name);
            }
        }
    }

    /// Holds offsets and topics against the queues, after the log was read.
    pub(crate) fn judge(&self, queues: &Queues, findings: &mut Findings) {
        let has_messages = queues.topics().next().is_some();
        match &self.topics {
            // Broken documents are told of already.
            None if has_messages && self.count == 0 => {
                findings.add(Kind::TopicsMissing, "config/topics.json", None, "neither it nor a backup is there");
            }
            None => {}
            Some(listed) => {
                let used: HashSet<&str> = queues.topics().collect();
                let empty = listed.iter().filter(|name| !used.contains(name.as_str())).count();
                if empty > 0 {
                    let what = format!("{empty} of {}", listed.len());
                    findings.add(Kind::TopicsEmpty, "config/topics.json", None, what);
                }
            }
        }
        for (name, number, offset) in self.offsets.iter().flat_map(offsets_of) {
            let what = |end: u64| format!("{name} queue {number}: offset {offset}, the queue ends at {end}");
            let file = "config/consumerOffset.json";
            let topic = name.rsplit_once('@').map_or(name, |(topic, _)| topic);
            let end = number.parse().ok().and_then(|queue| queues.end_of(topic, queue));
            let is_listed = self.topics.as_ref().is_none_or(|listed| listed.contains(topic));
            if end.is_none() && !is_listed {
                findings.add(Kind::OffsetOfNoTopic, file, None, format!("{name} queue {number}: offset {offset}"));
            } else if offset < 0 || u64::try_from(offset).is_ok_and(|offset| offset > end.unwrap_or(0)) {
                findings.add(Kind::OffsetBeyondQueue, file, None, what(end.unwrap_or(0)));
            }
        }
        let delay = self.delay.iter().filter_map(|value| value.get("offsetTable")?.as_object()).flatten();
        for (level, offset) in delay {
            let queue = level.parse::<u32>().ok().and_then(|level| level.checked_sub(1));
            let end = queue.and_then(|queue| queues.end_of(DELAY_TOPIC, queue)).unwrap_or(0);
            if offset.as_u64().is_none_or(|offset| offset > end) {
                let what = format!("level {level}: offset {offset}, its queue ends at {end}");
                findings.add(Kind::DelayBeyondQueue, "config/delayOffset.json", None, what);
            }
        }
    }
}

/// Every offset, as (topic@group, queue, offset).
fn offsets_of(document: &Value) -> impl Iterator<Item = (&str, &str, i64)> {
    let table = document.get("offsetTable").and_then(Value::as_object).into_iter().flatten();
    table.flat_map(|(name, queues)| {
        let queues = queues.as_object().into_iter().flatten();
        queues.map(|(queue, offset)| (name.as_str(), queue.as_str(), offset.as_i64().unwrap_or(-1)))
    })
}

enum Parsed {
    Whole(Value),
    Broken(String),
    Missing,
}

fn parse(disk: &Disk, root: &Path, file: &str, name: &str) -> Parsed {
    let path = root.join(file);
    let size = disk.open_read_only(&path).and_then(|file| file.size()).unwrap_or(0);
    if size > DOCUMENT_SIZE_MAX {
        return Parsed::Broken(format!("{size} bytes: too large for a document"));
    }
    let bytes = match disk.read_file(&path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Parsed::Missing,
        Err(error) => return Parsed::Broken(error.to_string()),
    };
    let value = match format::state_documents::parse(&bytes) {
        Ok(value) => value,
        Err(error) => return Parsed::Broken(error.to_string()),
    };
    let shape = match name {
        TOPICS_FILE => serde_json::from_value::<TopicTableDocument>(value.clone()).err(),
        GROUPS_FILE => serde_json::from_value::<GroupTableDocument>(value.clone()).err(),
        _ => None,
    };
    match shape {
        Some(error) => Parsed::Broken(format!("not the document it should be: {error}")),
        None => Parsed::Whole(value),
    }
}
