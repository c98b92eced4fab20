//! One data directory with messages of AMQP and of RocketMQ: a Java broker of 5.4.0 opens it, has every message of RocketMQ at its place and
//! none of the others, goes on, and gives it back.

use std::path::Path;
use std::time::Duration;

use conformance::directory::{topics_with_queues, wait_for_topics};
use conformance::java::{JavaBroker, run_program};
use conformance::ledger::Ledger;
use conformance::program::{python, run};
use conformance::sluice::Setup;

/// Small files, so that messages of both kinds share several.
const LAYOUT: [&str; 1] = ["mappedFileSizeCommitLog=1048576"];
const SEGMENT_SIZE: u32 = 1 << 20;
/// Topic of the Java client, which the ledger does not know.
const OF_JAVA: &str = "of-java";
/// Messages of the Java client.
const COUNT: &str = "300";
const EXPORTED_WITHIN: Duration = Duration::from_secs(10);

fn of_amqp(what: &str, port: u16) {
    run(python("pika.txt").args(["directory.py", what, &port.to_string()]));
}

fn of_java(program: &str, name_server: &str, scratch: &Path, flags: &[(&str, &str)]) {
    let flags = [&[("topic", OF_JAVA), ("run", "r")][..], flags].concat();
    run_program("5.4.0", program, name_server, scratch, &flags);
}

/// Messages of both kinds at the same time, among them some of a Java client.
fn fill(setup: &Setup, port: u16, data: &Path, ledger: &mut Ledger, is_killed: bool) {
    let mut sluice = setup.start();
    std::thread::scope(|scope| {
        scope.spawn(|| of_amqp("fill", port));
        ledger.take_turn(&sluice.broker);
        of_java("Produce", &sluice.name_server, data.parent().expect("a folder"), &[("count", COUNT)]);
    });
    if is_killed {
        // Acknowledgements are in the log within 10 ms, and before what the documents say.
        ledger.wait_until_exported(data, EXPORTED_WITHIN);
        wait_for_topics(data, [OF_JAVA].into_iter());
        sluice.kill();
    } else {
        assert!(sluice.stop().success());
    }
}

fn java_opens_it(is_killed: bool) {
    let scratch = tempfile::tempdir().expect("directory");
    // An official broker keeps its files in `store` below its own directory.
    let home = scratch.path().join("java");
    let data = home.join("store");
    let (setup, port) = Setup::serve_amqp(&data);
    let setup = setup.set("storage.segment_size", SEGMENT_SIZE);
    let mut ledger = Ledger::default();
    fill(&setup, port, &data, &mut ledger, is_killed);
    let names = Setup::name_server(&scratch.path().join("names")).start();
    let java = JavaBroker::start(&home, &names.name_server, &LAYOUT);
    ledger.verify(&java.address, is_killed);
    of_java(
        "Consume",
        &names.name_server,
        scratch.path(),
        &[("group", "readers"), ("expect", COUNT), ("from", "first"), ("idle-seconds", "1")],
    );
    only_topics_of_rocketmq_are_listed(&data);
    ledger.take_turn(&java.address);
    java.stop();
    let sluice = setup.start();
    ledger.verify(&sluice.broker, is_killed);
    of_amqp("verify", port);
}

/// Of message queues and their routed messages the Java broker has made nothing.
fn only_topics_of_rocketmq_are_listed(data: &Path) {
    let topics = topics_with_queues(data);
    assert!(topics.iter().any(|topic| topic == OF_JAVA), "{topics:?}");
    let odd: Vec<_> = topics.iter().filter(|topic| topic.starts_with("%MQ%") || topic.contains("sluice")).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn java_5_4_0_opens_a_directory_with_messages_of_amqp_after_an_orderly_stop_and_gives_it_back() {
    java_opens_it(false);
}

#[test]
fn java_5_4_0_opens_a_directory_with_messages_of_amqp_after_a_kill_and_gives_it_back() {
    java_opens_it(true);
}
