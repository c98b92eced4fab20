//! `sluice bench send`: finds the brokers, opens the connections, runs the generator threads, makes the report.

use std::sync::Arc;

use client::link::Link;
use client::rocketmq::route::Access;
use client::rocketmq::unique_key::{Stamp, prefix};

use crate::error::BenchError;
use crate::load::options::SendOptions;
use crate::load::progress::ProgressSink;
use crate::load::report::{SendReport, Setup};
use crate::load::sending::run_senders;
use crate::load::supervisor::check_broker;
use crate::machine::Machine;
use crate::machine::clock::{Clock, wall_ms};
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::route::{BrokerTopics, brokers_of, describe};
use crate::rocketmq::send_lane::RemotingLane;
use crate::rocketmq::template::Template;

/// Sends as `options` say and blocks until every send is answered or given up.
pub fn send(options: SendOptions, rocketmq: RocketMq, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
    options.check()?;
    check_broker(&options.run.broker_pids)?;
    let machine = Machine::describe();
    let brokers = brokers_of(&options.run, Access::Write, sink)?;
    let by_thread = open_lanes(&options, rocketmq, &brokers)?;
    let (protocol, brokers) = (rocketmq.described(), describe(&brokers));
    let setup = Setup { protocol, machine, brokers, threads: by_thread.len() };
    Ok(run_senders(options, Clock::start(), by_thread, setup, sink))
}

/// The connections, spread over the brokers, dealt out to the threads.
pub fn open_lanes(
    options: &SendOptions,
    rocketmq: RocketMq,
    brokers: &[BrokerTopics],
) -> Result<Vec<(Vec<RemotingLane>, Stamp)>, BenchError> {
    let threads = options.run.threads.min(options.run.connections);
    let window = (!options.one_way).then_some(options.window);
    let mut by_thread = Vec::new();
    for thread in 0..threads {
        let prefix = prefix(std::process::id(), thread, wall_ms());
        let templates: Vec<_> =
            brokers.iter().map(|broker| Arc::new(Template::new(options, rocketmq, &broker.topics, &prefix))).collect();
        let mut lanes = Vec::new();
        for connection in (thread..options.run.connections).step_by(threads) {
            let at = connection % brokers.len();
            if let (Some(broker), Some(template)) = (brokers.get(at), templates.get(at)) {
                let link = Link::open(&broker.address)?;
                lanes.push(RemotingLane::new(link, window, Arc::clone(template), connection));
            }
        }
        by_thread.push((lanes, Stamp::new(wall_ms())));
    }
    Ok(by_thread)
}
