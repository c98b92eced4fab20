//! RocketMQ's JSON documents about topics and groups: the same shape in files and in request bodies, defined once.
//!
//! Missing members take RocketMQ's defaults and unknown ones are ignored, so documents of 4.9 and 5.x are both read. The broker's
//! catalog keeps topics and groups in these types.

use std::collections::BTreeMap;

use base::Permission;
use serde::{Deserialize, Serialize};

/// Version of a table, so that a peer can tell whether its copy is old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Number of changes.
    pub counter: i64,
    /// Epoch of the leader that changed it (5.x).
    pub state_version: i64,
    /// Time of the last change, ms.
    pub timestamp: i64,
}

/// Settings of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicDocument {
    /// 5.x attributes, such as `message.type`.
    pub attributes: BTreeMap<String, String>,
    /// Whether queues are to be kept in order across brokers.
    pub order: bool,
    /// Permission bits: 1 inherit, 2 write, 4 read.
    pub perm: u32,
    /// Queues consumers read.
    pub read_queue_nums: u32,
    /// Always `SINGLE_TAG`.
    pub topic_filter_type: String,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub topic_name: String,
    /// Bits: 1 unit, 2 unit subscription.
    pub topic_sys_flag: i32,
    /// Queues producers write.
    pub write_queue_nums: u32,
}

impl Default for TopicDocument {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            order: false,
            perm: 6,
            read_queue_nums: 16,
            topic_filter_type: "SINGLE_TAG".to_owned(),
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

impl TopicDocument {
    /// A topic of so many queues and nothing special.
    pub fn plain(queues: u32, permission: Permission) -> Self {
        Self { read_queue_nums: queues, write_queue_nums: queues, perm: bits_of(permission), ..Self::default() }
    }

    /// What it allows.
    pub const fn permission(&self) -> Permission {
        permission_of(self.perm)
    }
}

const INHERIT: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;

/// A permission as RocketMQ's bits (source: `PermName`).
pub const fn bits_of(permission: Permission) -> u32 {
    let Permission { read, write, inherit } = permission;
    (if read { READ } else { 0 }) | (if write { WRITE } else { 0 }) | (if inherit { INHERIT } else { 0 })
}

/// RocketMQ's bits as a permission; others say nothing.
pub const fn permission_of(bits: u32) -> Permission {
    Permission { read: bits & READ != 0, write: bits & WRITE != 0, inherit: bits & INHERIT != 0 }
}

/// `topics.json`, and the table in a broker's registration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicTableDocument {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Topics by name.
    pub topic_config_table: BTreeMap<String, TopicDocument>,
}

/// Settings of one consumer group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupDocument {
    /// 5.x attributes.
    pub attributes: BTreeMap<String, String>,
    /// Broker that serves the group first.
    pub broker_id: i64,
    /// Whether broadcasting is allowed.
    pub consume_broadcast_enable: bool,
    /// Whether consuming is allowed.
    pub consume_enable: bool,
    /// Whether the group starts at the smallest offset.
    pub consume_from_min_enable: bool,
    /// Whether messages are handed out in order (pop).
    pub consume_message_orderly: bool,
    /// Minutes after which a message counts as stuck.
    pub consume_timeout_minute: i32,
    /// Name.
    #[serde(deserialize_with = "null_as_default")]
    pub group_name: String,
    /// Retry policy of pop consumers, kept as it came.
    pub group_retry_policy: serde_json::Value,
    /// Flags.
    pub group_sys_flag: i32,
    /// Whether members are told of changes.
    pub notify_consumer_ids_changed_enable: bool,
    /// Deliveries before a message becomes a dead letter.
    pub retry_max_times: i32,
    /// Queues of the retry topic.
    pub retry_queue_nums: u32,
    /// Subscriptions fixed by an administrator, kept as they came.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub subscription_data_set: serde_json::Value,
    /// Broker to read from when a consumer is slow.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for GroupDocument {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: String::new(),
            group_retry_policy: serde_json::json!({"type": "CUSTOMIZED"}),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: serde_json::Value::Null,
            which_broker_when_consume_slowly: 1,
        }
    }
}

impl GroupDocument {
    /// Whether members are told when one of them joins or leaves.
    pub const fn notifies_members(&self) -> bool {
        self.notify_consumer_ids_changed_enable
    }
}

/// `subscriptionGroup.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupTableDocument {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Topics a group may not read, kept as they came.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub forbidden_table: serde_json::Value,
    /// Groups by name.
    pub subscription_group_table: BTreeMap<String, GroupDocument>,
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_4_9_are_read_with_defaults_for_what_they_lack() {
        let text = br#"{"dataVersion":{"counter":2,"timestamp":5},"topicConfigTable":{"t":{"order":false,"perm":6,
            "readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4}}}"#;
        let value = crate::loose_json::parse(text).expect("JSON");
        let table: TopicTableDocument = serde_json::from_value(value).expect("table");
        assert_eq!(table.data_version.counter, 2);
        assert_eq!(table.topic_config_table["t"].read_queue_nums, 4);
        let group: GroupDocument = serde_json::from_str(r#"{"groupName":"g","retryMaxTimes":3}"#).expect("group");
        assert_eq!((group.retry_max_times, group.consume_enable, group.retry_queue_nums), (3, true, 1));
    }
}
