//! AMQP as a driver: what it has, and what it has not.

use std::thread;
use std::time::Duration;

use client::amqp::control::Control;
use client::target::Target;

use crate::amqp::options::AmqpDriver;
use crate::amqp::topology::{Topology, topology_of};
use crate::amqp::{connect, consume, mark, send, visible};
use crate::driver::Driver;
use crate::error::BenchError;
use crate::load::opener::Held;
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions, VisibleOptions, wrong};
use crate::load::pop_options::PopOptions;
use crate::load::pop_report::PopReport;
use crate::load::progress::{ProgressSink, Quiet};
use crate::load::report::{ConsumeReport, SendReport, VisibleReport};
use crate::machine::clock::Clock;

/// How long consumers whose connections have ended may be seen at their queues, and how often is looked.
const LEFT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

impl Driver for AmqpDriver {
    fn check_reachable(&self, _target: &Target) -> Result<(), BenchError> {
        Ok(Control::open(&self.address)?.close()?)
    }

    fn send(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
        self.check_send(&options, options.run.connections)?;
        send::send(options, self, sink)
    }

    fn consume(&self, options: ConsumeOptions, sink: &dyn ProgressSink) -> Result<ConsumeReport, BenchError> {
        self.check_consume(&options)?;
        consume::consume(options, self, sink)
    }

    fn pop(&self, _options: PopOptions, _sink: &dyn ProgressSink) -> Result<PopReport, BenchError> {
        Err(lacks("pop", ": consume with acknowledgements is what comes nearest"))
    }

    fn visible(&self, options: VisibleOptions, sink: &dyn ProgressSink) -> Result<VisibleReport, BenchError> {
        self.check_visible(&options)?;
        visible::visible(options, self, sink)
    }

    fn connect(&self, options: SendOptions, sink: &dyn ProgressSink) -> Result<SendReport, BenchError> {
        self.check_send(&options, 0)?;
        connect::connect(options, self, sink)
    }

    fn hold(&self, options: &SendOptions) -> Result<Held, BenchError> {
        self.check_send(options, 0)?;
        connect::hold(options, self)
    }

    fn ready(&self, run: &RunOptions) -> Result<Option<u64>, BenchError> {
        let (topology, control) = self.left_alone(run)?;
        control.close()?;
        Ok(Some(topology.ready))
    }

    fn empty(&self, run: &RunOptions) -> Result<(), BenchError> {
        let (topology, mut control) = self.left_alone(run)?;
        topology.empty(&mut control)?;
        Ok(control.close()?)
    }

    fn wait_until_followed(&self, _target: &Target, _limit: Duration) -> Result<Duration, BenchError> {
        Err(lacks("slaves", ""))
    }
}

impl AmqpDriver {
    /// The queues of a run once nobody consumes of them any more: what consumers of before had and have not settled is ready again by then.
    fn left_alone(&self, run: &RunOptions) -> Result<(Topology, Control), BenchError> {
        let clock = Clock::start();
        loop {
            let mut control = Control::open(&self.address)?;
            let topology = topology_of(run, &self.amqp, &mut control, &Quiet)?;
            if topology.consumers == 0 || clock.elapsed() >= LEFT_WITHIN {
                return Ok((topology, control));
            }
            control.close()?;
            thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    /// Of sends that tell the channels of so many connections apart.
    fn check_send(&self, options: &SendOptions, connections: usize) -> Result<(), BenchError> {
        options.check()?;
        refuse(&[
            (options.batch != 1, "batch", ": messages go one by one, many in a write"),
            (options.keys, "keys", ""),
            (options.tag.is_some(), "tag", ": --property sets a header"),
        ])?;
        self.amqp.check(connections, 0)
    }

    fn check_consume(&self, options: &ConsumeOptions) -> Result<(), BenchError> {
        options.check()?;
        let usual = ConsumeOptions::default();
        refuse(&[
            ((&options.group, options.groups) != (&usual.group, usual.groups), "consumer groups", ""),
            (options.subscription != usual.subscription, "subscription", ""),
            (
                options.batch != usual.batch || options.pulls != usual.pulls,
                "pulls",
                ": --prefetch says what may be on its way",
            ),
            (options.start_from != usual.start_from, "place to begin at", ": a queue is read from its head"),
            (options.commit, "offsets to commit", ": messages are acknowledged"),
            (options.verify, "checksums", ""),
            (options.suspend_ms != usual.suspend_ms, "pulls to suspend", ""),
        ])?;
        self.amqp.check(0, options.run.connections)
    }

    fn check_visible(&self, options: &VisibleOptions) -> Result<(), BenchError> {
        options.check()?;
        self.check_send(&options.send, options.send.run.connections)?;
        self.check_consume(&options.consume)?;
        if options.send.run.seconds.is_none() && self.amqp.deliver.work_ms > 0 {
            return Err(wrong("duration", "consumers that take their time are not waited for: give one"));
        }
        if options.send.message_sizes.iter().any(|&size| size < mark::SIZE) {
            return Err(wrong("message size", "messages are found again by the first 16 bytes of their bodies"));
        }
        Ok(())
    }
}

fn lacks(what: &'static str, instead: &'static str) -> BenchError {
    BenchError::NotOfProtocol { protocol: "AMQP", what, instead }
}

/// The first that is asked for.
fn refuse(asked: &[(bool, &'static str, &'static str)]) -> Result<(), BenchError> {
    let first = asked.iter().find(|(is_asked, ..)| *is_asked);
    first.map_or(Ok(()), |&(_, what, instead)| Err(lacks(what, instead)))
}
