//! RocketMQ's JSON documents of the state: what they are called and what they say.

use std::collections::BTreeMap;

use base::{LogOffset, Now};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::document::{DataVersion, GroupTableDocument, TopicTableDocument};
use crate::loose_json::{self, JsonError};
use crate::request_mode::{RequestModeTableDocument, RequestModes};
use crate::state_tables::{OffsetTable, StateTables};

/// Topics.
pub const TOPICS_FILE: &str = "topics.json";
/// Groups.
pub const GROUPS_FILE: &str = "subscriptionGroup.json";
/// Committed offsets.
pub const OFFSETS_FILE: &str = "consumerOffset.json";
/// Progress of delayed messages.
pub const DELAY_FILE: &str = "delayOffset.json";

/// How groups ask for messages.
pub const REQUEST_MODES_FILE: &str = "messageRequestMode.json";

/// All of them.
pub const FILES: [&str; 5] = [TOPICS_FILE, GROUPS_FILE, OFFSETS_FILE, DELAY_FILE, REQUEST_MODES_FILE];

/// Member of a document that we wrote: what the log says below this position is in it. Java brokers pass over it, and leave it out
/// when they write a document.
pub const POSITION: &str = "sluiceLogPosition";

/// Up to where the log is in a document; `None` if Java wrote it.
pub fn position_of(document: &Value) -> Option<LogOffset> {
    document.get(POSITION).and_then(Value::as_u64).map(LogOffset)
}

/// Reads a document: strict JSON whatever its size, as ours are and most of Java's; else as Java writes it, within bounds.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(text).or_else(|_| loose_json::parse(text))
}

/// What of a document of ours is needed whatever else is known. Reading it takes no memory for the rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DocumentHead {
    /// Up to where the log is in it; `None` if Java wrote it.
    #[serde(rename = "sluiceLogPosition")]
    pub position: Option<u64>,
    /// Version of its table.
    pub data_version: DataVersion,
    /// Topics a group may not read, which no state record tells of.
    pub forbidden_table: Value,
}

impl DocumentHead {
    /// The head of a document, whoever wrote it.
    pub fn of(document: &Value) -> Self {
        let member = |name: &str| document.get(name).cloned().unwrap_or_default();
        Self {
            position: position_of(document).map(|position| position.0),
            data_version: serde_json::from_value(member("dataVersion")).unwrap_or_default(),
            forbidden_table: member("forbiddenTable"),
        }
    }

    /// The head of a document that we wrote; `None` if it is another's.
    pub fn of_ours(text: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(text).ok().filter(|head| head.position.is_some())
    }
}

/// What documents say, each if it is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StateDocuments {
    /// `topics.json`
    pub topics: Option<TopicTableDocument>,
    /// `subscriptionGroup.json`
    pub groups: Option<GroupTableDocument>,
    /// `consumerOffset.json`
    pub offsets: Option<OffsetTable>,
    /// `delayOffset.json`
    pub delay: Option<BTreeMap<u32, u64>>,
    /// `messageRequestMode.json`
    pub request_modes: Option<RequestModes>,
}

impl StateDocuments {
    /// Takes in the document of that name.
    pub fn take_in(&mut self, name: &str, document: Value) -> Result<(), serde_json::Error> {
        match name {
            TOPICS_FILE => self.topics = Some(named_topics(serde_json::from_value(document)?)),
            GROUPS_FILE => self.groups = Some(named_groups(serde_json::from_value(document)?)),
            OFFSETS_FILE => self.offsets = Some(offset_table(&document)),
            DELAY_FILE => self.delay = Some(delay_table(&document)),
            REQUEST_MODES_FILE => {
                let table: RequestModeTableDocument = serde_json::from_value(document)?;
                self.request_modes = Some(table.named());
            }
            _ => {}
        }
        Ok(())
    }

    /// As if the document of that name were not there.
    pub fn forget(&mut self, name: &str) {
        match name {
            TOPICS_FILE => self.topics = None,
            GROUPS_FILE => self.groups = None,
            OFFSETS_FILE => self.offsets = None,
            DELAY_FILE => self.delay = None,
            REQUEST_MODES_FILE => self.request_modes = None,
            _ => {}
        }
    }

    /// The state that they tell of.
    pub fn into_tables(self) -> StateTables {
        let mut tables = StateTables::default();
        self.put_into(&mut tables);
        tables
    }

    /// Has tables say what they tell of.
    pub fn put_into(self, tables: &mut StateTables) {
        self.topics.into_iter().for_each(|topics| tables.topics = topics);
        self.groups.into_iter().for_each(|groups| tables.groups = groups);
        self.offsets.into_iter().for_each(|offsets| tables.offsets = offsets);
        self.delay.into_iter().for_each(|delay| tables.delay = delay);
        self.request_modes.into_iter().for_each(|modes| tables.request_modes = modes);
    }
}

/// With the name of each entry in the entry itself, which Java may leave out.
fn named_topics(mut table: TopicTableDocument) -> TopicTableDocument {
    table.topic_config_table.iter_mut().for_each(|(name, settings)| settings.topic_name.clone_from(name));
    table
}

fn named_groups(mut table: GroupTableDocument) -> GroupTableDocument {
    table.subscription_group_table.iter_mut().for_each(|(name, settings)| settings.group_name.clone_from(name));
    table
}

fn offset_table(document: &Value) -> OffsetTable {
    let mut table = OffsetTable::new();
    for (of, queues) in document.get("offsetTable").and_then(Value::as_object).into_iter().flatten() {
        let queues = queues.as_object().into_iter().flatten();
        let offsets = queues.filter_map(|(queue, offset)| Some((queue.parse().ok()?, offset.as_i64()?)));
        table.insert(of.clone(), offsets.collect::<BTreeMap<u32, i64>>());
    }
    table
}

fn delay_table(document: &Value) -> BTreeMap<u32, u64> {
    let levels = document.get("offsetTable").and_then(Value::as_object).into_iter().flatten();
    levels.filter_map(|(level, delivered)| Some((level.parse().ok()?, delivered.as_u64()?))).collect()
}

/// `consumerOffset.json`, without its position.
pub fn offsets(version: i64, table: &impl Serialize, now: Now) -> Value {
    json!({
        "dataVersion": {"counter": version, "stateVersion": 0, "timestamp": now.wall.0},
        "offsetTable": table,
    })
}

/// `delayOffset.json`, without its position.
pub fn delay(delivered: &impl Serialize, now: Now) -> Value {
    json!({
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": now.wall.0},
        "offsetTable": delivered,
    })
}

/// A table as a document of ours has it.
#[derive(Serialize)]
struct Export<'a, T: Serialize> {
    #[serde(flatten)]
    table: &'a T,
    // `POSITION`.
    #[serde(rename = "sluiceLogPosition", skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
}

/// The text of a document, with what the log says below `position`; without one it is believed as one that Java wrote.
pub fn text(name: &str, table: &impl Serialize, position: Option<LogOffset>) -> String {
    let export = Export { table, position: position.map(|position| position.0) };
    let is_for_people = name == TOPICS_FILE || name == GROUPS_FILE || name == REQUEST_MODES_FILE;
    let text = if is_for_people { serde_json::to_string_pretty(&export) } else { serde_json::to_string(&export) };
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_any_size_are_read_and_those_that_java_writes_in_its_own_way() {
        let many = format!(r#"{{"offsetTable":{{"a@g":{{}}}},"other":[{}0]}}"#, "0,".repeat(5 << 20));
        assert!(parse(many.as_bytes()).is_ok());
        let of_java = parse(br#"{"offsetTable":{"a@g":{0:7}}}"#).expect("parses");
        assert_eq!(of_java["offsetTable"]["a@g"]["0"], 7);
        assert!(parse(b"{").is_err());
    }

    #[test]
    fn the_head_of_a_document_tells_whose_it_is() {
        let ours = DocumentHead::of_ours(br#"{"a":[{"b":1}],"dataVersion":{"counter":4},"sluiceLogPosition":9}"#);
        assert_eq!(ours.map(|head| (head.position, head.data_version.counter)), Some((Some(9), 4)));
        assert!(DocumentHead::of_ours(br#"{"dataVersion":{"counter":4}}"#).is_none());
    }
}
