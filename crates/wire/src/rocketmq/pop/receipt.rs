//! The receipt of a popped message (`extraInfo`, and the property `POP_CK` of a message in a client's hands).
//!
//! ```text
//! startOffset popTime invisibleTime reviveQueue flag brokerName queue messageOffset
//! 100 1700000000123 60000 5 0 broker-a 3 107
//! ```
//!
//! Blanks part the fields and nothing is escaped. With a blank in a broker's name the fields move: clients cannot acknowledge to it, or
//! (`broker 7`) name another queue. Any other character may stand in the name, and it may be empty. RocketMQ's proxy adds a position in
//! the log; what follows the eighth field is passed over, as in Java.

use std::fmt;
use std::str::FromStr;

use base::cursor::{DecodeError, preview};

use super::origin::Origin;

/// Revive queue that marks a message popped in order.
pub const ORDER_REVIVE_QUEUE_ID: i32 = 999;

/// What a client knows of a message it popped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt<'a> {
    /// First offset of the queue's messages in the answer, or where the answer's part of the queue began. After a change of the time it is
    /// invisible: the message's own.
    pub start_offset: i64,
    /// When it was handed out.
    pub pop_timestamp: i64,
    /// How long it is invisible from then on.
    pub invisible_ms: i64,
    /// Queue of the revive topic, or `ORDER_REVIVE_QUEUE_ID`.
    pub revive_queue_id: i32,
    /// Where it is stored.
    pub origin: Origin,
    /// Name of the broker, without blanks.
    pub broker_name: &'a str,
    /// Queue it is stored in.
    pub queue_id: i32,
    /// Its offset there. Clients always know it.
    pub message_offset: Option<i64>,
}

impl<'a> Receipt<'a> {
    /// Reads a receipt. No number of one is negative.
    pub fn parse(text: &'a str) -> Result<Self, DecodeError> {
        let mut fields = Fields { text, rest: text.split(' ') };
        Ok(Self {
            start_offset: fields.number("start offset")?,
            pop_timestamp: fields.number("pop time")?,
            invisible_ms: fields.number("invisible time")?,
            revive_queue_id: fields.number("revive queue")?,
            origin: fields.next().and_then(Origin::from_flag).ok_or_else(|| fields.bad("retry flag"))?,
            broker_name: fields.next().ok_or_else(|| fields.bad("broker name"))?,
            queue_id: fields.number("queue")?,
            message_offset: fields.next().map(|field| fields.number_in(field, "message offset")).transpose()?,
        })
    }

    /// Whether the message was popped in order.
    pub const fn is_in_order(&self) -> bool {
        self.revive_queue_id == ORDER_REVIVE_QUEUE_ID
    }
}

/// As a client writes it.
impl fmt::Display for Receipt<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start_offset, pop_timestamp, invisible_ms, revive_queue_id, broker_name, queue_id, .. } = self;
        let flag = self.origin.flag();
        write!(out, "{start_offset} {pop_timestamp} {invisible_ms} {revive_queue_id} {flag} {broker_name} {queue_id}")?;
        self.message_offset.map_or(Ok(()), |offset| write!(out, " {offset}"))
    }
}

struct Fields<'a> {
    text: &'a str,
    rest: std::str::Split<'a, char>,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    fn number<T: FromStr + PartialOrd + Default>(&mut self, what: &str) -> Result<T, DecodeError> {
        let field = self.next().ok_or_else(|| self.bad(what))?;
        self.number_in(field, what)
    }

    fn number_in<T: FromStr + PartialOrd + Default>(&self, field: &str, what: &str) -> Result<T, DecodeError> {
        field.parse().ok().filter(|number| *number >= T::default()).ok_or_else(|| self.bad(what))
    }

    fn bad(&self, what: &str) -> DecodeError {
        DecodeError::BadValue { what: "receipt", found: format!("{:?} ({what})", preview(self.text.as_bytes())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `buildExtraInfo(100, 1700000000123L, 60000, 5, topic, "broker-a", 3, 107)` gives.
    const PLAIN: &str = "100 1700000000123 60000 5 0 broker-a 3 107";

    fn plain() -> Receipt<'static> {
        Receipt {
            start_offset: 100,
            pop_timestamp: 1_700_000_000_123,
            invisible_ms: 60_000,
            revive_queue_id: 5,
            origin: Origin::Topic,
            broker_name: "broker-a",
            queue_id: 3,
            message_offset: Some(107),
        }
    }

    #[test]
    fn receipts_are_the_texts_of_java() {
        let retry = Receipt { origin: Origin::Retry, ..plain() };
        let retry_v2 = Receipt { origin: Origin::RetryV2, ..plain() };
        let in_order = Receipt { revive_queue_id: 999, message_offset: None, ..plain() };
        for (text, receipt) in [
            (PLAIN, plain()),
            ("100 1700000000123 60000 5 1 broker-a 3 107", retry),
            ("100 1700000000123 60000 5 2 broker-a 3 107", retry_v2),
            ("100 1700000000123 60000 999 0 broker-a 3", in_order.clone()),
            ("100 1700000000123 60000 5 0  3 107", Receipt { broker_name: "", ..plain() }),
            (
                "100 1700000000123 60000 5 0 b\u{3000}\u{a0}; 3 107",
                Receipt { broker_name: "b\u{3000}\u{a0};", ..plain() },
            ),
        ] {
            assert_eq!(receipt.to_string(), text);
            assert_eq!(Receipt::parse(text), Ok(receipt));
        }
        assert!(in_order.is_in_order() && !plain().is_in_order());
    }

    #[test]
    fn what_a_proxy_adds_is_passed_over() {
        for text in
            [format!("{PLAIN} 4096"), format!("{PLAIN} -1"), format!("{PLAIN} 4096 and more"), format!("{PLAIN} ")]
        {
            assert_eq!(Receipt::parse(&text), Ok(plain()), "{text:?}");
        }
    }

    #[test]
    fn the_largest_numbers_come_back() {
        let largest = Receipt {
            start_offset: i64::MAX,
            pop_timestamp: i64::MAX,
            invisible_ms: i64::MAX,
            revive_queue_id: i32::MAX,
            origin: Origin::RetryV2,
            broker_name: "broker-\u{4e3b}",
            queue_id: i32::MAX,
            message_offset: Some(i64::MAX),
        };
        assert_eq!(Receipt::parse(&largest.to_string()), Ok(largest.clone()));
    }

    #[test]
    fn every_field_is_checked() {
        let fields: Vec<&str> = PLAIN.split(' ').collect();
        for count in 0..7 {
            assert!(Receipt::parse(&fields[..count].join(" ")).is_err(), "{count} fields");
        }
        for (at, name) in [
            (0, "start offset"),
            (1, "pop time"),
            (2, "invisible time"),
            (3, "revive queue"),
            (4, "retry flag"),
            (6, "queue"),
            (7, "message offset"),
        ] {
            for wrong in ["", "x", "-1", "1.5", "9223372036854775808", "\u{661}"] {
                let mut changed = fields.clone();
                changed[at] = wrong;
                let text = changed.join(" ");
                let expected = DecodeError::BadValue {
                    what: "receipt",
                    found: format!("{:?} ({name})", preview(text.as_bytes())),
                };
                assert_eq!(Receipt::parse(&text), Err(expected));
            }
        }
        for queue in [3, 6] {
            let mut changed = fields.clone();
            changed[queue] = "2147483648";
            assert!(Receipt::parse(&changed.join(" ")).is_err(), "field {queue} has 32 bits");
        }
    }

    #[test]
    fn a_broker_with_a_blank_in_its_name_has_no_receipts() {
        let odd = Receipt { broker_name: "broker a", ..plain() };
        assert_eq!(odd.to_string(), "100 1700000000123 60000 5 0 broker a 3 107");
        assert!(Receipt::parse(&odd.to_string()).is_err());
    }
}
