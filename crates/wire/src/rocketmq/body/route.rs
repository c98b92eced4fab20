//! Routes: which brokers have which queues of a topic (105), and the same shape as brokers send it (217).
//!
//! A decoded body keeps what it understands; what is missing or null takes Java's default, what is unknown is dropped.

use std::collections::BTreeMap;

use base::cursor::DecodeError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::json::JsonDialect;
use super::json::{decode, encode, null_as_default};

/// First version whose peers are answered in strict JSON (`V4_9_4`).
pub const STRICT_JSON_VERSION: i32 = 401;

/// Broker id of a master.
pub const MASTER_ID: i64 = 0;

/// Queues of a topic on one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// Name of the broker.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_name: String,
    /// Permission bits: 1 inherit, 2 write, 4 read.
    pub perm: u32,
    /// Queues consumers read.
    pub read_queue_nums: u32,
    /// Bits: 1 unit, 2 unit subscription. Before 4.9 the name was misspelled.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues producers write.
    pub write_queue_nums: u32,
}

/// Where one broker and its replicas listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// Address by broker id; the master has 0.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name, shared by the master and its replicas.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_name: String,
    /// Cluster.
    #[serde(deserialize_with = "null_as_default")]
    pub cluster: String,
    /// Whether a replica stands in for a lost master (5.x).
    pub enable_acting_master: bool,
    /// Zone (5.x).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_name: Option<String>,
}

/// Route of one topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// Brokers named by `queue_datas`.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers by broker address (before 4.9).
    #[serde(deserialize_with = "null_as_default")]
    pub filter_server_table: BTreeMap<String, Option<Vec<String>>>,
    /// Queues kept in order, as text `broker:count;broker:count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_topic_conf: Option<String>,
    /// Queues per broker.
    #[serde(deserialize_with = "null_as_default")]
    pub queue_datas: Vec<QueueData>,
    /// Static queues by broker (5.x), kept as they came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_queue_mapping_by_broker: Option<BTreeMap<String, Value>>,
}

/// The dialect for a peer of `version`, which may ask for strict JSON whatever its version.
pub const fn route_dialect(version: i32, accepts_standard_json_only: bool) -> JsonDialect {
    if version >= STRICT_JSON_VERSION || accepts_standard_json_only { JsonDialect::Strict } else { JsonDialect::Loose }
}

impl TopicRouteData {
    /// Reads a route in either dialect.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("topic route", body)
    }

    /// Writes the route.
    pub fn encode(&self, dialect: JsonDialect) -> Bytes {
        encode(self, dialect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> TopicRouteData {
        TopicRouteData {
            broker_datas: vec![BrokerData {
                broker_addrs: BTreeMap::from([(0, "127.0.0.1:10911".to_owned()), (1, "127.0.0.1:10921".to_owned())]),
                broker_name: "b-a".to_owned(),
                cluster: "c".to_owned(),
                enable_acting_master: false,
                zone_name: None,
            }],
            queue_datas: vec![QueueData {
                broker_name: "b-a".to_owned(),
                perm: 6,
                read_queue_nums: 8,
                topic_sys_flag: 0,
                write_queue_nums: 4,
            }],
            ..TopicRouteData::default()
        }
    }

    /// What the name server of 5.4.0 writes for the route above.
    const LOOSE: &str = r#"{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":"b-a","cluster":"c","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}"#;

    #[test]
    fn both_dialects_are_the_bytes_of_the_official_name_server() {
        assert_eq!(route().encode(JsonDialect::Loose), LOOSE);
        let strict = LOOSE.replace("{0:", "{\"0\":").replace(",1:", ",\"1\":");
        assert_eq!(route().encode(JsonDialect::Strict), strict);
    }

    #[test]
    fn every_route_comes_back_as_it_went() {
        let mut full = route();
        full.order_topic_conf = Some("b-é:4;\"quoted\"\n".to_owned());
        full.broker_datas[0].zone_name = Some("zone-1".to_owned());
        full.broker_datas[0].enable_acting_master = true;
        full.broker_datas[0].cluster = String::new();
        full.filter_server_table.insert("127.0.0.1:10911".to_owned(), Some(vec!["f:1".to_owned()]));
        full.topic_queue_mapping_by_broker =
            Some(BTreeMap::from([("b-a".to_owned(), serde_json::json!({"currIdMap": {"0": 1}, "epoch": 3}))]));
        for route in [TopicRouteData::default(), route(), full] {
            for dialect in [JsonDialect::Loose, JsonDialect::Strict] {
                assert_eq!(TopicRouteData::decode(&route.encode(dialect)).as_ref(), Ok(&route), "{dialect:?}");
            }
        }
    }

    #[test]
    fn routes_of_old_and_odd_writers_are_read() {
        let old = br#"{"brokerDatas":null,"queueDatas":[{"brokerName":"b","topicSynFlag":2}],"filterServerTable":{"a":null}}"#;
        let read = TopicRouteData::decode(old).expect("reads");
        assert_eq!(read.queue_datas[0].topic_sys_flag, 2);
        assert!(read.broker_datas.is_empty());
    }

    #[test]
    fn what_is_no_route_is_an_error() {
        for text in
            ["", "{", "[]", "7", r#"{"queueDatas":7}"#, r#"{"queueDatas":[{"perm":-1}]}"#, LOOSE.split_at(100).0]
        {
            assert!(TopicRouteData::decode(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_dialect_follows_the_version_and_the_wish() {
        assert_eq!(route_dialect(400, false), JsonDialect::Loose);
        assert_eq!(route_dialect(401, false), JsonDialect::Strict);
        assert_eq!(route_dialect(0, true), JsonDialect::Strict);
    }
}
