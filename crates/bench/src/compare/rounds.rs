//! Takes several brokers through the steps of scenarios in turn, each of them first as often as last: A B, B A. So what others do to
//! the machine hits all alike, and none always finds it as the other left it.

use std::thread;
use std::time::Duration;

use crate::compare::comparison::{CompareOptions, Comparison, PeerRounds, ScenarioResult, StepResult};
use crate::compare::measured::Measured;
use crate::compare::peer::{Cluster, Peer};
use crate::compare::scenario::load::Load;
use crate::compare::scenario::step::{BrokerNeeds, Pacing, Scenario, Step, Whose};
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

/// Compares; what was asked to stop gives what it has.
pub fn compare(options: &CompareOptions, sink: &dyn ProgressSink) -> Result<Comparison, BenchError> {
    options.peers.iter().try_for_each(|peer| check(peer, options))?;
    let machine = Machine::describe();
    let data = options.setup.work_folder().to_owned();
    let limit = limit::limit(LimitOptions { data, seconds: options.scale.limit_seconds() }, sink)?;
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

/// Fails early if a broker cannot be measured: it should run already and does not, or no scenario speaks what it speaks.
fn check(peer: &Peer, options: &CompareOptions) -> Result<(), BenchError> {
    peer.check()?;
    let mut steps = options.scenarios.iter().flat_map(|scenario| scenario.steps(options.scale));
    let is_spoken_to = steps.any(|step| peer.speaks(step.needs.protocol));
    if is_spoken_to { Ok(()) } else { Err(BenchError::NotSpoken { peer: peer.kind.name() }) }
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
    /// One for each broker, all of the same needs; nothing for one that does not speak what is spoken.
    stages: Vec<Option<(Cluster, Stage)>>,
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
        let of_length = |step: Step| self.options.backlog.map_or(step.clone(), |count| step.with_backlog(count));
        let steps: Vec<_> =
            scenario.steps(self.options.scale).into_iter().map(|step| (of_length(step), None)).collect();
        let pops = steps.iter().any(|(step, _)| matches!(step.load, Load::Pop { .. }));
        let speaks = |peer: &Peer| steps.iter().all(|(step, _)| peer.speaks(step.needs.protocol));
        // One that lacks what is measured is not taken through it.
        let has_given_up = self.options.peers.iter().map(|peer| !speaks(peer) || pops && !peer.has_pop()).collect();
        Plan { scenario, steps, has_given_up }
    }

    /// The steps of a scenario that ask for just that.
    fn steps_with(&mut self, needs: BrokerNeeds, plan: &mut Plan) -> Result<(), BenchError> {
        let Plan { scenario, steps, has_given_up } = plan;
        for at in 0..steps.len() {
            let Some((step, _)) = steps.get(at).filter(|(step, _)| step.needs == needs) else { continue };
            if self.sink.stop_requested() || has_given_up.iter().all(|gave_up| *gave_up) {
                return Ok(());
            }
            self.prepare(needs)?;
            let by_peer: Vec<Step> = (0..self.stages.len()).map(|peer| paced(step, steps, peer)).collect();
            let rounds = self.step(scenario, &by_peer, has_given_up)?;
            if let Some(limit_ms) = step.gives_up_above_ms {
                for (gave_up, (_, rounds)) in has_given_up.iter_mut().zip(&rounds) {
                    *gave_up |= !rounds.iter().any(|round| is_within(round, limit_ms));
                }
            }
            let found = StepResult::new(step, &self.options.peers, rounds);
            if let Some((_, result)) = steps.get_mut(at) {
                *result = Some(found);
            }
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
            if !peer.speaks(needs.protocol) {
                self.stages.push(None);
                continue;
            }
            self.sink.preparing(&format!("starting {peer}"));
            let cluster = peer.start(needs, &self.options.setup)?;
            if self.needs != Some(needs) {
                self.commands.extend(cluster.commands());
            }
            let stage = Stage::new(cluster.target()?, cluster.broker_pids()).with_data(cluster.data());
            stage.start_up(self.options.start_up().for_brokers(needs.brokers()), self.sink)?;
            self.stages.push(Some((cluster, stage)));
        }
        self.needs = Some(needs);
        Ok(())
    }

    /// All rounds of a step, by broker, each of which has its own form of it.
    fn step(
        &mut self,
        scenario: &Scenario,
        by_peer: &[Step],
        has_given_up: &[bool],
    ) -> Result<Vec<PeerRounds>, BenchError> {
        let mut rounds = vec![PeerRounds::default(); self.stages.len()];
        for at in turns(self.stages.len(), self.steps) {
            if has_given_up.get(at) != Some(&true) && !self.sink.stop_requested() {
                let warm_up = self.warm_up(scenario, by_peer, at)?;
                rounds.get_mut(at).into_iter().for_each(|(of_peer, _)| *of_peer = warm_up.clone());
            }
        }
        for round in 0..self.options.rounds {
            for at in turns(self.stages.len(), self.steps + round) {
                self.done += 1;
                if has_given_up.get(at) == Some(&true) || self.sink.stop_requested() {
                    continue;
                }
                let measured = self.round(scenario, by_peer, (at, round))?;
                rounds.get_mut(at).into_iter().for_each(|(_, of_peer)| of_peer.push(measured.clone()));
            }
        }
        self.steps += 1;
        Ok(rounds)
    }

    /// The load of the step on the broker at that index, until it gets no faster.
    fn warm_up(&mut self, scenario: &Scenario, by_peer: &[Step], at: usize) -> Result<WarmUp, BenchError> {
        let (Some(Some((cluster, stage))), Some(step)) = (self.stages.get_mut(at), by_peer.get(at)) else {
            return Ok(WarmUp::default());
        };
        self.sink.preparing(&format!("warming up: {}, {}, {}", scenario.name, step.label, cluster.peer));
        let warm_up = stage.warm_up(scenario.name, step, self.options.start_up(), self.sink);
        cluster.check_running()?;
        warm_up
    }

    fn round(
        &mut self,
        scenario: &Scenario,
        by_peer: &[Step],
        (at, round): (usize, usize),
    ) -> Result<Measured, BenchError> {
        let (Some(Some((cluster, stage))), Some(step)) = (self.stages.get_mut(at), by_peer.get(at)) else {
            return Ok(Measured::default());
        };
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

/// The step as the broker at that index is taken through it: with the pace that an earlier one gives.
fn paced(step: &Step, steps: &[(Step, Option<StepResult>)], peer: usize) -> Step {
    let Some(Pacing { of_step, share, whose }) = step.pacing else { return step.clone() };
    let found = steps.iter().filter_map(|(_, result)| result.as_ref()).find(|result| result.label == of_step);
    let rates: Vec<Option<f64>> = found.map_or_else(Vec::new, |found| {
        found.peers.iter().map(|peer| peer.typical().map(|round| round.messages_per_second)).collect()
    });
    let rate = match whose {
        Whose::Own => rates.get(peer).copied().flatten(),
        Whose::Slowest => rates.into_iter().flatten().min_by(f64::total_cmp),
    };
    let pace = rate.map(|rate| (rate * share).max(1.0) as u64);
    Step { load: pace.map_or(step.load.clone(), |pace| step.load.clone().paced(pace)), ..step.clone() }
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
    use crate::compare::example::round;
    use crate::load::options::SendOptions;

    #[test]
    fn brokers_begin_anew_before_they_fill_the_disk_but_not_where_others_have_filled_it() {
        let space = |used_gib: u64| DiskSpace { used: used_gib << 30, free: (100 - used_gib) << 30 };
        for (before, now, wanted) in [(20, 59, false), (20, 61, true), (60, 65, false), (60, 69, true)] {
            assert_eq!(is_filled(space(before), space(now)), wanted, "{before} GiB, then {now}");
        }
    }

    #[test]
    fn a_pace_is_a_share_of_what_an_earlier_step_found_of_the_broker_itself_or_of_the_slowest() {
        let peers = ["sluice", "rabbitmq"].map(|name| name.parse().expect("a broker"));
        let unpaced = || Load::Send(SendOptions::default());
        let found = |label, rates: [f64; 2]| {
            let step = Step::new(label, unpaced());
            let rounds = rates.map(|rate| (WarmUp::default(), vec![round(rate, 1.0)])).to_vec();
            let result = StepResult::new(&step, &peers, rounds);
            (step, Some(result))
        };
        let steps = [found("other", [1.0, 2.0]), found("first", [300_000.0, 20_000.0])];
        let paces = |pacing| {
            let step = Step { pacing, ..Step::new("second", unpaced()) };
            [0, 1].map(|peer| paced(&step, &steps, peer).load.pace())
        };
        let pacing = |share, whose| Some(Pacing { of_step: "first", share, whose });
        assert_eq!(paces(None), [0, 0]);
        assert_eq!(paces(pacing(0.5, Whose::Own)), [150_000, 10_000]);
        assert_eq!(paces(pacing(1.0, Whose::Slowest)), [20_000, 20_000]);
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
