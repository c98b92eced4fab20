//! One broker taken through one round of a step.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::driver::{Held, driver_of};
use crate::error::BenchError;
use crate::measured::Measured;
use crate::options::{ConsumeOptions, SendOptions, StartFrom, VisibleOptions};
use crate::progress::ProgressSink;
use crate::scenario::{Load, Step};
use crate::start_up::StartUp;
use crate::target::Target;

/// Idle connections being opened at any moment.
const OPENED_AT_ONCE: usize = 16;

/// Sends in flight on each connection before anything is measured.
const START_UP_WINDOW: usize = 128;
const START_UP_TOPIC: &str = "bench-start-up";

/// A backlog is read no more often than this for one figure.
const PASSES_MAX: usize = 100;

/// A broker, or a cluster of them, on which steps are performed.
#[derive(Debug)]
pub struct Stage {
    target: Target,
    broker_pids: Vec<u32>,
    /// Topics that have their backlog, and how many messages the broker took of it.
    filled: HashMap<String, u64>,
}

impl Stage {
    /// What listens at `target`; of `broker_pids` memory and CPU are recorded.
    pub fn new(target: Target, broker_pids: Vec<u32>) -> Self {
        Self { target, broker_pids, filled: HashMap::new() }
    }

    /// Load that nobody measures, until the broker is as fast as it gets: sends, then reads of what was sent.
    pub fn start_up(&self, start_up: StartUp, sink: &dyn ProgressSink) -> Result<(), BenchError> {
        let (driver, seconds) = (driver_of(&self.target), Some(start_up.slice.as_secs_f64()));
        let load = SendOptions { queues: Some(4), window: START_UP_WINDOW, seconds, ..SendOptions::default() };
        let mut rates = Vec::new();
        while start_up.goes_on(&rates) && !sink.stop_requested() {
            let report = driver.send(self.aimed(&load, START_UP_TOPIC), sink)?;
            rates.push(report.totals.messages_per_second);
        }
        if sink.stop_requested() {
            // Nothing may have been sent, and so there may be no topic.
            return Ok(());
        }
        let read =
            ConsumeOptions { start_from: StartFrom::First, until_empty: true, seconds, ..ConsumeOptions::default() };
        driver.consume(self.reading(&read, START_UP_TOPIC), sink).map(drop)
    }

    /// One round of `step` of the scenario named `scenario`.
    pub fn perform(&mut self, scenario: &str, step: &Step, sink: &dyn ProgressSink) -> Result<Measured, BenchError> {
        let driver = driver_of(&self.target);
        let topic = topic_of(scenario, &step.label);
        if let Some(fill) = &step.beside {
            self.fill(scenario, fill, sink)?;
        }
        let _held = match step.held_connections {
            0 => Held::default(),
            connections => {
                let idle =
                    SendOptions { connections, threads: OPENED_AT_ONCE, queues: Some(1), ..SendOptions::default() };
                driver.hold(&self.aimed(&idle, &topic_of(scenario, "idle")))?
            }
        };
        match &step.load {
            Load::Send(send) => driver.send(self.aimed(send, &topic), sink).map(Measured::of_send),
            Load::Connect(send) => driver.connect(self.aimed(send, &topic), sink).map(Measured::of_connect),
            Load::Consume { fill, read, seconds } => {
                let (topic, backlog) = self.fill(scenario, fill, sink)?;
                let read = ConsumeOptions { start_from: StartFrom::First, ..self.reading(read, &topic) };
                let mut passes = vec![Measured::of_consume(driver.consume(read.clone(), sink)?, backlog)];
                while is_read_again(&passes, *seconds) && !sink.stop_requested() {
                    passes.push(Measured::of_consume(driver.consume(read.clone(), sink)?, backlog));
                }
                Ok(Measured::middle_of(passes))
            }
            Load::Visible(visible) => {
                let (send, consume) = (self.aimed(&visible.send, &topic), self.reading(&visible.consume, &topic));
                driver.visible(VisibleOptions { send, consume }, sink).map(Measured::of_visible)
            }
        }
    }

    /// Has a topic with that backlog; gives its name, and how many messages the broker took. Steps that want the same share one.
    fn fill(
        &mut self,
        scenario: &str,
        fill: &SendOptions,
        sink: &dyn ProgressSink,
    ) -> Result<(String, u64), BenchError> {
        let topic = topic_of(scenario, &format!("{:?}, {:?}, {:?}", fill.message_sizes, fill.queues, fill.count));
        if let Some(backlog) = self.filled.get(&topic) {
            return Ok((topic, *backlog));
        }
        let backlog = driver_of(&self.target).send(self.aimed(fill, &topic), sink)?.totals.ok;
        self.filled.insert(topic.clone(), backlog);
        Ok((topic, backlog))
    }

    fn aimed(&self, send: &SendOptions, topic: &str) -> SendOptions {
        let Self { target, broker_pids, .. } = self;
        let (target, topic, broker_pids) = (target.clone(), topic.to_owned(), broker_pids.clone());
        SendOptions { target, topic, broker_pids, ..send.clone() }
    }

    fn reading(&self, read: &ConsumeOptions, topic: &str) -> ConsumeOptions {
        let Self { target, broker_pids, .. } = self;
        let (target, topic, broker_pids) = (target.clone(), topic.to_owned(), broker_pids.clone());
        ConsumeOptions { target, topic, broker_pids, ..read.clone() }
    }
}

/// Whether a backlog that was read in `passes` is to be read once more, since they took less than `seconds`. What went wrong once
/// need not be seen again.
fn is_read_again(passes: &[Measured], seconds: f64) -> bool {
    passes.len() < PASSES_MAX
        && passes.iter().map(|pass| pass.seconds).sum::<f64>() < seconds
        && passes.iter().all(|pass| pass.problems.is_empty())
}

/// A topic of its own for each purpose, so that no step finds another's messages.
fn topic_of(scenario: &str, purpose: &str) -> String {
    let mut hasher = DefaultHasher::new();
    purpose.hash(&mut hasher);
    format!("bench-{scenario}-{:08x}", hasher.finish() as u32)
}
