//! The part of the fake broker that hands messages out: it remembers what each group got, and what was acknowledged.

use bytes::BytesMut;
use wire::rocketmq::body::client::{Heartbeat, decode};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::TypedHeader as _;
use wire::rocketmq::frame::Command;
use wire::rocketmq::pop::answer::{PoppedQueue, put_message_offsets, put_start_offset};
use wire::rocketmq::pop::batch_ack::BatchAckRequest;
use wire::rocketmq::pop::header::{AckRequest, PopRequest, PopResponse};
use wire::rocketmq::pop::origin::Origin;
use wire::rocketmq::pop::receipt::Receipt;

use base::{LogOffset, QueueId, QueueOffset, Timestamp};
use format::record::{Draft, seal};

use super::{Peer, Reply, draft, now_ms, reply};

impl Peer {
    /// Gives what the group has not had of the first queue that has something.
    pub(super) fn pop(&mut self, command: &Command<'_>) -> Reply {
        let header = PopRequest::decode(&command.fields).expect("pop header");
        let (topic, group) = (header.topic.to_string(), header.consumer_group.to_string());
        let mut seen = self.seen.lock().expect("not poisoned");
        let queues = seen.topics.get(&topic).copied().unwrap_or_default();
        let mut found = None;
        for queue in 0..queues as i32 {
            let kept = seen.kept.get(&(topic.clone(), queue)).map_or(0, Vec::len) as i64;
            let stored = if self.manners.keeps { kept } else { self.manners.stored as i64 };
            let stored = stored - i64::from(self.manners.forgets && stored > 0);
            let next = seen.popped.entry((group.clone(), topic.clone(), queue)).or_default();
            let (begin, end) = (*next, stored.min(*next + i64::from(header.max_message_count)));
            if begin < end {
                *next = end;
                found = Some((queue, begin, end));
                break;
            }
        }
        let mut fields = PopResponse {
            pop_timestamp: now_ms() as i64,
            invisible_ms: header.invisible_ms,
            revive_queue_id: 3,
            ..PopResponse::default()
        };
        let Some((queue_id, begin, end)) = found else {
            // Held until the consumer leaves, if it may be.
            let is_held = header.poll_timeout_ms > 0 && !self.manners.keeps;
            let none = || reply(command, response::POLLING_TIMEOUT, None, |sink| fields.encode(sink), &[]);
            return (!is_held).then(none);
        };
        let mut offsets: Vec<i64> = (begin..end).collect();
        if self.manners.doubles {
            offsets.push(begin);
        }
        let mut body = BytesMut::new();
        for &offset in &offsets {
            let start = body.len();
            let queue = QueueId(queue_id as u32);
            let receipt =
                format!("POP_CK\u{1}{begin} {} {} 3 1 fake {queue_id} {offset}\u{2}", now_ms(), header.invisible_ms);
            let properties: &[&[u8]] = if self.manners.revives { &[receipt.as_bytes()] } else { &[] };
            Draft { properties, ..draft(self.address, queue) }.encode(&mut body);
            seal(&mut body[start..], QueueOffset(offset as u64), LogOffset(0), Timestamp(now_ms()));
        }
        let (queue, mut starts, mut messages) =
            (PoppedQueue { origin: Origin::Topic, queue_id }, String::new(), String::new());
        put_start_offset(&mut starts, queue, begin);
        put_message_offsets(&mut messages, queue, begin..end);
        (fields.start_offset_info, fields.message_offset_info) = (Some(starts.into()), Some(messages.into()));
        Some(reply(command, response::SUCCESS, None, |sink| fields.encode(sink), &body))
    }

    pub(super) fn acknowledge(&mut self, command: &Command<'_>) -> Reply {
        let mut seen = self.seen.lock().expect("not poisoned");
        seen.ack_requests += 1;
        self.acks += 1;
        if self.acks <= self.manners.ignores_acks {
            return None;
        }
        if command.header.code == request::BATCH_ACK_MESSAGE {
            let batch = BatchAckRequest::decode(command.body).expect("batch");
            for ack in batch.acks {
                let place = (ack.consumer_group.clone(), ack.queue_id);
                seen.acked.entry(place).or_default().extend(ack.offsets());
            }
        } else {
            let header = AckRequest::decode(&command.fields).expect("ack header");
            let receipt = Receipt::parse(&header.extra_info).expect("a receipt");
            assert_eq!((receipt.broker_name, receipt.message_offset), ("fake", Some(header.offset)));
            let stored_topic = receipt.origin.stored_topic("t", &header.consumer_group);
            assert!(self.manners.keeps || header.topic == stored_topic, "{}", header.topic);
            let place = (header.consumer_group.to_string(), header.queue_id);
            seen.acked.entry(place).or_default().insert(header.offset);
        }
        Some(reply(command, response::SUCCESS, None, |_| {}, &[]))
    }

    pub(super) fn heartbeat(&mut self, command: &Command<'_>) -> BytesMut {
        let heartbeat: Heartbeat = decode("heartbeat", command.body).expect("a heartbeat");
        let groups = heartbeat.consumers.into_iter().map(|consumer| {
            assert_eq!(consumer.consume_type, "CONSUME_POP");
            consumer.group_name
        });
        let groups = groups.collect();
        self.seen.lock().expect("not poisoned").members.insert(heartbeat.client_id, groups);
        reply(command, response::SUCCESS, None, |_| {}, &[])
    }
}
