//! The requests that a name server answers, one row each: a new one is a row here and its handler.
//!
//! The session dispatches by this table, fuzzing asks what it names, and `docs/semantics.md` is held against it. Rows say what a client needs
//! to be allowed; there is no access control yet that asks.

use wire::rocketmq::code::request;

use super::answers::{Asked, Outcome, not_supported};
use super::routes::UnitFilter;
use Needs::{Administer, Look, Register};

/// Carries out a request.
type Handler = fn(Asked<'_>) -> Outcome;

/// What a client needs to be allowed for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// To look up brokers, topics and settings.
    Look,
    /// To say that a broker is there, with its topics.
    Register,
    /// To change what others have registered, key-values and settings.
    Administer,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its code.
    pub code: i32,
    /// What it needs.
    pub needs: Needs,
    handler: Handler,
    /// It may concern every topic there is.
    pub(super) walks_topics: bool,
    /// It changes which brokers and topics there are.
    pub(super) changes_registry: bool,
}

/// All that are answered.
pub const REQUESTS: &[Row] = &[
    row(request::PUT_KV_CONFIG, Administer, |asked| asked.put_key_value()),
    row(request::GET_KV_CONFIG, Look, |asked| asked.get_key_value()),
    row(request::DELETE_KV_CONFIG, Administer, |asked| asked.delete_key_value()),
    row(request::GET_KV_LIST_BY_NAMESPACE, Look, |asked| asked.list_key_values()),
    row(request::REGISTER_BROKER, Register, |asked| asked.register_broker()).walking().changing(),
    row(request::UNREGISTER_BROKER, Register, |asked| asked.unregister_broker()).walking().changing(),
    row(request::QUERY_DATA_VERSION, Register, |asked| asked.query_data_version()),
    row(request::BROKER_HEARTBEAT, Register, |asked| asked.broker_heartbeat()),
    row(request::GET_ROUTE_BY_TOPIC, Look, |asked| asked.route()),
    row(request::GET_BROKER_CLUSTER_INFO, Look, |asked| asked.cluster_info()),
    row(request::GET_BROKER_MEMBER_GROUP, Look, |asked| asked.member_group()),
    row(request::WIPE_WRITE_PERMISSION_OF_BROKER, Administer, |asked| asked.wipe_write_permission())
        .walking()
        .changing(),
    row(request::ADD_WRITE_PERMISSION_OF_BROKER, Administer, |asked| asked.add_write_permission()).walking().changing(),
    row(request::REGISTER_TOPIC_IN_NAME_SERVER, Administer, |asked| asked.register_topic()).changing(),
    row(request::DELETE_TOPIC_IN_NAME_SERVER, Administer, |asked| asked.delete_topic()).changing(),
    row(request::GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, Look, |asked| asked.all_topics()).walking(),
    row(request::GET_TOPICS_BY_CLUSTER, Look, |asked| asked.topics_of_cluster()).walking(),
    row(request::GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER, Look, |asked| asked.system_topics()).walking(),
    row(request::GET_UNIT_TOPIC_LIST, Look, |asked| asked.unit_topics(UnitFilter::Unit)).walking(),
    row(request::GET_HAS_UNIT_SUB_TOPIC_LIST, Look, |asked| asked.unit_topics(UnitFilter::UnitSubscription)).walking(),
    row(request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Look, |asked| asked.unit_topics(UnitFilter::UnitSubscriptionOnly))
        .walking(),
    row(request::UPDATE_NAME_SERVER_CONFIG, Administer, |asked| asked.update_settings()),
    row(request::GET_NAME_SERVER_CONFIG, Look, |asked| asked.settings()),
];

impl Row {
    /// The row of a code; `None` if such requests are not answered.
    pub(super) fn of(code: i32) -> Option<&'static Self> {
        REQUESTS.iter().find(|row| row.code == code)
    }

    const fn walking(self) -> Self {
        Self { walks_topics: true, ..self }
    }

    const fn changing(self) -> Self {
        Self { changes_registry: true, ..self }
    }
}

const fn row(code: i32, needs: Needs, handler: Handler) -> Row {
    Row { code, needs, handler, walks_topics: false, changes_registry: false }
}

/// Carries out a request. One that changes which brokers and topics there are waits for the right to, unless that is given.
pub(super) fn answer(asked: Asked<'_>) -> Outcome {
    let code = asked.command.header.code;
    match Row::of(code) {
        Some(row) => (row.handler)(asked),
        None => Err(not_supported(code)),
    }
}
