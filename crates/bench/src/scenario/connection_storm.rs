//! Producers that all come back at once.

use super::{Load, Scale, Scenario, Step, sends};
use crate::options::SendOptions;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "connection-storm",
    sentence: "100, 1 000 and 5 000 new connections, 64 being opened at any moment, each with a first send: connections a second, and time from connecting to the answer",
    source: "-",
    steps,
};

/// Connections being opened at any moment.
const AT_ONCE: usize = 64;

fn steps(scale: Scale) -> Vec<Step> {
    [100, 1_000, 5_000]
        .map(|connections: usize| {
            let storm = SendOptions { connections, threads: AT_ONCE, ..sends(scale, 100) };
            Step::new(format!("{connections} connections"), Load::Connect(storm))
        })
        .into()
}
