//! `sluice bench generator`: what the load generator itself costs, and the most it can do, against a broker that only reads and
//! answers.

use crate::error::BenchError;
use crate::load::options::SendOptions;
use crate::load::progress::Quiet;
use crate::load::report::SendReport;
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::{send, sink};
use crate::target::Target;

/// Bodies that are sent, bytes.
const SIZES: [usize; 3] = [30, 100, 1024];

/// Sends of each size, one generator thread, 4 connections with 256 in flight.
pub fn generator(seconds: f64) -> Result<Vec<SendReport>, BenchError> {
    let unreachable = |source| BenchError::Unreachable { role: "loopback", address: "127.0.0.1:0".to_owned(), source };
    let address = sink::start().map_err(unreachable)?;
    let run = |message_size| {
        let target = Target::Broker(address.to_string());
        let options = SendOptions {
            target,
            queues: Some(4),
            message_sizes: vec![message_size],
            seconds: Some(seconds),
            warm_up_seconds: 0.5,
            ..SendOptions::default()
        };
        send::send(options, RocketMq::default(), &Quiet)
    };
    SIZES.into_iter().map(run).collect()
}
