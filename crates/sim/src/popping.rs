//! Requests of consumers that pop, as plain values and frames.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use wire::rocketmq::code::request;
use wire::rocketmq::frame::Form;
use wire::rocketmq::header::GroupRequest;
use wire::rocketmq::pop::batch_ack::{BatchAck, BatchAckRequest, BitSet};
use wire::rocketmq::pop::header::{AckRequest, ChangeInvisibleTimeRequest, NotificationRequest, PopRequest};
use wire::rocketmq::pop::origin::Origin;
use wire::rocketmq::pop::receipt::Receipt;

use crate::connection::Reply;
use crate::request::{Queue, put};

/// The broker's name, as receipts have it.
const BROKER: &str = "broker-a";

/// By what a grant is known: the time it was made, and its number among those of that time.
pub(crate) type GrantName = (i64, i32);

/// A pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popping {
    /// Group.
    pub group: &'static str,
    /// Topic.
    pub topic: &'static str,
    /// Queue; `None` for any.
    pub queue: Option<u32>,
    /// Messages at most.
    pub count: i32,
    /// For how long they are handed out.
    pub invisible_ms: u64,
    /// How long it may wait; 0 if it may not.
    pub wait_ms: u64,
    /// In order, by this name for the attempt; 0 for none.
    pub attempt: Option<usize>,
    /// The one tag it wants, if not all.
    pub tag: Option<&'static str>,
}

/// What a consumer knows of a message that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The group it was given to.
    pub group: &'static str,
    /// Where it is.
    pub queue: Queue,
    /// See `queue`.
    pub offset: u64,
    /// The first in the same answer.
    pub start_offset: u64,
    /// The grant.
    pub name: GrantName,
    /// How long it is held.
    pub invisible_ms: i64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PopAsked {
    /// Messages to be given.
    Pop(Popping),
    /// A group is done with a message.
    Ack(&'static str, Held),
    /// And with several at once.
    AckAll(&'static str, Vec<Held>),
    /// A message is to stay for another time.
    Change(&'static str, Held, u64),
    /// Are there messages?
    Notice(Popping),
}

impl Popping {
    /// Whether it may take from a queue of a group.
    pub(crate) fn wants(&self, group: &str, (topic, queue): Queue) -> bool {
        self.group == group && self.topic == topic && self.queue.is_none_or(|wanted| wanted == queue)
    }

    fn queue_id(&self) -> i32 {
        self.queue.map_or(-1, |queue| queue as i32)
    }

    fn attempt_name(&self) -> Option<String> {
        self.attempt.filter(|attempt| *attempt > 0).map(|attempt| format!("attempt-{attempt}"))
    }
}

impl Held {
    fn receipt(&self) -> String {
        let receipt = Receipt {
            start_offset: self.start_offset as i64,
            pop_timestamp: self.name.0,
            invisible_ms: self.invisible_ms,
            revive_queue_id: self.name.1,
            origin: Origin::Topic,
            broker_name: BROKER,
            queue_id: self.queue.1 as i32,
            message_offset: Some(self.offset as i64),
        };
        receipt.to_string()
    }

    /// The same by a grant that was never made.
    pub(crate) const fn forged(self) -> Self {
        Self { name: (self.name.0 - 7, self.name.1 + 500_000), ..self }
    }

    /// The message once it stays for another time.
    pub(crate) fn changed(self, group: &'static str, reply: &Reply) -> Option<Self> {
        let name = (reply.number("popTime")?, i32::try_from(reply.number("reviveQid")?).ok()?);
        let invisible_ms = reply.number("invisibleTime")?;
        Some(Self { group, name, invisible_ms, start_offset: self.offset, ..self })
    }
}

impl PopAsked {
    /// The topic whose messages it asks for.
    pub(crate) const fn topic(&self) -> Option<&'static str> {
        match self {
            Self::Pop(popping) | Self::Notice(popping) => Some(popping.topic),
            _ => None,
        }
    }

    /// What is acknowledged by it.
    pub(crate) fn held(&self) -> &[Held] {
        match self {
            Self::Ack(_, held) => std::slice::from_ref(held),
            Self::AckAll(_, all) => all,
            _ => &[],
        }
    }

    /// What waits for messages.
    pub(crate) const fn waits(&self) -> Option<&Popping> {
        match self {
            Self::Pop(popping) | Self::Notice(popping) => Some(popping),
            _ => None,
        }
    }

    pub(crate) fn encode(&self, out: &mut BytesMut, opaque: i32, form: Form) {
        let head = |code: i32| (code, opaque, 0, form);
        match self {
            Self::Pop(popping) => {
                let header = PopRequest {
                    consumer_group: popping.group.into(),
                    topic: popping.topic.into(),
                    queue_id: popping.queue_id(),
                    max_message_count: popping.count,
                    invisible_ms: popping.invisible_ms as i64,
                    poll_timeout_ms: popping.wait_ms as i64,
                    expression_type: Some("TAG".into()),
                    expression: Some(popping.tag.unwrap_or("*").into()),
                    order: Some(popping.attempt.is_some()),
                    attempt_id: popping.attempt_name().map(Into::into),
                    ..Default::default()
                };
                put(out, head(request::POP_MESSAGE), &header, &[]);
            }
            Self::Notice(popping) => {
                let header = NotificationRequest {
                    consumer_group: popping.group.into(),
                    topic: popping.topic.into(),
                    queue_id: popping.queue_id(),
                    poll_timeout_ms: popping.wait_ms as i64,
                    order: Some(popping.attempt.is_some()),
                    ..Default::default()
                };
                put(out, head(request::NOTIFICATION), &header, &[]);
            }
            Self::Ack(group, held) => {
                let header = AckRequest {
                    consumer_group: (*group).into(),
                    topic: held.queue.0.into(),
                    queue_id: held.queue.1 as i32,
                    extra_info: held.receipt().into(),
                    offset: held.offset as i64,
                    ..Default::default()
                };
                put(out, head(request::ACK_MESSAGE), &header, &[]);
            }
            Self::Change(group, held, invisible_ms) => {
                let header = ChangeInvisibleTimeRequest {
                    consumer_group: (*group).into(),
                    topic: held.queue.0.into(),
                    queue_id: held.queue.1 as i32,
                    extra_info: held.receipt().into(),
                    offset: held.offset as i64,
                    invisible_ms: *invisible_ms as i64,
                    ..Default::default()
                };
                put(out, head(request::CHANGE_MESSAGE_INVISIBLE_TIME), &header, &[]);
            }
            Self::AckAll(group, held) => {
                let body = batch(group, held).encode();
                put(out, head(request::BATCH_ACK_MESSAGE), &GroupRequest::default(), &body);
            }
        }
    }
}

/// Those of one grant and queue are one acknowledgement of the batch.
fn batch(group: &str, held: &[Held]) -> BatchAckRequest {
    let mut grants: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for one in held {
        let bits = grants.entry((one.queue, one.name, one.start_offset, one.invisible_ms)).or_default();
        bits.insert(one.offset.saturating_sub(one.start_offset) as u32);
    }
    let acks = grants.into_iter().map(|((queue, name, start_offset, invisible_ms), bits)| BatchAck {
        bits: BitSet::of(&bits),
        consumer_group: group.to_owned(),
        invisible_ms,
        pop_timestamp: name.0,
        queue_id: queue.1 as i32,
        origin: Origin::Topic,
        revive_queue_id: name.1,
        start_offset: start_offset as i64,
        topic: queue.0.to_owned(),
    });
    BatchAckRequest { acks: acks.collect(), broker_name: BROKER.to_owned() }
}
