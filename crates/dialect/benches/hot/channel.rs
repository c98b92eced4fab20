//! What messages of AMQP cost from the frames that bring them to the frames in which they leave: one pass of [`COUNT`] messages each.

use std::sync::Arc;
use std::task::Waker;

use base::session::Session;
use broker::{Broker, Mailbox};
use bytes::BytesMut;
use dialect::amqp::{AmqpOptions, AmqpSession, model_options};
use gungraun::{library_benchmark, library_benchmark_group};
use tempfile::TempDir;
use testkit::{ManualHost, broker_options};
use wire::amqp::argument::ShortString;
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Ack, ConfirmSelect, Consume, Publish, Qos};
use wire::amqp::method::connection::{ChannelOpen, Open, StartOk, TuneOk};
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::Table;

use super::{NOW, RECENT_SIZE, layout};

const QUEUE: &str = "bench";

/// Messages of a pass.
const COUNT: usize = 64;

/// Passes before the one that counts.
const WARM: usize = 8;

/// A message of the smallest kind.
const LITTLE: [u8; 16] = [0x5a; 16];

/// A message as most are.
const USUAL: [u8; 1024] = [0x5a; 1024];

fn short(text: &str) -> ShortString<'_> {
    ShortString::cut(text.as_bytes())
}

fn put<'m>(out: &mut BytesMut, channel: u16, method: impl Into<Method<'m>>) {
    let method = method.into();
    frame::encode(out, Kind::Method, channel, |out| method.encode(out));
}

/// A pass of messages as a producer sends them.
fn messages(body: &[u8], properties: Properties<'_>) -> BytesMut {
    let mut out = BytesMut::with_capacity(COUNT * (body.len() + 128));
    for _ in 0..COUNT {
        put(&mut out, 1, Publish { routing_key: short(QUEUE), ..Publish::default() });
        frame::encode(&mut out, Kind::Header, 1, |out| {
            ContentHeader { body_size: body.len() as u64, properties }.encode(out);
        });
        frame::encode(&mut out, Kind::Body, 1, |out| out.extend_from_slice(body));
    }
    out
}

fn persistent() -> Properties<'static> {
    Properties { delivery_mode: Some(PERSISTENT), ..Properties::default() }
}

/// A connection to a broker, and what comes on it next.
struct Connection {
    session: AmqpSession,
    broker: Arc<Broker>,
    _host: Arc<ManualHost>,
    next: BytesMut,
    _directory: TempDir,
}

impl Connection {
    /// One with channel 1 and a durable queue.
    fn open() -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let host = Arc::new(ManualHost::default());
        let options = broker::Options { model: model_options(), ..broker_options() };
        let store = layout(directory.path(), RECENT_SIZE);
        let broker = Arc::new(testkit::open_broker(options, store, host.clone(), NOW).expect("the broker opens"));
        host.serve(&broker);
        let mailbox = Mailbox::new(Waker::noop().clone());
        let remote = std::net::SocketAddr::from(([127, 0, 0, 1], 5000));
        let session = AmqpSession::new(broker.clone(), mailbox, Arc::new(AmqpOptions::default()), remote);
        let mut connection = Self { session, broker, _host: host, next: BytesMut::new(), _directory: directory };
        connection.give(BytesMut::from(&PROTOCOL_HEADER[..]));
        let response = b"\0guest\0guest";
        let client_properties = Table::default();
        connection.tell(0, StartOk { client_properties, mechanism: short("PLAIN"), response, locale: short("en_US") });
        connection.tell(0, TuneOk { channel_max: 0, frame_max: 131_072, heartbeat: 0 });
        connection.tell(0, Open { virtual_host: short("/"), ..Open::default() });
        connection.tell(1, ChannelOpen::default());
        connection.tell(1, QueueDeclare { queue: short(QUEUE), durable: true, ..QueueDeclare::default() });
        connection
    }

    fn tell<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let mut bytes = BytesMut::new();
        put(&mut bytes, channel, method);
        self.give(bytes);
        self.session.output().take_all();
    }

    fn give(&mut self, mut bytes: BytesMut) {
        self.session.receive(&mut bytes, NOW).expect("frames");
        assert!(bytes.is_empty());
        while let Some(job) = self.session.take_job() {
            job();
            self.session.wake(NOW);
        }
    }

    /// Takes what is next; gives how much came back.
    fn go(&mut self) -> usize {
        let mut next = std::mem::take(&mut self.next);
        self.session.receive(&mut next, NOW).expect("frames");
        self.session.wake(NOW);
        self.session.output().size()
    }
}

/// A producer that has sent as much before.
fn producing(body: &[u8], properties: Properties<'_>, confirms: bool) -> Connection {
    let mut connection = Connection::open();
    if confirms {
        connection.tell(1, ConfirmSelect::default());
    }
    for _ in 0..=WARM {
        connection.go();
        connection.session.output().take_all();
        connection.broker.store().write_staged().expect("written");
        connection.next = messages(body, properties);
    }
    connection
}

/// A consumer who publishes to itself: what came before was delivered.
fn consuming(body: &[u8], no_ack: bool) -> Connection {
    let mut connection = producing(body, Properties::default(), false);
    connection.tell(1, Qos { prefetch_count: 2 * COUNT as u16, ..Qos::default() });
    connection.tell(1, Consume { queue: short(QUEUE), no_ack, ..Consume::default() });
    for _ in 0..=WARM {
        connection.go();
        while connection.session.deadline().is_some_and(|deadline| deadline <= NOW.monotonic) {
            connection.session.wake(NOW);
        }
        connection.session.output().take_all();
        connection.broker.store().write_staged().expect("written");
        if !no_ack {
            put(&mut connection.next, 1, Ack { delivery_tag: 0, multiple: true });
        }
        connection.next.unsplit(messages(body, Properties::default()));
    }
    connection
}

#[library_benchmark]
#[bench::of_64_of_16_bytes(producing(&LITTLE, Properties::default(), false))]
#[bench::of_64_of_1_kb(producing(&USUAL, Properties::default(), false))]
fn amqp_published(mut connection: Connection) -> Connection {
    assert_eq!(connection.go(), 0);
    connection
}

#[library_benchmark]
#[bench::of_64_of_1_kb(producing(&USUAL, persistent(), true))]
fn amqp_confirmed(mut connection: Connection) -> Connection {
    assert!(connection.go() > 0);
    connection
}

#[library_benchmark]
#[bench::of_64_of_16_bytes(consuming(&LITTLE, true))]
#[bench::of_64_of_1_kb(consuming(&USUAL, true))]
fn amqp_passed_on(mut connection: Connection) -> Connection {
    assert!(connection.go() > COUNT * LITTLE.len());
    connection
}

#[library_benchmark]
#[bench::of_64_of_1_kb(consuming(&USUAL, false))]
fn amqp_acknowledged(mut connection: Connection) -> Connection {
    assert!(connection.go() > COUNT * USUAL.len());
    connection
}

library_benchmark_group!(
    name = messages_of_amqp,
    benchmarks = [amqp_published, amqp_confirmed, amqp_passed_on, amqp_acknowledged]
);
