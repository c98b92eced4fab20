//! `sluice bench visible` with an AMQP broker: sends and consumes at once, on one clock. Each message says when it was due.
//!
//! What was due in the measured time is waited for, up to the moment the last of it arrives; but where consumers take their time for each
//! message, what they leave in the queues stays there.

use client::amqp::control::Control;

use crate::amqp::consume::{self, terms_of};
use crate::amqp::consumer::{Consumer, Until};
use crate::amqp::mark::{Marker, Origin};
use crate::amqp::observer::Observer;
use crate::amqp::options::AmqpDriver;
use crate::amqp::send;
use crate::amqp::topology::topology_of;
use crate::error::BenchError;
use crate::load::awaited::Awaited;
use crate::load::live::Live;
use crate::load::options::{ConsumeOptions, RunOptions, VisibleOptions};
use crate::load::progress::ProgressSink;
use crate::load::report::{SendReport, Setup, VisibleReport};
use crate::load::sender::senders;
use crate::load::supervisor::{Observed, Supervisor, check_broker};
use crate::load::tally::{PullTally, SendTally};
use crate::machine::Machine;
use crate::machine::clock::{Clock, seconds_to_ns};

/// What a thread of the run did.
enum Part {
    Sent(Box<SendTally>),
    Consumed(Box<PullTally>),
}

/// Sends and consumes as `options` say and blocks until the run is over.
pub fn visible(
    options: VisibleOptions,
    driver: &AmqpDriver,
    sink: &dyn ProgressSink,
) -> Result<VisibleReport, BenchError> {
    let VisibleOptions { send, consume } = options;
    let RunOptions { connections, threads, .. } = consume.run;
    let run = RunOptions { connections, threads, count: None, ..send.run.clone() };
    let consume = ConsumeOptions { run, until_empty: false, ..consume };
    check_broker(&send.run.broker_pids)?;
    let machine = Machine::describe();
    let mut control = Control::open(&driver.address)?;
    let topology = topology_of(&send.run, &driver.amqp, &mut control, sink)?;
    control.close()?;
    let deliver_lanes = consume::open_lanes(&consume, driver, &topology.queues)?;
    let publish_lanes = send::open_lanes(&send, driver, &topology)?;
    let (consume_threads, send_threads) = (deliver_lanes.len(), publish_lanes.len());
    let what = format!("send and consume {} of {}", send.run.topic, send.run.target);
    sink.begin(&what, send.run.seconds.map(|seconds| seconds + send.run.warm_up_seconds), None);

    let (awaited, live) = (Awaited::new(seconds_to_ns(send.answer_timeout_seconds)), Live::default());
    let live_of_senders = live.beside();
    let clock = Clock::start();
    let origin = Origin::of(clock);
    let terms = terms_of(&driver.amqp.deliver);
    let all_come = terms.work_ns == 0;
    let times = (!send.one_way).then_some(&awaited.times);
    let sent_of = |tally: &SendTally| if send.one_way { tally.sent } else { tally.ok };
    let mut workers: Vec<Box<dyn FnOnce() -> Part + Send + '_>> = Vec::new();
    for lanes in deliver_lanes {
        let observer = Observer::new(origin, consume.run.measure_from_ns()).of_own_sends(times);
        let until = if all_come { Until::AllCame(&awaited) } else { Until::Time };
        let consumer = Consumer { options: &consume, terms, clock, live: &live, lanes, observer, until };
        workers.push(Box::new(move || Part::Consumed(Box::new(consumer.run()))));
    }
    let marked = publish_lanes.into_iter().map(|lanes| (lanes, Marker::new(origin))).collect();
    for sender in senders(&send, clock, &live_of_senders, marked, times) {
        let (awaited, copies) = (&awaited, topology.copies);
        workers.push(Box::new(move || {
            let tally = sender.run();
            awaited.settle(sent_of(&tally) * copies);
            Part::Sent(Box::new(tally))
        }));
    }
    let watched = Supervisor { clock, live: &live, sink, run: &send.run }.watch(workers);

    let (mut sent, mut consumed) = (SendTally::default(), PullTally::default());
    for part in watched.parts {
        match part {
            Part::Sent(tally) => sent.add(*tally),
            Part::Consumed(tally) => consumed.add(*tally),
        }
    }
    let awaited = all_come.then(|| sent_of(&sent) * topology.copies);
    let setup = |threads| {
        let (protocol, brokers) = (driver.amqp.described(), topology.described(&driver.address.address));
        Setup { protocol, machine: machine.clone(), brokers, threads }
    };
    if !all_come {
        // They worked until the time was over, not until the last message.
        consumed.last_ns = consumed.last_ns.max(send.run.end_ns().min(clock.now_ns()));
    }
    let sent = SendReport::new(send, setup(send_threads), sent, Observed::default());
    Ok(VisibleReport::new(sent, awaited, consume, setup(consume_threads), consumed, watched.observed))
}
