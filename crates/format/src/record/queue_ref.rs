//! The queues that have an entry of a record: that of its own topic, and those it names beside it (fan-out stores a body once).
//!
//! Two properties name the queues beside its own: `INNER_MULTI_DISPATCH` their topics, `INNER_MULTI_QUEUE_OFFSET` the record's offset in
//! each, both with commas between. The number of such a queue is that of the record's own, or 0 for a light topic (`%LMQ%...`).
//! The offsets are known only once the record is appended; until then each is a run of zeroes, as long as the largest offset
//! takes. Source: RocketMQ `MultiDispatchUtils`, `ConsumeQueue.multiDispatchLmqQueue`.

use base::name::{LIGHT_PREFIX, TopicName};
use base::offset::{QueueId, QueueOffset};

use super::Record;
use super::checksum::CHECKSUM_BLANK;
use crate::properties::{self, names};

const SEPARATOR: char = ',';
/// Digits of the largest offset.
const OFFSET_SIZE: usize = 20;
const OFFSET_BLANK: &str = "00000000000000000000";

/// One entry of a record: a queue, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRef<'a> {
    /// Topic of the queue.
    pub topic: &'a str,
    /// Number of the queue.
    pub queue: QueueId,
    /// Offset in the queue.
    pub offset: QueueOffset,
}

/// What the property block of a record must end with that goes to queues of `topics` too; only the room for a checksum may
/// follow. `seal_fan_out` fills the offsets in.
pub fn fan_out_properties(topics: &[&str]) -> Vec<u8> {
    let mut block = Vec::new();
    let separator = SEPARATOR.to_string();
    properties::append(&mut block, names::FAN_OUT_TOPICS, &topics.join(&separator));
    properties::append(&mut block, names::FAN_OUT_OFFSETS, &vec![OFFSET_BLANK; topics.len()].join(&separator));
    block
}

/// The number of the queue of `topic` that a record of queue `own` goes to besides.
pub fn fan_out_queue_id(topic: &str, own: QueueId) -> QueueId {
    if topic.starts_with(LIGHT_PREFIX) { QueueId(0) } else { own }
}

/// Fills in the offsets of a whole record whose properties end with `fan_out_properties` of as many topics. To be called before
/// `seal_checksum`.
pub fn seal_fan_out(record: &mut [u8], offsets: impl ExactSizeIterator<Item = QueueOffset>) {
    let after = if record.ends_with(CHECKSUM_BLANK) { CHECKSUM_BLANK.len() } else { 0 };
    // Before the end of the value.
    let end = record.len().saturating_sub(after + 1);
    let mut at = end.saturating_sub(offsets.len() * (OFFSET_SIZE + 1) - 1);
    for offset in offsets {
        let mut rest = offset.0;
        for digit in record.get_mut(at..at + OFFSET_SIZE).into_iter().flatten().rev() {
            debug_assert_eq!(*digit, b'0', "there is room for offsets");
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        at += OFFSET_SIZE + 1;
    }
}

impl<'a> Record<'a> {
    /// Its entry in the queue of its own topic.
    pub const fn own_queue_ref(&self) -> QueueRef<'a> {
        QueueRef { topic: self.topic, queue: self.queue, offset: self.queue_offset }
    }

    /// Every queue that has an entry of the record, its own first. Names that can be no topic's are passed over.
    pub fn queue_refs(&self) -> impl Iterator<Item = QueueRef<'a>> + use<'a> {
        let own = self.own_queue_ref();
        let topics = self.property(names::FAN_OUT_TOPICS);
        let offsets = topics.and_then(|_| self.property(names::FAN_OUT_OFFSETS));
        let pair = topics.zip(offsets).filter(|(topics, offsets)| {
            // As a Java broker does: it is not known which belongs to which.
            topics.split(SEPARATOR).count() == offsets.split(SEPARATOR).count()
        });
        let fan_out =
            pair.into_iter().flat_map(|(topics, offsets)| topics.split(SEPARATOR).zip(offsets.split(SEPARATOR)));
        std::iter::once(own).chain(fan_out.filter_map(move |(topic, offset)| {
            let offset = offset.trim().parse().ok().map(QueueOffset)?;
            TopicName::is_folder(topic).then(|| QueueRef { topic, queue: fan_out_queue_id(topic, own.queue), offset })
        }))
    }

    /// The record as the queue of `queue_ref` has it.
    pub fn as_in(&self, queue_ref: QueueRef<'a>) -> Self {
        Self { topic: queue_ref.topic, queue: queue_ref.queue, queue_offset: queue_ref.offset, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::record::{Draft, checksum_holds, seal, seal_checksum};
    use base::{LogOffset, Timestamp};

    fn draft<'a>(properties: &'a [&'a [u8]]) -> Draft<'a> {
        Draft {
            topic: "orders",
            queue: QueueId(3),
            flag: 0,
            system_flag: 0,
            born_timestamp: Timestamp(1),
            born_host: "10.0.0.9:40000".parse().expect("an address"),
            store_host: "127.0.0.1:10911".parse().expect("an address"),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"body",
            properties,
        }
    }

    fn queue_refs_of(bytes: &[u8]) -> Vec<(String, u32, u64)> {
        let record = Record::decode(bytes).expect("decodes");
        record
            .queue_refs()
            .map(|queue_ref| (queue_ref.topic.to_owned(), queue_ref.queue.0, queue_ref.offset.0))
            .collect()
    }

    #[test]
    fn what_is_filled_in_is_found_again_with_and_without_a_checksum() {
        let fan_out = fan_out_properties(&["bills", "%LMQ%one", "stock"]);
        let own = ("orders".to_owned(), 3, 7);
        for room in [&b""[..], CHECKSUM_BLANK] {
            let mut bytes = BytesMut::new();
            draft(&[b"TAGS\x01A\x02", &fan_out, room]).encode(&mut bytes);
            seal(&mut bytes, QueueOffset(7), LogOffset(0), Timestamp(2));
            seal_fan_out(&mut bytes, [12, 0, u64::MAX].map(QueueOffset).into_iter());
            seal_checksum(&mut bytes);
            let wanted = [
                own.clone(),
                ("bills".to_owned(), 3, 12),
                ("%LMQ%one".to_owned(), 0, 0),
                ("stock".to_owned(), 3, u64::MAX),
            ];
            assert_eq!(queue_refs_of(&bytes), wanted);
            assert!(checksum_holds(&bytes));
        }
    }

    #[test]
    fn what_a_java_broker_writes_is_read_and_what_makes_no_sense_is_passed_over() {
        let own = ("orders".to_owned(), 3, 0);
        let of = |block: &[u8]| {
            let mut bytes = BytesMut::new();
            draft(&[block]).encode(&mut bytes);
            queue_refs_of(&bytes)
        };
        assert_eq!(of(b""), std::slice::from_ref(&own));
        assert_eq!(of(b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"), std::slice::from_ref(&own), "not dispatched");
        let java = of(b"INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x015,123\x02");
        assert_eq!(java, [own.clone(), ("%LMQ%a".to_owned(), 0, 5), ("%LMQ%b".to_owned(), 0, 123)]);
        let uneven = of(b"INNER_MULTI_DISPATCH\x01a,b\x02INNER_MULTI_QUEUE_OFFSET\x015\x02");
        assert_eq!(uneven, std::slice::from_ref(&own));
        let odd = of(b"INNER_MULTI_DISPATCH\x01../a,..,,b,c\x02INNER_MULTI_QUEUE_OFFSET\x011,2,3,4,-5\x02");
        assert_eq!(odd, [own, ("b".to_owned(), 3, 4)]);
    }
}
