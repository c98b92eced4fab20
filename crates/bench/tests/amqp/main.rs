//! Load on a fake AMQP broker: nothing in flight is lost sight of, whatever the broker does.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod fake_broker;

use bench::{
    Amqp, ConsumeOptions, ConsumeReport, DeliverOptions, Load, Measured, PopOptions, Protocol, PublishOptions, Quiet,
    Report as _, RunOptions, SCENARIOS, Scale, SendOptions, SendReport, Stage, Step, VisibleOptions, driver_of,
    find_scenario,
};
use fake_broker::{Confirms, FakeBroker, Fate, Manners};

fn run(broker: &FakeBroker) -> RunOptions {
    let (target, topic) = (broker.target(), "q".to_owned());
    RunOptions { target, topic, queues: Some(1), connections: 2, seconds: None, ..RunOptions::default() }
}

fn sends(broker: &FakeBroker) -> SendOptions {
    let run = RunOptions { count: Some(2_000), ..run(broker) };
    SendOptions { run, window: 16, message_sizes: vec![100], ..SendOptions::default() }
}

fn reads(broker: &FakeBroker) -> ConsumeOptions {
    ConsumeOptions { run: run(broker), until_empty: true, ..ConsumeOptions::default() }
}

fn send(options: SendOptions, amqp: Amqp) -> SendReport {
    driver_of(&options.run.target, amqp).send(options, &Quiet).expect("runs")
}

fn consume(options: ConsumeOptions, deliver: DeliverOptions) -> ConsumeReport {
    let amqp = Amqp { deliver, ..Amqp::default() };
    driver_of(&options.run.target, amqp).consume(options, &Quiet).expect("runs")
}

/// Every message sent is in exactly one of the three columns.
fn assert_adds_up(report: &SendReport) {
    let totals = &report.totals;
    assert_eq!(totals.sent, totals.ok + totals.refused + totals.unanswered, "{totals:?}");
    assert_eq!(totals.ok, report.round_trip_ms.as_ref().map_or(0, |latency| latency.count));
}

fn stored(broker: &FakeBroker) -> Vec<usize> {
    broker.seen.lock().expect("not poisoned").queues.values().map(std::collections::VecDeque::len).collect()
}

#[test]
fn every_message_is_confirmed_in_whatever_way_brokers_confirm() {
    for confirms in [Confirms::Each, Confirms::Multiple, Confirms::Reversed] {
        let broker = FakeBroker::start(Manners { confirms, ..Manners::default() });
        let mut options = sends(&broker);
        options.run.threads = 2;
        let publish = PublishOptions { channels: 3, ..PublishOptions::default() };
        let report = send(options, Amqp { publish, ..Amqp::default() });
        assert_adds_up(&report);
        assert_eq!((report.totals.ok, stored(&broker)), (2_000, vec![2_000]), "{confirms:?}");
        let seen = broker.seen.lock().expect("not poisoned");
        // The connection that made the queue published nothing.
        let channels: Vec<_> = seen.publishing.values().map(std::collections::BTreeSet::len).collect();
        assert_eq!((channels, seen.closed), (vec![3, 3], 3));
        assert!(seen.delivery_modes.iter().all(|mode| *mode == Some(2)), "persistent unless asked otherwise");
    }
}

#[test]
fn nacks_are_refusals_and_what_is_never_confirmed_does_not_block_the_window_for_ever() {
    let fate = |publish| match publish % 100 {
        7 => Fate::Nacked,
        99 => Fate::Dropped,
        _ => Fate::Stored,
    };
    let broker = FakeBroker::start(Manners { fate, blocks: true, ..Manners::default() });
    let mut options = SendOptions { window: 4, answer_timeout_seconds: 0.3, ..sends(&broker) };
    options.run.connections = 1;
    let report = send(options, Amqp::default());
    assert_adds_up(&report);
    let totals = &report.totals;
    assert_eq!((totals.ok, totals.refused, totals.unanswered), (1_960, 20, 20));
    let table = report.table();
    for text in ["refused: 120 basic.nack", "blocked", "low on memory"] {
        assert!(table.contains(text), "{text} in\n{table}");
    }
}

#[test]
fn without_confirms_a_run_ends_when_the_broker_has_read_everything() {
    let broker = FakeBroker::start(Manners::default());
    let publish = PublishOptions { transient: true, ..PublishOptions::default() };
    let options = SendOptions { one_way: true, message_sizes: vec![16], ..sends(&broker) };
    let report = send(options, Amqp { publish, ..Amqp::default() });
    assert_eq!((report.totals.sent, report.totals.success_percent, stored(&broker)), (2_000, None, vec![2_000]));
    assert_eq!(report.faults, [""; 0]);
    assert_eq!(broker.seen.lock().expect("not poisoned").delivery_modes.first(), Some(&Some(1)));
}

#[test]
fn messages_go_to_queues_in_turn_or_by_an_exchange_to_all_of_them() {
    let broker = FakeBroker::start(Manners::default());
    let mut options = sends(&broker);
    options.run.queues = Some(4);
    send(options.clone(), Amqp::default());
    assert_eq!(stored(&broker), [500; 4]);
    let publish = PublishOptions { exchange: "e".into(), ..PublishOptions::default() };
    send(options, Amqp { publish, ..Amqp::default() });
    assert_eq!(stored(&broker), [2_500; 4]);
}

#[test]
fn a_queue_that_nobody_made_is_an_error_not_a_hole() {
    let broker = FakeBroker::start(Manners::default());
    let mut options = sends(&broker);
    options.run.queues = None;
    let error = driver_of(&options.run.target, Amqp::default()).send(options, &Quiet).expect_err("no such queue");
    assert!(error.to_string().contains("404 NOT_FOUND"), "{error}");
}

#[test]
fn a_backlog_is_read_to_its_end_and_acknowledged_as_asked() {
    for (prefetch, ack_every, auto_ack) in [(10, 1, false), (10, 10, false), (0, 7, false), (10, 1, true)] {
        let broker = FakeBroker::start(Manners::default());
        // Bodies in several frames, and in one.
        send(SendOptions { message_sizes: vec![100, 10_000], ..sends(&broker) }, Amqp::default());
        let deliver = DeliverOptions { prefetch, ack_every, auto_ack, consumer_channels: 2, work_ms: 0 };
        let report = consume(reads(&broker), deliver);
        let totals = &report.totals;
        assert_eq!((totals.messages, totals.body_bytes, totals.out_of_order), (2_000, 10_100_000, 0));
        assert_eq!((stored(&broker), report.faults), (vec![0], Vec::<String>::new()));
        assert!(report.born_to_consume_ms.expect("measured").min > 0.0);
        let seen = broker.seen.lock().expect("not poisoned");
        let most = if prefetch == 0 { 2_000 } else { usize::from(prefetch) };
        assert!(seen.unacked_max <= if auto_ack { 0 } else { most }, "{}", seen.unacked_max);
        match (auto_ack, ack_every) {
            (true, _) => assert!(seen.acks.is_empty()),
            (false, 1) => assert!(seen.acks.len() == 2_000 && seen.acks.iter().all(|(_, multiple)| !multiple)),
            // The rest of each channel comes at the end.
            (false, every) => assert!(seen.acks.len().abs_diff(2_000 / every) <= 4, "{}", seen.acks.len()),
        }
    }
}

#[test]
fn what_comes_twice_is_told() {
    let broker = FakeBroker::start(Manners { doubles: true, ..Manners::default() });
    send(sends(&broker), Amqp::default());
    let mut options = reads(&broker);
    (options.until_empty, options.run.seconds) = (false, Some(1.0));
    let report = consume(options, DeliverOptions::default());
    assert_eq!((report.totals.messages, report.totals.out_of_order), (4_000, 2_000));
}

#[test]
fn channels_that_take_their_time_handle_one_message_at_a_time() {
    let broker = FakeBroker::start(Manners::default());
    send(sends(&broker), Amqp::default());
    let mut options = reads(&broker);
    (options.run.connections, options.run.seconds) = (2, Some(0.5));
    let deliver = DeliverOptions { consumer_channels: 5, work_ms: 10, prefetch: 20, ..DeliverOptions::default() };
    let report = consume(options, deliver);
    // 10 channels, 100 messages a second each, the last of them perhaps not done; less on a machine that has other work.
    let handled = report.totals.messages;
    assert!((100..=500).contains(&handled), "{:?}", report.totals);
    let acks = broker.seen.lock().expect("not poisoned").acks.len();
    assert_eq!(acks as u64, handled, "each was acknowledged, and what was not handled was not");
}

#[test]
fn messages_are_matched_with_their_sends_and_waited_for() {
    for (exchange, one_way, copies) in [("", false, 1), ("e", false, 3), ("e", true, 3)] {
        let broker = FakeBroker::start(Manners::default());
        let run = RunOptions { queues: Some(3), seconds: Some(0.5), ..run(&broker) };
        let send =
            SendOptions { run: run.clone(), message_sizes: vec![100], pace: 2_000, one_way, ..SendOptions::default() };
        let consume = ConsumeOptions { run, ..ConsumeOptions::default() };
        let publish = PublishOptions { exchange: exchange.into(), ..PublishOptions::default() };
        let deliver = DeliverOptions { consumer_channels: 2, ..DeliverOptions::default() };
        let driver = driver_of(&broker.target(), Amqp { publish, deliver, ..Amqp::default() });
        let report = driver.visible(VisibleOptions { send, consume }, &Quiet).expect("runs");
        let (sent, received) = (report.send.totals.sent, report.consume.totals.messages);
        // The timetable begins with its thread, a little after the run: on a machine that has other work the last are not due in it.
        let due = sent + report.send.totals.unsent;
        assert!((900..=1_000).contains(&due), "{due}");
        assert_eq!((received, report.awaited), (copies * sent, Some(copies * sent)));
        assert_eq!((report.lost(), report.unmatched, report.consume.totals.out_of_order), (0, 0, 0));
        let due = report.due_to_consume_ms.as_ref().expect("measured");
        assert!(due.count == received && due.min > 0.0, "{due:?}");
        assert_eq!(report.answer_to_consume_ms.map(|answered| answered.count), (!one_way).then_some(received));
    }
}

#[test]
fn connections_are_opened_with_a_first_message_each_and_held() {
    let broker = FakeBroker::start(Manners::default());
    let mut options = sends(&broker);
    (options.run.connections, options.run.threads, options.run.count) = (20, 4, Some(1));
    let publish = PublishOptions { channels: 5, ..PublishOptions::default() };
    let driver = driver_of(&broker.target(), Amqp { publish, ..Amqp::default() });
    let report = driver.connect(options.clone(), &Quiet).expect("runs");
    assert_adds_up(&report);
    assert_eq!((report.kind, report.totals.ok, stored(&broker)), ("connect", 20, vec![20]));
    let _held = driver.hold(&options).expect("they are open");
    assert_eq!(stored(&broker), [40]);
}

#[test]
fn what_amqp_has_not_is_refused_with_its_name() {
    let broker = FakeBroker::start(Manners::default());
    let driver = driver_of(&broker.target(), Amqp::default());
    let told = driver.pop(PopOptions::default(), &Quiet).expect_err("no pops").to_string();
    assert!(told.contains("AMQP has no pop"), "{told}");
    let spoil: [fn(&mut SendOptions); 3] = [|send| send.batch = 2, |send| send.keys = true, |send| send.run.topics = 2];
    for (spoil, what) in spoil.into_iter().zip(["batch", "keys", "--queues"]) {
        let mut options = sends(&broker);
        spoil(&mut options);
        let told = driver.send(options, &Quiet).expect_err(what).to_string();
        assert!(told.contains(what), "{told}");
    }
    let told = driver.consume(ConsumeOptions { commit: true, ..reads(&broker) }, &Quiet).expect_err("no offsets");
    assert!(told.to_string().contains("offsets"), "{told}");
    let deliver = DeliverOptions { prefetch: 5, ack_every: 6, ..DeliverOptions::default() };
    let driver = driver_of(&broker.target(), Amqp { deliver, ..Amqp::default() });
    let told = driver.consume(reads(&broker), &Quiet).expect_err("it would wait for ever").to_string();
    assert!(told.contains("never come together"), "{told}");
}

/// A step made short, for a broker that is a thread of this test.
fn shortened(mut step: Step) -> Step {
    let shorten = |run: &mut RunOptions| (run.seconds, run.warm_up_seconds) = (run.seconds.map(|_| 0.2), 0.0);
    let shorten_fill = |fill: &mut SendOptions| fill.run.count = Some(500);
    let part = |count: Option<u64>| count.map(|_| 200);
    match &mut step.load {
        Load::Send(send) => shorten(&mut send.run),
        Load::Consume { fill, read, seconds } => {
            shorten_fill(fill);
            shorten(&mut read.run);
            read.run.count = part(read.run.count);
            *seconds = 0.0;
        }
        Load::Visible(visible) => {
            shorten(&mut visible.send.run);
            // What a thread of a test keeps up with.
            if step.pacing.is_some() {
                visible.send.pace = 1_000;
            }
        }
        other => panic!("{other:?} was not expected"),
    }
    step.beside.iter_mut().for_each(shorten_fill);
    step
}

#[test]
fn a_broker_that_does_everything_right_has_no_problems_in_any_scenario() {
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.protocol() == Protocol::Amqp) {
        let broker = FakeBroker::start(Manners { confirms: Confirms::Multiple, ..Manners::default() });
        let mut stage = Stage::new(broker.target(), Vec::new());
        for step in scenario.steps(Scale::Quick).into_iter().map(shortened) {
            // What was consumed in the first round is there again in the second.
            for _ in 0..2 {
                let measured = stage.perform(scenario.name, &step, &Quiet).expect("runs");
                assert_eq!(measured.problems, Vec::<String>::new(), "{}, {}", scenario.name, step.label);
                assert!(measured.messages > 0, "{}, {}", scenario.name, step.label);
            }
        }
    }
}

/// The step of that label, and the stage on which it was performed twice.
fn performed(broker: &FakeBroker, scenario: &str, label: &str) -> Vec<Measured> {
    let scenario = find_scenario(scenario).expect("a scenario");
    let step = scenario.steps(Scale::Quick).into_iter().map(shortened).find(|step| step.label == label);
    let (step, mut stage) = (step.expect("a step"), Stage::new(broker.target(), Vec::new()));
    (0..2).map(|_| stage.perform(scenario.name, &step, &Quiet).expect("runs")).collect()
}

#[test]
fn what_is_published_alone_is_taken_away_before_the_next_round() {
    let broker = FakeBroker::start(Manners::default());
    let rounds = performed(&broker, "amqp-flows", "publish only, persistent, no confirms");
    assert!(rounds.iter().all(|round| round.messages > 0), "{rounds:?}");
    assert_eq!(stored(&broker), [0]);
}

#[test]
fn a_long_queue_stays_long_and_as_much_of_it_is_read_as_of_a_short_one() {
    let broker = FakeBroker::start(Manners::default());
    let published = performed(&broker, "queue-backlog", "publish, long queue");
    let there: u64 = published.iter().map(|round| round.messages).sum();
    assert_eq!(stored(&broker), [500 + there as usize], "what was published is not taken away");
    let read = performed(&broker, "queue-backlog", "consume, long queue");
    assert!(read.iter().all(|round| round.messages >= 200 && round.problems.is_empty()), "{read:?}");
}

#[test]
fn a_publisher_beside_consumers_that_are_behind_is_what_is_measured() {
    let broker = FakeBroker::start(Manners::default());
    let label = "publish at half of the first rate, long queue, 170 channels of 10 ms";
    for round in performed(&broker, "queue-backlog", label) {
        assert!(round.read_per_second.is_some_and(|rate| rate > 0.0), "{round:?}");
        assert_eq!((round.latency_of, round.success_percent), ("round trip", Some(100.0)));
        assert_eq!(round.latency_ms.map(|latency| latency.count), Some(round.messages));
    }
}

#[test]
fn messages_that_are_never_delivered_are_lost() {
    // It forgets what is published to it after the first 100 of each channel, and confirms it.
    let fate = |publish| if publish <= 100 { Fate::Stored } else { Fate::Forgotten };
    let broker = FakeBroker::start(Manners { fate, ..Manners::default() });
    let rounds = performed(&broker, "amqp-flows", "consume only, acknowledgements");
    let problems = rounds.into_iter().next().expect("a round").problems;
    assert!(problems.iter().any(|problem| problem.contains(" of 500 messages were lost")), "{problems:?}");
}
