//! Bodies clients send: heartbeats, queue locks, subscriptions.

use base::cursor::DecodeError;
use serde::{Deserialize, Serialize};

/// What a client says of itself and its groups (34 HEART_BEAT).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// Id of the client.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Groups it consumes in.
    #[serde(rename = "consumerDataSet")]
    pub consumers: Vec<ConsumerData>,
    /// Groups it produces in.
    #[serde(rename = "producerDataSet")]
    pub producers: Vec<ProducerData>,
    /// Hash over its subscriptions, 0 if it does not send one (5.1.3).
    #[serde(rename = "heartbeatFingerprint")]
    pub fingerprint: i32,
    /// Whether subscriptions were left out since they have not changed (5.1.3).
    #[serde(rename = "withoutSub")]
    pub without_subscriptions: bool,
}

/// One group it produces in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// Group.
    pub group_name: String,
}

/// One group it consumes in. Kinds are enum names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Group.
    pub group_name: String,
    /// `CONSUME_ACTIVELY`, `CONSUME_PASSIVELY`, `CONSUME_POP`.
    pub consume_type: String,
    /// `CLUSTERING`, `BROADCASTING`.
    pub message_model: String,
    /// `CONSUME_FROM_LAST_OFFSET`, ...
    pub consume_from_where: String,
    /// What it wants.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Unit mode.
    pub unit_mode: bool,
}

/// What is wanted of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Filter by uploaded class.
    pub class_filter_mode: bool,
    /// Hash codes of the tags.
    pub code_set: Vec<i64>,
    /// `TAG` or `SQL92`; empty means `TAG`.
    pub expression_type: String,
    /// Expression.
    pub sub_string: String,
    /// Grows with each change.
    pub sub_version: i64,
    /// Tags.
    pub tags_set: Vec<String>,
    /// Topic.
    pub topic: String,
}

/// A queue as clients name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    /// Broker.
    pub broker_name: String,
    /// Number.
    pub queue_id: i32,
    /// Topic.
    pub topic: String,
}

/// 41 LOCK_BATCH_QUEUES and 42 UNLOCK_BATCH_QUEUES.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatch {
    /// Group.
    pub consumer_group: String,
    /// Client.
    pub client_id: String,
    /// Queues.
    pub mq_set: Vec<MessageQueue>,
}

/// 46 CHECK_CLIENT_CONFIG.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConfigCheck {
    /// Client.
    pub client_id: String,
    /// Group.
    pub group: String,
    /// What it wants to subscribe.
    pub subscription_data: SubscriptionData,
}

/// Decodes a JSON body, tolerant of Java's odd keys, of missing members, and of nulls in place of members.
pub fn decode<T: serde::de::DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, DecodeError> {
    let bad = |found: String| DecodeError::BadValue { what, found };
    let mut value = format::loose_json::parse(body).map_err(|error| bad(error.to_string()))?;
    if !value.is_object() {
        // An array would be taken for the members in order.
        return Err(bad("something that is no object".to_owned()));
    }
    drop_nulls(&mut value);
    serde_json::from_value(value).map_err(|error| bad(error.to_string()))
}

/// A member that is null is a member that is not there. The parser has bounded the depth.
fn drop_nulls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Writes an object whose keys are queues, as Java does: `{{"brokerName":..}:value,..}`.
pub fn queue_keyed_object<'a>(members: impl Iterator<Item = (&'a MessageQueue, serde_json::Value)>) -> String {
    let members: Vec<_> =
        members.map(|(queue, value)| format!("{}:{value}", serde_json::to_string(queue).unwrap_or_default())).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_read_with_what_it_lacks() {
        let body = br#"{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[
            {"topic":"t","subString":"*","codeSet":[],"tagsSet":null,"subVersion":5}]}],"producerDataSet":[]}"#;
        let heartbeat: Heartbeat = decode("heartbeat", body).expect("decodes");
        assert_eq!(heartbeat.consumers[0].subscription_data_set[0].sub_version, 5);
        assert!(decode::<Heartbeat>("heartbeat", b"{").is_err());
        assert!(decode::<Heartbeat>("heartbeat", b"[]").is_err());
    }

    #[test]
    fn queues_stand_as_keys() {
        let queue = MessageQueue { broker_name: "b".into(), queue_id: 1, topic: "t".into() };
        let text = queue_keyed_object([(&queue, 5.into())].into_iter());
        assert_eq!(text, r#"{{"brokerName":"b","queueId":1,"topic":"t"}:5}"#);
    }
}
