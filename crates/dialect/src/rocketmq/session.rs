//! One connection of a RocketMQ client: takes frames apart, hands each to its handler, and lets replies go when they may.
//!
//! A *pass* goes over the bytes that came once: its sends are appended together, their replies leave together once
//! the watermark they wait for has passed. A fetch that found nothing waits for its queue or its deadline. Memory is
//! bounded: input stops, and fetches that could go on stay held, while replies pile up; input also while the log falls behind.

use std::net::SocketAddr;
use std::sync::Arc;

use base::budget::Budget;
use base::limits::{LIST_BODY_HERE_SIZE_MAX, OUTPUT_BACKLOG_SIZE_MAX, PUBLISH_BATCH_SIZE_MAX};
use base::offset::AckPolicy;
use base::session::{CloseReason, Job, Output, Session};
use base::{LogOffset, Monotonic, Now, Refusal};
use broker::{Broker, Mailbox, Signal};
use bytes::{Buf, Bytes, BytesMut};
use wire::rocketmq::code::request;
use wire::rocketmq::field::FieldSink;
use wire::rocketmq::frame::{self, Command, FLAG_ONE_WAY, Form, Header, Language};

use super::acks;
use super::answer::{Answer, Asked, not_supported, note_refusal};
use super::calls::Calls;
use super::commit::Commits;
use super::connection::{Connection, Done};
use super::context::{Context, Peer};
use super::heartbeat::{self, Heartbeats};
use super::held_sends::HeldSends;
use super::offset;
use super::options::SessionOptions;
use super::pops::Pops;
use super::pulls::Pulls;
use super::requests::{Handler, Handling, Row};
use super::send::{SendPass, Sends};
use super::send_backs::SendBacks;
use super::slave::check_is_master;
use super::version::VERSION;

/// One connection.
pub struct RocketSession {
    connection: Connection,
    commits: Commits,
    send_backs: SendBacks,
    sends: Sends,
    /// Those that came while the log is behind.
    held_sends: HeldSends,
    /// Up to where the log has to be written before the session is woken for them.
    watched: LogOffset,
    pulls: Pulls,
    pops: Pops,
    heartbeats: Heartbeats,
    calls: Calls,
    /// A long list is being read. What it does and what comes behind it may be about the same: nothing is read before it is done.
    is_list_running: bool,
    /// Form of the client's last request: what the broker's own requests are sent in.
    form: Form,
}

impl RocketSession {
    /// A session for a connection from `remote`.
    pub fn new(broker: Arc<Broker>, mailbox: Arc<Mailbox>, options: Arc<SessionOptions>, remote: SocketAddr) -> Self {
        Self {
            connection: Connection::new(broker, options, Peer { mailbox, address: remote }),
            commits: Commits::default(),
            sends: Sends::default(),
            held_sends: HeldSends::default(),
            watched: LogOffset(0),
            pulls: Pulls::default(),
            pops: Pops::default(),
            heartbeats: Heartbeats::default(),
            send_backs: SendBacks::default(),
            calls: Calls::default(),
            is_list_running: false,
            form: Form::Json,
        }
    }

    fn handle(&mut self, frame_bytes: &[u8], pass: &mut SendPass) -> Result<(), CloseReason> {
        let command = Command::decode(frame_bytes).map_err(|error| CloseReason(error.to_string()))?;
        if command.header.is_response() {
            self.calls.take_answer(&command, &self.connection);
            return Ok(());
        }
        self.form = command.form;
        let asked = Asked::of(&command);
        let connection = &mut self.connection;
        let Some(row) = Row::of(command.header.code) else {
            connection.reply_with(asked, Ok(not_supported(command.header.code)));
            return Ok(());
        };
        if let Err(refusal) = check_is_master(&connection.broker, row.needs) {
            connection.refuse(asked, &refusal);
            return Ok(());
        }
        match row.handling {
            Handling::Send if pass.is_held => self.held_sends.push(frame_bytes),
            Handling::Send => self.sends.send(&command, asked, pass, connection),
            Handling::Pull => self.pulls.pull(&command, asked, connection),
            Handling::Call => self.calls.call(&command, asked, connection),
            Handling::GiveBack => {
                SendBacks::begin(&command, row.job_size(frame_bytes.len()), asked, connection);
            }
            Handling::Pop => self.pops.pop(&command, asked, connection),
            Handling::Notice => self.pops.notify(&command, asked, connection),
            Handling::Commit => {
                let done = offset::commit(connection, &command).map_err(Answer::from);
                self.commits.take(done, asked, connection);
            }
            Handling::Ack => {
                let done = acks::ack(connection, &command);
                self.commits.take(done, asked, connection);
            }
            Handling::AckBatch => {
                let done = acks::ack_batch(connection, &command);
                self.commits.take(done, asked, connection);
            }
            Handling::ChangeTime => {
                let answer = acks::change(connection, &command).unwrap_or_else(|answer| answer);
                connection.reply_with(asked, Ok(answer));
            }
            Handling::Heartbeat if command.body.len() <= LIST_BODY_HERE_SIZE_MAX => {
                self.heartbeats.heartbeat(&command, asked, connection);
            }
            Handling::Heartbeat => self.run_list(heartbeat::heartbeat, row, frame_bytes, asked),
            Handling::List(handler) if command.body.len() > LIST_BODY_HERE_SIZE_MAX => {
                self.run_list(handler, row, frame_bytes, asked);
            }
            Handling::Here(handler) | Handling::List(handler) => {
                let answered = handler(&connection.context(), &command);
                connection.reply_with(asked, answered);
            }
            Handling::Apart(handler) => {
                let size = row.job_size(frame_bytes.len());
                run_apart(handler, (size, Done::Reply), frame_bytes, asked, connection);
            }
        }
        Ok(())
    }

    /// Has a request with a long list answered; what comes behind it waits.
    fn run_list(&mut self, handler: Handler, row: &Row, frame_bytes: &[u8], asked: Asked) {
        let size = row.job_size(frame_bytes.len());
        self.is_list_running = run_apart(handler, (size, Done::ListReply), frame_bytes, asked, &mut self.connection);
    }

    fn begin_pass(&self, size: usize) -> SendPass {
        SendPass::over(size, self.holds_sends() || !self.held_sends.is_empty())
    }

    /// Puts what the pass has gathered into the log.
    fn end_pass(&mut self, pass: &mut SendPass) {
        self.commits.end_pass(&mut self.connection);
        self.sends.end_pass(pass, &mut self.connection);
    }

    /// Whether sends have to wait: the connection has had its share, and the log is behind.
    fn holds_sends(&self) -> bool {
        !self.sends.is_empty() && self.connection.broker.durability.is_behind()
    }

    /// Has the sends go on that were held; `is_last`: even if the log is still behind.
    fn release_held(&mut self, is_last: bool) {
        while !self.held_sends.is_empty() && (is_last || !self.holds_sends()) {
            let mut pass = SendPass::over(self.held_sends.size(), false);
            while pass.size() < PUBLISH_BATCH_SIZE_MAX
                && let Some(frame_bytes) = self.held_sends.pop()
            {
                if let Ok(command) = Command::decode(&frame_bytes) {
                    self.sends.send(&command, Asked::of(&command), &mut pass, &mut self.connection);
                }
            }
            self.end_pass(&mut pass);
        }
    }

    /// Has the session woken when the log may no longer be behind: what its own sends wait for may be a sync, or a replica.
    fn watch_log(&mut self) {
        let Connection { broker, peer, .. } = &self.connection;
        if self.holds_sends() && broker.durability.is_kept(AckPolicy::WRITTEN, self.watched) {
            self.watched = broker.durability.when_caught_up(&peer.mailbox.waker());
        }
    }

    fn may_read(&self) -> bool {
        self.connection.has_room_for_answers()
            && !self.is_list_running
            && self.commits.has_room()
            && self.send_backs.has_room()
            && (self.held_sends.is_empty() || self.held_sends.has_room(self.connection.budget.room()))
    }

    /// Sends the client a request of the broker's own that it does not answer.
    fn notify(&mut self, code: i32, fields: impl FnOnce(&mut FieldSink<'_>)) {
        let header = Header {
            code,
            language: Language::JAVA,
            version: VERSION,
            opaque: self.connection.next_opaque(),
            flag: FLAG_ONE_WAY,
            remark: None,
        };
        let mut out = BytesMut::new();
        frame::encode(&mut out, self.form, &header, fields, &[]);
        self.connection.output.push(out.freeze());
    }

    fn take_signals(&mut self) {
        for signal in self.connection.peer.mailbox.take() {
            match signal {
                // Who takes no answers gets no more of these: members look for themselves now and then.
                Signal::GroupChanged(group)
                    if self.connection.options.notify_changes
                        && self.connection.output.size() < OUTPUT_BACKLOG_SIZE_MAX =>
                {
                    self.notify(request::NOTIFY_CONSUMER_IDS_CHANGED, |sink| {
                        sink.text("consumerGroup", group.as_str())
                    });
                }
                Signal::GroupChanged(_) | Signal::QueueGone(_) | Signal::Dismissed(_) => {}
                Signal::FetchReady(number) => self.pulls.note_ready(number),
                Signal::LeaseReady(number) => self.pops.note_ready(number),
                Signal::Told(word) => self.calls.hear(&word, self.form, &mut self.connection),
            }
        }
    }

    fn take_done(&mut self) {
        for (_held, done) in self.connection.take_done() {
            match done {
                Done::Reply(bytes) => self.connection.output.push(bytes),
                Done::ListReply(bytes) => {
                    self.is_list_running = false;
                    self.connection.output.push(bytes);
                }
                Done::Pull(outcome) => self.pulls.finish(*outcome, &mut self.connection),
                Done::Pop(outcome) => self.pops.finish(*outcome, &mut self.connection),
                Done::Nothing => {}
                Done::Call(outcome) => self.calls.go_on(*outcome, &mut self.connection),
                Done::SendBack(outcome) => self.send_backs.finish(*outcome, &mut self.connection),
            }
        }
    }
}

impl Session for RocketSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        self.connection.begin_turn(now);
        self.release_held(false);
        let mut pass = self.begin_pass(input.len());
        let mut consumed = 0;
        let ended = loop {
            if !self.may_read() {
                break Ok(());
            }
            let rest = input.get(consumed..).unwrap_or_default();
            match frame::frame_len(rest) {
                Ok(Some(_)) if self.connection.is_turn_over() => break Ok(()),
                Ok(Some(length)) => {
                    let frame_bytes = rest.get(..length).unwrap_or_default();
                    if let Err(reason) = self.handle(frame_bytes, &mut pass) {
                        break Err(reason);
                    }
                    consumed += length;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(CloseReason(error.to_string())),
            }
            if pass.size() >= PUBLISH_BATCH_SIZE_MAX {
                self.end_pass(&mut pass);
                pass = self.begin_pass(input.len() - consumed);
            }
        };
        self.end_pass(&mut pass);
        self.watch_log();
        input.advance(consumed);
        ended
    }

    fn wake(&mut self, now: Now) {
        self.connection.now = now;
        self.take_done();
        self.take_signals();
        self.sends.release(&mut self.connection);
        self.release_held(false);
        self.watch_log();
        self.commits.release(&mut self.connection);
        self.send_backs.release(&mut self.connection);
        self.calls.expire(&mut self.connection);
        self.pulls.expire(now.monotonic);
        self.pulls.resume_ready(&mut self.connection);
        self.pops.expire(now.monotonic);
        self.pops.resume_ready(&mut self.connection);
    }

    fn output(&mut self) -> &mut Output {
        &mut self.connection.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        let has_ready = self.pulls.has_ready() || self.pops.has_ready();
        if has_ready && self.connection.has_room_for_answers() || self.connection.may_begin_read() {
            return Some(Monotonic(0));
        }
        let fetches = [self.pulls.deadline(), self.pops.deadline()];
        let stored = [self.sends.deadline(), self.commits.deadline(), self.send_backs.deadline()];
        fetches.into_iter().chain(stored).flatten().chain(self.calls.deadline()).min()
    }

    fn has_paused(&self) -> bool {
        self.connection.turn.is_over()
    }

    fn wants_input(&self) -> bool {
        self.may_read() && (self.held_sends.has_room(self.connection.budget.room()) || !self.holds_sends())
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(self.connection.options.idle_timeout_ms)
    }

    fn is_busy(&self) -> bool {
        !self.sends.is_empty()
            || !self.held_sends.is_empty()
            || !self.commits.is_empty()
            || !self.send_backs.is_empty()
            || self.calls.is_waiting()
            || self.pulls.has_ready()
            || self.pops.has_ready()
            || self.connection.has_jobs()
    }

    fn held_size(&self) -> usize {
        let fetches = self.pulls.size() + self.pops.size();
        let waiting = self.held_sends.size() + fetches + self.commits.size() + self.send_backs.size();
        self.connection.output.size() + waiting + self.heartbeats.size()
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        frame::announced_len(input)
    }

    fn share(&mut self, budget: Arc<Budget>) {
        self.connection.budget = budget;
    }

    fn take_job(&mut self) -> Option<Job> {
        self.connection.take_job()
    }

    fn closed(&mut self, now: Now) {
        self.connection.now = now;
        // Some may be of those that nobody waits for.
        self.release_held(true);
        self.connection.end_reads();
        self.calls.close(self.connection.peer.mailbox.close());
        self.pulls.stop_waiting(&self.connection.broker);
        self.pops.stop_waiting(&self.connection.broker);
        self.connection.broker.groups.connection_closed(&self.connection.peer.mailbox);
    }
}

/// Has a request answered away from the network threads, which takes `size` bytes meanwhile; `false` if it was refused on the spot.
fn run_apart(
    handler: Handler,
    (size, done): (usize, fn(Bytes) -> Done),
    frame_bytes: &[u8],
    asked: Asked,
    connection: &mut Connection,
) -> bool {
    if let Err(refusal) = connection.check_room() {
        connection.refuse(asked, &refusal);
        return false;
    }
    let frame_bytes = Bytes::copy_from_slice(frame_bytes);
    let Connection { broker, options, peer, now, .. } = &*connection;
    let (broker, options, peer, now) = (broker.clone(), options.clone(), peer.clone(), *now);
    connection.run_job(size, move || {
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
