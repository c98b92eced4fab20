//! Many connections opened at once, see `load::opener`: each opens its channels, and publishes one message on the first, with a confirm.

use std::time::Duration;

use client::amqp::control::Control;
use wire::amqp::method::Method;

use crate::amqp::mark::{Marker, Origin};
use crate::amqp::options::AmqpDriver;
use crate::amqp::template::Template;
use crate::amqp::topology::{Topology, topology_of};
use crate::error::BenchError;
use crate::load::opener::Held;
use crate::load::opener::{self, FirstSend, Opened};
use crate::load::options::SendOptions;
use crate::load::progress::{ProgressSink, Quiet};
use crate::load::report::{SendReport, Setup};
use crate::load::supervisor::check_broker;
use crate::machine::Machine;
use crate::machine::clock::Clock;

/// The channel that publishes.
const CHANNEL: u16 = 1;

/// Opens the connections; gives what that took, once all are open.
pub fn connect(
    mut options: SendOptions,
    driver: &AmqpDriver,
    sink: &dyn ProgressSink,
) -> Result<SendReport, BenchError> {
    // The first connection counts as the last does.
    options.run.warm_up_seconds = 0.0;
    let opener = Opener::new(&options, driver, sink)?;
    let brokers = opener.topology.described(&driver.address.address);
    let (protocol, machine) = (driver.amqp.described(), Machine::describe());
    let setup = |threads| Setup { protocol, machine, brokers, threads };
    Ok(opener::connect(options, &opener, setup, sink))
}

/// Opens connections with their channels, which say nothing more.
pub fn hold(options: &SendOptions, driver: &AmqpDriver) -> Result<Held, BenchError> {
    opener::hold(options, &Opener::new(options, driver, &Quiet)?)
}

struct Opener<'a> {
    driver: &'a AmqpDriver,
    topology: Topology,
    template: Template,
    origin: Origin,
    answer_timeout: Duration,
}

impl<'a> Opener<'a> {
    fn new(options: &SendOptions, driver: &'a AmqpDriver, sink: &dyn ProgressSink) -> Result<Self, BenchError> {
        check_broker(&options.run.broker_pids)?;
        let mut control = Control::open(&driver.address)?;
        let topology = topology_of(&options.run, &driver.amqp, &mut control, sink)?;
        let template = Template::new(options, driver.amqp.publish.transient, &topology.places, control.frame_max());
        control.close()?;
        let (origin, answer_timeout) =
            (Origin::of(Clock::start()), Duration::from_secs_f64(options.answer_timeout_seconds));
        Ok(Self { driver, topology, template, origin, answer_timeout })
    }
}

impl FirstSend for Opener<'_> {
    fn open(&self, connection: usize) -> Result<Opened, BenchError> {
        let mut control = Control::open(&self.driver.address)?;
        control.answer_within(self.answer_timeout)?;
        control.open_channels(self.driver.amqp.publish.channels)?;
        control.select_confirms(CHANNEL)?;
        let mut publish = Vec::new();
        self.template.append(&mut publish, connection, CHANNEL, Marker::new(self.origin).next(CHANNEL, 0));
        control.write(&publish)?;
        let is_stored = control.wait(CHANNEL, "basic.publish", |method| match method {
            Method::Ack(_) => Some(true),
            Method::Nack(_) => Some(false),
            _ => None,
        })?;
        let refusal = (!is_stored).then(|| (120, "basic.nack", "the broker could not take it".to_owned()));
        Ok(Opened { socket: control.into_socket(), refusal })
    }
}
