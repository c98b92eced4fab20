//! Many connections opened at once, each used for a first send, and all held until the last is open: what a broker sees when its
//! producers come back to it.
//!
//! Of the options, `connections` says how many, and `threads` how many are being opened at any moment: each thread opens its share
//! one after the other. A connection's time is that from the first packet of its connecting to the answer to its send.

use std::sync::Arc;
use std::time::Duration;

use wire::rocketmq::code::request::SEND_MESSAGE_V2;
use wire::rocketmq::code::response::{self, SUCCESS};

use crate::error::BenchError;
use crate::load::link::Held;
use crate::load::live::{Beat, Live};
use crate::load::options::SendOptions;
use crate::load::progress::{ProgressSink, Quiet};
use crate::load::report::{SendReport, Setup};
use crate::load::supervisor::{Observed, Supervisor, Watched, check_broker};
use crate::load::tally::SendTally;
use crate::machine::Machine;
use crate::machine::clock::{Clock, thread_cpu_ns, wall_ms};
use crate::machine::open_files;
use crate::rocketmq::control::{Answer, Control};
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::route::{Access, BrokerTopics, brokers_of, describe};
use crate::rocketmq::template::send_request;

/// Opens the connections; gives what that took, once all are open.
pub fn connect(
    mut options: SendOptions,
    rocketmq: RocketMq,
    sink: &dyn ProgressSink,
) -> Result<SendReport, BenchError> {
    // The first connection counts as the last does.
    options.run.warm_up_seconds = 0.0;
    let brokers = ready_brokers(&options, sink)?;
    let machine = Machine::describe();
    let (threads, observed, tally, _held) = open_all(&options, &brokers, sink);
    let setup = Setup { protocol: rocketmq.described(), machine, brokers: describe(&brokers), threads };
    let report = SendReport::new(options, setup, tally, observed);
    Ok(SendReport { kind: "connect", ..report })
}

/// Opens connections that are known to the broker and say nothing more.
pub fn hold(options: &SendOptions) -> Result<Held, BenchError> {
    let brokers = ready_brokers(options, &Quiet)?;
    let (_, _, tally, held) = open_all(options, &brokers, &Quiet);
    match tally.faults.into_iter().next() {
        Some(problem) => Err(BenchError::Lost { address: options.run.target.to_string(), problem }),
        None => Ok(held),
    }
}

fn ready_brokers(options: &SendOptions, sink: &dyn ProgressSink) -> Result<Vec<BrokerTopics>, BenchError> {
    options.check()?;
    check_broker(&options.run.broker_pids)?;
    open_files::raise_limit();
    brokers_of(&options.run, Access::Write, sink)
}

/// Number of threads, what was seen meanwhile, what became of the sends, and the connections.
fn open_all(
    options: &SendOptions,
    brokers: &[BrokerTopics],
    sink: &dyn ProgressSink,
) -> (usize, Observed, SendTally, Held) {
    let threads = options.run.threads.min(options.run.connections);
    let what = format!("connect to {}", options.run.target);
    sink.begin(&what, None, Some(options.run.connections as u64));
    let (live, clock) = (Live::default(), Clock::start());
    let answer_timeout = Duration::from_secs_f64(options.answer_timeout_seconds);
    let body: Arc<[u8]> = vec![b'a'; options.message_sizes.first().copied().unwrap_or(1)].into();
    let workers = (0..threads)
        .map(|thread| {
            let share = (thread..options.run.connections).step_by(threads);
            let opener = Opener { brokers, body: body.clone(), answer_timeout, clock, live: &live };
            move || opener.run(share)
        })
        .collect();
    let Watched { parts, observed } = Supervisor { clock, live: &live, sink, run: &options.run }.watch(workers);
    let (mut tally, mut held) = (SendTally::default(), Held::default());
    for (part, controls) in parts {
        tally.add(part);
        held.0.extend(controls.into_iter().map(Control::into_socket));
    }
    (threads, observed, tally, held)
}

/// One thread's work.
struct Opener<'a> {
    brokers: &'a [BrokerTopics],
    body: Arc<[u8]>,
    answer_timeout: Duration,
    clock: Clock,
    live: &'a Live,
}

impl Opener<'_> {
    fn run(self, share: impl Iterator<Item = usize>) -> (SendTally, Vec<Control>) {
        let (mut tally, mut beat, mut open) = (SendTally::default(), Beat::default(), Vec::new());
        for connection in share {
            if self.live.stop_requested() {
                break;
            }
            let Some(broker) = self.brokers.get(connection % self.brokers.len().max(1)) else { break };
            let begun_ns = self.clock.now_ns();
            tally.sent += 1;
            match self.first_send(broker, connection) {
                Ok((control, answer)) => {
                    let now_ns = self.clock.now_ns();
                    tally.last_ns = now_ns;
                    if answer.code == SUCCESS {
                        tally.latency.record(now_ns - begun_ns, 1);
                        beat.latency(now_ns - begun_ns, 1);
                        tally.ok += 1;
                        (beat.messages, beat.measured) = (1, 1);
                    } else {
                        tally.refusals.record(answer.code, 1, || (response::name(answer.code), answer.remark));
                        beat.refused = 1;
                    }
                    open.push(control);
                }
                Err(error) => {
                    tally.unanswered += 1;
                    tally.faults.push(error.to_string());
                }
            }
            self.live.add(&mut beat, open.len());
        }
        self.live.add(&mut beat, 0);
        tally.sent_in_all = tally.sent;
        tally.cpu_ns = thread_cpu_ns();
        (tally, open)
    }

    fn first_send(&self, broker: &BrokerTopics, connection: usize) -> Result<(Control, Answer), BenchError> {
        let mut control = Control::open("broker", &broker.address)?;
        control.answer_within(self.answer_timeout)?;
        let topic = broker.topics.get(connection % broker.topics.len().max(1));
        let (topic, queues) = topic.map_or(("", 1), |topic| (&*topic.topic, topic.queues.max(1)));
        let queue = u32::try_from(connection).unwrap_or_default() % queues;
        let born_ms = i64::try_from(wall_ms()).unwrap_or_default();
        let answer = control.ask_with(SEND_MESSAGE_V2, &send_request((topic, queue), born_ms, ""), &self.body)?;
        Ok((control, answer))
    }
}
