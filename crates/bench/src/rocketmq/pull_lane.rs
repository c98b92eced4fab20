//! One connection of a consumer with the queues it reads: one pull in flight on each queue at most, since the next one
//! begins where the last one ended.

use std::sync::Arc;

use bytes::BytesMut;
use client::link::Link;
use client::rocketmq::control::CLIENT_VERSION;
use client::rocketmq::control::next_frame;
use format::record::Record;
use wire::rocketmq::code::request::PULL_MESSAGE;
use wire::rocketmq::code::response::{PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS, name};
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::{Command, Form, Header, Language, encode};
use wire::rocketmq::header::{PullRequest, PullResponse, pull_flag};

use crate::load::options::ConsumeOptions;
use crate::machine::clock::SECOND_NS;
use crate::rocketmq::window::OPAQUE_BASE;

/// Before a queue is asked again that was empty and whose pull the broker did not hold.
const EMPTY_REST_NS: u64 = SECOND_NS / 1000;
/// Before a queue is asked again whose pull was refused.
const REFUSED_REST_NS: u64 = SECOND_NS / 20;
/// Refusals in a row after which a queue is given up.
const REFUSALS_MAX: u32 = 100;
const QUEUE_BITS: u32 = 16;

/// Where a group stands in one queue.
#[derive(Debug)]
pub struct QueueCursor {
    /// The group.
    pub group: Arc<str>,
    /// Topic of the queue.
    pub topic: Arc<str>,
    /// Number of the queue.
    pub queue: u32,
    /// Offset the next pull begins at: everything before it was consumed.
    pub next_offset: i64,
    state: QueueState,
    generation: u32,
    refusals_in_row: u32,
}

/// Address of a broker, and how far its queues were read over one connection.
pub type BrokerCursors = (String, Vec<QueueCursor>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    /// May be pulled from the given moment on.
    Ready(u64),
    /// Its pull is in flight under this opaque.
    Waiting(u32),
    /// Read to its end, or given up.
    Done,
}

/// What every pull of a run has in common.
#[derive(Clone, Copy, Debug)]
pub struct PullTerms<'a> {
    /// The run.
    pub options: &'a ConsumeOptions,
    /// Whether brokers may hold a pull that finds nothing.
    pub suspend: bool,
}

/// Who is told what came out of a pull.
pub trait PullObserver {
    /// A message that had offset `expected` at least.
    fn message(&mut self, record: &Record<'_>, expected: i64);
    /// A pull that brought messages (or none).
    fn pulled(&mut self, found: bool);
    /// A pull that was refused.
    fn refused(&mut self, code: i32, frame: &[u8]);
    /// The broker moved the cursor.
    fn moved(&mut self);
    /// A queue is given up.
    fn given_up(&mut self, cursor: &QueueCursor, reason: &str);
}

/// A connection and its queues.
#[derive(Debug)]
pub struct PullLane {
    /// The connection.
    pub link: Link,
    form: Form,
    cursors: Vec<QueueCursor>,
    in_flight: usize,
    turn: usize,
    scratch: BytesMut,
}

impl QueueCursor {
    /// A cursor that begins at `next_offset`.
    pub const fn new(group: Arc<str>, topic: Arc<str>, queue: u32, next_offset: i64) -> Self {
        Self { group, topic, queue, next_offset, state: QueueState::Ready(0), generation: 0, refusals_in_row: 0 }
    }
}

impl PullLane {
    /// A connection that reads `cursors`, at most 65 536.
    pub fn new(link: Link, form: Form, cursors: Vec<QueueCursor>) -> Self {
        Self { link, form, cursors, in_flight: 0, turn: 0, scratch: BytesMut::new() }
    }

    /// Its queues.
    pub fn cursors(&self) -> &[QueueCursor] {
        &self.cursors
    }

    /// Closes the connection; what is left is the broker's address, and how far its queues were read.
    pub fn into_cursors(self) -> BrokerCursors {
        (self.link.address().to_owned(), self.cursors)
    }

    /// Pulls in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether there is nothing more to pull.
    pub fn is_done(&self) -> bool {
        !self.link.is_open() || self.cursors.iter().all(|cursor| cursor.state == QueueState::Done)
    }

    /// Sends pulls for queues that are ready; returns when the next one will be, if one is resting.
    pub fn issue(&mut self, terms: &PullTerms<'_>, now_ns: u64) -> Option<u64> {
        let limit = if terms.options.pulls == 0 { self.cursors.len() } else { terms.options.pulls };
        let mut next_ready_ns = None;
        let count = self.cursors.len();
        for step in 0..count {
            if self.in_flight >= limit || !self.link.is_open() {
                break;
            }
            let at = (self.turn + step) % count;
            match self.cursors[at].state {
                QueueState::Ready(from_ns) if from_ns <= now_ns => {
                    self.pull(terms, at);
                    self.turn = at + 1;
                }
                QueueState::Ready(from_ns) => {
                    next_ready_ns = Some(next_ready_ns.map_or(from_ns, |next: u64| next.min(from_ns)));
                }
                QueueState::Waiting(_) | QueueState::Done => {}
            }
        }
        self.link.flush();
        next_ready_ns
    }

    fn pull(&mut self, terms: &PullTerms<'_>, at: usize) {
        let options = terms.options;
        let cursor = &mut self.cursors[at];
        let generation_mask = (OPAQUE_BASE >> QUEUE_BITS) - 1;
        cursor.generation = (cursor.generation + 1) & generation_mask;
        let opaque = OPAQUE_BASE | cursor.generation << QUEUE_BITS | at as u32;
        cursor.state = QueueState::Waiting(opaque);
        self.in_flight += 1;
        let mut system_flag = pull_flag::SUBSCRIPTION;
        system_flag |= if terms.suspend { pull_flag::SUSPEND } else { 0 };
        system_flag |= if options.commit && cursor.next_offset > 0 { pull_flag::COMMIT_OFFSET } else { 0 };
        let request = PullRequest {
            consumer_group: (&*cursor.group).into(),
            topic: (&*cursor.topic).into(),
            queue_id: i32::try_from(cursor.queue).unwrap_or(i32::MAX),
            queue_offset: cursor.next_offset,
            max_message_count: i32::try_from(options.batch).unwrap_or(i32::MAX),
            system_flag,
            commit_offset: cursor.next_offset,
            suspend_timeout_ms: i64::try_from(options.suspend_ms).unwrap_or(i64::MAX),
            subscription: Some((&*options.subscription).into()),
            sub_version: 0,
            expression_type: Some("TAG".into()),
            ..PullRequest::default()
        };
        let opaque = opaque as i32;
        let header = Header {
            code: PULL_MESSAGE,
            language: Language::RUST,
            version: CLIENT_VERSION,
            opaque,
            flag: 0,
            remark: None,
        };
        self.scratch.clear();
        encode(&mut self.scratch, self.form, &header, |sink| request.encode(sink), &[]);
        self.link.out().extend_from_slice(&self.scratch);
    }

    /// Takes in every complete reply that was read; stops at the first that cannot be understood.
    pub fn settle(&mut self, terms: &PullTerms<'_>, now_ns: u64, observer: &mut impl PullObserver) {
        let Self { link, cursors, in_flight, .. } = self;
        let mut problem = None;
        while problem.is_none()
            && let Some(frame) = next_frame(link)
        {
            let command = match Command::decode(frame) {
                Ok(command) => command,
                Err(error) => {
                    problem = Some(error.to_string());
                    continue;
                }
            };
            let opaque = command.header.opaque as u32;
            let at = (opaque & ((1 << QUEUE_BITS) - 1)) as usize;
            let cursor = cursors.get_mut(at).filter(|cursor| cursor.state == QueueState::Waiting(opaque));
            if let Some(cursor) = cursor.filter(|_| command.header.is_response()) {
                *in_flight -= 1;
                problem = cursor.take_reply(terms, now_ns, &command, frame, observer).err();
            }
        }
        if let Some(problem) = problem {
            link.fail(format!("a reply cannot be understood: {problem}"));
        }
    }
}

impl QueueCursor {
    fn take_reply(
        &mut self,
        terms: &PullTerms<'_>,
        now_ns: u64,
        command: &Command<'_>,
        frame: &[u8],
        observer: &mut impl PullObserver,
    ) -> Result<(), String> {
        let code = command.header.code;
        if !matches!(code, SUCCESS | PULL_NOT_FOUND | PULL_RETRY_IMMEDIATELY | PULL_OFFSET_MOVED) {
            observer.refused(code, frame);
            self.refusals_in_row += 1;
            self.state = QueueState::Ready(now_ns + REFUSED_REST_NS);
            if self.refusals_in_row >= REFUSALS_MAX {
                self.state = QueueState::Done;
                observer.given_up(self, &format!("{REFUSALS_MAX} refusals in a row, the last {}", name(code)));
            }
            return Ok(());
        }
        self.refusals_in_row = 0;
        let reply = PullResponse::decode(&command.fields).map_err(|error| error.to_string())?;
        observer.pulled(code == SUCCESS);
        let mut rest = if code == SUCCESS { command.body } else { &[] };
        while !rest.is_empty() {
            let record = Record::decode(rest).map_err(|error| error.to_string())?;
            observer.message(&record, self.next_offset);
            self.next_offset = self.next_offset.max(record.queue_offset.0 as i64 + 1);
            rest = rest.get(record.size..).unwrap_or_default();
        }
        if code == PULL_OFFSET_MOVED && reply.next_begin_offset != self.next_offset {
            observer.moved();
        }
        let at_end = code == PULL_NOT_FOUND
            || (code != SUCCESS && reply.next_begin_offset == self.next_offset && reply.max_offset <= self.next_offset);
        self.next_offset = reply.next_begin_offset;
        self.state = match (at_end, terms.options.until_empty) {
            (true, true) => QueueState::Done,
            (true, false) => QueueState::Ready(now_ns + EMPTY_REST_NS),
            (false, _) => QueueState::Ready(now_ns),
        };
        Ok(())
    }
}
