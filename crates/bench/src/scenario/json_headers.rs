//! N2: headers as official clients write them unless told otherwise. All other scenarios have the binary form, which costs both
//! sides less.

use super::{FieldFigures, Load, Scale, Scenario, Step, fill, reads, sends, threads_of_one_client};
use crate::options::{ConsumeOptions, HeaderForm, SendOptions};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "json-headers",
    sentence: "1 KB messages with JSON headers, as official clients send them: by 16 threads of one producer, as fast as it goes, and read",
    source: "N2",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    let form = HeaderForm::Json;
    let threads = SendOptions { form, ..threads_of_one_client(scale, 16, 1024) };
    let unpaced = SendOptions { form, ..sends(scale, 1024) };
    let read = Load::Consume {
        fill: SendOptions { form, ..fill(1024, 4, scale.backlog(1_000_000)) },
        read: ConsumeOptions { form, ..reads(1) },
        seconds: scale.reading_seconds(),
    };
    let field = FieldFigures::rate(22_000.0).round_trips(0.715, 705.0);
    vec![
        Step::new("16 threads", Load::Send(threads)).field(field).remark("one broker without a replica"),
        Step::new("unpaced, 4 connections", Load::Send(unpaced)),
        Step::new("read from 4 queues", read),
    ]
}
