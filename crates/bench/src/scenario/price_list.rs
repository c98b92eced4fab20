//! N2: the tiers of a cloud price list. Which is the last at which a message is there within 10 ms?

use super::{Load, Scale, Scenario, Step, sends};
use crate::options::{ConsumeOptions, SendOptions, VisibleOptions};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "price-list",
    sentence: "1 KB messages sent and read at the tiers of a price list, until the 99th percentile from due to read leaves 10 ms",
    source: "N2",
    steps,
};

/// Messages a second; sends and reads are counted apart, so half of each tier is sent.
const TIERS: [u64; 10] = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 300_000, 500_000, 800_000, 1_000_000];
const LIMIT_MS: f64 = 10.0;

fn steps(scale: Scale) -> Vec<Step> {
    TIERS
        .map(|tier| {
            let send = SendOptions { pace: tier / 2, ..sends(scale, 1024) };
            let consume = ConsumeOptions { commit: true, ..ConsumeOptions::default() };
            let step = Step::new(format!("{tier} TPS"), Load::Visible(VisibleOptions { send, consume }));
            Step { gives_up_above_ms: Some(LIMIT_MS), ..step }
        })
        .into()
}
