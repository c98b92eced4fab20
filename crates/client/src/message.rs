//! A message, whatever protocol moves it: as it is to go out, and as it came.

use serde_json::Value;

use crate::error::ClientError;

/// A message that is to be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// RocketMQ: what it is found by; several have spaces between them.
    pub key: Option<String>,
    /// RocketMQ: what consumers may filter by.
    pub tag: Option<String>,
    /// AMQP: its own routing key, where it goes to an exchange.
    pub routing_key: Option<String>,
    /// Headers; properties in RocketMQ's words, where each value is text.
    pub headers: Vec<(String, Value)>,
    /// Body.
    pub body: Vec<u8>,
}

/// A message that came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Received {
    /// Topic or queue that it was stored for.
    pub destination: String,
    /// RocketMQ: broker, where the name server named it.
    pub broker: Option<String>,
    /// RocketMQ: queue of the topic.
    pub queue: Option<u32>,
    /// Offset in its queue or stream.
    pub offset: Option<u64>,
    /// When it was stored, or what its producer says: milliseconds since 1970.
    pub time_ms: Option<u64>,
    /// Its producer's id for it; RocketMQ: or the broker's.
    pub id: Option<String>,
    /// RocketMQ: its keys.
    pub key: Option<String>,
    /// RocketMQ: its tag.
    pub tag: Option<String>,
    /// AMQP: exchange it was published to.
    pub exchange: Option<String>,
    /// AMQP: its routing key.
    pub routing_key: Option<String>,
    /// Somebody had it before, or so often: RocketMQ counts tries in vain.
    pub deliveries_before: u32,
    /// Headers.
    pub headers: Vec<(String, Value)>,
    /// Body.
    pub body: Vec<u8>,
}

/// Messages that were to be stored, and one that was not.
#[derive(Debug)]
pub struct NotStored {
    /// How many were stored.
    pub stored: usize,
    /// Which of those given was not, the first of them; `None` if that cannot be told.
    pub index: Option<usize>,
    /// Why.
    pub why: ClientError,
}

/// Where messages can be stored.
pub trait Store {
    /// Stores all of them, in order for each queue, and waits until the broker says so.
    fn store(&mut self, messages: &[Message]) -> Result<(), NotStored>;

    /// What people should know of what was stored, once.
    fn remark(&mut self) -> Option<String> {
        None
    }

    /// Ends in order.
    fn close(self: Box<Self>) -> Result<(), ClientError>;
}

/// Where messages come from.
pub trait Source {
    /// The next messages in order, at most `most`: none if nothing comes for some time, [`Next::End`] where no more can.
    fn next(&mut self, most: usize) -> Result<Next, ClientError>;

    /// All that came so far has arrived where it was to go.
    fn settle(&mut self) -> Result<(), ClientError>;

    /// Ends in order: what is settled stays so, and the rest comes again.
    fn close(self: Box<Self>) -> Result<(), ClientError>;
}

/// What a source has.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Messages, if any.
    Messages(Vec<Received>),
    /// There are no more.
    End,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the first message kept.
    Earliest,
    /// Behind the last one.
    Latest,
    /// With the first one stored then or later: milliseconds since 1970.
    Time(u64),
    /// At this offset.
    Offset(u64),
    /// So many before the end of each queue.
    Last(u64),
}
