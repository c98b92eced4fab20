//! Readers: of few and many queues, with one and several consumers, beside senders and behind a backlog.

use super::load::{Load, fill, reads, sends, threads_of_one_client};
use super::scale::Scale;
use super::step::{FieldFigures, PAIR_ON_ONE_MACHINE, Replication, Scenario, Step};
use crate::load::options::{ConsumeOptions, VisibleOptions};
use crate::rocketmq::options::{HeaderForm, RocketMq};

pub(super) const CONSUME_BY_QUEUES: Scenario = Scenario {
    name: "consume-by-queues",
    sentence: "One consumer reads a backlog of 30-byte messages from 1, 4, 8 and 64 queues, 32 a pull",
    source: "N0",
    steps: consume_by_queues,
};

fn consume_by_queues(scale: Scale) -> Vec<Step> {
    let backlog = scale.backlog(3_000_000);
    [(1, None), (4, Some(87_282.88)), (8, Some(140_495.48)), (64, None)]
        .map(|(queues, rate)| {
            let load =
                Load::Consume { fill: fill(30, queues, backlog), read: reads(1), seconds: scale.reading_seconds() };
            let field = rate.map(|rate| FieldFigures::rate(rate).success(100.0));
            let label = if queues == 1 { "1 queue".to_owned() } else { format!("{queues} queues") };
            Step { field, ..Step::new(label, load) }
        })
        .into()
}

pub(super) const TWO_CONSUMERS: Scenario = Scenario {
    name: "two-consumers",
    sentence: "One consumer, then two, read a backlog of 30-byte messages from 4 queues",
    source: "N0",
    steps: two_consumers,
};

fn two_consumers(scale: Scale) -> Vec<Step> {
    let backlog = scale.backlog(2_000_000);
    [(1, 87_282.88), (2, 44_347.86 + 46_796.76)]
        .map(|(consumers, rate)| {
            let load =
                Load::Consume { fill: fill(30, 4, backlog), read: reads(consumers), seconds: scale.reading_seconds() };
            let label = if consumers == 1 { "1 consumer" } else { "2 consumers" };
            Step::new(label, load)
                .field(FieldFigures::rate(rate).success(100.0))
                .remark("each consumer is a thread and a connection, not a process")
        })
        .into()
}

pub(super) const CONSUME_WHILE_PRODUCING: Scenario = Scenario {
    name: "consume-while-producing",
    sentence: "16 threads of one producer send 1 KB messages to a master with an asynchronous slave while a consumer reads them: rate, and time from due to arrival",
    source: "N2",
    steps: consume_while_producing,
};

fn consume_while_producing(scale: Scale) -> Vec<Step> {
    let send = threads_of_one_client(scale, 16, 1024);
    let mut consume = ConsumeOptions { commit: true, ..ConsumeOptions::default() };
    consume.run.connections = 1;
    let field = FieldFigures::rate(15_000.0).round_trips(1.6, 8_602.0);
    vec![
        Step::new("16 threads, 1 consumer", Load::Visible(VisibleOptions { send, consume }))
            .replication(Replication::Async)
            .field(field)
            .remark(PAIR_ON_ONE_MACHINE),
    ]
}

/// All other scenarios have the binary form, which costs both sides less.
pub(super) const JSON_HEADERS: Scenario = Scenario {
    name: "json-headers",
    sentence: "1 KB messages with JSON headers, as official clients send them: by 16 threads of one producer, as fast as it goes, and read",
    source: "N2",
    steps: json_headers,
};

fn json_headers(scale: Scale) -> Vec<Step> {
    let read = Load::Consume {
        fill: fill(1024, 4, scale.backlog(1_000_000)),
        read: reads(1),
        seconds: scale.reading_seconds(),
    };
    let field = FieldFigures::rate(22_000.0).round_trips(0.715, 705.0);
    let threads = Load::Send(threads_of_one_client(scale, 16, 1024));
    [
        Step::new("16 threads", threads).field(field).remark("one broker without a replica"),
        Step::new("unpaced, 4 connections", Load::Send(sends(scale, 1024))),
        Step::new("read from 4 queues", read),
    ]
    .map(|step| Step { rocketmq: RocketMq { form: HeaderForm::Json, ..RocketMq::default() }, ..step })
    .into()
}

pub(super) const PULL_SIZES: Scenario = Scenario {
    name: "pull-sizes",
    sentence: "A backlog of 1 KB messages read from 1, 4 and 64 queues on up to 4 connections, in pulls of 256 and of 32",
    source: "-",
    steps: pull_sizes,
};

fn pull_sizes(scale: Scale) -> Vec<Step> {
    let step = |queues, batch| {
        let (fill, seconds) = (fill(1024, queues, scale.backlog(2_000_000)), scale.reading_seconds());
        let mut read = ConsumeOptions { batch, ..reads(1) };
        read.run.connections = 4;
        Step::new(format!("queues: {queues}, pulls of {batch}"), Load::Consume { fill, read, seconds })
    };
    [1, 4, 64].into_iter().flat_map(|queues| [256, 32].map(|batch| step(queues, batch))).collect()
}

pub(super) const BACKLOG: Scenario = Scenario {
    name: "backlog",
    sentence: "1 KB messages published with nothing stored, then with 3 million unread; then those are read",
    source: "N3",
    steps: backlog,
};

fn backlog(scale: Scale) -> Vec<Step> {
    let backlog = || fill(1024, 4, scale.backlog(3_000_000));
    let publish = || Load::Send(sends(scale, 1024));
    vec![
        Step::new("publish, nothing stored", publish()),
        Step { beside: Some(backlog()), ..Step::new("publish beside the backlog", publish()) },
        // Once: what was read is no backlog any more.
        Step::new("read the backlog", Load::Consume { fill: backlog(), read: reads(4), seconds: 0.0 }),
    ]
}
