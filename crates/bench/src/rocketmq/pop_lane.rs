//! One connection with the consumers on it: one pop in flight for each of them at most, and the acknowledgements of what came.
//!
//! A consumer pops again as soon as it has its answer, while acknowledgements are in flight, of which it may have so many and no more.

use std::sync::Arc;

use bytes::BytesMut;
use client::link::Link;
use client::rocketmq::control::NoFields;
use client::rocketmq::control::next_frame;
use format::properties::{self, names};
use format::record::Record;
use wire::rocketmq::body::client::{ConsumerData, Heartbeat, SubscriptionData};
use wire::rocketmq::code::request::{HEART_BEAT, POP_MESSAGE};
use wire::rocketmq::code::response::{NO_MESSAGE, POLLING_FULL, POLLING_TIMEOUT, PULL_NOT_FOUND, SUCCESS, name};
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::Command;
use wire::rocketmq::pop::answer::PopAnswer;
use wire::rocketmq::pop::header::{PopRequest, PopResponse};
use wire::rocketmq::pop::origin::Origin;
use wire::rocketmq::pop::receipt::Receipt;

use crate::load::pop_options::PopOptions;
use crate::machine::clock::SECOND_NS;
use crate::rocketmq::acks::{by_queue, put_ack, put_batch_ack, put_request};
use crate::rocketmq::pop_account::{Acknowledged, PopAccount};
use crate::rocketmq::reply;
use crate::rocketmq::window::{Settled, Window};

/// Before a consumer asks again whose pop found nothing and was not held.
const EMPTY_REST_NS: u64 = SECOND_NS / 200;
/// Before one asks again whose pop was refused.
const REFUSED_REST_NS: u64 = SECOND_NS / 20;
/// Before one asks again for which the broker had no room to wait.
const FULL_REST_NS: u64 = SECOND_NS;
/// Refusals in a row after which a consumer gives up.
const REFUSALS_MAX: u32 = 100;
/// A run that reads until nothing is left waits so long for what it knows to be there.
const PATIENCE_NS: u64 = SECOND_NS;
/// As official clients have it; brokers forget a client that says nothing for two minutes.
const HEARTBEAT_INTERVAL_NS: u64 = 30 * SECOND_NS;
const MS_NS: u64 = 1_000_000;
/// Any queue of the topic.
const ANY_QUEUE: i32 = -1;
/// Where a group without an offset begins.
const FROM_FIRST: i32 = 0;
const FROM_LAST: i32 = 1;

/// What a consumer reads.
#[derive(Clone, Debug)]
pub struct PopSource {
    /// Its group.
    pub group: Arc<str>,
    /// Topic.
    pub topic: Arc<str>,
    /// Index of the topic's first queue, for this group, among all of the run.
    pub first_queue: usize,
    /// How many it has.
    pub queues: u32,
}

impl PopSource {
    /// Index of a queue of it; none of the run's for one that was added meanwhile.
    fn index_of(&self, queue: u32) -> usize {
        if queue < self.queues { self.first_queue + queue as usize } else { usize::MAX }
    }
}

/// What is in flight.
#[derive(Clone, Copy, Debug, Default)]
enum Request {
    #[default]
    Heartbeat,
    /// Of the consumer with that index.
    Pop(usize),
    /// Of so many messages that the consumer with that index got from a pop of that moment.
    Ack { consumer: usize, messages: u32, popped_ns: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// May pop from the given moment on.
    Ready(u64),
    /// Its pop is in flight.
    Waiting,
    /// Nothing is left, or it gave up.
    Done,
}

#[derive(Debug)]
struct Consumer {
    source: PopSource,
    state: State,
    /// Messages whose acknowledgement is in flight.
    unsettled: usize,
    refusals_in_row: u32,
}

/// A connection and its consumers.
#[derive(Debug)]
pub struct PopLane {
    /// The connection.
    pub link: Link,
    talk: Talk,
}

/// What is said over a connection.
#[derive(Debug)]
struct Talk {
    broker_name: Arc<str>,
    client_id: String,
    consumers: Vec<Consumer>,
    window: Window<Request>,
    heartbeat_due_ns: u64,
    /// What is to be written next.
    out: BytesMut,
}

impl PopLane {
    /// A connection to the broker of that name, with a consumer for each of `sources`.
    pub fn new(
        link: Link,
        broker_name: Arc<str>,
        client_id: String,
        options: &PopOptions,
        sources: Vec<PopSource>,
    ) -> Self {
        let in_flight_max = sources.len() * (1 + options.window + options.batch) + 1;
        let consumer = |source| Consumer { source, state: State::Ready(0), unsettled: 0, refusals_in_row: 0 };
        let consumers = sources.into_iter().map(consumer).collect();
        let (window, heartbeat_due_ns) = (Window::new(in_flight_max), if options.no_heartbeat { u64::MAX } else { 0 });
        Self { link, talk: Talk { broker_name, client_id, consumers, window, heartbeat_due_ns, out: BytesMut::new() } }
    }

    /// Requests in flight.
    pub const fn in_flight(&self) -> usize {
        self.talk.window.in_flight()
    }

    /// Whether no consumer will pop again, and nothing is in flight.
    pub fn is_done(&self) -> bool {
        let has_ended = |consumer: &Consumer| consumer.state == State::Done && consumer.unsettled == 0;
        !self.link.is_open() || self.talk.consumers.iter().all(has_ended)
    }

    /// Whether no acknowledgement is in flight, and no pop unless it may be left.
    pub fn is_drained(&self, may_leave_pops: bool) -> bool {
        let is_settled =
            |consumer: &Consumer| consumer.unsettled == 0 && (may_leave_pops || consumer.state != State::Waiting);
        !self.link.is_open() || self.talk.consumers.iter().all(is_settled)
    }

    /// Sends pops of consumers that are ready; returns when the next one will be, if one is resting.
    pub fn issue(&mut self, options: &PopOptions, account: &PopAccount<'_>) -> Option<u64> {
        if !self.link.is_open() {
            return None;
        }
        let next_ready_ns = self.talk.issue(options, account);
        self.write();
        next_ready_ns
    }

    /// Takes in every complete reply that was read, and acknowledges what came; stops at the first that cannot be understood.
    pub fn settle(&mut self, options: &PopOptions, account: &mut PopAccount<'_>) {
        let Self { link, talk } = self;
        let mut problem = None;
        while problem.is_none()
            && let Some(frame) = next_frame(link)
        {
            problem = talk.take_reply(options, frame, account).err();
        }
        self.write();
        if let Some(problem) = problem {
            self.link.fail(format!("a reply cannot be understood: {problem}"));
        }
    }

    fn write(&mut self) {
        self.link.out().extend_from_slice(&self.talk.out);
        self.talk.out.clear();
        self.link.flush();
    }

    /// Gives up what has waited for longer than `timeout_ns`, and everything of a broken connection.
    pub fn sweep(&mut self, timeout_ns: u64, account: &mut PopAccount<'_>) {
        let until_ns = if self.link.is_open() { account.now_ns.checked_sub(timeout_ns) } else { Some(u64::MAX) };
        if let Some(until_ns) = until_ns {
            self.talk.give_up(until_ns, account);
        }
    }

    /// Gives up every acknowledgement that is in flight; pops without an answer are left.
    pub fn end(&mut self, account: &mut PopAccount<'_>) {
        let unsettled: usize = self.talk.consumers.iter().map(|consumer| consumer.unsettled).sum();
        account.tally.acks_unanswered += unsettled as u64;
        account.tally.faults.extend(self.link.fault());
    }
}

impl Talk {
    fn issue(&mut self, options: &PopOptions, account: &PopAccount<'_>) -> Option<u64> {
        let now_ns = account.now_ns;
        if now_ns >= self.heartbeat_due_ns {
            self.heartbeat_due_ns = now_ns + HEARTBEAT_INTERVAL_NS;
            self.heartbeat(options, now_ns);
        }
        let mut next_ready_ns: Option<u64> = None;
        for at in 0..self.consumers.len() {
            let Some(Consumer { state: State::Ready(from_ns), unsettled, .. }) = self.consumers.get(at) else {
                continue;
            };
            // With acknowledgements in its way it is ready once they are answered.
            if *unsettled > options.window {
                continue;
            }
            if *from_ns <= now_ns {
                self.pop(options, at, account);
            } else {
                next_ready_ns = Some(next_ready_ns.map_or(*from_ns, |next| next.min(*from_ns)));
            }
        }
        next_ready_ns
    }

    fn pop(&mut self, options: &PopOptions, at: usize, account: &PopAccount<'_>) {
        let held_ns = options.held_ms().saturating_mul(MS_NS);
        // Its time begins when the broker may hold it no longer.
        let late_ns = account.now_ns.saturating_add(held_ns);
        let Some(opaque) = self.window.take(account.now_ns, late_ns, Request::Pop(at)) else { return };
        let Some(consumer) = self.consumers.get_mut(at) else { return };
        consumer.state = State::Waiting;
        let request = PopRequest {
            consumer_group: (&*consumer.source.group).into(),
            topic: (&*consumer.source.topic).into(),
            queue_id: ANY_QUEUE,
            max_message_count: i32::try_from(options.batch).unwrap_or(i32::MAX),
            invisible_ms: i64::try_from(options.invisible_ms).unwrap_or(i64::MAX),
            poll_timeout_ms: i64::try_from(options.held_ms()).unwrap_or(i64::MAX),
            born_timestamp: i64::try_from(account.now_wall_ms).unwrap_or_default(),
            init_mode: if options.latest { FROM_LAST } else { FROM_FIRST },
            expression_type: Some("TAG".into()),
            expression: Some((&*options.subscription).into()),
            order: Some(false),
            broker_name: Some((&*self.broker_name).into()),
            ..PopRequest::default()
        };
        put_request(&mut self.out, (POP_MESSAGE, opaque), &request, &[]);
    }

    /// Says which groups consume here, and what.
    fn heartbeat(&mut self, options: &PopOptions, now_ns: u64) {
        let Some(opaque) = self.window.take(now_ns, now_ns, Request::Heartbeat) else { return };
        let mut consumers: Vec<ConsumerData> = Vec::new();
        for Consumer { source, .. } in &self.consumers {
            if consumers.iter().any(|known| known.group_name == *source.group) {
                continue;
            }
            consumers.push(ConsumerData {
                group_name: source.group.to_string(),
                consume_type: "CONSUME_POP".to_owned(),
                message_model: "CLUSTERING".to_owned(),
                consume_from_where: "CONSUME_FROM_FIRST_OFFSET".to_owned(),
                subscription_data_set: vec![SubscriptionData {
                    expression_type: "TAG".to_owned(),
                    sub_string: options.subscription.clone(),
                    topic: source.topic.to_string(),
                    ..SubscriptionData::default()
                }],
                unit_mode: false,
            });
        }
        let heartbeat = Heartbeat { client_id: self.client_id.clone(), consumers, ..Heartbeat::default() };
        // A heartbeat has nothing in it that JSON cannot say.
        let body = serde_json::to_vec(&heartbeat).unwrap_or_default();
        put_request(&mut self.out, (HEART_BEAT, opaque), &NoFields, &body);
    }

    fn take_reply(&mut self, options: &PopOptions, frame: &[u8], account: &mut PopAccount<'_>) -> Result<(), String> {
        // What brokers ask of a client is not answered: all of it is one-way.
        let Some(head) = reply::head(frame).map_err(|error| error.to_string())? else { return Ok(()) };
        let Some(Settled { due_ns, note }) = self.window.settle(head.opaque as u32) else { return Ok(()) };
        match note {
            Request::Heartbeat if head.code == SUCCESS => {}
            Request::Heartbeat => {
                let (code, remark) = reply::words_of(head.code, frame);
                account.tally.faults.push(format!("a heartbeat was refused: {code} {remark}"));
            }
            Request::Ack { consumer, messages, popped_ns } => {
                if let Some(consumer) = self.consumers.get_mut(consumer) {
                    consumer.unsettled -= messages as usize;
                }
                let messages = u64::from(messages);
                if head.code == SUCCESS {
                    account.acked(Acknowledged { messages, popped_ns, acked_ns: due_ns });
                } else {
                    account.ack_refused(head.code, messages, frame);
                }
            }
            Request::Pop(at) => return self.take_answer(options, (at, due_ns), frame, account),
        }
        Ok(())
    }

    /// The answer to the pop that the consumer with that index sent at that moment.
    fn take_answer(
        &mut self,
        options: &PopOptions,
        (at, popped_ns): (usize, u64),
        frame: &[u8],
        account: &mut PopAccount<'_>,
    ) -> Result<(), String> {
        let Some(consumer) = self.consumers.get_mut(at) else { return Ok(()) };
        let command = Command::decode(frame).map_err(|error| error.to_string())?;
        let header = PopResponse::decode(&command.fields);
        consumer.refusals_in_row = consumer.next_refusals(command.header.code);
        match command.header.code {
            SUCCESS => {
                consumer.state = State::Ready(account.now_ns);
                let (header, source) = (header.map_err(|error| error.to_string())?, consumer.source.clone());
                account.found(popped_ns);
                let answer = PopAnswer::of(&header).map_err(|error| error.to_string())?;
                return self.acknowledge(options, (at, popped_ns, &source), (&answer, command.body), account);
            }
            PULL_NOT_FOUND | NO_MESSAGE | POLLING_TIMEOUT => {
                account.empty();
                // Messages that others are being handed just now may yet be left to this one.
                let is_at_end = header.is_ok_and(|header| header.rest_count == 0);
                let is_over =
                    options.until_empty && is_at_end && account.arrivals.are_over(account.now_ns, PATIENCE_NS);
                consumer.state = if is_over { State::Done } else { State::Ready(account.now_ns + EMPTY_REST_NS) };
            }
            code => {
                account.pop_refused(code, frame);
                let rest_ns = if code == POLLING_FULL { FULL_REST_NS } else { REFUSED_REST_NS };
                consumer.state = State::Ready(account.now_ns + rest_ns);
                if consumer.refusals_in_row >= REFUSALS_MAX {
                    consumer.state = State::Done;
                    let PopSource { group, topic, .. } = &consumer.source;
                    let reason = format!("{REFUSALS_MAX} refusals in a row, the last {}", name(code));
                    account.tally.faults.push(format!("a consumer of {topic} and group {group} gave up: {reason}"));
                }
            }
        }
        Ok(())
    }

    /// Counts and acknowledges the messages of an answer.
    fn acknowledge(
        &mut self,
        options: &PopOptions,
        (at, popped_ns, source): (usize, u64, &PopSource),
        (answer, body): (&PopAnswer<'_>, &[u8]),
        account: &mut PopAccount<'_>,
    ) -> Result<(), String> {
        let broker_name = self.broker_name.clone();
        let mut receipts: Vec<Receipt<'_>> = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let record = Record::decode(rest).map_err(|error| error.to_string())?;
            rest = rest.get(record.size..).unwrap_or_default();
            let receipt = receipt_of(answer, &broker_name, &record);
            let origin = receipt.as_ref().map_or(Origin::Topic, |receipt| receipt.origin);
            account.message(&record, origin, source.index_of(record.queue.0));
            let Some(receipt) = receipt else {
                account.without_receipt();
                continue;
            };
            if options.batch_ack {
                receipts.push(receipt);
            } else if let Some(opaque) = self.take_slot((at, popped_ns), 1, account) {
                let stored_topic = receipt.origin.stored_topic(&source.topic, &source.group);
                put_ack(&mut self.out, opaque, &source.group, &stored_topic, &receipt);
            }
        }
        for ack in by_queue(&source.group, &source.topic, &receipts) {
            let messages = u32::try_from(ack.bits.len()).unwrap_or(u32::MAX);
            if let Some(opaque) = self.take_slot((at, popped_ns), messages, account) {
                put_batch_ack(&mut self.out, opaque, ack, &broker_name);
            }
        }
        Ok(())
    }

    /// The opaque of an acknowledgement; none if a broker gave more messages than were asked for and there is no room.
    fn take_slot(&mut self, (at, popped_ns): (usize, u64), messages: u32, account: &mut PopAccount<'_>) -> Option<u32> {
        let request = Request::Ack { consumer: at, messages, popped_ns };
        let opaque = self.window.take(account.now_ns, account.now_ns, request);
        match self.consumers.get_mut(at).filter(|_| opaque.is_some()) {
            Some(consumer) => consumer.unsettled += messages as usize,
            None => account.tally.acks_unanswered += u64::from(messages),
        }
        opaque
    }

    fn give_up(&mut self, until_ns: u64, account: &mut PopAccount<'_>) {
        let Self { window, consumers, .. } = self;
        window.expire(until_ns, |request| match request.note {
            Request::Heartbeat => {}
            Request::Pop(at) => {
                account.tally.pops_unanswered += 1;
                if let Some(consumer) = consumers.get_mut(at) {
                    consumer.state = State::Ready(account.now_ns);
                }
            }
            Request::Ack { consumer, messages, .. } => {
                account.tally.acks_unanswered += u64::from(messages);
                if let Some(consumer) = consumers.get_mut(consumer) {
                    consumer.unsettled -= messages as usize;
                }
            }
        });
    }
}

/// The receipt of a message in an answer. Official brokers give a message of a retry topic the name of the topic that was asked for, and
/// its receipt as a property; of the others the header tells.
fn receipt_of<'a>(answer: &PopAnswer<'a>, broker_name: &'a str, record: &Record<'a>) -> Option<Receipt<'a>> {
    match properties::find(record.properties, names::POP_CHECK_POINT) {
        Some(text) => Receipt::parse(text).ok().filter(|receipt| receipt.message_offset.is_some()),
        None => {
            let (queue_id, offset) = (record.queue.0 as i32, record.queue_offset.0 as i64);
            answer.receipt(broker_name, record.topic, queue_id, offset)
        }
    }
}

impl Consumer {
    /// Refusals in a row with an answer of this code. That there is no room to wait is no reason to give up.
    const fn next_refusals(&self, code: i32) -> u32 {
        match code {
            SUCCESS | PULL_NOT_FOUND | NO_MESSAGE | POLLING_TIMEOUT | POLLING_FULL => 0,
            _ => self.refusals_in_row + 1,
        }
    }
}
