//! What a pull brings: records, as messages.

use std::io::Read as _;

use base::cursor::DecodeError;
use flate2::read::ZlibDecoder;
use format::properties::{iterate, names};
use format::record::{Record, offset_message_id, system_flag};
use serde_json::Value;

use crate::message::Received;

/// Bytes of a body that was compressed, at most.
const BODY_SIZE_MAX: u64 = 256 * 1024 * 1024;
/// The way a body is compressed: zlib, as 4.x has it without saying so, and as 5.x says it.
const ZLIB: [i32; 2] = [0, 0x300];

/// Names of properties that clients and brokers have for themselves (source: RocketMQ `MessageConst`).
const OWN: &[&str] = &[
    "1ST_POP_TIME",
    "ARRIVE_TIME",
    "BUYER_ID",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "CONSUME_START_TIME",
    "CORRECTION_FLAG",
    "CORRELATION_ID",
    "EXTEND_UNIQ_INFO",
    "INNER_BASE",
    "INSTANCE_ID",
    "MAX_OFFSET",
    "MIN_OFFSET",
    "MQ2_FLAG",
    "MSG_TYPE",
    "PGROUP",
    "POP_CK_OFFSET",
    "PUSH_REPLY_TIME",
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    "TIMER_DEL_UNIQKEY",
    "TRANSACTION_CHECK_TIMES",
    "TRANSFER_FLAG",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "TTL",
    "__STARTDELIVERTIME",
    names::CHECKSUM,
    names::CLUSTER,
    names::DEAD_LETTER_ORIGIN_MESSAGE_ID,
    names::DEAD_LETTER_ORIGIN_TOPIC,
    names::DELAY,
    names::FAN_OUT_OFFSETS,
    names::FAN_OUT_TOPICS,
    names::INNER_COUNT,
    names::KEYS,
    names::MAX_RECONSUME_TIMES,
    names::MESSAGE_REGION,
    names::ORIGIN_MESSAGE_ID,
    names::POP_CHECK_POINT,
    names::REAL_QUEUE_ID,
    names::REAL_TOPIC,
    names::RECONSUME_TIME,
    names::REPLY_TO_CLIENT,
    names::RETRY_TOPIC,
    names::TAGS,
    names::TIMER_DELAY_MS,
    names::TIMER_DELAY_SECONDS,
    names::TIMER_DELIVER_MS,
    names::TRACE_SWITCH,
    names::TRANSACTION_PREPARED,
    names::UNIQUE_KEY,
    names::WAIT,
];

/// Whether clients and brokers have that property for themselves.
pub fn is_own_property(name: &str) -> bool {
    OWN.contains(&name)
}

/// The message that a record is, as the broker of that name has it.
pub fn message_of(record: &Record<'_>, broker: &str) -> Result<Received, DecodeError> {
    let mut message = Received {
        destination: record.topic.to_owned(),
        broker: (!broker.is_empty()).then(|| broker.to_owned()),
        queue: Some(record.queue.0),
        offset: Some(record.queue_offset.0),
        time_ms: Some(record.store_timestamp.0),
        deliveries_before: u32::try_from(record.reconsume_times).unwrap_or_default(),
        body: body_of(record)?,
        ..Received::default()
    };
    for property in iterate(record.properties) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (name, value) = (text(property.name), text(property.value));
        match &*name {
            names::KEYS => message.key = Some(value),
            names::TAGS => message.tag = Some(value),
            names::UNIQUE_KEY => message.id = Some(value),
            names::RETRY_TOPIC => message.destination = value,
            _ if is_own_property(&name) => {}
            _ => message.headers.push((name, Value::String(value))),
        }
    }
    let id = || offset_message_id(record.store_host, record.log_offset).as_str().to_owned();
    message.id = Some(message.id.unwrap_or_else(id));
    Ok(message)
}

/// The body as its producer had it. A way of compressing that is not known here leaves it as it is.
fn body_of(record: &Record<'_>) -> Result<Vec<u8>, DecodeError> {
    let way = record.system_flag & system_flag::COMPRESSION_MASK;
    if record.system_flag & system_flag::COMPRESSED == 0 || !ZLIB.contains(&way) {
        return Ok(record.body.to_vec());
    }
    let mut body = Vec::new();
    let unpacked = ZlibDecoder::new(record.body).take(BODY_SIZE_MAX).read_to_end(&mut body);
    let bad = |error: std::io::Error| DecodeError::BadValue { what: "a compressed body", found: error.to_string() };
    unpacked.map(|_| body).map_err(bad)
}

/// What tags are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    expression: String,
    tags: Vec<String>,
}

impl Filter {
    /// Of an expression: `*`, or tags with `||` between them.
    pub fn of(expression: &str) -> Self {
        let tags = expression.split("||").map(str::trim).filter(|tag| !tag.is_empty() && *tag != "*");
        Self { expression: expression.to_owned(), tags: tags.map(str::to_owned).collect() }
    }

    /// The expression.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The tags, none if all are wanted.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Whether a message is wanted: a broker tells tags apart by their hashes alone.
    pub fn takes(&self, message: &Received) -> bool {
        self.tags.is_empty() || message.tag.as_ref().is_some_and(|tag| self.tags.contains(tag))
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::of("*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_its_tags_alone() {
        let message = |tag: Option<&str>| Received { tag: tag.map(str::to_owned), ..Received::default() };
        let filter = Filter::of("A || B");
        assert!(filter.takes(&message(Some("A"))) && filter.takes(&message(Some("B"))));
        assert!(!filter.takes(&message(Some("C"))) && !filter.takes(&message(None)));
        assert!(Filter::default().takes(&message(None)));
    }
}
