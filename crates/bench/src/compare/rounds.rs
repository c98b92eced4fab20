//! Takes several brokers through the steps of scenarios in turn, each of them first as often as last: A B, B A. So what others do to
//! the machine hits all alike, and none always finds it as the other left it.

use std::thread;
use std::time::Duration;

use crate::compare::comparison::{CompareOptions, Comparison, PeerRounds, ScenarioResult, StepResult};
use crate::compare::measured::Measured;
use crate::compare::peer::{Cluster, Peer};
use crate::compare::scenario::step::{BrokerNeeds, Load, Scenario, Step};
use crate::compare::stage::Stage;
use crate::compare::start_up::WarmUp;
use crate::error::BenchError;
use crate::limit;
use crate::limit::report::LimitOptions;
use crate::load::progress::ProgressSink;
use crate::machine::Machine;
use crate::machine::disk_space::DiskSpace;

/// After a round, before the next: the disk has time to take what was written.
const REST: Duration = Duration::from_millis(500);
/// A disk that is fuller than this, in percent, is given back what the brokers wrote: some remove messages by themselves from 75 % on,
/// and refuse more from 90 % on.
const DISK_USED_MAX_PERCENT: f64 = 60.0;
/// Brokers that have written less than this, in bytes, are not started again: there would be little to gain.
const WRITTEN_MIN: u64 = 8 << 30;
/// Seconds of each measurement of the machine's own limit.
const LIMIT_SECONDS: f64 = 1.0;

/// Compares; what was asked to stop gives what it has.
pub fn compare(options: &CompareOptions, sink: &dyn ProgressSink) -> Result<Comparison, BenchError> {
    options.peers.iter().try_for_each(Peer::check)?;
    let machine = Machine::describe();
    let data = options.setup.work_folder().to_owned();
    let limit = limit::limit(LimitOptions { data, seconds: LIMIT_SECONDS }, sink)?;
    let all: usize = options.scenarios.iter().map(|scenario| scenario.steps(options.scale).len()).sum();
    let all = all * options.rounds * options.peers.len();
    let mut run = Run {
        options,
        sink,
        done: 0,
        all,
        steps: 0,
        stages: Vec::new(),
        needs: None,
        space: None,
        commands: Vec::new(),
    };
    let results = run.scenarios()?;
    let Run { commands, .. } = run;
    Ok(Comparison::new(options, machine, limit, commands, results))
}

/// A scenario, and how far it has come.
struct Plan {
    scenario: &'static Scenario,
    steps: Vec<(Step, Option<StepResult>)>,
    /// Which brokers have left it.
    has_given_up: Vec<bool>,
}

impl Plan {
    /// What was found, if anything was.
    fn result(self) -> Option<ScenarioResult> {
        let Scenario { name, sentence, source, .. } = *self.scenario;
        let steps: Vec<_> = self.steps.into_iter().filter_map(|(_, result)| result).collect();
        (!steps.is_empty()).then_some(ScenarioResult { name, sentence, source, steps })
    }
}

/// What the steps ask of brokers, in the order in which they first ask.
fn needs_of(plans: &[Plan]) -> Vec<BrokerNeeds> {
    let mut all = Vec::new();
    for (step, _) in plans.iter().flat_map(|plan| &plan.steps) {
        if !all.contains(&step.needs) {
            all.push(step.needs);
        }
    }
    all
}

/// A comparison under way.
struct Run<'a> {
    options: &'a CompareOptions,
    sink: &'a dyn ProgressSink,
    done: usize,
    all: usize,
    /// Steps that were begun.
    steps: usize,
    /// One for each broker, all of the same needs.
    stages: Vec<(Cluster, Stage)>,
    needs: Option<BrokerNeeds>,
    /// The disk as it was before they were started.
    space: Option<DiskSpace>,
    commands: Vec<String>,
}

impl Run<'_> {
    /// All steps, those with the same needs one after the other: a broker that was just started is slow for long.
    fn scenarios(&mut self) -> Result<Vec<ScenarioResult>, BenchError> {
        let scenarios = &self.options.scenarios;
        let mut plans: Vec<Plan> = scenarios.iter().map(|scenario| self.plan(scenario)).collect();
        for needs in needs_of(&plans) {
            for plan in &mut plans {
                self.steps_with(needs, plan)?;
            }
        }
        Ok(plans.into_iter().filter_map(Plan::result).collect())
    }

    fn plan(&self, scenario: &'static Scenario) -> Plan {
        let steps: Vec<_> = scenario.steps(self.options.scale).into_iter().map(|step| (step, None)).collect();
        let pops = steps.iter().any(|(step, _)| matches!(step.load, Load::Pop { .. }));
        // One that lacks what is measured is not taken through it.
        let has_given_up = self.options.peers.iter().map(|peer| pops && !peer.has_pop()).collect();
        Plan { scenario, steps, has_given_up }
    }

    /// The steps of a scenario that ask for just that.
    fn steps_with(&mut self, needs: BrokerNeeds, plan: &mut Plan) -> Result<(), BenchError> {
        let Plan { scenario, steps, has_given_up } = plan;
        for (step, result) in steps.iter_mut().filter(|(step, _)| step.needs == needs) {
            if self.sink.stop_requested() || has_given_up.iter().all(|gave_up| *gave_up) {
                return Ok(());
            }
            self.prepare(needs)?;
            let rounds = self.step(scenario, step, has_given_up)?;
            if let Some(limit_ms) = step.gives_up_above_ms {
                for (gave_up, (_, rounds)) in has_given_up.iter_mut().zip(&rounds) {
                    *gave_up |= !rounds.iter().any(|round| is_within(round, limit_ms));
                }
            }
            *result = Some(StepResult::new(step, &self.options.peers, rounds));
        }
        Ok(())
    }

    /// Has brokers of those needs running, with empty directories if they were not, or if they have filled the disk.
    fn prepare(&mut self, needs: BrokerNeeds) -> Result<(), BenchError> {
        let space = || DiskSpace::of(self.options.setup.work_folder());
        if self.needs == Some(needs) && !self.space.zip(space()).is_some_and(|(before, now)| is_filled(before, now)) {
            return Ok(());
        }
        self.stages.clear();
        self.space = DiskSpace::of(self.options.setup.work_folder());
        for peer in &self.options.peers {
            self.sink.preparing(&format!("starting {peer}"));
            let cluster = peer.start(needs, &self.options.setup)?;
            if self.needs != Some(needs) {
                self.commands.extend(cluster.commands());
            }
            let stage = Stage::new(cluster.target()?, cluster.broker_pids()).with_data(cluster.data());
            stage.start_up(self.options.scale.start_up().for_brokers(needs.brokers()), self.sink)?;
            self.stages.push((cluster, stage));
        }
        self.needs = Some(needs);
        Ok(())
    }

    /// All rounds of a step, by broker.
    fn step(&mut self, scenario: &Scenario, step: &Step, has_given_up: &[bool]) -> Result<Vec<PeerRounds>, BenchError> {
        let mut rounds = vec![PeerRounds::default(); self.stages.len()];
        for at in turns(self.stages.len(), self.steps) {
            if has_given_up.get(at) != Some(&true) && !self.sink.stop_requested() {
                let warm_up = self.warm_up(scenario, step, at)?;
                rounds.get_mut(at).into_iter().for_each(|(of_peer, _)| *of_peer = warm_up.clone());
            }
        }
        for round in 0..self.options.rounds {
            for at in turns(self.stages.len(), self.steps + round) {
                self.done += 1;
                if has_given_up.get(at) == Some(&true) || self.sink.stop_requested() {
                    continue;
                }
                let measured = self.round(scenario, step, (at, round))?;
                rounds.get_mut(at).into_iter().for_each(|(_, of_peer)| of_peer.push(measured.clone()));
            }
        }
        self.steps += 1;
        Ok(rounds)
    }

    /// The load of the step on the broker at that index, until it gets no faster.
    fn warm_up(&mut self, scenario: &Scenario, step: &Step, at: usize) -> Result<WarmUp, BenchError> {
        let Some((cluster, stage)) = self.stages.get_mut(at) else { return Ok(WarmUp::default()) };
        self.sink.preparing(&format!("warming up: {}, {}, {}", scenario.name, step.label, cluster.peer));
        let warm_up = stage.warm_up(scenario.name, step, self.options.scale.start_up(), self.sink);
        cluster.check_running()?;
        warm_up
    }

    fn round(&mut self, scenario: &Scenario, step: &Step, (at, round): (usize, usize)) -> Result<Measured, BenchError> {
        let Some((cluster, stage)) = self.stages.get_mut(at) else { return Ok(Measured::default()) };
        let what = format!("{}, {}, {}", scenario.name, step.label, cluster.peer);
        let number = if self.options.rounds > 1 { format!(", round {}", round + 1) } else { String::new() };
        self.sink.round(&(what + &number), self.done, self.all);
        rustix::fs::sync();
        thread::sleep(REST);
        let measured = stage.perform(scenario.name, step, self.sink);
        cluster.check_running()?;
        measured
    }
}

/// Whether brokers that found the disk as `before` have filled it too far.
fn is_filled(before: DiskSpace, now: DiskSpace) -> bool {
    now.used_percent() > DISK_USED_MAX_PERCENT && now.used.saturating_sub(before.used) > WRITTEN_MIN
}

/// The indexes of `count` brokers in the order in which they take the turn with this number: forwards, then backwards.
fn turns(count: usize, turn: usize) -> Vec<usize> {
    if turn.is_multiple_of(2) { (0..count).collect() } else { (0..count).rev().collect() }
}

fn is_within(measured: &Measured, limit_ms: f64) -> bool {
    let pace_is_held = measured.problems.is_empty();
    pace_is_held && measured.latency_ms.as_ref().is_some_and(|latency| latency.p99 <= limit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_begin_anew_before_they_fill_the_disk_but_not_where_others_have_filled_it() {
        let space = |used_gib: u64| DiskSpace { used: used_gib << 30, free: (100 - used_gib) << 30 };
        for (before, now, wanted) in [(20, 59, false), (20, 61, true), (60, 65, false), (60, 69, true)] {
            assert_eq!(is_filled(space(before), space(now)), wanted, "{before} GiB, then {now}");
        }
    }

    #[test]
    fn each_broker_is_first_as_often_as_last() {
        let order: Vec<_> = (0..4).map(|round| turns(2, round)).collect();
        assert_eq!(order, [[0, 1], [1, 0], [0, 1], [1, 0]]);
        // With three rounds a step, whoever is first in two of them is last in two of the next step's.
        let first_of = |step: usize| (0..3).filter(|round| turns(2, step + round)[0] == 0).count();
        assert_eq!((first_of(0), first_of(1)), (2, 1));
    }
}
