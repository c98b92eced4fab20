//! Clients and frameworks that others have made for RabbitMQ, unchanged, against `sluice serve` with an AMQP port. Each
//! program checks its own promises, and names those that hold.

use std::process::Command;
use std::time::Duration;

use conformance::process::Process;
use conformance::program::{java, node, python, run, rust};
use conformance::sluice::{Setup, Sluice};

/// A program that takes so long does not end.
const LIMIT: Duration = Duration::from_secs(120);

/// A broker of its own for a test.
struct Broker {
    setup: Setup,
    sluice: Sluice,
    scratch: tempfile::TempDir,
    port: String,
}

fn broker() -> Broker {
    broker_with(|setup| setup)
}

fn broker_with(more: impl FnOnce(Setup) -> Setup) -> Broker {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, port) = Setup::serve_amqp(&scratch.path().join("data"));
    let setup = more(setup);
    Broker { sluice: setup.start(), setup, scratch, port: port.to_string() }
}

/// Runs a program that says `NAME: holds` for each of `count` promises.
fn keeps(count: usize, command: &mut Command) {
    let said = run(command);
    let held = said.lines().filter(|line| line.ends_with(": holds")).count();
    assert_eq!(held, count, "{said}");
}

#[test]
fn amqplib_finds_every_promise_kept() {
    let broker = broker();
    keeps(20, node().arg("check.js").arg(&broker.port));
}

#[test]
fn lapin_finds_every_promise_kept() {
    let broker = broker();
    keeps(13, rust("lapin").arg(&broker.port));
}

#[test]
fn workers_of_celery_find_every_promise_kept() {
    let broker = broker();
    keeps(11, python("celery.txt").arg("check_celery.py").arg(&broker.port));
}

#[test]
fn workers_of_celery_raise_their_prefetch_where_the_server_is_said_to_be_of_version_3() {
    let broker = broker_with(|setup| setup.set("amqp.version", "3.13.7"));
    keeps(1, python("celery.txt").args(["check_celery.py", &broker.port, "waiting"]));
}

#[test]
fn an_application_of_spring_finds_every_promise_kept_and_outlives_the_broker() {
    let mut broker = broker();
    let mut application =
        Process::start_told("the application", &mut java("spring", broker.scratch.path(), &broker.port));
    application.wait_for_line(LIMIT, |line| line == "restart");
    broker.sluice.kill();
    broker.sluice = broker.setup.start();
    application.tell("it is back");
    application.wait_for_line(LIMIT, |line| line == "listeners outlive the broker: holds");
    assert!(application.wait(LIMIT).success());
}
