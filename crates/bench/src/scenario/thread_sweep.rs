//! N2: more and more threads of one producer.

use super::{FieldFigures, Load, Scale, Scenario, Step, threads_of_one_client};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "thread-sweep",
    sentence: "1 to 128 threads of one producer, each waits for the answer to its 1 KB message",
    source: "N2",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    [
        (1, FieldFigures::rate(3_800.0).round_trips(0.256, 198.0)),
        (8, FieldFigures::rate(18_000.0).round_trips(0.439, 984.0)),
        (16, FieldFigures::rate(22_000.0).round_trips(0.715, 705.0)),
        (32, FieldFigures::rate(26_000.0).round_trips(1.213, 1_102.0)),
        (64, FieldFigures::rate(29_000.0).round_trips(2.115, 1_108.0)),
        (128, FieldFigures::rate(27_500.0).round_trips(3.822, 884.0)),
    ]
    .map(|(threads, field)| {
        let label = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
        Step::new(label, Load::Send(threads_of_one_client(scale, threads, 1024)))
            .field(field)
            .remark("one broker without a replica")
    })
    .into()
}
