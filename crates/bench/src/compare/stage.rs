//! One broker taken through one round of a step.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use client::target::Target;

use crate::compare::measured::Measured;
use crate::compare::scenario::load::Load;
use crate::compare::scenario::step::Step;
use crate::compare::start_up::{StartUp, WarmUp};
use crate::driver::{Driver, Spoken, driver_of};
use crate::error::BenchError;
use crate::load::opener::Held;
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions, StartFrom, VisibleOptions};
use crate::load::pop_options::PopOptions;
use crate::load::progress::ProgressSink;
use crate::machine::clock::{Clock, wall_ms};

/// Idle connections being opened at any moment.
const OPENED_AT_ONCE: usize = 16;

/// Sends in flight on each connection before anything is measured.
const START_UP_WINDOW: usize = 128;
const START_UP_TOPIC: &str = "bench-start-up";

/// Slaves that lack something for longer when a load has ended do not keep up with it.
const FOLLOW_WITHIN: Duration = Duration::from_secs(10);

/// A backlog is read no more often than this for one figure.
const PASSES_MAX: usize = 100;

/// A broker, or a cluster of them, on which steps are performed.
#[derive(Debug)]
pub struct Stage {
    target: Target,
    broker_pids: Vec<u32>,
    broker_data: Vec<PathBuf>,
    /// How long slaves may take for what they lack when a load has ended.
    follow_within: Duration,
    /// Topics that have their backlog, and how many messages the broker took of it.
    filled: HashMap<String, u64>,
    /// Groups that have popped.
    poppers: u64,
}

impl Stage {
    /// What listens at `target`; of `broker_pids` memory and CPU are recorded.
    pub fn new(target: Target, broker_pids: Vec<u32>) -> Self {
        let (broker_data, follow_within, filled) = (Vec::new(), FOLLOW_WITHIN, HashMap::new());
        Self { target, broker_pids, broker_data, follow_within, filled, poppers: 0 }
    }

    /// The same; slaves may be behind for no longer than that when a load has ended.
    pub fn with_follow_within(self, limit: Duration) -> Self {
        Self { follow_within: limit, ..self }
    }

    /// The same; what of the files in `data` is in the page cache is recorded too.
    pub fn with_data(self, data: Vec<PathBuf>) -> Self {
        Self { broker_data: data, ..self }
    }

    /// Load that nobody measures, until a broker that was just started is as fast as it gets: sends, then reads of what was sent.
    pub fn start_up(&self, start_up: StartUp, sink: &dyn ProgressSink) -> Result<(), BenchError> {
        let (driver, seconds) = (driver_of(&self.target, Spoken::default()), Some(start_up.slice.as_secs_f64()));
        let run = RunOptions { queues: Some(4), seconds, ..RunOptions::default() };
        let load = SendOptions { run: run.clone(), window: START_UP_WINDOW, ..SendOptions::default() };
        let (clock, mut rates) = (Clock::start(), Vec::new());
        while start_up.goes_on(&rates, clock.elapsed()) && !sink.stop_requested() {
            let report = driver.send(self.aimed(&load, START_UP_TOPIC), sink)?;
            rates.push(report.totals.messages_per_second);
        }
        if sink.stop_requested() {
            // Nothing may have been sent, and so there may be no topic.
            return Ok(());
        }
        let read = ConsumeOptions { run, until_empty: true, ..ConsumeOptions::default() };
        driver.consume(self.reading(&read, START_UP_TOPIC), sink).map(drop)
    }

    /// The load of `step` itself, a slice at a time, until the broker gets no faster with it: one that is warm for sends over a few
    /// connections is not yet warm for reads, or for a cluster.
    pub fn warm_up(
        &mut self,
        scenario: &str,
        step: &Step,
        start_up: StartUp,
        sink: &dyn ProgressSink,
    ) -> Result<WarmUp, BenchError> {
        let _held = self.set_up(scenario, step, sink)?;
        let start_up = start_up.for_brokers(step.needs.brokers());
        let slice = step.load.for_seconds(start_up.slice.as_secs_f64());
        let (clock, mut speeds) = (Clock::start(), Vec::new());
        while start_up.goes_on(&speeds, clock.elapsed()) && !sink.stop_requested() {
            let measured = self.put(scenario, step, &slice, sink)?;
            speeds.push(speed_of(&measured, slice.pace()));
        }
        if step.needs.has_slaves() {
            // What they lack after that is told of the first round.
            let _ = self.driver(step).wait_until_followed(&self.target, self.follow_within);
        }
        Ok(WarmUp::of(speeds))
    }

    /// One round of `step` of the scenario named `scenario`.
    pub fn perform(&mut self, scenario: &str, step: &Step, sink: &dyn ProgressSink) -> Result<Measured, BenchError> {
        let _held = self.set_up(scenario, step, sink)?;
        let measured = self.put(scenario, step, &step.load, sink)?;
        if !step.needs.has_slaves() {
            return Ok(measured);
        }
        Ok(measured.followed(self.driver(step).wait_until_followed(&self.target, self.follow_within)))
    }

    /// What is there before the load: a backlog beside it, the one it reads, connections that say nothing.
    fn set_up(&mut self, scenario: &str, step: &Step, sink: &dyn ProgressSink) -> Result<Held, BenchError> {
        let backlogs = [step.beside.as_ref(), step.load.backlog()];
        for fill in backlogs.into_iter().flatten() {
            self.fill(scenario, step, fill, sink)?;
        }
        if step.held_connections == 0 {
            return Ok(Held::default());
        }
        let (connections, threads, queues) = (step.held_connections, OPENED_AT_ONCE, Some(1));
        let run = RunOptions { connections, threads, queues, ..RunOptions::default() };
        let idle = SendOptions { run, ..SendOptions::default() };
        self.driver(step).hold(&self.aimed(&idle, &topic_of(scenario, "idle")))
    }

    /// That load, once.
    fn put(
        &mut self,
        scenario: &str,
        step: &Step,
        load: &Load,
        sink: &dyn ProgressSink,
    ) -> Result<Measured, BenchError> {
        let driver = self.driver(step);
        let behind = step.beside.as_ref().filter(|_| step.is_behind);
        let topic = behind.map_or_else(|| topic_of(scenario, &step.label), |fill| topic_of_backlog(scenario, fill));
        match load {
            Load::Send(send) => {
                let send = self.aimed(send, &topic);
                let measured = driver.send(send.clone(), sink).map(Measured::of_send)?;
                self.clear(step, &send.run)?;
                Ok(measured)
            }
            Load::Connect(send) => driver.connect(self.aimed(send, &topic), sink).map(Measured::of_connect),
            Load::Consume { fill, read, seconds } => {
                let mut passes = Vec::new();
                loop {
                    // What is acknowledged is gone, and made anew.
                    let (topic, backlog) = self.fill(scenario, step, fill, sink)?;
                    let read = ConsumeOptions { start_from: StartFrom::First, ..self.reading(read, &topic) };
                    let is_whole = read.run.count.is_none() && read.run.seconds.is_none();
                    let report = driver.consume(read, sink)?;
                    passes.push(Measured::of_consume(report, is_whole.then_some(backlog)));
                    if !is_read_again(&passes, *seconds) || sink.stop_requested() {
                        return Ok(Measured::middle_of(passes));
                    }
                }
            }
            Load::Pop { fill, pop, seconds } => {
                let (topic, backlog) = self.fill(scenario, step, fill, sink)?;
                let mut passes = vec![Measured::of_pop(driver.pop(self.popping(pop, &topic), sink)?, backlog)];
                while is_read_again(&passes, *seconds) && !sink.stop_requested() {
                    passes.push(Measured::of_pop(driver.pop(self.popping(pop, &topic), sink)?, backlog));
                }
                Ok(Measured::middle_of(passes))
            }
            Load::Visible(visible) => {
                let (send, consume) = (self.aimed(&visible.send, &topic), self.reading(&visible.consume, &topic));
                let run = send.run.clone();
                let report = driver.visible(VisibleOptions { send, consume }, sink)?;
                self.clear(step, &run)?;
                Ok(Measured::of_visible(report, step.side))
            }
        }
    }

    /// Takes what a load left in its queues away, so that the next pass finds them as this one did; not where a backlog is to be there.
    fn clear(&self, step: &Step, run: &RunOptions) -> Result<(), BenchError> {
        if step.is_behind { Ok(()) } else { self.driver(step).empty(run) }
    }

    /// Has a topic with that backlog; gives its name, and how many messages the broker took. Steps that want the same share one; what
    /// others have consumed of it for good is made up for.
    fn fill(
        &mut self,
        scenario: &str,
        step: &Step,
        fill: &SendOptions,
        sink: &dyn ProgressSink,
    ) -> Result<(String, u64), BenchError> {
        let topic = topic_of_backlog(scenario, fill);
        if let Some(backlog) = self.filled.get(&topic) {
            return Ok((topic, *backlog));
        }
        let (driver, mut fill) = (self.driver(step), self.aimed(fill, &topic));
        let Some(ready) = driver.ready(&fill.run)? else {
            let backlog = driver.send(fill, sink)?.totals.ok;
            self.filled.insert(topic.clone(), backlog);
            return Ok((topic, backlog));
        };
        let missing = fill.run.count.unwrap_or_default().saturating_sub(ready);
        if missing == 0 {
            return Ok((topic, ready));
        }
        fill.run.count = Some(missing);
        Ok((topic, ready + driver.send(fill, sink)?.totals.ok))
    }

    fn driver(&self, step: &Step) -> Box<dyn Driver> {
        driver_of(&self.target, step.spoken())
    }

    fn aimed(&self, send: &SendOptions, topic: &str) -> SendOptions {
        SendOptions { run: self.run(&send.run, topic), ..send.clone() }
    }

    fn reading(&self, read: &ConsumeOptions, topic: &str) -> ConsumeOptions {
        ConsumeOptions { run: self.run(&read.run, topic), ..read.clone() }
    }

    /// By a group that nobody has heard of: what others have popped is new to it.
    fn popping(&mut self, pop: &PopOptions, topic: &str) -> PopOptions {
        self.poppers += 1;
        let group = format!("bench-{:x}-{}", wall_ms(), self.poppers);
        PopOptions { run: self.run(&pop.run, topic), group, ..pop.clone() }
    }

    fn run(&self, run: &RunOptions, topic: &str) -> RunOptions {
        let (target, topic) = (self.target.clone(), topic.to_owned());
        let (broker_pids, broker_data) = (self.broker_pids.clone(), self.broker_data.clone());
        RunOptions { target, topic, broker_pids, broker_data, ..run.clone() }
    }
}

/// Whether a backlog that was read in `passes` is to be read once more, since they took less than `seconds`. What went wrong once
/// need not be seen again.
fn is_read_again(passes: &[Measured], seconds: f64) -> bool {
    passes.len() < PASSES_MAX
        && passes.iter().map(|pass| pass.seconds).sum::<f64>() < seconds
        && passes.iter().all(|pass| pass.problems.is_empty())
}

/// How fast the broker was. At a pace the rate is that of the pace: there it is told by how little of its processors a message takes.
fn speed_of(measured: &Measured, pace: u64) -> f64 {
    let cpu_seconds = measured.broker_cpu_seconds_per_million.filter(|seconds| pace > 0 && *seconds > 0.0);
    cpu_seconds.map_or(measured.messages_per_second, |seconds| 1e6 / seconds)
}

/// Of a backlog: the same for all that want the same.
fn topic_of_backlog(scenario: &str, fill: &SendOptions) -> String {
    topic_of(scenario, &format!("{:?}, {:?}, {:?}", fill.message_sizes, fill.run.queues, fill.run.count))
}

/// A topic of its own for each purpose, so that no step finds another's messages.
fn topic_of(scenario: &str, purpose: &str) -> String {
    let mut hasher = DefaultHasher::new();
    purpose.hash(&mut hasher);
    format!("bench-{scenario}-{:08x}", hasher.finish() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_a_pace_a_broker_is_the_faster_the_less_of_its_processors_it_needs() {
        let round =
            Measured { messages_per_second: 500.0, broker_cpu_seconds_per_million: Some(20.0), ..Measured::default() };
        assert_eq!((speed_of(&round, 500), speed_of(&round, 0)), (50_000.0, 500.0));
        let unknown = Measured { broker_cpu_seconds_per_million: None, ..round };
        assert_eq!(speed_of(&unknown, 500), 500.0);
    }
}
