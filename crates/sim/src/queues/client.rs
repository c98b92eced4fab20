//! A client of message queues: whole frames to a session of the node, and what it hears.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use base::Now;
use base::session::Session as _;
use broker::Mailbox;
use bytes::BytesMut;
use dialect::amqp::{AmqpOptions, AmqpSession};
use storage::disk::without_waiting;
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, Properties};
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Ack, ConfirmSelect, Consume, Get, Nack, Publish, Qos, Reject};
use wire::amqp::method::connection::{ChannelOpen, Open, StartOk, TuneOk};
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::{QueueBind, QueueDeclare};
use wire::amqp::table::{Value, write_table};

use super::oracle::{DEAD, PASSING, PLAIN, QUEUES, WORK};
use super::story::Settlement;
use crate::node::Node;

const FRAME_MAX: usize = 131_072;
const CHANNEL: u16 = 1;

/// Rounds until a session has nothing more to do: more, and it never has.
const ROUNDS_MAX: usize = 10_000;

/// What a client hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Messages up to this number, or this one alone, are kept, or may not be.
    Confirmed { tag: u64, multiple: bool, is_kept: bool },
    /// A message of a queue.
    Delivered { tag: u64, queue: usize, is_again: bool, id: u64 },
    /// There was none.
    Empty,
    /// Something that ends a channel or connection, or cannot be read.
    Broken(String),
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection with one channel.
pub(super) struct Client {
    session: AmqpSession,
    woken: Arc<Flag>,
    input: BytesMut,
    output: Vec<u8>,
    /// Queues that were asked for one message each.
    gets: VecDeque<usize>,
    /// What was delivered, its content not yet whole.
    pending: Option<(u64, usize, bool)>,
    /// It goes round and round.
    is_stuck: bool,
}

fn short(text: &str) -> ShortString<'_> {
    ShortString::cut(text.as_bytes())
}

impl Client {
    /// A connection that makes exchanges and queues, unless they are there, and consumes from `consumes`.
    pub(super) fn open(node: &Node, consumes: &[usize], now: Now) -> Self {
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        let mailbox = Mailbox::new(Waker::from(woken.clone()));
        let options = Arc::new(AmqpOptions::default());
        let session = AmqpSession::new(node.broker.clone(), mailbox, options, ([127, 0, 0, 1], 5000).into());
        let mut client = Self {
            session,
            woken,
            input: BytesMut::new(),
            output: Vec::new(),
            gets: VecDeque::new(),
            pending: None,
            is_stuck: false,
        };
        client.input.extend_from_slice(&PROTOCOL_HEADER);
        client.drive(node, now);
        let mut capabilities = BytesMut::new();
        write_table(&mut capabilities, |_| ());
        let client_properties = wire::amqp::table::Table::read(&capabilities[4..]).unwrap_or_default();
        let response = b"\0guest\0guest";
        client.put(0, StartOk { client_properties, mechanism: short("PLAIN"), response, locale: short("en_US") });
        client.put(0, TuneOk { channel_max: 0, frame_max: FRAME_MAX as u32, heartbeat: 0 });
        client.put(0, Open { virtual_host: short("/"), ..Open::default() });
        client.put(CHANNEL, ChannelOpen::default());
        client.declare();
        client.put(CHANNEL, ConfirmSelect { no_wait: true });
        client.put(CHANNEL, Qos { prefetch_count: 6, ..Qos::default() });
        for queue in consumes {
            let name = short(QUEUES[*queue]);
            client.put(CHANNEL, Consume { queue: name, consumer_tag: name, ..Consume::default() });
        }
        // At once: who takes long to open its connection is not waited for.
        client.drive(node, now);
        client
    }

    fn declare(&mut self) {
        for (exchange, kind) in [("all", "fanout"), ("graves", "fanout")] {
            let (exchange, kind) = (short(exchange), short(kind));
            self.put(CHANNEL, ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() });
        }
        for (number, name) in QUEUES.iter().enumerate() {
            let mut arguments = BytesMut::new();
            write_table(&mut arguments, |table| {
                if number == WORK {
                    table.put("x-dead-letter-exchange", Value::LongString(b"graves"));
                }
            });
            let arguments = wire::amqp::table::Table::read(&arguments[4..]).unwrap_or_default();
            let durable = number != PASSING;
            self.put(CHANNEL, QueueDeclare { queue: short(name), durable, arguments, ..QueueDeclare::default() });
        }
        for (queue, exchange) in [(PLAIN, "all"), (WORK, "all"), (PASSING, "all"), (DEAD, "graves")] {
            let (queue, exchange) = (short(QUEUES[queue]), short(exchange));
            self.put(CHANNEL, QueueBind { queue, exchange, ..QueueBind::default() });
        }
    }

    fn put<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let method = method.into();
        frame::encode(&mut self.input, Kind::Method, channel, |out| method.encode(out));
    }

    /// Publishes a message whose body begins with its number.
    pub(super) fn publish(&mut self, exchange: &str, key: &str, is_persistent: bool, id: u64, size: usize) {
        self.put(CHANNEL, Publish { exchange: short(exchange), routing_key: short(key), ..Publish::default() });
        let mut body = id.to_be_bytes().to_vec();
        body.resize(8 + size, 0);
        let delivery_mode = Some(if is_persistent { 2 } else { 1 });
        let properties = Properties { delivery_mode, ..Properties::default() };
        frame::encode(&mut self.input, Kind::Header, CHANNEL, |out| {
            ContentHeader { body_size: body.len() as u64, properties }.encode(out);
        });
        frame::encode(&mut self.input, Kind::Body, CHANNEL, |out| out.extend_from_slice(&body));
    }

    pub(super) fn settle(&mut self, how: Settlement, delivery_tag: u64) {
        match how {
            Settlement::Ack => self.put(CHANNEL, Ack { delivery_tag, multiple: false }),
            Settlement::AckAll => self.put(CHANNEL, Ack { delivery_tag, multiple: true }),
            Settlement::Requeue => self.put(CHANNEL, Nack { delivery_tag, multiple: false, requeue: true }),
            Settlement::Reject => self.put(CHANNEL, Reject { delivery_tag, requeue: false }),
        }
    }

    pub(super) fn get(&mut self, queue: usize) {
        self.gets.push_back(queue);
        self.put(CHANNEL, Get { queue: short(QUEUES[queue]), ..Get::default() });
    }

    /// The connection is lost.
    pub(super) fn lose(mut self, node: &Node, now: Now) {
        without_waiting(|| self.session.closed(now));
        while let Some(job) = self.session.take_job() {
            node.host.run_job(job);
        }
    }

    /// Has the session do all it can. Gives whether it did anything.
    pub(super) fn drive(&mut self, node: &Node, now: Now) -> bool {
        for round in 0..ROUNDS_MAX {
            let mut is_done = true;
            if !self.input.is_empty() && self.session.wants_input() {
                let before = self.input.len();
                if without_waiting(|| self.session.receive(&mut self.input, now)).is_err() {
                    self.input.clear();
                }
                is_done &= self.input.len() == before;
            }
            while let Some(job) = self.session.take_job() {
                node.host.run_job(job);
                is_done = false;
            }
            if self.woken.0.swap(false, Ordering::SeqCst) {
                without_waiting(|| self.session.wake(now));
                is_done = false;
            }
            let output = self.session.output().take_all();
            is_done &= output.is_empty();
            self.output.extend(output);
            if is_done {
                return round > 0;
            }
        }
        self.is_stuck = true;
        true
    }

    /// What time it is.
    pub(super) fn pass(&mut self, now: Now) {
        if self.session.deadline().is_some_and(|deadline| deadline <= now.monotonic) {
            without_waiting(|| self.session.wake(now));
        }
    }

    /// What was heard since.
    pub(super) fn take(&mut self) -> Vec<Heard> {
        let output = std::mem::take(&mut self.output);
        let (mut rest, mut heard) = (&output[..], Vec::new());
        if self.is_stuck {
            heard.push(Heard::Broken("the session is never done".to_owned()));
        }
        while !rest.is_empty() {
            match frame::decode(rest, FRAME_MAX) {
                Ok(Some(frame)) => {
                    self.hear(frame.kind, frame.payload, &mut heard);
                    rest = &rest[frame.size()..];
                }
                other => {
                    heard.push(Heard::Broken(format!("no frame: {other:?}")));
                    break;
                }
            }
        }
        heard
    }

    fn hear(&mut self, kind: Kind, payload: &[u8], heard: &mut Vec<Heard>) {
        match kind {
            Kind::Method => match Method::decode(payload) {
                Ok(method) => self.hear_method(&method, heard),
                Err(error) => heard.push(Heard::Broken(error.to_string())),
            },
            Kind::Body => {
                let Some((tag, queue, is_again)) = self.pending.take() else { return };
                let id = payload.first_chunk().map_or(u64::MAX, |bytes| u64::from_be_bytes(*bytes));
                heard.push(Heard::Delivered { tag, queue, is_again, id });
            }
            Kind::Header | Kind::Heartbeat => {}
        }
    }

    fn hear_method(&mut self, method: &Method<'_>, heard: &mut Vec<Heard>) {
        match method {
            Method::Deliver(it) => {
                let queue = QUEUES.iter().position(|name| name.as_bytes() == it.consumer_tag.bytes());
                self.pending = Some((it.delivery_tag, queue.unwrap_or(usize::MAX), it.redelivered));
            }
            Method::GetOk(it) => {
                let queue = self.gets.pop_front().unwrap_or(usize::MAX);
                self.pending = Some((it.delivery_tag, queue, it.redelivered));
            }
            Method::GetEmpty(_) => {
                self.gets.pop_front();
                heard.push(Heard::Empty);
            }
            Method::Ack(it) => {
                heard.push(Heard::Confirmed { tag: it.delivery_tag, multiple: it.multiple, is_kept: true });
            }
            Method::Nack(it) => {
                heard.push(Heard::Confirmed { tag: it.delivery_tag, multiple: it.multiple, is_kept: false });
            }
            Method::ChannelClose(it) => {
                heard.push(Heard::Broken(String::from_utf8_lossy(it.reply_text.bytes()).into_owned()));
            }
            Method::ConnectionClose(it) => {
                heard.push(Heard::Broken(String::from_utf8_lossy(it.reply_text.bytes()).into_owned()));
            }
            _ => {}
        }
    }
}
