//! N2: what waiting for the disk costs. Replication joins when there is any.

use super::{FieldFigures, Flush, Load, Scale, Scenario, Step, threads_of_one_client};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "flush",
    sentence: "16 and 64 threads of one producer, 1 KB, answered before and after the disk has the message",
    source: "N2",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    [
        (16, Flush::Async, Some(FieldFigures::rate(22_000.0).round_trips(0.715, 705.0))),
        (16, Flush::Sync, Some(FieldFigures::rate(2_600.0).round_trips(5.648, 267.0))),
        (64, Flush::Sync, None),
    ]
    .map(|(threads, flush, field)| {
        let how = if flush == Flush::Sync { "sync flush" } else { "async flush" };
        let load = Load::Send(threads_of_one_client(scale, threads, 1024));
        let step = Step::new(format!("{threads} threads, {how}"), load).needs(flush, 1);
        Step { field, ..step }.remark("without a replica; the two lines of the note with sync replication are missing")
    })
    .into()
}
