//! What the channels of one connection share: the broker, who the client is, the bytes on their way to it, and work done elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;

use base::budget::{Budget, LITTLE_SIZE_MAX, Room};
use base::limits::{OUTPUT_BACKLOG_SIZE_MAX, TRANSACTION_SIZE_MAX};
use base::session::{Job, Output, Subject};
use base::{Monotonic, Now};
use broker::{
    Broker, ClientSaid, ConnectionNumber, ExchangeKind, Mailbox, OpenChannel, Right, Shown, TopicPermissions,
    UserPermission, VirtualHost,
};
use bytes::{Bytes, BytesMut};
use wire::amqp::frame::{self, Kind};
use wire::amqp::method::Method;

use super::consume::Read;
use super::error::Fault;
use super::giving_up::GivingUp;
use super::options::AmqpOptions;
use super::stream::Streamed;
use super::topology::Carried;
use crate::jobs::{Begun, Jobs};

/// Bytes of deliveries that may wait: enough to keep a socket busy.
const DELIVERIES_SIZE_MAX: usize = 1024 * 1024;

/// Bytes that one read for a consumer gives at most; a longer message is read by itself.
pub(super) const READ_SIZE_MAX: usize = 256 * 1024;

/// Pieces of work for one connection that have not ended.
pub(super) const JOBS_MAX: usize = 64;

/// How often is looked for messages that a client has had for too long, ms.
pub(super) const OVERDUE_LOOK_MS: u64 = 60_000;

/// Smaller pieces are copied: a piece of its own costs more.
const SHARED_SIZE_MIN: usize = 8 * 1024;

/// What a job has ready.
pub(super) enum Done {
    /// A method was carried out.
    Carried(Carried),
    /// Messages were read.
    Read(Box<Read>),
    /// Messages of a stream were read.
    Streamed(Box<Streamed>),
    /// Nobody waits for it.
    Nothing,
}

/// Who the client is, and where it works.
pub(super) struct Login {
    pub(super) user: Arc<str>,
    pub(super) host: Arc<VirtualHost>,
    /// Of users and permissions, when this was looked up.
    generation: u64,
    permission: Option<Arc<UserPermission>>,
    topics: Option<Arc<TopicPermissions>>,
}

/// What the channels of a connection share.
pub(super) struct Link {
    pub(super) broker: Arc<Broker>,
    pub(super) options: Arc<AmqpOptions>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) address: SocketAddr,
    /// Who the client has proven to be before it said anything.
    pub(super) subject: Option<Subject>,
    pub(super) number: ConnectionNumber,
    /// When it was last given something to do.
    pub(super) now: Now,
    pub(super) output: Output,
    /// The end of the output, not yet in pieces.
    scratch: BytesMut,
    /// The largest frame agreed on, bytes.
    pub(super) frame_max: usize,
    /// Who the client says it is.
    pub(super) client: Arc<ClientSaid>,
    /// Whether the client is told of consumers that end.
    pub(super) hears_of_cancelled: bool,
    /// Whether the client is told that what it publishes has to wait.
    pub(super) hears_of_blocked: bool,
    pub(super) login: Option<Login>,
    pub(super) budget: Arc<Budget>,
    pub(super) jobs: Jobs<Done>,
    pub(super) giving_up: Arc<GivingUp>,
    /// When it is looked for messages that were not acknowledged for too long, if there are any.
    pub(super) overdue_at: Option<Monotonic>,
    /// When it is looked whether there is memory again, if some consumer waits for that.
    pub(super) memory_look_at: Option<Monotonic>,
    /// When streams are read again that could not be read, and for which consumers.
    pub(super) streams_look_at: Option<Monotonic>,
    pub(super) unread_streams: Vec<u64>,
    /// Channels that failed after their method was taken.
    failed: Vec<(u16, Fault)>,
}

impl Login {
    pub(super) fn new(user: Arc<str>, host: Arc<VirtualHost>, broker: &Broker) -> Self {
        let access = &broker.model.access;
        let generation = access.generation();
        let permission = access.permission(host.name(), &user);
        let topics = access.topic_permissions_of(host.name(), &user);
        Self { user, host, generation, permission, topics }
    }

    /// What was looked up before may be otherwise.
    fn renew(&mut self, broker: &Broker) {
        if broker.model.access.generation() != self.generation {
            *self = Self::new(self.user.clone(), self.host.clone(), broker);
        }
    }

    /// Whether the user may connect to the virtual host.
    pub(super) const fn is_allowed(&self) -> bool {
        self.permission.is_some()
    }

    /// Whether the user may do that with what is called `name`.
    pub(super) fn check(&mut self, broker: &Broker, right: Right, kind: &str, name: &[u8]) -> Result<(), Fault> {
        self.renew(broker);
        if self.permission.as_ref().is_some_and(|permission| permission.allows(right, name)) {
            return Ok(());
        }
        let (host, user, right, name) = (self.host.name(), &self.user, name_of(right), Shown(name));
        Err(Fault::refused(format!("{right} access to {kind} '{name}' in vhost '{host}' refused for user '{user}'")))
    }

    /// Whether the user may do that by a key of an exchange. Of exchanges that are no topics any key may be used.
    pub(super) fn check_key(
        &mut self,
        broker: &Broker,
        right: Right,
        exchange: &[u8],
        key: &[u8],
    ) -> Result<(), Fault> {
        self.renew(broker);
        let permission = self.topics.as_ref().and_then(|topics| topics.get(exchange));
        let is_topic = || self.host.exchange(exchange).is_ok_and(|exchange| exchange.kind == ExchangeKind::Topic);
        if permission.is_none_or(|permission| permission.allows(right, key)) || !is_topic() {
            return Ok(());
        }
        let (host, user, right) = (self.host.name(), &self.user, name_of(right));
        let (exchange, key) = (Shown(exchange), Shown(key));
        Err(Fault::refused(format!(
            "{right} access to topic '{key}' in exchange '{exchange}' in vhost '{host}' refused for user '{user}'"
        )))
    }
}

const fn name_of(right: Right) -> &'static str {
    match right {
        Right::Configure => "configure",
        Right::Write => "write",
        Right::Read => "read",
    }
}

impl Link {
    pub(super) fn new(
        broker: Arc<Broker>,
        mailbox: Arc<Mailbox>,
        options: Arc<AmqpOptions>,
        address: SocketAddr,
    ) -> Self {
        Self {
            number: broker.model.number_connection(),
            broker,
            options,
            mailbox,
            address,
            subject: None,
            now: Now::default(),
            output: Output::default(),
            scratch: BytesMut::new(),
            frame_max: frame::SIZE_MIN,
            hears_of_cancelled: false,
            hears_of_blocked: false,
            client: Arc::default(),
            login: None,
            budget: Arc::default(),
            jobs: Jobs::default(),
            giving_up: Arc::default(),
            overdue_at: None,
            memory_look_at: None,
            streams_look_at: None,
            unread_streams: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// The virtual host; a session without one has no channels.
    pub(super) fn login(&mut self) -> Result<&mut Login, Fault> {
        self.login.as_mut().ok_or_else(|| Fault::not_allowed("the connection is not open"))
    }

    /// Whether the user may do that with what is called `name`.
    pub(super) fn check(&mut self, right: Right, kind: &str, name: &[u8]) -> Result<(), Fault> {
        let broker = self.broker.clone();
        self.login()?.check(&broker, right, kind, name)
    }

    /// The same by a key of an exchange.
    pub(super) fn check_key(&mut self, right: Right, exchange: &[u8], key: &[u8]) -> Result<(), Fault> {
        let broker = self.broker.clone();
        self.login()?.check_key(&broker, right, exchange, key)
    }

    /// One more channel of the user, if it may have one.
    pub(super) fn open_channel(&mut self) -> Result<OpenChannel, Fault> {
        let broker = self.broker.clone();
        let (user, model) = (&self.login()?.user, &broker.model);
        Ok(model.connections.open_channel(user, model.access.limits(user))?)
    }

    /// Sends a method.
    pub(super) fn send<'m>(&mut self, channel: u16, method: impl Into<Method<'m>>) {
        let method = method.into();
        frame::encode(&mut self.scratch, Kind::Method, channel, |out| method.encode(out));
    }

    /// Sends what is no frame.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) {
        self.scratch.extend_from_slice(bytes);
    }

    /// Sends a sign of life.
    pub(super) fn send_heartbeat(&mut self) {
        frame::encode_heartbeat(&mut self.scratch);
    }

    /// Sends what follows a method that has content: its header, and the body in as many frames as it takes. `piece` has the body in it.
    pub(super) fn send_content(&mut self, channel: u16, header: &[u8], body: &[u8], piece: Option<&Bytes>) {
        frame::encode(&mut self.scratch, Kind::Header, channel, |out| out.extend_from_slice(header));
        let part_max = self.frame_max.saturating_sub(frame::OVERHEAD_SIZE).max(1);
        for part in body.chunks(part_max) {
            frame::encode_body_head(&mut self.scratch, channel, part.len() as u32);
            match piece.filter(|_| part.len() >= SHARED_SIZE_MIN) {
                Some(piece) => {
                    self.flush();
                    self.output.push(piece.slice_ref(part));
                }
                None => self.scratch.extend_from_slice(part),
            }
            self.scratch.extend_from_slice(&[frame::END]);
        }
    }

    /// A channel has failed, some time after its method was taken; 0: the connection.
    pub(super) fn fail_later(&mut self, channel: u16, fault: Fault) {
        self.failed.push((channel, fault));
    }

    /// Channels that have.
    pub(super) fn take_failed(&mut self) -> Vec<(u16, Fault)> {
        std::mem::take(&mut self.failed)
    }

    /// Puts all that was sent among the pieces of the output.
    pub(super) fn flush(&mut self) {
        if !self.scratch.is_empty() {
            self.output.push(self.scratch.split().freeze());
        }
    }

    /// Bytes that the client has not taken.
    pub(super) fn waiting_size(&self) -> usize {
        self.output.size() + self.scratch.len()
    }

    /// Whether methods may be answered: the client takes its answers.
    pub(super) fn has_room_for_answers(&self) -> bool {
        self.room_for_answers() > 0
    }

    /// Bytes of answers and deliveries that may be added to those that are not taken.
    fn room_for_answers(&self) -> usize {
        self.budget.at_most(OUTPUT_BACKLOG_SIZE_MAX).saturating_sub(self.waiting_size())
    }

    /// Whether consumers may be looked after: there is room for deliveries, and for more reads.
    pub(super) fn may_deliver(&self) -> bool {
        self.jobs.count() < JOBS_MAX && self.has_room_for_deliveries()
    }

    /// Whether messages may be delivered.
    pub(super) fn has_room_for_deliveries(&self) -> bool {
        self.waiting_size() < self.budget.at_most(DELIVERIES_SIZE_MAX)
    }

    /// A message was sent that is to be acknowledged: it is looked after.
    pub(super) fn note_delivered(&mut self) {
        if self.overdue_at.is_none() {
            self.overdue_at = Some(self.now.monotonic.plus_ms(OVERDUE_LOOK_MS));
        }
    }

    /// Whether a transaction may hold messages of so many bytes: all go into the log at once.
    pub(super) fn check_transaction_size(&self, size: usize) -> Result<(), Fault> {
        if size > TRANSACTION_SIZE_MAX {
            let text = format!("the messages of a transaction take at most {TRANSACTION_SIZE_MAX} bytes");
            return Err(Fault::precondition(text));
        }
        if size > LITTLE_SIZE_MAX && self.budget.room() == Room::None {
            return Err(Fault::precondition("there is no memory for more messages of the transaction"));
        }
        Ok(())
    }

    /// Has work done elsewhere that takes about `size` bytes.
    pub(super) fn run_job(&mut self, size: usize, work: impl FnOnce() -> Done + Send + 'static) {
        self.jobs.run(size, &self.budget, &self.mailbox, work);
    }

    /// Has up to `size` bytes of messages read for a consumer by a job, unless that has gone meanwhile.
    pub(super) fn run_read(
        &mut self,
        (consumer, size): (u64, usize),
        work: impl FnOnce(Begun) -> Done + Send + 'static,
    ) {
        self.jobs.read((consumer, size), &self.budget, &self.mailbox, work);
    }

    pub(super) fn take_job(&mut self) -> Option<Job> {
        self.jobs.take(self.room_for_answers())
    }

    /// Whether there is room by now for a read that waited for that.
    pub(super) fn may_begin_read(&self) -> bool {
        self.jobs.may_begin_read(self.room_for_answers())
    }

    /// Has messages of a queue given up, by a job, behind those of before.
    pub(super) fn give_up(&mut self, queue: &Arc<broker::MessageQueue>, doomed: Vec<broker::Doomed>) {
        if doomed.is_empty() {
            return;
        }
        self.giving_up.add(queue.clone(), doomed);
        let (broker, giving_up, now) = (self.broker.clone(), self.giving_up.clone(), self.now);
        self.run_job(0, move || {
            giving_up.run(&broker, now);
            Done::Nothing
        });
    }
}
