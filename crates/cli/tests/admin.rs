//! `sluice admin` without a broker: what it says of itself, and how it ends.

#![allow(clippy::expect_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

fn admin(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("admin").args(arguments).stdin(Stdio::null()).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A console where nobody is.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").to_string()
}

/// A console that answers one request so.
fn answering(status: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let console = listener.local_addr().expect("its address").to_string();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let _ = socket.read(&mut [0; 4096]).expect("a request");
        socket.write_all(answer.as_bytes()).expect("sends");
    });
    console
}

#[test]
fn each_noun_shows_how_it_is_used() {
    for noun in [
        "broker",
        "topic",
        "group",
        "message",
        "vhost",
        "user",
        "permission",
        "topic-permission",
        "exchange",
        "queue",
        "binding",
    ] {
        let help = admin(&[noun, "--help"]);
        let text = said(&help);
        assert!(help.status.success() && text.contains(&format!("\n  sluice admin {noun} ")), "{text}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_and_names_what_was_meant() {
    for (arguments, meant) in [
        (&["queu", "list"][..], "queue"),
        (&["user", "ad", "alice"], "add"),
        (&["exchange", "add", "x", "--type", "topc"], "topic"),
        (&["queue", "add", "q", "--argument", "x-max-length"], "="),
        (&["user", "add", "alice", "--password", "secret"], "--password-stdin"),
    ] {
        let output = admin(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(meant), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn who_finds_no_broker_ends_with_3_and_says_how_to_name_one() {
    let output = admin(&["queue", "list", "--console", &nobody()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).contains("--console"), "{}", said(&output));
}

#[test]
fn a_password_that_nobody_can_be_asked_for_is_a_matter_of_the_command_line() {
    let output = admin(&["user", "add", "alice", "--console", &nobody()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--password-stdin"), "{}", said(&output));
}

#[test]
fn what_cannot_be_meant_is_a_matter_of_the_command_line_and_named() {
    let scratch = tempfile::tempdir().expect("directory");
    let file = scratch.path().join("console.token");
    std::fs::write(&file, "0123456789abcdef\n0123456789abcdef\n").expect("written");
    let file = file.to_string_lossy();
    for (arguments, named) in [
        (&["topic", "delete", ""][..], "a name is empty"),
        (&["topic", "create", "orders", "--queues", "0"], "--queues"),
        (&["broker", "list", "--token-file", &file], "console.token has no token"),
        (&["broker", "list", "--console", "https://127.0.0.1:8080"], "--console https://127.0.0.1:8080"),
    ] {
        let output = admin(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(named), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn of_several_brokers_that_are_not_ready_each_says_why_and_that_is_no() {
    let body = r#"{"brokers":{"a":{"reason":"it drains","status":"not ready"},"b":{"reason":"the disk is full","status":"not ready"}},"status":"not ready"}"#;
    let output = admin(&["broker", "ready", "--console", &answering("503 Service Unavailable", body)]);
    assert_eq!(
        (output.status.code(), said(&output)),
        (Some(1), "sluice: a: it drains\nb: the disk is full\n".to_owned())
    );
}
