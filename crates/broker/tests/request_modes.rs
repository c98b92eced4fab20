//! How groups ask for messages is as an administrator was told it is: after a restart, a kill, at a slave, and after a foreign broker.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::fs;
use std::path::Path;

use base::Now;
use base::limits::REQUEST_MODES_MAX;
use broker::RequestModes;
use format::request_mode::{RequestMode, RequestModeDocument};
use format::state::StateChange;
use serde_json::{Value, json};
use storage::disk::{Disk, MemoryDisk};
use support::pair::{follow, of_java, open as open_one, tables, take_tables};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);

fn open(directory: &Path) -> Bench {
    open_on(layout(directory, vec![1000]), START, |_| ())
}

fn settings(topic: &str, group: &str, mode: RequestMode, shared: i32) -> RequestModeDocument {
    RequestModeDocument { consumer_group: group.to_owned(), mode, pop_share_queue_num: shared, topic: topic.to_owned() }
}

fn set(bench: &Bench, group: &str, mode: RequestMode, shared: i32) {
    bench.broker.request_modes.set(settings("orders", group, mode, shared), bench.now).expect("set");
}

/// Mode and number of a group.
fn mode_of(modes: &RequestModes, group: &str) -> Option<(RequestMode, i32)> {
    modes.of("orders", group).map(|settings| (settings.mode, settings.pop_share_queue_num))
}

fn document(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("config/messageRequestMode.json")).expect("reads");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn what_was_said_stands_after_a_stop_and_after_a_kill_and_the_last_word_counts() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    set(&bench, "billing", RequestMode::Pull, 0);
    set(&bench, "billing", RequestMode::Pop, 3);
    bench.broker.close(START).expect("closes");
    drop(bench);
    let bench = open(directory.path());
    assert_eq!(mode_of(&bench.broker.request_modes, "billing"), Some((RequestMode::Pop, 3)));
    set(&bench, "billing", RequestMode::Pull, 0);
    set(&bench, "audit", RequestMode::Pop, -1);
    bench.broker.keep(START).expect("kept");
    // Killed: neither snapshot nor document has heard of it.
    drop(bench);
    assert_eq!(document(directory.path())["messageRequestModeMap"]["orders"].get("audit"), None);
    let bench = open(directory.path());
    assert_eq!(mode_of(&bench.broker.request_modes, "billing"), Some((RequestMode::Pull, 0)));
    assert_eq!(mode_of(&bench.broker.request_modes, "audit"), Some((RequestMode::Pop, -1)));
    assert_eq!(mode_of(&bench.broker.request_modes, "shipping"), None);
}

#[test]
fn what_was_said_stays_when_the_topic_goes() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    set(&bench, "billing", RequestMode::Pop, 3);
    bench.broker.removals.topic("orders", START).expect("removes");
    bench.broker.checkpoint(START).expect("a checkpoint");
    drop(bench);
    let bench = open(directory.path());
    assert!(bench.broker.catalog.topic("orders").is_none());
    assert_eq!(mode_of(&bench.broker.request_modes, "billing"), Some((RequestMode::Pop, 3)));
}

/// A change is asked for, and no more than once.
#[test]
fn the_document_is_as_a_java_broker_reads_it_and_is_written_when_something_has_changed() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    assert!(!bench.broker.is_unexported(), "a start has written all documents");
    set(&bench, "billing", RequestMode::Pop, 3);
    assert!(bench.broker.is_unexported());
    bench.broker.save(START).expect("saves");
    assert!(!bench.broker.is_unexported());
    let entry = json!({"consumerGroup": "billing", "mode": "POP", "popShareQueueNum": 3, "topic": "orders"});
    assert_eq!(document(directory.path())["messageRequestModeMap"], json!({"orders": {"billing": entry}}));
    set(&bench, "billing", RequestMode::Pop, 3);
    assert!(!bench.broker.is_unexported(), "nothing has changed");
}

#[test]
fn what_a_java_broker_wrote_is_taken_over_and_what_it_left_out_is_gone() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    set(&bench, "billing", RequestMode::Pop, 3);
    set(&bench, "gone", RequestMode::Pop, 3);
    bench.broker.close(START).expect("closes");
    drop(bench);
    let of_java = r#"{"messageRequestModeMap":{"orders":{"billing":{"consumerGroup":"billing","mode":"PULL","popShareQueueNum":0,"topic":"orders"},"audit":{"consumerGroup":"audit","mode":"POP","popShareQueueNum":2,"topic":"orders"}}}}"#;
    fs::write(directory.path().join("config/messageRequestMode.json"), of_java).expect("writes");
    for _ in 0..2 {
        let bench = open(directory.path());
        let modes = &bench.broker.request_modes;
        assert_eq!(mode_of(modes, "billing"), Some((RequestMode::Pull, 0)));
        assert_eq!(mode_of(modes, "audit"), Some((RequestMode::Pop, 2)));
        assert_eq!(mode_of(modes, "gone"), None);
        assert!(document(directory.path()).get("sluiceLogPosition").is_some(), "it is ours again");
    }
}

#[test]
fn a_slave_has_what_its_masters_log_tells_and_what_its_tables_told_before() {
    let (master, slave) = (open_one(&MemoryDisk::new(), false, 1000), open_one(&MemoryDisk::new(), true, 1000));
    set(&master, "before", RequestMode::Pop, 1);
    take_tables(&slave, &master);
    assert_eq!(mode_of(&slave.broker.request_modes, "before"), Some((RequestMode::Pop, 1)));
    set(&master, "billing", RequestMode::Pop, 2);
    follow(&slave, &master);
    assert_eq!(mode_of(&slave.broker.request_modes, "billing"), Some((RequestMode::Pop, 2)));
    assert_eq!(slave.broker.request_modes.table(), master.broker.request_modes.table());
}

#[test]
fn a_slave_of_a_java_master_has_what_its_table_says_also_after_a_kill() {
    let disk = MemoryDisk::new();
    let (master, slave) = (open_one(&MemoryDisk::new(), false, 1000), open_one(&disk, true, 1000));
    set(&master, "billing", RequestMode::Pop, 2);
    slave.broker.take_tables(of_java(tables(&master)), slave.now).expect("takes");
    let mut without = tables(&master);
    without.request_modes = None;
    slave.broker.take_tables(of_java(without), slave.now).expect("takes");
    drop(slave);
    let slave = open_one(&disk, true, 1000);
    assert_eq!(mode_of(&slave.broker.request_modes, "billing"), Some((RequestMode::Pop, 2)), "4.9.7 tells of none");
    slave.broker.take_tables(of_java(tables(&open_one(&MemoryDisk::new(), false, 1000))), slave.now).expect("takes");
    assert_eq!(mode_of(&slave.broker.request_modes, "billing"), None);
}

#[test]
fn no_more_are_kept_than_there_is_room_for_and_those_that_are_there_can_be_changed() {
    let disk = MemoryDisk::new();
    let layout = storage::Options { disk: Disk::new(disk), ..layout(Path::new("/data"), vec![1000]) }.following();
    let bench = open_on(layout, START, |_| ());
    let all = (0..REQUEST_MODES_MAX).map(|number| settings("orders", &format!("group-{number}"), RequestMode::Pop, 1));
    let mut tables = tables(&bench);
    let mut modes = format::state_tables::StateTables::default();
    all.for_each(|settings| modes.apply(StateChange::RequestMode { settings: Box::new(settings) }));
    tables.request_modes = Some(modes.request_modes);
    bench.broker.take_tables(of_java(tables), START).expect("takes");
    let refused = bench.broker.request_modes.set(settings("orders", "one-more", RequestMode::Pop, 1), START);
    assert!(matches!(refused, Err(base::Refusal::Busy(_))), "{refused:?}");
    set(&bench, "group-7", RequestMode::Pull, 0);
    assert_eq!(mode_of(&bench.broker.request_modes, "group-7"), Some((RequestMode::Pull, 0)));
}
