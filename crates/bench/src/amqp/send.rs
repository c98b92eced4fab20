//! `sluice bench send` to an AMQP broker: makes queues, opens connections and channels, runs the generator threads, makes the report.

use std::sync::Arc;

use client::amqp::control::Control;

use crate::amqp::conversation::Conversation;
use crate::amqp::mark::{Marker, Origin};
use crate::amqp::options::AmqpDriver;
use crate::amqp::send_lane::PublishLane;
use crate::amqp::template::Template;
use crate::amqp::topology::{Topology, topology_of};
use crate::error::BenchError;
use crate::load::options::SendOptions;
use crate::load::progress::ProgressSink;
use crate::load::report::{SendReport, Setup};
use crate::load::sending::run_senders;
use crate::load::supervisor::check_broker;
use crate::machine::Machine;
use crate::machine::clock::Clock;

/// Sends as `options` say and blocks until every message is confirmed or given up, and the broker has read all of them.
pub fn send(options: SendOptions, driver: &AmqpDriver, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
    check_broker(&options.run.broker_pids)?;
    let machine = Machine::describe();
    let mut control = Control::open(&driver.address)?;
    let topology = topology_of(&options.run, &driver.amqp, &mut control, sink)?;
    control.close()?;
    let by_thread = open_lanes(&options, driver, &topology)?;
    let (protocol, brokers) = (driver.amqp.described(), topology.described(&driver.address.address));
    let setup = Setup { protocol, machine, brokers, threads: by_thread.len() };
    let clock = Clock::start();
    let origin = Origin::of(clock);
    let by_thread = by_thread.into_iter().map(|lanes| (lanes, Marker::new(origin))).collect();
    Ok(run_senders(options, clock, by_thread, setup, sink))
}

/// The connections with their channels, dealt out to the threads.
pub fn open_lanes(
    options: &SendOptions,
    driver: &AmqpDriver,
    topology: &Topology,
) -> Result<Vec<Vec<PublishLane>>, BenchError> {
    let publish = &driver.amqp.publish;
    let threads = options.run.threads.min(options.run.connections);
    let window = (!options.one_way).then_some(options.window);
    let mut by_thread: Vec<Vec<PublishLane>> = (0..threads).map(|_| Vec::new()).collect();
    let mut template: Option<Arc<Template>> = None;
    for (connection, thread) in (0..options.run.connections).zip((0..threads).cycle()) {
        let mut control = Control::open(&driver.address)?;
        control.open_channels(publish.channels)?;
        if window.is_some() {
            (1..=u16::MAX).take(publish.channels).try_for_each(|channel| control.select_confirms(channel))?;
        }
        let frame_max = control.frame_max();
        // One broker agrees on one size.
        let make = || Arc::new(Template::new(options, publish.transient, &topology.places, frame_max));
        let template = template.get_or_insert_with(make).clone();
        let conversation = Conversation::new(publish.channels, frame_max);
        let of_run = (connection, publish.channels);
        let lane = PublishLane::new(control.into_link()?, conversation, of_run, window, template);
        if let Some(lanes) = by_thread.get_mut(thread) {
            lanes.push(lane);
        }
    }
    Ok(by_thread)
}
