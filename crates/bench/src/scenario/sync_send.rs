//! N0: one sender that waits for each answer.

use super::{FieldFigures, Load, Scale, Scenario, Step, threads_of_one_client};
use crate::options::SendOptions;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sync-send",
    sentence: "One sender waits for the answer to each 30-byte message before it sends the next",
    source: "N0",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    [(4, 1346.52), (8, 1327.22)]
        .map(|(queues, rate)| {
            let send = SendOptions { queues: Some(queues), ..threads_of_one_client(scale, 1, 30) };
            Step::new(format!("{queues} queues"), Load::Send(send)).field(FieldFigures::rate(rate).success(100.0))
        })
        .into()
}
