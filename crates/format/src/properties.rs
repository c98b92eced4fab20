//! The property block of a message: `name 0x01 value 0x02` repeated; the last 0x02 may be missing (older clients).
//!
//! The block is kept as bytes from socket to log: reading one property scans, nothing is rebuilt unless it changes.
//! Source: RocketMQ `MessageDecoder.messageProperties2String` / `string2messageProperties`.

/// Between a name and its value.
pub const NAME_END: u8 = 1;
/// After a value.
pub const VALUE_END: u8 = 2;

/// Names of the properties brokers read or write (source: RocketMQ `MessageConst`).
pub mod names {
    /// Blank-separated keys for look-up.
    pub const KEYS: &str = "KEYS";
    /// The tag.
    pub const TAGS: &str = "TAGS";
    /// `false`: do not wait for the sync even if the topic asks for it.
    pub const WAIT: &str = "WAIT";
    /// Delay level, 1..=18.
    pub const DELAY: &str = "DELAY";
    /// Topic a retried message came from.
    pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
    /// Topic a parked (delayed) message goes to.
    pub const REAL_TOPIC: &str = "REAL_TOPIC";
    /// Queue a parked (delayed) message goes to.
    pub const REAL_QUEUE_ID: &str = "REAL_QID";
    /// `true` marks the half message of a transaction.
    pub const TRANSACTION_PREPARED: &str = "TRAN_MSG";
    /// Id made by the producer.
    pub const UNIQUE_KEY: &str = "UNIQ_KEY";
    /// Id of the message a retry began with.
    pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
    /// How often the message was consumed again, when sent by the client.
    pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
    /// How often it may be consumed again, when sent by the client.
    pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
    /// Region of the broker that stored the message.
    pub const MESSAGE_REGION: &str = "MSG_REGION";
    /// Whether tracing is on at that broker.
    pub const TRACE_SWITCH: &str = "TRACE_ON";
    /// Cluster of the broker that stored the message.
    pub const CLUSTER: &str = "CLUSTER";
    /// Topic a dead letter was in.
    pub const DEAD_LETTER_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
    /// Id a dead letter had.
    pub const DEAD_LETTER_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";
    /// Check point of a popped message; never accepted from a producer.
    pub const POP_CHECK_POINT: &str = "POP_CK";
    /// Absolute delivery time of a timed message, ms.
    pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
    /// Relative delivery time of a timed message, ms.
    pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
    /// Relative delivery time of a timed message, s.
    pub const TIMER_DELAY_SECONDS: &str = "TIMER_DELAY_SEC";
    /// Client that waits for a reply.
    pub const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";
    /// Checksum of the record, made by the broker; never accepted from a producer.
    pub const CHECKSUM: &str = "__CRC32#";
    /// Topics of further queues that have an entry of the record (fan-out).
    pub const FAN_OUT_TOPICS: &str = "INNER_MULTI_DISPATCH";
    /// Its offsets in those, filled in by the broker; never accepted from a producer.
    pub const FAN_OUT_OFFSETS: &str = "INNER_MULTI_QUEUE_OFFSET";
    /// Number of messages in a batch stored as one.
    pub const INNER_COUNT: &str = "INNER_NUM";
}

/// One property and where its bytes lie in the block, terminator included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Property<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
    /// First byte in the block.
    pub start: usize,
    /// First byte after it.
    pub end: usize,
}

/// Walks the properties of `block`, skipping pieces that are not `name 0x01 value`. As for RocketMQ, of every version, a name or value of
/// no bytes makes no property.
pub fn iterate(block: &[u8]) -> impl Iterator<Item = Property<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        while let Some(rest) = block.get(start..).filter(|rest| !rest.is_empty()) {
            let (piece, after) = split_piece(rest);
            let end = block.len() - after.len();
            let property_start = std::mem::replace(&mut start, end);
            if let Some(split) = memchr::memchr(NAME_END, piece).filter(|&at| at > 0 && at + 1 < piece.len()) {
                let (name, value) = (&piece[..split], &piece[split + 1..]);
                return Some(Property { name, value, start: property_start, end });
            }
        }
        None
    })
}

/// The value of the property `name`, if it is there and is UTF-8. The last one counts, as for RocketMQ's clients, which read
/// the block into a map; so what a broker appends cannot be forestalled by a sender. A value of no bytes is none.
pub fn find<'a>(block: &'a [u8], name: &str) -> Option<&'a str> {
    let (mut rest, mut found) = (block, None);
    while !rest.is_empty() {
        let (piece, after) = split_piece(rest);
        let value = piece.strip_prefix(name.as_bytes()).and_then(|value| value.strip_prefix(&[NAME_END]));
        found = value.filter(|value| !value.is_empty()).or(found);
        rest = after;
    }
    found.and_then(|value| std::str::from_utf8(value).ok())
}

/// A property that is looked for again and again, most often in vain: those blocks cost little.
#[derive(Debug)]
pub struct Search {
    name: &'static str,
    with_end: memchr::memmem::Finder<'static>,
}

impl Search {
    /// For the property `name`.
    pub fn new(name: &'static str) -> Self {
        let with_end = [name.as_bytes(), &[NAME_END]].concat();
        Self { name, with_end: memchr::memmem::Finder::new(&with_end).into_owned() }
    }

    /// As `find`.
    pub fn find<'a>(&self, block: &'a [u8]) -> Option<&'a str> {
        self.with_end.find(block).and_then(|_| find(block, self.name))
    }
}

/// What comes before the next end of a value, and what comes after it.
fn split_piece(block: &[u8]) -> (&[u8], &[u8]) {
    memchr::memchr(VALUE_END, block).map_or((block, &[]), |at| (&block[..at], &block[at + 1..]))
}

/// Appends one property to `block`, ending an unterminated last one first.
pub fn append(block: &mut Vec<u8>, name: &str, value: &str) {
    end_last(block);
    block.extend_from_slice(name.as_bytes());
    block.push(NAME_END);
    block.extend_from_slice(value.as_bytes());
    block.push(VALUE_END);
}

/// Appends the properties of `more` to `block`, ending an unterminated last one first.
pub fn append_all(block: &mut Vec<u8>, more: &[u8]) {
    if !more.is_empty() {
        end_last(block);
        block.extend_from_slice(more);
    }
}

fn end_last(block: &mut Vec<u8>) {
    if block.last().is_some_and(|&last| last != VALUE_END) {
        block.push(VALUE_END);
    }
}

/// `block` without the properties named in `dropped`.
pub fn without(block: &[u8], dropped: &[&str]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(block.len());
    for property in iterate(block) {
        if !dropped.iter().any(|name| name.as_bytes() == property.name) {
            kept.extend_from_slice(property.name);
            kept.push(NAME_END);
            kept.extend_from_slice(property.value);
            kept.push(VALUE_END);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_tolerates_what_old_clients_send() {
        let pairs = |block: &[u8]| -> Vec<(String, String)> {
            iterate(block)
                .map(|p| (String::from_utf8_lossy(p.name).into(), String::from_utf8_lossy(p.value).into()))
                .collect()
        };
        let expected = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())];
        assert_eq!(pairs(b"a\x011\x02b\x012\x02"), expected);
        assert_eq!(pairs(b"a\x011\x02b\x012"), expected);
        assert_eq!(pairs(b"a\x011\x02junk\x02\x02b\x012"), expected);
        assert_eq!(pairs(b""), vec![]);
    }

    #[test]
    fn a_name_or_value_of_no_bytes_makes_no_property() {
        for block in [&b"a\x01"[..], b"a\x01\x02", b"\x01a\x02", b"\x01", b"\x01\x01a\x02"] {
            assert_eq!(iterate(block).count(), 0, "{block:?}");
            assert_eq!(find(block, "a"), None, "{block:?}");
        }
        assert_eq!(find(b"a\x011\x02a\x01\x02", "a"), Some("1"));
        let found: Vec<_> = iterate(b"a\x01\x01\x02").map(|property| property.value).collect();
        assert_eq!(found, [b"\x01"]);
    }

    #[test]
    fn places_cover_the_block() {
        let block = b"a\x011\x02WAIT\x01true\x02c\x013";
        let wait = iterate(block).nth(1).expect("there");
        assert_eq!((wait.start, wait.end), (4, 14));
        assert_eq!(without(block, &["WAIT"]), b"a\x011\x02c\x013\x02");
        assert_eq!(find(block, "c"), Some("3"));
    }

    #[test]
    fn the_last_of_equal_names_counts() {
        assert_eq!(find(b"a\x011\x02b\x012\x02a\x013\x02", "a"), Some("3"));
    }

    #[test]
    fn a_search_finds_what_find_finds() {
        let search = Search::new("TAGS");
        for block in [
            &b""[..],
            b"TAGS\x01a",
            b"KEYS\x01TAGS\x02",
            b"MYTAGS\x01a\x02",
            b"a\x01b\x02TAGS\x01c\x02TAGS\x01d\x02",
            b"a\x01TAGS\x01b\x02",
            b"TAGS\x01\xff\x02",
        ] {
            assert_eq!(search.find(block), find(block, "TAGS"), "{block:?}");
        }
        assert_eq!(search.find(b"a\x01b\x02TAGS\x01c"), Some("c"));
    }

    #[test]
    fn appending_ends_an_open_value() {
        let mut block = b"a\x011".to_vec();
        append(&mut block, "b", "2");
        assert_eq!(block, b"a\x011\x02b\x012\x02");
        let mut block = b"a\x011".to_vec();
        append_all(&mut block, b"");
        append_all(&mut block, b"b\x012\x02c\x013");
        append_all(&mut block, b"d\x014");
        assert_eq!(block, b"a\x011\x02b\x012\x02c\x013\x02d\x014");
    }
}
