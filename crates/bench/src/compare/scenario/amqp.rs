//! One queue of AMQP, in the shapes in which RabbitMQ's own load generator is commonly used; and what other scenarios of AMQP are made of.

use super::load::{Load, fill, sends};
use super::scale::Scale;
use super::step::{Pacing, Scenario, Step, Whose};
use crate::amqp::options::{Amqp, DeliverOptions, ExchangeKind, PublishOptions, QueueOptions};
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions, VisibleOptions};

/// Messages that a publisher has unconfirmed, as published measurements have it.
pub(super) const UNCONFIRMED: usize = 200;
/// Queues of a fan-out.
const COPIES: usize = 10;

pub(super) const AMQP_FLOWS: Scenario = Scenario {
    name: "amqp-flows",
    sentence: "From one publisher to one consumer, each on a connection of its own: transient without acknowledgements; persistent with confirms (200 unconfirmed), prefetch 100 and an acknowledgement for every ten; published alone; consumed alone; to 10 queues, where every delivery counts; 16 bytes instead of 1 KB; and all brokers at the most that the slowest reached, for their times",
    source: "-",
    steps: amqp_flows,
};

const CONFIRMED: &str = "1 to 1, persistent, confirms, acknowledgements";

fn amqp_flows(scale: Scale) -> Vec<Step> {
    let confirmed = || Load::Visible(flow(scale, 1024, Some(UNCONFIRMED)));
    let unconfirmed = |size| Load::Visible(flow(scale, size, None));
    let consume = Load::Consume {
        fill: fill(1024, 1, scale.backlog(1_000_000)),
        read: reads_to_the_end(),
        seconds: scale.reading_seconds(),
    };
    let mut to_ten = flow(scale, 1024, None);
    to_ten.send.run.queues = u32::try_from(COPIES).ok();
    vec![
        Step::new("1 to 1, transient, no acknowledgements", unconfirmed(1024)).amqp(transient()),
        Step::new(CONFIRMED, confirmed()).amqp(acknowledged()),
        Step::new("publish only, persistent, no confirms", Load::Send(publishes(scale, 1024, None)))
            .amqp(Amqp::default()),
        Step::new("consume only, acknowledgements", consume).amqp(acknowledged()),
        Step::new("1 to 10 queues, transient, no acknowledgements: deliveries", Load::Visible(to_ten)).amqp(fan_out()),
        Step::new("1 to 1, transient, no acknowledgements, 16 bytes", unconfirmed(16)).amqp(transient()),
        Step::new("1 to 1, persistent, confirms, acknowledgements, paced to the slowest's rate", confirmed())
            .amqp(acknowledged())
            .paced(Pacing { of_step: CONFIRMED, share: 1.0, whose: Whose::Slowest }),
    ]
}

/// One publisher with so many unconfirmed, or with no confirms.
pub(super) fn publishes(scale: Scale, size: usize, unconfirmed: Option<usize>) -> SendOptions {
    let mut send = sends(scale, size);
    (send.run.connections, send.run.queues) = (1, Some(1));
    (send.window, send.one_way) = (unconfirmed.unwrap_or(send.window), unconfirmed.is_none());
    send
}

/// The same, beside a connection that consumes.
pub(super) fn flow(scale: Scale, size: usize, unconfirmed: Option<usize>) -> VisibleOptions {
    let run = RunOptions { connections: 1, ..RunOptions::default() };
    let consume = ConsumeOptions { run, ..ConsumeOptions::default() };
    VisibleOptions { send: publishes(scale, size, unconfirmed), consume }
}

/// One connection that consumes what there is.
pub(super) fn reads_to_the_end() -> ConsumeOptions {
    let run = RunOptions { connections: 1, queues: Some(1), seconds: None, ..RunOptions::default() };
    ConsumeOptions { run, until_empty: true, ..ConsumeOptions::default() }
}

/// Prefetch 100, ten messages an acknowledgement.
pub(super) fn acknowledged() -> Amqp {
    let deliver = DeliverOptions { prefetch: 100, ack_every: 10, ..DeliverOptions::default() };
    Amqp { deliver, ..Amqp::default() }
}

fn transient() -> Amqp {
    Amqp {
        queues: QueueOptions { transient_queues: true, ..QueueOptions::default() },
        publish: PublishOptions { transient: true, ..PublishOptions::default() },
        deliver: DeliverOptions { auto_ack: true, ..DeliverOptions::default() },
    }
}

/// The same by an exchange, with a consumer for each queue.
fn fan_out() -> Amqp {
    let Amqp { queues, publish, deliver } = transient();
    let (exchange, exchange_kind) = ("bench-fan-out".to_owned(), ExchangeKind::Fanout);
    Amqp {
        queues,
        publish: PublishOptions { exchange, exchange_kind, ..publish },
        deliver: DeliverOptions { consumer_channels: COPIES, ..deliver },
    }
}
