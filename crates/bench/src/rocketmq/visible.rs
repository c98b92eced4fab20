//! `sluice bench visible`: sends and pulls of many topics and groups at once, and how long after the answer to its send a message
//! arrives at a consumer.
//!
//! One thread sends, others pull, and all read one clock. A message counts once for every group that reads it. The time from the
//! answer to the arrival has in it the way to the consumer, less the way of the answer to the sender; where the generator shares
//! few processors with the broker it also has the wait for one. What arrives before the answer counts as 0, and is counted.
//!
//! What was due in the measured time is waited for: it is that which counts, up to the moment the last of it arrives.

use std::collections::BTreeMap;

use client::rocketmq::route::Access;

use crate::error::BenchError;
use crate::load::awaited::Awaited;
use crate::load::live::Live;
use crate::load::options::{RunOptions, StartFrom, VisibleOptions};
use crate::load::progress::ProgressSink;
use crate::load::report::{SendReport, Setup, VisibleReport};
use crate::load::sender::senders;
use crate::load::supervisor::{Observed, Supervisor, check_broker};
use crate::load::tally::{PullTally, SendTally};
use crate::machine::Machine;
use crate::machine::clock::{Clock, seconds_to_ns};
use crate::rocketmq::consume::{self, pullers};
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::pull_lane::{BrokerCursors, PullLane};
use crate::rocketmq::route::{brokers_of, describe};
use crate::rocketmq::send;

/// What a thread of the run did.
enum Part {
    Sent(SendTally),
    Pulled(Box<PullTally>, Vec<BrokerCursors>),
}

/// Sends and pulls as `options` say and blocks until the run is over.
pub fn visible(
    options: VisibleOptions,
    rocketmq: RocketMq,
    sink: &dyn ProgressSink,
) -> Result<VisibleReport, BenchError> {
    let VisibleOptions { send, consume } = checked(options, rocketmq)?;
    check_broker(&send.run.broker_pids)?;
    let machine = Machine::describe();
    let written_to = brokers_of(&send.run, Access::Write, sink)?;
    let read_from = brokers_of(&consume.run, Access::Read, sink)?;
    let pull_lanes = consume::open_lanes(&consume, rocketmq, &read_from, sink)?;
    let send_lanes = send::open_lanes(&send, rocketmq, &written_to)?;
    let what = format!("send and consume {} of {}", send.run.topic, send.run.target);
    sink.begin(&what, send.run.seconds.map(|seconds| seconds + send.run.warm_up_seconds), None);

    let (awaited, live) = (Awaited::new(seconds_to_ns(send.answer_timeout_seconds)), Live::default());
    let readers = readers_of_each_queue(&pull_lanes);
    let live_of_senders = live.beside();
    let clock = Clock::start();
    let mut workers: Vec<Box<dyn FnOnce() -> Part + Send>> = Vec::new();
    for puller in pullers(&consume, clock, &live, pull_lanes, Some(&awaited)) {
        workers.push(Box::new(move || {
            let (tally, read) = puller.run();
            Part::Pulled(Box::new(tally), read)
        }));
    }
    let pull_threads = workers.len();
    for sender in senders(&send, clock, &live_of_senders, send_lanes, Some(&awaited.times)) {
        let awaited = &awaited;
        workers.push(Box::new(move || {
            let tally = sender.run();
            awaited.settle(tally.ok * readers.unwrap_or(0));
            Part::Sent(tally)
        }));
    }
    let send_threads = workers.len() - pull_threads;
    let watched = Supervisor { clock, live: &live, sink, run: &send.run }.watch(workers);

    let (mut sent, mut pulled) = (SendTally::default(), PullTally::default());
    for part in watched.parts {
        match part {
            Part::Sent(tally) => sent.add(tally),
            Part::Pulled(tally, read) => {
                pulled.add(*tally);
                if consume.commit {
                    consume::commit(read)?;
                }
            }
        }
    }
    let awaited = readers.map(|readers| sent.ok * readers);
    let setup = |brokers: &[_], threads| {
        let (protocol, machine) = (rocketmq.described(), machine.clone());
        Setup { protocol, machine, brokers: describe(brokers), threads }
    };
    let sent = SendReport::new(send, setup(&written_to, send_threads), sent, Observed::default());
    Ok(VisibleReport::new(sent, awaited, consume, setup(&read_from, pull_threads), pulled, watched.observed))
}

/// What can be run: pulls of what the sends send.
fn checked(options: VisibleOptions, rocketmq: RocketMq) -> Result<VisibleOptions, BenchError> {
    options.check()?;
    if !rocketmq.unique_key || options.send.one_way {
        let problem = "messages are found again by their ids: none may go without, nor without an answer".to_owned();
        return Err(BenchError::WrongOption { name: "send", problem });
    }
    let VisibleOptions { send, mut consume } = options;
    // Nothing of before the run, and no end before the sends have one.
    (consume.start_from, consume.until_empty) = (StartFrom::Latest, false);
    let RunOptions { connections, threads, .. } = consume.run;
    consume.run = RunOptions { connections, threads, count: None, queues: None, ..send.run.clone() };
    Ok(VisibleOptions { send, consume })
}

/// How many groups read each queue, if it is the same number for all.
fn readers_of_each_queue(lanes: &[PullLane]) -> Option<u64> {
    let mut readers = BTreeMap::new();
    for lane in lanes {
        for cursor in lane.cursors() {
            *readers.entry((lane.link.address(), &*cursor.topic, cursor.queue)).or_insert(0) += 1;
        }
    }
    let first = readers.values().next().copied();
    first.filter(|first| readers.values().all(|count| count == first))
}
