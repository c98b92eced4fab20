//! Sending to and pulling from a fake broker at once.

mod fake_broker;

use std::collections::BTreeSet;

use bench::{
    BenchError, ConsumeOptions, Quiet, Report as _, RocketMq, RunOptions, SendOptions, VisibleOptions, VisibleReport,
    driver_of,
};
use fake_broker::{FakeBroker, Manners};

fn options(broker: &FakeBroker) -> VisibleOptions {
    let run = RunOptions {
        target: broker.name_server(),
        topic: "t".into(),
        topics: 3,
        queues: Some(2),
        connections: 2,
        seconds: Some(0.5),
        ..RunOptions::default()
    };
    let consume = ConsumeOptions { run: run.clone(), group: "g".into(), groups: 6, ..ConsumeOptions::default() };
    let send = SendOptions { run, window: 8, message_sizes: vec![100], pace: 2_000, ..SendOptions::default() };
    VisibleOptions { send, consume }
}

fn visible(options: VisibleOptions) -> Result<VisibleReport, BenchError> {
    driver_of(&options.send.run.target, RocketMq::default()).visible(options, &Quiet)
}

#[test]
fn every_group_of_a_topic_gets_its_messages_and_each_is_matched_with_its_send() {
    let broker = FakeBroker::start(Manners { keeps: true, ..Manners::default() });
    let report = visible(options(&broker)).expect("runs");
    let (sent, received) = (report.send.totals.ok, report.consume.totals.messages);
    assert_eq!((sent, report.unmatched), (1_000, 0));
    // Two groups read each topic; what is under way when the time is over is waited for.
    assert_eq!((report.awaited, received), (Some(2 * sent), 2 * sent));
    let (answered, due) = (report.answer_to_consume_ms.as_ref(), report.due_to_consume_ms.as_ref());
    let (answered, due) = (answered.expect("measured"), due.expect("measured"));
    assert_eq!((answered.count, due.count), (received, received));
    assert!(answered.max <= due.max && due.min > 0.0, "{answered:?} {due:?}");
    let seen = broker.seen.lock().expect("not poisoned");
    assert_eq!(seen.kept.len(), 6, "every queue of every topic was written to");
    let topic = |number: u32| BTreeSet::from([format!("t-{number}")]);
    let readers: Vec<_> = (0..6).map(|group| seen.readers[&format!("g-{group}")].clone()).collect();
    assert_eq!(readers, (0..6).map(|group| topic(group % 3)).collect::<Vec<_>>());
    for text in ["answer to arrival p99.9", "send to arrival p50", "RT p99"] {
        assert!(report.table().contains(text), "{text} in\n{}", report.table());
    }
}

#[test]
fn a_run_that_measures_a_backlog_of_its_own_says_so() {
    let broker = FakeBroker::start(Manners { keeps: true, ..Manners::default() });
    let paced = visible(options(&broker)).expect("runs");
    assert!(!paced.table().contains("backlog"), "{}", paced.table());
    let mut unpaced = options(&broker);
    (unpaced.send.pace, unpaced.send.run.count) = (0, Some(200));
    let table = visible(unpaced).expect("runs").table();
    assert!(table.contains("unpaced") && table.contains("--pace N"), "{table}");
}

#[test]
fn messages_that_come_twice_do_not_hide_those_that_come_late() {
    let broker = FakeBroker::start(Manners { keeps: true, doubles: true, ..Manners::default() });
    let mut behind = options(&broker);
    (behind.send.pace, behind.send.run.seconds) = (40_000, Some(0.05));
    (behind.consume.run.connections, behind.consume.pulls, behind.consume.batch) = (1, 1, 1);
    let report = visible(behind).expect("runs");
    let awaited = report.awaited.expect("every queue has two readers");
    assert_eq!((report.consume.totals.messages, report.lost(), report.doubled()), (2 * awaited, 0, awaited));
}

#[test]
fn sends_that_cannot_be_found_again_are_an_error() {
    let broker = FakeBroker::start(Manners::default());
    let spoil: [fn(&mut SendOptions); 3] =
        [|send| send.batch = 2, |send| send.run.threads = 2, |send| send.one_way = true];
    for spoil in spoil {
        let mut options = options(&broker);
        spoil(&mut options.send);
        assert!(visible(options).is_err());
    }
    let without_ids = driver_of(&broker.name_server(), RocketMq { unique_key: false, ..RocketMq::default() });
    assert!(without_ids.visible(options(&broker), &Quiet).is_err());
}
