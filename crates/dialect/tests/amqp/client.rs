//! A broker, and clients that speak whole frames to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use base::Now;
use base::session::Session;
use broker::{Broker, Mailbox};
use bytes::BytesMut;
use dialect::amqp::{AmqpOptions, AmqpSession, model_options};
use tempfile::TempDir;
use testkit::{ManualHost, at, broker_options, store_options};
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Consume, Get, Publish};
use wire::amqp::method::connection::{ChannelOpen, Open, StartOk, TuneOk};
use wire::amqp::method::queue::{QueueBind, QueueDeclare};
use wire::amqp::table::{Table, TableWriter, Value, write_table};

pub const START: Now = at(1_700_000_000_000);
pub const FRAME_MAX: usize = 4096;

/// Short text.
pub fn short(text: &str) -> ShortString<'_> {
    ShortString::new(text.as_bytes()).expect("short")
}

/// A message for the default exchange.
pub fn to(key: &str) -> Publish<'_> {
    Publish { routing_key: short(key), ..Publish::default() }
}

/// Properties of a message that outlives its broker.
pub fn persistent() -> Properties<'static> {
    Properties { delivery_mode: Some(PERSISTENT), ..Properties::default() }
}

/// A field table.
pub struct Arguments(BytesMut);

impl Arguments {
    pub fn of(write: impl FnOnce(&mut TableWriter<'_>)) -> Self {
        let mut out = BytesMut::new();
        write_table(&mut out, write);
        Self(out)
    }

    pub fn table(&self) -> Table<'_> {
        Table::read(&self.0[4..]).expect("a table")
    }
}

/// A broker, to which clients connect.
pub struct Bench {
    pub broker: Arc<Broker>,
    pub options: AmqpOptions,
    host: Arc<ManualHost>,
    scratch: TempDir,
    pub now: Now,
}

impl Bench {
    pub fn new() -> Self {
        Self::on(tempfile::tempdir().expect("directory"), START)
    }

    pub fn on(scratch: TempDir, now: Now) -> Self {
        let store = store_options(scratch.path());
        Self::over(store, scratch, now)
    }

    pub fn over(store: storage::Options, scratch: TempDir, now: Now) -> Self {
        Self::with(store, scratch, now, |_| ())
    }

    pub fn with(
        store: storage::Options,
        scratch: TempDir,
        now: Now,
        change: impl FnOnce(&mut broker::Options),
    ) -> Self {
        let host = Arc::new(ManualHost::default());
        let mut options = broker::Options { model: model_options(), ..broker_options() };
        change(&mut options);
        let broker = testkit::open_broker(options, store, host.clone(), now);
        let broker = Arc::new(broker.expect("the broker opens"));
        host.serve(&broker);
        Self { broker, options: AmqpOptions::default(), host, scratch, now }
    }

    /// Kills the broker and starts another on its directory. Its clients are gone before.
    pub fn killed(self) -> Self {
        let Self { broker, scratch, now, .. } = self;
        broker.keep(now).expect("told");
        assert_eq!(Arc::strong_count(&broker), 1, "somebody still uses the broker");
        drop(broker);
        Self::on(scratch, now)
    }

    /// Kills the broker, whatever it is about, and starts another on its directory: a slave's if `follows`.
    pub fn reopened(self, follows: bool) -> Self {
        let Self { broker, scratch, now, .. } = self;
        assert_eq!(Arc::strong_count(&broker), 1, "somebody still uses the broker");
        drop(broker);
        Self::of_role(scratch, follows, now)
    }

    /// A broker in a directory; a slave's if `follows`.
    pub fn of_role(scratch: TempDir, follows: bool, now: Now) -> Self {
        let store = store_options(scratch.path());
        Self::over(if follows { store.following() } else { store }, scratch, now)
    }

    pub fn directory(&self) -> &std::path::Path {
        self.scratch.path()
    }

    /// From here on the log is written and synced only when the test says so.
    pub fn stop_writing(&self) {
        self.host.stop();
    }

    /// Lets time pass for the broker.
    pub fn pass(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.broker.end_what_is_over(self.now);
    }

    /// A client that has not said anything.
    pub fn stranger(&self, remote: &str) -> Client {
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        let mailbox = Mailbox::new(Waker::from(woken.clone()));
        let remote = remote.parse().expect("an address");
        let session = AmqpSession::new(self.broker.clone(), mailbox, Arc::new(self.options.clone()), remote);
        Client {
            session,
            woken,
            input: BytesMut::new(),
            output: Vec::new(),
            is_closed: false,
            now: self.now,
            is_stuck: false,
            hears_of_blocked: true,
        }
    }

    /// A client with a queue `q` with further arguments, and `dead`, which is bound to the exchange that gets its dead letters.
    pub fn client_with_dead_letters(&self, write: impl FnOnce(&mut TableWriter<'_>)) -> Client {
        let mut client = self.client();
        client.simple_queue("dead");
        client.send(1, QueueBind { queue: short("dead"), exchange: short("amq.fanout"), ..QueueBind::default() });
        assert_eq!(client.take(), ["queue.bind-ok"]);
        let arguments = Arguments::of(|table| {
            table.put("x-dead-letter-exchange", Value::LongString(b"amq.fanout"));
            write(table);
        });
        assert_eq!(client.queue("q", true, &arguments), ["queue q 0/0"]);
        client
    }

    /// A client with channel 1 open.
    pub fn client(&self) -> Client {
        self.client_with_frames_of(FRAME_MAX)
    }

    /// The same; its frames may be that large.
    pub fn client_with_frames_of(&self, frame_max: usize) -> Client {
        self.stranger("127.0.0.1:40000").connected_with(frame_max)
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection.
pub struct Client {
    pub session: AmqpSession,
    woken: Arc<Flag>,
    input: BytesMut,
    output: Vec<u8>,
    /// Why the broker has closed it, or in good order.
    pub is_closed: bool,
    pub now: Now,
    /// The client reads nothing from its socket.
    pub is_stuck: bool,
    /// The client says that it can be told that it is blocked.
    pub hears_of_blocked: bool,
}

impl Client {
    /// Logs in and opens channel 1.
    pub fn connected(self) -> Self {
        self.connected_with(FRAME_MAX)
    }

    fn connected_with(mut self, frame_max: usize) -> Self {
        self.bytes(&PROTOCOL_HEADER);
        assert_eq!(self.take(), ["connection.start"]);
        self.log_in("PLAIN", b"\0guest\0guest");
        assert_eq!(self.take(), ["connection.tune"]);
        self.send(0, TuneOk { channel_max: 0, frame_max: frame_max as u32, heartbeat: 0 });
        self.send(0, Open { virtual_host: short("/"), ..Open::default() });
        assert_eq!(self.take(), ["connection.open-ok"]);
        self.open(1);
        self
    }

    pub fn log_in(&mut self, mechanism: &str, response: &[u8]) {
        let capabilities = Arguments::of(|table| {
            table.table("capabilities", |table| {
                table.put("consumer_cancel_notify", Value::Bool(true));
                table.put("connection.blocked", Value::Bool(self.hears_of_blocked));
                table.put("authentication_failure_close", Value::Bool(true));
            });
        });
        let client_properties = capabilities.table();
        self.send(0, StartOk { client_properties, mechanism: short(mechanism), response, locale: short("en_US") });
    }

    /// Says who it is and opens the virtual host; gives what the broker says to that.
    pub fn enter(&mut self, mechanism: &str, response: &[u8], virtual_host: &str) -> Vec<String> {
        self.bytes(&PROTOCOL_HEADER);
        self.log_in(mechanism, response);
        self.send(0, TuneOk { channel_max: 0, frame_max: FRAME_MAX as u32, heartbeat: 0 });
        self.send(0, Open { virtual_host: short(virtual_host), ..Open::default() });
        let mut said = self.take();
        said.retain(|line| line != "connection.start" && line != "connection.tune");
        said
    }

    pub fn open(&mut self, channel: u16) {
        self.send(channel, ChannelOpen::default());
        assert_eq!(self.take(), ["channel.open-ok"]);
    }

    /// Sends bytes and has all done that they lead to.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.receive();
        self.settle();
    }

    fn receive(&mut self) {
        if !self.is_closed && self.session.receive(&mut self.input, self.now).is_err() {
            self.is_closed = true;
        }
    }

    pub fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let mut out = BytesMut::new();
        put(&mut out, channel, method);
        self.bytes(&out);
    }

    pub fn publish(&mut self, exchange: &str, key: &str, body: &[u8]) {
        self.publish_with(
            Publish { exchange: short(exchange), routing_key: short(key), ..Publish::default() },
            Properties::default(),
            body,
        );
    }

    pub fn publish_with(&mut self, publish: Publish<'_>, properties: Properties<'_>, body: &[u8]) {
        self.bytes(&message(1, publish, properties, body));
    }

    /// Has a queue there, with these arguments.
    pub fn queue(&mut self, name: &str, durable: bool, arguments: &Arguments) -> Vec<String> {
        let arguments = arguments.table();
        self.send(1, QueueDeclare { queue: short(name), durable, arguments, ..QueueDeclare::default() });
        self.take()
    }

    pub fn simple_queue(&mut self, name: &str) {
        assert_eq!(self.queue(name, true, &Arguments::of(|_| ())), [format!("queue {name} 0/0")]);
    }

    /// Has a queue `q` there with further arguments, and `dead`, to which its dead letters go at once.
    pub fn dying_queue(&mut self, write: impl FnOnce(&mut TableWriter<'_>)) {
        self.simple_queue("dead");
        let arguments = Arguments::of(|table| {
            table.put("x-dead-letter-exchange", Value::LongString(b""));
            table.put("x-dead-letter-routing-key", Value::LongString(b"dead"));
            write(table);
        });
        assert_eq!(self.queue("q", true, &arguments), ["queue q 0/0"]);
    }

    pub fn get(&mut self, queue: &str, no_ack: bool) -> String {
        self.send(1, Get { queue: short(queue), no_ack, ..Get::default() });
        self.take().join("; ")
    }

    pub fn consume(&mut self, queue: &str, tag: &str, no_ack: bool) -> Vec<String> {
        self.send(1, Consume { queue: short(queue), consumer_tag: short(tag), no_ack, ..Consume::default() });
        self.take()
    }

    /// Runs jobs and wakes the session until nothing is to be done.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut is_done = true;
            while let Some(job) = self.session.take_job() {
                job();
                is_done = false;
            }
            let is_due = self.session.deadline().is_some_and(|deadline| deadline <= self.now.monotonic);
            if self.woken.0.swap(false, Ordering::SeqCst) || is_due && !self.is_closed {
                self.session.wake(self.now);
                is_done = false;
            }
            if self.session.wants_input() && frame_begins(&self.input) {
                self.receive();
                is_done = false;
            }
            if !self.is_stuck && !self.session.output().is_empty() {
                self.take_output();
                // Room may be all that was missing.
                is_done = false;
            }
            self.is_closed |= self.session.is_over() || self.session.close_reason().is_some();
            if is_done {
                return;
            }
        }
        panic!("the session is never done");
    }

    /// Takes what the session has said so far.
    pub fn take_output(&mut self) {
        self.output.extend(self.session.output().take_all());
    }

    /// The mechanisms that the broker offers.
    pub fn offered(&mut self) -> String {
        self.bytes(&PROTOCOL_HEADER);
        let output = std::mem::take(&mut self.output);
        let frame = frame::decode(&output, FRAME_MAX).expect("frames").expect("a whole frame");
        let Ok(Method::Start(start)) = Method::decode(frame.payload) else { panic!("{output:?}") };
        String::from_utf8_lossy(start.mechanisms).into_owned()
    }

    /// The bytes that the broker has sent since.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        self.settle();
        std::mem::take(&mut self.output)
    }

    /// What the broker has said since, a line each.
    pub fn take(&mut self) -> Vec<String> {
        tell(&self.take_bytes())
    }

    /// Sends, and does not do what that leads to.
    pub fn jobs_of<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) -> Vec<base::session::Job> {
        put(&mut self.input, channel, method);
        self.receive();
        std::iter::from_fn(|| self.session.take_job()).collect()
    }

    /// The connection is lost.
    pub fn lose(mut self) {
        self.session.closed(self.now);
        while let Some(job) = self.session.take_job() {
            job();
        }
    }
}

fn frame_begins(input: &[u8]) -> bool {
    frame::decode(input, FRAME_MAX).is_ok_and(|frame| frame.is_some())
}

/// Writes a method.
pub fn put<'m>(out: &mut BytesMut, channel: u16, method: impl Into<Method<'m>>) {
    let method = method.into();
    frame::encode(out, Kind::Method, channel, |out| method.encode(out));
}

/// A message in frames.
pub fn message(channel: u16, publish: Publish<'_>, properties: Properties<'_>, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    put(&mut out, channel, publish);
    frame::encode(&mut out, Kind::Header, channel, |out| {
        ContentHeader { body_size: body.len() as u64, properties }.encode(out);
    });
    for part in body.chunks(FRAME_MAX - frame::OVERHEAD_SIZE) {
        frame::encode(&mut out, Kind::Body, channel, |out| out.extend_from_slice(part));
    }
    out
}

/// What bytes of the broker say, a line a method.
fn tell(mut bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    if let Some(rest) = bytes.strip_prefix(&PROTOCOL_HEADER) {
        lines.push("AMQP 0-9-1".to_owned());
        bytes = rest;
    }
    while !bytes.is_empty() {
        let frame = frame::decode(bytes, FRAME_MAX).expect("frames").expect("whole frames");
        match frame.kind {
            Kind::Method => lines.push(line(&Method::decode(frame.payload).expect("a method"))),
            Kind::Header => {
                let header = ContentHeader::decode(frame.payload).expect("a header");
                let last = lines.last_mut().expect("a method before");
                if let Some(priority) = header.properties.priority {
                    last.push_str(&format!(" priority {priority}"));
                }
                let headers = header.properties.headers.unwrap_or_default();
                if let Some(count) = headers.get("x-delivery-count").and_then(|count| count.integer()) {
                    last.push_str(&format!(" after {count}"));
                }
                if let Some(reply_to) = header.properties.reply_to {
                    last.push_str(&format!(" reply to {}", String::from_utf8_lossy(reply_to.bytes())));
                }
                if let Some(Value::I64(offset)) =
                    header.properties.headers.and_then(|table| table.get("x-stream-offset"))
                {
                    last.push_str(&format!(" at {offset}"));
                }
                last.push_str(": ");
            }
            Kind::Body => {
                let text = String::from_utf8_lossy(frame.payload);
                lines.last_mut().expect("a header before").push_str(&text);
            }
            Kind::Heartbeat => lines.push("heartbeat".to_owned()),
        }
        bytes = &bytes[frame.size()..];
    }
    lines
}

fn line(method: &Method<'_>) -> String {
    let text = |text: ShortString<'_>| String::from_utf8_lossy(text.bytes()).into_owned();
    let again = |redelivered| if redelivered { " again" } else { "" };
    match method {
        Method::Deliver(it) => {
            format!("deliver {} to {}{}", it.delivery_tag, text(it.consumer_tag), again(it.redelivered))
        }
        Method::GetOk(it) => format!("got {}, {} more{}", it.delivery_tag, it.message_count, again(it.redelivered)),
        Method::Ack(it) => format!("ack {}{}", it.delivery_tag, if it.multiple { " and before" } else { "" }),
        Method::Nack(it) => format!("nack {}{}", it.delivery_tag, if it.multiple { " and before" } else { "" }),
        Method::Return(it) => format!("return {} {}", it.reply_code, text(it.routing_key)),
        Method::QueueDeclareOk(it) => {
            format!("queue {} {}/{}", text(it.queue), it.message_count, it.consumer_count)
        }
        Method::QueueDeleteOk(it) => format!("deleted {}", it.message_count),
        Method::QueuePurgeOk(it) => format!("purged {}", it.message_count),
        Method::Blocked(it) => format!("blocked: {}", text(it.reason)),
        Method::Cancel(it) => format!("cancel {}", text(it.consumer_tag)),
        Method::ChannelClose(it) => format!("channel.close {}", text(it.reply_text)),
        Method::ConnectionClose(it) => format!("connection.close {}", text(it.reply_text)),
        other => other.name().to_owned(),
    }
}
