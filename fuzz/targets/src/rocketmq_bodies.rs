//! Every body RocketMQ peers send, decoded from the same bytes.

use format::document::{DataVersion, GroupTableDocument, TopicDocument, TopicTableDocument};
use format::request_mode::{RequestModeDocument, RequestModeTableDocument};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::rocketmq::body::assignment::{AssignmentQuery, Assignments};
use wire::rocketmq::body::client::{self, ClientConfigCheck, Heartbeat, LockBatch};
use wire::rocketmq::body::cluster_info::{BrokerMemberGroup, ClusterInfo};
use wire::rocketmq::body::kv_table::KvTable;
use wire::rocketmq::body::route::{JsonDialect, TopicRouteData};
use wire::rocketmq::body::topic_list::TopicList;
use wire::rocketmq::pop::batch_ack::{BatchAckRequest, BitSet};
use wire::rocketmq::registration::{self, MAPPINGS_VERSION, OddTopics, Registration, body_checksum};

use crate::loose_json::has_fraction;

/// Whatever decodes comes back the same after it was written.
pub fn run(data: &[u8]) {
    clients::<Heartbeat>(data);
    clients::<LockBatch>(data);
    clients::<ClientConfigCheck>(data);
    clients::<TopicTableDocument>(data);
    clients::<GroupTableDocument>(data);
    clients::<TopicDocument>(data);
    clients::<AssignmentQuery>(data);
    clients::<Assignments>(data);
    clients::<RequestModeDocument>(data);
    clients::<RequestModeTableDocument>(data);
    if let Ok(list) = TopicList::decode(data) {
        assert_eq!(TopicList::decode(&list.encode()), Ok(list));
    }
    if let Ok(table) = KvTable::decode(data) {
        assert_eq!(KvTable::decode(&table.encode()), Ok(table));
    }
    if let Ok(info) = ClusterInfo::decode(data) {
        assert_eq!(ClusterInfo::decode(&info.encode()), Ok(info));
    }
    if let Ok(group) = BrokerMemberGroup::decode(data) {
        assert_eq!(BrokerMemberGroup::decode(&group.encode()), Ok(group));
    }
    if let Ok(version) = registration::decode_data_version(data) {
        let written = registration::encode_data_version(&version);
        assert_eq!(registration::decode_data_version(&written), Ok(version));
    }
    batch_ack(data);
    route(data);
    registrations(data);
}

fn batch_ack(data: &[u8]) {
    let Ok(request) = BatchAckRequest::decode(data) else { return };
    for ack in &request.acks {
        assert_eq!(BitSet::of(&ack.bits.iter().collect()), ack.bits);
        assert_eq!((ack.bits.iter().count(), ack.bits.iter().next().is_none()), (ack.bits.len(), ack.bits.is_empty()));
        assert!(ack.offsets().is_sorted());
    }
    assert_eq!(BatchAckRequest::decode(&request.encode()), Ok(request));
}

/// Bodies that are written by their derived form.
fn clients<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(body) = client::decode::<T>("body", data) {
        let text = serde_json::to_vec(&body).expect("a body that is written");
        let is_exact = serde_json::from_slice(&text).is_ok_and(|value| !has_fraction(&value));
        let again = client::decode::<T>("body", &text);
        assert!(!is_exact || again.as_ref() == Ok(&body), "{body:?} came back as {again:?}");
    }
}

fn route(data: &[u8]) {
    let Ok(route) = TopicRouteData::decode(data) else { return };
    for dialect in [JsonDialect::Strict, JsonDialect::Loose] {
        let again = TopicRouteData::decode(&route.encode(dialect)).expect("a route that was written is read");
        let mappings = route.topic_queue_mapping_by_broker.iter().flat_map(|mappings| mappings.values());
        if !mappings.into_iter().any(has_fraction) {
            assert_eq!(again, route);
        }
    }
}

fn registrations(data: &[u8]) {
    for version in [MAPPINGS_VERSION - 1, MAPPINGS_VERSION] {
        if let Ok(read) = Registration::decode(data, true, version, Some(body_checksum(data))) {
            comes_back(&read);
        }
    }
    if let Ok(read) = Registration::decode(data, false, MAPPINGS_VERSION, None) {
        comes_back(&read);
    }
}

fn comes_back(read: &Registration) {
    if read.mappings.values().any(has_fraction) {
        return;
    }
    // What was odd was mended or left out: written again, it is odd no more.
    let read = Registration { odd: OddTopics::default(), ..read.clone() };
    let plain = Registration::decode(&read.encode_plain(), false, MAPPINGS_VERSION, None);
    assert_eq!(plain.as_ref(), Ok(&read));
    let packable = packable(&read);
    let packed = Registration::decode(&packable.encode_packed(MAPPINGS_VERSION), true, MAPPINGS_VERSION, None);
    assert_eq!(packed, Ok(packable));
}

/// What the packed form can carry: words as names, and no system flag or order.
fn packable(read: &Registration) -> Registration {
    let is_word = |text: &str| !text.is_empty() && !text.contains(' ');
    let mut packable = read.clone();
    let topics = &mut packable.topics.topic_config_table;
    topics.retain(|name, topic| *name == topic.topic_name && is_word(name) && is_word(&topic.topic_filter_type));
    for topic in topics.values_mut() {
        (topic.order, topic.topic_sys_flag) = (false, 0);
    }
    packable.mappings.retain(|name, mapping| mapping.get("topic").and_then(|topic| topic.as_str()) == Some(name));
    packable
}

/// Bodies of every kind in both dialects, packed registrations, and captured bodies.
pub fn seeds() -> Vec<Vec<u8>> {
    let topic = r#"{"attributes":{"+a":"b"},"perm":6,"readQueueNums":4,"topicName":"t","writeQueueNums":4}"#;
    let registration = format!(
        r#"{{"filterServerList":["f"],"topicConfigSerializeWrapper":{{"dataVersion":{{"counter":1}},"topicConfigTable":{{"t":{topic}}},"topicQueueMappingInfoMap":{{"t":{{"topic":"t"}}}}}}}}"#
    );
    let texts = [
        r#"{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","tagsSet":null,"subVersion":5}]}],"heartbeatFingerprint":1}"#,
        r#"{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h:1"},"brokerName":"b","zoneName":"z"}},"clusterAddrTable":{"c":["b"]}}"#,
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"b","cluster":"c"}}"#,
        r#"{"brokerDatas":[],"filterServerTable":{"h:1":["f"]},"orderTopicConf":"b:4","queueDatas":[{"topicSynFlag":1}],"topicQueueMappingByBroker":{"b":{"currIdMap":{0:1}}}}"#,
        r#"{"table":{"k":"v"}}"#,
        r#"{"brokerAddr":"h","topicList":["t"]}"#,
        r#"{"consumerGroup":"g","mqSet":[{"queueId":1}]}"#,
        r#"{"clientId":"c","consumerGroup":"g","messageModel":"CLUSTERING","strategyName":"AVG","topic":"t"}"#,
        r#"{"messageQueueAssignments":[{"attachments":{"k":"v"},"messageQueue":{"brokerName":"b","queueId":-1,"topic":"t"},"mode":"POP"}]}"#,
        r#"{"consumerGroup":"g","mode":"POP","popShareQueueNum":2,"topic":"t"}"#,
        r#"{"messageRequestModeMap":{"t":{"g":{"consumerGroup":"g","mode":"PULL","popShareQueueNum":0,"topic":"t"}}}}"#,
        r#"{"acks":[{"b":"gAEAgAAAAIAB","c":"g","it":60000,"pt":1,"q":3,"r":"1","rq":5,"so":100,"t":"t"}],"brokerName":"b"}"#,
        &registration,
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let read = Registration::decode(registration.as_bytes(), false, MAPPINGS_VERSION, None).expect("a registration");
    seeds.push(read.encode_packed(MAPPINGS_VERSION).to_vec());
    seeds.push(read.encode_packed(MAPPINGS_VERSION - 1).to_vec());
    seeds.push(registration::encode_data_version(&DataVersion::default()).to_vec());
    seeds.extend(crate::golden::bodies());
    seeds
}
