//! RocketMQ's documents of a broker that is stopped: as it would have written them itself, and nothing else is touched.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base::{GroupName, LogOffset, Now, QueueId, TopicName};
use broker::{Exported, export_documents};
use format::document::{GroupDocument, TopicDocument};
use format::request_mode::{RequestMode, RequestModeDocument};
use format::state_documents::{
    DELAY_FILE, FILES, GROUPS_FILE, OFFSETS_FILE, POSITION, REQUEST_MODES_FILE, TOPICS_FILE,
};
use serde_json::Value;
use storage::StorageError;
use support::{Bench, layout, message, open_on};
use tempfile::TempDir;
use testkit::{at, copy_directory};

const START: Now = at(1_700_000_000_000);
const SEGMENT_SIZE: u64 = 64 << 10;

fn options(directory: &Path) -> storage::Options {
    storage::Options { segment_size: SEGMENT_SIZE, ..layout(directory, vec![1000, 5000]) }
}

fn open(directory: &Path) -> Bench {
    open_on(options(directory), START, |_| ())
}

fn export(directory: &Path) -> Exported {
    export_documents(&options(directory), START, &mut |_| ()).expect("exports").expect("there is state")
}

fn document(directory: &Path, name: &str) -> Value {
    let text = fs::read_to_string(directory.join("config").join(name)).expect("reads");
    serde_json::from_str(&text).expect("JSON")
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).expect("reads"));
        }
    }
    found
}

/// A broker was killed when documents and snapshot had not heard of its last changes.
fn killed() -> TempDir {
    let directory = tempfile::tempdir().expect("directory");
    let mut bench = open(directory.path());
    let topic =
        |queues| TopicDocument { read_queue_nums: queues, write_queue_nums: queues, ..TopicDocument::default() };
    let put_topic = |bench: &Bench, name: &str, queues| {
        bench.broker.catalog.put_topic(TopicName::trusted(name), topic(queues), START).expect("made");
    };
    put_topic(&bench, "orders", 1);
    put_topic(&bench, "gone", 1);
    bench.broker.save(START).expect("saves");
    bench.broker.checkpoint(START).expect("a checkpoint");
    put_topic(&bench, "orders", 3);
    put_topic(&bench, "late", 2);
    let settings = GroupDocument { retry_max_times: 5, ..GroupDocument::default() };
    bench.broker.catalog.put_groups(vec![(GroupName::trusted("billing"), settings)], START).expect("made");
    for _ in 0..9 {
        bench.publish("orders", &message(b"x", b"DELAY\x012\x02")).expect("stored");
        bench.publish("orders", &message(b"y", b"")).expect("stored");
    }
    bench.advance(5000);
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 7).expect("commits");
    bench.broker.offsets.keep_changes(START).expect("kept");
    let mode = RequestModeDocument {
        topic: "orders".to_owned(),
        consumer_group: "billing".to_owned(),
        mode: RequestMode::Pop,
        pop_share_queue_num: 4,
    };
    bench.broker.request_modes.set(mode, START).expect("set");
    bench.broker.store().write_staged().expect("writes");
    drop(bench);
    directory
}

#[test]
fn every_change_is_in_the_documents_after_a_kill_as_a_start_and_an_orderly_stop_would_write_it() {
    let directory = killed();
    let other = tempfile::tempdir().expect("directory");
    copy_directory(directory.path(), other.path());
    open(other.path()).broker.close(START).expect("closes");
    let before = files(directory.path());
    assert!(document(directory.path(), TOPICS_FILE)["topicConfigTable"].get("late").is_none());

    let exported = export(directory.path());
    let counts: Vec<_> = exported.written.iter().map(|one| (one.path.file_name().expect("a name"), one.unit)).collect();
    let units = ["topics", "groups", "pairs of topic and group", "delay levels", "modes of topic and group"];
    assert_eq!(counts, FILES.map(std::ffi::OsStr::new).into_iter().zip(units).collect::<Vec<_>>());
    assert_eq!((exported.left, exported.log_end > LogOffset(0)), (vec![], true));
    let topics = document(directory.path(), TOPICS_FILE);
    assert_eq!(topics["topicConfigTable"]["orders"]["readQueueNums"], 3);
    assert_eq!(topics["topicConfigTable"]["late"]["writeQueueNums"], 2);
    assert_eq!(exported.written[0].count, topics["topicConfigTable"].as_object().expect("a table").len());
    let groups = document(directory.path(), GROUPS_FILE);
    assert_eq!(groups["subscriptionGroupTable"]["billing"]["retryMaxTimes"], 5);
    assert_eq!(document(directory.path(), OFFSETS_FILE)["offsetTable"]["orders@billing"]["0"], 7);
    assert_eq!(document(directory.path(), DELAY_FILE)["offsetTable"]["2"], 9);
    let modes = document(directory.path(), REQUEST_MODES_FILE);
    assert_eq!(modes["messageRequestModeMap"]["orders"]["billing"]["popShareQueueNum"], 4);
    assert_eq!(exported.written[4].count, 1);

    for name in FILES {
        let (mut ours, mut stopped) = (document(directory.path(), name), document(other.path(), name));
        assert_eq!(ours[POSITION], exported.log_end.0);
        for one in [&mut ours, &mut stopped] {
            one[POSITION].take();
            // Counts how often it was written.
            one["dataVersion"].take();
        }
        assert_eq!(ours, stopped, "{name}");
    }
    let after = files(directory.path());
    let changed = after.iter().filter(|(path, bytes)| before.get(*path) != Some(bytes)).map(|(path, _)| path);
    let changed: Vec<_> = changed.filter(|path| path.parent() != Some(&directory.path().join("config"))).collect();
    assert_eq!((changed, before.keys().filter(|path| !after.contains_key(*path)).count()), (Vec::<&PathBuf>::new(), 0));
}

#[test]
fn a_start_after_an_export_finds_what_it_would_have_found_before() {
    let directory = killed();
    for _ in 0..2 {
        export(directory.path());
    }
    let bench = open(directory.path());
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(7));
    assert_eq!(bench.broker.catalog.topic("orders").expect("a topic").queues.len(), 3);
    assert_eq!(bench.broker.delay.document()["offsetTable"]["2"], 9);
}

#[test]
fn without_a_snapshot_the_log_alone_is_exported() {
    let directory = killed();
    fs::remove_file(directory.path().join("state")).expect("removes");
    fs::remove_dir_all(directory.path().join("config")).expect("removes");
    export(directory.path());
    assert_eq!(document(directory.path(), OFFSETS_FILE)["offsetTable"]["orders@billing"]["0"], 7);
    assert_eq!(document(directory.path(), TOPICS_FILE)["topicConfigTable"]["orders"]["readQueueNums"], 3);
}

/// What a killed process had begun to write at the end is no change, and stays for the next start to clear.
#[test]
fn a_record_that_was_being_written_is_not_exported() {
    let directory = killed();
    let end = export(directory.path()).log_end;
    let path = directory.path().join("commitlog/00000000000000000000");
    let mut log = fs::read(&path).expect("reads");
    let half = log[..60].to_vec();
    log[end.0 as usize..][..60].copy_from_slice(&half);
    fs::write(&path, &log).expect("writes");
    assert_eq!(export(directory.path()).log_end, end);
    assert_eq!(fs::read(&path).expect("reads"), log);
}

#[test]
fn what_java_has_written_since_is_left_to_it_and_a_directory_of_javas_alone_is_none_of_ours() {
    let directory = killed();
    let path = directory.path().join("config").join(OFFSETS_FILE);
    let text = r#"{"dataVersion":{"counter":9},"offsetTable":{"orders@billing":{0:8}}}"#;
    fs::write(&path, text).expect("writes");
    let exported = export(directory.path());
    assert_eq!((exported.left, exported.written.len()), (vec![path.clone()], 4));
    assert_eq!(fs::read_to_string(&path).expect("reads"), text);
    let bench = open(directory.path());
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(8), "it wins at the next start");
    drop(bench);

    let java = tempfile::tempdir().expect("directory");
    copy_directory(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq/store-5.4.0-killed")),
        java.path(),
    );
    let before = files(java.path());
    let of_java = storage::Options { segment_size: 1 << 30, ..options(java.path()) };
    assert_eq!(export_documents(&of_java, START, &mut |_| ()).expect("looks"), None);
    let mut after = files(java.path());
    after.retain(|path, _| !path.ends_with("lock"));
    assert_eq!(after.len(), before.iter().filter(|(path, _)| !path.ends_with("lock")).count());
    assert!(after.iter().all(|(path, bytes)| before.get(path) == Some(bytes)), "nothing is changed");
}

#[test]
fn state_of_a_newer_version_and_a_directory_in_use_are_refused_and_nothing_is_written() {
    let directory = killed();
    let before = document(directory.path(), TOPICS_FILE);
    let bench = open(directory.path());
    let refused = export_documents(&options(directory.path()), START, &mut |_| ());
    assert!(matches!(refused, Err(StorageError::Locked(_))), "{refused:?}");
    let store = bench.broker.store();
    let mut batch = store.begin_batch(0);
    let body = [format::state::STATE_VERSION + 1, 0];
    batch.push_unlisted(&format::state::draft(&body, &[], "127.0.0.1:1".parse().expect("address"), START.wall));
    store.append(batch, START.wall).expect("appends");
    store.write_staged().expect("writes");
    drop(bench);
    let at_start = document(directory.path(), TOPICS_FILE);
    assert_ne!(before, at_start);
    let refused = export_documents(&options(directory.path()), START, &mut |_| ()).expect_err("newer").to_string();
    assert!(refused.contains("version 2"), "{refused}");
    assert_eq!(document(directory.path(), TOPICS_FILE), at_start);
}

/// Offsets may be beyond their queues' ends then, and a start draws them back.
#[test]
fn of_a_log_that_lost_its_end_nothing_is_exported_before_a_start() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    for number in 0..100 {
        bench.publish("orders", &message(&[7; 1000], b"")).expect("stored");
        if number == 0 {
            // Where the log will still tell of it.
            bench.broker.offsets.commit("orders", "billing", QueueId(0), 100).expect("commits");
            bench.broker.keep(START).expect("kept");
        }
    }
    bench.broker.close(START).expect("closes");
    drop(bench);
    let log = directory.path().join("commitlog");
    let mut segments: Vec<_> = fs::read_dir(&log).expect("lists").map(|entry| entry.expect("one").path()).collect();
    segments.sort();
    segments[1..].iter().for_each(|path| fs::remove_file(path).expect("removes"));
    let refused = export_documents(&options(directory.path()), START, &mut |_| ()).expect_err("it is refused");
    assert!(refused.to_string().contains("start Sluice"), "{refused}");
    let bench = open(directory.path());
    let end = bench.broker.catalog.queues_of("orders").expect("a topic")[0].end().0 as i64;
    bench.broker.close(START).expect("closes");
    drop(bench);
    export(directory.path());
    assert_eq!(document(directory.path(), OFFSETS_FILE)["offsetTable"]["orders@billing"]["0"], end);
}
