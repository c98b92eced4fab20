//! N0: whether a second consumer adds anything.

use super::{FieldFigures, Load, Scale, Scenario, Step, fill, reads};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "two-consumers",
    sentence: "One consumer, then two, read a backlog of 30-byte messages from 4 queues",
    source: "N0",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
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
