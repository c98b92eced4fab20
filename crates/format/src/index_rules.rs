//! What a record means for what finds it: whether it has an entry in its queue, what that entry keeps, and by which keys it is
//! found. One rule for the append, for recovery and for the check of a data directory.

use base::limits::QUEUES_PER_TOPIC_MAX;
use base::name::MessageQueueName;
use base::{QueueId, QueueOffset, Timestamp, TopicName};

use crate::hash::{key_hash, tag_code};
use crate::lane_code::LaneCode;
use crate::properties::{self, names};
use crate::queue_entry::QUEUE_OFFSET_MAX;
use crate::record::{Parts, QueueRef, Record, system_flag};
use crate::routed::{Reference, Routed, is_routed};
use crate::state::STATE_TOPIC;

/// Topic whose entries keep due times instead of tag codes.
pub const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// The properties that indexes depend on, as they stand in the block; none is empty. Of equal names the last counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexedProperties<'a> {
    /// The tag.
    pub tags: &'a [u8],
    /// Blank-separated keys.
    pub keys: &'a [u8],
    /// Id made by the producer.
    pub unique_key: &'a [u8],
    /// Delay level.
    pub delay: &'a [u8],
}

impl<'a> IndexedProperties<'a> {
    /// Those of a property block.
    pub fn of(block: &'a [u8]) -> Self {
        let mut found = Self::default();
        for property in properties::iterate(block) {
            match std::str::from_utf8(property.name).unwrap_or_default() {
                names::TAGS => found.tags = property.value,
                names::KEYS => found.keys = property.value,
                names::UNIQUE_KEY => found.unique_key = property.value,
                names::DELAY => found.delay = property.value,
                _ => {}
            }
        }
        found
    }

    /// The delay level, if it is a number as Java reads it: a sign if need be, digits, within 32 bits.
    pub fn delay_level(&self) -> Option<i32> {
        text(self.delay).parse().ok()
    }
}

/// What the entry of a record keeps beside its log offset and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryCode {
    /// The code of its tag; 0 for none.
    Tag(i64),
    /// When it is due: this long after it was stored, ms.
    DueAfter(u64),
    /// That of a routed message in a lane: see `LaneCode`.
    Lane {
        /// How long after it was stored it is of use, ms.
        time_to_live_ms: Option<u64>,
        /// Bytes of the record around the message's own body.
        around: u32,
    },
}

impl EntryCode {
    /// The number that the entry of a record keeps which was stored then.
    pub const fn at(self, store_timestamp: Timestamp) -> i64 {
        match self {
            Self::Tag(code) => code,
            Self::DueAfter(delay_ms) => store_timestamp.plus_ms(delay_ms).0 as i64,
            Self::Lane { time_to_live_ms, around } => {
                let expiry = match time_to_live_ms {
                    Some(time_to_live_ms) => Some(store_timestamp.plus_ms(time_to_live_ms)),
                    None => None,
                };
                LaneCode { expiry, around }.encode()
            }
        }
    }
}

/// An entry that a record has: where, and what it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing<'a> {
    /// Topic of the queue.
    pub topic: ListedTopic<'a>,
    /// Number of the queue.
    pub queue: QueueId,
    /// Offset in the queue.
    pub offset: QueueOffset,
    /// What the entry keeps.
    pub code: EntryCode,
}

/// Topic of a queue that lists a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedTopic<'a> {
    /// One that the record names.
    Named(&'a str),
    /// That of a message queue.
    MessageQueue(MessageQueueName),
}

impl ListedTopic<'_> {
    /// Its name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::MessageQueue(name) => name.as_str(),
        }
    }
}

impl<'a> Listing<'a> {
    const fn of_ref(QueueRef { topic, queue, offset }: QueueRef<'a>, code: EntryCode) -> Self {
        Self { topic: ListedTopic::Named(topic), queue, offset, code }
    }

    fn of_reference(reference: Reference, around: u32) -> Self {
        let topic = ListedTopic::MessageQueue(reference.topic());
        Self { topic, queue: reference.queue(), offset: reference.offset, code: reference.code(around) }
    }

    /// Whether it is that of this queue.
    pub fn is_at(&self, topic: &str, queue: QueueId, offset: QueueOffset) -> bool {
        (self.offset, self.queue) == (offset, queue) && self.topic.as_str() == topic
    }

    /// Whether there can be such an entry: one whose file can be, and not one in a message queue of a record that is no routed message.
    fn can_be(&self) -> bool {
        let is_foreign = match self.topic {
            ListedTopic::Named(name) => MessageQueueName::number_of(name).is_some(),
            ListedTopic::MessageQueue(_) => false,
        };
        self.offset.0 < QUEUE_OFFSET_MAX && !is_foreign
    }
}

/// How a record is found.
#[derive(Clone, Copy, Debug)]
pub struct Indexed<'a> {
    /// Whether it has an entry in its queue.
    pub is_listed: bool,
    /// Whether it is no message, but a change of the broker's state.
    pub is_state: bool,
    /// Whether it is a routed message, listed in message queues alone.
    pub is_routed: bool,
    /// What the entry keeps.
    pub code: EntryCode,
    topic: &'a str,
    unique_key: &'a [u8],
    keys: &'a [u8],
}

impl<'a> Indexed<'a> {
    /// Hashes of the keys it is found by.
    pub fn key_hashes(self) -> impl Iterator<Item = u32> + use<'a> {
        keys(self.unique_key, self.keys).map(move |key| key_hash(self.topic, key))
    }

    /// Every entry of the record that this is said of, its own queue's first. A routed message that cannot be read has none.
    pub fn listings(&self, record: &Record<'a>) -> impl Iterator<Item = Listing<'a>> + use<'a> {
        let code = self.code;
        let queue_refs = self.is_listed.then(|| record.queue_refs()).into_iter().flatten();
        let routed = self.is_routed.then(|| Routed::parse(record.body).ok()).flatten();
        let around = routed.map_or(0, |routed| routed.around(record.size));
        let references = routed.into_iter().flat_map(|routed| routed.references());
        let of_refs = queue_refs.map(move |queue_ref| Listing::of_ref(queue_ref, code));
        of_refs.chain(references.map(move |reference| Listing::of_reference(reference, around))).filter(Listing::can_be)
    }
}

/// What the rules depend on beside the record: delay levels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexRules {
    delay_levels_ms: Vec<u64>,
}

impl IndexRules {
    /// With the delay of each level, ms, the first level first.
    pub const fn new(delay_levels_ms: Vec<u64>) -> Self {
        Self { delay_levels_ms }
    }

    /// The delay of each level, ms, the first level first.
    pub fn delay_levels_ms(&self) -> &[u64] {
        &self.delay_levels_ms
    }

    /// The level meant and its delay in ms: what is above the highest level means the highest.
    pub fn clip_level(&self, level: usize) -> (usize, u64) {
        let level = level.clamp(1, self.delay_levels_ms.len().max(1));
        (level, self.delay_levels_ms.get(level - 1).copied().unwrap_or_default())
    }

    /// How a record of this topic, system flag and properties is found. Halves of transactions have no entry; what was rolled back
    /// is not found at all (source: RocketMQ `CommitLogDispatcherBuildConsumeQueue`, `IndexService.buildIndex`). A level counts
    /// in the topic of parked messages alone (`CommitLog.checkMessageAndReturnSize`).
    pub fn apply<'a>(&self, topic: &'a str, system_flag: i32, properties: &IndexedProperties<'a>) -> Indexed<'a> {
        let state = system_flag & system_flag::TRANSACTION_MASK;
        let is_rolled_back = state == system_flag::TRANSACTION_ROLLBACK;
        let level = if topic == DELAY_TOPIC { properties.delay_level().unwrap_or_default() } else { 0 };
        let code = match usize::try_from(level) {
            Ok(level @ 1..) => EntryCode::DueAfter(self.clip_level(level).1),
            _ => EntryCode::Tag(tag_code(text(properties.tags))),
        };
        let found_by = |value: &'a [u8]| if is_rolled_back { &[][..] } else { value };
        Indexed {
            is_state: is_rolled_back && system_flag & system_flag::STATE != 0 && topic == STATE_TOPIC,
            is_routed: is_routed(topic.as_bytes(), system_flag),
            is_listed: !is_rolled_back && state != system_flag::TRANSACTION_PREPARED,
            code,
            topic,
            unique_key: found_by(properties.unique_key),
            keys: found_by(properties.keys),
        }
    }

    /// How a record that is in the log is found.
    pub fn apply_to<'a>(&self, record: &Record<'a>) -> Indexed<'a> {
        self.apply(record.topic, record.system_flag, &IndexedProperties::of(record.properties))
    }
}

/// What is no UTF-8 is none.
fn text(value: &[u8]) -> &str {
    std::str::from_utf8(value).unwrap_or_default()
}

/// Its unique key, and each word of its keys.
fn keys<'a>(unique_key: &'a [u8], keys: &'a [u8]) -> impl Iterator<Item = &'a str> + use<'a> {
    std::iter::once(text(unique_key)).chain(text(keys).split(' ')).filter(|key| !key.is_empty())
}

/// Whether everything but the body can be what was stored at `offset`.
///
/// A write that was cut short leaves zeroes behind, and neither a topic nor the end of a property block (0x02, always
/// written by Sluice) is ever zero. A topic names a folder, and only one below ours; queue and queue offset lead to a
/// file that can be.
pub fn is_in_place(parts: &Parts<'_>, offset: u64) -> bool {
    parts.log_offset().0 == offset
        && std::str::from_utf8(parts.topic).is_ok_and(TopicName::is_folder)
        && parts.queue().0 < QUEUES_PER_TOPIC_MAX
        && parts.queue_offset().0 < QUEUE_OFFSET_MAX
        && parts.properties.last() != Some(&0)
}
