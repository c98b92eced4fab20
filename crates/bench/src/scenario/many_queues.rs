//! Many queues behind one log.

use super::{Load, Scale, Scenario, Step, sends};
use crate::options::SendOptions;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "many-queues",
    sentence: "1 KB messages spread over 4, 400 and 4 000 queues: does the number of queues cost anything?",
    source: "N4",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    [1_u32, 100, 1_000]
        .map(|topics| {
            let send = SendOptions { topics, ..sends(scale, 1024) };
            Step::new(format!("{} queues", topics * 4), Load::Send(send))
        })
        .into()
}
