//! Publishes messages to a queue or an exchange, and waits until the broker has confirmed each. What no queue gets comes back.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use serde_json::Value as Json;
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::frame::{self, Kind, OVERHEAD_SIZE};
use wire::amqp::method::Method;
use wire::amqp::method::basic::Publish;
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::table::{TableWriter, Value, write_table};

use crate::amqp::address::AmqpAddress;
use crate::amqp::control::{Control, encode_method, short, table_of};
use crate::amqp::fetcher::look_for_queue;
use crate::amqp::heard::{CHANNEL, Conversation, Heard};
use crate::error::ClientError;
use crate::message::{Message, NotStored, Received, Store};

/// Messages that are not confirmed, and bytes that are not sent, at most.
const WINDOW: usize = 4096;
const OUT_SIZE_MAX: usize = 1 << 20;
/// How long a broker may be silent while something is under way.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// `delivery_mode` of a message that does not outlive a restart.
const TRANSIENT: u8 = 1;

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishTo {
    /// To this queue, by its name.
    Queue(String),
    /// To this exchange, with that key unless a message has its own.
    Exchange {
        /// Its name.
        exchange: String,
        /// The key.
        routing_key: String,
    },
}

/// A publisher.
#[derive(Debug)]
pub struct Publisher {
    conversation: Conversation,
    to: PublishTo,
    delivery_mode: u8,
    /// Tag of the next message.
    next_tag: u64,
    /// Why the broker takes nothing for now.
    blocked: Option<String>,
}

/// What became of messages so far, and what of those is open.
#[derive(Debug)]
struct Pass<'m> {
    messages: &'m [Message],
    first_tag: u64,
    /// Of each that went out.
    fates: Vec<Fate>,
    open: usize,
    failed: Option<(usize, ClientError)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Returned,
    Stored,
    Lost,
}

impl Publisher {
    /// Connects, and sees that there is where to publish to.
    pub fn open(address: &AmqpAddress, to: PublishTo, is_transient: bool) -> Result<Self, ClientError> {
        let mut control = Control::open(address)?;
        control.open_channels(1)?;
        match &to {
            PublishTo::Queue(queue) => look_for_queue(&mut control, queue, &address.virtual_host)?,
            // The nameless exchange is always there, and may not be named here.
            PublishTo::Exchange { exchange, .. } if exchange.is_empty() => {}
            PublishTo::Exchange { exchange, .. } => look_for_exchange(&mut control, exchange, &address.virtual_host)?,
        }
        control.select_confirms(CHANNEL)?;
        let conversation = Conversation::over(control, "basic.publish")?;
        let delivery_mode = if is_transient { TRANSIENT } else { PERSISTENT };
        Ok(Self { conversation, to, delivery_mode, next_tag: 1, blocked: None })
    }

    /// Exchange and key of a message.
    fn way_of<'a>(to: &'a PublishTo, message: &'a Message) -> (&'a str, &'a str) {
        match to {
            PublishTo::Queue(queue) => ("", queue),
            PublishTo::Exchange { exchange, routing_key } => {
                (exchange, message.routing_key.as_deref().unwrap_or(routing_key))
            }
        }
    }

    fn publish(&mut self, message: &Message) -> Result<(), ClientError> {
        let unsendable = |name: &str, problem: &str| {
            Err(ClientError::Unsendable { what: name.to_owned(), problem: problem.to_owned() })
        };
        if message.key.is_some() || message.tag.is_some() {
            return unsendable("its key or tag", "AMQP has none; routing_key and headers are what it has");
        }
        if message.headers.iter().any(|(name, _)| name.len() > ShortString::SIZE_MAX) {
            return unsendable("its header", "a header's name has 255 bytes at most");
        }
        let (exchange, routing_key) = Self::way_of(&self.to, message);
        let publish = Publish {
            exchange: short("exchange", exchange)?,
            routing_key: short("routing key", routing_key)?,
            mandatory: true,
            ..Publish::default()
        };
        let mut headers = BytesMut::new();
        write_table(&mut headers, |table| message.headers.iter().for_each(|(name, value)| put(table, name, value)));
        let properties = Properties {
            delivery_mode: Some(self.delivery_mode),
            headers: (!message.headers.is_empty()).then(|| table_of(&headers)),
            ..Properties::default()
        };
        let header = ContentHeader { body_size: message.body.len() as u64, properties };
        let mut out = BytesMut::new();
        encode_method(&mut out, CHANNEL, &publish.into());
        let begin = out.len();
        frame::encode(&mut out, Kind::Header, CHANNEL, |out| header.encode(out));
        if out.len() - begin > self.conversation.frame_max() {
            return unsendable("its headers", "they are larger than a frame may be");
        }
        for part in message.body.chunks(self.conversation.frame_max() - OVERHEAD_SIZE) {
            frame::encode(&mut out, Kind::Body, CHANNEL, |out| out.extend_from_slice(part));
        }
        self.conversation.out().extend_from_slice(&out);
        self.next_tag += 1;
        Ok(())
    }

    /// Publishes as much as there is room for.
    fn fill(&mut self, pass: &mut Pass<'_>) {
        while pass.failed.is_none() && pass.open < WINDOW && self.conversation.out().len() < OUT_SIZE_MAX {
            let Some(message) = pass.messages.get(pass.fates.len()) else { return };
            match self.publish(message) {
                Ok(()) => {
                    pass.fates.push(Fate::Open);
                    pass.open += 1;
                }
                Err(why) => pass.fail(pass.fates.len(), why),
            }
        }
    }

    /// Takes in what has come; tells whether anything has.
    fn hear(&mut self, pass: &mut Pass<'_>) -> Result<bool, ClientError> {
        let mut has_news = false;
        while let Some(heard) = self.conversation.hear()? {
            has_news = true;
            match heard {
                Heard::Returned(message) => pass.returned(&self.to, &message),
                Heard::Confirmed { tag, multiple, is_stored } => {
                    pass.confirmed(tag, multiple, is_stored, self.conversation.address());
                }
                Heard::Blocked(why) => self.blocked = why,
                _ => {}
            }
        }
        Ok(has_news)
    }
}

impl Pass<'_> {
    fn fail(&mut self, index: usize, why: ClientError) {
        if self.failed.as_ref().is_none_or(|(first, _)| index < *first) {
            self.failed = Some((index, why));
        }
    }

    /// The first message under way that is the one that came back: what comes back has no number.
    fn returned(&mut self, to: &PublishTo, message: &Received) {
        let (exchange, key) = (message.exchange.as_deref(), message.routing_key.as_deref());
        let is_it = |(index, fate): &(usize, &Fate)| {
            **fate == Fate::Open
                && self.messages.get(*index).is_some_and(|sent| {
                    let way = Publisher::way_of(to, sent);
                    (Some(way.0), Some(way.1)) == (exchange, key) && sent.body == message.body
                })
        };
        let Some(index) = self.fates.iter().enumerate().find(is_it).map(|(index, _)| index) else { return };
        if let Some(fate) = self.fates.get_mut(index) {
            *fate = Fate::Returned;
        }
        let text = |name: Option<&str>| name.unwrap_or_default().to_owned();
        self.fail(index, ClientError::Unroutable { exchange: text(exchange), routing_key: text(key) });
    }

    fn confirmed(&mut self, tag: u64, multiple: bool, is_stored: bool, address: &str) {
        let Some(last) = tag.checked_sub(self.first_tag).and_then(|index| usize::try_from(index).ok()) else { return };
        let first = if multiple { 0 } else { last };
        for index in first..=last.min(self.fates.len().saturating_sub(1)) {
            let Some(fate) = self.fates.get_mut(index).filter(|fate| matches!(fate, Fate::Open | Fate::Returned))
            else {
                continue;
            };
            self.open -= 1;
            match (*fate, is_stored) {
                (Fate::Returned, _) => *fate = Fate::Lost,
                (_, true) => *fate = Fate::Stored,
                (_, false) => {
                    *fate = Fate::Lost;
                    self.fail(index, ClientError::Rejected { address: address.to_owned() });
                }
            }
        }
    }

    fn first_open(&self) -> usize {
        self.fates.iter().position(|fate| *fate == Fate::Open).unwrap_or(self.fates.len())
    }
}

impl Store for Publisher {
    fn store(&mut self, messages: &[Message]) -> Result<(), NotStored> {
        let mut pass = Pass { messages, first_tag: self.next_tag, fates: Vec::new(), open: 0, failed: None };
        let mut silent_since = Instant::now();
        loop {
            self.fill(&mut pass);
            if pass.open == 0 {
                break;
            }
            let until = Instant::now() + Duration::from_millis(100);
            let heard = self.conversation.wait(until).and_then(|()| self.hear(&mut pass));
            let why = match heard {
                Ok(true) => {
                    silent_since = Instant::now();
                    continue;
                }
                Ok(false) if silent_since.elapsed() < SILENCE_MAX => continue,
                Ok(false) => {
                    let address = self.conversation.address().to_owned();
                    let blocked = |why| format!("it takes no messages for now: {why}");
                    let problem = self.blocked.clone().map_or_else(|| "no answer in time".to_owned(), blocked);
                    ClientError::Lost { address, problem }
                }
                Err(why) => why,
            };
            pass.fail(pass.first_open(), why);
            break;
        }
        let stored = pass.fates.iter().filter(|fate| **fate == Fate::Stored).count();
        match pass.failed {
            None => Ok(()),
            Some((index, why)) => Err(NotStored { stored, index: Some(index), why }),
        }
    }

    fn close(self: Box<Self>) -> Result<(), ClientError> {
        self.conversation.close()
    }
}

/// A value of JSON as a header.
fn put(table: &mut TableWriter<'_>, name: &str, value: &Json) {
    match value {
        Json::Null => table.put(name, Value::Void),
        Json::Bool(is_so) => table.put(name, Value::Bool(*is_so)),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => table.put(name, Value::I64(whole)),
            (None, number) => table.put(name, Value::F64(number.unwrap_or_default())),
        },
        Json::String(text) => table.put(name, Value::LongString(text.as_bytes())),
        Json::Object(members) => {
            table.table(name, |table| members.iter().for_each(|(name, value)| put(table, name, value)))
        }
        Json::Array(_) => table.put(name, Value::LongString(value.to_string().as_bytes())),
    };
}

fn look_for_exchange(control: &mut Control, exchange: &str, virtual_host: &str) -> Result<(), ClientError> {
    let declare =
        ExchangeDeclare { exchange: short("exchange", exchange)?, passive: true, ..ExchangeDeclare::default() };
    let found =
        control.ask(CHANNEL, &declare.into(), |method| matches!(method, Method::ExchangeDeclareOk(_)).then_some(()));
    found.map_err(|error| error.not_there("exchange", exchange, virtual_host))
}
