//! What a channel is asked for, but for exchanges, queues and bindings, which are `topology`'s.

use std::collections::VecDeque;
use std::sync::Arc;

use broker::{MessageQueue, Right};
use bytes::Bytes;
use wire::amqp::argument::ShortString;
use wire::amqp::frame::Frame;
use wire::amqp::method::Method;
use wire::amqp::method::basic::{
    ConfirmSelectOk, Deliver, Get, Publish, Qos, QosOk, RecoverOk, TxRollbackOk, TxSelectOk,
};
use wire::amqp::method::connection::{AccessRequestOk, ChannelCloseOk, FlowOk};

use super::channel::Channel;
use super::consume::{self, Look, Read, Reader};
use super::content::Progress;
use super::error::{Fault, code};
use super::kept::KeptMessage;
use super::link::{Done, Link, Login};
use super::prepared::Message;
use super::publish::Publishing;
use super::replies::Reply;
use super::settle::{self, Settle};
use super::stream::{self, Streamed};
use super::topology::{self, Topology};
use super::transaction::Transaction;
use super::unfinished::Unfinished;

/// What all channels of a connection work with.
pub(super) struct Core {
    pub(super) link: Link,
    pub(super) publishing: Publishing,
    pub(super) unfinished: Unfinished,
    /// Consumers that may find messages now.
    pub(super) ready: VecDeque<u64>,
    /// A job is under way that what comes next has to wait for.
    pub(super) is_paused: bool,
    pub(super) last_consumer: u64,
    /// Bytes of all consumers.
    pub(super) consumers_size: usize,
}

/// The channel of a consumer, by its number.
pub(super) const fn channel_of(consumer: u64) -> u16 {
    (consumer >> 48) as u16
}

impl Core {
    pub(super) fn new(link: Link) -> Self {
        let (publishing, unfinished, ready) = (Publishing::default(), Unfinished::default(), VecDeque::new());
        Self { link, publishing, unfinished, ready, is_paused: false, last_consumer: 0, consumers_size: 0 }
    }

    /// Takes a method of an open channel. `payload` is what the method came in.
    pub(super) fn act(&mut self, channel: &mut Channel, method: &Method<'_>, payload: &[u8]) -> Result<(), Fault> {
        if let Method::Publish(publish) = method {
            return begin_message(channel, publish);
        }
        if topology::is_about_topology(method) {
            self.publishing.end_pass(&mut self.link)?;
            return self.carry_out(channel, payload);
        }
        let number = channel.number;
        match method {
            Method::Ack(ack) => self.settle(channel, (ack.delivery_tag, ack.multiple), Settle::Done)?,
            Method::Reject(reject) => self.settle(channel, (reject.delivery_tag, false), requeue(reject.requeue))?,
            Method::Nack(nack) => {
                self.settle(channel, (nack.delivery_tag, nack.multiple), requeue(nack.requeue))?;
            }
            Method::Qos(qos) => self.limit(channel, qos)?,
            Method::Consume(consume) => self.consume(channel, consume)?,
            Method::Cancel(cancel) => self.cancel(channel, cancel),
            Method::Get(get) => self.get(channel, get)?,
            Method::Recover(recover) => {
                self.recover(channel, recover.requeue)?;
                self.link.send(number, RecoverOk {});
            }
            Method::RecoverAsync(recover) => self.recover(channel, recover.requeue)?,
            Method::ConfirmSelect(select) => {
                if channel.transaction.is_some() {
                    return Err(Fault::precondition("cannot switch from tx to confirm mode"));
                }
                channel.confirmed.get_or_insert(0);
                if !select.no_wait {
                    self.link.send(number, ConfirmSelectOk {});
                }
            }
            Method::TxSelect(_) => {
                if channel.confirmed.is_some() {
                    return Err(Fault::precondition("cannot switch from confirm to tx mode"));
                }
                channel.transaction.get_or_insert_default();
                self.link.send(number, TxSelectOk {});
            }
            Method::TxCommit(_) => self.commit(channel)?,
            Method::TxRollback(_) => {
                let Transaction { settlements, .. } = take_transaction(channel)?;
                channel.unacked.put_back(settlements.into_iter().flat_map(|settlement| settlement.delivered));
                self.link.send(number, TxRollbackOk {});
            }
            Method::Flow(flow) if flow.active => self.link.send(number, FlowOk { active: true }),
            Method::Flow(_) => return Err(Fault::not_implemented("active=false")),
            Method::AccessRequest(_) => self.link.send(number, AccessRequestOk { ticket: 1 }),
            _ => return Err(Fault::new(code::COMMAND_INVALID, format!("unexpected {}", method.name()))),
        }
        Ok(())
    }

    /// Takes a frame of a message's content.
    pub(super) fn take_content(&mut self, channel: &mut Channel, frame: &Frame<'_>) -> Result<(), Fault> {
        let before = channel.incoming.announced();
        let taken = channel.incoming.take(frame, self.link.broker.running.message_size_max() as u64);
        self.unfinished.changes(before, channel.incoming.announced(), self.link.now.monotonic);
        match taken? {
            Progress::Partial => return Ok(()),
            Progress::Whole(body) => self.take_message(channel, body)?,
            Progress::Gathered => {
                let body = std::mem::take(&mut channel.incoming.body);
                self.take_message(channel, &body)?;
            }
        }
        channel.incoming.end();
        Ok(())
    }

    /// Takes the message that has come on a channel.
    fn take_message(&mut self, channel: &mut Channel, body: &[u8]) -> Result<(), Fault> {
        let (from, confirm) = (channel.confirm_to(), channel.next_confirm());
        let incoming = &channel.incoming;
        let message = Message {
            exchange: &incoming.exchange,
            key: &incoming.key,
            mandatory: incoming.mandatory,
            header: &incoming.header,
            body,
            reply_address: channel.replies.as_ref().map(|replies| &*replies.address),
        };
        if let Some(transaction) = &mut channel.transaction {
            self.publishing.check(&message, &mut self.link)?;
            transaction.keep(&message);
            return self.link.check_transaction_size(transaction.messages_size());
        }
        self.publishing.publish(&message, from, confirm, &mut self.link)
    }

    /// Has a method of exchanges or queues carried out by a job; what comes next waits for it.
    fn carry_out(&mut self, channel: &Channel, payload: &[u8]) -> Result<(), Fault> {
        let link = &mut self.link;
        let (broker, mailbox, who, now) = (link.broker.clone(), link.mailbox.clone(), link.number, link.now);
        let (user, host) = {
            let login = link.login()?;
            (login.user.clone(), login.host.clone())
        };
        let login = Login::new(user, host, &broker);
        let (number, last_queue) = (channel.number, channel.last_queue.clone());
        let replies = link.options.replies.clone();
        let topology = Topology { broker, login, mailbox, replies, who, now, channel: number, last_queue };
        let payload = Bytes::copy_from_slice(payload);
        self.is_paused = true;
        link.run_job(payload.len(), move || Done::Carried(topology.carry_out(&payload)));
        Ok(())
    }

    fn settle(&mut self, channel: &mut Channel, which: (u64, bool), how: Settle) -> Result<(), Fault> {
        let settlement = settle::take(channel, which, how)?;
        if let Some(transaction) = &mut channel.transaction {
            transaction.settle(settlement);
            return Ok(());
        }
        self.ready.extend(settle::carry_out(channel, &settlement, &mut self.link));
        Ok(())
    }

    fn recover(&mut self, channel: &mut Channel, requeue: bool) -> Result<(), Fault> {
        if !requeue {
            return Err(Fault::not_implemented("requeue=false"));
        }
        let settlement = settle::take_all(channel);
        self.ready.extend(settle::carry_out(channel, &settlement, &mut self.link));
        Ok(())
    }

    fn limit(&mut self, channel: &mut Channel, qos: &Qos) -> Result<(), Fault> {
        if qos.prefetch_size != 0 {
            return Err(Fault::not_implemented(format!("prefetch_size!=0 ({})", qos.prefetch_size)));
        }
        let most = u32::from(qos.prefetch_count);
        if qos.global {
            channel.shared_prefetch = most
        } else {
            channel.prefetch = most
        }
        self.ready.extend(channel.consumers.take_stalled());
        self.link.send(channel.number, QosOk {});
        Ok(())
    }

    /// A queue that messages are wanted of.
    pub(super) fn queue_of(
        &mut self,
        channel: &mut Channel,
        name: ShortString<'_>,
    ) -> Result<Arc<MessageQueue>, Fault> {
        let name = topology::named_or_last(name, channel.last_queue.as_ref())?;
        self.link.check(Right::Read, "queue", &name)?;
        let who = self.link.number;
        Ok(self.link.login()?.host.queue(&name, who)?)
    }

    /// Delivers a direct reply, or loses it if the client does not take what it has.
    pub(super) fn deliver_reply(&mut self, channel: &mut Channel, reply: &Reply) {
        let Some(consumer) = channel.replies.as_ref().filter(|_| self.link.has_room_for_deliveries()) else { return };
        let method = Deliver {
            consumer_tag: ShortString::cut(&consumer.tag),
            delivery_tag: channel.unacked.next_tag(),
            routing_key: ShortString::cut(&reply.key),
            ..Deliver::default()
        };
        self.link.send(channel.number, method);
        self.link.send_content(channel.number, &reply.header, &reply.body, None);
    }

    fn get(&mut self, channel: &mut Channel, get: &Get<'_>) -> Result<(), Fault> {
        let queue = self.queue_of(channel, get.queue)?;
        stream::check_is_none(&queue, "basic.get")?;
        if queue.rules().is_single_active {
            let (name, host) = (broker::Shown(queue.name()), queue.host());
            let text = format!(
                "cannot obtain access to locked queue '{name}' in vhost '{host}'. basic.get operations are not supported on queues with single active consumer"
            );
            return Err(Fault::new(code::RESOURCE_LOCKED, text));
        }
        if !get.no_ack {
            channel.check_credit(self.link.budget.room())?;
        }
        self.publishing.end_pass(&mut self.link)?;
        queue.note_used(self.link.now.monotonic);
        self.is_paused = !consume::get(channel, &queue, get.no_ack, &mut self.link)?;
        Ok(())
    }

    /// Has what waits for the commit done: all of it goes into the log together, or nothing does.
    fn commit(&mut self, channel: &mut Channel) -> Result<(), Fault> {
        let Transaction { messages, settlements, .. } = take_transaction(channel)?;
        let settling = settle::settled_by(&settlements, channel.owner);
        let messages: Vec<_> = messages.iter().map(KeptMessage::message).collect();
        let committed = self.publishing.commit(&messages, &settling, channel.confirm_to(), &mut self.link);
        if let Err(fault) = committed {
            // They come again with all else that the channel has.
            channel.unacked.put_back(settlements.into_iter().flat_map(|settlement| settlement.delivered));
            return Err(fault);
        }
        for settlement in &settlements {
            self.ready.extend(settle::carry_out(channel, settlement, &mut self.link));
        }
        Ok(())
    }

    /// Goes on with messages that a job has read.
    pub(super) fn take_read(&mut self, channel: Option<&mut Channel>, mut read: Box<Read>) -> Result<(), Fault> {
        let mut channel = channel.filter(|channel| channel.serial == read.serial && !channel.is_closing);
        if matches!(read.result, Ok(false)) && channel.as_mut().is_some_and(|channel| read.is_awaited(channel)) {
            consume::go_on_reading(read, &mut self.link);
            return Ok(());
        }
        if matches!(read.reader, Reader::Get { .. }) {
            self.is_paused = false;
        }
        let Some(channel) = channel else { return Ok(()) };
        self.ready.extend(channel.take_back(read.promised));
        let Some(hand_out) = read.hand_out.take() else { return Ok(()) };
        match read.reader {
            Reader::Consumer(number) => {
                if let Some(consumer) = channel.consumers.get(number) {
                    consumer.is_reading = false;
                }
                let look = consume::deliver_to(channel, number, &read.queue, hand_out, &mut self.link);
                if look == Look::Again {
                    self.ready.push_back(number);
                }
            }
            Reader::Get { no_ack } => {
                if let (Err(refusal), 0) = (&read.result, hand_out.count()) {
                    return Err(refusal.clone().into());
                }
                consume::answer_get(channel, &read.queue, no_ack, hand_out, &mut self.link);
            }
        }
        Ok(())
    }

    /// Goes on with messages of a stream that a job has read.
    pub(super) fn take_streamed(&mut self, channel: Option<&mut Channel>, read: Streamed) -> Result<(), Fault> {
        let Some(channel) = channel.filter(|channel| channel.serial == read.asked.serial && !channel.is_closing) else {
            return Ok(());
        };
        let (number, promised) = (read.asked.consumer, read.asked.promised);
        let Some(result) = stream::go_on(channel, read, &mut self.link) else { return Ok(()) };
        self.ready.extend(channel.take_back(promised));
        if stream::take(channel, number, result, &mut self.link) == Look::Again {
            self.ready.push_back(number);
        }
        Ok(())
    }

    /// Reads that were not begun and that nobody waits for any more: what they have taken goes back.
    pub(super) fn end_reads(&mut self, channel: &mut Channel, is_gone: impl Fn(u64) -> bool) {
        for done in self.link.jobs.end_reads(is_gone) {
            let promised = match &done {
                Done::Read(read) => read.promised,
                Done::Streamed(read) => read.asked.promised,
                Done::Carried(_) | Done::Nothing => 0,
            };
            if matches!(&done, Done::Read(read) if matches!(read.reader, Reader::Get { .. })) {
                self.is_paused = false;
            }
            self.ready.extend(channel.take_back(promised));
        }
    }

    /// A channel is gone: others get what it had.
    pub(super) fn close_channel(&mut self, channel: &mut Channel) {
        // Before the next of its consumers' queues is told that it may take: what comes again comes first.
        let number = channel.number;
        self.end_reads(channel, |reader| channel_of(reader) == number);
        let transaction = channel.transaction.take().unwrap_or_default();
        channel.unacked.put_back(transaction.settlements.into_iter().flat_map(|settlement| settlement.delivered));
        let settlement = settle::take_all(channel);
        settle::carry_out(channel, &settlement, &mut self.link);
        for consumer in channel.consumers.take_all() {
            self.leave(*consumer);
        }
        self.publishing.forget(channel.confirm_to());
        channel.replies = None;
        self.unfinished.ends(channel.incoming.announced());
        channel.incoming = super::content::Incoming::default();
    }

    /// A channel was closed by its client.
    pub(super) fn answer_close(&mut self, number: u16) {
        self.link.send(number, ChannelCloseOk {});
    }
}

const fn requeue(is_wanted: bool) -> Settle {
    if is_wanted { Settle::Requeue } else { Settle::Reject }
}

fn begin_message(channel: &mut Channel, publish: &Publish<'_>) -> Result<(), Fault> {
    if publish.immediate {
        return Err(Fault::not_implemented("immediate=true"));
    }
    channel.incoming.begin(publish);
    Ok(())
}

/// What waits on the channel; others wait for the next commit.
fn take_transaction(channel: &mut Channel) -> Result<Transaction, Fault> {
    let transaction = channel.transaction.as_mut();
    transaction.map(std::mem::take).ok_or_else(|| Fault::precondition("channel is not transactional"))
}
