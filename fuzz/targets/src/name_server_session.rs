//! A name server's session for brokers and clients.

use std::task::Waker;

use base::Now;
use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;
use cluster::name_server::{KeyValueFile, NameServer};
use testkit::at;
use wire::rocketmq::code::request::*;

use crate::{driver, requests};

/// When every input begins.
const START: Now = at(1_700_000_000_000);

/// Requests a name server knows, and one it does not.
pub const CODES: &[i32] = &[
    REGISTER_BROKER,
    UNREGISTER_BROKER,
    GET_ROUTE_BY_TOPIC,
    GET_BROKER_CLUSTER_INFO,
    PUT_KV_CONFIG,
    GET_KV_CONFIG,
    DELETE_KV_CONFIG,
    GET_KV_LIST_BY_NAMESPACE,
    QUERY_DATA_VERSION,
    WIPE_WRITE_PERMISSION_OF_BROKER,
    ADD_WRITE_PERMISSION_OF_BROKER,
    GET_ALL_TOPIC_LIST_FROM_NAME_SERVER,
    DELETE_TOPIC_IN_NAME_SERVER,
    REGISTER_TOPIC_IN_NAME_SERVER,
    GET_TOPICS_BY_CLUSTER,
    GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER,
    GET_UNIT_TOPIC_LIST,
    GET_HAS_UNIT_SUB_TOPIC_LIST,
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    UPDATE_NAME_SERVER_CONFIG,
    GET_NAME_SERVER_CONFIG,
    GET_BROKER_MEMBER_GROUP,
    BROKER_HEARTBEAT,
    SEND_MESSAGE_V2,
];

/// A key-value file that must be readable.
struct Checked;

impl KeyValueFile for Checked {
    fn replace(&self, text: &str) -> Result<(), String> {
        KeyValues::from_json(text.as_bytes()).expect("what is to be kept can be read again");
        Ok(())
    }
}

/// A peer sends what the input says; its connection closes and its brokers expire.
pub fn run(data: &[u8]) {
    let options = Options { order_message_enable: true, support_acting_master: true, ..Options::default() };
    let server = NameServer::new(options, KeyValues::default(), Box::new(Checked), START);
    let pieces = requests::pieces(data, CODES);
    let request_count = if data.first() == Some(&requests::DIRECTED) { pieces.len() } else { usize::MAX };
    let mut session = server.session(Waker::noop().clone());
    let written = driver::drive(&mut session, pieces, START);
    assert!(written.responses <= request_count, "no request is answered twice");
    server.expire(START.plus_ms(3_600_000));
    server.take_notices();
    assert_eq!(server.summary().brokers, 0, "a silent broker is dropped");
}

/// Every request as it should be, and what was captured.
pub fn seeds() -> Vec<Vec<u8>> {
    requests::seeds(CODES)
}
