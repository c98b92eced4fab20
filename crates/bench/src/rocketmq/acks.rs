//! Acknowledgements of popped messages as they go on the wire: one request a message, or one for all that came from one queue in one
//! answer.
//!
//! Always with JSON headers: their codes are above 16 bits, and official brokers make nothing of what the binary form leaves of them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use client::rocketmq::control::{CLIENT_VERSION, NoFields};
use wire::rocketmq::code::request::{ACK_MESSAGE, BATCH_ACK_MESSAGE};
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{Form, Header, Language, encode};
use wire::rocketmq::pop::answer::PoppedQueue;
use wire::rocketmq::pop::batch_ack::{BatchAck, BatchAckRequest, BitSet};
use wire::rocketmq::pop::header::AckRequest;
use wire::rocketmq::pop::receipt::Receipt;

/// Appends a request to `out`.
pub fn put_request<'h>(out: &mut BytesMut, (code, opaque): (i32, u32), fields: &impl TypedHeader<'h>, body: &[u8]) {
    let opaque = opaque as i32;
    let header = Header { code, language: Language::RUST, version: CLIENT_VERSION, opaque, flag: 0, remark: None };
    encode(out, Form::Json, &header, |sink| fields.encode(sink), body);
}

/// Appends the acknowledgement of one message that `group` popped and that is stored in `stored_topic`.
pub fn put_ack(out: &mut BytesMut, opaque: u32, group: &str, stored_topic: &str, receipt: &Receipt<'_>) {
    let request = AckRequest {
        consumer_group: group.into(),
        topic: stored_topic.into(),
        queue_id: receipt.queue_id,
        extra_info: receipt.to_string().into(),
        offset: receipt.message_offset.unwrap_or_default(),
        broker_name: Some(receipt.broker_name.into()),
        ..AckRequest::default()
    };
    put_request(out, (ACK_MESSAGE, opaque), &request, &[]);
}

/// Appends one acknowledgement of many messages.
pub fn put_batch_ack(out: &mut BytesMut, opaque: u32, ack: BatchAck, broker_name: &str) {
    let body = BatchAckRequest { acks: vec![ack], broker_name: broker_name.to_owned() }.encode();
    put_request(out, (BATCH_ACK_MESSAGE, opaque), &NoFields, &body);
}

/// What `group` got of each queue in one answer when it asked for `topic`.
pub fn by_queue(group: &str, topic: &str, receipts: &[Receipt<'_>]) -> Vec<BatchAck> {
    let mut queues: BTreeMap<PoppedQueue, (&Receipt<'_>, BTreeSet<u32>)> = BTreeMap::new();
    for receipt in receipts {
        let queue = PoppedQueue { origin: receipt.origin, queue_id: receipt.queue_id };
        let distance = receipt.message_offset.and_then(|offset| offset.checked_sub(receipt.start_offset));
        let bit = distance.and_then(|distance| u32::try_from(distance).ok());
        queues.entry(queue).or_insert_with(|| (receipt, BTreeSet::new())).1.extend(bit);
    }
    let ack = |(queue, (receipt, bits)): (PoppedQueue, (&Receipt<'_>, BTreeSet<u32>))| BatchAck {
        bits: BitSet::of(&bits),
        consumer_group: group.to_owned(),
        invisible_ms: receipt.invisible_ms,
        pop_timestamp: receipt.pop_timestamp,
        queue_id: queue.queue_id,
        origin: queue.origin,
        revive_queue_id: receipt.revive_queue_id,
        start_offset: receipt.start_offset,
        topic: topic.to_owned(),
    };
    queues.into_iter().map(ack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::rocketmq::frame::Command;
    use wire::rocketmq::pop::origin::Origin;

    fn receipt(origin: Origin, queue_id: i32, start_offset: i64, offset: i64) -> Receipt<'static> {
        Receipt {
            start_offset,
            pop_timestamp: 1_700_000_000_123,
            invisible_ms: 60_000,
            revive_queue_id: 5,
            origin,
            broker_name: "broker-a",
            queue_id,
            message_offset: Some(offset),
        }
    }

    #[test]
    fn an_acknowledgement_gives_the_receipt_back_with_its_whole_code() {
        let mut out = BytesMut::new();
        put_ack(&mut out, 1 << 30, "g", "%RETRY%g_t", &receipt(Origin::Retry, 3, 100, 107));
        let command = Command::decode(&out).expect("decodes");
        assert_eq!((command.header.code, command.header.opaque, command.form), (200_051, 1 << 30, Form::Json));
        let request = AckRequest::decode(&command.fields).expect("header");
        assert_eq!((&*request.topic, request.queue_id, request.offset), ("%RETRY%g_t", 3, 107));
        assert_eq!(request.extra_info, "100 1700000000123 60000 5 1 broker-a 3 107");
    }

    #[test]
    fn what_came_from_one_queue_is_acknowledged_together() {
        let receipts = [
            receipt(Origin::Topic, 1, 10, 10),
            receipt(Origin::Topic, 1, 10, 13),
            receipt(Origin::Topic, 0, 7, 7),
            receipt(Origin::Retry, 1, 0, 2),
        ];
        let acks = by_queue("g", "t", &receipts);
        let offsets: Vec<(i32, Origin, Vec<i64>)> =
            acks.iter().map(|ack| (ack.queue_id, ack.origin, ack.offsets().collect())).collect();
        assert_eq!(
            offsets,
            [(0, Origin::Topic, vec![7]), (1, Origin::Topic, vec![10, 13]), (1, Origin::Retry, vec![2])]
        );
        let mut out = BytesMut::new();
        put_batch_ack(&mut out, 1 << 30, acks[1].clone(), "broker-a");
        let command = Command::decode(&out).expect("decodes");
        let body = BatchAckRequest::decode(command.body).expect("body");
        assert_eq!((command.header.code, body.acks.len(), &*body.broker_name), (200_151, 1, "broker-a"));
    }
}
