//! A comparison that was never made, with everything in it that a report has to show: for the tests of reports.

use std::path::PathBuf;

use crate::compare::comparison::{CompareOptions, Comparison, ScenarioResult, StepResult};
use crate::compare::measured::Measured;
use crate::compare::peer::Peer;
use crate::compare::peer::process::PeerSetup;
use crate::compare::scenario::load::Load;
use crate::compare::scenario::scale::Scale;
use crate::compare::scenario::step::{FieldFigures, Step};
use crate::compare::start_up::WarmUp;
use crate::limit::report::{LimitOptions, LimitReport};
use crate::load::latency::LatencySummary;
use crate::load::options::SendOptions;
use crate::load::progress::Second;
use crate::machine::Machine;

/// Sluice beside RocketMQ: a step it is faster in, one it is slower in with everything to be remarked, one in which the other
/// stood still.
pub fn comparison() -> Comparison {
    let rounds = |rates: [f64; 3]| rates.map(|rate| round(rate, 100.0)).to_vec();
    let mut odd = rounds([1_000.0, 1_100.0, 1_050.0]);
    for round in &mut odd {
        round.success_percent = Some(96.604);
        round.problems = vec!["7 sends were refused with code 2 (SYSTEM_BUSY): [*] queue_is <full>".to_owned()];
        round.generator_was_limit = true;
        round.drift_percent = Some(-40.0);
    }
    let rising = WarmUp { speeds: vec![1.0, 2.0, 3.0], was_rising: true };
    let steps = vec![
        step("fast", (WarmUp::default(), rounds([240_000.0; 3])), (WarmUp::default(), rounds([80_000.0; 3]))),
        step("slow", (WarmUp::default(), odd), (rising, rounds([1_000.0, 1_500.0, 2_250.0]))),
        step("still", (WarmUp::default(), rounds([500.0; 3])), (WarmUp::default(), rounds([0.0; 3]))),
    ];
    let scenario = ScenarioResult {
        name: "made-up",
        sentence: "Messages that nobody sent: does the report tell what became of them?",
        source: "N2",
        steps,
    };
    let machine = Machine {
        processor: "A processor".to_owned(),
        processors: 2,
        memory_mib: 24_105,
        kernel: "6.1".to_owned(),
        load_before: 0.0,
    };
    let limit = LimitOptions { data: PathBuf::from("/"), seconds: 1.0 };
    let options = CompareOptions {
        warm_up_max: None,
        scenarios: Vec::new(),
        peers: peers(),
        scale: Scale::Quick,
        rounds: 3,
        backlog: None,
        setup: PeerSetup::default(),
        command: "sluice bench compare made-up".to_owned(),
    };
    let limit = LimitReport::new(limit, machine.clone(), Vec::new());
    Comparison::new(&options, machine, limit, vec!["sluice serve".to_owned()], vec![scenario])
}

fn peers() -> Vec<Peer> {
    ["sluice", "rocketmq"].map(|name| name.parse().expect("a broker")).into()
}

fn step(label: &str, first: (WarmUp, Vec<Measured>), other: (WarmUp, Vec<Measured>)) -> StepResult {
    let mut step = Step::new(label, Load::Send(SendOptions::default()));
    step.field =
        Some(FieldFigures { messages_per_second: 46_285.46, success_percent: Some(96.6), ..Default::default() });
    step.remark = Some("one broker without a replica");
    StepResult::new(&step, &peers(), vec![first, other])
}

/// A round with that rate, of a broker that holds `own_mib` of memory and has ten times as much of its files in memory.
pub fn round(rate: f64, own_mib: f64) -> Measured {
    let p99 = 10_000.0 / rate;
    let latency = LatencySummary {
        count: 1,
        min: p99 / 9.0,
        mean: p99 / 3.0,
        p50: p99 / 4.0,
        p90: p99 / 2.0,
        p99,
        p99_9: p99 * 2.0,
        max: p99 * 10.0,
    };
    let second = |at| Second { at_seconds: f64::from(at), messages_per_second: rate, ..Second::default() };
    Measured {
        messages: rate as u64,
        seconds: 1.0,
        messages_per_second: rate,
        success_percent: Some(100.0),
        latency_ms: (rate > 0.0).then_some(latency),
        broker_cpu_seconds_per_million: Some(18.4),
        broker_own_max_mib: Some(own_mib),
        broker_page_cache_mib: Some(own_mib * 10.0),
        broker_resident_max_mib: Some(own_mib * 11.0),
        broker_written_mib: Some(12_345.0),
        series: (1..5).map(second).collect(),
        ..Measured::default()
    }
}
