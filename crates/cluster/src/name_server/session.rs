//! One connection to the name server: frames in, answers out.
//!
//! Every request is answered in its turn, in the form it came in and under its number; one-way requests are carried out
//! and never answered. Bytes that are no frame close the connection; a request that cannot be carried out is refused
//! with a remark, and the connection goes on.
//!
//! Answers can be much larger than requests, so no request is taken while more than [`OUTPUT_BACKLOG_SIZE_MAX`] bytes
//! wait to be written.
//!
//! An answer that promises a change to the key-value table is given by a job, once the table is on the disk. So is one to a long
//! body, such as the topics of a large broker, one about many topics, and one to a change that has to wait for another's. Such a
//! request is carried out before the next is taken, and what it registers after the connection is gone is taken out again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use base::budget::{Budget, Held, Room};
use base::cursor::DecodeError;
use base::limits::{FRAME_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX};
use base::session::{CloseReason, Job, Output, Session};
use base::{Monotonic, Now};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use wire::rocketmq::code::response;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command, FLAG_RESPONSE, Form, Header, announced_len, frame_len};

use super::NameServer;
use super::answers::{self, Answer, Rejection};
use super::broker::ConnectionId;
use super::requests::{Row, answer};
use crate::limits::{ANSWER_HEADER_SIZE_MAX, BODY_HERE_SIZE_MAX, TOPICS_HERE_MAX};
use crate::spoken_header;

/// Changes of one connection on their way to the disk; more wait to be read.
const JOBS_MAX: usize = 64;

/// How many times its size a body takes when it is read.
const READ_BODY_GROWTH: usize = 10;

/// One connection to the name server.
pub struct NameServerSession {
    server: Arc<NameServer>,
    connection: ConnectionId,
    output: Output,
    jobs: VecDeque<Job>,
    jobs_running: usize,
    /// Answers of jobs that have ended.
    done: Arc<Mutex<Vec<Done>>>,
    is_closed: Arc<AtomicBool>,
    /// A request is being carried out that what follows may be about: the next is not begun meanwhile.
    is_apart: bool,
    waker: Waker,
    budget: Arc<Budget>,
    idle_timeout_ms: u64,
}

impl NameServerSession {
    pub(super) fn new(server: Arc<NameServer>, connection: ConnectionId, waker: Waker, idle_timeout_ms: u64) -> Self {
        Self {
            idle_timeout_ms,
            server,
            connection,
            output: Output::default(),
            jobs: VecDeque::new(),
            jobs_running: 0,
            done: Arc::default(),
            is_closed: Arc::default(),
            is_apart: false,
            waker,
            budget: Arc::default(),
        }
    }

    fn act(&mut self, frame: &Bytes, now: Now) -> Result<(), CloseReason> {
        let command = &Command::decode(frame).map_err(close)?;
        // The name server's own requests are one-way: an answer to one is nobody's.
        if command.header.is_response() {
            return Ok(());
        }
        if self.server.is_scan_due(now) && !self.server.scan_here(now) {
            let server = self.server.clone();
            self.jobs.push_back(Box::new(move || server.scan(now)));
        }
        let asked = Asked { form: command.form, opaque: command.header.opaque, one_way: command.header.is_one_way() };
        let row = Row::of(command.header.code);
        let changes_registry = row.is_some_and(|row| row.changes_registry);
        let is_much = command.body.len() > BODY_HERE_SIZE_MAX
            || row.is_some_and(|row| row.walks_topics) && self.server.summary().topics > TOPICS_HERE_MAX;
        let server = self.server.clone();
        let changing = if is_much || !changes_registry { None } else { server.try_change() };
        if is_much || changes_registry && changing.is_none() {
            self.answer_apart(frame.clone(), asked, now);
            return Ok(());
        }
        let connection = self.connection;
        let outcome = answer(answers::Asked { server: &server, connection, command, now, changing });
        match outcome.and_then(fit) {
            Ok(answer) if answer.once_kept => self.answer_once_kept(asked),
            outcome => asked.reply(outcome).into_iter().for_each(|piece| self.output.push(piece)),
        }
        Ok(())
    }

    fn answer_once_kept(&mut self, asked: Asked) {
        let server = self.server.clone();
        self.run_job(0, move || asked.reply(once_kept(&server)));
    }

    /// Reads and answers a request away from the network threads, before the next is taken.
    fn answer_apart(&mut self, frame: Bytes, asked: Asked, now: Now) {
        self.is_apart = true;
        let (server, connection, is_closed) = (self.server.clone(), self.connection, self.is_closed.clone());
        self.run_job(frame.len() * READ_BODY_GROWTH, move || {
            let Ok(command) = Command::decode(&frame) else { return [Bytes::new(), Bytes::new()] };
            let asked_for = answers::Asked { server: &server, connection, command: &command, now, changing: None };
            let outcome = match answer(asked_for).and_then(fit) {
                Ok(answer) if answer.once_kept => once_kept(&server),
                outcome => outcome,
            };
            if is_closed.load(Ordering::SeqCst) {
                server.connection_closed(connection);
            }
            asked.reply(outcome)
        });
    }

    /// `size` is about what it takes in memory.
    fn run_job(&mut self, size: usize, work: impl FnOnce() -> [Bytes; 2] + Send + 'static) {
        let (done, waker) = (self.done.clone(), self.waker.clone());
        let held = Held::taken(self.budget.clone(), size);
        self.jobs_running += 1;
        self.jobs.push_back(Box::new(move || {
            let reply = work();
            done.lock().push((reply, held));
            waker.wake();
        }));
    }
}

/// Head and body of an answer, and what they hold of the memory that all connections share.
type Done = ([Bytes; 2], Held);

/// How a request wants to be answered.
#[derive(Clone, Copy)]
struct Asked {
    form: Form,
    opaque: i32,
    one_way: bool,
}

impl Asked {
    /// Head and body of the answer; both are empty if none is wanted.
    fn reply(self, outcome: Result<Answer, Rejection>) -> [Bytes; 2] {
        if self.one_way {
            return [Bytes::new(), Bytes::new()];
        }
        let (code, remark, answer) = match outcome {
            Ok(answer) => (response::SUCCESS, None, answer),
            Err(Rejection { code, remark }) => (code, Some(remark.into()), Answer::default()),
        };
        let header = Header { remark, ..spoken_header(code, self.opaque, FLAG_RESPONSE) };
        let mut head = BytesMut::new();
        let write_fields = |sink: &mut FieldSink<'_>| answer.fields.into_iter().for_each(|write| write(sink));
        frame::encode_head(&mut head, self.form, &header, write_fields, answer.body.len());
        [head.freeze(), answer.body]
    }
}

impl Session for NameServerSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        while self.wants_input()
            && let Some(len) = frame_len(input).map_err(close)?
        {
            let frame = input.split_to(len).freeze();
            self.act(&frame, now)?;
        }
        Ok(())
    }

    fn wake(&mut self, _now: Now) {
        for (reply, _held) in std::mem::take(&mut *self.done.lock()) {
            self.jobs_running -= 1;
            self.is_apart &= self.jobs_running > 0;
            reply.into_iter().for_each(|piece| self.output.push(piece));
        }
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        None
    }

    fn wants_input(&self) -> bool {
        let backlog_max = if self.budget.room() == Room::Plenty { OUTPUT_BACKLOG_SIZE_MAX } else { 0 };
        self.output.size() <= backlog_max && self.jobs_running < JOBS_MAX && !self.is_apart
    }

    fn held_size(&self) -> usize {
        self.output.size()
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        announced_len(input)
    }

    fn share(&mut self, budget: Arc<Budget>) {
        self.budget = budget;
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(self.idle_timeout_ms)
    }

    fn is_busy(&self) -> bool {
        self.jobs_running > 0
    }

    fn take_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn closed(&mut self, _now: Now) {
        // In this order: a job that registers later sees it.
        self.is_closed.store(true, Ordering::SeqCst);
        if !self.server.connection_closed_here(self.connection) {
            let (server, connection) = (self.server.clone(), self.connection);
            self.jobs.push_back(Box::new(move || server.connection_closed(connection)));
        }
    }
}

/// What is said once the key-value table is on the disk.
fn once_kept(server: &NameServer) -> Result<Answer, Rejection> {
    server.keep_key_values().map(|()| Answer::default()).map_err(Rejection::from)
}

fn close(error: DecodeError) -> CloseReason {
    CloseReason(format!("not a RocketMQ frame: {error}"))
}

/// An answer that no peer would read becomes a refusal.
fn fit(answer: Answer) -> Result<Answer, Rejection> {
    let limit = FRAME_SIZE_MAX - ANSWER_HEADER_SIZE_MAX;
    if answer.body.len() <= limit {
        return Ok(answer);
    }
    let remark = format!(
        "the answer would be {} bytes long and no frame holds more than {limit}; ask for one cluster or topic",
        answer.body.len()
    );
    Err(Rejection { code: response::SYSTEM_ERROR, remark })
}
