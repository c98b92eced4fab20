//! Starts on a directory that a Java broker was at work on in between: what it wrote counts, and nothing acknowledged is lost for it.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::fs;
use std::path::Path;

use base::{Now, QueueId};
use serde_json::{Value, json};
use storage::disk::{Disk, MemoryDisk};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);
const LEVEL_1: &[u8] = b"DELAY\x011\x02";
const LEVEL_20: &[u8] = b"DELAY\x0120\x02";

fn open(directory: &Path) -> Bench {
    open_on(layout(directory, vec![1000; 20]), START, |_| ())
}

/// Writes the document of topics as a Java broker does, in which there are 18 delay levels, whatever it has been told.
fn write_topics_as_java(directory: &Path) {
    let path = directory.join("config/topics.json");
    let mut topics: Value = serde_json::from_str(&fs::read_to_string(&path).expect("reads")).expect("JSON");
    topics.as_object_mut().expect("an object").remove("sluiceLogPosition");
    topics["dataVersion"]["counter"] = json!(100);
    let levels = &mut topics["topicConfigTable"]["SCHEDULE_TOPIC_XXXX"];
    (levels["readQueueNums"], levels["writeQueueNums"]) = (json!(18), json!(18));
    fs::write(&path, topics.to_string()).expect("writes");
}

/// It lost power: its document is newer than what is left of its log.
#[test]
fn a_delayed_message_arrives_although_javas_progress_was_beyond_the_queue() {
    let directory = tempfile::tempdir().expect("directory");
    let mut bench = open(directory.path());
    bench.publish("orders", &message(b"first", LEVEL_1)).expect("stored");
    bench.advance(1000);
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    fs::write(directory.path().join("config/delayOffset.json"), r#"{"offsetTable":{1:10}}"#).expect("writes");
    let bench = open(directory.path());
    for body in [b"second", b"third "] {
        bench.publish("orders", &message(body, LEVEL_1)).expect("acknowledged");
    }
    bench.broker.store().sync().expect("syncs");
    // Killed before they are due.
    drop(bench);
    let mut bench = open(directory.path());
    bench.advance(1000);
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["first", "second", "third "]);
}

#[test]
fn delay_levels_beyond_the_eighteenth_are_delivered_though_java_tells_of_eighteen() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    bench.publish("orders", &message(b"waits", LEVEL_20)).expect("stored");
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    write_topics_as_java(directory.path());
    let mut bench = open(directory.path());
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["waits"]);
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    write_topics_as_java(directory.path());
    let mut bench = open(directory.path());
    bench.publish("orders", &message(b"next", LEVEL_20)).expect("stored");
    (0..3).for_each(|_| bench.advance(1000));
    assert_eq!(bench.bodies("orders", 0), ["waits", "next"], "none comes twice");
}

fn retries(bench: &Bench) -> Option<i32> {
    bench.broker.catalog.group("of-java").map(|group| group.retry_max_times)
}

#[test]
fn what_java_wrote_is_taken_over_although_the_disk_was_full_at_first() {
    let memory = MemoryDisk::new();
    let options = storage::Options {
        disk: Disk::new(memory.clone()),
        checkpoint_reserve: Some(1 << 20),
        ..layout(Path::new("/data"), vec![1000])
    };
    let bench = open_on(options.clone(), START, |_| ());
    for _ in 0..9 {
        bench.publish("orders", &message(b"x", b"")).expect("stored");
    }
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 3).expect("commits");
    bench.broker.close(START).expect("closes");
    drop(bench);
    // Java was at work: a group is made, and another consumes the rest.
    let disk = Disk::new(memory.clone());
    let groups = r#"{"dataVersion":{"counter":9},"subscriptionGroupTable":{"of-java":{"groupName":"of-java","retryMaxTimes":3}}}"#;
    disk.replace_file(Path::new("/data/config/subscriptionGroup.json"), groups.as_bytes()).expect("writes");
    disk.replace_file(Path::new("/data/config/consumerOffset.json"), br#"{"offsetTable":{"orders@billing":{0:9}}}"#)
        .expect("writes");
    let used = disk.usage(Path::new("/data")).expect("usage").0;
    // The reserve of the process before goes with its start, and has no room any more.
    memory.set_capacity(used - (1 << 20) + (200 << 10));
    let memory = memory.after_restart_of_the_machine();
    let options = storage::Options { disk: Disk::new(memory.clone()), ..options };
    let bench = open_on(options.clone(), START, |_| ());
    assert_eq!((retries(&bench), bench.broker.offsets.committed("orders", "billing", QueueId(0))), (Some(3), Some(9)));
    // There is room again, and it stops in good order.
    memory.set_capacity(u64::MAX);
    bench.broker.store().prepare_next_segment().expect("room");
    bench.broker.offsets.keep_changes(START).expect("kept");
    bench.broker.close(START).expect("closes");
    drop(bench);
    let memory = memory.after_restart_of_the_machine();
    let options = storage::Options { disk: Disk::new(memory), ..options };
    let bench = open_on(options, START, |_| ());
    assert_eq!((retries(&bench), bench.broker.offsets.committed("orders", "billing", QueueId(0))), (Some(3), Some(9)));
}

/// Java's administrator sets a group back: by chance the document is the same text as the one taken over before.
#[test]
fn what_java_wrote_is_taken_over_also_if_it_is_what_it_wrote_once_before() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("config/consumerOffset.json");
    let bench = open(directory.path());
    for _ in 0..9 {
        bench.publish("orders", &message(b"x", b"")).expect("stored");
    }
    bench.broker.close(START).expect("closes");
    drop(bench);
    // 4.9.7: no data version.
    let of_java = r#"{"offsetTable":{"orders@billing":{0:2}}}"#;
    fs::write(&path, of_java).expect("writes");
    let bench = open(directory.path());
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(2));
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 9).expect("commits");
    bench.broker.close(START).expect("closes");
    drop(bench);
    // Java again, and somebody has the group begin again where it was.
    fs::write(&path, of_java).expect("writes");
    let bench = open(directory.path());
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(2));
}
