//! `sluice bench pop`: finds queues, deals consumers out over connections, runs the threads, makes the report.

use std::sync::Arc;

use client::link::Link;
use client::message::Start;
use client::rocketmq::control::{Control, NoFields};
use client::rocketmq::cursor::{committed, offset_at};
use client::rocketmq::route::Access;
use wire::rocketmq::code::request;

use crate::error::BenchError;
use crate::load::arrivals::Arrivals;
use crate::load::live::Live;
use crate::load::pop_options::PopOptions;
use crate::load::pop_report::PopReport;
use crate::load::pop_tally::PopTally;
use crate::load::progress::ProgressSink;
use crate::load::report::Setup;
use crate::load::supervisor::{Supervisor, check_broker};
use crate::machine::Machine;
use crate::machine::clock::Clock;
use crate::machine::open_files;
use crate::rocketmq::options::{HeaderForm, RocketMq};
use crate::rocketmq::pop_lane::{PopLane, PopSource};
use crate::rocketmq::popper::Popper;
use crate::rocketmq::route::{BrokerTopics, TopicQueues, brokers_of, describe};

/// Pops as `options` say and blocks until the run is over.
pub fn pop(options: PopOptions, rocketmq: RocketMq, sink: &dyn ProgressSink) -> Result<PopReport, BenchError> {
    let options = options.with_idle_ones();
    options.check()?;
    check_broker(&options.run.broker_pids)?;
    open_files::raise_limit();
    let machine = Machine::describe();
    let brokers = brokers_of(&options.run, Access::Read, sink)?;
    let Dealt { lanes, queues, expected } = deal_all(&options, &brokers, sink)?;
    let what = format!("pop {} of {}", options.run.topic, options.run.target);
    let total = options.run.count.filter(|_| options.run.seconds.is_none() && options.run.warm_up_seconds == 0.0);
    sink.begin(&what, options.run.seconds.map(|seconds| seconds + options.run.warm_up_seconds), total);

    let (live, arrivals, clock) = (Live::default(), Arrivals::new(queues, expected), Clock::start());
    let threads = options.run.threads.min(lanes.len()).max(1);
    let mut by_thread: Vec<Vec<PopLane>> = (0..threads).map(|_| Vec::new()).collect();
    for (at, lane) in lanes.into_iter().enumerate() {
        by_thread[at % threads].push(lane);
    }
    let popper = |lanes| Popper { options: &options, clock, live: &live, lanes, arrivals: &arrivals };
    let workers = by_thread.into_iter().map(popper).map(|popper| move || popper.run()).collect();
    let watched = Supervisor { clock, live: &live, sink, run: &options.run }.watch(workers);

    let ended_ns = clock.now_ns();
    let mut tally = PopTally::default();
    watched.parts.into_iter().for_each(|part| tally.add(part));
    // Where time ended it, up to then, or up to the answers that were still to come.
    let limit_ns = options.run.end_ns();
    let end_ns = if ended_ns >= limit_ns { limit_ns.max(tally.last_ns) } else { tally.last_ns };
    let protocol = RocketMq { form: HeaderForm::Json, ..rocketmq }.described();
    let setup = Setup { protocol, machine, brokers: describe(&brokers), threads };
    Ok(PopReport::new(options, setup, end_ns, (tally, &arrivals), watched.observed))
}

/// Consumers on their connections.
struct Dealt {
    lanes: Vec<PopLane>,
    /// Queues of all sources.
    queues: usize,
    /// Messages in them, if that is to be known.
    expected: Option<u64>,
}

fn deal_all(options: &PopOptions, brokers: &[BrokerTopics], sink: &dyn ProgressSink) -> Result<Dealt, BenchError> {
    let mut dealt = Dealt { lanes: Vec::new(), queues: 0, expected: options.until_empty.then_some(0) };
    for (at, broker) in brokers.iter().enumerate() {
        let share = |all: usize| all / brokers.len() + usize::from(at < all % brokers.len());
        let connections = share(options.run.connections).max(1);
        let mut control = Control::open("broker", &broker.address)?;
        let sources = sources(options, broker, &mut control, &mut dealt, sink)?;
        // Each source has somebody, and so has each connection.
        let consumers = share(options.consumers).max(connections).max(sources.len());
        let name: Arc<str> = match &broker.name {
            Some(name) => name.as_str().into(),
            None => name_of(&mut control)?.into(),
        };
        for connection in 0..connections {
            sink.prepare("connections opened", connection as u64, connections as u64);
            let own = (connection..consumers).step_by(connections);
            let own: Vec<PopSource> =
                own.filter_map(|consumer| sources.get(consumer % sources.len()).cloned()).collect();
            let client_id = format!("127.0.0.1@{}#{at}-{connection}", std::process::id());
            dealt.lanes.push(PopLane::new(Link::open(&broker.address)?, name.clone(), client_id, options, own));
        }
    }
    Ok(dealt)
}

/// Groups and a broker's topics, dealt to each other in turn; what is to be expected of them is added up.
fn sources(
    options: &PopOptions,
    broker: &BrokerTopics,
    control: &mut Control,
    dealt: &mut Dealt,
    sink: &dyn ProgressSink,
) -> Result<Vec<PopSource>, BenchError> {
    let groups: Vec<Arc<str>> = options.group_names().iter().map(|group| group.as_str().into()).collect();
    let count = groups.len().max(broker.topics.len());
    let mut sources = Vec::new();
    for (number, (group, topic)) in groups.iter().cycle().zip(broker.topics.iter().cycle()).take(count).enumerate() {
        sink.prepare("groups looked at", number as u64, count as u64);
        let TopicQueues { topic, queues } = topic.clone();
        let source = PopSource { group: group.clone(), topic, first_queue: dealt.queues, queues };
        dealt.queues += queues as usize;
        if let Some(expected) = &mut dealt.expected {
            for queue in 0..queues {
                *expected += left_in(options, control, &source, queue)?;
            }
        }
        sources.push(source);
    }
    Ok(sources)
}

/// Messages in a queue that its group has not had.
fn left_in(options: &PopOptions, broker: &mut Control, source: &PopSource, queue: u32) -> Result<u64, BenchError> {
    let queue = (&*source.topic, queue);
    let (first, end) = (offset_at(broker, queue, Start::Earliest)?, offset_at(broker, queue, Start::Latest)?);
    let begin = match committed(broker, &source.group, queue)? {
        Some(offset) => offset.max(first),
        None if options.latest => end,
        None => first,
    };
    Ok(u64::try_from(end - begin).unwrap_or(0))
}

/// What a broker that no name server was asked for says of itself; receipts may be without a name.
fn name_of(broker: &mut Control) -> Result<String, BenchError> {
    let answer = broker.ask(request::GET_BROKER_CONFIG, &NoFields)?;
    let text = String::from_utf8_lossy(&answer.body);
    Ok(text.lines().find_map(|line| line.strip_prefix("brokerName=")).unwrap_or_default().trim().to_owned())
}
