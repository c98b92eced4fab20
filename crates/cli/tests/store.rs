//! `sluice store` as a process: exit codes, and that what it prints can be read.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use base::QueueId;
use serde_json::Value;
use testkit::copy_directory;

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).arg("store").args(arguments).output().expect("runs")
}

#[test]
fn exit_codes_tell_how_bad_it_is() {
    let fixture = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq/store-5.4.0"));
    let scratch = tempfile::tempdir().expect("directory");
    copy_directory(fixture, scratch.path());
    let directory = scratch.path().to_str().expect("a path");
    let checked = sluice(&["check", directory]);
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(0), "{text}");
    assert!(text.contains("1 552") && text.contains("GB/s"), "{text}");
    std::fs::write(scratch.path().join("config/topics.json"), "{").expect("writes");
    let checked = sluice(&["check", directory]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&checked.stdout).contains("warning: document-falls-back (1)"));
    std::fs::write(scratch.path().join("config/topics.json.bak"), "{").expect("writes");
    let checked = sluice(&["check", directory, "--json", "-"]);
    assert_eq!(checked.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!(report.pointer("/findings/0/kind"), Some(&Value::from("document-broken")));
    assert_eq!(report.pointer("/by_severity/damage"), Some(&Value::from(1)));
    assert_eq!(report.pointer("/counts/records"), Some(&Value::from(1552)));
    assert_eq!(sluice(&["check", "/nowhere"]).status.code(), Some(3));
}

#[test]
fn records_are_printed_one_a_line() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq/store-5.4.0");
    let lines = |arguments: &[&str]| {
        let dumped = sluice(&[&["dump", fixture], arguments].concat());
        assert_eq!(dumped.status.code(), Some(0));
        String::from_utf8(dumped.stdout).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = lines(&[]);
    assert_eq!(all.len(), 1552);
    assert!(all.iter().all(|line| line.ends_with("crc ok")));
    let found = lines(&["--key", "key-0-1042", "--topic", "OldA", "--json", "--body"]);
    let record: Value = serde_json::from_str(&found[0]).expect("JSON");
    assert_eq!((found.len(), &record["queue_offset"], &record["tags"]), (1, &Value::from(1042), &Value::from("TagA")));
    assert!(record["body"].as_str().expect("text").starts_with("OldA queue 0 offset 1042 "));
    assert_eq!(lines(&["--topic", "OldB", "--queue", "1", "--count", "7", "--from", "400000"]).len(), 7);
}

/// A broker was killed after a commit that its documents lack.
#[test]
fn documents_are_exported_once_nobody_is_at_work_on_the_directory() {
    let scratch = tempfile::tempdir().expect("directory");
    let directory = scratch.path().to_str().expect("a path");
    let now = testkit::at(1_700_000_000_000);
    let store = testkit::store_options(scratch.path());
    let host = Arc::new(testkit::ManualHost::default());
    let broker = testkit::open_broker(testkit::broker_options(), store, host, now).expect("opens");
    broker.offsets.commit("SELF_TEST_TOPIC", "billing", QueueId(0), 0).expect("commits");
    broker.offsets.keep_changes(now).expect("kept");
    broker.store().write_staged().expect("writes");
    let offsets = || std::fs::read_to_string(scratch.path().join("config/consumerOffset.json")).expect("reads");
    let settings = ["--set", "delay.levels=1s 5s"];
    let refused = sluice(&[&["export", directory][..], &settings].concat());
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(
        told.contains(&format!("in use by process {}", std::process::id())) && told.contains("stop it first"),
        "{told}"
    );
    drop(broker);
    assert!(!offsets().contains("billing"));
    let checked = sluice(&[&["check", directory][..], &settings].concat());
    assert!(String::from_utf8_lossy(&checked.stdout).contains("note: export-behind (1)"));

    let exported = sluice(&[&["export", directory][..], &settings].concat());
    let told = String::from_utf8_lossy(&exported.stdout).into_owned();
    assert_eq!(exported.status.code(), Some(0), "{told}");
    for words in ["config/topics.json: ", " topics\n", "config/consumerOffset.json: 1 pairs", "up to log offset"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(offsets().contains("SELF_TEST_TOPIC@billing"));
    let checked = sluice(&[&["check", directory][..], &settings].concat());
    assert!(!String::from_utf8_lossy(&checked.stdout).contains("export-behind"));
    let dumped = sluice(&["dump", directory, "--topic", "rmq_sys_sluice_state"]);
    let told = String::from_utf8_lossy(&dumped.stdout).into_owned();
    assert!(told.contains("state: offsets of SELF_TEST_TOPIC@billing: queue 0 at 0"), "{told}");

    let java = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq/store-5.4.0");
    let copied = tempfile::tempdir().expect("directory");
    copy_directory(Path::new(java), copied.path());
    let refused = sluice(&["export", copied.path().to_str().expect("a path")]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("holds no state of Sluice's"));
    let help = String::from_utf8_lossy(&sluice(&["export", "--help"]).stdout).into_owned();
    assert!(help.contains("Example") && help.contains("sluice store export /var/lib/sluice"), "{help}");
}

#[test]
fn what_is_no_data_directory_is_called_what_it_is() {
    let scratch = tempfile::tempdir().expect("directory");
    let (file, nothing, empty) =
        (scratch.path().join("file"), scratch.path().join("nothing"), scratch.path().join("empty"));
    std::fs::write(&file, "text").expect("writes");
    std::fs::create_dir(&empty).expect("makes");
    for action in ["check", "dump", "export"] {
        for (path, words) in [
            (&file, "file is a file, not a directory"),
            (&nothing, "nothing does not exist"),
            (&empty, "empty/commitlog does not exist"),
        ] {
            let output =
                Command::new(env!("CARGO_BIN_EXE_sluice")).args(["store", action]).arg(path).output().expect("it runs");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains(words) && told.contains("name a broker's data directory"), "{action}: {told}");
            assert_eq!(output.status.code(), Some(3));
        }
    }
}
