//! One connection of an AMQP client: its handshake, its channels, its signs of life, and its end.
//!
//! A *pass* goes over the bytes that came once: its messages are appended together. What a job does about exchanges and queues holds up
//! what comes behind it. Memory is bounded: input stops while answers pile up or the log is behind, and nothing is delivered to who does
//! not take it.
//!
//! Source: AMQP 0-9-1 specification sections 2.2.4 and 4.2; RabbitMQ's behaviour where these leave it open.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base::budget::Budget;
use base::session::{CloseReason, Job, Output, Session, Subject};
use base::{Monotonic, Now};
use broker::{Broker, Mailbox};
use bytes::{Buf as _, BytesMut};
use wire::amqp::argument::ShortString;
use wire::amqp::frame::{self, Frame, Kind, PROTOCOL_HEADER};
use wire::amqp::method::connection::{ChannelClose, ConnectionClose, ConnectionCloseOk};
use wire::amqp::method::{Method, MethodId};

use super::channel::Channel;
use super::consume::{self, Look};
use super::error::{Fault, code};
use super::link::{JOBS_MAX, Link};
use super::methods::{Core, channel_of};
use super::options::AmqpOptions;
use super::publish::PUBLISH;

/// How long a client may take to end a connection that was closed, ms.
const CLOSE_TIMEOUT_MS: u64 = 10_000;

/// How far a connection has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has to say which protocol it speaks.
    Header,
    /// It has to prove who it is.
    Start,
    /// It has to agree on limits.
    Tune { user: Arc<str> },
    /// It has to name its virtual host.
    Open { user: Arc<str> },
    /// It has channels.
    Running,
    /// It ends: one side has said so. The client closes the socket, or answers; what else it had under way is nobody's.
    Closing,
    /// It has ended.
    Over,
}

/// One connection.
pub struct AmqpSession {
    pub(super) core: Core,
    pub(super) phase: Phase,
    pub(super) channels: BTreeMap<u16, Channel>,
    pub(super) channel_max: u16,
    pub(super) last_serial: u64,
    /// Between signs of life, ms; 0: none are agreed on.
    pub(super) heartbeat_ms: u64,
    /// When the client was last heard.
    pub(super) heard: Monotonic,
    /// Bytes that were on their way to the client when it was looked after last.
    pub(super) untaken_size: usize,
    /// When the client is to hear something.
    pub(super) beat: Monotonic,
    /// When patience with a handshake or a close ends.
    pub(super) patience: Option<Monotonic>,
    /// Why the connection is closed without more words.
    pub(super) reason: Option<CloseReason>,
}

impl AmqpSession {
    /// A session for a connection from `remote`.
    pub fn new(broker: Arc<Broker>, mailbox: Arc<Mailbox>, options: Arc<AmqpOptions>, remote: SocketAddr) -> Self {
        Self {
            channel_max: options.channel_max,
            core: Core::new(Link::new(broker, mailbox, options, remote)),
            phase: Phase::Header,
            channels: BTreeMap::new(),
            last_serial: 0,
            heartbeat_ms: 0,
            heard: Monotonic::default(),
            untaken_size: 0,
            beat: Monotonic::default(),
            patience: None,
            reason: None,
        }
    }

    pub(super) fn link(&mut self) -> &mut Link {
        &mut self.core.link
    }

    /// Whether the client is heard, as far as that is the broker's own business.
    pub(super) fn may_read(&self) -> bool {
        let link = &self.core.link;
        !self.core.is_paused
            && link.has_room_for_answers()
            && link.jobs.count() < JOBS_MAX
            && !self.core.publishing.holds_up(link)
            && !self.core.unfinished.waits()
            && self.phase != Phase::Over
    }

    /// Whether a frame is not taken before messages that wait are in their queues.
    fn has_to_wait(&mut self, frame: &Frame<'_>) -> bool {
        let Self { core, channels, .. } = self;
        let Some(blocked) = core.publishing.blocked() else { return false };
        let Some(method) = (frame.kind == Kind::Method).then(|| Method::decode(frame.payload).ok()).flatten() else {
            return false;
        };
        let has_to_wait = match method {
            Method::TxCommit(_) => channels.get(&frame.channel).is_some_and(Channel::has_messages_to_commit),
            method => blocked.holds_up(&method),
        };
        if has_to_wait {
            blocked.await_messages();
        }
        has_to_wait
    }

    fn take_frame(&mut self, frame: &Frame<'_>) {
        let number = frame.channel;
        if self.phase == Phase::Closing {
            return self.take_while_closing(frame);
        }
        let taken = match frame.kind {
            Kind::Heartbeat if number == 0 => Ok(()),
            Kind::Heartbeat => Err(Fault::new(code::UNEXPECTED_FRAME, "a heartbeat on a channel")),
            Kind::Method => match Method::decode(frame.payload) {
                Ok(method) if number == 0 => self.take_of_connection(&method).map_err(|fault| fault.by(method.id())),
                Ok(method) => {
                    self.take_of_channel(number, &method, frame.payload).map_err(|fault| fault.by(method.id()))
                }
                Err(error) => Err(error.into()),
            },
            Kind::Header | Kind::Body => self.take_content(frame),
        };
        if let Err(fault) = taken {
            self.fail(number, &fault);
        }
    }

    fn take_while_closing(&mut self, frame: &Frame<'_>) {
        match Method::decode(frame.payload) {
            Ok(Method::ConnectionCloseOk(_)) if frame.kind == Kind::Method => self.phase = Phase::Over,
            Ok(Method::ConnectionClose(_)) if frame.kind == Kind::Method => self.link().send(0, ConnectionCloseOk {}),
            _ => {}
        }
    }

    fn take_of_channel(&mut self, number: u16, method: &Method<'_>, payload: &[u8]) -> Result<(), Fault> {
        if self.phase != Phase::Running {
            return Err(Fault::new(code::CHANNEL_ERROR, "the connection is not open yet"));
        }
        let Self { core, channels, .. } = self;
        let Some(channel) = channels.get_mut(&number) else {
            return match method {
                Method::ChannelOpen(_) => self.open_channel(number),
                // Both sides may have closed it at one time.
                Method::ChannelClose(_) => {
                    core.answer_close(number);
                    Ok(())
                }
                Method::ChannelCloseOk(_) => Ok(()),
                _ => Err(Fault::new(code::CHANNEL_ERROR, format!("expected 'channel.open', got '{}'", method.name()))),
            };
        };
        match method {
            Method::ChannelClose(_) => {
                // What came before on it is in the log before anybody hears that it is closed.
                core.publishing.end_pass(&mut core.link)?;
                core.close_channel(channel);
                channels.remove(&number);
                core.answer_close(number);
                Ok(())
            }
            Method::ChannelCloseOk(_) if channel.is_closing => {
                channels.remove(&number);
                Ok(())
            }
            Method::ChannelCloseOk(_) => Ok(()),
            _ if channel.is_closing => Ok(()),
            Method::ChannelOpen(_) => Err(Fault::new(code::CHANNEL_ERROR, "second 'channel.open' seen")),
            _ if channel.incoming.has_begun() => {
                let text = format!("expected content, got method {} instead", method.name());
                Err(Fault::new(code::UNEXPECTED_FRAME, text))
            }
            _ => core.act(channel, method, payload),
        }
    }

    fn take_content(&mut self, frame: &Frame<'_>) -> Result<(), Fault> {
        let Self { core, channels, .. } = self;
        match channels.get_mut(&frame.channel) {
            Some(channel) if channel.is_closing => Ok(()),
            Some(channel) => core.take_content(channel, frame).map_err(|fault| fault.by(PUBLISH)),
            None if frame.channel == 0 || self.phase != Phase::Running => {
                Err(Fault::new(code::UNEXPECTED_FRAME, "content outside of a channel"))
            }
            None => Err(Fault::new(code::CHANNEL_ERROR, "content on a channel that is not open")),
        }
    }

    /// Ends the channel or the connection that is at fault.
    pub(super) fn fail(&mut self, number: u16, fault: &Fault) {
        let MethodId { class, method } = fault.method.unwrap_or_default();
        let (reply_code, text) = (fault.code, fault.reply_text());
        let reply_text = ShortString::cut(text.as_bytes());
        let Self { core, channels, .. } = self;
        let channel = channels.get_mut(&number).filter(|_| !fault.is_hard());
        if let Some(channel) = channel {
            if channel.is_closing {
                return;
            }
            core.close_channel(channel);
            channel.is_closing = true;
            core.link.send(number, ChannelClose { reply_code, reply_text, class_id: class, method_id: method });
            return;
        }
        if matches!(self.phase, Phase::Closing | Phase::Over) {
            return;
        }
        self.close_channels();
        self.link().send(0, ConnectionClose { reply_code, reply_text, class_id: class, method_id: method });
        self.await_end();
    }

    /// Waits for the client to end the connection. A socket closed with bytes of the client unread would take from it what it has not
    /// read, the last answer too.
    pub(super) fn await_end(&mut self) {
        self.phase = Phase::Closing;
        self.patience = Some(self.core.link.now.monotonic.plus_ms(CLOSE_TIMEOUT_MS));
    }

    /// Somebody has the connection end.
    pub(super) fn dismiss(&mut self, why: &str) {
        self.fail(0, &Fault::new(code::CONNECTION_FORCED, why));
    }

    pub(super) fn close_channels(&mut self) {
        let Self { core, channels, .. } = self;
        let _ = core.publishing.end_pass(&mut core.link);
        core.publishing.give_up();
        for (_, mut channel) in std::mem::take(channels) {
            core.close_channel(&mut channel);
        }
        let link = &core.link;
        link.broker.model.connection_closed(link.number, link.now);
    }

    /// Puts what the pass has gathered into the log.
    fn end_pass(&mut self) {
        let Core { publishing, link, .. } = &mut self.core;
        if let Err(fault) = publishing.end_pass(link) {
            self.fail(0, &fault);
        }
    }

    /// Gives consumers what there is for them, each once; those that find more are ready again. If there is no room left for deliveries,
    /// others get what these were told of.
    fn deliver(&mut self) {
        for _ in 0..self.core.ready.len() {
            if !self.core.link.may_deliver() {
                break;
            }
            let Some(number) = self.core.ready.pop_front() else { break };
            let Some(channel) = self.channels.get_mut(&channel_of(number)) else { continue };
            if consume::look(channel, number, &mut self.core.link) == Look::Again {
                self.core.ready.push_back(number);
            }
        }
        if !self.core.link.may_deliver() {
            self.step_aside();
        }
    }

    fn step_aside(&mut self) {
        for number in &self.core.ready {
            let channel = self.channels.get_mut(&channel_of(*number));
            if let Some(consumer) = channel.and_then(|channel| channel.consumers.get(*number)) {
                consumer.step_aside();
            }
        }
    }

    fn go_on(&mut self) {
        for (channel, fault) in self.core.link.take_failed() {
            self.fail(channel, &fault);
        }
        self.deliver();
        let Core { publishing, link, .. } = &mut self.core;
        publishing.watch_log(link);
        link.flush();
    }
}

impl Session for AmqpSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        let link = self.link();
        link.now = now;
        self.heard = now.monotonic;
        if self.phase == Phase::Header {
            let handshake_timeout_ms = self.core.link.options.handshake_timeout_ms;
            self.patience.get_or_insert(now.monotonic.plus_ms(handshake_timeout_ms));
        }
        self.core.publishing.begin_pass(input.len());
        let mut consumed = 0;
        let mut ended = Ok(());
        while self.may_read() {
            let rest = input.get(consumed..).unwrap_or_default();
            if self.phase == Phase::Header {
                match self.take_header(rest) {
                    Ok(true) => consumed += PROTOCOL_HEADER.len(),
                    Ok(false) => break,
                    Err(reason) => {
                        ended = Err(reason);
                        break;
                    }
                }
                continue;
            }
            match frame::decode(rest, self.core.link.frame_max) {
                Ok(Some(frame)) if self.core.publishing.is_blocked() && self.has_to_wait(&frame) => break,
                Ok(Some(frame)) if !self.has_room_for(&frame) => break,
                Ok(Some(frame)) => {
                    self.take_frame(&frame);
                    consumed += frame.size();
                }
                Ok(None) => break,
                Err(error) if self.phase == Phase::Closing => {
                    ended = Err(CloseReason(error.to_string()));
                    break;
                }
                Err(error) => {
                    // What follows cannot be told apart any more.
                    self.fail(0, &Fault::new(code::FRAME_ERROR, error.to_string()));
                    consumed = input.len();
                    break;
                }
            }
            if self.core.publishing.is_full() {
                self.end_pass();
                self.core.publishing.begin_pass(input.len() - consumed);
            }
        }
        self.end_pass();
        self.go_on();
        input.advance(consumed);
        ended
    }

    fn wake(&mut self, now: Now) {
        self.link().now = now;
        self.take_done();
        self.take_signals();
        let Core { publishing, link, .. } = &mut self.core;
        publishing.waiting.release(link);
        publishing.resume(link);
        publishing.routes.forget_old(now.monotonic);
        self.watch_life();
        self.watch_overdue();
        self.watch_memory();
        self.watch_unread_streams();
        self.watch_unfinished();
        self.go_on();
    }

    fn output(&mut self) -> &mut Output {
        &mut self.core.link.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        let link = &self.core.link;
        if !self.core.ready.is_empty() && link.may_deliver() || link.may_begin_read() {
            return Some(Monotonic(0));
        }
        let Link { overdue_at, memory_look_at, streams_look_at, .. } = self.core.link;
        let of_link = overdue_at.into_iter().chain(memory_look_at).chain(streams_look_at);
        let of_contents = self.core.publishing.deadline().into_iter().chain(self.core.unfinished.deadline());
        self.life_deadline().into_iter().chain(of_contents).chain(of_link).min()
    }

    fn wants_input(&self) -> bool {
        self.may_read()
    }

    fn proven(&mut self, subject: Subject) {
        self.link().subject = Some(subject);
    }

    fn note_unread(&mut self, now: Monotonic) {
        self.heard = now;
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        // From then on each side tells the other that it is alive, if it wants that.
        (self.phase != Phase::Running).then_some(self.core.link.options.handshake_timeout_ms)
    }

    fn is_busy(&self) -> bool {
        !self.core.publishing.waiting.is_empty() || self.core.link.jobs.count() > 0
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Over && self.reason.is_none()
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.reason.clone()
    }

    fn held_size(&self) -> usize {
        let channels: usize = self.channels.values().map(Channel::size).sum();
        self.core.link.output.size() + self.core.publishing.size() + self.core.consumers_size + channels
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        if self.phase == Phase::Header { 0 } else { frame::announced_size(input, self.core.link.frame_max) }
    }

    fn share(&mut self, budget: Arc<Budget>) {
        self.link().budget = budget;
    }

    fn take_job(&mut self) -> Option<Job> {
        self.core.link.take_job()
    }

    fn finish(&mut self) {
        if self.phase == Phase::Running {
            let text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
            let (reply_code, reply_text) = (code::CONNECTION_FORCED, ShortString::cut(text.as_bytes()));
            self.link().send(0, ConnectionClose { reply_code, reply_text, class_id: 0, method_id: 0 });
            self.link().flush();
        }
    }

    fn closed(&mut self, now: Now) {
        self.link().now = now;
        self.core.link.mailbox.close();
        self.close_channels();
    }
}
