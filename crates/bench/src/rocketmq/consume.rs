//! `sluice bench consume`: finds queues and offsets, runs the consumer threads, commits, makes the report.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::ClientError;
use client::link::Link;
use client::message::Start;
use client::rocketmq::control::Control;
use client::rocketmq::cursor::{self, committed, offset_at};
use client::rocketmq::route::Access;

use crate::error::BenchError;
use crate::load::awaited::Awaited;
use crate::load::live::Live;
use crate::load::options::{ConsumeOptions, StartFrom};
use crate::load::progress::ProgressSink;
use crate::load::report::{ConsumeReport, Setup};
use crate::load::supervisor::{Supervisor, check_broker};
use crate::load::tally::PullTally;
use crate::machine::Machine;
use crate::machine::clock::Clock;
use crate::rocketmq::options::RocketMq;
use crate::rocketmq::pull_lane::{BrokerCursors, PullLane, QueueCursor};
use crate::rocketmq::puller::Puller;
use crate::rocketmq::route::{BrokerTopics, TopicQueues, brokers_of, describe};

/// Consumes as `options` say and blocks until the run is over.
pub fn consume(
    options: ConsumeOptions,
    rocketmq: RocketMq,
    sink: &dyn ProgressSink,
) -> Result<ConsumeReport, BenchError> {
    options.check()?;
    check_broker(&options.run.broker_pids)?;
    let machine = Machine::describe();
    let brokers = brokers_of(&options.run, Access::Read, sink)?;
    let lanes = open_lanes(&options, rocketmq, &brokers, sink)?;
    let what = format!("consume {} of {}", options.run.topic, options.run.target);
    let total = options.run.count.filter(|_| options.run.seconds.is_none() && options.run.warm_up_seconds == 0.0);
    sink.begin(&what, options.run.seconds.map(|seconds| seconds + options.run.warm_up_seconds), total);

    let live = Live::default();
    let clock = Clock::start();
    let pullers = pullers(&options, clock, &live, lanes, None);
    let threads = pullers.len();
    let workers = pullers.into_iter().map(|puller| move || puller.run()).collect();
    let watched = Supervisor { clock, live: &live, sink, run: &options.run }.watch(workers);

    let ended_ns = clock.now_ns();
    let mut tally = PullTally::default();
    for (part, read) in watched.parts {
        tally.add(part);
        if options.commit {
            commit(read)?;
        }
    }
    let limit_ns = options.run.end_ns();
    let end_ns = if ended_ns >= limit_ns { limit_ns } else { tally.last_ns };
    let setup = Setup { protocol: rocketmq.described(), machine, brokers: describe(&brokers), threads };
    Ok(ConsumeReport::new(options, setup, end_ns, tally, watched.observed))
}

/// A consumer for each thread's share of the connections.
pub fn pullers<'a>(
    options: &'a ConsumeOptions,
    clock: Clock,
    live: &'a Live,
    lanes: Vec<PullLane>,
    awaited: Option<&'a Awaited>,
) -> Vec<Puller<'a>> {
    let threads = options.run.threads.min(lanes.len());
    // A broker that holds pulls of empty queues would starve those that have to wait for their turn.
    let every_queue_at_once = lanes.iter().all(|lane| options.pulls == 0 || lane.cursors().len() <= options.pulls);
    let suspend = !options.until_empty && options.suspend_ms > 0 && every_queue_at_once;
    let mut by_thread: Vec<Vec<PullLane>> = (0..threads).map(|_| Vec::new()).collect();
    for (at, lane) in lanes.into_iter().enumerate() {
        by_thread[at % threads].push(lane);
    }
    by_thread.into_iter().map(|lanes| Puller { options, clock, live, lanes, suspend, awaited }).collect()
}

/// What the groups read of every broker, dealt out to that broker's share of the connections.
pub fn open_lanes(
    options: &ConsumeOptions,
    rocketmq: RocketMq,
    brokers: &[BrokerTopics],
    sink: &dyn ProgressSink,
) -> Result<Vec<PullLane>, BenchError> {
    let mut lanes = Vec::new();
    for (at, broker) in brokers.iter().enumerate() {
        let dealt = deal(&options.group_names(), broker);
        let share = options.run.connections / brokers.len() + usize::from(at < options.run.connections % brokers.len());
        let share = share.clamp(1, dealt.len().max(1));
        let mut control = Control::open("broker", &broker.address)?;
        let mut cursors: Vec<Vec<QueueCursor>> = (0..share).map(|_| Vec::new()).collect();
        let count = dealt.len();
        for (number, mut cursor) in dealt.into_iter().enumerate() {
            sink.prepare("queues looked at", number as u64, count as u64);
            cursor.next_offset = first_offset(options, &mut control, &cursor)?;
            cursors[number % share].push(cursor);
        }
        for cursors in cursors {
            lanes.push(PullLane::new(Link::open(&broker.address)?, rocketmq.form.wire(), cursors));
        }
    }
    Ok(lanes)
}

/// Deals groups and a broker's topics to each other in turn, until every group reads and every topic is read.
fn deal(groups: &[String], broker: &BrokerTopics) -> Vec<QueueCursor> {
    let groups: Vec<Arc<str>> = groups.iter().map(|group| group.as_str().into()).collect();
    let pairs = groups.iter().cycle().zip(broker.topics.iter().cycle()).take(groups.len().max(broker.topics.len()));
    let queues = |(group, topic): (&Arc<str>, &TopicQueues)| -> Vec<QueueCursor> {
        (0..topic.queues).map(|queue| QueueCursor::new(group.clone(), topic.topic.clone(), queue, 0)).collect()
    };
    pairs.flat_map(queues).collect()
}

fn first_offset(options: &ConsumeOptions, broker: &mut Control, cursor: &QueueCursor) -> Result<i64, ClientError> {
    let queue = (&*cursor.topic, cursor.queue);
    match options.start_from {
        StartFrom::First => offset_at(broker, queue, Start::Earliest),
        StartFrom::Latest => offset_at(broker, queue, Start::Latest),
        StartFrom::Committed => match committed(broker, &cursor.group, queue)? {
            Some(offset) => Ok(offset),
            None => offset_at(broker, queue, Start::Earliest),
        },
    }
}

/// Commits how far each queue was read.
pub fn commit(read: Vec<BrokerCursors>) -> Result<(), BenchError> {
    let mut by_broker: BTreeMap<String, Vec<QueueCursor>> = BTreeMap::new();
    for (address, cursors) in read {
        by_broker.entry(address).or_default().extend(cursors);
    }
    for (address, cursors) in by_broker {
        let mut broker = Control::open("broker", &address)?;
        for cursor in cursors {
            cursor::commit(&mut broker, &cursor.group, (&cursor.topic, cursor.queue), cursor.next_offset)?;
        }
    }
    Ok(())
}
