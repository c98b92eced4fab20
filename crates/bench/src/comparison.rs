//! What a comparison found: a value that JSON, CSV, the table and the page are made of.

use std::fmt;

use serde::Serialize;

use crate::clock::wall_ms;
use crate::compare::CompareOptions;
use crate::machine::Machine;
use crate::measured::Measured;
use crate::peer::Peer;
use crate::report::{LimitReport, to_json};
use crate::scenario::{BrokerNeeds, FieldFigures, Scale, Step};

/// Version of the JSON: it changes whenever a field changes its meaning or goes. What each field means stands in
/// `docs/benchmarks.md`.
pub const SCHEMA: &str = "sluice-bench-comparison/1";

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
    /// Round by round; none if it was not taken through this step.
    pub rounds: Vec<Measured>,
    /// The first broker's rate over this one's, round by round; nothing for the first itself.
    pub ratio: Option<Ratio>,
    /// This one's 99th percentile over the first broker's, round by round; nothing for the first itself and where latencies are
    /// not measured.
    pub p99_ratio: Option<Ratio>,
}

/// Ratios of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The least.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Ratio {
    /// Of several; `None` of none.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, *sorted.get(middle)?)
        } else {
            *sorted.get(middle)?
        };
        Some(Self { min: *sorted.first()?, median, max: *sorted.last()? })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.min, self.max)
    }
}

impl PeerResult {
    /// The round whose rate is the middle one: its figures stand for the broker.
    pub fn typical(&self) -> Option<&Measured> {
        let mut rounds: Vec<_> = self.rounds.iter().collect();
        rounds.sort_by(|one, other| one.messages_per_second.total_cmp(&other.messages_per_second));
        rounds.get(rounds.len().saturating_sub(1) / 2).copied()
    }

    /// Everything that went wrong, each thing once.
    pub fn problems(&self) -> Vec<&str> {
        let mut problems: Vec<&str> = Vec::new();
        for problem in self.rounds.iter().flat_map(|round| &round.problems) {
            if !problems.contains(&problem.as_str()) {
                problems.push(problem);
            }
        }
        problems
    }
}

impl StepResult {
    pub(crate) fn new(step: &Step, peers: &[Peer], rounds: Vec<Vec<Measured>>) -> Self {
        let first = rounds.first().cloned().unwrap_or_default();
        let result = |(at, (peer, rounds)): (usize, (&Peer, Vec<Measured>))| {
            let ratio_of = |figures: fn(&Measured, &Measured) -> Option<(f64, f64)>| {
                let figures = first.iter().zip(&rounds).filter_map(|(first, other)| figures(first, other));
                let ratios: Vec<f64> =
                    figures.filter(|&(_, below)| below > 0.0).map(|(above, below)| above / below).collect();
                Ratio::of(&ratios).filter(|_| at > 0)
            };
            let ratio = ratio_of(|first, other| Some((first.messages_per_second, other.messages_per_second)));
            let p99_ratio =
                ratio_of(|first, other| Some((other.latency_ms.as_ref()?.p99, first.latency_ms.as_ref()?.p99)));
            PeerResult { peer: peer.clone(), rounds, ratio, p99_ratio }
        };
        Self {
            label: step.label.clone(),
            field: step.field,
            remark: step.remark,
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
            "broker_resident_max_mib",
            "broker_written_mib",
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
                        &number(measured.broker_resident_max_mib),
                        &number(measured.broker_written_mib),
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

    #[test]
    fn a_ratio_is_that_of_the_middle() {
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[2.0]), Some(Ratio { min: 2.0, median: 2.0, max: 2.0 }));
        assert_eq!(Ratio::of(&[3.0, 1.0, 2.0]), Some(Ratio { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Ratio::of(&[4.0, 1.0, 2.0, 3.0]), Some(Ratio { min: 1.0, median: 2.5, max: 4.0 }));
    }
}
