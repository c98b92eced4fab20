//! What one look over a message's properties finds, and which of them a record has.
//!
//! Every Java version must be able to read what is stored: its recovery takes the first record whose properties it cannot read
//! for the log's end. Of what a sender may set, it reads `DELAY` as a number, and in 5.x the pair `INNER_NUM`, `INNER_BASE`.

use std::borrow::Cow;

use crate::index_rules::IndexedProperties;
use crate::properties::{self, names};

/// What one look over the properties finds. Of equal names the last counts, as for RocketMQ.
#[derive(Debug, Default)]
pub struct NotedProperties<'a> {
    /// What it will be found by.
    pub indexed: IndexedProperties<'a>,
    /// Level the message asks to wait for; 0 if it does not.
    pub delay_level: usize,
    /// Whether its sender waits for the sync.
    pub waits: bool,
    /// Whether it is half of a transaction.
    pub is_half: bool,
    /// Whether it names a time at which it is to be delivered.
    pub is_timed: bool,
    /// Whether it is a batch that is stored as one message.
    pub is_inner_batch: bool,
    /// Whether it has properties that only brokers write.
    has_marks: bool,
}

/// A broker's own marks.
const MARKS: &[&str] = &[
    names::CLUSTER,
    names::MESSAGE_REGION,
    names::TRACE_SWITCH,
    names::POP_CHECK_POINT,
    names::FAN_OUT_OFFSETS,
    names::CHECKSUM,
];

/// With a level as well, the level counts and these go (source: RocketMQ `HookUtils.checkIfTimerMessage`).
const TIMES: &[&str] = &[names::TIMER_DELIVER_MS, names::TIMER_DELAY_MS, names::TIMER_DELAY_SECONDS];

impl<'a> NotedProperties<'a> {
    /// Looks over a property block.
    #[inline]
    pub fn of(block: &'a [u8]) -> Self {
        let mut noted = Self { waits: true, ..Self::default() };
        for property in properties::iterate(block) {
            let value = property.value;
            match std::str::from_utf8(property.name).unwrap_or_default() {
                names::TAGS => noted.indexed.tags = value,
                names::KEYS => noted.indexed.keys = value,
                names::UNIQUE_KEY => noted.indexed.unique_key = value,
                names::DELAY => noted.indexed.delay = value,
                names::WAIT => noted.waits = !value.eq_ignore_ascii_case(b"false"),
                names::CLUSTER
                | names::MESSAGE_REGION
                | names::TRACE_SWITCH
                | names::POP_CHECK_POINT
                | names::FAN_OUT_OFFSETS
                | names::CHECKSUM => {
                    noted.has_marks = true;
                }
                names::TRANSACTION_PREPARED => noted.is_half = value.eq_ignore_ascii_case(b"true"),
                names::TIMER_DELIVER_MS | names::TIMER_DELAY_MS | names::TIMER_DELAY_SECONDS => noted.is_timed = true,
                names::INNER_COUNT => noted.is_inner_batch = true,
                _ => {}
            }
        }
        noted.delay_level =
            noted.indexed.delay_level().and_then(|level| usize::try_from(level).ok()).unwrap_or_default();
        noted
    }

    /// The value of `DELAY`, if Java could not read a record that has it.
    pub fn unreadable_delay(&self) -> Option<&'a [u8]> {
        let delay = self.indexed.delay;
        (!delay.is_empty() && self.indexed.delay_level().is_none()).then_some(delay)
    }

    /// The block as a record has it.
    #[inline]
    pub fn stored(&self, block: &'a [u8]) -> Cow<'a, [u8]> {
        let mut stored = Cow::Borrowed(block);
        for (must_go, dropped) in [(self.has_marks, MARKS), (self.is_timed && self.delay_level > 0, TIMES)] {
            if must_go {
                stored = Cow::Owned(properties::without(&stored, dropped));
            }
        }
        stored
    }
}
