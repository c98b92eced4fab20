//! What is measured: the tables of the field notes, each as steps that any broker can be taken through.
//!
//! **Owns** the list of scenarios. A scenario is a sentence, where it comes from, and its steps; a step is a load, what it asks of
//! the broker, and what the field note measured. Steps are values: who runs them stands in `stage.rs` and `rounds.rs`.
//! To add one: a constant in one of the files here, a line in `ALL`.

mod many;
mod reading;
mod sending;

use std::time::Duration;

use serde::Serialize;

use crate::compare::start_up::StartUp;
use crate::error::BenchError;
use crate::load::options::{ConsumeOptions, SendOptions, VisibleOptions};
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

/// What a step asks of the brokers it is run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct BrokerNeeds {
    /// When it answers.
    pub flush: Flush,
    /// Broker groups (masters) of the cluster.
    pub groups: u32,
}

impl Default for BrokerNeeds {
    fn default() -> Self {
        Self { flush: Flush::Async, groups: 1 }
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
    const fn rate(messages_per_second: f64) -> Self {
        Self { messages_per_second, success_percent: None, mean_ms: None, max_ms: None }
    }

    const fn success(self, percent: f64) -> Self {
        Self { success_percent: Some(percent), ..self }
    }

    const fn round_trips(self, mean_ms: f64, max_ms: f64) -> Self {
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
    /// Sends and reads at once.
    Visible(VisibleOptions),
}

impl Load {
    /// The same for so many seconds, with nothing of it left out of the measurement. Opening connections takes as long as it takes.
    pub(crate) fn for_seconds(&self, length: f64) -> Self {
        let shortened = |send: &SendOptions| SendOptions {
            seconds: Some(length),
            count: None,
            warm_up_seconds: 0.0,
            ..send.clone()
        };
        match self {
            Self::Send(send) => Self::Send(shortened(send)),
            Self::Connect(_) => self.clone(),
            Self::Consume { fill, read, .. } => {
                Self::Consume { fill: fill.clone(), read: read.clone(), seconds: length }
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
            Self::Connect(_) | Self::Consume { .. } => 0,
        }
    }

    /// How the backlog is made that it reads.
    pub(crate) const fn backlog(&self) -> Option<&SendOptions> {
        match self {
            Self::Consume { fill, .. } => Some(fill),
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

    fn field(mut self, figures: FieldFigures) -> Self {
        self.field = Some(figures);
        self
    }

    fn needs(mut self, flush: Flush, groups: u32) -> Self {
        self.needs = BrokerNeeds { flush, groups };
        self
    }

    fn remark(mut self, remark: &'static str) -> Self {
        self.remark = Some(remark);
        self
    }
}

/// Something to be measured.
#[derive(Debug)]
pub struct Scenario {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it does.
    pub sentence: &'static str,
    /// The field note it replays.
    pub source: &'static str,
    steps: fn(Scale) -> Vec<Step>,
}

impl Scenario {
    /// Its lines.
    pub fn steps(&self, scale: Scale) -> Vec<Step> {
        (self.steps)(scale)
    }
}

/// All of them, in the order of the field notes. Those without a note of their own come last.
pub static ALL: [Scenario; 17] = [
    sending::SYNC_SEND,
    sending::ASYNC_SEND,
    reading::CONSUME_BY_QUEUES,
    reading::TWO_CONSUMERS,
    many::BROKER_GROUPS,
    sending::THREAD_SWEEP,
    sending::FLUSH,
    reading::CONSUME_WHILE_PRODUCING,
    reading::JSON_HEADERS,
    sending::PRICE_LIST,
    many::MANY_TOPICS,
    many::MANY_QUEUES,
    sending::BIG_MESSAGES,
    reading::BACKLOG,
    many::SOAK,
    many::CONNECTION_STORM,
    many::IDLE_CONNECTIONS,
];

/// What people measured in the field note of that name, and on what; nothing for a scenario that replays none.
pub fn field_note(name: &str) -> Option<&'static str> {
    Some(match name {
        "N0" => "RocketMQ 4.2.0 on brokers of 4 cores and 4 GB, one sending process on a laptop, 30-byte messages",
        "N1" => "RocketMQ in 2014 on 24 cores and 48 GB, 2 producers, 2 consumers, 2 KB messages",
        "N2" => "RocketMQ 4.5.1 on cloud hosts of 4 cores and 8 GB, the official benchmark tool, 1 KB messages",
        "N3" => "RabbitMQ, 1 KB messages, consumers that take 10 ms for each",
        "N4" => {
            "RocketMQ 4.8.0 and 4.9.7 on 48 cores and 256 GB, 4 masters and 4 slaves, 200 topics, 400 consumer groups"
        }
        _ => return None,
    })
}

/// The scenario of that name.
pub fn find(name: &str) -> Result<&'static Scenario, BenchError> {
    ALL.iter().find(|scenario| scenario.name == name).ok_or_else(|| {
        let mut near: Vec<_> =
            ALL.iter().map(|scenario| (strsim::jaro_winkler(name, scenario.name), scenario.name)).collect();
        near.sort_by(|one, other| other.0.total_cmp(&one.0));
        let near = near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect();
        BenchError::UnknownScenario { name: name.to_owned(), near }
    })
}

/// Sends as the official client does that most field notes used: every thread of the program on one connection, each with one
/// send in flight.
fn threads_of_one_client(scale: Scale, threads: usize, message_size: usize) -> SendOptions {
    SendOptions { connections: 1, window: threads, ..sends(scale, message_size) }
}

/// Sends of the usual shape.
fn sends(scale: Scale, message_size: usize) -> SendOptions {
    SendOptions {
        message_sizes: vec![message_size],
        queues: Some(4),
        seconds: Some(scale.seconds()),
        warm_up_seconds: scale.warm_up_seconds(),
        ..SendOptions::default()
    }
}

/// Makes a backlog as fast as it goes.
fn fill(message_size: usize, queues: u32, count: u64) -> SendOptions {
    SendOptions {
        message_sizes: vec![message_size],
        queues: Some(queues),
        seconds: None,
        count: Some(count),
        ..SendOptions::default()
    }
}

/// Reads what is there to its end, on `connections` connections with a thread each.
fn reads(connections: usize) -> ConsumeOptions {
    ConsumeOptions { connections, threads: connections, until_empty: true, seconds: None, ..ConsumeOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocketmq::options::HeaderForm;

    #[test]
    fn every_step_is_a_run_that_can_be_made() {
        for scenario in &ALL {
            for scale in [Scale::Quick, Scale::Full] {
                let steps = scenario.steps(scale);
                assert!(!steps.is_empty(), "{}", scenario.name);
                for step in steps {
                    let checked = match &step.load {
                        Load::Send(send) | Load::Connect(send) => send.check(),
                        Load::Consume { fill, read, .. } => fill.check().and_then(|()| read.check()),
                        Load::Visible(visible) => visible.check(),
                    };
                    checked.unwrap_or_else(|error| panic!("{}, {}: {error}", scenario.name, step.label));
                }
            }
        }
    }

    #[test]
    fn one_scenario_has_the_headers_that_official_clients_send() {
        let steps = find("json-headers").expect("a scenario").steps(Scale::Quick);
        assert!(steps.len() > 2 && steps.iter().all(|step| step.rocketmq.form == HeaderForm::Json));
    }

    #[test]
    fn every_field_note_that_is_named_is_explained() {
        assert!(ALL.iter().all(|scenario| scenario.source == "-" || field_note(scenario.source).is_some()));
    }

    #[test]
    fn names_are_found_and_near_ones_are_given() {
        assert!(ALL.iter().all(|scenario| find(scenario.name).is_ok_and(|found| found.name == scenario.name)));
        let error = find("thread-swep").expect_err("no such scenario").to_string();
        assert!(error.contains("thread-sweep"), "{error}");
    }
}
