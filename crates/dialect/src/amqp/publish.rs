//! Messages on their way in: routed, gathered into one batch a pass, and confirmed when they are kept.

use std::sync::Arc;

use base::limits::PUBLISH_BATCH_SIZE_MAX;
use base::offset::AckPolicy;
use base::{LogOffset, Monotonic, Refusal};
use broker::{MessageQueue, PublishBatch, Right, RoutedMessage, Settling, Shown};
use wire::amqp::argument::ShortString;
use wire::amqp::method::MethodId;
use wire::amqp::method::basic::Return;

use super::blocked::{self, Blocked, WaitingMessage};
use super::confirms::{Confirm, ConfirmTo, Kept, WaitingConfirms};
use super::error::{Fault, code};
use super::headers::HeaderTable;
use super::kept::KeptMessage;
use super::link::Link;
use super::prepared::{Message, Prepared, Said, Way};
use super::replies::Replies;
use super::routes::{Route, Routes};

/// The method that messages come with.
pub(super) const PUBLISH: MethodId = MethodId { class: 60, method: 40 };

/// What permissions call the exchange without a name.
const DEFAULT_EXCHANGE: &[u8] = b"amq.default";

/// What one connection publishes.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    batch: Option<PublishBatch>,
    confirms: Vec<Confirm>,
    /// Somebody whose message is in the pass hears nothing of it.
    has_unconfirmed: bool,
    /// Up to where the log has what came before.
    end: LogOffset,
    /// Up to where it has to be written before the session is woken for more.
    watched: LogOffset,
    /// Bytes that came in this pass: about what its records take.
    expected_size: usize,
    /// What is owed for passes before.
    pub(super) waiting: WaitingConfirms,
    /// What does not get into the log now.
    blocked: Option<Box<Blocked>>,
    /// Since when the client is not read because the log is behind.
    behind_since: Option<Monotonic>,
    pub(super) routes: Routes,
}

impl Publishing {
    /// A pass over `size` bytes begins.
    pub(super) fn begin_pass(&mut self, size: usize) {
        self.expected_size = size.min(PUBLISH_BATCH_SIZE_MAX) * 9 / 8;
    }

    /// Whether the pass has gathered as much as goes in at once.
    pub(super) fn is_full(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.size() >= PUBLISH_BATCH_SIZE_MAX)
    }

    /// Takes a message of a channel, which is confirmed by that number if it has one: into the pass, or it waits while the log takes none.
    pub(super) fn publish(
        &mut self,
        message: &Message<'_>,
        from: ConfirmTo,
        confirm: Option<u64>,
        link: &mut Link,
    ) -> Result<(), Fault> {
        // While messages wait, none is in a pass.
        if self.batch.is_none() && self.waits(message, from, confirm, link)? {
            return Ok(());
        }
        self.take(message, Some(from), confirm, link)
    }

    /// Has a message wait if the log takes none.
    fn waits(
        &mut self,
        message: &Message<'_>,
        from: ConfirmTo,
        confirm: Option<u64>,
        link: &mut Link,
    ) -> Result<bool, Fault> {
        self.block_if_refused(link);
        if self.blocked.is_some() {
            // What is wrong with it is said at once.
            self.prepare(message, link)?;
        }
        let Some(blocked) = &mut self.blocked else { return Ok(false) };
        blocked.hold(WaitingMessage { message: KeptMessage::of(message), from: Some(from), confirm });
        Ok(true)
    }

    /// Takes a message into the pass.
    fn take(
        &mut self,
        message: &Message<'_>,
        from: Option<ConfirmTo>,
        confirm: Option<u64>,
        link: &mut Link,
    ) -> Result<(), Fault> {
        let prepared = self.prepare(message, link)?;
        let confirm = from.zip(confirm);
        let Way::Queues(queues) = &prepared.way else {
            send_elsewhere(message, &prepared, from.map_or(0, |from| from.channel), link);
            self.note(confirm, true);
            return Ok(());
        };
        match self.add(queues, &prepared.routed(message, link.address), link) {
            Ok(is_taken) => self.note(confirm, is_taken),
            Err(refusal) if confirm.is_none() => return Err(refusal.into()),
            Err(_) => {
                link.broker.metrics().publish_refused.add(1);
                self.note(confirm, false);
            }
        }
        Ok(())
    }

    /// Adds a message to the pass; whether its queues take it.
    fn add(&mut self, queues: &[Arc<MessageQueue>], routed: &RoutedMessage<'_>, link: &Link) -> Result<bool, Refusal> {
        let model = &link.broker.model;
        let batch = match &mut self.batch {
            Some(batch) => batch,
            none => {
                // Whoever forbids it meanwhile does so from the next pass on.
                may_write(link)?;
                none.insert(model.begin_batch(self.expected_size, link.now))
            }
        };
        model.add(batch, queues, routed)
    }

    /// Whether a message of a transaction may be published.
    pub(super) fn check(&mut self, message: &Message<'_>, link: &mut Link) -> Result<(), Fault> {
        self.block_if_refused(link);
        match self.prepare(message, link)?.way {
            Way::Queues(_) => Ok(may_write(link)?),
            Way::Reply | Way::Nowhere => Ok(()),
        }
    }

    /// Has messages wait if there is no space for them. What is in the pass already is tried.
    fn block_if_refused(&mut self, link: &mut Link) {
        if self.blocked.is_none()
            && let Some(why) = link.broker.durability.lacks_space()
        {
            self.blocked = Some(Box::new(Blocked::begin(&format!("low on disk: {why}"), link)));
        }
    }

    /// Publishes what has waited, as far as the log takes it now.
    pub(super) fn resume(&mut self, link: &mut Link) {
        let Some(mut blocked) = self.blocked.take() else { return };
        while !self.is_held(link) && link.broker.durability.lacks_space().is_none() {
            let Some(first) = blocked.take_first() else { return blocked.end(link) };
            self.begin_pass(blocked.size() + first.message.size());
            let mut next = Some(first);
            while let Some(WaitingMessage { message, from, confirm }) = next {
                if let Err(fault) = self.take(&message.message(), from, confirm, link)
                    && let Some(from) = from
                {
                    blocked.discard(from);
                    link.fail_later(from.channel, fault.by(PUBLISH));
                }
                next = if self.is_full() { None } else { blocked.take_first() };
            }
            if let Err(fault) = self.end_pass(link) {
                link.fail_later(0, fault);
            }
        }
        blocked.look_later(link.now.monotonic);
        self.blocked = Some(blocked);
    }

    /// Whether the log takes no messages.
    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// What has to wait, if the log takes no messages.
    pub(super) fn blocked(&mut self) -> Option<&mut Blocked> {
        self.blocked.as_deref_mut()
    }

    /// The connection ends: what waits was promised to nobody.
    pub(super) fn give_up(&mut self) {
        self.blocked = None;
    }

    /// Finds out where a message goes, and whether it may.
    fn prepare<'a>(&mut self, message: &Message<'a>, link: &mut Link) -> Result<Prepared<'a>, Fault> {
        let said = Said::by(message, link)?;
        if message.exchange.is_empty() && Replies::is_address(message.key) {
            link.check(Right::Write, "exchange", DEFAULT_EXCHANGE)?;
            return Ok(said.prepared(message, Way::Reply));
        }
        let queues = self.queues_for(message, &said, link)?;
        Ok(said.prepared(message, if queues.is_empty() { Way::Nowhere } else { Way::Queues(queues) }))
    }

    fn note(&mut self, confirm: Option<(ConfirmTo, u64)>, is_taken: bool) {
        self.has_unconfirmed |= confirm.is_none();
        self.confirms.extend(confirm.map(|(to, tag)| Confirm { to, what: Kept::Message(tag), is_taken }));
    }

    /// The queues that get a message, if its exchange may be used.
    fn queues_for(
        &mut self,
        message: &Message<'_>,
        said: &Said<'_>,
        link: &mut Link,
    ) -> Result<Arc<[Arc<MessageQueue>]>, Fault> {
        let route = self.route(message, link)?;
        if said.copies.keys.is_empty() && !route.by_headers {
            return Ok(route.queues);
        }
        for key in &said.copies.keys {
            link.check_key(Right::Write, message.exchange, key)?;
        }
        let headers = HeaderTable(said.properties.headers.unwrap_or_default());
        let keys = [&[message.key][..], &said.copies.keys].concat();
        let mut queues = Vec::new();
        link.login()?.host.route(message.exchange, &keys, Some(&headers), &mut queues);
        Ok(queues.into())
    }

    /// Looks the exchange and the key up; what was looked up before is known.
    fn route(&mut self, message: &Message<'_>, link: &mut Link) -> Result<Route, Fault> {
        let generations = (link.login()?.host.generation(), link.broker.model.access.generation());
        if let Some(known) = self.routes.get(message.exchange, message.key, generations) {
            return Ok(known);
        }
        let route = find_route(message, link)?;
        self.routes.put(&route, link.now.monotonic);
        Ok(route)
    }

    /// Has a transaction done: its messages and what it settles go into the log together, and it is answered when they are kept. An error:
    /// nothing was done.
    pub(super) fn commit(
        &mut self,
        messages: &[Message<'_>],
        settling: &[Settling],
        to: ConfirmTo,
        link: &mut Link,
    ) -> Result<(), Fault> {
        self.end_pass(link)?;
        let prepared = messages.iter().map(|message| self.prepare(message, link)).collect::<Result<Vec<_>, _>>()?;
        let size = messages.iter().map(|message| message.header.len() + message.body.len()).sum();
        let mut batch = link.broker.model.begin_batch(size, link.now);
        for (message, prepared) in messages.iter().zip(&prepared) {
            let Way::Queues(queues) = &prepared.way else { continue };
            may_write(link)?;
            if !link.broker.model.add(&mut batch, queues, &prepared.routed(message, link.address))? {
                return Err(Fault::precondition("partial tx completion: a queue has no room, and nothing was stored"));
            }
            link.check_transaction_size(batch.size())?;
        }
        let ack_policy = batch.ack_policy();
        let end = link.broker.model.commit(batch, settling, link.now)?;
        self.end = self.end.max(end);
        for (message, prepared) in messages.iter().zip(&prepared) {
            send_elsewhere(message, prepared, to.channel, link);
        }
        let confirm = Confirm { to, what: Kept::Transaction, is_taken: true };
        self.waiting.confirm_when_kept((ack_policy, end), vec![confirm], link);
        Ok(())
    }

    /// Puts what the pass has gathered into the log; confirms wait for it. An error: it was not taken, and not all hear that by a confirm.
    pub(super) fn end_pass(&mut self, link: &mut Link) -> Result<(), Fault> {
        let mut confirms = std::mem::take(&mut self.confirms);
        let batch = self.batch.take().filter(|batch| !batch.is_empty());
        let has_unconfirmed = std::mem::take(&mut self.has_unconfirmed);
        let (mut end, mut ack_policy) = (LogOffset(0), AckPolicy::WRITTEN);
        if let Some(batch) = batch {
            ack_policy = batch.ack_policy();
            match link.broker.model.append(batch, link.now) {
                Ok(published) => (end, self.end) = (published.end(), published.end()),
                Err(refusal) if has_unconfirmed => return Err(refusal.into()),
                Err(_) => confirms.iter_mut().for_each(|confirm| confirm.is_taken = false),
            }
        }
        if !confirms.is_empty() {
            self.waiting.confirm_when_kept((ack_policy, end), confirms, link);
        }
        Ok(())
    }

    /// Whether the client is not to be read.
    pub(super) fn holds_up(&self, link: &Link) -> bool {
        self.blocked.as_ref().map_or_else(|| self.is_held(link), |blocked| blocked.is_full(link))
    }

    /// Whether more has to wait: the connection has had its share, and the log is behind.
    fn is_held(&self, link: &Link) -> bool {
        let durability = &link.broker.durability;
        durability.is_behind() && !durability.is_kept(AckPolicy::WRITTEN, self.end)
    }

    /// Has the session woken when the log may no longer be behind. While it is, the client is not read; if that takes long, messages wait
    /// apart, and the client is heard again.
    pub(super) fn watch_log(&mut self, link: &mut Link) {
        if !self.is_held(link) {
            self.behind_since = None;
            return;
        }
        let durability = &link.broker.durability;
        if durability.is_kept(AckPolicy::WRITTEN, self.watched) {
            self.watched = durability.when_caught_up(&link.mailbox.waker());
        }
        let now = link.now.monotonic;
        let since = *self.behind_since.get_or_insert(now);
        if self.blocked.is_none() && since.plus_ms(blocked::PATIENCE_MS) <= now {
            let reason = "low on memory: messages come faster than the log's disk takes them";
            self.blocked = Some(Box::new(Blocked::begin(reason, link)));
        }
    }

    /// When something is to be done whatever comes: replicas have been waited for long enough, routes are forgotten, or it is looked how
    /// the log is.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        let log = match &self.blocked {
            Some(blocked) => Some(blocked.deadline()),
            None => self.behind_since.map(|since| since.plus_ms(blocked::PATIENCE_MS)),
        };
        self.waiting.deadline().into_iter().chain(self.routes.deadline()).chain(log).min()
    }

    /// Bytes of what waits and of what is remembered.
    pub(super) fn size(&self) -> usize {
        self.waiting.size() + self.routes.size() + self.blocked.as_ref().map_or(0, |blocked| blocked.size())
    }

    /// A channel is gone: nobody hears of its messages any more.
    pub(super) fn forget(&mut self, to: ConfirmTo) {
        self.confirms.retain(|confirm| confirm.to != to);
        self.waiting.forget(to);
        if let Some(blocked) = &mut self.blocked {
            blocked.forget(to);
        }
    }
}

/// Refused while an administrator lets nobody write.
fn may_write(link: &Link) -> Result<(), Refusal> {
    link.broker.running.check_write(&link.broker.options().broker_name)
}

fn find_route(message: &Message<'_>, link: &mut Link) -> Result<Route, Fault> {
    let Message { exchange, key, .. } = *message;
    let shown = if exchange.is_empty() { DEFAULT_EXCHANGE } else { exchange };
    link.check(Right::Write, "exchange", shown)?;
    let host = &link.login()?.host;
    if !exchange.is_empty() && host.exchange(exchange)?.internal {
        let (exchange, host) = (Shown(exchange), host.name());
        return Err(Fault::refused(format!("cannot publish to internal exchange '{exchange}' in vhost '{host}'")));
    }
    link.check_key(Right::Write, exchange, key)?;
    let host = &link.login()?.host;
    let by_headers = host.depends_on_headers(exchange);
    let mut queues = Vec::new();
    if !by_headers {
        host.route(exchange, &[key], None, &mut queues);
    }
    Ok(Route { queues: queues.into(), by_headers })
}

/// A message that no queue gets: it is a direct reply, or goes back to who wants to know that.
fn send_elsewhere(message: &Message<'_>, prepared: &Prepared<'_>, channel: u16, link: &mut Link) {
    let is_taken = match &prepared.way {
        Way::Queues(_) => true,
        Way::Reply => link.options.replies.send(message),
        Way::Nowhere => false,
    };
    if is_taken || !message.mandatory {
        return;
    }
    let method = Return {
        reply_code: code::NO_ROUTE,
        reply_text: ShortString::cut(b"NO_ROUTE"),
        exchange: ShortString::cut(message.exchange),
        routing_key: ShortString::cut(message.key),
    };
    link.send(channel, method);
    link.send_content(channel, message.header, message.body, None);
}
