//! `sluice bench compare`: brokers are started, taken through scenarios in turn, and gone afterwards; reports say what was measured.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use conformance::compares_at_length;
use conformance::process::Process;
use conformance::sluice::{Setup, binary};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn bench(arguments: &[&str], work: &Path) -> Command {
    let mut command = Command::new(binary());
    command.arg("bench").args(arguments).arg("--work").arg(work).stdin(Stdio::null());
    command
}

/// Sluice beside itself: both are there on every machine, and equal.
const COMPARE: [&str; 9] = ["compare", "sync-send", "--with", "sluice", "--quick", "--warm-up", "4s", "--rounds", "1"];

/// A run that shows how it goes, not how fast.
const SHORT: [&str; 3] = ["--quick", "--warm-up", "1s"];

/// Held while brokers write as fast as they can: each comparison takes some GB of the disk.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the binary is built: cargo build --release --bin sluice")
}

fn report(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a report")).expect("JSON")
}

fn process_id(text: &str) -> Pid {
    text.trim().parse().ok().and_then(Pid::from_raw).expect("a process id")
}

/// Everything brokers wrote, and they themselves, are gone.
fn is_tidy(work: &Path) -> bool {
    std::fs::read_dir(work).expect("lists").next().is_none()
}

#[test]
fn a_comparison_measures_every_step_of_every_broker_and_leaves_nothing_behind() {
    let _alone = alone();
    let scratch = tempfile::tempdir().expect("directory");
    let (work, json) = (scratch.path().join("work"), scratch.path().join("report.json"));
    let (html, csv) = (scratch.path().join("page.html"), scratch.path().join("rounds.csv"));
    std::fs::create_dir(&work).expect("directory");
    let mut command = bench(&COMPARE, &work);
    command.arg("--json").arg(&json).arg("--html").arg(&html).arg("--csv").arg(&csv);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&json);
    assert_eq!(report["schema"], "sluice-bench-comparison/2");
    let steps = report["scenarios"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2);
    for peer in steps.iter().flat_map(|step| step["peers"].as_array().expect("peers")) {
        let round = &peer["rounds"][0];
        assert_eq!((&round["success_percent"], &round["problems"]), (&Value::from(100.0), &Value::Array(Vec::new())));
        assert!(round["messages_per_second"].as_f64().expect("a rate") > 0.0);
        assert!(round["broker_resident_max_mib"].as_f64().expect("memory") > 1.0);
        assert!(round["broker_own_max_mib"].as_f64().expect("memory") > 1.0);
        // Unknown before Linux 6.5, and then for all brokers.
        assert!(round["broker_page_cache_mib"].as_f64().is_none_or(|files| files > 0.1), "{round}");
        assert!(peer["warm_up"]["speeds"].as_array().is_some_and(|slices| slices.len() > 3), "{}", peer["warm_up"]);
    }
    let page = std::fs::read_to_string(&html).expect("a page");
    assert!(page.contains("sync-send") && page.contains("<svg") && !page.contains("src="), "it needs nothing else");
    assert_eq!(std::fs::read_to_string(&csv).expect("lines").lines().count(), 1 + 2 * 2);
    assert!(is_tidy(&work));
}

#[test]
fn each_broker_is_warmed_up_for_the_step_and_is_first_in_every_other_round() {
    let _alone = alone();
    let scratch = tempfile::tempdir().expect("directory");
    let work = scratch.path().join("work");
    std::fs::create_dir(&work).expect("directory");
    let broker = Setup::serve(&scratch.path().join("data")).start();
    let running = format!("rocketmq://{}", broker.name_server);
    let mut command = bench(&["compare", "consume-while-producing", "--with", &running, "--rounds", "2"], &work);
    let output = run(command.args(SHORT));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let steps = |line: &&str| line.contains("consume-while-producing");
    let who = |line: &str| if line.contains("running") { "running" } else { "sluice" };
    let (warm_ups, rounds): (Vec<&str>, Vec<&str>) =
        told.lines().filter(steps).partition(|line| line.starts_with("warming up"));
    assert_eq!(warm_ups.into_iter().map(who).collect::<Vec<_>>(), ["sluice", "running"], "{told}");
    assert_eq!(rounds.into_iter().map(who).collect::<Vec<_>>(), ["sluice", "running", "running", "sluice"], "{told}");
    // The step asks for slaves, and nobody starts one for a broker that runs already.
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("broker-a is not followed: no slave is registered"), "{table}");
}

#[test]
fn masters_are_compared_with_their_slaves_where_a_step_asks_for_them() {
    let _alone = alone();
    let scratch = tempfile::tempdir().expect("directory");
    let (work, json) = (scratch.path().join("work"), scratch.path().join("report.json"));
    std::fs::create_dir(&work).expect("directory");
    let mut command = bench(&["compare", "consume-while-producing", "--with", "sluice", "--rounds", "1"], &work);
    let output = run(command.args(SHORT).arg("--json").arg(&json));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&json);
    let step = &report["scenarios"][0]["steps"][0];
    assert_eq!(
        step["needs"],
        serde_json::json!({"protocol": "rocketmq", "flush": "async", "groups": 1, "replication": "async"})
    );
    for peer in step["peers"].as_array().expect("peers") {
        let round = &peer["rounds"][0];
        assert_eq!(round["problems"], Value::Array(Vec::new()));
        assert!(round["slaves_behind_seconds"].as_f64().is_some_and(|behind| behind < 10.0), "{round}");
    }
    let commands = report["broker_commands"].as_array().expect("commands");
    let with = |role| commands.iter().filter_map(Value::as_str).filter(|command| command.contains(role)).count();
    assert_eq!((with("broker.role=async_master"), with("broker.role=slave")), (2, 2));
    assert!(is_tidy(&work));
}

#[test]
fn brokers_that_speak_amqp_are_compared_before_and_behind_a_long_queue() {
    if !compares_at_length() {
        return;
    }
    let scratch = tempfile::tempdir().expect("directory");
    let (work, json) = (scratch.path().join("work"), scratch.path().join("report.json"));
    std::fs::create_dir(&work).expect("directory");
    let compare = ["compare", "queue-backlog", "--with", "sluice", "--rounds", "1", "--backlog", "50000"];
    let output = run(bench(&compare, &work).args(SHORT).arg("--json").arg(&json));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&json);
    let steps = report["scenarios"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 5);
    for step in steps {
        assert_eq!(step["needs"]["protocol"], "amqp");
        for round in step["peers"].as_array().expect("peers").iter().map(|peer| &peer["rounds"][0]) {
            assert_eq!(round["problems"], Value::Array(Vec::new()), "{step}");
        }
    }
    for at in 0..2 {
        let rate = |step: &Value| step["peers"][at]["rounds"][0]["messages_per_second"].as_f64().expect("a rate");
        // A broker that does not keep half of what it reached is told of among the problems.
        let share = rate(&steps[3]) / rate(&steps[0]);
        assert!((0.4..0.6).contains(&share), "{share}");
    }
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("% of its own rate in \"publish, empty queue\""), "{told}");
    assert!(told.contains("messages a second were consumed meanwhile"), "{told}");
    assert!(is_tidy(&work));
}

#[test]
fn ctrl_c_ends_the_step_under_way_and_reports_what_there_is() {
    let _alone = alone();
    let scratch = tempfile::tempdir().expect("directory");
    let (work, json) = (scratch.path().join("work"), scratch.path().join("report.json"));
    std::fs::create_dir(&work).expect("directory");
    let mut command =
        bench(&["compare", "thread-sweep", "--with", "sluice", "--rounds", "1", "--warm-up", "1s"], &work);
    let told = scratch.path().join("told");
    command.arg("--json").arg(&json).stderr(std::fs::File::create(&told).expect("a file"));
    let mut process = Process::start("sluice bench", &mut command);
    // Both brokers are warmed up first, for as long as they get faster.
    let deadline = Instant::now() + Duration::from_secs(300);
    while !std::fs::read_to_string(&told).is_ok_and(|text| text.contains("[1/12] thread-sweep, 1 thread")) {
        assert!(Instant::now() < deadline, "no round was begun");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Beyond the warm-up, which is not counted.
    std::thread::sleep(Duration::from_secs(6));
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::INT).expect("sends Ctrl-C");
    assert!(process.wait(Duration::from_secs(30)).success());
    let report = report(&json);
    let steps = report["scenarios"][0]["steps"].as_array().expect("steps");
    assert!((1..6).contains(&steps.len()), "{} steps", steps.len());
    assert!(steps[0]["peers"][0]["rounds"][0]["messages"].as_u64().expect("messages") > 0);
    assert!(is_tidy(&work));
}

#[test]
fn what_cannot_be_run_is_told_before_anything_is_started() {
    let scratch = tempfile::tempdir().expect("directory");
    let said = |arguments: &[&str]| {
        let output = run(&mut bench(arguments, scratch.path()));
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["compare", "sinc-send"]).contains("the nearest are sync-send"));
    assert!(said(&["compare", "sync-send", "--with", "rabbit"]).contains("not one of sluice, rocketmq"));
    assert!(said(&["compare", "sync-send", "--with", "rocketmq:1.0"]).contains("there is no rocketmq 1.0 here"));
    assert!(said(&["compare", "sync-send", "--with", "kafka"]).contains("no load can be made for kafka: "));
    assert!(said(&["compare", "sync-send", "--with", "rabbitmq"]).contains("no load can be made for rabbitmq: "));
    assert!(said(&["compare", "amqp-flows"]).contains("no load can be made for rocketmq: "));
    assert!(
        said(&["compare", "sync-send", "--html", "/nowhere/page.html"])
            .contains("/nowhere/page.html cannot be written")
    );
    assert!(said(&["compare", "sync-send", "--rounds", "0"]).contains("measures nothing"));
    assert!(said(&["compare", "sync-send", "--duration", "10"]).contains("as in 90s, 15m or 10h"));
    assert!(said(&["compare", "sync-send", "--cpus", "0-1023"]).contains("leaves no processor"));
    assert!(said(&["run", "sync-send", "--target", "rocketmq"]).contains("there is no KIND:// in front"));
    assert!(said(&["run", "sync-send", "--target", "rocketmq://127.0.0.1:1"]).contains("is it running there"));
    assert!(is_tidy(scratch.path()));
}

#[test]
fn a_broker_that_runs_already_is_taken_through_a_scenario_and_left_running() {
    let scratch = tempfile::tempdir().expect("directory");
    let (work, json) = (scratch.path().join("work"), scratch.path().join("report.json"));
    std::fs::create_dir(&work).expect("directory");
    let broker = Setup::serve(&scratch.path().join("data")).start();
    let target = format!("rocketmq://{}", broker.name_server);
    let mut command = bench(&["run", "connection-storm", "--target", &target, "--rounds", "1"], &work);
    let output = run(command.args(SHORT).arg("--json").arg(&json));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&json);
    let opened = |step: &Value| step["peers"][0]["rounds"][0]["messages"].as_u64().expect("connections");
    let steps = report["scenarios"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps.iter().map(opened).collect::<Vec<_>>(), [100, 1_000, 5_000]);
    let rate = |step: &Value| step["peers"][0]["rounds"][0]["messages_per_second"].as_f64().expect("a rate");
    assert!(steps.iter().all(|step| rate(step) > 0.0));
    assert!(TcpStream::connect(&broker.broker).is_ok());
}

#[test]
fn a_peer_is_up_until_it_is_stopped_and_its_end_is_told() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut command = bench(&["peers", "up", "sluice"], scratch.path());
    let mut process = Process::start("sluice bench peers", command.stderr(Stdio::null()));
    let line = process.wait_for_line(Duration::from_secs(30), |line| line.contains(" ready: "));
    let pid = line.split('[').nth(1).and_then(|rest| rest.split(']').next()).expect("the process");
    kill_process(process_id(pid), Signal::KILL).expect("kills the broker");
    assert!(!process.wait(Duration::from_secs(30)).success());
    assert!(is_tidy(scratch.path()));
}

fn a_master_waits_for_its_slave(peer: &str) {
    let scratch = tempfile::tempdir().expect("directory");
    let work = scratch.path().join("work");
    let mut command = bench(&["peers", "up", peer, "--replication", "sync"], &work);
    let mut process = Process::start("sluice bench peers", command.stderr(Stdio::null()));
    let line = process.wait_for_line(Duration::from_secs(180), |line| line.contains(" ready: "));
    let target = line.split_whitespace().find(|word| word.starts_with("rocketmq://")).expect("an address");
    let slave = line.split(['[', ']']).nth(1).and_then(|pids| pids.split(", ").nth(1)).expect("a slave");
    let sent = |count: &str| {
        let json = scratch.path().join("sent.json");
        let mut send = Command::new(binary());
        send.args(["bench", "send", "--target", target, "--queues", "4", "--count", count]);
        // One at a time: an original that has just started refuses some of many.
        send.args(["--connections", "1", "--window", "1", "--json"]).arg(&json);
        assert!(run(&mut send).status.success());
        report(&json)
    };
    assert_eq!(sent("1000")["totals"]["ok"], 1000);
    kill_process(process_id(slave), Signal::STOP).expect("stops the slave");
    assert_eq!(sent("1")["refusals"][0]["name"], "FLUSH_SLAVE_TIMEOUT");
    kill_process(process_id(slave), Signal::CONT).expect("lets it go on");
    let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::TERM).expect("ends it");
    assert!(process.wait(Duration::from_secs(60)).success());
    assert!(is_tidy(&work));
}

#[test]
fn a_master_that_is_up_with_a_slave_answers_once_that_has_the_message() {
    a_master_waits_for_its_slave("sluice");
}

#[test]
fn an_original_that_is_up_with_a_slave_answers_once_that_has_the_message() {
    a_master_waits_for_its_slave("rocketmq");
}
