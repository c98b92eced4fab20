//! What the requests of one connection share: the broker, who asks, the answers, and the work that is done for them elsewhere.

use std::sync::Arc;
use std::time::Duration;

use base::budget::{Budget, Held, Room};
use base::limits::{CONNECTIONS_HELD_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX};
use base::session::{Job, Output};
use base::{Now, Refusal};
use broker::Broker;
use bytes::{Bytes, BytesMut};
use format::record;
use wire::rocketmq::code::response;
use wire::rocketmq::frame;

use super::answer::{Answer, Answered, Asked, note_refusal, response_header};
use super::call::CallOutcome;
use super::context::{Context, Peer};
use super::options::SessionOptions;
use super::pops::PopOutcome;
use super::pull::PullOutcome;
use super::readings::Readings;
use super::send_backs::SendBackOutcome;
use super::turn::Turn;
use crate::jobs::{Begun, Jobs};

/// Requests of one connection being answered away from the network threads.
const JOBS_MAX: usize = 64;

/// About how many bytes these and their answers may take, the last not counted: some requests whose answer may fill a frame.
const JOBS_SIZE_MAX: usize = 64 * 1024 * 1024;

/// All reads are for the connection.
const READER: u64 = 0;

/// What a job has ready.
pub(super) enum Done {
    Reply(Bytes),
    /// Of a long list: what came behind it may be read now.
    ListReply(Bytes),
    Pull(Box<PullOutcome>),
    Call(Box<CallOutcome>),
    SendBack(Box<SendBackOutcome>),
    Pop(Box<PopOutcome>),
    /// Nobody waits for it.
    Nothing,
}

pub(super) struct Connection {
    pub(super) broker: Arc<Broker>,
    pub(super) options: Arc<SessionOptions>,
    pub(super) peer: Peer,
    /// Topics and groups that it reads.
    pub(super) readings: Readings,
    /// When it was last given something to do.
    pub(super) now: Now,
    pub(super) output: Output,
    pub(super) turn: Turn,
    /// Scratch for replies.
    pub(super) scratch: BytesMut,
    /// Number of the broker's last request to the client.
    last_opaque: i32,
    /// What all connections hold.
    pub(super) budget: Arc<Budget>,
    /// Requests that are answered apart.
    jobs: Jobs<Done>,
}

impl Connection {
    pub(super) fn new(broker: Arc<Broker>, options: Arc<SessionOptions>, peer: Peer) -> Self {
        Self {
            broker,
            options,
            peer,
            readings: Readings::default(),
            now: Now::default(),
            output: Output::default(),
            turn: Turn::default(),
            scratch: BytesMut::new(),
            last_opaque: 0,
            budget: Arc::default(),
            jobs: Jobs::default(),
        }
    }

    /// The number of the broker's next request to the client.
    pub(super) const fn next_opaque(&mut self) -> i32 {
        self.last_opaque = self.last_opaque.wrapping_add(1);
        self.last_opaque
    }

    pub(super) fn context(&self) -> Context<'_> {
        Context { broker: &self.broker, options: &self.options, peer: &self.peer, now: self.now }
    }

    /// Begins a turn of answers at `now`.
    pub(super) fn begin_turn(&mut self, now: Now) {
        self.now = now;
        self.turn.begin(self.output.size());
    }

    /// Whether the answers of this turn are to be written before there are more.
    pub(super) fn is_turn_over(&mut self) -> bool {
        self.turn.look(self.output.size())
    }

    pub(super) fn has_room_for_answers(&self) -> bool {
        let jobs_size_max = self.budget.at_most(JOBS_SIZE_MAX);
        self.room_for_output() > 0 && self.jobs.count() < JOBS_MAX && self.jobs.size() < jobs_size_max
    }

    /// Bytes of answers that may be added to those that are not taken.
    fn room_for_output(&self) -> usize {
        self.budget.at_most(OUTPUT_BACKLOG_SIZE_MAX).saturating_sub(self.output.size())
    }

    /// Refuses what may have a large answer while all connections together hold as much as they may.
    pub(super) fn check_room(&self) -> Result<(), Refusal> {
        if self.budget.room() != Room::None {
            return Ok(());
        }
        let held = CONNECTIONS_HELD_SIZE_MAX >> 20;
        Err(Refusal::Busy(format!(
            "connections hold {held} MiB of unfinished requests and of answers that are not taken; try again later"
        )))
    }

    pub(super) fn reply_with(&mut self, asked: Asked, answered: Answered) {
        match answered {
            Ok(answer) => self.reply(asked, &answer),
            Err(refusal) => self.refuse(asked, &refusal),
        }
    }

    /// Notes how long ago what a waiting consumer gets was stored.
    pub(super) fn note_delivery(&self, pieces: &[Bytes], count: usize) {
        if let Some(stored) = pieces.first().and_then(|piece| record::store_timestamp_of(piece)) {
            let took = Duration::from_millis(self.now.wall.ms_since(stored));
            self.broker.timings().delivery.record(took, count as u64);
        }
    }

    /// Says of many requests that they are done, in one piece.
    pub(super) fn confirm(&mut self, done: &[Asked]) {
        for asked in done.iter().filter(|asked| !asked.one_way) {
            let header = response_header(asked.opaque, response::SUCCESS, None);
            frame::encode(&mut self.scratch, asked.form, &header, |_| {}, &[]);
        }
        if !self.scratch.is_empty() {
            self.output.push(self.scratch.split().freeze());
        }
    }

    pub(super) fn refuse(&mut self, asked: Asked, refusal: &Refusal) {
        self.reply(asked, &Answer::refused(refusal));
    }

    fn reply(&mut self, asked: Asked, answer: &Answer) {
        note_refusal(&self.broker, self.peer.address, asked, answer, self.now);
        if !asked.one_way {
            self.output.push(answer.encode(asked));
        }
    }

    /// Queues work that may take `size` bytes; what it has ready comes with a ring of the mailbox.
    pub(super) fn run_job(&mut self, size: usize, work: impl FnOnce() -> Done + Send + 'static) {
        self.jobs.run(size, &self.budget, &self.peer.mailbox, work);
    }

    /// Queues work that reads up to `size` bytes of messages.
    pub(super) fn run_read(&mut self, size: usize, work: impl FnOnce() -> Done + Send + 'static) {
        self.jobs.read((READER, size), &self.budget, &self.peer.mailbox, |begun| match begun {
            Begun::Yes => work(),
            Begun::No => Done::Nothing,
        });
    }

    /// Nobody waits for what was not begun to be read.
    pub(super) fn end_reads(&mut self) {
        drop(self.jobs.end_reads(|_| true));
    }

    pub(super) fn take_job(&mut self) -> Option<Job> {
        self.jobs.take(self.room_for_output())
    }

    /// Whether there is room by now for a read that waited for that.
    pub(super) fn may_begin_read(&self) -> bool {
        self.jobs.may_begin_read(self.room_for_output())
    }

    pub(super) const fn has_jobs(&self) -> bool {
        self.jobs.count() > 0
    }

    /// What jobs have got ready, each with what it holds until it is put to use.
    pub(super) fn take_done(&mut self) -> Vec<(Held, Done)> {
        self.jobs.take_done()
    }
}
