//! One broker taken through one round of a step.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::driver::driver_of;
use crate::error::BenchError;
use crate::measured::Measured;
use crate::options::{ConsumeOptions, SendOptions, StartFrom, VisibleOptions};
use crate::progress::ProgressSink;
use crate::scenario::{Load, Step};
use crate::target::Target;

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

    /// One round of `step` of the scenario named `scenario`.
    pub fn perform(&mut self, scenario: &str, step: &Step, sink: &dyn ProgressSink) -> Result<Measured, BenchError> {
        let topic = topic_of(scenario, step);
        let Self { target, broker_pids, filled } = self;
        let driver = driver_of(target);
        let aimed = |send: &SendOptions| SendOptions {
            target: target.clone(),
            topic: topic.clone(),
            broker_pids: broker_pids.clone(),
            ..send.clone()
        };
        let reading = |read: &ConsumeOptions| ConsumeOptions {
            target: target.clone(),
            topic: topic.clone(),
            broker_pids: broker_pids.clone(),
            ..read.clone()
        };
        match &step.load {
            Load::Send(send) => driver.send(aimed(send), sink).map(Measured::of_send),
            Load::Consume { fill, read } => {
                let backlog = match filled.get(&topic) {
                    Some(backlog) => *backlog,
                    None => driver.send(aimed(fill), sink)?.totals.ok,
                };
                filled.insert(topic.clone(), backlog);
                let read = ConsumeOptions { start_from: StartFrom::First, ..reading(read) };
                driver.consume(read, sink).map(|report| Measured::of_consume(report, backlog))
            }
            Load::Visible(visible) => {
                let options = VisibleOptions { send: aimed(&visible.send), consume: reading(&visible.consume) };
                driver.visible(options, sink).map(Measured::of_visible)
            }
        }
    }
}

/// A topic of the step's own, so that no step finds another's messages.
fn topic_of(scenario: &str, step: &Step) -> String {
    let mut hasher = DefaultHasher::new();
    step.label.hash(&mut hasher);
    format!("bench-{scenario}-{:08x}", hasher.finish() as u32)
}
