//! N0: one consumer reads a backlog, by number of queues.

use super::{FieldFigures, Load, Scale, Scenario, Step, fill, reads};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "consume-by-queues",
    sentence: "One consumer reads a backlog of 30-byte messages from 1, 4, 8 and 64 queues, 32 a pull",
    source: "N0",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
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
