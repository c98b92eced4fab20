//! One connection of a RocketMQ client: takes frames apart, hands each to its handler, and lets replies go when they may.
//!
//! A *pass* goes over the bytes that came once: its sends are appended together, their replies leave together once
//! the watermark they wait for has passed. A fetch that found nothing waits for its queue or its deadline. Memory is
//! bounded: input stops, and fetches that could go on stay held, while replies pile up; input also while the log falls behind.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use base::budget::{Budget, Held, Room};
use base::limits::{
    CONNECTIONS_HELD_SIZE_MAX, LIST_BODY_HERE_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX, PUBLISH_BATCH_SIZE_MAX,
};
use base::session::{CloseReason, Job, Output, Session};
use base::{Monotonic, Now, Refusal};
use broker::{Broker, Mailbox, Signal, Topic};
use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use wire::rocketmq::code::request;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command, FLAG_ONE_WAY, Form, Header, Language};

use super::answer::{Answer, Answered, Asked, not_supported, note_refusal};
use super::commit::WaitingCommits;
use super::context::{Context, Peer};
use super::fetched::FetchedCells;
use super::handlers::{Handler, list_handler, slow_handler};
use super::job_size::job_size;
use super::options::SessionOptions;
use super::pull::{PullOutcome, WaitingPull};
use super::send::{SendPass, WaitingSends};
use super::version::VERSION;
use super::{consumer, offset};

/// Requests of one connection being answered away from the network threads.
const JOBS_MAX: usize = 64;

/// About how many bytes these and their answers may take, the last not counted: some requests whose answer may fill a frame.
const JOBS_SIZE_MAX: usize = 64 * 1024 * 1024;

/// Bytes of replies, and of jobs, a connection may have waiting while connections together hold much.
const LITTLE_SIZE_MAX: usize = 64 * 1024;

/// What a job has ready.
pub(super) enum Done {
    Reply(Bytes),
    /// Of a long list: what came behind it may be read now.
    ListReply(Bytes),
    Pull(Box<PullOutcome>),
}

/// One connection.
pub struct RocketSession {
    pub(super) broker: Arc<Broker>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) options: Arc<SessionOptions>,
    pub(super) remote: SocketAddr,
    peer: Peer,
    pub(super) output: Output,
    /// Sends whose watermark has not passed yet, in the order of the log.
    pub(super) waiting_sends: VecDeque<WaitingSends>,
    /// Commits whose answers wait for the log, in its order.
    pub(super) waiting_commits: VecDeque<WaitingCommits>,
    /// Pulls that wait for messages, by number.
    pub(super) waiting_pulls: HashMap<u64, WaitingPull>,
    /// When waiting pulls have to be answered.
    pub(super) pull_deadlines: BTreeSet<(Monotonic, u64)>,
    pub(super) next_pull: u64,
    pub(super) fetched: FetchedCells,
    /// Bytes that waiting pulls take.
    pub(super) waiting_size: usize,
    /// Waiting pulls whose queue has grown or whose time is over, by number: each goes on once there is room for its answer.
    pub(super) ready_pulls: VecDeque<u64>,
    jobs: VecDeque<Job>,
    jobs_running: usize,
    /// About what the requests being answered apart, and their answers, may take.
    jobs_size: usize,
    /// A long list is being read. What it does and what comes behind it may be about the same: nothing is read before it is done.
    is_list_running: bool,
    budget: Arc<Budget>,
    /// What jobs have ready, each with the bytes it was counted as, here and for all connections.
    done: Arc<Mutex<Vec<(usize, Held, Done)>>>,
    /// The topic last sent to, and the catalog's generation it is of.
    pub(super) last_topic: Option<(u64, Arc<Topic>)>,
    /// Room for the ids of the next pass's messages.
    pub(super) spare_unique_keys: Vec<u8>,
    next_opaque: i32,
    /// When it was last given something to do.
    now: Now,
    /// Form of the client's last request: what the broker's own requests are sent in.
    form: Form,
    /// Scratch for replies.
    pub(super) scratch: BytesMut,
}

impl RocketSession {
    /// A session for a connection from `remote`.
    pub fn new(broker: Arc<Broker>, mailbox: Arc<Mailbox>, options: Arc<SessionOptions>, remote: SocketAddr) -> Self {
        let peer = Peer { mailbox: mailbox.clone(), address: remote };
        Self {
            broker,
            mailbox,
            peer,
            options,
            remote,
            output: Output::default(),
            waiting_sends: VecDeque::new(),
            waiting_commits: VecDeque::new(),
            waiting_pulls: HashMap::new(),
            pull_deadlines: BTreeSet::new(),
            next_pull: 0,
            fetched: FetchedCells::default(),
            waiting_size: 0,
            ready_pulls: VecDeque::new(),
            jobs: VecDeque::new(),
            jobs_running: 0,
            jobs_size: 0,
            is_list_running: false,
            budget: Arc::default(),
            done: Arc::default(),
            last_topic: None,
            spare_unique_keys: Vec::new(),
            next_opaque: 0,
            now: Now::default(),
            form: Form::Json,
            scratch: BytesMut::new(),
        }
    }

    fn handle(&mut self, frame_bytes: &[u8], pass: &mut SendPass, now: Now) -> Result<(), CloseReason> {
        let command = Command::decode(frame_bytes).map_err(|error| CloseReason(error.to_string()))?;
        if command.header.is_response() {
            return Ok(());
        }
        self.form = command.form;
        let asked = Asked::of(&command);
        let answered = match command.header.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                return self.send(&command, asked, pass, now);
            }
            request::PULL_MESSAGE | request::LITE_PULL_MESSAGE => return self.pull(&command, asked, now),
            request::UNREGISTER_CLIENT => consumer::unregister(&self.context(now), &command),
            request::GET_CONSUMER_LIST_BY_GROUP => consumer::list_members(&self.broker, &command),
            request::UPDATE_CONSUMER_OFFSET => {
                self.commit(&command, asked, pass);
                return Ok(());
            }
            request::GET_MAX_OFFSET => offset::max(&self.broker, &command),
            request::GET_MIN_OFFSET => offset::min(&self.broker, &command),
            code => {
                let is_long = command.body.len() > LIST_BODY_HERE_SIZE_MAX;
                match (list_handler(code), slow_handler(code)) {
                    (Some(handler), _) if !is_long => handler(&self.context(now), &command),
                    (Some(handler), _) => {
                        self.is_list_running = self.run_apart(handler, Done::ListReply, frame_bytes, asked, now);
                        return Ok(());
                    }
                    (None, Some(handler)) => {
                        self.run_apart(handler, Done::Reply, frame_bytes, asked, now);
                        return Ok(());
                    }
                    (None, None) => Ok(not_supported(code)),
                }
            }
        };
        self.reply_with(asked, answered);
        Ok(())
    }

    pub(super) fn has_room_for_answers(&self) -> bool {
        let (output_max, jobs_size_max) = match self.budget.room() {
            Room::Plenty => (OUTPUT_BACKLOG_SIZE_MAX, JOBS_SIZE_MAX),
            Room::Little | Room::None => (LITTLE_SIZE_MAX, LITTLE_SIZE_MAX),
        };
        self.output.size() < output_max && self.jobs_running < JOBS_MAX && self.jobs_size < jobs_size_max
    }

    fn may_read(&self) -> bool {
        self.has_room_for_answers() && !self.is_list_running
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

    fn context(&self, now: Now) -> Context<'_> {
        Context { broker: &self.broker, options: &self.options, peer: &self.peer, now }
    }

    /// Has a request answered away from the network threads; `false` if it was refused on the spot.
    fn run_apart(
        &mut self,
        handler: Handler,
        done: fn(Bytes) -> Done,
        frame_bytes: &[u8],
        asked: Asked,
        now: Now,
    ) -> bool {
        if let Err(refusal) = self.check_room() {
            self.refuse(asked, &refusal);
            return false;
        }
        let size = job_size(asked.code, frame_bytes.len());
        let frame_bytes = Bytes::copy_from_slice(frame_bytes);
        let (broker, options, peer) = (self.broker.clone(), self.options.clone(), self.peer.clone());
        self.run_job(size, move || {
            let answered = match Command::decode(&frame_bytes) {
                Ok(command) => handler(&Context { broker: &broker, options: &options, peer: &peer, now }, &command),
                Err(error) => Err(Refusal::Internal(error.to_string())),
            };
            let answer = answered.unwrap_or_else(|refusal| Answer::refused(&refusal));
            note_refusal(&broker, peer.address, asked, &answer, now);
            let reply = if asked.one_way { Bytes::new() } else { answer.encode(asked) };
            done(reply)
        });
        true
    }

    /// Queues work that may take `size` bytes, and whose result comes back through `wake`.
    pub(super) fn run_job(&mut self, size: usize, work: impl FnOnce() -> Done + Send + 'static) {
        let (done, mailbox) = (self.done.clone(), self.mailbox.clone());
        self.jobs_running += 1;
        self.jobs_size += size;
        let held = Held::taken(self.budget.clone(), size);
        self.jobs.push_back(Box::new(move || {
            let result = work();
            done.lock().push((size, held, result));
            mailbox.ring();
        }));
    }

    pub(super) fn reply_with(&mut self, asked: Asked, answered: Answered) {
        match answered {
            Ok(answer) => self.reply(asked, &answer),
            Err(refusal) => self.refuse(asked, &refusal),
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

    /// Sends the client a request of the broker's own that it does not answer.
    fn notify(&mut self, code: i32, fields: impl FnOnce(&mut FieldSink<'_>)) {
        self.next_opaque = self.next_opaque.wrapping_add(1);
        let header = Header {
            code,
            language: Language::JAVA,
            version: VERSION,
            opaque: self.next_opaque,
            flag: FLAG_ONE_WAY,
            remark: None,
        };
        let mut out = BytesMut::new();
        frame::encode(&mut out, self.form, &header, fields, &[]);
        self.output.push(out.freeze());
    }

    fn take_signals(&mut self) {
        for signal in self.mailbox.take() {
            match signal {
                // Who takes no answers gets no more of these: members look for themselves now and then.
                Signal::GroupChanged(group)
                    if self.options.notify_changes && self.output.size() < OUTPUT_BACKLOG_SIZE_MAX =>
                {
                    self.notify(request::NOTIFY_CONSUMER_IDS_CHANGED, |sink| {
                        sink.text("consumerGroup", group.as_str())
                    });
                }
                Signal::GroupChanged(_) => {}
                Signal::FetchReady(number) => self.ready_pulls.push_back(number),
            }
        }
    }

    fn take_done(&mut self, now: Now) {
        let done = std::mem::take(&mut *self.done.lock());
        for (size, _held, result) in done {
            self.jobs_running -= 1;
            self.jobs_size -= size;
            match result {
                Done::Reply(bytes) => self.output.push(bytes),
                Done::ListReply(bytes) => {
                    self.is_list_running = false;
                    self.output.push(bytes);
                }
                Done::Pull(outcome) => self.finish_pull(*outcome, now),
            }
        }
    }
}

impl Session for RocketSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        self.now = now;
        let mut pass = SendPass::over(input.len());
        let mut consumed = 0;
        let ended = loop {
            if !self.may_read() {
                break Ok(());
            }
            let rest = input.get(consumed..).unwrap_or_default();
            match frame::frame_len(rest) {
                Ok(Some(length)) => {
                    let frame_bytes = rest.get(..length).unwrap_or_default();
                    if let Err(reason) = self.handle(frame_bytes, &mut pass, now) {
                        break Err(reason);
                    }
                    consumed += length;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(CloseReason(error.to_string())),
            }
            if pass.size() >= PUBLISH_BATCH_SIZE_MAX {
                self.end_pass(&mut pass, now);
            }
        };
        self.end_pass(&mut pass, now);
        input.advance(consumed);
        ended
    }

    fn wake(&mut self, now: Now) {
        self.now = now;
        self.take_done(now);
        self.take_signals();
        self.release_sends(now);
        self.release_commits();
        self.expire_pulls(now);
        self.resume_ready_pulls(now);
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        if !self.ready_pulls.is_empty() && self.has_room_for_answers() {
            return Some(Monotonic(0));
        }
        let pull = self.pull_deadlines.first().map(|(deadline, _)| *deadline);
        let send = self.waiting_sends.front().map(|sends| sends.deadline);
        pull.into_iter().chain(send).min()
    }

    fn wants_input(&self) -> bool {
        self.may_read()
            && (self.waiting_sends.is_empty() && self.waiting_commits.is_empty() || !self.broker.is_behind())
    }

    fn is_busy(&self) -> bool {
        !self.waiting_sends.is_empty()
            || !self.waiting_commits.is_empty()
            || !self.ready_pulls.is_empty()
            || self.jobs_running > 0
    }

    fn held_size(&self) -> usize {
        self.output.size() + self.waiting_size
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        frame::announced_len(input)
    }

    fn share(&mut self, budget: Arc<Budget>) {
        self.budget = budget;
    }

    fn take_job(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn closed(&mut self, _now: Now) {
        self.drop_waiting_pulls();
        self.broker.connection_closed(&self.mailbox);
    }
}
