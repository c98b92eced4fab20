//! Documents beside the log: written by whoever changed something, and by the housekeeper in between.

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{GroupName, Now, QueueId, TopicName};
use format::document::{GroupDocument, TopicDocument};
use format::properties::names;
use format::record::{self, Record};
use format::request_mode::RequestModeDocument;
use format::state::STATE_TOPIC;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);
const EIO: i32 = 5;

fn open(disk: impl storage::disk::FileSystem + 'static) -> Bench {
    let layout = storage::Options { disk: Disk::new(disk), ..layout(Path::new("/data"), vec![1000, 5000]) };
    open_on(layout, START, |_| ())
}

#[test]
fn whoever_is_told_that_a_document_is_written_finds_it_so_whatever_others_write() {
    let disk = MemoryDisk::new();
    let bench = open(disk.clone());
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    let broker = &bench.broker;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Consumers commit, and the housekeeper writes what they did.
        scope.spawn(|| {
            for round in (0..20_000).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                broker.offsets.commit("orders", "shipping", QueueId(0), round % 2).expect("commits");
                broker.save(START).expect("saves");
            }
        });
        // An administrator's changes, each answered once it is written.
        for round in 0..200 {
            let group = format!("group-{round}");
            broker.offsets.reset("orders", &group, QueueId(0), 1).expect("reset");
            broker.save(START).unwrap_or_else(|error| panic!("round {round}: {error}"));
            let text = broker.store().read_document("consumerOffset.json").expect("reads").expect("is there");
            assert_eq!(text["offsetTable"][format!("orders@{group}")]["0"], 1, "round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_document_that_could_not_be_written_is_written_the_next_time() {
    for (document, change) in [
        ("topics.json", "orders"),
        ("subscriptionGroup.json", "billing"),
        ("consumerOffset.json", "parked@billing"),
        ("delayOffset.json", "\"1\":1"),
        ("messageRequestMode.json", "billing"),
    ] {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let mut bench = open(disk.clone());
        bench.publish("parked", &message(b"x", b"DELAY\x011\x02")).expect("stored");
        let save = |bench: &Bench| bench.broker.save(bench.now);
        save(&bench).expect("saves");
        match document {
            "topics.json" => {
                let settings = TopicDocument { read_queue_nums: 3, ..TopicDocument::default() };
                let catalog = &bench.broker.catalog;
                catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("made");
            }
            "subscriptionGroup.json" => {
                bench
                    .broker
                    .catalog
                    .put_groups(vec![(GroupName::trusted("billing"), GroupDocument::default())], START)
                    .expect("made");
            }
            "consumerOffset.json" => bench.broker.offsets.reset("parked", "billing", QueueId(0), 1).expect("reset"),
            "messageRequestMode.json" => {
                let settings = RequestModeDocument {
                    topic: "parked".to_owned(),
                    consumer_group: "billing".to_owned(),
                    ..RequestModeDocument::default()
                };
                bench.broker.request_modes.set(settings, START).expect("set");
            }
            _ => {
                bench.advance(1000);
                bench.broker.store().sync().expect("syncs");
            }
        }
        disk.fail(Failure::error(Operation::Write, EIO).at(document).times(1));
        let before = bench.broker.store().read_document(document).expect("reads");
        assert!(!before.is_some_and(|text| text.to_string().contains(change)), "{document}");
        assert!(save(&bench).is_err(), "{document}");
        save(&bench).unwrap_or_else(|error| panic!("{document}: {error}"));
        let text = bench.broker.store().read_document(document).expect("reads").expect("is there").to_string();
        assert!(text.contains(change), "{document}: {text}");
    }
}

#[test]
fn a_document_that_was_found_after_a_kill_is_not_lost_when_the_power_fails() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open(disk.clone());
    bench.broker.save(START).expect("saves");
    let group = GroupName::trusted("billing");
    bench.broker.catalog.put_groups(vec![(group.clone(), GroupDocument::default())], START).expect("made");
    // Killed when the document had its name, but before the name was on the disk.
    disk.fail(Failure::error(Operation::SyncDirectory, EIO).at("config").times(1));
    bench.broker.save(START).expect_err("killed");
    drop(bench);
    let bench = open(disk.clone());
    // Whoever asks for what is there already is told that it is.
    assert!(bench.broker.catalog.group("billing").is_some());
    bench.broker.catalog.put_groups(vec![(group.clone(), GroupDocument::default())], START).expect("made");
    bench.broker.save(START).expect("saves");
    drop(bench);
    let bench = open(disk.after_power_cut(disk.points(), || false));
    assert!(bench.broker.catalog.group("billing").is_some());
}

/// A Java broker that asks for checksums takes the log to end at the first record that has none.
#[test]
fn state_records_have_a_checksum_where_messages_have_one() {
    let directory = tempfile::tempdir().expect("directory");
    let layout = storage::Options { record_checksums: true, ..layout(directory.path(), vec![1000]) };
    let bench = open_on(layout, START, |_| ());
    let end = bench.publish("orders", &message(b"x", b"")).expect("stored").0 as usize;
    let log = std::fs::read(directory.path().join("commitlog/00000000000000000000")).expect("a segment");
    let mut at = 0;
    while at < end {
        let record = Record::decode(&log[at..]).expect("a record");
        let sealed = &log[at..at + record.size];
        assert_eq!(record.topic, STATE_TOPIC);
        assert!(record.property(names::CHECKSUM).is_some() && record::checksum_holds(sealed), "{record:?}");
        at += record.size;
    }
    assert!(at > 0, "making the topic is a change of state");
}

/// A Java broker that stops in good order leaves our part of the checkpoint as it was: what it removed since is not made again from the log.
#[test]
fn a_topic_that_a_java_broker_removed_stays_removed() {
    let directory = tempfile::tempdir().expect("directory");
    let open = || open_on(layout(directory.path(), vec![1000]), START, |_| ());
    let checkpoint = directory.path().join("checkpoint");
    let bench = open();
    bench.broker.close(START).expect("closes");
    drop(bench);
    let stale = std::fs::read(&checkpoint).expect("a checkpoint");
    // In place of the Java broker.
    let bench = open();
    for topic in ["kept", "gone", "kept"] {
        bench.publish(topic, &message(b"x", b"")).expect("stored");
    }
    let mut topics = bench.broker.store().read_document("topics.json").expect("reads").expect("is there");
    bench.broker.close(START).expect("closes");
    drop(bench);
    std::fs::write(&checkpoint, stale).expect("writes");
    std::fs::remove_file(directory.path().join("state")).expect("removes");
    std::fs::remove_dir_all(directory.path().join("consumequeue/gone")).expect("removes");
    let members = topics.as_object_mut().expect("an object");
    members.remove("sluiceLogPosition").expect("our own");
    members["topicConfigTable"].as_object_mut().expect("a table").remove("gone");
    std::fs::write(directory.path().join("config/topics.json"), topics.to_string()).expect("writes");
    let bench = open();
    assert!(bench.broker.catalog.topic("gone").is_none());
    assert_eq!(bench.bodies("kept", 0), ["x", "x"]);
}

#[expect(clippy::expect_used, reason = "helper of tests")]
fn put_topic(bench: &Bench, name: &str) {
    bench.broker.catalog.put_topic(TopicName::trusted(name), TopicDocument::default(), START).expect("made");
}

/// A name server does not look at a table again whose version it knows.
#[test]
fn a_table_of_topics_has_every_topic_that_its_version_counts() {
    let bench = open(MemoryDisk::new());
    (0..500).for_each(|number| put_topic(&bench, &format!("before-{number}")));
    let first = bench.broker.catalog.topic_table();
    let count_of = |counter: i64| first.topic_config_table.len() + (counter - first.data_version.counter) as usize;
    std::thread::scope(|scope| {
        let made = scope.spawn(|| (0..500).for_each(|number| put_topic(&bench, &format!("topic-{number}"))));
        while !made.is_finished() {
            let table = bench.broker.catalog.topic_table();
            assert_eq!(table.topic_config_table.len(), count_of(table.data_version.counter));
        }
    });
}

#[test]
fn the_version_of_the_topics_does_not_go_back_with_a_start() {
    let disk = MemoryDisk::new();
    let bench = open(disk.clone());
    bench.broker.checkpoint(START).expect("a checkpoint");
    ["d", "c", "b", "a"].iter().for_each(|name| put_topic(&bench, name));
    let before = bench.broker.catalog.topics_version();
    bench.broker.checkpoint(START).expect("a checkpoint");
    let bench = open(disk.after_restart_of_the_machine());
    assert!(bench.broker.catalog.topics_version().counter >= before.counter);
}

#[test]
fn a_document_that_does_not_fit_takes_no_room_from_the_log() {
    let memory = MemoryDisk::new();
    let bench = open(memory.clone());
    let disk = Disk::new(memory.clone());
    let groups = (0..400).map(|number| (GroupName::trusted(&format!("g{number}")), GroupDocument::default())).collect();
    bench.broker.catalog.put_groups(groups, START).expect("made");
    bench.broker.store().write_staged().expect("writes");
    let used = || disk.usage(Path::new("/data")).expect("usage").0;
    let before = used();
    memory.set_capacity(before + (100 << 10));
    bench.broker.save(START).expect_err("there is no room");
    assert_eq!(used(), before);
    assert!(!disk.exists(Path::new("/data/config/subscriptionGroup.json.tmp")).expect("looks"));
}
