//! Clients that are connected and silent.

use super::{Load, Scale, Scenario, Step, sends};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "idle-connections",
    sentence: "1 KB messages on 4 connections, while 0, 1 000 and 5 000 others are open and silent: rate and memory",
    source: "-",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    [0, 1_000, 5_000]
        .map(|held_connections| Step {
            held_connections,
            ..Step::new(format!("{held_connections} idle connections"), Load::Send(sends(scale, 1024)))
        })
        .into()
}
