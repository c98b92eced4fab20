//! N1: hours of the same load, with memory and round trips over time.

use super::{FieldFigures, Load, Scale, Scenario, Step, sends};
use crate::options::{ConsumeOptions, SendOptions, VisibleOptions};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "soak",
    sentence: "2 KB messages at 16 000 a second, read by 2 groups, for as long as --duration says: does anything grow?",
    source: "N1",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    let send = SendOptions { pace: 16_000, ..sends(scale, 2048) };
    let consume = ConsumeOptions { groups: 2, commit: true, ..ConsumeOptions::default() };
    let field = FieldFigures::rate(16_000.0);
    vec![
        Step::new("16 000/s, 2 groups", Load::Visible(VisibleOptions { send, consume }))
            .field(field)
            .remark("one machine; the note's two clients each got every message: here the rate counts both groups"),
    ]
}
