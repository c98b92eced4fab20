//! What is measured: the tables of the field notes, each as steps that any broker can be taken through.
//!
//! **Owns** the list of scenarios. A scenario is a sentence, where it comes from, and its steps; a step is a load, what it asks of
//! the broker, and what the field note measured. Steps are values: who runs them stands in `stage.rs` and `rounds.rs`.
//! To add one: a constant in one of the files here, of the shapes in `load.rs`, a line in `ALL`.

mod amqp;
pub(crate) mod load;
mod many;
mod popping;
mod reading;
pub(crate) mod scale;
mod sending;
pub(crate) mod step;
mod working;

use crate::error::BenchError;
use step::Scenario;

/// All of them, in the order of the field notes. Those without a note of their own come last.
pub static ALL: [Scenario; 23] = [
    sending::SYNC_SEND,
    sending::ASYNC_SEND,
    reading::CONSUME_BY_QUEUES,
    reading::TWO_CONSUMERS,
    many::BROKER_GROUPS,
    sending::THREAD_SWEEP,
    sending::FLUSH,
    reading::CONSUME_WHILE_PRODUCING,
    reading::JSON_HEADERS,
    sending::PRICE_LIST,
    many::MANY_TOPICS,
    many::MANY_QUEUES,
    sending::BIG_MESSAGES,
    reading::BACKLOG,
    working::WORKING_CONSUMERS,
    working::QUEUE_BACKLOG,
    many::SOAK,
    many::CONNECTION_STORM,
    many::IDLE_CONNECTIONS,
    sending::PRODUCER_SHAPES,
    reading::PULL_SIZES,
    popping::POP,
    amqp::AMQP_FLOWS,
];

/// What people measured in the field note of that name, and on what; nothing for a scenario that replays none.
pub fn field_note(name: &str) -> Option<&'static str> {
    Some(match name {
        "N0" => "RocketMQ 4.2.0 on brokers of 4 cores and 4 GB, one sending process on a laptop, 30-byte messages",
        "N1" => "RocketMQ in 2014 on 24 cores and 48 GB, 2 producers, 2 consumers, 2 KB messages",
        "N2" => {
            "RocketMQ 4.5.1, a master and a slave on cloud hosts of 4 cores and 8 GB, the official benchmark tool, 1 KB messages"
        }
        "N3" => "RabbitMQ, 1 KB messages, consumers that take 10 ms for each",
        "N4" => {
            "RocketMQ 4.8.0 and 4.9.7 on 48 cores and 256 GB, 4 masters and 4 slaves, 200 topics, 400 consumer groups"
        }
        _ => return None,
    })
}

/// The scenario of that name.
pub fn find(name: &str) -> Result<&'static Scenario, BenchError> {
    ALL.iter().find(|scenario| scenario.name == name).ok_or_else(|| {
        let mut near: Vec<_> =
            ALL.iter().map(|scenario| (strsim::jaro_winkler(name, scenario.name), scenario.name)).collect();
        near.sort_by(|one, other| other.0.total_cmp(&one.0));
        let near = near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect();
        BenchError::UnknownScenario { name: name.to_owned(), near }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::load::Load;
    use super::scale::Scale;
    use super::*;
    use crate::rocketmq::options::HeaderForm;

    #[test]
    fn every_step_is_a_run_that_can_be_made() {
        for scenario in &ALL {
            for scale in [Scale::Quick, Scale::Full] {
                let steps = scenario.steps(scale);
                assert!(!steps.is_empty(), "{}", scenario.name);
                for step in steps {
                    let checked = match &step.load {
                        Load::Send(send) | Load::Connect(send) => send.check(),
                        Load::Consume { fill, read, .. } => fill.check().and_then(|()| read.check()),
                        Load::Pop { fill, pop, .. } => fill.check().and_then(|()| pop.check()),
                        Load::Visible(visible) => visible.check(),
                    };
                    checked.unwrap_or_else(|error| panic!("{}, {}: {error}", scenario.name, step.label));
                }
            }
        }
    }

    #[test]
    fn one_scenario_has_the_headers_that_official_clients_send() {
        let steps = find("json-headers").expect("a scenario").steps(Scale::Quick);
        assert!(steps.len() > 2 && steps.iter().all(|step| step.rocketmq.form == HeaderForm::Json));
    }

    #[test]
    fn what_people_measured_on_a_master_with_a_slave_is_measured_on_one() {
        let asked = |name: &str| find(name).expect("a scenario").steps(Scale::Quick).into_iter().map(|step| step.needs);
        let all = asked("thread-sweep").chain(asked("flush")).chain(asked("consume-while-producing"));
        assert!(all.into_iter().all(|needs| needs.has_slaves() && needs.brokers() == 2));
        assert_eq!(asked("broker-groups").filter(|needs| needs.has_slaves() && needs.brokers() == 4).count(), 1);
        let kinds: HashSet<_> = asked("flush").map(|needs| (needs.replication, needs.flush)).collect();
        assert_eq!(kinds.len(), 4, "each way of answering with each other");
    }

    #[test]
    fn every_field_note_that_is_named_is_explained() {
        assert!(ALL.iter().all(|scenario| scenario.source == "-" || field_note(scenario.source).is_some()));
    }

    #[test]
    fn names_are_found_and_near_ones_are_given() {
        assert!(ALL.iter().all(|scenario| find(scenario.name).is_ok_and(|found| found.name == scenario.name)));
        let error = find("thread-swep").expect_err("no such scenario").to_string();
        assert!(error.contains("thread-sweep"), "{error}");
    }
}
