//! `sluice admin` against `sluice serve`: what it makes pika may use, what it forbids is refused, and a kill takes nothing back.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use conformance::process::Process;
use conformance::program;
use conformance::sluice::{Setup, Sluice, binary};
use serde_json::{Value, json};

const PASSWORD: &str = "a-secret-to-find";
/// A loaded machine gets more than the moment that it takes.
const LIMIT: Duration = Duration::from_secs(60);

fn admin(sluice: &Sluice, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("admin").args(arguments).args(["--console", &sluice.console]).env_remove("COLUMNS");
    command.stdin(Stdio::null());
    command
}

/// What a command says that is to end well.
fn said(sluice: &Sluice, arguments: &[&str]) -> String {
    program::run(&mut admin(sluice, arguments))
}

fn listed(sluice: &Sluice, arguments: &[&str]) -> Value {
    serde_json::from_str(&said(sluice, &[arguments, &["--json"]].concat())).expect("JSON")
}

/// What a command says that is refused.
fn refused(sluice: &Sluice, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = admin(sluice, arguments).output().expect("it runs");
    assert_eq!(status.code(), Some(1), "{arguments:?}");
    String::from_utf8(stderr).expect("text")
}

/// Gives a command a password, which nobody sees who lists processes.
fn with_password(sluice: &Sluice, arguments: &[&str], scratch: &Path) {
    let file = scratch.join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).expect("written");
    let stdin = std::fs::File::open(&file).expect("opened");
    let arguments = [arguments, &["--password-stdin"]].concat();
    let output = admin(sluice, &arguments).stdin(stdin).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A program that uses a virtual host as alice.
struct Alice(Process);

impl Alice {
    fn connect(port: u16) -> (Self, String) {
        let mut command = program::python("pika.txt");
        command.arg("access.py").args([&port.to_string(), "/shop", "alice"]);
        let mut alice = Self(Process::start_told("alice", &mut command));
        let said = alice.tell(PASSWORD);
        (alice, said)
    }

    fn tell(&mut self, line: &str) -> String {
        self.0.tell(line);
        self.0.wait_for_line(LIMIT, |_| true)
    }
}

#[test]
fn users_do_what_they_are_permitted_until_they_go_and_a_kill_takes_nothing_back() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, port) = Setup::serve_amqp(&scratch.path().join("data"));
    let mut sluice = setup.start();
    said(&sluice, &["vhost", "add", "/shop", "--description", "for a test"]);
    with_password(&sluice, &["user", "add", "alice", "--tag", "monitoring"], scratch.path());
    assert!(Alice::connect(port).1.starts_with("out"), "nothing is permitted yet");
    said(&sluice, &["permission", "set", "alice", "--vhost", "/shop", "--configure", "^own-"]);
    sluice.kill();
    drop(sluice);
    let sluice = setup.start();
    let permission = json!({"user": "alice", "vhost": "/shop", "configure": "^own-", "write": ".*", "read": ".*"});
    assert_eq!(listed(&sluice, &["permission", "list", "--user", "alice"]), json!([permission]));
    let (mut alice, is_in) = Alice::connect(port);
    assert_eq!(is_in, "in");
    assert_eq!(alice.tell("declare own-orders"), "done");
    assert!(alice.tell("declare others").starts_with("403 ACCESS_REFUSED - configure access to queue 'others'"));
    assert_eq!(alice.tell("publish own-orders"), "done");
    said(&sluice, &["permission", "set", "alice", "--vhost", "/shop", "--read", "", "--configure", ""]);
    assert!(alice.tell("get own-orders").starts_with("403 ACCESS_REFUSED - read access"), "it counts at once");
    assert_eq!(listed(&sluice, &["queue", "list", "--vhost", "/shop"])[0]["ready"], 1);
    let connections = listed(&sluice, &["connection", "list"]);
    let [connection] = connections.as_array().map(Vec::as_slice).unwrap_or_default() else { panic!("{connections}") };
    assert!(connection["product"].as_str().is_some_and(|product| product.starts_with("Pika")), "{connection}");
    assert!(connection["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{connection}");
    assert_eq!((&connection["user"], &connection["vhost"]), (&json!("alice"), &json!("/shop")));
    assert!(refused(&sluice, &["connection", "close", "987654"]).contains("there is no connection 987654 of AMQP"));
    said(&sluice, &["connection", "close", &connection["number"].to_string()]);
    assert_eq!(alice.tell("wait"), "320 CONNECTION_FORCED - Closed by an operator");
    let (mut alice, _) = Alice::connect(port);
    said(&sluice, &["user", "delete", "alice"]);
    assert_eq!(alice.tell("wait"), "320 CONNECTION_FORCED - user 'alice' is deleted");
    assert!(Alice::connect(port).1.starts_with("out"));
    said(&sluice, &["vhost", "delete", "/shop"]);
    let hosts = listed(&sluice, &["vhost", "list"]);
    assert_eq!((hosts.as_array().map(Vec::len), &hosts[0]["name"]), (Some(1), &json!("/")));
    let log = std::fs::read_to_string(&setup.log).expect("a log");
    for change in ["virtual host [/shop] is made", "user [alice] is made", "user [alice] is removed"] {
        assert!(log.contains(change), "{change}");
    }
    assert!(!log.contains(PASSWORD), "a password is nobody's to read");
}

#[test]
fn permissions_of_keys_and_limits_hold_at_once() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, port) = Setup::serve_amqp(&scratch.path().join("data"));
    let sluice = setup.start();
    said(&sluice, &["vhost", "add", "/shop"]);
    with_password(&sluice, &["user", "add", "alice"], scratch.path());
    said(&sluice, &["permission", "set", "alice", "--vhost", "/shop"]);
    said(&sluice, &["exchange", "add", "events", "--type", "topic", "--vhost", "/shop"]);
    let own = ["--write", "^{username}[.]", "--read", "^{username}[.]"];
    said(&sluice, &[&["topic-permission", "set", "alice", "events", "--vhost", "/shop"][..], &own].concat());
    said(&sluice, &["vhost", "limit", "/shop", "--connections", "1", "--queues", "1"]);
    let (mut alice, is_in) = Alice::connect(port);
    assert_eq!(is_in, "in");
    assert!(Alice::connect(port).1.starts_with("out"), "there is one");
    assert_eq!(alice.tell("declare orders"), "done");
    assert!(alice.tell("declare others").starts_with("406 PRECONDITION_FAILED"), "there is one");
    assert_eq!(alice.tell("bind orders events alice.#"), "done");
    assert!(alice.tell("bind orders events #").starts_with("403 ACCESS_REFUSED"));
    assert_eq!(alice.tell("send events alice.orders"), "done");
    assert!(alice.tell("send events bob.orders").starts_with("403 ACCESS_REFUSED"));
    said(&sluice, &["topic-permission", "clear", "alice", "events", "--vhost", "/shop"]);
    said(&sluice, &["vhost", "limit", "/shop"]);
    assert_eq!(alice.tell("send events bob.orders"), "done");
    assert_eq!(alice.tell("declare others"), "done");
    assert_eq!(Alice::connect(port).1, "in");
}

#[test]
fn queues_are_made_shown_emptied_and_removed() {
    let scratch = tempfile::tempdir().expect("directory");
    let (setup, _) = Setup::serve_amqp(&scratch.path().join("data"));
    let sluice = setup.start();
    let argument = ["--argument", "x-max-length=5", "--argument", "x-overflow=reject-publish"];
    said(&sluice, &[&["queue", "add", "orders"][..], &argument].concat());
    said(&sluice, &["exchange", "add", "events", "--type", "topic"]);
    said(&sluice, &["binding", "add", "events", "orders", "--key", "order.*"]);
    let table = said(&sluice, &["queue", "list"]);
    assert_eq!(
        table.trim_end(),
        "name    ready  unacknowledged  consumers  arguments\n\
         orders      0               0          0  x-max-length=5,x-overflow=reject-publish"
    );
    let narrow = program::run(admin(&sluice, &["queue", "list"]).env("COLUMNS", "40"));
    assert!(narrow.lines().count() == 5 && narrow.starts_with("orders\n  ready 0\n"), "{narrow}");
    assert_eq!(listed(&sluice, &["binding", "list"])[0]["key"], "order.*");
    assert!(refused(&sluice, &["queue", "purge", "ordres"]).contains("did you mean orders?"));
    assert!(refused(&sluice, &["queue", "add", "orders"]).contains("inequivalent arg 'x-max-length'"));
    assert!(refused(&sluice, &["exchange", "delete", "events", "--if-unused"]).contains("in use"));
    said(&sluice, &["queue", "purge", "orders"]);
    said(&sluice, &["binding", "delete", "events", "orders", "--key", "order.*"]);
    said(&sluice, &["exchange", "delete", "events", "--if-unused"]);
    said(&sluice, &["queue", "delete", "orders", "--if-empty", "--if-unused"]);
    assert_eq!(listed(&sluice, &["queue", "list"]), json!([]));
}
