//! Messages on their way out: to consumers as fast as these settle them, or one by one to who asks.

use std::sync::Arc;

use base::{Now, Refusal, Timestamp};
use broker::lease::Owner;
use broker::{Broker, Expiry, Filter, HandOut, Holder, MessageQueue, Seat, Taker, Wanted, Wish};
use format::model::{QueueKind, Text};
use format::record;
use format::routed::Routed;
use wire::amqp::argument::ShortString;
use wire::amqp::method::Method;
use wire::amqp::method::basic::{Deliver, GetEmpty, GetOk};

use super::channel::Channel;
use super::error::Fault;
use super::giving_up::GivingUp;
use super::headers::with_delivery_count;
use super::link::{Done, Link, READ_SIZE_MAX};
use super::stream::{self, StreamReader};
use super::unacked::Delivered;
use crate::jobs::Begun;

/// Messages that are handed out at once: another channel's turn comes soon.
pub(super) const COUNT_MAX: u32 = 256;

/// Who gets messages of a queue.
pub(super) struct Consumer {
    /// No other of the connection is or was this one.
    pub(super) number: u64,
    /// What it takes, bytes.
    pub(super) size: usize,
    pub(super) tag: Text,
    pub(super) queue: Arc<MessageQueue>,
    /// Where it sits there.
    pub(super) seat: Seat,
    pub(super) no_ack: bool,
    /// Messages that it may have unsettled; 0: any number.
    pub(super) prefetch: u32,
    pub(super) priority: i32,
    /// Messages that it has not settled.
    pub(super) unsettled: u32,
    /// It waits for its own settlements, and at no lane.
    pub(super) is_stalled: bool,
    /// A job reads messages for it.
    pub(super) is_reading: bool,
    /// Where it waits.
    pub(super) takers: Vec<Taker>,
    /// How it reads a stream, if its queue is one.
    pub(super) stream: Option<StreamReader>,
    /// Since when it takes what is there, if it does.
    pub(super) has_room_since: Option<Timestamp>,
}

/// For whom messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A consumer, by its number.
    Consumer(u64),
    /// Who has asked for one.
    Get {
        /// Whether it is settled at once.
        no_ack: bool,
    },
}

/// Messages that a job has read.
pub(super) struct Read {
    pub(super) channel: u16,
    pub(super) serial: u64,
    pub(super) owner: Owner,
    pub(super) queue: Arc<MessageQueue>,
    pub(super) reader: Reader,
    /// Messages that its channel counts as given meanwhile.
    pub(super) promised: u32,
    /// `None`: it was taken.
    pub(super) hand_out: Option<HandOut>,
    /// Whether all was read; else there has to be more room for it.
    pub(super) result: Result<bool, Refusal>,
}

impl Read {
    /// Whether there is still somebody in its channel for whom it is.
    pub(super) fn is_awaited(&self, channel: &mut Channel) -> bool {
        match self.reader {
            Reader::Consumer(number) => channel.consumers.get(number).is_some(),
            Reader::Get { .. } => true,
        }
    }

    /// Reads up to `size` bytes. Waits for the disk.
    fn go_on(&mut self, size: usize, (broker, giving_up): (&Broker, &GivingUp), now: Now) {
        let Some(hand_out) = &mut self.hand_out else { return };
        self.result = broker.leasing.hand_out(hand_out, size, now);
        // Who asks for one is told that there is none when that is so; a consumer looks again by itself.
        while matches!(self.reader, Reader::Get { .. }) && matches!(self.result, Ok(true)) && hand_out.is_cut_short() {
            giving_up.give_up(&self.queue, hand_out.take_doomed(), broker, now);
            *hand_out = HandOut::of(hand_out.wanted().clone());
            self.result = broker.leasing.hand_out(hand_out, size, now);
        }
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        // The channel or the whole connection has gone meanwhile.
        if let Some(hand_out) = &self.hand_out {
            return_all(self.owner, hand_out);
        }
    }
}

/// What a look for messages led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There may be more at once.
    Again,
    /// It is told when there is more, or has to settle first, or is gone.
    Waits,
}

impl Consumer {
    /// How many messages it may be given now.
    pub(super) fn credit(&self, of_channel: u32) -> u32 {
        if self.no_ack {
            return COUNT_MAX;
        }
        let own = if self.prefetch == 0 { u32::MAX } else { self.prefetch.saturating_sub(self.unsettled) };
        own.min(of_channel).min(COUNT_MAX)
    }

    /// It takes what is there.
    fn note_room(&mut self, now: Timestamp) {
        if self.has_room_since.is_none() {
            self.has_room_since = Some(now);
            self.seat.note_room(true);
        }
    }

    /// It does not take what is there: others get that.
    pub(super) fn step_aside(&mut self) {
        if self.has_room_since.take().is_some() {
            self.seat.note_room(false);
            self.queue.tell_lower();
        }
        self.takers.clear();
    }

    fn wish(&self, credit: u32, link: &Link) -> Wish {
        let mailbox = link.mailbox.clone();
        Wish { mailbox, number: self.number, credit, priority: self.priority, in_order: false }
    }
}

/// `awaited_since` is since when they are awaited.
fn hand_out_of(
    queue: &MessageQueue,
    holder: Holder,
    (count_max, awaited_since): (u32, Option<Timestamp>),
    link: &Link,
) -> HandOut {
    let rules = queue.rules();
    let is_given_up = rules.dead_letter_exchange.is_some();
    HandOut::of(Wanted {
        lanes: queue.lanes().into_iter().map(|lane| (lane, Filter::All)).collect(),
        count_max: count_max as usize,
        size_max: READ_SIZE_MAX,
        holder,
        attempt: None,
        redeliveries_max: rules.redeliveries_max.unwrap_or(u32::MAX),
        expiry: Some(Expiry { now: link.now.wall, awaited_since, is_given_up }),
    })
}

/// Gives a consumer what there is for it, or has it told when there is something.
pub(super) fn look(channel: &mut Channel, number: u64, link: &mut Link) -> Look {
    let room = link.budget.room();
    let (of_channel, owner) = (channel.credit(room), channel.owner);
    let Some(consumer) = channel.consumers.get(number).filter(|consumer| !consumer.is_reading) else {
        return Look::Waits;
    };
    if consumer.stream.is_some() {
        return stream::look(channel, number, link);
    }
    let (credit, no_ack) = (consumer.credit(of_channel), consumer.no_ack);
    consumer.is_stalled = credit == 0;
    if credit == 0 || !consumer.queue.may_take(&consumer.seat) {
        consumer.step_aside();
        let waits_for_others = credit > 0 && !consumer.queue.rules().is_single_active;
        if of_channel == 0 {
            channel.hold_back(room, link);
        }
        return if waits_for_others { wait(channel, number, link) } else { Look::Waits };
    }
    consumer.note_room(link.now.wall);
    // Dropped when it has taken: then others are told of what it leaves.
    let takers = std::mem::take(&mut consumer.takers);
    let (queue, awaited_since) = (consumer.queue.clone(), consumer.has_room_since);
    let mut hand_out = hand_out_of(&queue, Holder::Channel(owner), (credit, awaited_since), link);
    // Those that cannot be read now come again after a while.
    let is_all = link.broker.leasing.hand_out_cached(&mut hand_out, link.now).unwrap_or(true);
    if !is_all {
        consumer.is_reading = true;
        let promised = if no_ack { 0 } else { credit };
        channel.given += promised;
        read(channel, queue, (Reader::Consumer(number), promised), hand_out, link);
        return Look::Waits;
    }
    let look = deliver_to(channel, number, &queue, hand_out, link);
    drop(takers);
    look
}

/// By what the reads of a channel are known that are for none of its consumers.
pub(super) const fn reader_of(channel: u16) -> u64 {
    (channel as u64) << 48
}

/// Has messages read by a job.
fn read(
    channel: &Channel,
    queue: Arc<MessageQueue>,
    (reader, promised): (Reader, u32),
    hand_out: HandOut,
    link: &mut Link,
) {
    let (number, serial, owner, hand_out) = (channel.number, channel.serial, channel.owner, Some(hand_out));
    let result = Ok(false);
    go_on_reading(Box::new(Read { channel: number, serial, owner, queue, reader, promised, hand_out, result }), link);
}

/// Has what was handed out read, as far as that has not been done.
pub(super) fn go_on_reading(mut read: Box<Read>, link: &mut Link) {
    let (broker, now, giving_up) = (link.broker.clone(), link.now, link.giving_up.clone());
    let size = READ_SIZE_MAX.max(read.hand_out.as_ref().map_or(0, HandOut::wanted_size));
    let consumer = match read.reader {
        Reader::Consumer(number) => number,
        Reader::Get { .. } => reader_of(read.channel),
    };
    link.run_read((consumer, size), move |begun| {
        match begun {
            Begun::Yes => read.go_on(size, (&broker, &giving_up), now),
            Begun::No => read.result = Ok(true),
        }
        Done::Read(read)
    });
}

/// Delivers what was handed out, and has the consumer told of more.
pub(super) fn deliver_to(
    channel: &mut Channel,
    number: u64,
    queue: &Arc<MessageQueue>,
    mut hand_out: HandOut,
    link: &mut Link,
) -> Look {
    link.give_up(queue, hand_out.take_doomed());
    let (count, owner) = (hand_out.count(), channel.owner);
    let Some(consumer) = channel.consumers.get(number) else {
        return_all(owner, &hand_out);
        return Look::Waits;
    };
    let (tag, no_ack) = (consumer.tag.clone(), consumer.no_ack);
    let (channel_number, unacked) = (channel.number, &mut channel.unacked);
    let readable = each_message(&hand_out, (owner, link.now), |lane, offset, deliveries, piece, routed| {
        let delivery_tag = unacked.next_tag();
        if !no_ack {
            let (queue, lane, consumer) = (queue.clone(), lane.clone(), Some(number));
            unacked.push(Delivered { tag: delivery_tag, queue, lane, offset, consumer, at: link.now.monotonic });
            link.note_delivered();
        }
        let method = Deliver {
            consumer_tag: ShortString::cut(&tag),
            delivery_tag,
            redelivered: deliveries > 0 || lane.is_doubted(offset),
            exchange: ShortString::cut(routed.exchange),
            routing_key: ShortString::cut(routed.key),
        };
        link.send(channel_number, method);
        let counted = counted(queue, deliveries, routed.header);
        link.send_content(channel_number, counted.as_deref().unwrap_or(routed.header), routed.body, Some(piece));
    });
    if no_ack {
        settle_all(owner, &hand_out);
    } else if let Some(consumer) = channel.consumers.get(number) {
        consumer.unsettled += readable;
        channel.given += readable;
    }
    if count > 0 {
        return Look::Again;
    }
    wait(channel, number, link)
}

/// Has a consumer told when there is something. What came in between is seen by looking again after that.
fn wait(channel: &mut Channel, number: u64, link: &Link) -> Look {
    let of_channel = channel.credit(link.budget.room());
    let Some(consumer) = channel.consumers.get(number) else { return Look::Waits };
    let wish = consumer.wish(consumer.credit(of_channel).max(1), link);
    consumer.takers = consumer.queue.wait(&wish);
    if consumer.queue.has_ready() && consumer.queue.may_take(&consumer.seat) { Look::Again } else { Look::Waits }
}

/// What each lane has given.
fn given_of(hand_out: &HandOut) -> impl Iterator<Item = (&Arc<broker::Lane>, &[(base::QueueOffset, u32)])> {
    let given = hand_out.given().iter();
    given.filter_map(|given| Some((&hand_out.wanted().lanes.get(given.lane)?.0, &*given.messages)))
}

/// Each message with its lane, offset, count of deliveries and the piece that it is in; gives how many. What is there and cannot be read is
/// of a newer version: its owner gives it back, and nobody gets it here.
fn each_message(
    hand_out: &HandOut,
    (owner, now): (Owner, Now),
    mut act: impl FnMut(&Arc<broker::Lane>, base::QueueOffset, u32, &bytes::Bytes, &Routed<'_>),
) -> u32 {
    let mut count = 0;
    let places = given_of(hand_out)
        .flat_map(|(lane, messages)| messages.iter().map(move |(offset, deliveries)| (lane, *offset, *deliveries)));
    let records = hand_out.pieces().iter().flat_map(|piece| record::split(piece).map(move |record| (piece, record)));
    for ((lane, offset, deliveries), (piece, record)) in places.zip(records) {
        match Routed::decode(record) {
            Ok(routed) => {
                act(lane, offset, deliveries, piece, &routed);
                count += 1;
            }
            Err(_) => lane.put_off(owner, offset, now.monotonic),
        }
    }
    count
}

/// The header of a message that comes again from a queue whose clients are told how often it did.
fn counted(queue: &MessageQueue, deliveries: u32, header: &[u8]) -> Option<Vec<u8>> {
    let is_told = deliveries > 0 && queue.rules().kind == QueueKind::Quorum;
    is_told.then(|| with_delivery_count(header, deliveries))
}

/// Nobody acknowledges what was handed out: it is on its way, and that is all.
fn settle_all(owner: Owner, hand_out: &HandOut) {
    for (lane, messages) in given_of(hand_out) {
        lane.settle(owner, messages.iter().map(|(offset, _)| *offset));
    }
}

/// Nobody is there any more for what was handed out.
fn return_all(owner: Owner, hand_out: &HandOut) {
    for (lane, messages) in given_of(hand_out) {
        lane.requeue(owner, messages.iter().map(|(offset, _)| *offset), false);
    }
}

/// Looks for one message. `false`: a job does, and what the client sends next has to wait.
pub(super) fn get(
    channel: &mut Channel,
    queue: &Arc<MessageQueue>,
    no_ack: bool,
    link: &mut Link,
) -> Result<bool, Fault> {
    let mut hand_out = hand_out_of(queue, Holder::Channel(channel.owner), (1, None), link);
    if !link.broker.leasing.hand_out_cached(&mut hand_out, link.now)? || hand_out.is_cut_short() {
        read(channel, queue.clone(), (Reader::Get { no_ack }, 0), hand_out, link);
        return Ok(false);
    }
    answer_get(channel, queue, no_ack, hand_out, link);
    Ok(true)
}

/// Answers who has asked for one message.
pub(super) fn answer_get(
    channel: &mut Channel,
    queue: &Arc<MessageQueue>,
    no_ack: bool,
    mut hand_out: HandOut,
    link: &mut Link,
) {
    link.give_up(queue, hand_out.take_doomed());
    let (number, owner, unacked) = (channel.number, channel.owner, &mut channel.unacked);
    let message_count = u32::try_from(queue.counts().ready).unwrap_or(u32::MAX);
    let readable = each_message(&hand_out, (owner, link.now), |lane, offset, deliveries, piece, routed| {
        let delivery_tag = unacked.next_tag();
        if !no_ack {
            let (queue, lane) = (queue.clone(), lane.clone());
            unacked.push(Delivered { tag: delivery_tag, queue, lane, offset, consumer: None, at: link.now.monotonic });
            link.note_delivered();
        }
        let method = GetOk {
            delivery_tag,
            redelivered: deliveries > 0 || lane.is_doubted(offset),
            exchange: ShortString::cut(routed.exchange),
            routing_key: ShortString::cut(routed.key),
            message_count,
        };
        link.send(number, method);
        let counted = counted(queue, deliveries, routed.header);
        link.send_content(number, counted.as_deref().unwrap_or(routed.header), routed.body, Some(piece));
    });
    if no_ack {
        settle_all(owner, &hand_out);
    }
    if readable == 0 {
        link.send(number, Method::from(GetEmpty::default()));
    }
}
