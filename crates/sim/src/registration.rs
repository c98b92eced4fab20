//! A name server beside the node, and the connection by which the node is registered there: what is on its way moves on step by step.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use base::Now;
use base::session::Session;
use broker::Broker;
use bytes::BytesMut;
use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;
use cluster::name_server::session::NameServerSession;
use cluster::name_server::{KeyValueFile, NameServer};
use cluster::registration::{Identity, RegisterAnswer, Registrant, RegistrationSession, Times};
use format::document::TopicTableDocument;
use tls::TlsSession;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{self, Command, Form, Header, Language};

use crate::host::SimHost;
use crate::node::Node;
use crate::secured::{SimPort, connection};

const TIMES: Times = Times { interval_ms: 30_000, timeout_ms: 3000 };

/// Steps after which bytes arrive, at the most.
const STEPS_ON_THE_WAY: usize = 5;

/// Steps after which name servers know of all topics, if time passes: a handshake, an answer that is waited for, a request and its
/// answer.
pub(crate) const TELLING_STEPS: usize = 7 * STEPS_ON_THE_WAY;

/// The name server, which outlives the node.
pub(crate) struct Registration {
    server: Arc<NameServer>,
    line: Option<Line>,
    /// Connections so far: every second one speaks TLS.
    opened: u64,
}

/// A connection: both ends, and what is on its way to the broker.
struct Line {
    near: TlsSession<RegistrationSession>,
    far: TlsSession<NameServerSession>,
    requests: BytesMut,
    answers: BytesMut,
    steps: usize,
}

/// The broker, as far as name servers know it.
struct Registered {
    broker: Arc<Broker>,
    host: Arc<SimHost>,
}

impl Registrant for Registered {
    fn last_change(&self) -> u64 {
        self.host.topic_changes()
    }

    fn topics(&self) -> TopicTableDocument {
        self.broker.catalog.topic_table()
    }

    fn is_leaving(&self) -> bool {
        false
    }

    fn note_told(&self, _change: u64, _answer: &RegisterAnswer) {}
}

/// The key-value table, of which no story speaks.
struct NoFile;

impl KeyValueFile for NoFile {
    fn replace(&self, _text: &str) -> Result<(), String> {
        Ok(())
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registration")
    }
}

impl Registration {
    pub(crate) fn new(now: Now) -> Self {
        let server = NameServer::new(Options::default(), KeyValues::default(), Box::new(NoFile), now);
        Self { server, line: None, opened: 0 }
    }

    /// The node opens a connection.
    pub(crate) fn open(&mut self, node: &Node, now: Now) -> Result<(), String> {
        let registrant = Arc::new(Registered { broker: node.broker.clone(), host: node.host.clone() });
        let identity = Identity {
            cluster_name: "cluster".to_owned(),
            broker_name: "broker-a".to_owned(),
            address: "10.0.0.1:10911".to_owned(),
            ..Identity::default()
        };
        let near = RegistrationSession::new(registrant, Arc::new(identity), TIMES, Waker::noop().clone());
        self.opened += 1;
        let near = if self.opened.is_multiple_of(2) {
            TlsSession::outbound(near, connection()?, now.monotonic)
        } else {
            TlsSession::plain(near)
        };
        let far = TlsSession::undecided(self.server.session(Waker::noop().clone()), Arc::new(SimPort), now.monotonic);
        self.line = Some(Line { near, far, requests: BytesMut::new(), answers: BytesMut::new(), steps: 0 });
        Ok(())
    }

    /// The connection is gone with the node.
    pub(crate) fn close(&mut self, now: Now) {
        if let Some(mut line) = self.line.take() {
            line.far.closed(now);
            run_jobs(&mut line.far, now);
        }
    }

    /// The node says what it has to say, and now and then what is on its way arrives. An error tells why the connection has to end.
    pub(crate) fn step(&mut self, now: Now) -> Result<(), String> {
        let Some(line) = &mut self.line else { return Ok(()) };
        line.steps += 1;
        if line.steps.is_multiple_of(STEPS_ON_THE_WAY) {
            line.near.receive(&mut line.answers, now).map_err(|reason| reason.0)?;
            line.far.receive(&mut line.requests, now).map_err(|reason| reason.0)?;
            run_jobs(&mut line.far, now);
            line.answers.extend_from_slice(&line.far.output().take_all());
        }
        line.near.wake(now);
        run_jobs(&mut line.near, now);
        if let Some(reason) = line.near.close_reason() {
            return Err(reason.0);
        }
        line.requests.extend_from_slice(&line.near.output().take_all());
        Ok(())
    }

    /// Whether clients that ask the name server find a topic.
    pub(crate) fn finds(&self, topic: &str, now: Now) -> bool {
        let header = Header {
            code: request::GET_ROUTE_BY_TOPIC,
            language: Language::JAVA,
            version: cluster::SPOKEN_VERSION,
            opaque: 1,
            flag: 0,
            remark: None,
        };
        let mut frame = BytesMut::new();
        frame::encode(&mut frame, Form::Json, &header, |sink| sink.text("topic", topic), b"");
        let mut session = self.server.session(Waker::noop().clone());
        let taken = session.receive(&mut frame, now);
        run_jobs(&mut session, now);
        let answer = session.output().take_all();
        taken.is_ok() && Command::decode(&answer).is_ok_and(|command| command.header.code == response::SUCCESS)
    }
}

fn run_jobs(session: &mut impl Session, now: Now) {
    while let Some(job) = session.take_job() {
        job();
        session.wake(now);
    }
}
