//! Many of something: broker groups, topics, queues, connections, hours.

use super::load::{Load, fill, reads, sends};
use super::scale::Scale;
use super::step::{FieldFigures, Replication, Scenario, Step};
use crate::load::options::{ConsumeOptions, SendOptions, VisibleOptions};

pub(super) const BROKER_GROUPS: Scenario = Scenario {
    name: "broker-groups",
    sentence: "30-byte messages sent to and read from a cluster of 1, 2 and 4 broker groups, and of 2 with a slave each",
    source: "N0",
    steps: broker_groups,
};

const ON_ONE_MACHINE: &str = "all brokers on one machine";

fn broker_groups(scale: Scale) -> Vec<Step> {
    let backlog = scale.backlog(2_000_000);
    let unpaced = |groups: u32| {
        let mut send = SendOptions { window: 4096, ..sends(scale, 30) };
        send.run.connections = groups as usize;
        let label =
            if groups == 1 { "send unpaced, 1 group".to_owned() } else { format!("send unpaced, {groups} groups") };
        Step::new(label, Load::Send(send)).groups(groups).remark(ON_ONE_MACHINE)
    };
    let mut paced = SendOptions { pace: 70_000, window: 4096, ..sends(scale, 30) };
    paced.run.connections = 2;
    let mut of_8_queues = paced.clone();
    of_8_queues.run.queues = Some(8);
    let read = Load::Consume { fill: fill(30, 4, backlog), read: reads(1), seconds: scale.reading_seconds() };
    vec![
        unpaced(1).field(FieldFigures::rate(46_285.46).success(96.6024)),
        Step::new("send paced to 70000/s, 2 groups", Load::Send(paced))
            .groups(2)
            .remark(ON_ONE_MACHINE)
            .field(FieldFigures::rate(47_934.04).success(100.0)),
        unpaced(2).field(FieldFigures::rate(62_247.03).success(99.7571)),
        Step::new("consume, 2 groups", read)
            .groups(2)
            .remark(ON_ONE_MACHINE)
            .field(FieldFigures::rate(179_051.02).success(100.0)),
        Step::new("send paced to 70000/s, 2 groups with a slave each, 8 queues", Load::Send(of_8_queues))
            .groups(2)
            .replication(Replication::Async)
            .remark(ON_ONE_MACHINE)
            .field(FieldFigures::rate(48_181.16).success(100.0)),
        unpaced(4),
    ]
}

pub(super) const MANY_TOPICS: Scenario = Scenario {
    name: "many-topics",
    sentence: "200 topics read by 400 groups while they are sent to, bodies of 256 B to 1 MB and of 1 KB: does visibility keep up with the log?",
    source: "N4",
    steps: many_topics,
};

fn many_topics(scale: Scale) -> Vec<Step> {
    let mixed = [256, 512, 1024, 4096, 1_048_576];
    [
        ("1 KB, 10 000/s", vec![1024], 10_000, 256, None),
        ("1 KB, as fast as it goes", vec![1024], 0, 256, Some(FieldFigures::rate(32_500.0))),
        ("mixed sizes, as fast as it goes", mixed.to_vec(), 0, 4, Some(FieldFigures::rate(57_500.0))),
    ]
    .map(|(label, message_sizes, pace, window, field)| {
        let mut send = SendOptions { pace, window, message_sizes, ..sends(scale, 1024) };
        (send.run.topics, send.run.queues) = (200, Some(1));
        let consume = ConsumeOptions { groups: 400, commit: true, ..ConsumeOptions::default() };
        let step = Step::new(label, Load::Visible(VisibleOptions { send, consume }));
        Step { field, ..step }
            .remark("one node of the four, and a quarter of the cluster's rate as the field note's figure")
    })
    .into()
}

pub(super) const MANY_QUEUES: Scenario = Scenario {
    name: "many-queues",
    sentence: "1 KB messages spread over 4, 400 and 4 000 queues: does the number of queues cost anything?",
    source: "N4",
    steps: many_queues,
};

fn many_queues(scale: Scale) -> Vec<Step> {
    [1_u32, 100, 1_000]
        .map(|topics| {
            let mut send = sends(scale, 1024);
            send.run.topics = topics;
            Step::new(format!("{} queues", topics * 4), Load::Send(send))
        })
        .into()
}

pub(super) const CONNECTION_STORM: Scenario = Scenario {
    name: "connection-storm",
    sentence: "100, 1 000 and 5 000 new connections, 64 being opened at any moment, each with a first send: connections a second, and time from connecting to the answer",
    source: "-",
    steps: connection_storm,
};

/// Connections being opened at any moment.
const AT_ONCE: usize = 64;

fn connection_storm(scale: Scale) -> Vec<Step> {
    [100, 1_000, 5_000]
        .map(|connections: usize| {
            let mut storm = sends(scale, 100);
            (storm.run.connections, storm.run.threads) = (connections, AT_ONCE);
            Step::new(format!("{connections} connections"), Load::Connect(storm))
        })
        .into()
}

pub(super) const IDLE_CONNECTIONS: Scenario = Scenario {
    name: "idle-connections",
    sentence: "1 KB messages on 4 connections, while 0, 1 000 and 5 000 others are open and silent: rate and memory",
    source: "-",
    steps: idle_connections,
};

fn idle_connections(scale: Scale) -> Vec<Step> {
    [0, 1_000, 5_000]
        .map(|held_connections| Step {
            held_connections,
            ..Step::new(format!("{held_connections} idle connections"), Load::Send(sends(scale, 1024)))
        })
        .into()
}

pub(super) const SOAK: Scenario = Scenario {
    name: "soak",
    sentence: "2 KB messages at 16 000 a second, read by 2 groups, for as long as --duration says: does anything grow?",
    source: "N1",
    steps: soak,
};

fn soak(scale: Scale) -> Vec<Step> {
    let send = SendOptions { pace: 16_000, ..sends(scale, 2048) };
    let consume = ConsumeOptions { groups: 2, commit: true, ..ConsumeOptions::default() };
    let field = FieldFigures::rate(16_000.0);
    vec![
        Step::new("16 000/s, 2 groups", Load::Visible(VisibleOptions { send, consume }))
            .field(field)
            .remark("one machine; the note's two clients each got every message: here the rate counts both groups"),
    ]
}
