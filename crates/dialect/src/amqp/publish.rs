//! Messages on their way in: routed, gathered into one batch a pass, and confirmed when they are kept.
//!
//! **Always holds**: confirms of a channel leave in the order in which its messages came, so that one may stand for all before it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::limits::PUBLISH_BATCH_SIZE_MAX;
use base::offset::AckPolicy;
use base::{LogOffset, Monotonic};
use broker::{MessageQueue, PublishBatch, Right, Settling, Shown};
use wire::amqp::argument::ShortString;
use wire::amqp::method::basic::{Ack, Nack, Return, TxCommitOk};

use super::error::{Fault, code};
use super::headers::HeaderTable;
use super::link::Link;
use super::prepared::{Message, Prepared, Said, Way};
use super::replies::Replies;

/// Routes of messages that a connection remembers.
const ROUTES_MAX: usize = 1024;

/// Where confirms of a channel go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfirmTo {
    /// The channel's number.
    pub(super) channel: u16,
    /// No other channel of the connection is or was this one.
    pub(super) serial: u64,
}

/// What a channel is to be told once something is kept.
#[derive(Clone, Copy, Debug)]
struct Confirm {
    to: ConfirmTo,
    what: Kept,
    /// Whether it was stored for every queue that it goes to.
    is_taken: bool,
}

/// What is kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// The message of that number.
    Message(u64),
    /// A transaction.
    Transaction,
}

/// Confirms that wait for a watermark.
#[derive(Debug)]
struct Waiting {
    end: LogOffset,
    ack_policy: AckPolicy,
    confirms: Vec<Confirm>,
    /// Until when replicas are waited for.
    deadline: Monotonic,
}

/// Where messages of a key go, and what has to be looked at for each.
#[derive(Clone, Debug)]
struct Route {
    queues: Arc<[Arc<MessageQueue>]>,
    /// The queues depend on more than the key.
    by_headers: bool,
}

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
    waiting: VecDeque<Waiting>,
    /// By exchange and key, as of these generations.
    routes: HashMap<Box<[u8]>, Route>,
    generations: (u64, u64),
    /// Exchange and key of the last, as they are looked up.
    place: Vec<u8>,
    last: Option<Route>,
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

    /// Takes a message into the pass. Returns go to `channel`.
    pub(super) fn publish(
        &mut self,
        message: &Message<'_>,
        channel: u16,
        confirm: Option<(ConfirmTo, u64)>,
        link: &mut Link,
    ) -> Result<(), Fault> {
        let prepared = self.prepare(message, link)?;
        let Way::Queues(queues) = &prepared.way else {
            send_elsewhere(message, &prepared, channel, link);
            self.note(confirm, true);
            return Ok(());
        };
        let (model, expected_size, now) = (&link.broker.model, self.expected_size, link.now);
        let batch = self.batch.get_or_insert_with(|| model.begin_batch(expected_size, now));
        match model.add(batch, queues, &prepared.routed(message, link.address)) {
            Ok(is_taken) => self.note(confirm, is_taken),
            Err(refusal) if confirm.is_none() => return Err(refusal.into()),
            Err(_) => {
                link.broker.metrics().publish_refused.add(1);
                self.note(confirm, false);
            }
        }
        Ok(())
    }

    /// Whether a message may be published.
    pub(super) fn check(&mut self, message: &Message<'_>, link: &mut Link) -> Result<(), Fault> {
        self.prepare(message, link).map(drop)
    }

    /// Finds out where a message goes, and whether it may.
    fn prepare<'a>(&mut self, message: &Message<'a>, link: &mut Link) -> Result<Prepared<'a>, Fault> {
        let said = Said::by(message, link)?;
        if message.exchange.is_empty() && Replies::is_address(message.key) {
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
        if generations != self.generations {
            self.routes.clear();
            (self.last, self.generations) = (None, generations);
        }
        let is_last = self.place.split_first().is_some_and(|(length, place)| {
            usize::from(*length) == message.exchange.len()
                && place.split_at_checked(message.exchange.len()) == Some((message.exchange, message.key))
        });
        if let Some(last) = self.last.as_ref().filter(|_| is_last) {
            return Ok(last.clone());
        }
        self.place.clear();
        self.place.push(message.exchange.len() as u8);
        self.place.extend_from_slice(message.exchange);
        self.place.extend_from_slice(message.key);
        self.last = self.routes.get(&*self.place).cloned();
        if let Some(known) = &self.last {
            return Ok(known.clone());
        }
        let route = find_route(message, link)?;
        if self.routes.len() >= ROUTES_MAX {
            self.routes.clear();
        }
        self.routes.insert(self.place.as_slice().into(), route.clone());
        self.last = Some(route.clone());
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
        self.confirm_when_kept((ack_policy, end), vec![confirm], link);
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
            self.confirm_when_kept((ack_policy, end), confirms, link);
        }
        Ok(())
    }

    fn confirm_when_kept(
        &mut self,
        (ack_policy, end): (AckPolicy, LogOffset),
        confirms: Vec<Confirm>,
        link: &mut Link,
    ) {
        let deadline = link.now.monotonic.plus_ms(link.options.replica_timeout_ms);
        self.waiting.push_back(Waiting { end, ack_policy, confirms, deadline });
        self.release(link);
        if self.waiting.back().is_some_and(|last| last.end == end) {
            link.broker.durability.when(ack_policy, end, &link.mailbox.waker());
        }
    }

    /// Confirms what is kept as it was promised, or never will be.
    pub(super) fn release(&mut self, link: &mut Link) {
        while let Some(first) = self.waiting.front() {
            let durability = &link.broker.durability;
            let is_kept = durability.is_kept(first.ack_policy, first.end);
            let kept_here = AckPolicy { replicated: false, ..first.ack_policy };
            let is_over = first.ack_policy.replicated
                && (first.deadline <= link.now.monotonic || !durability.replicas().are_in_reach(first.end))
                && durability.is_kept(kept_here, first.end);
            if !is_kept && !is_over && durability.poisoned().is_none() {
                let now = link.now.monotonic;
                let Some(first) = self.waiting.front_mut().filter(|first| first.deadline <= now) else { return };
                // Replicas were given their time, the disk was not: its watermark wakes the session.
                first.deadline = now.plus_ms(link.options.replica_timeout_ms.max(1));
                return;
            }
            let Some(first) = self.waiting.pop_front() else { return };
            send_confirms(&first.confirms, is_kept, link);
        }
    }

    /// Whether more has to wait: the connection has had its share, and the log is behind.
    pub(super) fn is_held(&self, link: &Link) -> bool {
        let durability = &link.broker.durability;
        durability.is_behind() && !durability.is_kept(AckPolicy::WRITTEN, self.end)
    }

    /// Has the session woken when the log may no longer be behind.
    pub(super) fn watch_log(&mut self, link: &Link) {
        let durability = &link.broker.durability;
        if self.is_held(link) && durability.is_kept(AckPolicy::WRITTEN, self.watched) {
            self.watched = durability.when_caught_up(&link.mailbox.waker());
        }
    }

    /// When replicas have been waited for long enough.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.waiting.front().filter(|first| first.ack_policy.replicated).map(|first| first.deadline)
    }

    /// Whether confirms are owed.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Bytes of what waits.
    pub(super) fn size(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.confirms.len() * size_of::<Confirm>()).sum()
    }

    /// A channel is gone: nobody hears of its messages any more.
    pub(super) fn forget(&mut self, to: ConfirmTo) {
        self.confirms.retain(|confirm| confirm.to != to);
        self.waiting.iter_mut().for_each(|waiting| waiting.confirms.retain(|confirm| confirm.to != to));
    }
}

/// Confirms in their order; one stands for all that come one behind the other.
fn send_confirms(confirms: &[Confirm], is_kept: bool, link: &mut Link) {
    let is_taken = |confirm: &Confirm| is_kept && confirm.is_taken;
    for run in confirms.chunk_by(|one, other| one.to == other.to && is_taken(one) == is_taken(other)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let (channel, multiple) = (last.to.channel, run.len() > 1);
        match last.what {
            Kept::Message(delivery_tag) if is_taken(first) => link.send(channel, Ack { delivery_tag, multiple }),
            Kept::Message(delivery_tag) => link.send(channel, Nack { delivery_tag, multiple, requeue: false }),
            Kept::Transaction if is_taken(first) => link.send(channel, TxCommitOk {}),
            Kept::Transaction => link.fail_later(channel, "the transaction was not kept"),
        }
    }
}

fn find_route(message: &Message<'_>, link: &mut Link) -> Result<Route, Fault> {
    let Message { exchange, key, .. } = *message;
    let shown = if exchange.is_empty() { &b"amq.default"[..] } else { exchange };
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
