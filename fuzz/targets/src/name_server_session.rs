//! A name server's session for brokers and clients.

use std::sync::LazyLock;
use std::task::Waker;

use base::Now;
use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;
use cluster::name_server::requests::REQUESTS;
use cluster::name_server::{KeyValueFile, NameServer};
use testkit::at;
use wire::rocketmq::code::request::SEND_MESSAGE_V2;

use crate::{driver, requests};

/// When every input begins.
const START: Now = at(1_700_000_000_000);

/// Requests a name server knows, and one it does not.
pub static CODES: LazyLock<Vec<i32>> =
    LazyLock::new(|| REQUESTS.iter().map(|row| row.code).chain([SEND_MESSAGE_V2]).collect());

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
    let pieces = requests::pieces(data, &CODES);
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
    requests::seeds(&CODES)
}
