//! Official Java and Go programs, unchanged, against `sluice serve`. Each program checks its own promise; see conformance/README.md.

use std::path::Path;
use std::time::Duration;

use conformance::java::{CLIENT_VERSIONS, result_of, run_program, start_program};
use conformance::message_count;
use conformance::sluice::{Setup, Sluice};

const PULLED_WITHIN: Duration = Duration::from_secs(120);

fn serve(scratch: &Path) -> Sluice {
    Setup::serve(&scratch.join("data")).start()
}

/// Moves messages from an official producer to an official consumer and has every one of them verified.
fn moves_every_message(version: &str, mode: &str, orderly: bool) {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = serve(scratch.path());
    let count = message_count(100_000);
    let expected = count.to_string();
    let seconds = "900";
    let produced = run_program(
        version,
        "Produce",
        &sluice.name_server,
        scratch.path(),
        &[
            ("topic", "moved"),
            ("count", &expected),
            ("size", "1024"),
            ("threads", "8"),
            ("mode", mode),
            ("limit-seconds", seconds),
        ],
    );
    assert_eq!((produced["ok"].as_u64(), produced["failed"].as_u64()), (Some(count), Some(0)));
    let mut flags = vec![
        ("topic", "moved"),
        ("group", "movers"),
        ("expect", &*expected),
        ("from", "first"),
        ("idle-seconds", "3"),
        ("limit-seconds", seconds),
    ];
    if orderly {
        flags.push(("orderly", ""));
    }
    let consumed = run_program(version, "Consume", &sluice.name_server, scratch.path(), &flags);
    assert_eq!(consumed["distinct"].as_u64(), Some(count));
    for wrong in ["duplicates", "corrupt", "foreign", "out_of_order"] {
        assert_eq!(consumed[wrong].as_u64(), Some(0), "{wrong}: {consumed}");
    }
}

#[test]
fn a_java_4_9_7_pair_moves_every_message_in_order() {
    moves_every_message("4.9.7", "ordered", true);
}

#[test]
fn a_java_5_4_0_pair_moves_every_message_in_order() {
    moves_every_message("5.4.0", "ordered", true);
}

#[test]
fn a_go_pair_moves_every_message_in_order() {
    moves_every_message("go", "ordered", true);
}

#[test]
fn async_sends_are_all_there() {
    moves_every_message("5.4.0", "async", false);
}

#[test]
fn batches_are_all_there() {
    moves_every_message("5.4.0", "batch", false);
}

#[test]
fn programs_keep_their_promises_on_every_client_version() {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = serve(scratch.path());
    for version in CLIENT_VERSIONS {
        // They wait more than they work: side by side they take as long as the slowest.
        let mains = ["RetryAndDeadLetter", "Delay", "Lookup", "Offsets", "Rebalance", "Broadcast"];
        let programs = mains.map(|main| {
            // An orderly consumer of 4.9 keeps the queues it gives up for another 20 s; that is its own choice.
            let flags: &[(&str, &str)] = if main == "Rebalance" { &[("concurrent", "")] } else { &[] };
            (main, start_program(version, main, &sluice.name_server, scratch.path(), flags))
        });
        for (main, program) in programs {
            let result = result_of(program, scratch.path(), Duration::from_secs(300));
            println!("{version} {main}: {result}");
        }
    }
}

#[test]
fn pull_consumers_keep_their_promises_on_every_client_version() {
    let scratch = tempfile::tempdir().expect("directory");
    let sluice = serve(scratch.path());
    for version in CLIENT_VERSIONS {
        let topic = &*format!("pulled-{}", version.replace('.', "-"));
        let flags = [("topic", topic), ("count", "1000"), ("mode", "ordered")];
        run_program(version, "Produce", &sluice.name_server, scratch.path(), &flags);
        let start = |mode| {
            let group = &*format!("{topic}-{mode}");
            let flags = [("topic", topic), ("group", group), ("mode", mode), ("expect", "1000")];
            start_program(version, "PullConsume", &sluice.name_server, scratch.path(), &flags)
        };
        for program in ["subscribe", "assign"].map(start) {
            result_of(program, scratch.path(), PULLED_WITHIN);
        }
        // It sends a message of its own, and so comes last.
        result_of(start("block"), scratch.path(), PULLED_WITHIN);
    }
}
