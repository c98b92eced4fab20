//! N0: sends without waiting for answers, at a pace and as fast as it goes.

use super::{FieldFigures, Load, Scale, Scenario, Step, sends};
use crate::options::SendOptions;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "async-send",
    sentence: "30-byte messages in flight without a bound that matters, at 37 000 a second and as fast as the broker takes them",
    source: "N0",
    steps,
};

/// What official clients call unpaced: far more in flight than a broker answers in its queue's time limit.
const WINDOW: usize = 16_384;

fn steps(scale: Scale) -> Vec<Step> {
    [
        (4, 37_000, FieldFigures::rate(29_922.20).success(100.0)),
        (4, 0, FieldFigures::rate(46_285.46).success(96.6024)),
        (8, 37_000, FieldFigures::rate(29_871.25).success(100.0)),
        (8, 0, FieldFigures::rate(48_844.23).success(97.9327)),
    ]
    .map(|(queues, pace, field)| {
        let send = SendOptions { queues: Some(queues), pace, connections: 1, window: WINDOW, ..sends(scale, 30) };
        let how = if pace > 0 { format!("paced to {pace}/s") } else { "unpaced".to_owned() };
        Step::new(format!("{how}, {queues} queues"), Load::Send(send)).field(field)
    })
    .into()
}
