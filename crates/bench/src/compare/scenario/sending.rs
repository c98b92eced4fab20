//! Senders: one by one, many at once, before and after the disk, in all sizes and at all paces.

use super::load::{Load, sends, threads_of_one_client};
use super::scale::Scale;
use super::step::{FieldFigures, Flush, PAIR_ON_ONE_MACHINE, Replication, Scenario, Step};
use crate::load::options::{ConsumeOptions, SendOptions, VisibleOptions};

pub(super) const SYNC_SEND: Scenario = Scenario {
    name: "sync-send",
    sentence: "One sender waits for the answer to each 30-byte message before it sends the next",
    source: "N0",
    steps: sync_send,
};

fn sync_send(scale: Scale) -> Vec<Step> {
    [(4, 1346.52), (8, 1327.22)]
        .map(|(queues, rate)| {
            let mut send = threads_of_one_client(scale, 1, 30);
            send.run.queues = Some(queues);
            Step::new(format!("{queues} queues"), Load::Send(send)).field(FieldFigures::rate(rate).success(100.0))
        })
        .into()
}

pub(super) const ASYNC_SEND: Scenario = Scenario {
    name: "async-send",
    sentence: "30-byte messages in flight without a bound that matters, at 37 000 a second and as fast as the broker takes them",
    source: "N0",
    steps: async_send,
};

/// What official clients call unpaced: far more in flight than a broker answers in its queue's time limit.
const WINDOW: usize = 16_384;

fn async_send(scale: Scale) -> Vec<Step> {
    [
        (4, 37_000, FieldFigures::rate(29_922.20).success(100.0)),
        (4, 0, FieldFigures::rate(46_285.46).success(96.6024)),
        (8, 37_000, FieldFigures::rate(29_871.25).success(100.0)),
        (8, 0, FieldFigures::rate(48_844.23).success(97.9327)),
    ]
    .map(|(queues, pace, field)| {
        let mut send = SendOptions { pace, ..threads_of_one_client(scale, WINDOW, 30) };
        send.run.queues = Some(queues);
        let how = if pace > 0 { format!("paced to {pace}/s") } else { "unpaced".to_owned() };
        Step::new(format!("{how}, {queues} queues"), Load::Send(send)).field(field)
    })
    .into()
}

pub(super) const THREAD_SWEEP: Scenario = Scenario {
    name: "thread-sweep",
    sentence: "1 to 128 threads of one producer, each waits for the answer to its 1 KB message; a master with an asynchronous slave",
    source: "N2",
    steps: thread_sweep,
};

fn thread_sweep(scale: Scale) -> Vec<Step> {
    [
        (1, FieldFigures::rate(3_800.0).round_trips(0.256, 198.0)),
        (8, FieldFigures::rate(18_000.0).round_trips(0.439, 984.0)),
        (16, FieldFigures::rate(22_000.0).round_trips(0.715, 705.0)),
        (32, FieldFigures::rate(26_000.0).round_trips(1.213, 1_102.0)),
        (64, FieldFigures::rate(29_000.0).round_trips(2.115, 1_108.0)),
        (128, FieldFigures::rate(27_500.0).round_trips(3.822, 884.0)),
    ]
    .map(|(threads, field)| {
        let label = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        Step::new(label, Load::Send(threads_of_one_client(scale, threads, 1024)))
            .field(field)
            .replication(Replication::Async)
            .remark(PAIR_ON_ONE_MACHINE)
    })
    .into()
}

pub(super) const FLUSH: Scenario = Scenario {
    name: "flush",
    sentence: "16, 64 and 256 threads of one producer, 1 KB, answered before and after the slave, and before and after the disk has the message",
    source: "N2",
    steps: flush,
};

/// What the note has of 16 threads. More of them show how much of the waiting a broker lets them share.
fn flush(scale: Scale) -> Vec<Step> {
    let figures = |rate, mean_ms, max_ms| FieldFigures::rate(rate).round_trips(mean_ms, max_ms);
    [
        (Replication::Async, Flush::Async, figures(22_000.0, 0.715, 705.0)),
        (Replication::Sync, Flush::Async, figures(7_000.0, 2.129, 2_187.0)),
        (Replication::Async, Flush::Sync, figures(2_600.0, 5.648, 267.0)),
        (Replication::Sync, Flush::Sync, figures(3_200.0, 5.072, 308.0)),
    ]
    .into_iter()
    .flat_map(|(replication, flush, field)| {
        [(16, Some(field)), (64, None), (256, None)].map(|(threads, field)| {
            let label = format!("{threads} threads, {}", answered_after(replication, flush));
            let load = Load::Send(threads_of_one_client(scale, threads, 1024));
            let step = Step::new(label, load).replication(replication).flush(flush).remark(PAIR_ON_ONE_MACHINE);
            Step { field, ..step }
        })
    })
    .collect()
}

fn answered_after(replication: Replication, flush: Flush) -> &'static str {
    match (replication == Replication::Sync, flush) {
        (false, Flush::Async) => "async replication, async flush",
        (true, Flush::Async) => "sync replication, async flush",
        (false, Flush::Sync) => "async replication, sync flush",
        (true, Flush::Sync) => "sync replication, sync flush",
    }
}

pub(super) const PRODUCER_SHAPES: Scenario = Scenario {
    name: "producer-shapes",
    sentence: "4 connections with 256 messages in flight on each, of 1 KB and of 30 bytes; 16 and 64 connections with one of 1 KB",
    source: "-",
    steps: producer_shapes,
};

fn producer_shapes(scale: Scale) -> Vec<Step> {
    [
        ("1 KB, 4 x 256", 1024, 4, 256, Flush::Async),
        ("30 bytes, 4 x 256", 30, 4, 256, Flush::Async),
        ("1 KB, 16 x 1", 1024, 16, 1, Flush::Async),
        ("1 KB, 64 x 1, sync flush", 1024, 64, 1, Flush::Sync),
    ]
    .map(|(label, size, connections, window, flush)| {
        let mut send = SendOptions { window, ..sends(scale, size) };
        send.run.connections = connections;
        Step::new(label, Load::Send(send)).flush(flush)
    })
    .into()
}

pub(super) const PRICE_LIST: Scenario = Scenario {
    name: "price-list",
    sentence: "1 KB messages sent and read at the tiers of a price list, until the 99th percentile from due to read leaves 10 ms",
    source: "N2",
    steps: price_list,
};

/// Messages a second; sends and reads are counted apart, so half of each tier is sent.
const TIERS: [u64; 10] = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 500_000, 800_000, 1_000_000];
const LIMIT_MS: f64 = 10.0;

fn price_list(scale: Scale) -> Vec<Step> {
    TIERS
        .map(|tier| {
            let send = SendOptions { pace: tier / 2, ..sends(scale, 1024) };
            let consume = ConsumeOptions { commit: true, ..ConsumeOptions::default() };
            let step = Step::new(format!("{tier} TPS"), Load::Visible(VisibleOptions { send, consume }));
            Step { gives_up_above_ms: Some(LIMIT_MS), ..step }
        })
        .into()
}

pub(super) const BIG_MESSAGES: Scenario = Scenario {
    name: "big-messages",
    sentence: "Bodies of 256 B, 512 B, 1 KB, 4 KB, 64 KB and 1 MB, each by itself",
    source: "N4",
    steps: big_messages,
};

/// Bytes in flight stay the same, and with them the memory both sides need.
const IN_FLIGHT: usize = 4 * 1024 * 1024;

fn big_messages(scale: Scale) -> Vec<Step> {
    [256, 512, 1024, 4096, 65_536, 1_048_576]
        .map(|size: usize| {
            let window = (IN_FLIGHT / 4 / size).clamp(1, 256);
            let label = if size < 1024 { format!("{size} B") } else { format!("{} KB", size / 1024) };
            Step::new(label, Load::Send(SendOptions { window, ..sends(scale, size) }))
        })
        .into()
}
