//! Consumers that take their time for each message, and the long queues that they leave.

use super::amqp::{UNCONFIRMED, acknowledged, flow, publishes, reads_to_the_end};
use super::load::{Load, fill};
use super::scale::Scale;
use super::step::{FieldFigures, Pacing, Scenario, Side, Step, Whose};
use crate::amqp::options::{Amqp, DeliverOptions};
use crate::load::options::{ConsumeOptions, RunOptions, SendOptions};

pub(super) const WORKING_CONSUMERS: Scenario = Scenario {
    name: "working-consumers",
    sentence: "1 KB messages that take a consumer 10 ms each, acknowledged one by one, on so many connections x channels on each: a channel has one consumer, which can do 100 a second; do they add up?",
    source: "N3",
    steps: working_consumers,
};

fn working_consumers(scale: Scale) -> Vec<Step> {
    let (seconds, warm_up_seconds) = (Some(scale.seconds()), scale.warm_up_seconds());
    [(1, 1, 10, 100.0), (1, 10, 100, 850.0), (1, 30, 100, 1_400.0), (3, 17, 100, 4_000.0), (10, 17, 100, 12_500.0)]
        .map(|(connections, channels, prefetch, rate)| {
            let run = RunOptions { connections, queues: Some(1), seconds, warm_up_seconds, ..RunOptions::default() };
            let read = ConsumeOptions { run, ..ConsumeOptions::default() };
            // As many as 170 can do in that time, and what each has on its way besides.
            let load = Load::Consume { fill: fill(1024, 1, scale.backlog(700_000)), read, seconds: 0.0 };
            Step::new(format!("{connections} x {channels} channels, prefetch {prefetch}"), load)
                .amqp(working(channels, prefetch))
                .field(FieldFigures::rate(rate))
                .remark("the messages are there already: nobody publishes meanwhile")
        })
        .into()
}

pub(super) const QUEUE_BACKLOG: Scenario = Scenario {
    name: "queue-backlog",
    sentence: "1 KB messages through a queue with few messages and through one of 20 million (--backlog N; 200 000 with --quick): published with 200 unconfirmed; published at half of the rate that the empty queue had, while 170 channels take 10 ms for each message; consumed with prefetch 100",
    source: "N3",
    steps: queue_backlog,
};

const PUBLISH_SHORT: &str = "publish, empty queue";
const CONSUME_SHORT: &str = "consume, short queue";

fn queue_backlog(scale: Scale) -> Vec<Step> {
    let (short, long) = (scale.backlog(400_000), long_backlog(scale));
    let consume = |fill, read| Load::Consume { fill, read, seconds: scale.reading_seconds() };
    let publish = || Load::Send(publishes(scale, 1024, Some(UNCONFIRMED)));
    // So much of it as the short queue has.
    let mut first_of_it = reads_to_the_end();
    first_of_it.run.count = Some(short);
    let mut drained = flow(scale, 1024, Some(UNCONFIRMED));
    drained.consume.run.connections = 10;
    let drained =
        behind("publish at half of the first rate, long queue, 170 channels of 10 ms", &long, Load::Visible(drained));
    vec![
        Step::new(PUBLISH_SHORT, publish()).amqp(Amqp::default()),
        Step::new(CONSUME_SHORT, consume(fill(1024, 1, short), reads_to_the_end())).amqp(acknowledged()),
        behind("publish, long queue", &long, publish()).amqp(Amqp::default()).beside_step(PUBLISH_SHORT),
        Step { side: Side::Sends, ..drained }
            .amqp(working(17, 100))
            .paced(Pacing { of_step: PUBLISH_SHORT, share: 0.5, whose: Whose::Own })
            .beside_step(PUBLISH_SHORT)
            .field(FieldFigures::rate(100.0))
            .remark("there are fewer messages in the queue than 40 million, and the publisher has a pace"),
        behind("consume, long queue", &long, consume(long.clone(), first_of_it))
            .amqp(acknowledged())
            .beside_step(CONSUME_SHORT),
    ]
}

fn long_backlog(scale: Scale) -> SendOptions {
    let count = match scale {
        Scale::Quick => 200_000,
        Scale::Full | Scale::Lasting(_) => 20_000_000,
    };
    fill(1024, 1, count)
}

/// Put on the very queue in which that is.
fn behind(label: &str, backlog: &SendOptions, load: Load) -> Step {
    Step { is_behind: true, beside: Some(backlog.clone()), ..Step::new(label, load) }
}

/// Each message takes a channel 10 ms.
fn working(consumer_channels: usize, prefetch: u16) -> Amqp {
    let deliver = DeliverOptions { consumer_channels, prefetch, work_ms: 10, ..DeliverOptions::default() };
    Amqp { deliver, ..Amqp::default() }
}
