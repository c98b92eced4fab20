//! Popping from a fake broker.

mod fake_broker;

use std::collections::BTreeMap;

use bench::{BenchError, PopOptions, PopReport, Quiet, Report as _, RocketMq, RunOptions, driver_of};
use fake_broker::{FakeBroker, Manners};

fn start(manners: Manners) -> (FakeBroker, PopOptions) {
    let topics = BTreeMap::from([("t".to_owned(), 5)]);
    let broker = FakeBroker::start(Manners { topics, ..manners });
    let target = broker.name_server();
    let run = RunOptions { target, topic: "t".into(), connections: 2, seconds: None, ..RunOptions::default() };
    let options = PopOptions { run, until_empty: true, verify: true, ..PopOptions::default() };
    (broker, options)
}

fn stored(stored: u64) -> Manners {
    Manners { stored, committed: None, ..Manners::default() }
}

fn pop(options: PopOptions) -> Result<PopReport, BenchError> {
    let driver = driver_of(&options.run.target, RocketMq::default());
    driver.pop(options, &Quiet)
}

#[test]
fn a_backlog_is_popped_to_its_end_and_every_message_acknowledged_once() {
    for (batch_ack, consumers, threads, requests) in [(false, 0, 1, 5_000), (true, 7, 2, 5 * 32)] {
        let (broker, mut options) = start(stored(1_000));
        options.run.threads = threads;
        let report = pop(PopOptions { batch_ack, consumers, window: 40, ..options }).expect("runs");
        let totals = &report.totals;
        assert_eq!((totals.messages, totals.acked, totals.body_bytes), (5_000, 5_000, 50_000));
        assert_eq!((totals.again, totals.unknown, totals.without_receipt, totals.missing), (0, 0, 0, Some(0)));
        assert_eq!((totals.corrupt, totals.pops_found, totals.pops_refused), (Some(0), 5 * 32, 0));
        assert_eq!((totals.acks_unanswered, totals.acks_refused, report.faults.len()), (0, 0, 0));
        let seen = broker.seen.lock().expect("not poisoned");
        assert_eq!(seen.acked.values().map(|offsets| offsets.len()).collect::<Vec<_>>(), [1_000; 5]);
        assert_eq!((seen.ack_requests, seen.members.len()), (requests, 2));
        assert!(seen.members.values().all(|groups| *groups == ["sluice_bench_popper"]));
        for text in ["pop p99", "acknowledgement p99", "pop to acknowledged p99", "came a second time", "missing"] {
            assert!(report.table().contains(text), "{text}");
        }
        assert_eq!(report.pop_to_acked_ms.expect("measured").count, 5_000);
    }
}

#[test]
fn each_group_pops_every_message_of_a_broker_that_no_name_server_was_asked_for() {
    let (broker, mut options) = start(stored(100));
    options.run.target = broker.broker();
    options.run.queues = Some(5);
    let report = pop(PopOptions { groups: 3, no_heartbeat: true, ..options }).expect("runs");
    assert_eq!((report.totals.messages, report.totals.acked, report.totals.again), (1_500, 1_500, 0));
    assert!(broker.seen.lock().expect("not poisoned").members.is_empty());
}

#[test]
fn what_comes_again_or_never_and_what_is_never_answered_is_counted() {
    let (_broker, options) = start(Manners { doubles: true, ..stored(100) });
    let totals = pop(options).expect("runs").totals;
    // One message of each answer comes twice.
    assert_eq!((totals.again, totals.messages, totals.missing), (5 * 4, 500 + 5 * 4, Some(0)));

    let (_broker, options) = start(Manners { forgets: true, ..stored(100) });
    let totals = pop(options).expect("runs").totals;
    assert_eq!((totals.expected, totals.missing, totals.messages), (Some(500), Some(5), 495));

    for batch_ack in [false, true] {
        let (_broker, options) = start(Manners { revives: true, ..stored(100) });
        let totals = pop(PopOptions { batch_ack, ..options }).expect("runs").totals;
        assert_eq!((totals.again, totals.acked, totals.without_receipt, totals.missing), (500, 500, 0, Some(500)));
    }

    // The broker forgets acknowledgements of each connection: with two, one may find nothing left to acknowledge.
    let (_broker, mut options) = start(Manners { ignores_acks: 3, ..stored(100) });
    options.run.connections = 1;
    let totals = pop(PopOptions { answer_timeout_seconds: 0.2, ..options }).expect("runs").totals;
    assert_eq!((totals.acks_unanswered, totals.acked), (3, 497));
}

#[test]
fn a_run_that_something_else_ends_before_the_backlog_does_misses_nothing() {
    let (_broker, mut options) = start(stored(1_000));
    options.run.count = Some(700);
    let totals = pop(options).expect("runs").totals;
    assert_eq!((totals.expected, totals.missing), (Some(5_000), None), "{totals:?}");
}

#[test]
fn a_run_ends_by_count_or_time_even_while_pops_are_held() {
    let (_broker, options) = start(stored(1_000));
    let with = |count, seconds, group: &str| {
        let run = RunOptions { count, seconds, ..options.run.clone() };
        let options = PopOptions { run, until_empty: false, group: group.to_owned(), ..options.clone() };
        pop(options).expect("runs").totals
    };
    let totals = with(Some(700), None, "one");
    assert!((700..5_000).contains(&totals.acked) && totals.acked == totals.messages, "{totals:?}");
    let totals = with(None, Some(0.3), "two");
    assert!(totals.acked > 0 && totals.acked == totals.messages && totals.seconds >= 0.3, "{totals:?}");
}

#[test]
fn idle_consumers_wait_at_a_topic_with_nothing_in_it() {
    let (broker, options) = start(stored(0));
    let run = RunOptions { seconds: Some(0.3), ..options.run };
    let report = pop(PopOptions { run, idle: Some(20), until_empty: false, ..options }).expect("runs");
    assert_eq!((report.totals.messages, report.totals.pops_empty, report.totals.pops_unanswered), (0, 0, 0));
    assert_eq!(report.options.run.connections, 20);
    let seen = broker.seen.lock().expect("not poisoned");
    assert_eq!((seen.members.len(), seen.topics.get("t-idle")), (20, Some(&1)));
}
