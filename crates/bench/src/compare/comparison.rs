//! What shall be compared, and what was found: a value that JSON, CSV, the table and the page are made of.

use std::time::Duration;

use serde::Serialize;

use crate::compare::measured::Measured;
use crate::compare::peer::Peer;
use crate::compare::peer::process::PeerSetup;
use crate::compare::ratio::Ratio;
use crate::compare::scenario::scale::Scale;
use crate::compare::scenario::step::{BrokerNeeds, FieldFigures, Scenario, Step};
use crate::compare::start_up::StartUp;
use crate::compare::start_up::WarmUp;
use crate::limit::report::LimitReport;
use crate::load::report::to_json;
use crate::machine::Machine;
use crate::machine::clock::wall_ms;

/// Version of the JSON: it changes whenever a field changes its meaning or goes. What each field means stands in
/// `docs/bench.md`.
pub const SCHEMA: &str = "sluice-bench-comparison/2";

/// A round is clearly faster than another if it is above it by more than this.
const RISE: f64 = 1.05;

/// What shall be compared.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// What is measured.
    pub scenarios: Vec<&'static Scenario>,
    /// The brokers; the first is the one the others are held against.
    pub peers: Vec<Peer>,
    /// How thorough it is.
    pub scale: Scale,
    /// Rounds of each step.
    pub rounds: usize,
    /// Messages of a backlog that stands in the queues that are measured; without a number, as many as the scenario says.
    pub backlog: Option<u64>,
    /// How long a warm-up takes at most; without one, as long as the scale says.
    pub warm_up_max: Option<Duration>,
    /// How brokers are started.
    pub setup: PeerSetup,
    /// The command line, for the report.
    pub command: String,
}

impl CompareOptions {
    /// Load before anything is measured.
    pub(super) fn start_up(&self) -> StartUp {
        let start_up = self.scale.start_up();
        self.warm_up_max.map_or(start_up, |most| start_up.within(most))
    }
}

/// Everything a comparison found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `SCHEMA`.
    pub schema: &'static str,
    /// Version of the tool.
    pub tool: &'static str,
    /// When it ended, ms since 1970.
    pub ended_ms: u64,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// What the machine itself can do, measured just before.
    pub limit: LimitReport,
    /// How thorough it was.
    pub scale: Scale,
    /// Rounds of each step.
    pub rounds: usize,
    /// The brokers, in the order of every list below.
    pub peers: Vec<Peer>,
    /// How they were started.
    pub broker_commands: Vec<String>,
    /// What was measured.
    pub scenarios: Vec<ScenarioResult>,
}

/// One scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioResult {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub sentence: &'static str,
    /// The field note it replays.
    pub source: &'static str,
    /// Its lines.
    pub steps: Vec<StepResult>,
}

/// One line of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepResult {
    /// What is different here.
    pub label: String,
    /// What the field note says.
    pub field: Option<FieldFigures>,
    /// How this differs from its set-up.
    pub remark: Option<&'static str>,
    /// Label of an earlier step, of which each broker's own rate there stands beside that of this one.
    pub beside_step: Option<&'static str>,
    /// What was asked of the brokers.
    pub needs: BrokerNeeds,
    /// What each broker did.
    pub peers: Vec<PeerResult>,
}

/// What one broker did in all rounds of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerResult {
    /// Which.
    pub peer: Peer,
    /// What went before the rounds.
    pub warm_up: WarmUp,
    /// Round by round; none if it was not taken through this step.
    pub rounds: Vec<Measured>,
    /// The first broker's rate over this one's, round by round; nothing for the first itself.
    pub ratio: Option<Ratio>,
    /// This one's 99th percentile over the first broker's, round by round; nothing for the first itself and where latencies are
    /// not measured. Whoever answered nothing takes for ever.
    pub p99_ratio: Option<Ratio>,
}

impl PeerResult {
    /// The round whose rate is the middle one: its figures stand for the broker.
    pub fn typical(&self) -> Option<&Measured> {
        let mut rounds: Vec<_> = self.rounds.iter().collect();
        rounds.sort_by(|one, other| one.messages_per_second.total_cmp(&other.messages_per_second));
        rounds.get(rounds.len().saturating_sub(1) / 2).copied()
    }

    /// Everything that went wrong, each kind of thing once: with the numbers of the first round that has it, and in how many it was.
    pub fn problems(&self) -> Vec<String> {
        let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
        for problem in self.rounds.iter().flat_map(|round| &round.problems) {
            let kind = problem.replace(|letter: char| letter.is_ascii_digit(), "");
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, of_kind)) => of_kind.push(problem),
                None => kinds.push((kind, vec![problem])),
            }
        }
        let told = |(_, of_kind): (String, Vec<&str>)| {
            let first = of_kind.first().copied().unwrap_or_default();
            let is_one = of_kind.iter().all(|problem| *problem == first);
            if is_one { first.to_owned() } else { format!("in {} rounds, first: {first}", of_kind.len()) }
        };
        kinds.into_iter().map(told).collect()
    }

    /// Whether each round was clearly faster than the one before it, which a broker that was warm is not.
    pub fn is_rising(&self) -> bool {
        let mut pairs = self.rounds.windows(2).filter_map(|pair| Some((pair.first()?, pair.get(1)?)));
        let is_faster = |(one, next): (&Measured, &Measured)| next.messages_per_second > one.messages_per_second * RISE;
        self.rounds.len() > 2 && pairs.all(is_faster)
    }
}

/// Of a step that was taken: what each broker's rounds were, after which warm-up.
pub(crate) type PeerRounds = (WarmUp, Vec<Measured>);

impl StepResult {
    pub(crate) fn new(step: &Step, peers: &[Peer], rounds: Vec<PeerRounds>) -> Self {
        let first: Vec<Measured> = rounds.first().map(|(_, rounds)| rounds.clone()).unwrap_or_default();
        let result = |(at, (peer, (warm_up, rounds))): (usize, (&Peer, PeerRounds))| {
            let ratio_of = |ratio: fn(&Measured, &Measured) -> Option<f64>| {
                let ratios: Vec<f64> =
                    first.iter().zip(&rounds).filter_map(|(first, other)| ratio(first, other)).collect();
                Ratio::of(&ratios).filter(|_| at > 0)
            };
            let ratio = ratio_of(|first, other| Some(first.messages_per_second / other.messages_per_second));
            let p99_ratio = ratio_of(|first, other| Some(other.p99_ms()? / first.p99_ms()?));
            PeerResult { peer: peer.clone(), warm_up, rounds, ratio, p99_ratio }
        };
        Self {
            label: step.label.clone(),
            field: step.field,
            remark: step.remark,
            beside_step: step.beside_step,
            needs: step.needs,
            peers: peers.iter().zip(rounds).enumerate().map(result).collect(),
        }
    }
}

impl Comparison {
    pub(crate) fn new(
        options: &CompareOptions,
        machine: Machine,
        limit: LimitReport,
        broker_commands: Vec<String>,
        scenarios: Vec<ScenarioResult>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            tool: env!("CARGO_PKG_VERSION"),
            ended_ms: wall_ms(),
            command: options.command.clone(),
            machine,
            limit,
            scale: options.scale,
            rounds: options.rounds,
            peers: options.peers.clone(),
            broker_commands,
            scenarios,
        }
    }

    /// Everything as JSON.
    pub fn json(&self) -> String {
        to_json(self)
    }

    /// One line for each round of each broker.
    pub fn csv(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record([
            "scenario",
            "source",
            "step",
            "peer",
            "version",
            "round",
            "messages_per_second",
            "success_percent",
            "latency_of",
            "mean_ms",
            "p50_ms",
            "p99_ms",
            "p99_9_ms",
            "max_ms",
            "broker_cpu_seconds_per_million",
            "broker_own_max_mib",
            "broker_page_cache_mib",
            "broker_resident_max_mib",
            "broker_written_mib",
            "slaves_behind_seconds",
            "generator_percent",
            "problems",
        ])?;
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for scenario in &self.scenarios {
            for (step, peer) in scenario.steps.iter().flat_map(|step| step.peers.iter().map(move |peer| (step, peer))) {
                for (round, measured) in (1..).zip(&peer.rounds) {
                    let latency = measured.latency_ms.as_ref();
                    writer.write_record([
                        scenario.name,
                        scenario.source,
                        &step.label,
                        peer.peer.kind.name(),
                        &peer.peer.version,
                        &i32::to_string(&round),
                        &measured.messages_per_second.to_string(),
                        &number(measured.success_percent),
                        measured.latency_of,
                        &number(latency.map(|latency| latency.mean)),
                        &number(latency.map(|latency| latency.p50)),
                        &number(latency.map(|latency| latency.p99)),
                        &number(latency.map(|latency| latency.p99_9)),
                        &number(latency.map(|latency| latency.max)),
                        &number(measured.broker_cpu_seconds_per_million),
                        &number(measured.broker_own_max_mib),
                        &number(measured.broker_page_cache_mib),
                        &number(measured.broker_resident_max_mib),
                        &number(measured.broker_written_mib),
                        &number(measured.slaves_behind_seconds),
                        &measured.generator_percent.to_string(),
                        &measured.problems.join("; "),
                    ])?;
                }
            }
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::scenario::load::Load;
    use crate::compare::scenario::step::Step;
    use crate::load::latency::LatencySummary;

    fn round(rate: f64) -> Measured {
        let p99 = 1000.0 / rate;
        let latency = LatencySummary { count: 1, min: p99, mean: p99, p50: p99, p90: p99, p99, p99_9: p99, max: p99 };
        Measured {
            messages: rate as u64,
            messages_per_second: rate,
            latency_ms: (rate > 0.0).then_some(latency),
            ..Measured::default()
        }
    }

    fn results(first: &[f64], other: &[f64]) -> StepResult {
        let step = Step::new("a step", Load::Send(crate::load::options::SendOptions::default()));
        let peers: Vec<Peer> = ["sluice", "rocketmq"].map(|name| name.parse().expect("a broker")).into();
        let rounds = [first, other].map(|rates| (WarmUp::default(), rates.iter().map(|&rate| round(rate)).collect()));
        StepResult::new(&step, &peers, rounds.into())
    }

    #[test]
    fn what_went_wrong_in_several_rounds_is_told_once() {
        let mut peer = results(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]).peers.remove(0);
        for (round, problems) in
            peer.rounds.iter_mut().zip([&["7 sends refused", "late"][..], &["late"], &["12 sends refused"]])
        {
            round.problems = problems.iter().map(|problem| (*problem).to_owned()).collect();
        }
        assert_eq!(peer.problems(), ["in 2 rounds, first: 7 sends refused", "late"]);
    }

    #[test]
    fn a_round_in_which_a_broker_did_nothing_is_not_left_out() {
        let other = results(&[100.0, 100.0, 100.0], &[50.0, 0.0, 0.0]).peers.remove(1);
        let ratio = other.ratio.expect("a ratio");
        assert_eq!((ratio.min, ratio.median, ratio.max), (2.0, f64::INFINITY, f64::INFINITY));
        let slower = other.p99_ratio.expect("a ratio");
        assert_eq!((slower.min, slower.median), (2.0, f64::INFINITY));
        let first_stood = results(&[0.0, 100.0], &[50.0, 50.0]).peers.remove(1);
        assert_eq!(first_stood.ratio.map(|ratio| (ratio.min, ratio.max)), Some((0.0, 2.0)));
        assert_eq!(first_stood.p99_ratio.map(|ratio| ratio.min), Some(0.0));
        assert_eq!(results(&[0.0], &[0.0]).peers.remove(1).ratio, None);
    }

    #[test]
    fn rounds_that_rise_one_after_the_other_are_told_from_rounds_that_wander() {
        let is_rising = |rates: &[f64]| results(rates, &[]).peers.remove(0).is_rising();
        assert!(is_rising(&[100.0, 120.0, 150.0]));
        assert!(!is_rising(&[100.0, 120.0, 118.0]) && !is_rising(&[100.0, 102.0, 104.0]) && !is_rising(&[1.0, 2.0]));
    }
}
