//! How a message says that it died: `x-death` and what belongs to it.
//!
//! Source: RabbitMQ's documentation of dead letter exchanges. Of one queue and reason there is one entry, which counts; the latest is first.

use broker::{DeadLetterForm, Death, DoomReason, Headers, Noted};
use wire::amqp::content::{ContentHeader, PERSISTENT, Properties};
use wire::amqp::table::{Table, TableWriter, Value};

use super::headers::{HeaderTable, with_headers};

/// The form of RabbitMQ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deaths;

impl DeadLetterForm for Deaths {
    fn note(&self, header: &[u8], death: &Death<'_>) -> Option<Noted> {
        let properties = ContentHeader::decode(header).ok()?.properties;
        let headers = properties.headers.unwrap_or_default();
        let told = if death.deaths_before > 0 { headers } else { Table::default() };
        let copies = match headers.get("CC") {
            Some(Value::Array(keys)) if death.next_key.is_none() => keys.iter().filter_map(text).collect(),
            _ => Vec::new(),
        };
        let keys = std::iter::once(death.next_key.unwrap_or(death.key)).chain(copies);
        let left = Properties { expiration: None, ..properties };
        Some(Noted {
            header: with_headers(header, left, |table| write_headers(table, (&headers, &told), &properties, death)),
            keys: keys.map(Into::into).collect(),
            closed: closed(&told, death),
            priority: properties.priority.unwrap_or_default(),
            is_persistent: properties.delivery_mode == Some(PERSISTENT),
        })
    }

    fn headers<'a>(&self, header: &'a [u8]) -> Box<dyn Headers + 'a> {
        let properties = ContentHeader::decode(header).map(|header| header.properties).unwrap_or_default();
        Box::new(HeaderTable(properties.headers.unwrap_or_default()))
    }
}

const fn reason_name(reason: DoomReason) -> &'static str {
    match reason {
        DoomReason::DeliveredTooOften => "delivery_limit",
        DoomReason::Expired => "expired",
        DoomReason::Rejected => "rejected",
        DoomReason::TooMany => "maxlen",
    }
}

fn text(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::LongString(text) => Some(text),
        _ => None,
    }
}

/// Entries of the deaths before, the latest first.
fn deaths_of<'a>(headers: &Table<'a>) -> impl Iterator<Item = Table<'a>> + use<'a> {
    let entries = match headers.get("x-death") {
        Some(Value::Array(entries)) => Some(entries),
        _ => None,
    };
    entries.into_iter().flat_map(|entries| entries.iter()).filter_map(|entry| match entry {
        Value::Table(entry) => Some(entry),
        _ => None,
    })
}

fn is_of(entry: &Table<'_>, death: &Death<'_>) -> bool {
    entry.get("queue") == Some(Value::LongString(death.queue))
        && entry.get("reason") == Some(Value::LongString(reason_name(death.reason).as_bytes()))
}

/// Where a message has died since a consumer last rejected it: nothing but the broker has moved it, and would for ever.
fn closed(headers: &Table<'_>, death: &Death<'_>) -> Vec<Box<[u8]>> {
    if death.reason == DoomReason::Rejected {
        return Vec::new();
    }
    let rejected = Some(Value::LongString(b"rejected"));
    let since = deaths_of(headers).take_while(|entry| entry.get("reason") != rejected);
    let queues = since.filter_map(|entry| entry.get("queue").and_then(text).map(Into::into));
    std::iter::once(death.queue.into()).chain(queues).collect()
}

/// `told` is what the broker has said of the deaths before.
fn write_headers(
    table: &mut TableWriter<'_>,
    (headers, told): (&Table<'_>, &Table<'_>),
    properties: &Properties<'_>,
    death: &Death<'_>,
) {
    let is_first = told.get("x-first-death-queue").is_none();
    let is_written = |name: &[u8]| {
        name == b"x-death" || name.starts_with(b"x-last-death-") || is_first && name.starts_with(b"x-first-death-")
    };
    // With another key the copies are not sent on.
    let is_dropped = |name: &[u8]| is_written(name) || name == b"CC" && death.next_key.is_some();
    table.array("x-death", |deaths| {
        let known = deaths_of(told).find(|entry| is_of(entry, death));
        let count = known.and_then(|entry| entry.get("count")).and_then(|count| count.integer()).unwrap_or_default();
        deaths.table(|entry| write_death(entry, headers, properties, death, count.saturating_add(1)));
        for entry in deaths_of(told).filter(|entry| !is_of(entry, death)) {
            deaths.put(Value::Table(entry));
        }
    });
    let reason = reason_name(death.reason);
    for (when, is_wanted) in [("first", is_first), ("last", true)] {
        if is_wanted {
            table.put(&format!("x-{when}-death-reason"), Value::LongString(reason.as_bytes()));
            table.put(&format!("x-{when}-death-queue"), Value::LongString(death.queue));
            table.put(&format!("x-{when}-death-exchange"), Value::LongString(death.exchange));
        }
    }
    for (name, value) in headers.iter().filter(|(name, _)| !is_dropped(name.bytes())) {
        table.put_bytes(name.bytes(), value);
    }
}

fn write_death(
    entry: &mut TableWriter<'_>,
    headers: &Table<'_>,
    properties: &Properties<'_>,
    death: &Death<'_>,
    count: i64,
) {
    entry.put("count", Value::I64(count)).put("reason", Value::LongString(reason_name(death.reason).as_bytes()));
    entry.put("queue", Value::LongString(death.queue)).put("time", Value::Timestamp(death.time.0 / 1000));
    entry.put("exchange", Value::LongString(death.exchange)).array("routing-keys", |keys| {
        keys.put(Value::LongString(death.key));
        if let Some(Value::Array(copies)) = headers.get("CC") {
            copies.iter().for_each(|copy| _ = keys.put(copy));
        }
    });
    if let Some(expiration) = properties.expiration {
        entry.put("original-expiration", Value::LongString(expiration.bytes()));
    }
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use bytes::BytesMut;
    use wire::amqp::argument::ShortString;

    use super::*;

    fn header() -> Vec<u8> {
        let expiration = ShortString::new(b"60");
        let properties =
            Properties { expiration, delivery_mode: Some(PERSISTENT), priority: Some(3), ..Properties::default() };
        let mut out = BytesMut::new();
        ContentHeader { body_size: 5, properties }.encode(&mut out);
        out.to_vec()
    }

    const fn death(reason: DoomReason, queue: &'static [u8]) -> Death<'static> {
        Death { reason, queue, exchange: b"x", key: b"k", time: Timestamp(7_000), deaths_before: 1, next_key: None }
    }

    fn die(header: &[u8], reason: DoomReason, queue: &'static [u8]) -> Noted {
        Deaths.note(header, &death(reason, queue)).expect("noted")
    }

    /// Queue, reason and count of each entry.
    fn told(header: &[u8]) -> Vec<(String, String, i64)> {
        let properties = ContentHeader::decode(header).expect("a header").properties;
        let headers = properties.headers.expect("headers");
        let string = |entry: &Table<'_>, name| {
            String::from_utf8_lossy(entry.get(name).and_then(text).unwrap_or_default()).into_owned()
        };
        let entries = deaths_of(&headers);
        let count = |entry: &Table<'_>| entry.get("count").and_then(|count| count.integer()).unwrap_or_default();
        entries.map(|entry| (string(&entry, "queue"), string(&entry, "reason"), count(&entry))).collect()
    }

    #[test]
    fn a_death_is_told_and_counted() {
        let once = die(&header(), DoomReason::Expired, b"q");
        assert_eq!(told(&once.header), [("q".to_owned(), "expired".to_owned(), 1)]);
        let properties = ContentHeader::decode(&once.header).expect("a header").properties;
        assert_eq!((properties.expiration, once.priority, once.is_persistent), (None, 3, true));
        assert_eq!(once.keys, [Box::from(&b"k"[..])]);
        let first = properties.headers.expect("headers");
        assert_eq!(first.get("x-first-death-reason"), Some(Value::LongString(b"expired")));
        let Some(Value::Array(deaths)) = first.get("x-death") else { panic!("no array") };
        let Some(Value::Table(entry)) = deaths.iter().next() else { panic!("no table") };
        assert_eq!(entry.get("original-expiration"), Some(Value::LongString(b"60")));
        assert_eq!(entry.get("time"), Some(Value::Timestamp(7)));
        let twice = die(&once.header, DoomReason::Rejected, b"other");
        let again = die(&twice.header, DoomReason::Expired, b"q");
        let entries = [("q".to_owned(), "expired".to_owned(), 2), ("other".to_owned(), "rejected".to_owned(), 1)];
        assert_eq!(told(&again.header), entries);
    }

    #[test]
    fn what_a_producer_says_of_deaths_is_not_believed() {
        let claimed = die(&die(&header(), DoomReason::Expired, b"a").header, DoomReason::Expired, b"b").header;
        let first = Death { deaths_before: 0, ..death(DoomReason::Expired, b"a") };
        let noted = Deaths.note(&claimed, &first).expect("noted");
        assert_eq!(told(&noted.header), [("a".to_owned(), "expired".to_owned(), 1)]);
        assert_eq!(noted.closed, [Box::from(&b"a"[..])]);
        let headers = ContentHeader::decode(&noted.header).expect("a header").properties.headers.expect("headers");
        assert_eq!(headers.iter().filter(|(name, _)| name.bytes() == b"x-first-death-queue").count(), 1);
    }

    #[test]
    fn it_does_not_go_round_without_a_consumer() {
        let once = die(&header(), DoomReason::Expired, b"a");
        assert_eq!(once.closed, [Box::from(&b"a"[..])]);
        let twice = die(&once.header, DoomReason::TooMany, b"b");
        assert_eq!(twice.closed, [Box::from(&b"b"[..]), Box::from(&b"a"[..])]);
        let rejected = die(&twice.header, DoomReason::Rejected, b"c");
        assert!(rejected.closed.is_empty());
        assert_eq!(die(&rejected.header, DoomReason::Expired, b"d").closed, [Box::from(&b"d"[..])]);
    }

    #[test]
    fn with_a_key_of_the_queue_the_copies_are_not_sent_on() {
        let with_copies = with_headers(&header(), Properties::default(), |table| {
            table.array("CC", |keys| _ = keys.put(Value::LongString(b"copy")));
        });
        let noted = die(&with_copies, DoomReason::Expired, b"q");
        assert_eq!(noted.keys, [Box::from(&b"k"[..]), Box::from(&b"copy"[..])]);
        let other = Death { next_key: Some(b"dead"), ..death(DoomReason::Expired, b"q") };
        let noted = Deaths.note(&with_copies, &other).expect("noted");
        assert_eq!(noted.keys, [Box::from(&b"dead"[..])]);
        let properties = ContentHeader::decode(&noted.header).expect("a header").properties;
        assert_eq!(properties.headers.and_then(|headers| headers.get("CC")), None);
    }
}
