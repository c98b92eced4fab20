//! The broker's end: what a Sluice broker sends to name servers, and what it reads from their answers.
//!
//! [`RegistrationSession`] is a connection to a name server. Name servers of 4.9 and 5.x take these requests; the topics' data version
//! tells them whether anything changed, so it must grow with every change.

mod session;

use std::collections::BTreeMap;

use base::Refusal;
use base::limits::FRAME_SIZE_MAX;
use bytes::{Bytes, BytesMut};
use format::document::TopicTableDocument;
use wire::rocketmq::body::kv_table::KvTable;
use wire::rocketmq::body::route::TopicRouteData;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, TypedHeader};
use wire::rocketmq::frame::{self, Command, Form};
use wire::rocketmq::header::{BrokerIdentityRequest, RegisterBrokerRequest, RegisterBrokerResponse, RouteRequest};
use wire::rocketmq::registration::{Registration, body_checksum};

use crate::limits::ANSWER_HEADER_SIZE_MAX;
use crate::{SPOKEN_VERSION, spoken_header};

pub use session::{Registrant, RegistrationSession, Times};

/// Largest plain body. A longer one is packed, since it would not fit a frame with its header.
const PLAIN_BODY_SIZE_MAX: usize = FRAME_SIZE_MAX - ANSWER_HEADER_SIZE_MAX;

/// Characters of a name server's remark that are passed on to the log.
const REMARK_SHOWN: usize = 512;

/// Who a broker is, as it tells name servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Cluster.
    pub cluster_name: String,
    /// Name the master shares with its replicas.
    pub broker_name: String,
    /// 0 for the master.
    pub broker_id: i64,
    /// Where clients reach it, `host:port`.
    pub address: String,
    /// Where replicas reach it, `host:port`.
    pub ha_address: String,
    /// How long it may be silent, in ms; `None` leaves it to the name server (120 seconds).
    pub heartbeat_timeout_ms: Option<i64>,
    /// Whether a replica may stand in for the master; `None` registers as brokers before 5.0 do.
    pub enable_acting_master: Option<bool>,
    /// Zone, for clients that want brokers near them.
    pub zone: Option<String>,
}

/// What a name server answered to a registration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegisterAnswer {
    /// Where this replica reaches its master's log; `None` for a master, or while there is none.
    pub ha_address: Option<String>,
    /// Where clients reach the master of this replica.
    pub master_address: Option<String>,
    /// Orders of queues by topic, `broker:count;broker:count`; `None` if the name server keeps none or tells none.
    pub topic_orders: Option<BTreeMap<String, String>>,
}

/// The request that registers a broker with all its topics.
///
/// Refused if the topics do not fit a frame even when packed.
pub fn register_request(
    identity: &Identity,
    topics: &TopicTableDocument,
    form: Form,
    opaque: i32,
) -> Result<Bytes, Refusal> {
    let mut registration = Registration { topics: topics.clone(), ..Registration::default() };
    let mut body = registration.encode_plain();
    let is_packed = body.len() > PLAIN_BODY_SIZE_MAX;
    if is_packed {
        // Name servers have no use for attributes, and those of 4.9 cannot read them in this form.
        for topic in registration.topics.topic_config_table.values_mut() {
            topic.attributes.clear();
        }
        body = registration.encode_packed(SPOKEN_VERSION);
    }
    if body.len() > PLAIN_BODY_SIZE_MAX {
        let count = topics.topic_config_table.len();
        return Err(Refusal::Unavailable(format!(
            "{count} topics take {} bytes to register, more than the {PLAIN_BODY_SIZE_MAX} of a frame; delete topics",
            body.len()
        )));
    }
    let fields = RegisterBrokerRequest {
        broker_name: identity.broker_name.as_str().into(),
        broker_address: identity.address.as_str().into(),
        cluster_name: identity.cluster_name.as_str().into(),
        ha_server_address: identity.ha_address.as_str().into(),
        broker_id: identity.broker_id,
        heartbeat_timeout_ms: identity.heartbeat_timeout_ms,
        enable_acting_master: identity.enable_acting_master,
        compressed: Some(is_packed),
        body_crc32: Some(body_checksum(&body)),
        ..RegisterBrokerRequest::default()
    };
    let write_fields = |sink: &mut FieldSink<'_>| {
        fields.encode(sink);
        if let Some(zone) = &identity.zone {
            sink.text("__ZONE_NAME", zone);
        }
    };
    let mut out = BytesMut::with_capacity(body.len() + 512);
    frame::encode(&mut out, form, &spoken_header(request::REGISTER_BROKER, opaque, 0), write_fields, &body);
    Ok(out.freeze())
}

/// The request by which a broker takes its leave.
pub fn unregister_request(identity: &Identity, form: Form, opaque: i32) -> Bytes {
    let fields = BrokerIdentityRequest {
        broker_name: identity.broker_name.as_str().into(),
        broker_address: identity.address.as_str().into(),
        cluster_name: identity.cluster_name.as_str().into(),
        broker_id: identity.broker_id,
        ..BrokerIdentityRequest::default()
    };
    let mut out = BytesMut::new();
    frame::encode(
        &mut out,
        form,
        &spoken_header(request::UNREGISTER_BROKER, opaque, 0),
        |sink| fields.encode(sink),
        b"",
    );
    out.freeze()
}

/// The request for the route of a topic.
pub fn route_request(topic: &str, form: Form, opaque: i32) -> Bytes {
    let fields = RouteRequest { topic: topic.into(), accept_standard_json_only: Some(true), ..RouteRequest::default() };
    let mut out = BytesMut::new();
    let header = spoken_header(request::GET_ROUTE_BY_TOPIC, opaque, 0);
    frame::encode(&mut out, form, &header, |sink| fields.encode(sink), b"");
    out.freeze()
}

/// Reads the answer to [`route_request`]; `None`: the name server knows no such topic.
pub fn read_route_answer(answer: &Command<'_>) -> Result<Option<TopicRouteData>, Refusal> {
    if answer.header.code == response::TOPIC_NOT_EXIST {
        return Ok(None);
    }
    check_success(answer)?;
    let unreadable = |problem: String| Refusal::Internal(format!("the name server's answer cannot be read: {problem}"));
    TopicRouteData::decode(answer.body).map(Some).map_err(|error| unreadable(error.to_string()))
}

/// Reads the answer to [`register_request`]. An answer that says no becomes the refusal, with the name server's words.
pub fn read_register_answer(answer: &Command<'_>) -> Result<RegisterAnswer, Refusal> {
    check_success(answer)?;
    let unreadable = |problem: String| Refusal::Internal(format!("the name server's answer cannot be read: {problem}"));
    let header = RegisterBrokerResponse::decode(&answer.fields).map_err(|error| unreadable(error.to_string()))?;
    let topic_orders = match answer.body {
        [] => None,
        body => Some(KvTable::decode(body).map_err(|error| unreadable(error.to_string()))?.table),
    };
    let present = |text: Option<std::borrow::Cow<'_, str>>| text.filter(|text| !text.is_empty()).map(Into::into);
    Ok(RegisterAnswer {
        ha_address: present(header.ha_server_address),
        master_address: present(header.master_address),
        topic_orders,
    })
}

fn check_success(answer: &Command<'_>) -> Result<(), Refusal> {
    if answer.header.code == response::SUCCESS {
        return Ok(());
    }
    let remark: String =
        answer.header.remark.as_deref().unwrap_or("no reason given").chars().take(REMARK_SHOWN).collect();
    let (code, name) = (answer.header.code, response::name(answer.header.code));
    Err(Refusal::Unavailable(format!("the name server refused with code {code} ({name}): {remark}")))
}
