//! Sending against a fake broker: nothing in flight is lost sight of, whatever the broker does.

mod fake_broker;

use std::collections::{BTreeMap, BTreeSet};

use bench::{
    BenchError, HeaderForm, ProgressSink, Quiet, Report as _, RocketMq, RunOptions, Second, SendOptions, SendReport,
    driver_of,
};
use fake_broker::{FakeBroker, Fate, Manners};

fn options(broker: &FakeBroker) -> SendOptions {
    let (target, topic) = (broker.name_server(), "t".into());
    let run = RunOptions { target, topic, connections: 3, count: Some(2_000), seconds: None, ..RunOptions::default() };
    SendOptions { run, window: 16, message_sizes: vec![100], ..SendOptions::default() }
}

fn with(broker: &FakeBroker, change: impl FnOnce(&mut RunOptions)) -> SendOptions {
    let mut options = options(broker);
    change(&mut options.run);
    options
}

fn send(options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
    driver_of(&options.run.target, RocketMq::default()).send(options, sink)
}

fn with_topic(manners: Manners) -> Manners {
    Manners { topics: BTreeMap::from([("t".to_owned(), 4)]), ..manners }
}

/// Every message sent is in exactly one of the three columns.
fn assert_adds_up(report: &SendReport) {
    let totals = &report.totals;
    assert_eq!(totals.sent, totals.ok + totals.refused + totals.unanswered, "{totals:?}");
    assert_eq!(totals.ok, report.round_trip_ms.as_ref().map_or(0, |latency| latency.count));
}

#[test]
fn every_send_is_answered_in_either_form_and_in_any_order() {
    for form in [HeaderForm::Binary, HeaderForm::Json] {
        for reversed in [false, true] {
            let broker = FakeBroker::start(with_topic(Manners { reversed, ..Manners::default() }));
            let options = with(&broker, |run| run.threads = 2);
            let driver = driver_of(&options.run.target, RocketMq { form, ..RocketMq::default() });
            let report = driver.send(options, &Quiet).expect("runs");
            assert_adds_up(&report);
            assert_eq!((report.totals.sent, report.totals.ok), (2_000, 2_000));
            assert_eq!(report.totals.success_percent, Some(100.0));
            let seen = broker.seen.lock().expect("not poisoned");
            assert_eq!((seen.sends, seen.ids.iter().collect::<BTreeSet<_>>().len()), (2_000, 2_000));
        }
    }
}

#[test]
fn refusals_are_counted_by_code_with_the_first_remark() {
    let fate = |send| match send % 10 {
        3 => Fate::Refused(2),
        7 => Fate::Refused(14),
        _ => Fate::Stored,
    };
    let broker = FakeBroker::start(with_topic(Manners { fate, ..Manners::default() }));
    let report = send(with(&broker, |run| run.connections = 1), &Quiet).expect("runs");
    assert_adds_up(&report);
    assert_eq!((report.totals.ok, report.totals.refused), (1_600, 400));
    let rows: Vec<_> = report.refusals.iter().map(|row| (row.code, row.name, row.count, &*row.remark)).collect();
    assert_eq!(rows, [(2, "SYSTEM_BUSY", 200, "no, thank you"), (14, "SERVICE_NOT_AVAILABLE", 200, "no, thank you")]);
    let table = report.table();
    for text in ["80.0000 %", "refused: 2 SYSTEM_BUSY", "no, thank you", "RT p99.9", "generator CPU"] {
        assert!(table.contains(text), "{text} in\n{table}");
    }
}

#[test]
fn silent_drops_end_as_unanswered_and_do_not_block_the_window_for_ever() {
    // More drops than the window has room for: the run can only end because they are given up.
    let fate = |send| if send % 100 == 99 { Fate::Dropped } else { Fate::Stored };
    let broker = FakeBroker::start(with_topic(Manners { fate, ..Manners::default() }));
    let options = SendOptions { answer_timeout_seconds: 1.0, ..with(&broker, |run| run.connections = 1) };
    let report = send(options, &Quiet).expect("runs");
    assert_adds_up(&report);
    assert_eq!((report.totals.sent, report.totals.unanswered), (2_000, 20));
    assert_eq!(report.totals.success_percent, Some(99.0));
}

#[test]
fn a_connection_that_breaks_loses_its_sends_and_only_these() {
    let fate = |send| if send == 100 { Fate::Closed } else { Fate::Stored };
    let broker = FakeBroker::start(with_topic(Manners { fate, ..Manners::default() }));
    let report = send(with(&broker, |run| run.connections = 2), &Quiet).expect("runs");
    assert_adds_up(&report);
    // Both connections break; how the system words it may differ.
    assert!((1..=2).contains(&report.faults.len()), "{:?}", report.faults);
    assert!(report.totals.ok <= 200 && report.totals.unanswered <= 32, "{:?}", report.totals);
}

#[test]
fn batches_one_way_and_warm_up_count_messages() {
    let broker = FakeBroker::start(Manners::default());
    let base = with(&broker, |run| run.queues = Some(6));
    let report = send(SendOptions { batch: 8, ..base.clone() }, &Quiet).expect("runs");
    assert_adds_up(&report);
    assert_eq!((report.totals.ok, broker.seen.lock().expect("lock").sends), (2_000, 250));
    assert_eq!(broker.seen.lock().expect("lock").topics.get("t"), Some(&6));

    let report = send(SendOptions { one_way: true, ..base.clone() }, &Quiet).expect("runs");
    assert_eq!((report.totals.sent, report.totals.ok, report.totals.success_percent), (2_000, 0, None));

    let report = send(
        SendOptions { run: RunOptions { warm_up_seconds: 0.2, target: broker.broker(), ..base.run }, ..base },
        &Quiet,
    )
    .expect("runs");
    assert_adds_up(&report);
    assert_eq!(report.totals.ok, 2_000);
    assert!(broker.seen.lock().expect("lock").sends > 250 + 2_000 + 2_000);
}

#[test]
fn a_paced_run_keeps_its_timetable() {
    let broker = FakeBroker::start(with_topic(Manners::default()));
    let paced = SendOptions { pace: 2_000, ..with(&broker, |run| (run.count, run.seconds) = (None, Some(0.5))) };
    let report = send(paced, &Quiet).expect("runs");
    assert_adds_up(&report);
    let totals = &report.totals;
    assert_eq!(totals.sent + totals.unsent, 1_000);
    assert!(totals.ok > 500 && totals.lag_max_ms.is_some() && totals.seconds > 0.4, "{totals:?}");
}

#[test]
fn a_stall_is_charged_to_every_message_that_was_due_in_it() {
    // One connection, one in flight: a broker that drops the first send stalls it for the whole answer timeout.
    let fate = |send| if send == 0 { Fate::Dropped } else { Fate::Stored };
    let broker = FakeBroker::start(with_topic(Manners { fate, ..Manners::default() }));
    let paced = SendOptions {
        pace: 1_000,
        window: 1,
        answer_timeout_seconds: 0.3,
        ..with(&broker, |run| (run.connections, run.count) = (1, Some(600)))
    };
    let report = send(paced, &Quiet).expect("runs");
    assert_adds_up(&report);
    let latency = report.round_trip_ms.expect("measured");
    // Without a timetable 1 message of 600 would be slow; with it, some 300 were due in the stall.
    assert!(latency.p50 > 10.0 && latency.max > 250.0, "{latency:?}");
}

/// Asks the run to finish as soon as its load has begun.
struct Impatient;

impl ProgressSink for Impatient {
    fn begin(&self, _: &str, _: Option<f64>, _: Option<u64>) {}
    fn second(&self, _: &Second, _: u64) {}
    fn end(&self) {}
    fn stop_requested(&self) -> bool {
        true
    }
}

#[test]
fn a_run_that_is_stopped_early_still_drains_and_reports() {
    let broker = FakeBroker::start(with_topic(Manners::default()));
    let endless = with(&broker, |run| (run.count, run.seconds) = (None, Some(3_600.0)));
    let report = send(endless, &Impatient).expect("runs");
    assert_adds_up(&report);
    assert!(report.totals.ok == report.totals.sent && report.totals.seconds < 60.0);
}

#[test]
fn what_cannot_be_is_said_in_words() {
    let broker = FakeBroker::start(Manners::default());
    let error = send(options(&broker), &Quiet).expect_err("no topic");
    assert!(matches!(error, BenchError::NoRoute { .. }), "{error}");
    let forbidden =
        with(&broker, |run| (run.topic, run.queues, run.target) = ("forbidden".into(), Some(1), broker.broker()));
    let error = send(forbidden, &Quiet).expect_err("refused").to_string();
    assert!(error.contains("UPDATE_AND_CREATE_TOPIC") && error.contains("NO_PERMISSION): not this one"), "{error}");
    let nobody = with(&broker, |run| run.broker_pids = vec![u32::MAX]);
    assert!(send(nobody, &Quiet).expect_err("no process").to_string().contains("no process"));
}

#[test]
fn the_json_has_options_machine_results_and_series() {
    let broker = FakeBroker::start(with_topic(Manners::default()));
    let pids = vec![std::process::id()];
    let run = with(&broker, |run| (run.seconds, run.count, run.broker_pids) = (Some(1.2), None, pids));
    let report = send(run, &Quiet).expect("runs");
    let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
    assert_eq!(json["options"]["target"], format!("rocketmq://{}", broker.address));
    assert!(json["machine"]["processors"].as_u64() > Some(0) && json["totals"]["ok"].as_u64() > Some(0));
    assert!(json["series"].as_array().is_some_and(|series| !series.is_empty()));
    assert!(json["broker"]["cpu_seconds"].as_f64() > Some(0.0) && json["round_trip_ms"]["p99"].is_f64());
}
