//! RocketMQ's JSON documents of the state: what they are called and what they say.

use std::collections::BTreeMap;

use base::LogOffset;
use serde_json::Value;

use crate::document::{GroupTableDocument, TopicTableDocument};
use crate::state_tables::{OffsetTable, StateTables};

/// Topics.
pub const TOPICS_FILE: &str = "topics.json";
/// Groups.
pub const GROUPS_FILE: &str = "subscriptionGroup.json";
/// Committed offsets.
pub const OFFSETS_FILE: &str = "consumerOffset.json";
/// Progress of delayed messages.
pub const DELAY_FILE: &str = "delayOffset.json";

/// All of them.
pub const FILES: [&str; 4] = [TOPICS_FILE, GROUPS_FILE, OFFSETS_FILE, DELAY_FILE];

/// Member of a document that we wrote: what the log says below this position is in it. Java brokers pass over it, and leave it out
/// when they write a document.
pub const POSITION: &str = "sluiceLogPosition";

/// Up to where the log is in a document; `None` if Java wrote it.
pub fn position_of(document: &Value) -> Option<LogOffset> {
    document.get(POSITION).and_then(Value::as_u64).map(LogOffset)
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
}

impl StateDocuments {
    /// Takes in the document of that name.
    pub fn take_in(&mut self, name: &str, document: Value) -> Result<(), serde_json::Error> {
        match name {
            TOPICS_FILE => self.topics = Some(named_topics(serde_json::from_value(document)?)),
            GROUPS_FILE => self.groups = Some(named_groups(serde_json::from_value(document)?)),
            OFFSETS_FILE => self.offsets = Some(offset_table(&document)),
            DELAY_FILE => self.delay = Some(delay_table(&document)),
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
            _ => {}
        }
    }

    /// The state that they tell of.
    pub fn into_tables(self) -> StateTables {
        StateTables {
            topics: self.topics.unwrap_or_default(),
            groups: self.groups.unwrap_or_default(),
            offsets: self.offsets.unwrap_or_default(),
            delay: self.delay.unwrap_or_default(),
            ..StateTables::default()
        }
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
