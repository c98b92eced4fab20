//! N4: many topics, each read by more than one group.

use super::{FieldFigures, Load, Scale, Scenario, Step, sends};
use crate::options::{ConsumeOptions, SendOptions, VisibleOptions};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "many-topics",
    sentence: "200 topics read by 400 groups while they are sent to, bodies of 256 B to 1 MB and of 1 KB: does visibility keep up with the log?",
    source: "N4",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    let mixed = [256, 512, 1024, 4096, 1_048_576];
    [
        ("1 KB, 10 000/s", vec![1024], 10_000, 256, None),
        ("1 KB, as fast as it goes", vec![1024], 0, 256, Some(FieldFigures::rate(32_500.0))),
        ("mixed sizes, as fast as it goes", mixed.to_vec(), 0, 4, Some(FieldFigures::rate(57_500.0))),
    ]
    .map(|(label, message_sizes, pace, window, field)| {
        let send = SendOptions { topics: 200, queues: Some(1), pace, window, message_sizes, ..sends(scale, 1024) };
        let consume = ConsumeOptions { groups: 400, commit: true, ..ConsumeOptions::default() };
        let step = Step::new(label, Load::Visible(VisibleOptions { send, consume }));
        Step { field, ..step }
            .remark("one node of the four, and a quarter of the cluster's rate as the field note's figure")
    })
    .into()
}
