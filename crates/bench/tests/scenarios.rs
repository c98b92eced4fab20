//! What a broker must not do is caught and named, whichever scenario meets it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod fake_broker;

use std::collections::BTreeMap;
use std::time::Duration;

use bench::{Load, Measured, Protocol, Quiet, SCENARIOS, Scale, Scenario, Stage, StartUp, Step, WarmUp, find_scenario};
use fake_broker::{FakeBroker, Fate, Manners};

/// Those that speak what the fake broker speaks.
fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().filter(|scenario| scenario.protocol() == Protocol::RocketMq)
}

/// A step made short, for a broker that is a thread of this test.
fn shortened(mut step: Step) -> Step {
    let shorten = |send: &mut bench::SendOptions| {
        (send.run.seconds, send.run.warm_up_seconds, send.answer_timeout_seconds) = (Some(0.2), 0.0, 0.3);
        (send.run.topics, send.window) = (send.run.topics.min(2), send.window.min(64));
        // What a thread of a test keeps up beside all others.
        send.pace = send.pace.min(1_000);
        send.message_sizes.iter_mut().for_each(|size| *size = (*size).min(4096));
    };
    match &mut step.load {
        Load::Send(send) => shorten(send),
        Load::Connect(send) => {
            shorten(send);
            (send.run.connections, send.run.threads) = (20, 4);
        }
        Load::Consume { fill, .. } | Load::Pop { fill, .. } => fill.run.count = Some(500),
        Load::Visible(visible) => {
            shorten(&mut visible.send);
            visible.consume.groups = visible.consume.groups.min(2);
        }
    }
    step
}

fn first_round(scenario: &Scenario, manners: Manners) -> Measured {
    let broker = FakeBroker::start(manners);
    let step = shortened(scenario.steps(Scale::Quick).into_iter().next().expect("a step"));
    let mut stage = Stage::new(broker.name_server(), Vec::new()).with_follow_within(Duration::from_millis(100));
    stage.perform(scenario.name, &step, &Quiet).expect("runs")
}

fn keeping() -> Manners {
    Manners { topics: BTreeMap::from([("TBW102".to_owned(), 4)]), keeps: true, ..Manners::default() }
}

fn is_reading(scenario: &Scenario) -> bool {
    !is_sending(scenario)
}

fn is_backlog(scenario: &Scenario) -> bool {
    is_popping(scenario) || matches!(scenario.steps(Scale::Quick)[0].load, Load::Consume { .. })
}

fn is_popping(scenario: &Scenario) -> bool {
    matches!(scenario.steps(Scale::Quick)[0].load, Load::Pop { .. })
}

fn is_sending(scenario: &Scenario) -> bool {
    matches!(scenario.steps(Scale::Quick)[0].load, Load::Send(_) | Load::Connect(_))
}

#[test]
fn a_broker_that_does_everything_right_has_no_problems() {
    for scenario in scenarios() {
        let measured = first_round(scenario, keeping());
        assert_eq!(measured.problems, Vec::<String>::new(), "{}", scenario.name);
        assert!(measured.messages > 0 && measured.messages_per_second > 0.0, "{}", scenario.name);
    }
}

#[test]
fn refused_and_unanswered_sends_are_named_with_their_number() {
    let has_sends = |scenario: &&Scenario| !is_backlog(scenario);
    for scenario in scenarios().filter(has_sends) {
        let refuses = Manners { fate: |number| if number == 0 { Fate::Refused(2) } else { Fate::Stored }, ..keeping() };
        let problems = first_round(scenario, refuses).problems.join("; ");
        assert!(
            problems.contains("refused with code 2") && problems.contains("no, thank you"),
            "{}: {problems}",
            scenario.name
        );
        let drops = Manners { fate: |number| if number == 0 { Fate::Dropped } else { Fate::Stored }, ..keeping() };
        let problems = first_round(scenario, drops).problems.join("; ");
        assert!(problems.contains("sends were never answered"), "{}: {problems}", scenario.name);
    }
}

#[test]
fn lost_doubled_and_reordered_messages_are_named_with_their_number() {
    for scenario in scenarios().filter(|scenario| is_reading(scenario)) {
        let loses = first_round(scenario, Manners { forgets: true, ..keeping() }).problems.join("; ");
        assert!(loses.contains("messages were lost"), "{}: {loses}", scenario.name);
        assert!(!is_backlog(scenario) || loses.contains("of 500 messages"), "{}: {loses}", scenario.name);
        let doubles = first_round(scenario, Manners { doubles: true, ..keeping() }).problems.join("; ");
        let told =
            if is_popping(scenario) { "messages came a second time" } else { "messages more came than were sent" };
        assert!(doubles.contains(told), "{}: {doubles}", scenario.name);
    }
    // Who pops is promised no order.
    for scenario in scenarios().filter(|scenario| is_reading(scenario) && !is_popping(scenario)) {
        let reorders = first_round(scenario, Manners { reorders: true, ..keeping() }).problems.join("; ");
        assert!(reorders.contains("out of their queue's order"), "{}: {reorders}", scenario.name);
    }
}

#[test]
fn a_slave_that_is_missing_or_does_not_have_everything_in_the_end_is_named() {
    let scenario = find_scenario("thread-sweep").expect("a scenario");
    let followed = first_round(scenario, keeping());
    assert!(followed.slaves_behind_seconds.is_some(), "{followed:?}");
    let lacks = first_round(scenario, Manners { slave_lacks: Some(7), ..keeping() });
    let problems = lacks.problems.join("; ");
    assert!(problems.contains("fake is not followed: 7 bytes of its log are not at 127.0.0.1"), "{problems}");
    assert_eq!(lacks.slaves_behind_seconds, None);
    let alone = Manners { slave_lacks: None, ..keeping() };
    assert_eq!(first_round(scenario, alone.clone()).problems, ["fake is not followed: no slave is registered"]);
    let without = find_scenario("sync-send").expect("a scenario");
    assert_eq!(first_round(without, alone).problems, Vec::<String>::new(), "where none was asked for");
}

#[test]
fn a_broker_that_delays_shows_it_in_the_time_from_when_a_message_was_due() {
    for scenario in scenarios().filter(|scenario| is_sending(scenario)) {
        let measured = first_round(scenario, Manners { delay_ms: 60, ..keeping() });
        let latency = measured.latency_ms.expect("measured");
        assert!(latency.max >= 60.0 && latency.p50 >= 60.0, "{}: {latency:?}", scenario.name);
    }
}

/// The warm-up of a scenario's first step, in slices of a fifth of a second.
fn warm_up(scenario: &Scenario, broker: &FakeBroker) -> WarmUp {
    let step = shortened(scenario.steps(Scale::Quick).into_iter().next().expect("a step"));
    let start_up = StartUp { slice: Duration::from_millis(200), slices_max: 60 };
    let mut stage = Stage::new(broker.name_server(), Vec::new());
    stage.warm_up(scenario.name, &step, start_up, &Quiet).expect("runs")
}

#[test]
fn a_broker_that_gets_faster_with_the_load_of_a_step_is_not_measured_before_it_is_warm() {
    let scenario = find_scenario("sync-send").expect("a scenario");
    // So much slower at first that no other load on the machine hides it.
    let broker = FakeBroker::start(Manners { cold_sends: 5, cold_ms: 100, ..keeping() });
    let warm_up = warm_up(scenario, &broker);
    assert!(broker.seen.lock().expect("not poisoned").sends > 5, "{warm_up:?}");
    let (first, last) = (warm_up.speeds.first().copied(), warm_up.speeds.last().copied());
    assert!(last > first.map(|first| first * 2.0), "{warm_up:?}");
}

#[test]
fn every_kind_of_load_is_put_on_a_broker_before_its_first_round() {
    for name in ["sync-send", "connection-storm", "two-consumers", "consume-while-producing", "pop"] {
        let broker = FakeBroker::start(keeping());
        let warm_up = warm_up(find_scenario(name).expect("a scenario"), &broker);
        assert!(warm_up.speeds.len() > 3 && warm_up.speeds.iter().all(|speed| *speed > 0.0), "{name}: {warm_up:?}");
    }
}

#[test]
fn a_round_in_which_nothing_went_well_is_a_problem() {
    let refuses = Manners { fate: |_| Fate::Refused(2), ..keeping() };
    for scenario in scenarios().filter(|scenario| is_sending(scenario)) {
        let measured = first_round(scenario, refuses.clone());
        assert_eq!((measured.messages_per_second, measured.latency_ms), (0.0, None), "{}", scenario.name);
        assert!(measured.problems.contains(&"no message went well in a round".to_owned()), "{}", scenario.name);
    }
}
