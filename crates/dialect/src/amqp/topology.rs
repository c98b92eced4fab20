//! Exchanges, queues and bindings, as clients ask for them. Each is a job: it is answered when what it has changed is written.

use std::sync::Arc;

use base::Now;
use broker::{
    BindingTarget, BindingWish, Broker, ConnectionNumber, DEFAULT_EXCHANGE, ExchangeKind, ExchangeSettings, Mailbox,
    MessageQueue, ModelError, OnlyIf, QueueWish, Right, Shown, VirtualHost,
};
use bytes::{Bytes, BytesMut};
use format::model::{HeaderPattern, RoutingKind, Text};
use wire::amqp::argument::ShortString;
use wire::amqp::frame::{self, Kind};
use wire::amqp::method::Method;
use wire::amqp::method::exchange::{
    ExchangeBind, ExchangeBindOk, ExchangeDeclare, ExchangeDeclareOk, ExchangeDelete, ExchangeDeleteOk, ExchangeUnbind,
    ExchangeUnbindOk,
};
use wire::amqp::method::queue::{
    QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk, QueuePurge, QueuePurgeOk,
    QueueUnbind, QueueUnbindOk,
};
use wire::amqp::table::Table;

use super::arguments;
use super::error::{Fault, code};
use super::link::Login;
use super::replies::{REPLY_TO, Replies};
use super::stream;

/// What a method is carried out with.
pub(super) struct Topology {
    pub(super) broker: Arc<Broker>,
    pub(super) login: Login,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) replies: Arc<Replies>,
    pub(super) who: ConnectionNumber,
    pub(super) now: Now,
    pub(super) channel: u16,
    /// The queue that the channel declared last: an empty name means it.
    pub(super) last_queue: Option<Text>,
}

/// What became of a method.
pub(super) struct Carried {
    pub(super) channel: u16,
    pub(super) result: Result<Answer, Fault>,
    pub(super) last_queue: Option<Text>,
}

/// The frame of its answer; empty if none is wanted.
pub(super) type Answer = Bytes;

/// Whether a method is one of these.
pub(super) const fn is_about_topology(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::ExchangeDeclare(_)
            | Method::ExchangeDelete(_)
            | Method::ExchangeBind(_)
            | Method::ExchangeUnbind(_)
            | Method::QueueDeclare(_)
            | Method::QueueBind(_)
            | Method::QueuePurge(_)
            | Method::QueueDelete(_)
            | Method::QueueUnbind(_)
    )
}

impl Topology {
    /// Carries a method out and has what it changes written. Waits for the disk.
    pub(super) fn carry_out(mut self, payload: &[u8]) -> Carried {
        let result = match Method::decode(payload) {
            Ok(method) => self.act(&method).map_err(|fault| fault.by(method.id())),
            Err(error) => Err(Fault::new(code::SYNTAX_ERROR, error.to_string())),
        };
        let result = result.and_then(|answer| {
            self.broker.model.write_changes()?;
            Ok(answer)
        });
        if self.mailbox.is_closed() {
            // The connection went meanwhile: what is its alone goes, too.
            self.broker.model.connection_closed(self.who, self.now);
        }
        Carried { channel: self.channel, result, last_queue: self.last_queue }
    }

    fn act(&mut self, method: &Method<'_>) -> Result<Answer, Fault> {
        match method {
            Method::ExchangeDeclare(declare) => self.declare_exchange(declare),
            Method::ExchangeDelete(delete) => self.delete_exchange(delete),
            Method::ExchangeBind(ExchangeBind { destination, source, routing_key, no_wait, arguments, .. }) => {
                let to = BindingTarget::Exchange(clean(*destination));
                self.bind(*source, to, routing_key.bytes(), *arguments, true)?;
                Ok(self.answer(*no_wait, ExchangeBindOk {}))
            }
            Method::ExchangeUnbind(ExchangeUnbind { destination, source, routing_key, no_wait, arguments, .. }) => {
                let to = BindingTarget::Exchange(clean(*destination));
                self.bind(*source, to, routing_key.bytes(), *arguments, false)?;
                Ok(self.answer(*no_wait, ExchangeUnbindOk {}))
            }
            Method::QueueDeclare(declare) => self.declare_queue(declare),
            Method::QueueBind(QueueBind { queue, exchange, routing_key, no_wait, arguments, .. }) => {
                let (name, key) = (self.queue_name(*queue)?, self.key_of(*queue, *routing_key));
                self.bind(*exchange, BindingTarget::Queue(name), &key, *arguments, true)?;
                Ok(self.answer(*no_wait, QueueBindOk {}))
            }
            Method::QueueUnbind(QueueUnbind { queue, exchange, routing_key, arguments, .. }) => {
                let (name, key) = (self.queue_name(*queue)?, self.key_of(*queue, *routing_key));
                self.bind(*exchange, BindingTarget::Queue(name), &key, *arguments, false)?;
                Ok(self.answer(false, QueueUnbindOk {}))
            }
            Method::QueuePurge(QueuePurge { queue, no_wait, .. }) => {
                let queue = self.queue_for(Right::Read, *queue)?;
                stream::check_is_none(&queue, "queue.purge")?;
                let message_count = count(self.broker.purge(&queue, self.now)?);
                Ok(self.answer(*no_wait, QueuePurgeOk { message_count }))
            }
            Method::QueueDelete(delete) => self.delete_queue(delete),
            _ => Err(Fault::new(code::COMMAND_INVALID, "not a method of exchanges and queues")),
        }
    }

    fn host(&self) -> &Arc<VirtualHost> {
        &self.login.host
    }

    fn check(&mut self, right: Right, kind: &str, name: &[u8]) -> Result<(), Fault> {
        self.login.check(&self.broker, right, kind, name)
    }

    fn answer<'m>(&self, no_wait: bool, method: impl Into<Method<'m>>) -> Answer {
        let mut out = BytesMut::new();
        if !no_wait {
            let method = method.into();
            frame::encode(&mut out, Kind::Method, self.channel, |out| method.encode(out));
        }
        out.freeze()
    }

    /// The name that is meant.
    fn queue_name(&self, name: ShortString<'_>) -> Result<Text, Fault> {
        named_or_last(name, self.last_queue.as_ref())
    }

    /// An empty name and an empty key: both are the queue's.
    fn key_of(&self, queue: ShortString<'_>, key: ShortString<'_>) -> Text {
        match &self.last_queue {
            Some(last) if queue.bytes().is_empty() && key.bytes().is_empty() => last.clone(),
            _ => key.bytes().into(),
        }
    }

    fn queue_for(&mut self, right: Right, name: ShortString<'_>) -> Result<Arc<MessageQueue>, Fault> {
        let name = self.queue_name(name)?;
        self.check(right, "queue", &name)?;
        Ok(self.host().queue(&name, self.who)?)
    }

    fn declare_exchange(&mut self, declare: &ExchangeDeclare<'_>) -> Result<Answer, Fault> {
        let name = clean(declare.exchange);
        if declare.passive {
            if *name != *DEFAULT_EXCHANGE {
                self.host().exchange(&name)?;
            }
            return Ok(self.answer(declare.no_wait, ExchangeDeclareOk {}));
        }
        self.check_not_default(&name)?;
        let kind = kind_of(declare.kind.bytes())?;
        self.check(Right::Configure, "exchange", &name)?;
        let alternate = arguments::alternate_exchange(declare.arguments)?;
        if let Some(alternate) = &alternate {
            self.check(Right::Read, "exchange", &name)?;
            self.check(Right::Write, "exchange", alternate)?;
        }
        if self.host().exchange(&name).is_err() {
            check_not_reserved("exchange", &name, self.host())?;
        }
        let settings = ExchangeSettings {
            kind,
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            alternate,
            arguments: declare.arguments.bytes().into(),
        };
        let made = self.broker.model.declare_exchange(self.host(), &name, settings.clone(), self.now);
        made.map_err(|error| match error {
            ModelError::OtherExchange(other) => other_exchange(&name, self.host(), &settings, &other),
            error => error.into(),
        })?;
        Ok(self.answer(declare.no_wait, ExchangeDeclareOk {}))
    }

    fn delete_exchange(&mut self, delete: &ExchangeDelete<'_>) -> Result<Answer, Fault> {
        let name = clean(delete.exchange);
        self.check_not_default(&name)?;
        check_not_reserved("exchange", &name, self.host())?;
        self.check(Right::Configure, "exchange", &name)?;
        self.broker.model.remove_exchange(self.host(), &name, delete.if_unused, self.now)?;
        Ok(self.answer(delete.no_wait, ExchangeDeleteOk {}))
    }

    fn check_not_default(&self, name: &[u8]) -> Result<(), Fault> {
        if *name == *DEFAULT_EXCHANGE {
            return Err(Fault::refused("operation not permitted on the default exchange"));
        }
        Ok(())
    }

    fn declare_queue(&mut self, declare: &QueueDeclare<'_>) -> Result<Answer, Fault> {
        let mut name = clean(declare.queue);
        if *name == *REPLY_TO || self.replies.has(&name) {
            // So that who is to reply can see whether somebody still waits for it.
            let queue = ShortString::cut(&name);
            return Ok(self.answer(declare.no_wait, QueueDeclareOk { queue, message_count: 0, consumer_count: 1 }));
        }
        if declare.passive {
            let name = named_or_last(declare.queue, self.last_queue.as_ref())?;
            let queue = self.host().queue(&name, self.who)?;
            return Ok(self.declared(&queue, declare.no_wait));
        }
        if name.is_empty() {
            name = generated_name(&self.broker, "amq.gen-");
        } else if self.host().queue(&name, self.who).is_err_and(|error| matches!(error, ModelError::NoSuchQueue { .. }))
        {
            check_not_reserved("queue", &name, self.host())?;
        }
        self.check(Right::Configure, "queue", &name)?;
        let shown = format!("queue '{}' in vhost '{}'", Shown(&name), self.host().name());
        let rules = arguments::queue_rules(declare.arguments, &shown)?;
        arguments::check_kind(&rules, declare, &shown)?;
        if let Some(exchange) = &rules.dead_letter_exchange {
            self.check(Right::Read, "queue", &name)?;
            let exchange: &[u8] = if exchange.is_empty() { b"amq.default" } else { exchange };
            self.check(Right::Write, "exchange", exchange)?;
        }
        let wish = QueueWish {
            name,
            // What goes with its connection does not outlive the process.
            is_durable: declare.durable && !declare.exclusive,
            owner: declare.exclusive.then_some(self.who),
            auto_delete: declare.auto_delete,
            rules,
            arguments: declare.arguments.bytes().into(),
        };
        let made = self.broker.model.declare_queue(self.host(), wish.clone(), self.who, self.now);
        let (queue, _) = made.map_err(|error| match error {
            ModelError::OtherQueue(known) => other_queue(&known, &wish),
            error => error.into(),
        })?;
        Ok(self.declared(&queue, declare.no_wait))
    }

    fn declared(&mut self, queue: &MessageQueue, no_wait: bool) -> Answer {
        self.last_queue = Some(queue.name().into());
        let declared = QueueDeclareOk {
            queue: ShortString::cut(queue.name()),
            message_count: count(queue.counts().ready),
            consumer_count: count(queue.consumer_count() as u64),
        };
        self.answer(no_wait, declared)
    }

    fn delete_queue(&mut self, delete: &QueueDelete<'_>) -> Result<Answer, Fault> {
        let name = self.queue_name(delete.queue)?;
        self.check(Right::Configure, "queue", &name)?;
        let ready = match self.host().queue(&name, self.who) {
            Ok(queue) => {
                let only_if = OnlyIf { unused: delete.if_unused, empty: delete.if_empty };
                self.broker.model.remove_queue(self.host(), &queue, only_if, self.now)?.ready
            }
            Err(ModelError::NoSuchQueue { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(self.answer(delete.no_wait, QueueDeleteOk { message_count: count(ready) }))
    }

    /// Has a binding there, or not.
    fn bind(
        &mut self,
        source: ShortString<'_>,
        to: BindingTarget,
        key: &[u8],
        arguments: Table<'_>,
        is_wanted: bool,
    ) -> Result<(), Fault> {
        let source = clean(source);
        self.check_not_default(&source)?;
        let (kind, name) = match &to {
            BindingTarget::Queue(name) => ("queue", name.clone()),
            BindingTarget::Exchange(name) => ("exchange", name.clone()),
        };
        if kind == "exchange" {
            self.check_not_default(&name)?;
        }
        self.check(Right::Write, kind, &name)?;
        self.check(Right::Read, "exchange", &source)?;
        let exchange = self.host().exchange(&source)?;
        self.login.check_key(&self.broker, Right::Read, &source, key)?;
        let pattern: Option<HeaderPattern> = match exchange.kind {
            ExchangeKind::Headers => Some(arguments::header_pattern(arguments)?),
            _ => None,
        };
        let wish = BindingWish { source, to, key: key.into(), arguments: arguments.sorted().into(), pattern };
        let (model, host) = (&self.broker.model, &self.login.host);
        if is_wanted {
            model.bind(host, wish, self.who, self.now)?
        } else {
            model.unbind(host, wish, self.who, self.now)?
        }
        Ok(())
    }
}

/// The name that is meant where an empty one means the queue declared last.
pub(super) fn named_or_last(name: ShortString<'_>, last: Option<&Text>) -> Result<Text, Fault> {
    if !name.bytes().is_empty() {
        return Ok(clean(name));
    }
    last.cloned().ok_or_else(|| Fault::new(code::NOT_FOUND, "no previously declared queue"))
}

/// A name without line ends, as RabbitMQ has them.
pub(super) fn clean(name: ShortString<'_>) -> Text {
    name.bytes().iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect()
}

/// Characters of made names: 64, safe in addresses of pages.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A name that nobody has: `prefix` and 22 characters.
pub(super) fn generated_name(broker: &Broker, prefix: &str) -> Text {
    let random = [broker.random(), broker.random()];
    let digits = (0..22).map(|at| {
        let word = random[usize::from(at >= 11)] >> (at % 11 * 5);
        // Of 64 bits each of 11 digits takes 5, and one more that it shares with the next.
        DIGITS[(word & 63) as usize]
    });
    prefix.bytes().chain(digits).collect()
}

pub(super) fn check_not_reserved(kind: &str, name: &[u8], host: &VirtualHost) -> Result<(), Fault> {
    if !name.starts_with(b"amq.") {
        return Ok(());
    }
    let (name, host) = (Shown(name), host.name());
    Err(Fault::refused(format!("{kind} name '{name}' in vhost '{host}' contains reserved prefix 'amq.*'")))
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The kind of exchange that is meant.
pub(super) fn kind_of(name: &[u8]) -> Result<ExchangeKind, Fault> {
    match name {
        b"direct" => Ok(ExchangeKind::Direct),
        b"fanout" => Ok(ExchangeKind::Fanout),
        b"topic" => Ok(ExchangeKind::Topic),
        b"headers" => Ok(ExchangeKind::Headers),
        other => Err(Fault::precondition(format!("invalid exchange type '{}'", Shown(other)))),
    }
}

/// What a kind of exchange is called.
pub const fn kind_name(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
        ExchangeKind::Topic => "topic",
        ExchangeKind::Headers => "headers",
    }
}

fn inequivalent(what: &str, argument: &str, received: &str, current: &str) -> Fault {
    Fault::precondition(format!(
        "inequivalent arg '{argument}' for {what}: received '{received}' but current is '{current}'"
    ))
}

pub(super) fn other_exchange(
    name: &[u8],
    host: &VirtualHost,
    wanted: &ExchangeSettings,
    is: &broker::OtherExchange,
) -> Fault {
    let what = format!("exchange '{}' in vhost '{}'", Shown(name), host.name());
    let kind = match is.state.kind {
        RoutingKind::Direct => ExchangeKind::Direct,
        RoutingKind::Fanout => ExchangeKind::Fanout,
        RoutingKind::Topic => ExchangeKind::Topic,
        RoutingKind::Headers => ExchangeKind::Headers,
    };
    if kind != wanted.kind {
        return inequivalent(&what, "type", kind_name(wanted.kind), kind_name(kind));
    }
    let flags = [
        ("durable", wanted.durable, is.is_durable),
        ("auto_delete", wanted.auto_delete, is.state.auto_delete),
        ("internal", wanted.internal, is.state.internal),
    ];
    if let Some((name, received, current)) = flags.into_iter().find(|(_, received, current)| received != current) {
        return inequivalent(&what, name, &received.to_string(), &current.to_string());
    }
    let text = |name: &Option<Text>| name.as_ref().map_or("none".to_owned(), |name| Shown(name).to_string());
    inequivalent(&what, "alternate-exchange", &text(&wanted.alternate), &text(&is.state.alternate))
}

pub(super) fn other_queue(is: &MessageQueue, wanted: &QueueWish) -> Fault {
    let what = format!("queue '{}' in vhost '{}'", Shown(is.name()), is.host());
    let known = is.wish();
    let flags =
        [("durable", wanted.is_durable, known.is_durable), ("auto_delete", wanted.auto_delete, known.auto_delete)];
    match flags.into_iter().find(|(_, received, current)| received != current) {
        Some((name, received, current)) => inequivalent(&what, name, &received.to_string(), &current.to_string()),
        None => {
            let (name, received, current) = arguments::difference(&wanted.rules, &known.rules);
            inequivalent(&what, name, &received, &current)
        }
    }
}
