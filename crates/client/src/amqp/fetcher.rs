//! Takes messages out of a queue, or reads a stream. What was not settled when it ends is given back.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Ack, Consume, Get};
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::{Value, write_table};

use crate::amqp::address::AmqpAddress;
use crate::amqp::control::{Control, short, table_of};
use crate::amqp::heard::{CHANNEL, Conversation, Heard};
use crate::error::ClientError;
use crate::message::{Next, Received, Source, Start};

/// How long `next` waits.
const WAIT: Duration = Duration::from_millis(100);
/// Messages that `next` gives at once.
const COUNT_MAX: usize = 1000;
/// A stream of which nothing came for so long is taken to be at its end: nobody tells where that is.
const STREAM_REST: Duration = Duration::from_secs(1);
/// Reply codes: there is no such thing; it cannot be done with a stream.
const NOT_FOUND: u16 = 404;
const NOT_IMPLEMENTED: u16 = 540;

/// How messages are taken.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Reads a stream from there.
    pub start: Option<Start>,
    /// Waits for more at the end.
    pub follows: bool,
    /// Leaves messages where they are.
    pub peeks: bool,
    /// Messages that may be under way unsettled.
    pub prefetch: u16,
}

/// A consumer of one queue.
#[derive(Debug)]
pub struct Fetcher {
    conversation: Conversation,
    address: AmqpAddress,
    queue: String,
    options: FetchOptions,
    way: Way,
    /// The last message that was given, unless it is settled.
    given: Option<u64>,
}

/// How a queue gives its messages.
#[derive(Debug)]
enum Way {
    /// One for each time it is asked; so many answers are open, and perhaps it was seen to be empty.
    Asked { open: usize, is_empty: bool },
    /// As they come.
    Told,
    /// As they come, and all that was there; the last came then.
    Streamed(Instant),
}

impl Fetcher {
    /// Connects, and sees that the queue is there.
    pub fn open(address: &AmqpAddress, queue: &str, options: FetchOptions) -> Result<Self, ClientError> {
        let way = match (options.start, options.follows) {
            (Some(_), _) => Way::Streamed(Instant::now()),
            (None, true) => Way::Told,
            (None, false) => Way::Asked { open: 0, is_empty: false },
        };
        let conversation = begin(address, queue, &options, &way)?;
        Ok(Self { conversation, address: address.clone(), queue: queue.to_owned(), options, way, given: None })
    }

    /// A stream tells by a refusal that it is one.
    fn go_on_as_stream(&mut self) -> Result<(), ClientError> {
        self.options.start = Some(Start::Earliest);
        self.way = Way::Streamed(Instant::now());
        self.conversation = begin(&self.address, &self.queue, &self.options, &self.way)?;
        Ok(())
    }

    /// Asks for as many as are wanted and there is room for.
    fn ask(&mut self, most: usize) -> Result<(), ClientError> {
        let Way::Asked { open, is_empty: false } = &mut self.way else { return Ok(()) };
        let get = Get { queue: short("queue", &self.queue)?, ..Get::default() };
        while *open < most.min(usize::from(self.options.prefetch.max(1))) {
            self.conversation.post(&get.into());
            *open += 1;
        }
        Ok(())
    }

    /// Takes in what has come, at most `most` messages.
    fn hear(&mut self, most: usize) -> Result<Vec<Received>, ClientError> {
        let mut messages = Vec::new();
        while messages.len() < most.min(COUNT_MAX)
            && let Some(heard) = self.conversation.hear()?
        {
            match heard {
                Heard::Delivered(tag, mut message) => {
                    match &mut self.way {
                        Way::Asked { open, .. } => *open = open.saturating_sub(1),
                        Way::Streamed(last) => *last = Instant::now(),
                        Way::Told => {}
                    }
                    self.given = Some(tag);
                    message.destination.clone_from(&self.queue);
                    messages.push(*message);
                }
                Heard::Empty => {
                    if let Way::Asked { open, is_empty } = &mut self.way {
                        (*open, *is_empty) = (open.saturating_sub(1), true);
                    }
                }
                Heard::Cancelled => {
                    let problem = format!("queue {:?} was deleted meanwhile, or its node went away", self.queue);
                    return Err(ClientError::Lost { address: self.conversation.address().to_owned(), problem });
                }
                _ => {}
            }
        }
        Ok(messages)
    }

    fn is_at_end(&self) -> bool {
        match self.way {
            Way::Asked { open, is_empty } => is_empty && open == 0,
            Way::Told => false,
            Way::Streamed(last) => !self.options.follows && last.elapsed() >= STREAM_REST,
        }
    }
}

impl Source for Fetcher {
    fn next(&mut self, most: usize) -> Result<Next, ClientError> {
        let until = Instant::now() + WAIT;
        loop {
            self.ask(most)?;
            let messages = match self.hear(most) {
                Err(ClientError::RefusedMethod { code: NOT_IMPLEMENTED, .. })
                    if matches!(self.way, Way::Asked { .. }) =>
                {
                    self.go_on_as_stream()?;
                    continue;
                }
                heard => heard?,
            };
            if !messages.is_empty() {
                return Ok(Next::Messages(messages));
            }
            if self.is_at_end() {
                return Ok(Next::End);
            }
            if Instant::now() >= until {
                return Ok(Next::Messages(messages));
            }
            self.conversation.wait(until)?;
        }
    }

    fn settle(&mut self) -> Result<(), ClientError> {
        // A stream keeps its messages; its acknowledgements ask for more.
        let is_kept = self.options.peeks && !matches!(self.way, Way::Streamed(_));
        if let Some(delivery_tag) = self.given.take().filter(|_| !is_kept) {
            self.conversation.post(&Ack { delivery_tag, multiple: true }.into());
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), ClientError> {
        self.conversation.close()
    }
}

fn begin(address: &AmqpAddress, queue: &str, options: &FetchOptions, way: &Way) -> Result<Conversation, ClientError> {
    let mut control = Control::open(address)?;
    control.open_channels(1)?;
    look_for_queue(&mut control, queue, &address.virtual_host)?;
    if matches!(way, Way::Asked { .. }) {
        return Conversation::over(control, "basic.get");
    }
    control.set_prefetch(CHANNEL, options.prefetch.max(1))?;
    let mut conversation = Conversation::over(control, "basic.consume")?;
    let mut arguments = BytesMut::new();
    let start = options.start.map(value_of).transpose()?;
    write_table(&mut arguments, |table| {
        if let Some(start) = start {
            table.put("x-stream-offset", start);
        }
    });
    let arguments = table_of(&arguments);
    conversation.post(&Consume { queue: short("queue", queue)?, arguments, ..Consume::default() }.into());
    Ok(conversation)
}

fn value_of(start: Start) -> Result<Value<'static>, ClientError> {
    Ok(match start {
        Start::Earliest => Value::LongString(b"first"),
        Start::Latest => Value::LongString(b"next"),
        Start::Offset(offset) => Value::I64(i64::try_from(offset).unwrap_or(i64::MAX)),
        Start::Time(ms) => Value::Timestamp(ms / 1000),
        Start::Last(_) => {
            let problem = "a stream is read from its begin or end, an offset or a time".to_owned();
            return Err(ClientError::Unusable { what: "start", problem });
        }
    })
}

/// Sees that a queue is there.
pub(crate) fn look_for_queue(control: &mut Control, queue: &str, virtual_host: &str) -> Result<(), ClientError> {
    let declare = QueueDeclare { queue: short("queue", queue)?, passive: true, ..QueueDeclare::default() };
    let found =
        control.ask(CHANNEL, &declare.into(), |method| matches!(method, Method::QueueDeclareOk(_)).then_some(()));
    found.map_err(|error| error.not_there("queue", queue, virtual_host))
}

impl ClientError {
    /// The same, if it does not say that something is not there.
    pub(crate) fn not_there(self, noun: &'static str, name: &str, virtual_host: &str) -> Self {
        match self {
            Self::RefusedMethod { code: NOT_FOUND, address, .. } => {
                Self::NotThere { noun, name: name.to_owned(), virtual_host: virtual_host.to_owned(), address }
            }
            other => other,
        }
    }
}
