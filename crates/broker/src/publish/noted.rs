//! What one look over a message's properties finds, and whether they can be stored as they came.
//!
//! Every Java version must be able to read what is stored: its recovery takes the first record whose properties it cannot read for the log's
//! end. Of what a sender may set, it reads `DELAY` as a number, and in 5.x the pair `INNER_NUM`, `INNER_BASE`.

use std::borrow::Cow;

use base::Refusal;
use format::index_rules::IndexedProperties;
use format::properties::{self, names};

/// What one look over the properties finds. Of equal names the last counts, as for RocketMQ.
#[derive(Default)]
pub(crate) struct Noted<'a> {
    /// What it will be found by.
    pub(crate) indexed: IndexedProperties<'a>,
    /// Level the message asks to wait for; 0 if it does not.
    pub(crate) delay_level: usize,
    /// Whether its sender waits for the sync.
    pub(crate) waits: bool,
    /// Properties that must not be stored as they came.
    must_clean: bool,
    is_half: bool,
    is_timed: bool,
    is_inner_batch: bool,
}

/// A broker's own marks.
const CLEANED: &[&str] = &[
    names::CLUSTER,
    names::MESSAGE_REGION,
    names::TRACE_SWITCH,
    names::POP_CHECK_POINT,
    names::FAN_OUT_OFFSETS,
    names::CHECKSUM,
];

/// With a level as well, the level counts and these go (source: RocketMQ `HookUtils.checkIfTimerMessage`).
const TIMED: &[&str] = &[names::TIMER_DELIVER_MS, names::TIMER_DELAY_MS, names::TIMER_DELAY_SECONDS];

/// Bytes of a value that cannot be stored that are shown to its sender.
const SHOWN_SIZE: usize = 40;

impl<'a> Noted<'a> {
    pub(crate) fn of(block: &'a [u8]) -> Self {
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
                    noted.must_clean = true;
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

    /// Whether a message with these properties may be stored.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let delay = self.indexed.delay;
        let unsupported = if self.is_half {
            "transactional messages"
        } else if self.is_inner_batch {
            "batches stored as one message"
        } else if self.is_timed && self.delay_level == 0 {
            "messages with a delivery time (use one of the 18 delay levels)"
        } else if !delay.is_empty() && self.indexed.delay_level().is_none() {
            let shown = String::from_utf8_lossy(delay.get(..SHOWN_SIZE).unwrap_or(delay));
            return Err(Refusal::BadMessage(format!(
                "the property DELAY is [{shown}]; it must be a number of ASCII digits, at most {}: a delay level, or 0 for none",
                i32::MAX
            )));
        } else {
            return Ok(());
        };
        Err(Refusal::NotSupported(format!("Sluice does not support {unsupported} yet")))
    }

    /// The properties as they are stored.
    pub(crate) fn cleaned(&self, block: &'a [u8]) -> Cow<'a, [u8]> {
        let mut cleaned = Cow::Borrowed(block);
        for (must_go, dropped) in [(self.must_clean, CLEANED), (self.is_timed && self.delay_level > 0, TIMED)] {
            if must_go {
                cleaned = Cow::Owned(properties::without(&cleaned, dropped));
            }
        }
        cleaned
    }
}
