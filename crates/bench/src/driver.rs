//! What a protocol's load generator can do. A target's kind says which; scenarios know no protocol.

use std::net::TcpStream;

use crate::error::BenchError;
use crate::load::options::{ConsumeOptions, SendOptions, VisibleOptions};
use crate::load::progress::ProgressSink;
use crate::load::report::{ConsumeReport, SendReport};
use crate::rocketmq::driver::RocketMq;
use crate::rocketmq::visible::VisibleReport;
use crate::target::Target;

/// Connections that are open until this is dropped.
#[derive(Debug, Default)]
pub struct Held(pub(crate) Vec<TcpStream>);

/// Makes load in the words of one protocol. Each call blocks until everything in flight was answered or given up.
pub trait Driver: Sync {
    /// The protocol.
    fn protocol(&self) -> &'static str;
    /// Sends.
    fn send(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError>;
    /// Consumes.
    fn consume(&self, options: ConsumeOptions, sink: &dyn ProgressSink) -> Result<ConsumeReport, BenchError>;
    /// Sends and consumes at once.
    fn visible(&self, options: VisibleOptions, sink: &dyn ProgressSink) -> Result<VisibleReport, BenchError>;
    /// Opens `connections`, `threads` at a time, with a first send on each.
    fn connect(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError>;
    /// The same, to keep them.
    fn hold(&self, options: &SendOptions) -> Result<Held, BenchError>;
}

/// The driver of a target.
pub fn driver_of(target: &Target) -> &'static dyn Driver {
    match target {
        Target::NameServer(_) | Target::Broker(_) => &RocketMq,
    }
}
