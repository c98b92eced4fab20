//! A client of AMQP 0-9-1 for tests that end in the middle: one connection with one channel, whose broker may go at any time.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Ack, ConfirmSelect, Consume, Publish, Qos};
use wire::amqp::method::connection::{ChannelOpen, Open, StartOk, TuneOk};
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::{QueueBind, QueueDeclare};
use wire::amqp::table::Table;

const CHANNEL: u16 = 1;
const FRAME_MAX: usize = 131_072;
/// An answer is a matter of milliseconds; a loaded machine gets more.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The channel.
#[derive(Debug)]
pub struct Channel {
    socket: TcpStream,
    input: BytesMut,
    output: BytesMut,
}

/// What the broker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A message of that number is kept, and all before it where it says so.
    Confirmed {
        /// Its number.
        number: u64,
        /// All before too.
        multiple: bool,
    },
    /// The same for one that is not.
    Refused {
        /// Its number.
        number: u64,
        /// All before too.
        multiple: bool,
    },
    /// A message.
    Delivered {
        /// By which it is acknowledged.
        tag: u64,
        /// Somebody may have had it before.
        redelivered: bool,
        /// Its body.
        body: Vec<u8>,
    },
    /// A queue is there, with so many ready messages.
    Queue {
        /// How many.
        messages: u32,
    },
    /// Anything else, by its name.
    Other(String),
}

fn short(text: &str) -> ShortString<'_> {
    ShortString::new(text.as_bytes()).expect("at most 255 bytes")
}

impl Channel {
    /// Opens one as `guest`. `None`: the broker has gone.
    pub fn open(address: &str) -> Option<Self> {
        let socket = TcpStream::connect(address).ok()?;
        socket.set_nodelay(true).expect("a socket");
        socket.set_read_timeout(Some(ANSWER_LIMIT)).expect("a socket");
        let mut channel = Self { socket, input: BytesMut::new(), output: BytesMut::new() };
        channel.output.extend_from_slice(&PROTOCOL_HEADER);
        let response = b"\0guest\0guest";
        let client_properties = Table::default();
        channel.put(0, StartOk { client_properties, mechanism: short("PLAIN"), response, locale: short("en_US") });
        channel.put(0, TuneOk { channel_max: 1, frame_max: FRAME_MAX as u32, heartbeat: 0 });
        channel.put(0, Open { virtual_host: short("/"), ..Open::default() });
        channel.put(CHANNEL, ChannelOpen::default());
        channel.flush()?;
        channel.wait_for("channel.open-ok")?;
        Some(channel)
    }

    fn put<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let method = method.into();
        frame::encode(&mut self.output, Kind::Method, channel, |out| method.encode(out));
    }

    /// Sends what has gathered. `None`: the broker has gone.
    pub fn flush(&mut self) -> Option<()> {
        self.socket.write_all(&self.output).ok()?;
        self.output.clear();
        Some(())
    }

    fn wait_for(&mut self, name: &str) -> Option<()> {
        loop {
            match self.hear()? {
                Said::Other(said) if said == name => return Some(()),
                // What an opening connection is told besides.
                Said::Other(said) => assert!(!said.contains("close"), "{said} instead of {name}"),
                said => panic!("{said:?} instead of {name}"),
            }
        }
    }

    /// Has a durable queue there; gives how many messages are ready in it.
    pub fn declare_queue(&mut self, name: &str) -> Option<u32> {
        self.put(CHANNEL, QueueDeclare { queue: short(name), durable: true, ..QueueDeclare::default() });
        self.flush()?;
        match self.hear()? {
            Said::Queue { messages } => Some(messages),
            said => panic!("{said:?}"),
        }
    }

    /// Has a durable fanout exchange there that sends on to `queues`.
    pub fn declare_fanout(&mut self, name: &str, queues: &[&str]) -> Option<()> {
        let kind = short("fanout");
        self.put(CHANNEL, ExchangeDeclare { exchange: short(name), kind, durable: true, ..ExchangeDeclare::default() });
        self.flush()?;
        self.wait_for("exchange.declare-ok")?;
        for queue in queues {
            self.put(CHANNEL, QueueBind { queue: short(queue), exchange: short(name), ..QueueBind::default() });
            self.flush()?;
            self.wait_for("queue.bind-ok")?;
        }
        Some(())
    }

    /// Has messages confirmed from here on.
    pub fn confirm(&mut self) -> Option<()> {
        self.put(CHANNEL, ConfirmSelect::default());
        self.flush()?;
        self.wait_for("confirm.select-ok")
    }

    /// Publishes a persistent message.
    pub fn publish(&mut self, exchange: &str, key: &str, body: &[u8]) -> Option<()> {
        self.put(CHANNEL, Publish { exchange: short(exchange), routing_key: short(key), ..Publish::default() });
        let properties = Properties { delivery_mode: Some(PERSISTENT), ..Properties::default() };
        let header = ContentHeader { body_size: body.len() as u64, properties };
        frame::encode(&mut self.output, Kind::Header, CHANNEL, |out| header.encode(out));
        for part in body.chunks(FRAME_MAX - frame::OVERHEAD_SIZE) {
            frame::encode(&mut self.output, Kind::Body, CHANNEL, |out| out.extend_from_slice(part));
        }
        self.flush()
    }

    /// Has messages of a queue come, at most `prefetch` of them unacknowledged; 0: any number.
    pub fn consume(&mut self, queue: &str, prefetch: u16) -> Option<()> {
        self.put(CHANNEL, Qos { prefetch_count: prefetch, ..Qos::default() });
        self.put(CHANNEL, Consume { queue: short(queue), ..Consume::default() });
        self.flush()?;
        self.wait_for("basic.consume-ok")
    }

    /// Acknowledges a message.
    pub fn acknowledge(&mut self, tag: u64) -> Option<()> {
        self.put(CHANNEL, Ack { delivery_tag: tag, multiple: false });
        self.flush()
    }

    /// What the broker says next. `None`: it has gone.
    pub fn hear(&mut self) -> Option<Said> {
        let (mut tag, mut again, mut body_size) = (0, false, None);
        let mut body = Vec::new();
        loop {
            self.read_until_a_frame_is_there()?;
            let frame = frame::decode(&self.input, FRAME_MAX).expect("frames").expect("a whole frame");
            let size = frame.size();
            let mut said = None;
            match frame.kind {
                Kind::Method => match Method::decode(frame.payload).expect("a method") {
                    Method::Deliver(deliver) => (tag, again) = (deliver.delivery_tag, deliver.redelivered),
                    method => said = Some(said_by(&method)),
                },
                Kind::Header => body_size = Some(ContentHeader::decode(frame.payload).expect("a header").body_size),
                Kind::Body => body.extend_from_slice(frame.payload),
                Kind::Heartbeat => {}
            }
            self.input.advance(size);
            if body_size.is_some_and(|size| body.len() as u64 >= size) {
                return Some(Said::Delivered { tag, redelivered: again, body });
            }
            if said.is_some() {
                return said;
            }
        }
    }

    fn read_until_a_frame_is_there(&mut self) -> Option<()> {
        while frame::decode(&self.input, FRAME_MAX).expect("frames").is_none() {
            let mut bytes = [0; 16 * 1024];
            let read = self.socket.read(&mut bytes).ok().filter(|read| *read > 0)?;
            self.input.extend_from_slice(&bytes[..read]);
        }
        Some(())
    }
}

fn said_by(method: &Method<'_>) -> Said {
    match method {
        Method::Ack(ack) => Said::Confirmed { number: ack.delivery_tag, multiple: ack.multiple },
        Method::Nack(nack) => Said::Refused { number: nack.delivery_tag, multiple: nack.multiple },
        Method::QueueDeclareOk(queue) => Said::Queue { messages: queue.message_count },
        Method::ChannelClose(close) => Said::Other(format!("channel.close {:?}", close.reply_text)),
        Method::ConnectionClose(close) => Said::Other(format!("connection.close {:?}", close.reply_text)),
        method => Said::Other(method.name().to_owned()),
    }
}
