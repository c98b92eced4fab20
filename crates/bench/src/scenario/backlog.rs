//! N3: whether what is stored and unread costs those who publish and read.

use super::{Load, Scale, Scenario, Step, fill, reads, sends};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "backlog",
    sentence: "1 KB messages published with nothing stored, then with 3 million unread; then those are read",
    source: "N3",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    let backlog = || fill(1024, 4, scale.backlog(3_000_000));
    let publish = || Load::Send(sends(scale, 1024));
    vec![
        Step::new("publish, nothing stored", publish()),
        Step { beside: Some(backlog()), ..Step::new("publish beside the backlog", publish()) },
        // Once: what was read is no backlog any more.
        Step::new("read the backlog", Load::Consume { fill: backlog(), read: reads(4), seconds: 0.0 }),
    ]
}
