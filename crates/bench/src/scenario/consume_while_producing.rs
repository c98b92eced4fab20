//! N2: a consumer that keeps up while 16 threads send.

use super::{FieldFigures, Load, Scale, Scenario, Step, threads_of_one_client};
use crate::options::{ConsumeOptions, VisibleOptions};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "consume-while-producing",
    sentence: "16 threads of one producer send 1 KB messages while a consumer reads them: rate, and time from answer to arrival",
    source: "N2",
    steps,
};

fn steps(scale: Scale) -> Vec<Step> {
    let send = threads_of_one_client(scale, 16, 1024);
    let consume = ConsumeOptions { connections: 1, commit: true, ..ConsumeOptions::default() };
    let field = FieldFigures::rate(15_000.0).round_trips(1.6, 8_602.0);
    vec![Step::new("16 threads, 1 consumer", Load::Visible(VisibleOptions { send, consume })).field(field)]
}
