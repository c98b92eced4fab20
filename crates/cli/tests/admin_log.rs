//! What the broker's log has of its administration.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::process::Stdio;

use rustix::process::Signal;
use support::{Ports, Serve};

#[test]
fn the_log_has_what_was_asked_and_who_was_turned_away_a_line_a_second() {
    let mut serve = Serve::start(Ports::free(), Stdio::null(), Stdio::piped(), &[]);
    serve.wait_until_up();
    let console = serve.console();
    let reset = ["group", "reset", "billing", "--topic", "orders", "--queue", "3", "--broker", "b", "--to-offset", "7"];
    let refused = serve.sluice(&[&["admin", "--console", &console], &reset[..]].concat());
    assert_eq!(refused.status.code(), Some(1), "there is no such group");
    for _ in 0..20 {
        assert_eq!(serve.page("/admin/v1/brokers").0, 403, "the host is not this machine");
    }
    serve.signal(Signal::TERM);
    assert!(serve.wait().success());
    let log = serve.log();
    assert!(log.contains("group [billing] is reset in topic [orders], queue 3, broker [b] to Offset(7)"), "{log}");
    let lines = log.lines().filter(|line| line.contains("was turned away")).count();
    assert!((1..10).contains(&lines), "{log}");
    assert!(log.contains("127.0.0.1:"), "{log}");
}
