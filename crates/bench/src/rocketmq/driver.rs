//! What the load of RocketMQ's remoting protocol can do, as scenarios ask for it.

use super::visible::VisibleReport;
use super::{connect, consume, send, visible};
use crate::driver::{Driver, Held};
use crate::error::BenchError;
use crate::load::options::{ConsumeOptions, SendOptions, VisibleOptions};
use crate::load::progress::ProgressSink;
use crate::load::report::{ConsumeReport, SendReport};

/// RocketMQ's remoting protocol.
#[derive(Debug)]
pub(crate) struct RocketMq;

impl Driver for RocketMq {
    fn protocol(&self) -> &'static str {
        "RocketMQ"
    }

    fn send(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
        send::send(options, sink)
    }

    fn consume(&self, options: ConsumeOptions, sink: &dyn ProgressSink) -> Result<ConsumeReport, BenchError> {
        consume::consume(options, sink)
    }

    fn visible(&self, options: VisibleOptions, sink: &dyn ProgressSink) -> Result<VisibleReport, BenchError> {
        visible::visible(options, sink)
    }

    fn connect(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
        connect::connect(options, sink)
    }

    fn hold(&self, options: &SendOptions) -> Result<Held, BenchError> {
        connect::hold(options)
    }
}
