//! N0: what a second and two more broker groups add.

use super::{FieldFigures, Flush, Load, Scale, Scenario, Step, fill, reads, sends};
use crate::options::SendOptions;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "broker-groups",
    sentence: "30-byte messages sent to and read from a cluster of 1, 2 and 4 broker groups",
    source: "N0",
    steps,
};

const REMARK: &str = "all broker groups on one machine";

fn steps(scale: Scale) -> Vec<Step> {
    let backlog = scale.backlog(2_000_000);
    let unpaced = |groups: u32| {
        let send = SendOptions { connections: groups as usize, window: 4096, ..sends(scale, 30) };
        let label =
            if groups == 1 { "send unpaced, 1 group".to_owned() } else { format!("send unpaced, {groups} groups") };
        Step::new(label, Load::Send(send)).needs(Flush::Async, groups).remark(REMARK)
    };
    let paced = SendOptions { pace: 70_000, connections: 2, window: 4096, ..sends(scale, 30) };
    let read = Load::Consume { fill: fill(30, 4, backlog), read: reads(1), seconds: scale.reading_seconds() };
    vec![
        unpaced(1).field(FieldFigures::rate(46_285.46).success(96.6024)),
        Step::new("send paced to 70000/s, 2 groups", Load::Send(paced))
            .needs(Flush::Async, 2)
            .remark(REMARK)
            .field(FieldFigures::rate(47_934.04).success(100.0)),
        unpaced(2).field(FieldFigures::rate(62_247.03).success(99.7571)),
        Step::new("consume, 2 groups", read)
            .needs(Flush::Async, 2)
            .remark(REMARK)
            .field(FieldFigures::rate(179_051.02).success(100.0)),
        unpaced(4),
    ]
}
