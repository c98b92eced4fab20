//! What much of AMQP's model costs over the wire: `cargo run --release -p bench --example model -- ADDRESS WHAT [COUNT]`
//!
//! | `WHAT` | it asks for | it prints |
//! |---|---|---|
//! | `queues [COUNT]` | durable queues, each of which is answered | seconds |
//! | `bindings [COUNT]` | bindings of 1000 queues to a topic exchange, a fifth of them with a `*`; then 1 KB messages with keys of theirs, transient, for 10 s | seconds; messages a second and in how many queues each came to lie |
//!
//! Guest of the virtual host `/`; what it makes stays there, under names that begin with `model`.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a program for people who measure")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it is a client, with sockets and a clock of its own"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::{Buf as _, BytesMut};
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, Properties};
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{ConfirmSelect, Publish};
use wire::amqp::method::connection::{ChannelOpen, Open, StartOk, TuneOk};
use wire::amqp::method::exchange::ExchangeDeclare;
use wire::amqp::method::queue::{QueueBind, QueueDeclare};

const CHANNEL: u16 = 1;
const FRAME_MAX: usize = 131_072;
const EXCHANGE: &[u8] = b"model";
/// Queues that bindings lead to.
const BOUND_QUEUES: usize = 1000;
/// Every so manieth binding has a word that matches any.
const WILD_EVERY: usize = 5;
/// Requests, or messages, that are under way at once.
const IN_FLIGHT: usize = 1000;
const BODY: [u8; 1024] = [b'x'; 1024];
const PUBLISH_FOR: Duration = Duration::from_secs(10);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().expect("an address");
    let what = arguments.next().expect("queues or bindings");
    let count = |default: usize, text: Option<String>| text.map_or(default, |text| text.parse().expect("a number"));
    match &*what {
        "queues" => declare_queues(&mut Client::connect(&address), count(100_000, arguments.next())),
        "bindings" => measure_bindings(&mut Client::connect(&address), count(1_000_000, arguments.next())),
        other => println!("{other} is neither queues nor bindings"),
    }
}

fn declare_queues(client: &mut Client, count: usize) {
    let begin = Instant::now();
    client.ask_many(count, |number| name("model-queue", number), |name| declare(name).into());
    println!("{count} queues declared in {:.2} s", begin.elapsed().as_secs_f64());
}

fn measure_bindings(client: &mut Client, count: usize) {
    let exchange = short(EXCHANGE);
    client
        .ask(&ExchangeDeclare { exchange, kind: short(b"topic"), durable: true, ..ExchangeDeclare::default() }.into());
    client.ask_many(BOUND_QUEUES, |number| name("model-bound", number), |name| declare(name).into());
    let begin = Instant::now();
    client.ask_many(
        count,
        |number| (name("model-bound", number % BOUND_QUEUES), pattern(number)),
        |(queue, key)| {
            let (queue, routing_key) = (short(queue.as_bytes()), short(key.as_bytes()));
            QueueBind { queue, exchange, routing_key, ..QueueBind::default() }.into()
        },
    );
    println!("{count} bindings made in {:.2} s", begin.elapsed().as_secs_f64());
    let ready_before = client.ready();
    client.ask(&ConfirmSelect { no_wait: false }.into());
    let (begin, mut published, mut confirmed) = (Instant::now(), 0, 0);
    while begin.elapsed() < PUBLISH_FOR {
        // Far from each other, so that no key is met again soon.
        client.publish(&key(published * 7919 % count));
        published += 1;
        if published % (IN_FLIGHT / 4) == 0 {
            client.send();
            while published - confirmed >= IN_FLIGHT {
                confirmed = client.await_confirm();
            }
        }
    }
    client.send();
    while confirmed < published {
        confirmed = client.await_confirm();
    }
    let rate = published as f64 / begin.elapsed().as_secs_f64();
    let copies = (client.ready() - ready_before) as f64 / published as f64;
    println!("{rate:.0} messages a second, each in {copies:.2} queues");
}

fn name(kind: &str, number: usize) -> String {
    format!("{kind}-{number}")
}

/// The key of a message that binding matches.
fn key(number: usize) -> String {
    format!("region{}.site{}.sensor{number}", number % 97, number % 1013)
}

fn pattern(number: usize) -> String {
    if number.is_multiple_of(WILD_EVERY) { format!("*.site{}.sensor{number}", number % 1013) } else { key(number) }
}

fn short(text: &[u8]) -> ShortString<'_> {
    ShortString::new(text).expect("a short name")
}

fn declare(name: &String) -> QueueDeclare<'_> {
    QueueDeclare { queue: short(name.as_bytes()), durable: true, ..QueueDeclare::default() }
}

/// A connection with a channel.
struct Client {
    stream: TcpStream,
    out: BytesMut,
    input: BytesMut,
}

/// What a client waits for.
enum Heard {
    Answer { ready: u64 },
    Confirmed(u64),
}

impl Client {
    fn connect(address: &str) -> Self {
        let mut stream = TcpStream::connect(address).expect("connects");
        stream.set_nodelay(true).expect("a socket");
        stream.write_all(&PROTOCOL_HEADER).expect("takes the protocol's header");
        let mut client = Self { stream, out: BytesMut::new(), input: BytesMut::new() };
        client.hear();
        let (mechanism, locale) = (short(b"PLAIN"), short(b"en_US"));
        let start = StartOk { mechanism, response: b"\0guest\0guest", locale, ..StartOk::default() };
        client.ask_on(0, &start.into());
        client.push(0, &TuneOk { channel_max: 1, frame_max: FRAME_MAX as u32, heartbeat: 0 }.into());
        client.ask_on(0, &Open { virtual_host: short(b"/"), ..Open::default() }.into());
        client.ask(&ChannelOpen::default().into());
        client
    }

    fn push(&mut self, channel: u16, method: &Method<'_>) {
        frame::encode(&mut self.out, Kind::Method, channel, |out| method.encode(out));
    }

    fn publish(&mut self, key: &str) {
        let publish = Publish { exchange: short(EXCHANGE), routing_key: short(key.as_bytes()), ..Publish::default() };
        self.push(CHANNEL, &publish.into());
        let header = ContentHeader { body_size: BODY.len() as u64, properties: Properties::default() };
        frame::encode(&mut self.out, Kind::Header, CHANNEL, |out| header.encode(out));
        frame::encode(&mut self.out, Kind::Body, CHANNEL, |out| out.extend_from_slice(&BODY));
    }

    fn send(&mut self) {
        self.stream.write_all(&self.out).expect("takes what is said");
        self.out.clear();
    }

    fn ask(&mut self, method: &Method<'_>) -> Heard {
        self.ask_on(CHANNEL, method)
    }

    fn ask_on(&mut self, channel: u16, method: &Method<'_>) -> Heard {
        self.push(channel, method);
        self.send();
        self.hear()
    }

    /// Asks `count` times, with a number of requests under way.
    fn ask_many<T>(&mut self, count: usize, named: impl Fn(usize) -> T, method: impl for<'a> Fn(&'a T) -> Method<'a>) {
        let mut answered = 0;
        for number in 0..count {
            self.push(CHANNEL, &method(&named(number)));
            if number % (IN_FLIGHT / 4) == 0 {
                self.send();
            }
            while number - answered >= IN_FLIGHT {
                self.hear();
                answered += 1;
            }
        }
        self.send();
        for _ in answered..count {
            self.hear();
        }
    }

    /// Messages in the queues that bindings lead to.
    fn ready(&mut self) -> u64 {
        let ready = |number| match self.ask(&declare(&name("model-bound", number)).into()) {
            Heard::Answer { ready } => ready,
            Heard::Confirmed(_) => 0,
        };
        (0..BOUND_QUEUES).map(ready).sum()
    }

    fn await_confirm(&mut self) -> usize {
        loop {
            if let Heard::Confirmed(tag) = self.hear() {
                return tag as usize;
            }
        }
    }

    fn hear(&mut self) -> Heard {
        loop {
            let frame = frame::decode(&self.input, FRAME_MAX).expect("frames");
            let Some(frame) = frame else {
                self.read();
                continue;
            };
            let (size, is_method) = (frame.size(), frame.kind == Kind::Method);
            let heard = is_method.then(|| match Method::decode(frame.payload).expect("a method") {
                Method::ConnectionClose(close) => panic!("refused: {close:?}"),
                Method::ChannelClose(close) => panic!("refused: {close:?}"),
                Method::Nack(nack) => panic!("refused: {nack:?}"),
                Method::Ack(ack) => Heard::Confirmed(ack.delivery_tag),
                Method::QueueDeclareOk(found) => Heard::Answer { ready: found.message_count.into() },
                _ => Heard::Answer { ready: 0 },
            });
            self.input.advance(size);
            if let Some(heard) = heard {
                return heard;
            }
        }
    }

    fn read(&mut self) {
        let mut chunk = [0; 64 * 1024];
        let size = self.stream.read(&mut chunk).expect("answers");
        assert!(size > 0, "the broker closed the connection");
        self.input.extend_from_slice(&chunk[..size]);
    }
}
