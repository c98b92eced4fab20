//! Many connections opened at once, see `load::opener`: each sends one message.

use std::time::Duration;

use client::rocketmq::control::Control;
use client::rocketmq::producer::send_request;
use client::rocketmq::route::Access;
use wire::rocketmq::code::request::SEND_MESSAGE_V2;
use wire::rocketmq::code::response::{self, SUCCESS};

use crate::error::BenchError;
use crate::load::opener::Held;
use crate::load::opener::{self, FirstSend, Opened};
use crate::load::options::SendOptions;
use crate::load::progress::{ProgressSink, Quiet};
use crate::load::report::{SendReport, Setup};
use crate::load::supervisor::check_broker;
use crate::machine::Machine;
use crate::machine::clock::wall_ms;
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::route::{BrokerTopics, brokers_of, describe};

/// Opens the connections; gives what that took, once all are open.
pub fn connect(
    mut options: SendOptions,
    rocketmq: RocketMq,
    sink: &dyn ProgressSink,
) -> Result<SendReport, BenchError> {
    // The first connection counts as the last does.
    options.run.warm_up_seconds = 0.0;
    let opener = Opener::new(&options, sink)?;
    let (protocol, machine, brokers) = (rocketmq.described(), Machine::describe(), describe(&opener.brokers));
    let setup = |threads| Setup { protocol, machine, brokers, threads };
    Ok(opener::connect(options, &opener, setup, sink))
}

/// Opens connections that are known to the broker and say nothing more.
pub fn hold(options: &SendOptions) -> Result<Held, BenchError> {
    opener::hold(options, &Opener::new(options, &Quiet)?)
}

struct Opener {
    brokers: Vec<BrokerTopics>,
    body: Vec<u8>,
    answer_timeout: Duration,
}

impl Opener {
    fn new(options: &SendOptions, sink: &dyn ProgressSink) -> Result<Self, BenchError> {
        options.check()?;
        check_broker(&options.run.broker_pids)?;
        let brokers = brokers_of(&options.run, Access::Write, sink)?;
        let body = vec![b'a'; options.message_sizes.first().copied().unwrap_or(1)];
        Ok(Self { brokers, body, answer_timeout: Duration::from_secs_f64(options.answer_timeout_seconds) })
    }
}

impl FirstSend for Opener {
    fn open(&self, connection: usize) -> Result<Opened, BenchError> {
        let Some(broker) = self.brokers.get(connection % self.brokers.len().max(1)) else {
            return Err(BenchError::NoRoute { topic: String::new(), address: String::new() });
        };
        let mut control = Control::open("broker", &broker.address)?;
        control.answer_within(self.answer_timeout)?;
        let topic = broker.topics.get(connection % broker.topics.len().max(1));
        let (topic, queues) = topic.map_or(("", 1), |topic| (&*topic.topic, topic.queues.max(1)));
        let queue = u32::try_from(connection).unwrap_or_default() % queues;
        let born_ms = i64::try_from(wall_ms()).unwrap_or_default();
        let answer = control.ask_with(SEND_MESSAGE_V2, &send_request((topic, queue), born_ms, ""), &self.body)?;
        let refusal = (answer.code != SUCCESS).then(|| (answer.code, response::name(answer.code), answer.remark));
        Ok(Opened { socket: control.into_socket(), refusal })
    }
}
