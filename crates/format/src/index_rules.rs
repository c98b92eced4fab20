//! What a record means for what finds it: whether it has an entry in its queue, and by which keys it is found.

use base::TopicName;
use base::limits::QUEUES_PER_TOPIC_MAX;

use crate::properties::{self, names};
use crate::queue_entry::QUEUE_OFFSET_MAX;
use crate::record::{Parts, Record, system_flag};

/// Topic whose entries keep due times instead of tag codes.
pub const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// Whether a record has an entry in its queue: halves of transactions have none.
pub const fn is_listed(record: &Record<'_>) -> bool {
    let state = record.system_flag & system_flag::TRANSACTION_MASK;
    state != system_flag::TRANSACTION_ROLLBACK && state != system_flag::TRANSACTION_PREPARED
}

/// Whether a record can be found by its keys.
pub const fn has_keys(record: &Record<'_>) -> bool {
    record.system_flag & system_flag::TRANSACTION_MASK != system_flag::TRANSACTION_ROLLBACK
}

/// Every key a message can be found by: its unique key, and each word of its keys.
pub fn keys_of(block: &[u8]) -> impl Iterator<Item = &str> {
    let unique = properties::find(block, names::UNIQUE_KEY);
    let words = properties::find(block, names::KEYS).unwrap_or_default();
    unique.into_iter().chain(words.split(' ')).filter(|key| !key.is_empty())
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
