//! One data directory, two brokers: what Sluice wrote an official broker serves, and the other way round, at the same offsets.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::{JavaBroker, JavaNameServer, run_program};
use conformance::sluice::{Setup, binary};
use format::record::Record;
use wire::rocketmq::code::{request, response};

/// Small files, so that many of them are crossed; Java's names.
const LAYOUT: [&str; 4] =
    ["mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=20000", "maxHashSlotNum=1000", "maxIndexNum=4000"];
const COUNT: usize = 3000;
/// Bytes of an entry of a queue.
const ENTRY_SIZE: usize = 20;

/// An official broker writes them 10 s after its start for the first time.
const OFFSETS_WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// Each record has a checksum over all of it, and the official broker's recovery asks for it.
const CHECKSUMS: [&str; 2] = ["enabledAppendPropCRC=true", "forceVerifyPropCRC=true"];

fn sluice(data: &Path, settings: &[&str]) -> Setup {
    settings
        .iter()
        .filter(|text| !text.starts_with("forceVerify"))
        .filter_map(|text| text.split_once('='))
        .fold(Setup::serve(data), |setup, (name, value)| setup.set(name, value))
}

fn body_of(number: usize) -> String {
    format!("{number}:{}", "b".repeat(number * 7 % 900))
}

/// Sends messages of known bodies to two queues of `topic` and commits an offset.
fn fill(address: &str, topic: &str) {
    let mut connection = Connection::open(address);
    for number in 0..COUNT {
        let properties = format!("KEYS\u{1}key{number}\u{2}TAGS\u{1}t{}\u{2}WAIT\u{1}true\u{2}", number % 3);
        let answer = connection.send_message(topic, (number % 2) as i32, &properties, body_of(number).as_bytes());
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        assert_eq!(answer.field("queueOffset"), (number / 2).to_string());
    }
    let group = br#"{"groupName":"readers"}"#;
    assert_eq!(connection.call(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[], group).code, response::SUCCESS);
    let fields = [("consumerGroup", "readers"), ("topic", topic), ("queueId", "1"), ("commitOffset", "77")];
    assert_eq!(connection.call(request::UPDATE_CONSUMER_OFFSET, &fields, &[]).code, response::SUCCESS);
}

/// Every message is at its offset, can be found by key, and the group is where it was.
fn verify(address: &str, topic: &str) {
    let mut connection = Connection::open(address);
    for queue in 0..2 {
        assert_eq!(connection.queue_end(topic, queue), COUNT as u64 / 2);
        let end = connection.read_queue(topic, queue, 0, |record| {
            let number = record.queue_offset.0 as usize * 2 + queue as usize;
            assert_eq!(record.body, body_of(number).as_bytes());
            assert_eq!(record.property("KEYS"), Some(&*format!("key{number}")));
        });
        assert_eq!(end, COUNT as u64 / 2);
    }
    for number in [0, 1234, COUNT - 1] {
        let key = format!("key{number}");
        let fields = [
            ("topic", topic),
            ("key", &*key),
            ("maxNum", "32"),
            ("beginTimestamp", "0"),
            ("endTimestamp", "9999999999999"),
        ];
        let found = connection.call(request::QUERY_MESSAGE, &fields, &[]);
        assert_eq!(found.code, response::SUCCESS, "{key}: {}", found.remark);
        assert_eq!(Record::decode(&found.body).expect("a record").body, body_of(number).as_bytes());
    }
    let fields = [("consumerGroup", "readers"), ("topic", topic), ("queueId", "1")];
    assert_eq!(connection.call(request::QUERY_CONSUMER_OFFSET, &fields, &[]).field("offset"), "77");
}

/// Brokers keep committed offsets in memory for a while: waits until those in `topic` are in their file.
fn wait_for_offsets(data: &Path, topic: &str) {
    let file = data.join("config/consumerOffset.json");
    let deadline = Instant::now() + OFFSETS_WRITTEN_WITHIN;
    while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains(&format!("{topic}@readers"))) {
        assert!(Instant::now() < deadline, "{} has no offsets in {topic}", file.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A directory goes from one broker to the other and back; each adds a topic, each serves all.
fn is_passed_on(java_is_killed: bool, sluice_is_killed: bool, further: &[&str]) {
    let settings = &[&LAYOUT[..], further].concat()[..];
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = JavaNameServer::start(&scratch.path().join("names"));
    let home = scratch.path().join("java");
    // The official broker keeps its files in `store` below its own directory.
    let data = home.join("store");

    let mut own = sluice(&data, settings).start();
    fill(&own.broker, "first");
    if sluice_is_killed {
        wait_for_offsets(&data, "first");
        own.kill();
    } else {
        assert!(own.stop().success());
    }

    let mut java = JavaBroker::start(&home, &name_server.address, settings);
    verify(&java.address, "first");
    fill(&java.address, "second");
    if java_is_killed {
        wait_for_offsets(&data, "second");
        java.process.kill();
    } else {
        java.stop();
    }

    let mut own = sluice(&data, settings).start();
    verify(&own.broker, "first");
    verify(&own.broker, "second");
    fill(&own.broker, "third");
    assert!(own.stop().success());

    let java = JavaBroker::start(&home, &name_server.address, settings);
    for topic in ["first", "second", "third"] {
        verify(&java.address, topic);
    }
    let produced = run_program(
        "5.4.0",
        "Produce",
        &name_server.address,
        scratch.path(),
        &[("topic", "fourth"), ("count", "100"), ("size", "100"), ("threads", "1"), ("mode", "sync")],
    );
    assert_eq!(produced["ok"], 100);
    java.stop();
}

/// What is in the files of a queue, by name, up to the last entry.
fn queue_files(data: &Path, queue: &str) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(data.join("consumequeue").join(queue)).expect("a folder of entries");
    let used = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("a file of entries");
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last / ENTRY_SIZE + 1) * ENTRY_SIZE);
        bytes
    };
    let files = files.map(|file| file.expect("a file").path());
    files
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), used(&path)))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect()
}

/// RocketMQ's light topics: a record is listed in further queues, at offsets it names.
#[test]
fn further_queues_in_which_an_official_broker_lists_a_record_are_made_again_alike() {
    const LIGHT: [&str; 2] = ["%LMQ%one", "%LMQ%two"];
    let settings = &[&LAYOUT[..], &["enableLmq=true", "enableMultiDispatch=true"]].concat()[..];
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = JavaNameServer::start(&scratch.path().join("names"));
    let home = scratch.path().join("java");
    let data = home.join("store");
    let java = JavaBroker::start(&home, &name_server.address, settings);
    let mut connection = Connection::open(&java.address);
    for number in 0..COUNT {
        let topics = if number % 2 == 0 { LIGHT[0].to_owned() } else { LIGHT.join(",") };
        let properties = format!("TAGS\u{1}t{}\u{2}INNER_MULTI_DISPATCH\u{1}{topics}\u{2}", number % 3);
        let answer = connection.send_message("own", (number % 2) as i32, &properties, body_of(number).as_bytes());
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    }
    drop(connection);
    java.stop();
    let queues = ["own/0", "own/1", "%LMQ%one/0", "%LMQ%two/0"];
    let made_by_java = queues.map(|queue| queue_files(&data, queue));
    let counts = made_by_java.each_ref().map(|files| files.values().map(Vec::len).sum::<usize>() / ENTRY_SIZE);
    assert_eq!(counts, [COUNT / 2, COUNT / 2, COUNT, COUNT / 2]);
    std::fs::remove_dir_all(data.join("consumequeue")).expect("removes");
    assert!(sluice(&data, &LAYOUT).start().stop().success());
    assert_eq!(queues.map(|queue| queue_files(&data, queue)), made_by_java);
    let check = Command::new(binary()).args(["store", "check"]).arg(&data).output().expect("runs");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    // And it serves them.
    let java = JavaBroker::start(&home, &name_server.address, settings);
    let mut connection = Connection::open(&java.address);
    let mut number = 0;
    let end = connection.read_queue(LIGHT[0], 0, 0, |record| {
        assert_eq!(record.body, body_of(number).as_bytes());
        number += 1;
    });
    assert_eq!(end, COUNT as u64);
    java.stop();
}

#[test]
fn a_directory_goes_back_and_forth_after_orderly_stops() {
    is_passed_on(false, false, &[]);
}

#[test]
fn a_directory_goes_back_and_forth_after_kills() {
    is_passed_on(true, true, &[]);
}

#[test]
fn a_directory_with_checksums_goes_back_and_forth_after_kills() {
    is_passed_on(true, true, &CHECKSUMS);
}
