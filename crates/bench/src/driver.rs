//! What a protocol's load generator can do. A target's kind says which; scenarios ask for load without knowing how it is made.

use std::time::Duration;

use crate::error::BenchError;
use crate::load::link::Held;
use crate::load::options::{ConsumeOptions, SendOptions, VisibleOptions};
use crate::load::pop_options::PopOptions;
use crate::load::pop_report::PopReport;
use crate::load::progress::ProgressSink;
use crate::load::report::{ConsumeReport, SendReport, VisibleReport};
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::{connect, consume, pop, replicas, send, visible};
use crate::target::Target;

/// Makes load in the words of one protocol. Each call blocks until everything in flight was answered or given up.
pub trait Driver: Sync {
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
    /// Waits until the slaves of every master have what it has now, for `limit` at most; gives how long that took.
    fn wait_until_followed(&self, target: &Target, limit: Duration) -> Result<Duration, BenchError>;
}

/// The driver of a target; how its protocol is spoken says the options of that protocol.
pub fn driver_of(target: &Target, rocketmq: RocketMq) -> Box<dyn Driver> {
    match target {
        Target::NameServer(_) | Target::Broker(_) => Box::new(rocketmq),
    }
}

impl Driver for RocketMq {
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

    fn wait_until_followed(&self, target: &Target, limit: Duration) -> Result<Duration, BenchError> {
        replicas::wait_until_followed(target, limit)
    }
}
