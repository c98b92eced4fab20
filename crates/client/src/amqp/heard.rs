//! A connection to an AMQP broker with much under way on one channel: what the broker says, a whole message at a time.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde_json::Value as Json;
use wire::amqp::content::{ContentHeader, Properties};
use wire::amqp::frame::{self, Frame, Kind};
use wire::amqp::method::Method;
use wire::amqp::table::{Table, Value};

use crate::amqp::control::{Control, closing, encode_method};
use crate::error::ClientError;
use crate::link::{Link, flush_and_wait};
use crate::message::Received;

/// The channel.
pub const CHANNEL: u16 = 1;
/// Bytes of a message that is taken in, at most: more than any broker allows.
const BODY_SIZE_MAX: u64 = 512 << 20;
/// How long a broker has to end the connection.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A connection.
#[derive(Debug)]
pub struct Conversation {
    link: Link,
    frame_max: usize,
    /// A message whose content is not all there.
    begun: Option<Begun>,
    /// What was asked that the broker may end the channel for.
    asked: &'static str,
    scratch: BytesMut,
}

/// What a broker says.
#[derive(Debug)]
pub enum Heard {
    /// A message, by which tag it is acknowledged.
    Delivered(u64, Box<Received>),
    /// A message comes back.
    Returned(Box<Received>),
    /// The queue has none.
    Empty,
    /// Messages published are stored, or are not: that with this tag, or all up to it.
    Confirmed {
        /// Which.
        tag: u64,
        /// And all before.
        multiple: bool,
        /// Whether they are stored.
        is_stored: bool,
    },
    /// The consumer gets nothing more.
    Cancelled,
    /// No message is taken for now, and why; or again.
    Blocked(Option<String>),
    /// The connection has ended in order.
    Ended,
    /// Anything else.
    Other,
}

#[derive(Debug)]
struct Begun {
    /// None if it comes back.
    tag: Option<u64>,
    message: Box<Received>,
    size: Option<u64>,
}

impl Conversation {
    /// Goes on with a connection on which nothing is under way.
    pub fn over(control: Control, asked: &'static str) -> Result<Self, ClientError> {
        let frame_max = control.frame_max();
        Ok(Self { link: control.into_link()?, frame_max, begun: None, asked, scratch: BytesMut::new() })
    }

    /// Where the broker is.
    pub fn address(&self) -> &str {
        self.link.address()
    }

    /// The largest frame that may be sent.
    pub const fn frame_max(&self) -> usize {
        self.frame_max
    }

    /// Bytes that wait to be sent.
    pub const fn out(&mut self) -> &mut Vec<u8> {
        self.link.out()
    }

    /// Has a method sent with the next wait.
    pub fn post(&mut self, method: &Method<'_>) {
        self.scratch.clear();
        encode_method(&mut self.scratch, CHANNEL, method);
        self.link.out().extend_from_slice(&self.scratch);
    }

    /// Sends what waits to be, and waits until something has come, at most until `until`.
    pub fn wait(&mut self, until: Instant) -> Result<(), ClientError> {
        flush_and_wait(vec![&mut self.link], until)
    }

    /// What was said next, if all of it is there.
    pub fn hear(&mut self) -> Result<Option<Heard>, ClientError> {
        loop {
            let address = || self.link.address().to_owned();
            let wrong = |problem: String| ClientError::NotAmqp { address: address(), problem };
            let frame = frame::decode(self.link.unread(), self.frame_max).map_err(|error| wrong(error.to_string()))?;
            let Some(frame) = frame else {
                return match self.link.fault() {
                    Some(problem) => Err(ClientError::Lost { address: address(), problem }),
                    None => Ok(None),
                };
            };
            let size = frame.size();
            let heard = take(&frame, &mut self.begun, self.asked, self.link.address());
            self.link.take(size);
            if let Some(heard) = heard? {
                return Ok(Some(heard));
            }
        }
    }

    /// Ends the connection in order: what was sent before was heard by then.
    pub fn close(mut self) -> Result<(), ClientError> {
        self.scratch.clear();
        encode_method(&mut self.scratch, 0, &closing());
        self.link.out().extend_from_slice(&self.scratch);
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            self.wait(deadline)?;
            while let Some(heard) = self.hear()? {
                if matches!(heard, Heard::Ended) {
                    return Ok(());
                }
            }
        }
        let problem = "it did not end in time".to_owned();
        Err(ClientError::Lost { address: self.link.address().to_owned(), problem })
    }
}

fn take(
    frame: &Frame<'_>,
    begun: &mut Option<Begun>,
    asked: &'static str,
    address: &str,
) -> Result<Option<Heard>, ClientError> {
    let wrong = |problem: String| ClientError::NotAmqp { address: address.to_owned(), problem };
    match frame.kind {
        Kind::Method => {
            let method = Method::decode(frame.payload).map_err(|error| wrong(error.to_string()))?;
            return said(&method, begun, asked, address);
        }
        Kind::Heartbeat => return Ok(None),
        Kind::Header => {
            let header = ContentHeader::decode(frame.payload).map_err(|error| wrong(error.to_string()))?;
            let Some(begun) = begun else { return Err(wrong("a content header without a message".to_owned())) };
            if header.body_size > BODY_SIZE_MAX {
                return Err(wrong(format!("a message of {} bytes", header.body_size)));
            }
            begun.size = Some(header.body_size);
            describe(&mut begun.message, &header.properties);
        }
        Kind::Body => {
            let Some(begun) = begun else { return Err(wrong("a body without a message".to_owned())) };
            begun.message.body.extend_from_slice(frame.payload);
        }
    }
    let is_whole = |begun: &Begun| begun.size.is_some_and(|size| begun.message.body.len() as u64 >= size);
    Ok(begun.take_if(|begun| is_whole(begun)).map(|Begun { tag, message, .. }| match tag {
        Some(tag) => Heard::Delivered(tag, message),
        None => Heard::Returned(message),
    }))
}

fn said(
    method: &Method<'_>,
    begun: &mut Option<Begun>,
    asked: &'static str,
    address: &str,
) -> Result<Option<Heard>, ClientError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut begin = |tag, redelivered: bool, exchange: &[u8], key: &[u8]| {
        let message = Received {
            exchange: Some(text(exchange)),
            routing_key: Some(text(key)),
            deliveries_before: redelivered.into(),
            ..Received::default()
        };
        *begun = Some(Begun { tag, message: Box::new(message), size: None });
    };
    let heard = match method {
        Method::Deliver(it) => {
            begin(Some(it.delivery_tag), it.redelivered, it.exchange.bytes(), it.routing_key.bytes());
            return Ok(None);
        }
        Method::GetOk(it) => {
            begin(Some(it.delivery_tag), it.redelivered, it.exchange.bytes(), it.routing_key.bytes());
            return Ok(None);
        }
        Method::Return(it) => {
            begin(None, false, it.exchange.bytes(), it.routing_key.bytes());
            return Ok(None);
        }
        Method::GetEmpty(_) => Heard::Empty,
        Method::Ack(it) => Heard::Confirmed { tag: it.delivery_tag, multiple: it.multiple, is_stored: true },
        Method::Nack(it) => Heard::Confirmed { tag: it.delivery_tag, multiple: it.multiple, is_stored: false },
        Method::Cancel(_) => Heard::Cancelled,
        Method::Blocked(it) => Heard::Blocked(Some(text(it.reason.bytes()))),
        Method::Unblocked(_) => Heard::Blocked(None),
        Method::ConnectionCloseOk(_) => Heard::Ended,
        Method::ChannelClose(close) => {
            return Err(refused(asked, address, close.reply_code, text(close.reply_text.bytes())));
        }
        Method::ConnectionClose(close) => {
            return Err(refused(asked, address, close.reply_code, text(close.reply_text.bytes())));
        }
        _ => Heard::Other,
    };
    Ok(Some(heard))
}

fn refused(asked: &'static str, address: &str, code: u16, text: String) -> ClientError {
    ClientError::RefusedMethod { asked, address: address.to_owned(), code, text }
}

/// What a message says of itself.
fn describe(message: &mut Received, properties: &Properties<'_>) {
    message.id = properties.message_id.and_then(|id| id.text()).map(str::to_owned);
    message.time_ms = properties.timestamp.map(|seconds| seconds.saturating_mul(1000));
    for (name, value) in properties.headers.iter().flat_map(Table::iter) {
        let name = String::from_utf8_lossy(name.bytes()).into_owned();
        match (&*name, value.integer().and_then(|number| u64::try_from(number).ok())) {
            ("x-stream-offset", Some(offset)) => message.offset = Some(offset),
            ("x-delivery-count", Some(count)) => message.deliveries_before = u32::try_from(count).unwrap_or(u32::MAX),
            _ => message.headers.push((name, json_of(&value))),
        }
    }
}

fn json_of(value: &Value<'_>) -> Json {
    let lossy = |bytes: &[u8]| Json::String(String::from_utf8_lossy(bytes).into_owned());
    match *value {
        Value::Bool(is_so) => is_so.into(),
        Value::F32(number) => number.into(),
        Value::F64(number) => number.into(),
        Value::Decimal(digits, number) => (f64::from(number) / 10_f64.powi(digits.into())).into(),
        Value::LongString(bytes) | Value::Bytes(bytes) => lossy(bytes),
        Value::Timestamp(seconds) => seconds.into(),
        Value::Table(table) => {
            let member = |(name, value): (wire::amqp::argument::ShortString<'_>, Value<'_>)| {
                (String::from_utf8_lossy(name.bytes()).into_owned(), json_of(&value))
            };
            Json::Object(table.iter().map(member).collect())
        }
        Value::Array(array) => array.iter().map(|item| json_of(&item)).collect(),
        Value::Void => Json::Null,
        _ => value.integer().map_or(Json::Null, Json::from),
    }
}
