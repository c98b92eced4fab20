//! `sluice bench` on a Sluice that speaks AMQP: what one counts as stored, the other delivers, and nothing else.

#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod support;

use std::process::Stdio;

use serde_json::Value;
use support::{Ports, Serve};

fn start() -> Serve {
    let mut serve = Serve::start(Ports::free(), Stdio::null(), Stdio::null(), &[]);
    serve.wait_until_up();
    serve
}

/// What a run reports.
fn bench(serve: &Serve, words: &str) -> Value {
    let target = serve.amqp_target();
    let words = words.split(' ').chain(["--target", &target, "--json", "-"]);
    let output = serve.sluice(&["bench"].into_iter().chain(words).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {report}"))
}

#[test]
fn what_is_sent_is_read_once_and_in_order_however_it_is_acknowledged() {
    let serve = start();
    for (queue, sends, reads) in [
        ("a", "--window 200 --size 100,5000", "--prefetch 100 --ack-every 10"),
        ("b", "--channels 3 --connections 2", "--consumer-channels 4 --connections 2"),
        ("c", "--one-way --transient --size 16 --transient-queues", "--auto-ack --transient-queues"),
        ("d", "--queue-argument x-max-priority=5", "--prefetch 0 --ack-every 1000 --queue-argument x-max-priority=5"),
    ] {
        let sent = bench(&serve, &format!("send --topic {queue} --queues 1 --count 20000 {sends}"));
        assert_eq!(number(&sent, "/totals/sent"), 20_000, "{sent}");
        assert_eq!(number(&sent, "/totals/unanswered") + number(&sent, "/totals/refused"), 0);
        let read = bench(&serve, &format!("consume --topic {queue} --queues 1 --until-empty {reads}"));
        assert_eq!((number(&read, "/totals/messages"), number(&read, "/totals/out_of_order")), (20_000, 0), "{read}");
        assert_eq!(read["faults"], Value::Array(Vec::new()));
        let rest = bench(&serve, &format!("consume --topic {queue} --until-empty"));
        assert_eq!(number(&rest, "/totals/messages"), 0, "all of it was settled");
    }
}

#[test]
fn channels_that_take_their_time_leave_the_rest_to_others() {
    let serve = start();
    bench(&serve, "send --topic slow --queues 1 --count 5000");
    let slow = bench(
        &serve,
        "consume --topic slow --connections 1 --consumer-channels 30 --prefetch 100 --work-ms 10 --duration 1",
    );
    // 3 000 a second, on a machine that has nothing else to do.
    let handled = number(&slow, "/totals/messages");
    assert!((300..=3_000).contains(&handled), "{slow}");
    let rest = bench(&serve, "consume --topic slow --until-empty");
    assert_eq!(handled + number(&rest, "/totals/messages"), 5_000);
}

#[test]
fn every_queue_of_an_exchange_gets_every_message() {
    let serve = start();
    let report = bench(
        &serve,
        "visible --topic many --queues 5 --exchange many --exchange-kind fanout --pace 1000 --duration 1 --consumer-channels 5",
    );
    let (sent, came) = (number(&report, "/send/totals/ok"), number(&report, "/consume/totals/messages"));
    assert_eq!((came, number(&report, "/awaited")), (5 * sent, 5 * sent), "{report}");
    assert!(sent > 500, "{report}");
    assert!(report["due_to_consume_ms"]["min"].as_f64().is_some_and(|min| min > 0.0));
}

#[test]
fn what_the_protocol_of_the_target_has_not_is_refused() {
    let serve = start();
    let amqp = serve.amqp_target();
    for (words, what) in [
        (vec!["pop", "--target", &amqp], "AMQP has no pop"),
        (vec!["send", "--target", &amqp, "--header", "json"], "AMQP has no such options as --header"),
        (
            vec!["consume", "--target", "rocketmq://127.0.0.1:1", "--prefetch", "5"],
            "RocketMQ's protocol has no such options",
        ),
        (vec!["send", "--target", &amqp, "--topic", "nobody-made-this"], "NOT_FOUND"),
    ] {
        let output = serve.sluice(&["bench"].into_iter().chain(words).collect::<Vec<_>>());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(what), "{told}");
    }
}
