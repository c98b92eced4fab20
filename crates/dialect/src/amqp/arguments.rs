//! Arguments of queues, exchanges and bindings: what of a table of names and values is a rule, and what is none.
//!
//! Source: RabbitMQ's documentation of queue arguments. Unknown ones that begin with `x-` are kept and not heeded, as RabbitMQ does.

use format::model::{HeaderPattern, Overflow, QueueKind, QueueRules, Text};
use format::routed::SHORT_TEXT_SIZE_MAX;
use wire::amqp::method::queue::QueueDeclare;
use wire::amqp::table::{Table, Value};

use super::error::Fault;

/// How long a client may have a message of the queue.
pub(super) const TIMEOUT_ARGUMENT: &str = "x-consumer-timeout";

/// The longest time, ms: ten years.
const TIME_MAX_MS: i64 = 315_360_000_000;

/// How often a quorum queue has a message come again, unless it is told otherwise.
const QUORUM_REDELIVERIES_MAX: u32 = 20;

/// Arguments that streams alone have.
const OF_STREAMS: [&str; 3] = ["x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes"];

/// Arguments that other queues have, and streams do not.
const NOT_OF_STREAMS: [&str; 17] = [
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-priority",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-queue-mode",
    "x-queue-version",
    TIMEOUT_ARGUMENT,
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
];

/// Of which a queue of a name in `host` cannot be what it was asked to be.
fn invalid(name: &str, queue: &str, why: &str) -> Fault {
    Fault::precondition(format!("invalid arg '{name}' for {queue}: {why}"))
}

/// Reads the rules of a queue. `queue` names it in errors.
pub(super) fn queue_rules(table: Table<'_>, queue: &str) -> Result<QueueRules, Fault> {
    let mut rules = QueueRules::default();
    let mut redeliveries_max = None;
    for (name, value) in table.iter() {
        let name = String::from_utf8_lossy(name.bytes()).into_owned();
        let bad = |why: &str| invalid(&name, queue, why);
        let number = |least: i64, most: i64| {
            let number = value.integer().ok_or_else(|| bad("it must be a whole number"))?;
            let is_within = (least..=most).contains(&number);
            if is_within { Ok(number as u64) } else { Err(bad(&format!("{number} is not within {least}..={most}"))) }
        };
        let text = || match value {
            Value::LongString(text) if text.len() <= SHORT_TEXT_SIZE_MAX => Ok(text),
            Value::LongString(_) => Err(bad("it has more than 255 bytes")),
            _ => Err(bad("it must be a string")),
        };
        match name.as_str() {
            "x-message-ttl" => rules.time_to_live_ms = Some(number(0, TIME_MAX_MS)?),
            "x-expires" => rules.expires_ms = Some(number(1, TIME_MAX_MS)?),
            "x-max-length" => rules.length_max = Some(number(0, i64::MAX)?),
            "x-max-length-bytes" => rules.size_max = Some(number(0, i64::MAX)?),
            "x-max-priority" => rules.priority_max = number(0, 255)? as u8,
            "x-delivery-limit" => {
                let limit = number(-1, i64::from(u32::MAX))?;
                redeliveries_max = Some(u32::try_from(limit as i64).ok());
            }
            "x-dead-letter-exchange" => rules.dead_letter_exchange = Some(text()?.into()),
            "x-dead-letter-routing-key" => rules.dead_letter_key = Some(text()?.into()),
            "x-single-active-consumer" => match value {
                Value::Bool(is_so) => rules.is_single_active = is_so,
                _ => return Err(bad("it must be a boolean")),
            },
            "x-overflow" => {
                rules.overflow = match text()? {
                    b"drop-head" => Overflow::DropHead,
                    b"reject-publish" => Overflow::Reject,
                    b"reject-publish-dlx" => Overflow::RejectAndDeadLetter,
                    _ => return Err(bad("it must be drop-head, reject-publish or reject-publish-dlx")),
                }
            }
            "x-queue-type" => {
                rules.kind = match text()? {
                    b"classic" => QueueKind::Classic,
                    b"quorum" => QueueKind::Quorum,
                    b"stream" => QueueKind::Stream,
                    _ => return Err(bad("it must be classic, quorum or stream")),
                }
            }
            "x-max-age" => {
                let age_ms = age_ms(text()?);
                rules.time_to_live_ms =
                    Some(age_ms.ok_or_else(|| bad("it must be a number with one of Y, M, D, h, m, s"))?);
            }
            "x-stream-max-segment-size-bytes" => _ = number(1, i64::MAX)?,
            "x-stream-filter-size-bytes" => _ = number(16, 255)?,
            TIMEOUT_ARGUMENT => drop(number(0, TIME_MAX_MS)?),
            // Others are kept, and ask for nothing here.
            _ => {}
        }
    }
    check_known(table, rules.kind, queue)?;
    let usual = (rules.kind == QueueKind::Quorum).then_some(QUORUM_REDELIVERIES_MAX);
    rules.redeliveries_max = redeliveries_max.unwrap_or(usual);
    if rules.dead_letter_key.is_some() && rules.dead_letter_exchange.is_none() {
        return Err(invalid("x-dead-letter-routing-key", queue, "there is no x-dead-letter-exchange"));
    }
    Ok(rules)
}

/// Refuses what only queues of another type have.
fn check_known(table: Table<'_>, kind: QueueKind, queue: &str) -> Result<(), Fault> {
    let foreign: &[&str] = if kind == QueueKind::Stream { &NOT_OF_STREAMS } else { &OF_STREAMS };
    match foreign.iter().find(|name| table.get(name).is_some()) {
        Some(name) => Err(invalid(name, queue, &format!("queues of type {} have none", kind_name(kind)))),
        None => Ok(()),
    }
}

/// Quorum queues and streams are durable, nobody's own, and have names; clients that ask otherwise are mistaken.
pub(super) fn check_kind(rules: &QueueRules, declare: &QueueDeclare<'_>, queue: &str) -> Result<(), Fault> {
    if rules.kind == QueueKind::Classic {
        return Ok(());
    }
    let wrong = [
        ("non-durable", !declare.durable),
        ("exclusive-owner", declare.exclusive),
        ("auto-delete", declare.auto_delete),
        ("server-named", declare.queue.bytes().is_empty()),
    ];
    match wrong.into_iter().find(|(_, is_wrong)| *is_wrong) {
        Some((property, _)) => {
            let kind = kind_name(rules.kind);
            Err(Fault::precondition(format!("invalid property '{property}' for {queue}: its type is {kind}")))
        }
        None => Ok(()),
    }
}

const fn kind_name(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Classic => "classic",
        QueueKind::Quorum => "quorum",
        QueueKind::Stream => "stream",
    }
}

/// The first rule in which two queues differ, as an argument: its name, and what it is in both.
pub(super) fn difference(one: &QueueRules, other: &QueueRules) -> (&'static str, String, String) {
    let is_stream = one.kind == QueueKind::Stream;
    let told = |rules: &QueueRules| {
        let number = |number: Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
        let text = |text: &Option<Text>| {
            text.as_ref().map_or("none".to_owned(), |text| String::from_utf8_lossy(text).into_owned())
        };
        [
            ("x-queue-type", kind_name(rules.kind).to_owned()),
            (if is_stream { "x-max-age" } else { "x-message-ttl" }, number(rules.time_to_live_ms)),
            ("x-expires", number(rules.expires_ms)),
            ("x-max-length", number(rules.length_max)),
            ("x-max-length-bytes", number(rules.size_max)),
            ("x-overflow", overflow_name(rules.overflow).to_owned()),
            ("x-dead-letter-exchange", text(&rules.dead_letter_exchange)),
            ("x-dead-letter-routing-key", text(&rules.dead_letter_key)),
            ("x-max-priority", rules.priority_max.to_string()),
            ("x-single-active-consumer", rules.is_single_active.to_string()),
            ("x-delivery-limit", number(rules.redeliveries_max.map(u64::from))),
        ]
    };
    let pairs = told(one).into_iter().zip(told(other));
    let differing = pairs.map(|((name, one), (_, other))| (name, one, other)).find(|(_, one, other)| one != other);
    differing.unwrap_or_else(|| ("arguments", String::new(), String::new()))
}

const fn overflow_name(overflow: Overflow) -> &'static str {
    match overflow {
        Overflow::DropHead => "drop-head",
        Overflow::Reject => "reject-publish",
        Overflow::RejectAndDeadLetter => "reject-publish-dlx",
    }
}

/// The exchange that gets what another routes nowhere.
pub(super) fn alternate_exchange(table: Table<'_>) -> Result<Option<Text>, Fault> {
    match table.get("alternate-exchange") {
        None => Ok(None),
        Some(Value::LongString(name)) if name.len() <= SHORT_TEXT_SIZE_MAX => Ok(Some(name.into())),
        Some(_) => {
            Err(Fault::precondition("invalid arg 'alternate-exchange': it must be a string of 255 bytes at most"))
        }
    }
}

/// Which headers a binding asks for.
pub(super) fn header_pattern(table: Table<'_>) -> Result<HeaderPattern, Fault> {
    let bad = |found: &str| {
        Fault::precondition(format!(
            "Invalid x-match field value {found}; expected all, any, all-with-x, or any-with-x"
        ))
    };
    let (any, with_x) = match table.get("x-match") {
        None | Some(Value::LongString(b"all")) => (false, false),
        Some(Value::LongString(b"any")) => (true, false),
        Some(Value::LongString(b"all-with-x")) => (false, true),
        Some(Value::LongString(b"any-with-x")) => (true, true),
        Some(Value::LongString(other)) => return Err(bad(&String::from_utf8_lossy(other))),
        Some(_) => return Err(bad("type")),
    };
    let pairs = table.raw().filter(|(name, _)| name.bytes() != b"x-match");
    let wanted = pairs.map(|(name, value)| {
        let is_any = value.first() == Some(&b'V');
        (name.bytes().into(), (!is_any).then(|| value.into()))
    });
    Ok(HeaderPattern { any, with_x, wanted: wanted.collect() })
}

/// A time as `7D`: a number of years, months, days, hours, minutes or seconds; ms.
pub(super) fn age_ms(text: &[u8]) -> Option<u64> {
    let (unit, digits) = text.split_last()?;
    let seconds: u64 = match unit {
        b'Y' => 365 * 86_400,
        b'M' => 30 * 86_400,
        b'D' => 86_400,
        b'h' => 3600,
        b'm' => 60,
        b's' => 1,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number: u64 = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
    number.checked_mul(seconds)?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::amqp::table::{TableWriter, write_table};

    use super::*;

    fn rules(write: impl FnOnce(&mut TableWriter<'_>)) -> Result<QueueRules, u16> {
        let mut out = BytesMut::new();
        write_table(&mut out, write);
        queue_rules(Table::read(&out[4..]).expect("a table"), "queue 'q' in vhost '/'").map_err(|fault| fault.code)
    }

    #[test]
    fn ages_are_numbers_of_one_unit() {
        for (text, seconds) in
            [("7D", 604_800), ("1h", 3600), ("90m", 5400), ("0s", 0), ("2Y", 63_072_000), ("1M", 2_592_000)]
        {
            assert_eq!(age_ms(text.as_bytes()), Some(seconds * 1000), "{text}");
        }
        for text in ["", "h", "1", "1d", "-1h", "+1h", "1.5h", "1h30m", "99999999999999999999h", "9999999999999999Y"] {
            assert_eq!(age_ms(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn rules_of_a_queue_are_read_and_nonsense_is_refused() {
        let read = rules(|table| {
            table.put("x-message-ttl", Value::I32(1000)).put("x-max-length", Value::I64(5)).put("x-other", Value::Void);
            table.put("x-overflow", Value::LongString(b"reject-publish")).put("x-max-priority", Value::U8(9));
        });
        let expected = QueueRules {
            time_to_live_ms: Some(1000),
            length_max: Some(5),
            overflow: Overflow::Reject,
            priority_max: 9,
            ..QueueRules::default()
        };
        assert_eq!(read, Ok(expected));
        let long = [b'k'; 256];
        let bad: [(&str, Value<'_>); 11] = [
            ("x-dead-letter-exchange", Value::LongString(&long)),
            ("x-overflow", Value::LongString(&long)),
            ("x-message-ttl", Value::I32(-1)),
            ("x-message-ttl", Value::LongString(b"5")),
            ("x-message-ttl", Value::I64(TIME_MAX_MS + 1)),
            ("x-expires", Value::I32(0)),
            ("x-max-priority", Value::I32(256)),
            ("x-overflow", Value::LongString(b"grow")),
            ("x-single-active-consumer", Value::I32(1)),
            ("x-queue-type", Value::LongString(b"fast")),
            ("x-dead-letter-routing-key", Value::LongString(b"without an exchange")),
        ];
        for (name, value) in bad {
            assert_eq!(rules(|table| _ = table.put(name, value)), Err(406), "{name} {value:?}");
        }
    }

    #[test]
    fn streams_have_arguments_of_their_own_and_not_those_of_others() {
        let stream = |name: &'static str, value: Value<'static>| {
            rules(move |table| _ = table.put("x-queue-type", Value::LongString(b"stream")).put(name, value))
        };
        let expected =
            QueueRules { kind: QueueKind::Stream, time_to_live_ms: Some(7_200_000), ..QueueRules::default() };
        assert_eq!(stream("x-max-age", Value::LongString(b"2h")), Ok(expected));
        assert!(stream("x-max-length-bytes", Value::I64(1)).is_ok_and(|rules| rules.size_max == Some(1)));
        assert!(stream("x-stream-max-segment-size-bytes", Value::I64(100_000_000)).is_ok());
        for (name, value) in [
            ("x-max-age", Value::LongString(b"2 hours")),
            ("x-max-age", Value::I32(2)),
            ("x-stream-filter-size-bytes", Value::I32(15)),
            ("x-message-ttl", Value::I32(1)),
            ("x-max-length", Value::I32(1)),
            ("x-dead-letter-exchange", Value::LongString(b"amq.fanout")),
            ("x-max-priority", Value::I32(1)),
        ] {
            assert_eq!(stream(name, value), Err(406), "{name}");
        }
        assert_eq!(rules(|table| _ = table.put("x-max-age", Value::LongString(b"2h"))), Err(406));
    }

    #[test]
    fn header_patterns_keep_types_and_take_nothing_for_anything() {
        let mut out = BytesMut::new();
        write_table(&mut out, |table| {
            table.put("x-match", Value::LongString(b"any-with-x")).put("a", Value::I32(1)).put("b", Value::Void);
        });
        let pattern = header_pattern(Table::read(&out[4..]).expect("a table")).expect("a pattern");
        let wanted: Vec<(Text, Option<Text>)> =
            vec![(b"a"[..].into(), Some(b"I\0\0\0\x01"[..].into())), (b"b"[..].into(), None)];
        assert_eq!(pattern, HeaderPattern { any: true, with_x: true, wanted });
    }
}
