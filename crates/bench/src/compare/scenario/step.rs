//! What a scenario is made of: steps, each a load, how it is spoken, and what it asks of the brokers.

use serde::Serialize;

use super::load::Load;
use super::scale::Scale;
use crate::amqp::options::Amqp;
use crate::driver::Spoken;
use crate::load::options::SendOptions;
use crate::rocketmq::options::RocketMq;

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

/// What a step speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RocketMQ's.
    #[default]
    RocketMq,
    /// AMQP 0-9-1.
    Amqp,
}

impl Protocol {
    /// Its name as people write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::RocketMq => "RocketMQ",
            Self::Amqp => "AMQP",
        }
    }
}

/// What a step asks of the brokers it is run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct BrokerNeeds {
    /// What it is spoken to in.
    pub protocol: Protocol,
    /// When it answers.
    pub flush: Flush,
    /// Broker groups (masters) of the cluster.
    pub groups: u32,
    /// What slaves they have.
    pub replication: Replication,
}

impl Default for BrokerNeeds {
    fn default() -> Self {
        let (protocol, flush, replication) = (Protocol::RocketMq, Flush::Async, Replication::None);
        Self { protocol, flush, groups: 1, replication }
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

/// A pace that follows from what an earlier step of the scenario found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// Label of that step.
    pub of_step: &'static str,
    /// Share of its rate.
    pub share: f64,
    /// Whose rate it is.
    pub whose: Whose,
}

/// Which side of a load that sends and reads at once its rate and times are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// What was sent, and the round trips of that.
    Sends,
    /// What arrived, and how long after it was due.
    #[default]
    Reads,
}

/// One broker's rate, or that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Each broker's own.
    Own,
    /// For all that of the slowest.
    Slowest,
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
    /// How it is done where the broker speaks AMQP.
    pub amqp: Amqp,
    /// A backlog in another topic, made before the first round.
    pub beside: Option<SendOptions>,
    /// Whether that backlog is in the very queues that the load goes to, and how long it is can be said on the command line.
    pub is_behind: bool,
    /// What its sends are paced to, if that is not known before.
    pub pacing: Option<Pacing>,
    /// What is measured where it sends and reads at once.
    pub side: Side,
    /// Label of an earlier step: which share of its own rate in that each broker reaches in this one is told.
    pub beside_step: Option<&'static str>,
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
            amqp: Amqp::default(),
            beside: None,
            is_behind: false,
            pacing: None,
            side: Side::default(),
            beside_step: None,
            held_connections: 0,
            remark: None,
            gives_up_above_ms: None,
        }
    }

    /// How protocols are spoken.
    pub(crate) fn spoken(&self) -> Spoken {
        Spoken { rocketmq: self.rocketmq, amqp: self.amqp.clone() }
    }

    /// The same; a backlog in its queues has so many messages.
    pub(crate) fn with_backlog(mut self, count: u64) -> Self {
        let fill = match &mut self.load {
            Load::Consume { fill, .. } => Some(fill),
            _ => None,
        };
        for fill in self.beside.iter_mut().chain(fill).filter(|_| self.is_behind) {
            fill.run.count = Some(count);
        }
        self
    }

    /// Spoken by AMQP, in this way.
    pub(super) fn amqp(mut self, amqp: Amqp) -> Self {
        self.needs.protocol = Protocol::Amqp;
        self.amqp = amqp;
        self
    }

    pub(super) fn paced(mut self, pacing: Pacing) -> Self {
        self.pacing = Some(pacing);
        self
    }

    pub(super) fn beside_step(mut self, label: &'static str) -> Self {
        self.beside_step = Some(label);
        self
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
    /// What its steps speak.
    pub fn protocol(&self) -> Protocol {
        self.steps(Scale::Quick).first().map_or(Protocol::default(), |step| step.needs.protocol)
    }

    /// Its lines.
    pub fn steps(&self, scale: Scale) -> Vec<Step> {
        (self.steps)(scale)
    }
}
