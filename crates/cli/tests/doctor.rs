//! The built command on this machine: what it prints, how it ends, and that it leaves nothing behind.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the doctor with ports that are free for the asking.
fn doctor(data: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("doctor").arg("--data").arg(data);
    // A small segment and no bound on the disk: a full disk is another test's matter.
    for setting in ["nameserver.port=0", "rocketmq.port=0", "console.port=0", "storage.segment_size=64KiB"] {
        command.args(["--set", setting]);
    }
    command.args(["--set", "retention.disk_refuse_percent=100"]).args(arguments).output().expect("it runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The mark of a finding.
fn mark<'a>(report: &'a Value, subject: &str) -> &'a str {
    let findings = report["findings"].as_array().expect("findings");
    let finding = findings.iter().find(|finding| finding["subject"] == subject);
    finding.and_then(|finding| finding["mark"].as_str()).unwrap_or_else(|| panic!("{subject} in {findings:?}"))
}

#[test]
fn people_get_a_table_and_nothing_stays_behind() {
    let scratch = tempfile::tempdir().expect("directory");
    let data = scratch.path().join("data");
    let output = doctor(&data, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for subject in ["vm.swappiness", "vm.max_map_count", "open files", "file system", "sync latency", "keep a broker"] {
        assert!(text.contains(subject), "{subject} in\n{text}");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).expect("lists").count(), 0, "the data directory is not made");
}

#[test]
fn programs_get_json_with_the_figures() {
    let scratch = tempfile::tempdir().expect("directory");
    let report = json(&doctor(scratch.path(), &["--json"]));
    assert_eq!((&report["kind"], &report["works"]), (&"doctor".into(), &true.into()));
    assert_eq!(mark(&report, "data directory"), "ok");
    let disk = &report["facts"]["disks"][0];
    assert!(disk["trials"]["sync"]["p50_us"].as_u64() <= disk["trials"]["sync"]["p99_us"].as_u64(), "{disk}");
    assert!(disk["mount"]["kind"].is_string() && disk["space"]["free"].is_u64(), "{disk}");
    assert_eq!(std::fs::read_dir(scratch.path()).expect("lists").count(), 0);
}

#[test]
fn what_keeps_a_broker_from_working_is_the_exit_code() {
    let scratch = tempfile::tempdir().expect("directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("address").port();
    let output = doctor(scratch.path(), &["--json", "--set", &format!("console.port={port}")]);
    let (report, told) = (json(&output), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &report["works"]), (Some(1), &false.into()));
    assert_eq!(mark(&report, &format!("port {port}")), "fail");
    assert!(told.contains(&format!("a broker cannot work here: port {port}")), "{told}");

    let file = scratch.path().join("file");
    std::fs::write(&file, "no directory").expect("writes");
    let output = doctor(&file.join("data"), &["--json"]);
    assert_eq!((output.status.code(), mark(&json(&output), "data directory")), (Some(1), "fail"));

    let output = doctor(scratch.path(), &["--set", "storage.segmentsize=1GiB"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("storage.segment_size"), "{told}");
}
