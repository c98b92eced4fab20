//! Clusters and their brokers (106), and the members of one broker group (901). Written in the loose dialect always,
//! as the official name server does for every version.

use std::collections::{BTreeMap, BTreeSet};

use base::cursor::DecodeError;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::json::{JsonDialect, decode, encode, null_as_default};
use super::route::BrokerData;

/// Every cluster and every broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// Brokers by name.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Names of brokers by cluster.
    #[serde(deserialize_with = "null_as_default")]
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
}

impl ClusterInfo {
    /// Reads the body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("cluster info", body)
    }

    /// Writes the body.
    pub fn encode(&self) -> Bytes {
        encode(self, JsonDialect::Loose)
    }
}

/// The master and the replicas that share one broker name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroup {
    /// Address by broker id.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_addrs: BTreeMap<i64, String>,
    /// Broker name.
    #[serde(deserialize_with = "null_as_default")]
    pub broker_name: String,
    /// Cluster.
    #[serde(deserialize_with = "null_as_default")]
    pub cluster: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberGroupBody {
    broker_member_group: BrokerMemberGroup,
}

impl BrokerMemberGroup {
    /// Reads the body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        decode("broker member group", body).map(|body: MemberGroupBody| body.broker_member_group)
    }

    /// Writes the body.
    pub fn encode(&self) -> Bytes {
        encode(&BTreeMap::from([("brokerMemberGroup", self)]), JsonDialect::Loose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> BTreeMap<i64, String> {
        BTreeMap::from([(0, "127.0.0.1:10911".to_owned()), (1, "127.0.0.1:10921".to_owned())])
    }

    #[test]
    fn cluster_info_is_the_bytes_of_the_official_name_server() {
        let broker = BrokerData {
            broker_addrs: addresses(),
            broker_name: "b-a".to_owned(),
            cluster: "c".to_owned(),
            enable_acting_master: true,
            zone_name: Some("z".to_owned()),
        };
        let info = ClusterInfo {
            broker_addr_table: BTreeMap::from([("b-a".to_owned(), broker)]),
            cluster_addr_table: BTreeMap::from([("c".to_owned(), BTreeSet::from(["b-a".to_owned()]))]),
        };
        let text = r#"{"brokerAddrTable":{"b-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":"b-a","cluster":"c","enableActingMaster":true,"zoneName":"z"}},"clusterAddrTable":{"c":["b-a"]}}"#;
        assert_eq!(info.encode(), text);
        assert_eq!(ClusterInfo::decode(text.as_bytes()), Ok(info));
        let empty = ClusterInfo::default();
        assert_eq!(empty.encode(), r#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#);
    }

    #[test]
    fn a_member_group_is_the_bytes_of_the_official_name_server() {
        let group =
            BrokerMemberGroup { broker_addrs: addresses(), broker_name: "b-a".to_owned(), cluster: "c".to_owned() };
        let text = r#"{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":"b-a","cluster":"c"}}"#;
        assert_eq!(group.encode(), text);
        assert_eq!(BrokerMemberGroup::decode(text.as_bytes()), Ok(group));
        assert!(BrokerMemberGroup::decode(b"{}").is_err());
    }
}
