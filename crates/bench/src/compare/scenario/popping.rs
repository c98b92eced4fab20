//! Consumers that pop: messages are handed out for a time, and each is acknowledged.

use super::load::{Load, fill, pops};
use super::scale::Scale;
use super::step::{Scenario, Step};

pub(super) const POP: Scenario = Scenario {
    name: "pop",
    sentence: "1, 16 and 64 consumers pop a backlog of 1 KB messages from 8 queues, 32 a pop, and acknowledge each message: messages popped and acknowledged a second, and time from pop to acknowledged",
    source: "-",
    steps: pop,
};

fn pop(scale: Scale) -> Vec<Step> {
    let backlog = scale.backlog(400_000);
    [1, 16, 64]
        .map(|consumers| {
            let (fill, seconds) = (fill(1024, 8, backlog), scale.reading_seconds());
            let label = if consumers == 1 { "1 consumer".to_owned() } else { format!("{consumers} consumers") };
            Step::new(label, Load::Pop { fill, pop: pops(consumers), seconds })
        })
        .into()
}
