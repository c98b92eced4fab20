//! One connection of a client: real frames to a real session, and back. Every second pair of them speaks TLS.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use base::Now;
use base::session::{Job, Session as _};
use broker::Mailbox;
use bytes::BytesMut;
use dialect::rocketmq::RocketSession;
use storage::disk::without_waiting;
use testkit::session_options;
use tls::TlsSession;
use wire::rocketmq::frame::{Command, Form, frame_len};

use crate::counting::Counting;
use crate::node::Node;
use crate::request::Asked;
use crate::secured::{ClientEnd, SimPort};

/// Letters of a remark that are told.
const REMARK_SHOWN: usize = 60;

/// What came, copied out of its frame: an answer, or a request of the broker's own.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: i32,
    pub(crate) opaque: i32,
    pub(crate) is_response: bool,
    pub(crate) remark: String,
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A field that is a number; `None` if it is not there or none.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.fields.get(name)?.parse().ok()
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} code {}", self.opaque, self.code)?;
        for (name, value) in self.fields.iter().filter(|(name, _)| !matches!(&***name, "MSG_REGION" | "TRACE_ON")) {
            write!(f, " {name}={value}")?;
        }
        if !self.body.is_empty() {
            write!(f, " body of {} bytes", self.body.len())?;
        }
        if !self.remark.is_empty() && self.remark != "FOUND" {
            let shown: String = self.remark.chars().take(REMARK_SHOWN).collect();
            write!(f, " ({shown})")?;
        }
        Ok(())
    }
}

/// Notes that the session wants to be woken.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection to the node.
pub(crate) struct Connection {
    session: TlsSession<Counting<RocketSession>>,
    client: ClientEnd,
    woken: Arc<Woken>,
    form: Form,
    /// What the client has sent and the session has not taken.
    sent: VecDeque<(i32, usize)>,
    /// Bytes on their way to the node.
    in_flight: BytesMut,
    /// Bytes that the session was offered and has not taken.
    input: BytesMut,
    /// Whether something is left that the session did not want yet.
    is_held: bool,
    /// What came of answers, as far as it is no whole frame.
    answers: Vec<u8>,
    /// What was asked and not answered, by opaque number; requests that nobody answers go when they are taken.
    pub(crate) asked: BTreeMap<i32, Asked>,
    next_opaque: i32,
    /// Its client takes nothing for now.
    pub(crate) is_stalled: bool,
    /// Why the session closed it.
    pub(crate) closed: Option<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({} asked)", self.asked.len())
    }
}

impl Connection {
    /// Opens a connection, and sees a handshake through. What a handshake meets on its way, the tests of TLS say.
    pub(crate) fn open(node: &Node, number: usize, now: Now) -> Result<Self, String> {
        let woken = Arc::new(Woken::default());
        let mailbox = Mailbox::new(Waker::from(woken.clone()));
        let remote = SocketAddr::from(([10, 0, 0, number as u8], 5000));
        let session = RocketSession::new(node.broker.clone(), mailbox, Arc::new(session_options()), remote);
        let mut session = TlsSession::undecided(Counting::new(session), Arc::new(SimPort), now.monotonic);
        session.share(node.budget.clone());
        let mut opened = Self {
            session,
            client: if number % 4 < 2 { ClientEnd::Plain } else { ClientEnd::secured()? },
            woken,
            form: if number.is_multiple_of(2) { Form::Json } else { Form::Binary },
            sent: VecDeque::new(),
            in_flight: BytesMut::new(),
            input: BytesMut::new(),
            is_held: false,
            answers: Vec::new(),
            asked: BTreeMap::new(),
            next_opaque: 0,
            is_stalled: false,
            closed: None,
        };
        opened.say(&[])?;
        while opened.has_in_flight() {
            opened.deliver(usize::MAX, now);
            opened.hear()?;
        }
        if opened.client.is_handshaking() { Err("a handshake that does not end".to_owned()) } else { Ok(opened) }
    }

    /// The client says something, after what its TLS has to say.
    fn say(&mut self, plaintext: &[u8]) -> Result<(), String> {
        self.in_flight.extend_from_slice(&self.client.encrypt(plaintext)?);
        Ok(())
    }

    /// What the session has said since reaches the client.
    fn hear(&mut self) -> Result<(), String> {
        loop {
            let bytes = self.session.output().take_all();
            if bytes.is_empty() {
                return self.say(&[]);
            }
            self.answers.extend(self.client.decrypt(bytes)?);
        }
    }

    /// The client sends a request, which is on its way then. Gives its number.
    pub(crate) fn ask(&mut self, asked: Asked, now: Now) -> i32 {
        self.next_opaque += 1;
        let frame = asked.frame(self.next_opaque, self.form, now.wall);
        self.sent.push_back((self.next_opaque, frame.len()));
        if let Err(problem) = self.say(&frame) {
            self.closed = Some(problem);
        }
        self.asked.insert(self.next_opaque, asked);
        self.next_opaque
    }

    /// Up to `size` bytes arrive. Gives the numbers of the requests that the session took.
    pub(crate) fn deliver(&mut self, size: usize, now: Now) -> Vec<i32> {
        let arrived = self.in_flight.split_to(size.min(self.in_flight.len()));
        self.input.extend_from_slice(&arrived);
        if !self.session.wants_input() {
            self.is_held = true;
            return Vec::new();
        }
        if let Err(reason) = without_waiting(|| self.session.receive(&mut self.input, now)) {
            self.closed = Some(reason.0);
        }
        let is_left = !self.input.is_empty() || self.session.holds_input();
        self.is_held = is_left && (self.session.has_paused() || !self.session.wants_input());
        let mut taken = self.session.inner_mut().take_count();
        let mut numbers = Vec::new();
        while let Some((number, size)) = self.sent.pop_front_if(|(_, size)| *size <= taken) {
            taken -= size;
            numbers.push(number);
        }
        numbers
    }

    /// Whether something is on its way to the node.
    pub(crate) fn has_on_its_way(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether something is on its way to the session.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.has_on_its_way() || self.is_held && self.session.wants_input()
    }

    /// Wakes the session if it was asked to, or if its deadline has come.
    pub(crate) fn wake(&mut self, now: Now) -> bool {
        let is_due = self.session.deadline().is_some_and(|deadline| deadline <= now.monotonic);
        let is_woken = self.woken.0.swap(false, Ordering::Relaxed);
        if is_due || is_woken {
            without_waiting(|| self.session.wake(now));
        }
        is_due || is_woken
    }

    /// Jobs the session wants done.
    pub(crate) fn take_jobs(&mut self) -> Vec<Job> {
        std::iter::from_fn(|| self.session.take_job()).collect()
    }

    /// What the session has said since; nothing while the client takes nothing.
    pub(crate) fn take_replies(&mut self) -> Result<Vec<Reply>, String> {
        if self.is_stalled {
            return Ok(Vec::new());
        }
        self.hear()?;
        if let Some(reason) = self.session.close_reason() {
            self.closed = Some(reason.0);
        }
        let bytes = std::mem::take(&mut self.answers);
        let mut rest = &bytes[..];
        let mut replies = Vec::new();
        while let Some(length) = frame_len(rest).map_err(|error| error.to_string())? {
            let (whole, after) = rest.split_at(length);
            let command = Command::decode(whole).map_err(|error| error.to_string())?;
            replies.push(Reply {
                code: command.header.code,
                opaque: command.header.opaque,
                is_response: command.header.is_response(),
                remark: command.header.remark.as_deref().unwrap_or_default().to_owned(),
                fields: command.fields.pairs().map_err(|error| error.to_string())?.into_iter().collect(),
                body: command.body.to_vec(),
            });
            rest = after;
        }
        if rest.is_empty() { Ok(replies) } else { Err(format!("{} bytes that are no whole frame", rest.len())) }
    }

    /// Bytes the session holds for its client.
    pub(crate) fn held_size(&self) -> usize {
        self.session.held_size()
    }

    /// Whether the session has something to do for its client that needs no more time.
    pub(crate) fn is_busy(&self) -> bool {
        self.session.is_busy()
    }

    /// The connection breaks. Gives what is still to be done for it.
    pub(crate) fn close(mut self, now: Now) -> Vec<Job> {
        without_waiting(|| self.session.closed(now));
        self.take_jobs()
    }
}
