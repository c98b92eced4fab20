//! Consuming from a fake broker.

mod fake_broker;

use std::collections::BTreeMap;

use bench::{
    BenchError, ConsumeOptions, ConsumeReport, HeaderForm, Quiet, Report as _, RocketMq, RunOptions, StartFrom,
    driver_of,
};
use fake_broker::{FakeBroker, Manners};

fn start(stored: u64) -> (FakeBroker, ConsumeOptions) {
    let topics = BTreeMap::from([("t".to_owned(), 5)]);
    let broker = FakeBroker::start(Manners { topics, stored, ..Manners::default() });
    let target = broker.name_server();
    let run = RunOptions { target, topic: "t".into(), connections: 2, seconds: None, ..RunOptions::default() };
    let options = ConsumeOptions { run, until_empty: true, verify: true, ..ConsumeOptions::default() };
    (broker, options)
}

fn consume(options: ConsumeOptions, form: HeaderForm) -> Result<ConsumeReport, BenchError> {
    let driver = driver_of(&options.run.target, RocketMq { form, ..RocketMq::default() });
    driver.consume(options, &Quiet)
}

#[test]
fn a_backlog_is_read_to_its_end_once() {
    for (form, pulls, threads) in [(HeaderForm::Binary, 0, 1), (HeaderForm::Json, 1, 2)] {
        let (broker, mut options) = start(1_000);
        options.run.threads = threads;
        let report = consume(ConsumeOptions { pulls, commit: true, ..options }, form).expect("runs");
        let totals = &report.totals;
        assert_eq!((totals.messages, totals.body_bytes), (5_000, 50_000));
        assert_eq!((totals.corrupt, totals.out_of_order, totals.pulls_refused), (Some(0), 0, 0));
        assert_eq!((totals.pulls_found, totals.pulls_empty), (5 * 32, 5));
        assert!(report.born_to_consume_ms.as_ref().expect("measured").min >= 4.9);
        let commits = &broker.seen.lock().expect("not poisoned").commits;
        assert_eq!(commits.values().collect::<Vec<_>>(), [&1_000; 5]);
        assert!(report.table().contains("store to consume p99"));
    }
}

#[test]
fn a_run_can_begin_at_the_committed_or_the_last_offset() {
    let (_broker, options) = start(100);
    let from =
        |start_from| consume(ConsumeOptions { start_from, ..options.clone() }, HeaderForm::Binary).expect("runs");
    assert_eq!(from(StartFrom::Committed).totals.messages, 50);
    assert_eq!(from(StartFrom::Latest).totals.messages, 0);
}

#[test]
fn a_run_ends_by_count_or_time_even_while_pulls_are_held() {
    let (_broker, options) = start(1_000);
    let options = ConsumeOptions { until_empty: false, ..options };
    let with = |count, seconds| {
        let run = RunOptions { count, seconds, ..options.run.clone() };
        consume(ConsumeOptions { run, ..options.clone() }, HeaderForm::Binary).expect("runs")
    };
    let report = with(Some(700), None);
    assert!((700..5_000).contains(&report.totals.messages), "{:?}", report.totals);
    let report = with(None, Some(0.3));
    assert!((1..=5_000).contains(&report.totals.messages) && report.totals.seconds == 0.3, "{:?}", report.totals);
}
