//! An AMQP broker on a loopback port of the system's choice: it keeps queues in memory, and does with messages as it is told to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bench::Target;
use bytes::BytesMut;
use wire::amqp::argument::ShortString;
use wire::amqp::content::ContentHeader;
use wire::amqp::frame::{self, Frame, Kind, OVERHEAD_SIZE, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Ack, ConfirmSelectOk, Deliver, Nack, QosOk};
use wire::amqp::method::connection::{
    Blocked, ChannelClose, ChannelOpenOk, ConnectionCloseOk, OpenOk, Start, Tune, Unblocked,
};
use wire::amqp::method::exchange::ExchangeDeclareOk;
use wire::amqp::method::queue::{QueueBindOk, QueueDeclareOk, QueuePurgeOk};

/// What happens to a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Stored,
    /// Answered with `basic.nack`.
    Nacked,
    /// Never answered.
    Dropped,
    /// Confirmed, and forgotten all the same.
    Forgotten,
}

/// How the confirms of one read are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirms {
    Each,
    /// One for all up to the last.
    Multiple,
    /// Each, the last first.
    Reversed,
}

/// How it behaves.
#[derive(Clone, Copy)]
pub struct Manners {
    /// Fate of the n-th publish of a channel.
    pub fate: fn(u64) -> Fate,
    pub confirms: Confirms,
    /// Whether each message is delivered twice.
    pub doubles: bool,
    /// Whether it says that it takes no messages, and takes them all the same.
    pub blocks: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self { fate: |_| Fate::Stored, confirms: Confirms::Each, doubles: false, blocks: false }
    }
}

/// What it has, and what it saw.
#[derive(Default)]
pub struct Seen {
    pub queues: BTreeMap<String, VecDeque<Vec<u8>>>,
    bindings: BTreeMap<String, BTreeSet<String>>,
    /// Bodies' properties, once for each publish.
    pub delivery_modes: Vec<Option<u8>>,
    /// Channels that published, by connection.
    pub publishing: BTreeMap<usize, BTreeSet<u16>>,
    /// Acknowledgements, and whether each was for several.
    pub acks: Vec<(u64, bool)>,
    /// Most deliveries that one channel had unacknowledged.
    pub unacked_max: usize,
    /// Connections that ended in order.
    pub closed: usize,
    connections: usize,
}

pub struct FakeBroker {
    address: SocketAddr,
    pub seen: Arc<Mutex<Seen>>,
}

impl FakeBroker {
    pub fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = shared.clone();
                thread::spawn(move || Connection::new(stream, manners, seen).serve());
            }
        });
        Self { address, seen }
    }

    pub fn target(&self) -> Target {
        format!("amqp://{}", self.address).parse().expect("a target")
    }
}

struct Connection {
    stream: TcpStream,
    manners: Manners,
    seen: Arc<Mutex<Seen>>,
    number: usize,
    channels: BTreeMap<u16, Channel>,
    out: BytesMut,
}

#[derive(Default)]
struct Channel {
    confirms: bool,
    published: u64,
    /// Exchange and key of a publish whose content is coming, and its body so far.
    publishing: Option<(String, String, Option<u64>, Vec<u8>)>,
    stored: Vec<u64>,
    prefetch: usize,
    /// Queue, tag, and whether nobody acknowledges.
    consumers: Vec<(String, String, bool)>,
    delivered: u64,
    unacked: BTreeSet<u64>,
}

impl Connection {
    fn new(stream: TcpStream, manners: Manners, seen: Arc<Mutex<Seen>>) -> Self {
        let number = {
            let mut seen = seen.lock().expect("not poisoned");
            seen.connections += 1;
            seen.connections
        };
        Self { stream, manners, seen, number, channels: BTreeMap::new(), out: BytesMut::new() }
    }

    /// Until the client goes.
    fn serve(mut self) -> Option<()> {
        self.stream.set_nodelay(true).ok()?;
        self.stream.set_read_timeout(Some(Duration::from_millis(1))).ok()?;
        let mut input = Vec::new();
        loop {
            let mut chunk = [0; 65_536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(size) => input.extend_from_slice(&chunk[..size]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return None,
            }
            if input.starts_with(&PROTOCOL_HEADER) {
                input.drain(..PROTOCOL_HEADER.len());
                let start = Start { version_minor: 9, mechanisms: b"PLAIN", locales: b"en_US", ..Start::default() };
                self.say(0, start.into());
            }
            let mut taken = 0;
            while let Some(frame) = frame::decode(&input[taken..], 1 << 20).expect("a frame") {
                taken += frame.size();
                self.take(frame);
            }
            input.drain(..taken);
            self.confirm();
            self.deliver();
            self.stream.write_all(&self.out).ok()?;
            self.out.clear();
        }
    }

    fn say(&mut self, channel: u16, method: Method<'_>) {
        frame::encode(&mut self.out, Kind::Method, channel, |out| method.encode(out));
    }

    fn take(&mut self, frame: Frame<'_>) {
        let Frame { kind, channel, payload } = frame;
        match kind {
            Kind::Method => self.take_method(channel, Method::decode(payload).expect("a method")),
            Kind::Header => {
                let header = ContentHeader::decode(payload).expect("a header");
                self.seen.lock().expect("not poisoned").delivery_modes.push(header.properties.delivery_mode);
                let publishing = self.channel(channel).publishing.as_mut().expect("a publish goes before");
                publishing.2 = Some(header.body_size);
            }
            Kind::Body => {
                let publishing = self.channel(channel).publishing.as_mut().expect("a publish goes before");
                publishing.3.extend_from_slice(payload);
                if publishing.2 == Some(publishing.3.len() as u64) {
                    self.publish(channel);
                }
            }
            Kind::Heartbeat => {}
        }
    }

    fn channel(&mut self, number: u16) -> &mut Channel {
        self.channels.get_mut(&number).expect("an open channel")
    }

    fn take_method(&mut self, channel: u16, method: Method<'_>) {
        match method {
            Method::StartOk(_) => self.say(0, Tune { channel_max: 2047, frame_max: 4096, heartbeat: 60 }.into()),
            Method::TuneOk(_) => {}
            Method::Open(_) => self.say(0, OpenOk::default().into()),
            Method::ChannelOpen(_) => {
                self.channels.insert(channel, Channel::default());
                self.say(channel, ChannelOpenOk::default().into());
            }
            Method::QueueDeclare(declare) => self.declare(channel, text(declare.queue), declare.passive),
            Method::ExchangeDeclare(_) => self.say(channel, ExchangeDeclareOk {}.into()),
            Method::QueueBind(bind) => {
                let (exchange, queue) = (text(bind.exchange), text(bind.queue));
                self.seen.lock().expect("not poisoned").bindings.entry(exchange).or_default().insert(queue);
                self.say(channel, QueueBindOk {}.into());
            }
            Method::QueuePurge(purge) => {
                let queue = text(purge.queue);
                let purged = self.seen.lock().expect("not poisoned").queues.get_mut(&queue).map(std::mem::take);
                let message_count = purged.map_or(0, |messages| messages.len() as u32);
                self.say(channel, QueuePurgeOk { message_count }.into());
            }
            Method::ConfirmSelect(_) => {
                self.channel(channel).confirms = true;
                self.say(channel, ConfirmSelectOk {}.into());
            }
            Method::Publish(publish) => {
                let (exchange, key) = (text(publish.exchange), text(publish.routing_key));
                self.channel(channel).publishing = Some((exchange, key, None, Vec::new()));
            }
            Method::Qos(qos) => {
                self.channel(channel).prefetch = qos.prefetch_count.into();
                self.say(channel, QosOk {}.into());
            }
            Method::Consume(consume) => {
                let consumer = (text(consume.queue), text(consume.consumer_tag), consume.no_ack);
                self.channel(channel).consumers.push(consumer);
            }
            Method::Ack(Ack { delivery_tag, multiple }) => {
                self.channel(channel)
                    .unacked
                    .retain(|&tag| if multiple { tag > delivery_tag } else { tag != delivery_tag });
                self.seen.lock().expect("not poisoned").acks.push((delivery_tag, multiple));
            }
            Method::ConnectionClose(_) => {
                self.seen.lock().expect("not poisoned").closed += 1;
                self.say(0, ConnectionCloseOk {}.into());
            }
            other => panic!("{} was not expected", other.name()),
        }
    }

    fn declare(&mut self, channel: u16, name: String, is_passive: bool) {
        let mut seen = self.seen.lock().expect("not poisoned");
        if is_passive && !seen.queues.contains_key(&name) {
            drop(seen);
            let reply_text = ShortString::cut(b"NOT_FOUND - no such queue");
            return self.say(channel, ChannelClose { reply_code: 404, reply_text, ..ChannelClose::default() }.into());
        }
        let message_count = seen.queues.entry(name.clone()).or_default().len() as u32;
        drop(seen);
        let queue = ShortString::cut(name.as_bytes());
        self.say(channel, QueueDeclareOk { queue, message_count, consumer_count: 0 }.into());
    }

    fn publish(&mut self, number: u16) {
        let (manners, connection) = (self.manners, self.number);
        let channel = self.channels.get_mut(&number).expect("an open channel");
        let (exchange, key, _, body) = channel.publishing.take().expect("a publish");
        channel.published += 1;
        let (tag, fate) = (channel.published, (manners.fate)(channel.published));
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.publishing.entry(connection).or_default().insert(number);
        if fate == Fate::Stored {
            let bound = seen.bindings.get(&exchange).cloned().unwrap_or_default();
            let queues = if exchange.is_empty() { BTreeSet::from([key]) } else { bound };
            for queue in queues {
                seen.queues.get_mut(&queue).expect("it was declared").push_back(body.clone());
            }
        }
        drop(seen);
        match fate {
            Fate::Stored | Fate::Forgotten if channel.confirms => channel.stored.push(tag),
            Fate::Nacked if channel.confirms => self.say(number, Nack { delivery_tag: tag, ..Nack::default() }.into()),
            _ => {}
        }
        if manners.blocks && tag == 1 {
            self.say(0, Blocked { reason: ShortString::cut(b"low on memory") }.into());
            self.say(0, Unblocked {}.into());
        }
    }

    /// What one read brought.
    fn confirm(&mut self) {
        let stored = |(number, channel): (&u16, &mut Channel)| (*number, std::mem::take(&mut channel.stored));
        let all: Vec<_> = self.channels.iter_mut().map(stored).collect();
        for (number, mut tags) in all {
            match self.manners.confirms {
                Confirms::Each => {}
                Confirms::Multiple => _ = tags.drain(..tags.len().saturating_sub(1)),
                Confirms::Reversed => tags.reverse(),
            }
            let multiple = self.manners.confirms == Confirms::Multiple;
            for delivery_tag in tags {
                self.say(number, Ack { delivery_tag, multiple }.into());
            }
        }
    }

    fn deliver(&mut self) {
        let mut seen = self.seen.lock().expect("not poisoned");
        for (&number, channel) in &mut self.channels {
            for (queue, tag, no_ack) in &channel.consumers {
                while *no_ack || channel.prefetch == 0 || channel.unacked.len() < channel.prefetch {
                    let Some(body) = seen.queues.get_mut(queue).and_then(VecDeque::pop_front) else { break };
                    for _ in 0..1 + usize::from(self.manners.doubles) {
                        channel.delivered += 1;
                        deliver(&mut self.out, number, tag, channel.delivered, &body);
                        if !no_ack {
                            channel.unacked.insert(channel.delivered);
                        }
                    }
                    seen.unacked_max = seen.unacked_max.max(channel.unacked.len());
                }
            }
        }
    }
}

fn deliver(out: &mut BytesMut, channel: u16, consumer: &str, delivery_tag: u64, body: &[u8]) {
    let consumer_tag = ShortString::cut(consumer.as_bytes());
    let deliver: Method<'_> = Deliver { consumer_tag, delivery_tag, ..Deliver::default() }.into();
    frame::encode(out, Kind::Method, channel, |out| deliver.encode(out));
    let header = ContentHeader { body_size: body.len() as u64, ..ContentHeader::default() };
    frame::encode(out, Kind::Header, channel, |out| header.encode(out));
    for part in body.chunks(4096 - OVERHEAD_SIZE) {
        frame::encode(out, Kind::Body, channel, |out| out.extend_from_slice(part));
    }
}

fn text(short: ShortString<'_>) -> String {
    short.text().expect("UTF-8").to_owned()
}
