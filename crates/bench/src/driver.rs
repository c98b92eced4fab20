//! What a protocol's load generator can do. A target's kind says which; scenarios ask for load without knowing how it is made.

use std::time::Duration;

use client::rocketmq::control::Control;
use client::rocketmq::route::first_reachable;
use client::target::Target;

use crate::amqp::options::Amqp;
use crate::amqp::options::AmqpDriver;
use crate::error::BenchError;
use crate::load::opener::Held;
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions, VisibleOptions};
use crate::load::pop_options::PopOptions;
use crate::load::pop_report::PopReport;
use crate::load::progress::ProgressSink;
use crate::load::report::{ConsumeReport, SendReport, VisibleReport};
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::{connect, consume, pop, replicas, send, visible};

/// Makes load in the words of one protocol. Each call blocks until everything in flight was answered or given up.
pub trait Driver: Sync {
    /// Whether somebody who speaks the protocol listens there.
    fn check_reachable(&self, target: &Target) -> Result<(), BenchError>;
    /// Sends.
    fn send(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError>;
    /// Consumes.
    fn consume(&self, options: ConsumeOptions, sink: &dyn ProgressSink) -> Result<ConsumeReport, BenchError>;
    /// Pops and acknowledges.
    fn pop(&self, options: PopOptions, sink: &dyn ProgressSink) -> Result<PopReport, BenchError>;
    /// Sends and consumes at once.
    fn visible(&self, options: VisibleOptions, sink: &dyn ProgressSink) -> Result<VisibleReport, BenchError>;
    /// Opens `connections`, `threads` at a time, with a first send on each.
    fn connect(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError>;
    /// The same, to keep them.
    fn hold(&self, options: &SendOptions) -> Result<Held, BenchError>;
    /// Messages that are ready in the queues of a run, which are made if it says so; nothing where reading leaves messages there.
    fn ready(&self, run: &RunOptions) -> Result<Option<u64>, BenchError>;
    /// Makes the queues of a run, where it says so, and takes what is ready in them away; nothing where reading leaves messages there.
    fn empty(&self, run: &RunOptions) -> Result<(), BenchError>;
    /// Waits until the slaves of every master have what it has now, for `limit` at most; gives how long that took.
    fn wait_until_followed(&self, target: &Target, limit: Duration) -> Result<Duration, BenchError>;
}

/// How each protocol is spoken, beyond what every load has to say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spoken {
    /// RocketMQ's.
    pub rocketmq: RocketMq,
    /// AMQP.
    pub amqp: Amqp,
}

impl From<RocketMq> for Spoken {
    fn from(rocketmq: RocketMq) -> Self {
        Self { rocketmq, ..Self::default() }
    }
}

impl From<Amqp> for Spoken {
    fn from(amqp: Amqp) -> Self {
        Self { amqp, ..Self::default() }
    }
}

impl Spoken {
    /// Fails where something is asked of a protocol that the target does not speak.
    pub fn check(&self, target: &Target) -> Result<(), BenchError> {
        let (is_met, protocol, what) = match target {
            Target::NameServer(_) | Target::Broker(_) => {
                (self.amqp == Amqp::default(), "RocketMQ's protocol", "such options as --help has under AMQP")
            }
            Target::Amqp(_) => {
                (self.rocketmq == RocketMq::default(), "AMQP", "such options as --header and --no-unique-key")
            }
        };
        if is_met { Ok(()) } else { Err(BenchError::NotOfProtocol { protocol, what, instead: "" }) }
    }
}

/// The driver of a target.
pub fn driver_of(target: &Target, spoken: impl Into<Spoken>) -> Box<dyn Driver> {
    let Spoken { rocketmq, amqp } = spoken.into();
    match target {
        Target::NameServer(_) | Target::Broker(_) => Box::new(rocketmq),
        Target::Amqp(address) => Box::new(AmqpDriver { address: address.clone(), amqp }),
    }
}

impl Driver for RocketMq {
    fn check_reachable(&self, target: &Target) -> Result<(), BenchError> {
        match target {
            Target::NameServer(addresses) => Ok(first_reachable(addresses).map(drop)?),
            Target::Broker(address) => Ok(Control::open("broker", address).map(drop)?),
            // It has a driver of its own.
            Target::Amqp(_) => Ok(()),
        }
    }

    fn send(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
        send::send(options, *self, sink)
    }

    fn consume(&self, options: ConsumeOptions, sink: &dyn ProgressSink) -> Result<ConsumeReport, BenchError> {
        consume::consume(options, *self, sink)
    }

    fn pop(&self, options: PopOptions, sink: &dyn ProgressSink) -> Result<PopReport, BenchError> {
        pop::pop(options, *self, sink)
    }

    fn visible(&self, options: VisibleOptions, sink: &dyn ProgressSink) -> Result<VisibleReport, BenchError> {
        visible::visible(options, *self, sink)
    }

    fn connect(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
        connect::connect(options, *self, sink)
    }

    fn hold(&self, options: &SendOptions) -> Result<Held, BenchError> {
        connect::hold(options)
    }

    fn ready(&self, _run: &RunOptions) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }

    fn empty(&self, _run: &RunOptions) -> Result<(), BenchError> {
        Ok(())
    }

    fn wait_until_followed(&self, target: &Target, limit: Duration) -> Result<Duration, BenchError> {
        replicas::wait_until_followed(target, limit)
    }
}
