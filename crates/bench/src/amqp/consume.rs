//! `sluice bench consume` from an AMQP broker: finds the queues, opens connections and channels, runs the consumer threads, makes the
//! report.

use client::amqp::control::Control;

use crate::amqp::consumer::{Consumer, Until};
use crate::amqp::conversation::Conversation;
use crate::amqp::deliver_lane::{DeliverLane, Terms};
use crate::amqp::mark::Origin;
use crate::amqp::observer::Observer;
use crate::amqp::options::{AmqpDriver, DeliverOptions};
use crate::amqp::topology::topology_of;
use crate::error::BenchError;
use crate::load::awaited::Awaited;
use crate::load::live::Live;
use crate::load::options::ConsumeOptions;
use crate::load::progress::ProgressSink;
use crate::load::report::{ConsumeReport, Setup};
use crate::load::supervisor::{Supervisor, check_broker};
use crate::load::tally::PullTally;
use crate::machine::Machine;
use crate::machine::clock::{Clock, SECOND_NS};

/// A queue from which nothing more has come for so long is taken for empty, whatever it was said to have.
const PATIENCE_NS: u64 = 5 * SECOND_NS;
const MS_NS: u64 = SECOND_NS / 1000;

/// Consumes as `options` say and blocks until the run is over.
pub fn consume(
    options: ConsumeOptions,
    driver: &AmqpDriver,
    sink: &dyn ProgressSink,
) -> Result<ConsumeReport, BenchError> {
    check_broker(&options.run.broker_pids)?;
    let machine = Machine::describe();
    let mut control = Control::open(&driver.address)?;
    let topology = topology_of(&options.run, &driver.amqp, &mut control, sink)?;
    control.close()?;
    let by_thread = open_lanes(&options, driver, &topology.queues)?;
    let threads = by_thread.len();
    let what = format!("consume {} of {}", options.run.topic, options.run.target);
    let total = options.run.count.filter(|_| options.run.seconds.is_none() && options.run.warm_up_seconds == 0.0);
    sink.begin(&what, options.run.seconds.map(|seconds| seconds + options.run.warm_up_seconds), total);

    let awaited = Awaited::new(PATIENCE_NS);
    awaited.settle(topology.ready);
    let until = if options.until_empty { Until::Empty(&awaited) } else { Until::Time };
    let (live, clock) = (Live::default(), Clock::start());
    let origin = Origin::of(clock);
    let consumer = |lanes| {
        let observer = Observer::new(origin, options.run.measure_from_ns());
        let terms = terms_of(&driver.amqp.deliver);
        let consumer = Consumer { options: &options, terms, clock, live: &live, lanes, observer, until };
        move || consumer.run()
    };
    let workers = by_thread.into_iter().map(consumer).collect();
    let watched = Supervisor { clock, live: &live, sink, run: &options.run }.watch(workers);

    let ended_ns = clock.now_ns();
    let mut tally = PullTally::default();
    for part in watched.parts {
        tally.add(part);
    }
    let limit_ns = options.run.end_ns();
    let end_ns = if ended_ns >= limit_ns { limit_ns } else { tally.last_ns };
    let (protocol, brokers) = (driver.amqp.described(), topology.described(&driver.address.address));
    Ok(ConsumeReport::new(options, Setup { protocol, machine, brokers, threads }, end_ns, tally, watched.observed))
}

/// How messages are handled.
pub fn terms_of(deliver: &DeliverOptions) -> Terms {
    let ack_every = (!deliver.auto_ack).then_some(deliver.ack_every);
    Terms { ack_every, work_ns: deliver.work_ms * MS_NS }
}

/// The connections with their channels, dealt out to the threads. Queues and channels are dealt to each other in turn until every channel
/// has a queue and every queue a channel.
pub fn open_lanes(
    options: &ConsumeOptions,
    driver: &AmqpDriver,
    queues: &[String],
) -> Result<Vec<Vec<DeliverLane>>, BenchError> {
    let DeliverOptions { consumer_channels, prefetch, auto_ack, .. } = driver.amqp.deliver;
    let connections = options.run.connections;
    let threads = options.run.threads.min(connections);
    let channels = consumer_channels * connections;
    let mut dealt: Vec<Vec<String>> = vec![Vec::new(); channels];
    for (queue, channel) in queues.iter().cycle().zip((0..channels).cycle()).take(queues.len().max(channels)) {
        if let Some(of_channel) = dealt.get_mut(channel) {
            of_channel.push(queue.clone());
        }
    }
    let mut by_thread: Vec<Vec<DeliverLane>> = (0..threads).map(|_| Vec::new()).collect();
    for (of_connection, thread) in dealt.chunks(consumer_channels).zip((0..threads).cycle()) {
        let mut control = Control::open(&driver.address)?;
        control.open_channels(consumer_channels)?;
        if !auto_ack && prefetch > 0 {
            (1..=u16::MAX).take(consumer_channels).try_for_each(|channel| control.set_prefetch(channel, prefetch))?;
        }
        let conversation = Conversation::new(consumer_channels, control.frame_max());
        let lane = DeliverLane::new(control.into_link()?, conversation, of_connection.to_vec());
        if let Some(lanes) = by_thread.get_mut(thread) {
            lanes.push(lane);
        }
    }
    Ok(by_thread)
}
