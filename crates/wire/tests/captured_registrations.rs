//! Registrations, routes and lists as official brokers and name servers put them on the wire are read, and what we
//! write in their place says the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use format::document::TopicDocument;
use wire::rocketmq::body::cluster_info::{BrokerMemberGroup, ClusterInfo};
use wire::rocketmq::body::kv_table::KvTable;
use wire::rocketmq::body::route::{JsonDialect, TopicRouteData};
use wire::rocketmq::body::topic_list::TopicList;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{Command, frame_len};
use wire::rocketmq::header::RegisterBrokerRequest;
use wire::rocketmq::registration::{Registration, body_checksum};

/// Captured frames whose file name starts with `prefix` and ends with `suffix`, of every version and form.
fn captured(prefix: &str, suffix: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocketmq");
    let mut found = Vec::new();
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
    };
    for form in folders(&root).iter().flat_map(|version| folders(version)) {
        for entry in std::fs::read_dir(&form).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with(prefix) && name.ends_with(suffix) {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Bodies of captured answers that say yes.
fn answers(prefix: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut bodies = Vec::new();
    for (path, frame) in captured(prefix, ".response.bin") {
        let command = Command::decode(&frame).unwrap();
        if command.header.code == 0 && !command.body.is_empty() {
            bodies.push((path, command.body.to_vec()));
        }
    }
    bodies
}

#[test]
fn registrations_of_official_brokers_are_read_and_come_back_the_same() {
    let frames = captured("103-REGISTER_BROKER", "request.bin");
    assert!(frames.len() >= 2, "captured frames are missing");
    for (path, frame) in frames {
        let name = path.display();
        assert_eq!(frame_len(&frame), Ok(Some(frame.len())), "{name}");
        let command = Command::decode(&frame).unwrap();
        let header = RegisterBrokerRequest::decode(&command.fields).unwrap();
        assert_eq!(header.body_crc32, Some(body_checksum(command.body)), "{name}");
        let is_packed = header.compressed == Some(true);
        let version = command.header.version;
        let read = Registration::decode(command.body, is_packed, version, header.body_crc32).unwrap();
        assert!(!read.topics.topic_config_table.is_empty(), "{name}");
        assert!(read.topics.data_version.timestamp > 0, "{name}");

        let plain = Registration::decode(&read.encode_plain(), false, version, None).unwrap();
        assert_eq!(plain, read, "{name}");
        let mut unflagged = read;
        for topic in unflagged.topics.topic_config_table.values_mut() {
            *topic = TopicDocument { order: false, topic_sys_flag: 0, ..topic.clone() };
        }
        let packed = Registration::decode(&unflagged.encode_packed(version), true, version, None).unwrap();
        assert_eq!(packed, unflagged, "{name}");
    }
}

#[test]
fn routes_of_official_name_servers_are_written_byte_for_byte() {
    for (path, body) in answers("105-GET_ROUTEINFO_BY_TOPIC") {
        let route = TopicRouteData::decode(&body).unwrap();
        assert!(!route.queue_datas.is_empty(), "{}", path.display());
        let ours = [JsonDialect::Strict, JsonDialect::Loose].map(|dialect| route.encode(dialect).to_vec());
        // Name servers before 5.0 do not tell of acting masters.
        let is_older = !String::from_utf8_lossy(&body).contains("enableActingMaster");
        let without = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(",\"enableActingMaster\":false", "");
        let ours = ours.map(|bytes| if is_older { without(bytes).into_bytes() } else { bytes });
        assert!(ours.contains(&body), "{}: {}", path.display(), String::from_utf8_lossy(&body));
    }
}

#[test]
fn lists_and_tables_of_official_name_servers_are_written_byte_for_byte() {
    for (path, body) in answers("106-GET_BROKER_CLUSTER_INFO") {
        let read = ClusterInfo::decode(&body).unwrap();
        if String::from_utf8_lossy(&body).contains("enableActingMaster") {
            assert_eq!(read.encode(), body, "{}", path.display());
        }
    }
    for (path, body) in answers("901-GET_BROKER_MEMBER_GROUP") {
        assert_eq!(BrokerMemberGroup::decode(&body).unwrap().encode(), body, "{}", path.display());
    }
    for prefix in ["206-", "224-", "304-", "311-", "312-", "313-"] {
        for (path, body) in answers(prefix) {
            assert_eq!(TopicList::decode(&body).unwrap().encode(), body, "{}", path.display());
        }
    }
    for (path, body) in answers("219-GET_KVLIST_BY_NAMESPACE") {
        assert_eq!(KvTable::decode(&body).unwrap().encode(), body, "{}", path.display());
    }
}
