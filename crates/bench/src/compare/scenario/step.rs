//! What a scenario is made of: steps, each a load and what it asks of the brokers; and the loads of the usual shapes.

use std::time::Duration;

use serde::Serialize;

use crate::compare::start_up::StartUp;
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions, VisibleOptions};
use crate::load::pop_options::PopOptions;
use crate::rocketmq::options::RocketMq;

/// How thorough a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Seconds a step: all field notes in some minutes.
    Quick,
    /// Long enough for figures to be quoted.
    #[default]
    Full,
    /// So many seconds a step.
    Lasting(u32),
}

impl Scale {
    /// Length of a step.
    pub const fn seconds(self) -> f64 {
        match self {
            Self::Quick => 2.0,
            Self::Full => 20.0,
            Self::Lasting(seconds) => seconds as f64,
        }
    }

    /// Load before a step is measured.
    pub const fn warm_up_seconds(self) -> f64 {
        match self {
            Self::Quick => 0.8,
            Self::Full | Self::Lasting(_) => 3.0,
        }
    }

    /// Load on a broker that was just started, and that of each step, before anything is measured.
    pub const fn start_up(self) -> StartUp {
        match self {
            Self::Quick => StartUp { slice: Duration::from_secs(1), slices_max: 16 },
            Self::Full | Self::Lasting(_) => StartUp { slice: Duration::from_secs(2), slices_max: 20 },
        }
    }

    /// How long a backlog is read again and again: a short one is read in less time than the machine may pause.
    pub const fn reading_seconds(self) -> f64 {
        match self {
            Self::Quick => 2.0,
            Self::Full | Self::Lasting(_) => 0.0,
        }
    }

    /// Messages of a backlog that the field note made `full` of.
    pub const fn backlog(self, full: u64) -> u64 {
        match self {
            Self::Quick => full / 10,
            Self::Full | Self::Lasting(_) => full,
        }
    }
}

/// Whether a broker answers before or after its disk has the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// Before.
    #[default]
    Async,
    /// After.
    Sync,
}

/// Whether masters have slaves, and wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Replication {
    /// They have none.
    #[default]
    None,
    /// Each has one, and answers before that has the message.
    Async,
    /// Each has one, and answers after that has the message.
    Sync,
}

/// What a step asks of the brokers it is run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct BrokerNeeds {
    /// When it answers.
    pub flush: Flush,
    /// Broker groups (masters) of the cluster.
    pub groups: u32,
    /// What slaves they have.
    pub replication: Replication,
}

impl Default for BrokerNeeds {
    fn default() -> Self {
        Self { flush: Flush::Async, groups: 1, replication: Replication::None }
    }
}

impl BrokerNeeds {
    /// Whether masters have slaves.
    pub fn has_slaves(self) -> bool {
        self.replication != Replication::None
    }

    /// Brokers of the cluster, slaves among them.
    pub fn brokers(self) -> u32 {
        self.groups * if self.has_slaves() { 2 } else { 1 }
    }
}

/// What people measured, as far as they wrote it down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FieldFigures {
    /// Messages a second.
    pub messages_per_second: f64,
    /// Sends that went well.
    pub success_percent: Option<f64>,
    /// Mean round trip.
    pub mean_ms: Option<f64>,
    /// Longest.
    pub max_ms: Option<f64>,
}

impl FieldFigures {
    pub(super) const fn rate(messages_per_second: f64) -> Self {
        Self { messages_per_second, success_percent: None, mean_ms: None, max_ms: None }
    }

    pub(super) const fn success(self, percent: f64) -> Self {
        Self { success_percent: Some(percent), ..self }
    }

    pub(super) const fn round_trips(self, mean_ms: f64, max_ms: f64) -> Self {
        Self { mean_ms: Some(mean_ms), max_ms: Some(max_ms), ..self }
    }
}

/// What a step does. Target, topic and process are filled in by who runs it.
#[derive(Clone, Debug)]
pub enum Load {
    /// Sends.
    Send(SendOptions),
    /// Opens connections, with a first send on each: `connections` of them, `threads` at a time.
    Connect(SendOptions),
    /// Reads a backlog that is made once, before the first round, and shared with other steps that want the same.
    Consume {
        /// How it is made.
        fill: SendOptions,
        /// How it is read, from its beginning each time.
        read: ConsumeOptions,
        /// It is read again and again for so many seconds, at least once; the pass with the middle rate is the one that counts.
        seconds: f64,
    },
    /// Pops such a backlog, and acknowledges each message, by a new group each time.
    Pop {
        /// How it is made.
        fill: SendOptions,
        /// How it is popped.
        pop: PopOptions,
        /// As for `Consume`.
        seconds: f64,
    },
    /// Sends and reads at once.
    Visible(VisibleOptions),
}

impl Load {
    /// The same for so many seconds, with nothing of it left out of the measurement. Opening connections takes as long as it takes.
    pub(crate) fn for_seconds(&self, length: f64) -> Self {
        let shortened = |send: &SendOptions| {
            let run = RunOptions { seconds: Some(length), count: None, warm_up_seconds: 0.0, ..send.run.clone() };
            SendOptions { run, ..send.clone() }
        };
        match self {
            Self::Send(send) => Self::Send(shortened(send)),
            Self::Connect(_) => self.clone(),
            Self::Consume { fill, read, .. } => {
                Self::Consume { fill: fill.clone(), read: read.clone(), seconds: length }
            }
            // Its slices end with their time: acknowledging takes a broker far longer than reading.
            Self::Pop { fill, pop, .. } => {
                let run = RunOptions { seconds: Some(length), ..pop.run.clone() };
                let pop = PopOptions { run, ..pop.clone() };
                Self::Pop { fill: fill.clone(), pop, seconds: length }
            }
            Self::Visible(VisibleOptions { send, consume }) => {
                Self::Visible(VisibleOptions { send: shortened(send), consume: consume.clone() })
            }
        }
    }

    /// Messages a second its sends are paced to; 0 if they are not.
    pub(crate) const fn pace(&self) -> u64 {
        match self {
            Self::Send(send) | Self::Visible(VisibleOptions { send, .. }) => send.pace,
            Self::Connect(_) | Self::Consume { .. } | Self::Pop { .. } => 0,
        }
    }

    /// How the backlog is made that it reads.
    pub(crate) const fn backlog(&self) -> Option<&SendOptions> {
        match self {
            Self::Consume { fill, .. } | Self::Pop { fill, .. } => Some(fill),
            Self::Send(_) | Self::Connect(_) | Self::Visible(_) => None,
        }
    }
}

/// One line of a scenario's table.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is different here.
    pub label: String,
    /// What the field note says.
    pub field: Option<FieldFigures>,
    /// What it asks of the broker.
    pub needs: BrokerNeeds,
    /// What is done.
    pub load: Load,
    /// How it is done where the broker speaks RocketMQ's protocol.
    pub rocketmq: RocketMq,
    /// A backlog in another topic, made before the first round.
    pub beside: Option<SendOptions>,
    /// Connections that are open all the while and say nothing.
    pub held_connections: usize,
    /// How it differs from the field note's set-up.
    pub remark: Option<&'static str>,
    /// A broker whose 99th percentile is above this many milliseconds is not taken through the scenario's later steps.
    pub gives_up_above_ms: Option<f64>,
}

impl Step {
    pub(crate) fn new(label: impl Into<String>, load: Load) -> Self {
        Self {
            label: label.into(),
            field: None,
            needs: BrokerNeeds::default(),
            load,
            rocketmq: RocketMq::default(),
            beside: None,
            held_connections: 0,
            remark: None,
            gives_up_above_ms: None,
        }
    }

    pub(super) fn field(mut self, figures: FieldFigures) -> Self {
        self.field = Some(figures);
        self
    }

    pub(super) fn flush(mut self, flush: Flush) -> Self {
        self.needs.flush = flush;
        self
    }

    pub(super) fn groups(mut self, groups: u32) -> Self {
        self.needs.groups = groups;
        self
    }

    pub(super) fn replication(mut self, replication: Replication) -> Self {
        self.needs.replication = replication;
        self
    }

    pub(super) fn remark(mut self, remark: &'static str) -> Self {
        self.remark = Some(remark);
        self
    }
}

/// The master and the slave of field notes ran on machines of their own.
pub(super) const PAIR_ON_ONE_MACHINE: &str = "master and slave on one machine";

/// Something to be measured.
#[derive(Debug)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it does.
    pub sentence: &'static str,
    /// The field note it replays.
    pub source: &'static str,
    pub(super) steps: fn(Scale) -> Vec<Step>,
}

impl Scenario {
    /// Its lines.
    pub fn steps(&self, scale: Scale) -> Vec<Step> {
        (self.steps)(scale)
    }
}

/// Sends as the official client does that most field notes used: every thread of the program on one connection, each with one
/// send in flight.
pub(super) fn threads_of_one_client(scale: Scale, threads: usize, message_size: usize) -> SendOptions {
    let mut send = SendOptions { window: threads, ..sends(scale, message_size) };
    send.run.connections = 1;
    send
}

/// Sends of the usual shape.
pub(super) fn sends(scale: Scale, message_size: usize) -> SendOptions {
    let (seconds, warm_up_seconds) = (Some(scale.seconds()), scale.warm_up_seconds());
    let run = RunOptions { queues: Some(4), seconds, warm_up_seconds, ..RunOptions::default() };
    SendOptions { run, message_sizes: vec![message_size], ..SendOptions::default() }
}

/// Makes a backlog as fast as it goes.
pub(super) fn fill(message_size: usize, queues: u32, count: u64) -> SendOptions {
    let run = RunOptions { queues: Some(queues), seconds: None, count: Some(count), ..RunOptions::default() };
    SendOptions { run, message_sizes: vec![message_size], ..SendOptions::default() }
}

/// Pops what is there to its end, with `consumers` consumers on a connection each.
pub(super) fn pops(consumers: usize) -> PopOptions {
    let run = RunOptions { connections: consumers, seconds: None, ..RunOptions::default() };
    PopOptions { run, until_empty: true, ..PopOptions::default() }
}

/// Reads what is there to its end, on `connections` connections with a thread each.
pub(super) fn reads(connections: usize) -> ConsumeOptions {
    let run = RunOptions { connections, threads: connections, seconds: None, ..RunOptions::default() };
    ConsumeOptions { run, until_empty: true, ..ConsumeOptions::default() }
}
