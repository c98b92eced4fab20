//! Routed messages: what an exchange has sent on to any number of message queues, stored once.
//!
//! The record has the topic `rmq_sys_sluice_routed`, queue 0, queue offset 0, no properties but the checksum that every record of its log
//! may have, and in its system flag ROLLBACK and a bit of our own (`ROUTED`), so that a Java broker makes neither queue entry nor key of
//! it. All that concerns the message is in its body, which a reader gets whole:
//!
//! ```text
//! offset  size  field
//!      0     1  version of what follows: 1
//!      1   1+n  name of the exchange
//!     ..   1+n  routing key
//!     ..   4+n  header block: what the dialect says of the message; opaque here
//!     ..     n  the message's own body
//!     ..  22*n  a reference for each lane of a message queue that lists the record:
//!                 0  4  number of the message queue
//!                 4  1  lane
//!                 5  1  flags: bit 0: it has a time to live
//!                 6  8  offset in the lane, patched by `seal_routed` once the append lock is held
//!                14  8  time to live from the store time on, ms; 0 if it has none
//!     ..     4  count of references, 1 or more
//! ```
//! Numbers are big-endian. The offsets are known last, so they lie last: until then the record's CRC field has the CRC of what comes
//! before the references, and `seal_routed` continues it over them.

use base::cursor::{DecodeError, Reader};
use base::name::MessageQueueName;
use base::{QueueId, QueueNumber, QueueOffset, Timestamp};
use bytes::{BufMut, BytesMut};
use crc32fast::Hasher;
use std::net::SocketAddr;

use crate::index_rules::EntryCode;
use crate::record::{self, BODY_CRC_MASK, Draft, Parts, system_flag};

/// Topic of the records of routed messages: no client may send to it.
pub const ROUTED_TOPIC: &str = "rmq_sys_sluice_routed";

/// Version of the layout that is written.
pub const ROUTED_VERSION: u8 = 1;

/// Longest name of an exchange, and longest routing key, in bytes.
pub const SHORT_TEXT_SIZE_MAX: usize = u8::MAX as usize;

/// Bytes of one reference.
pub const REFERENCE_SIZE: usize = 22;
const COUNT_SIZE: usize = 4;
const OFFSET_AT: usize = 6;
const TIME_TO_LIVE_AT: usize = 14;
const HAS_TIME_TO_LIVE: u8 = 1;

/// Before the first reference, beside names, header block and body.
const FIXED_SIZE: usize = 1 + 1 + 1 + 4;

/// What is known of a routed message before it is appended, beside where it goes.
#[derive(Clone, Copy, Debug)]
pub struct RoutedDraft<'a> {
    /// Name of the exchange, at most `SHORT_TEXT_SIZE_MAX` bytes: what is longer is cut off.
    pub exchange: &'a [u8],
    /// Routing key, the same.
    pub key: &'a [u8],
    /// What the dialect says of the message.
    pub header: &'a [u8],
    /// The message's own body, in pieces that are stored one after the other.
    pub body: &'a [&'a [u8]],
    /// When its producer sent it.
    pub born_timestamp: Timestamp,
    /// Where the producer is.
    pub born_host: SocketAddr,
    /// Where this broker is.
    pub store_host: SocketAddr,
    /// How often it was a dead letter: what it says of that is the broker's word, unless this is 0.
    pub deaths: u32,
}

/// Where a routed message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The message queue.
    pub queue: QueueNumber,
    /// Its lane.
    pub lane: u8,
    /// How long after it was stored the message is of use, ms.
    pub time_to_live_ms: Option<u64>,
}

/// A place where a routed message is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Which lane.
    pub destination: Destination,
    /// Offset in the lane.
    pub offset: QueueOffset,
}

impl Reference {
    /// Name by which the store knows the message queue.
    pub fn topic(&self) -> MessageQueueName {
        MessageQueueName::of(self.destination.queue)
    }

    /// Number of the lane among the queues of that name.
    pub const fn queue(&self) -> QueueId {
        QueueId(self.destination.lane as u32)
    }

    /// What the entry keeps, of a record with so many bytes around the body.
    pub const fn code(&self, around: u32) -> EntryCode {
        EntryCode::Lane { time_to_live_ms: self.destination.time_to_live_ms, around }
    }
}

impl RoutedDraft<'_> {
    fn draft<'a>(&'a self, properties: &'a [&'a [u8]]) -> Draft<'a> {
        Draft {
            topic: ROUTED_TOPIC,
            queue: QueueId(0),
            flag: 0,
            system_flag: system_flag::TRANSACTION_ROLLBACK | system_flag::ROUTED,
            born_timestamp: self.born_timestamp,
            born_host: self.born_host,
            store_host: self.store_host,
            reconsume_times: i32::try_from(self.deaths).unwrap_or(i32::MAX),
            prepared_transaction_offset: 0,
            body: &[],
            properties,
        }
    }

    fn body_len(&self, destination_count: usize) -> usize {
        let names = short(self.exchange).len() + short(self.key).len();
        FIXED_SIZE + names + self.header.len() + self.message_len() + destination_count * REFERENCE_SIZE + COUNT_SIZE
    }

    /// Bytes of the message's own body.
    pub fn message_len(&self) -> usize {
        self.body.iter().map(|piece| piece.len()).sum()
    }

    /// Bytes `encode` will append for so many destinations.
    pub fn encoded_len(&self, destination_count: usize, checksum_room: &[u8]) -> usize {
        self.draft(&[checksum_room]).encoded_len_around(self.body_len(destination_count))
    }

    /// Appends the record to `out`; `record::seal` and `seal_routed` complete it. `checksum_room` is the checksum that every record of the
    /// log ends with, or nothing.
    ///
    /// The caller has checked the record's size against its limit, and that there is a destination.
    pub fn encode(
        &self,
        destinations: impl ExactSizeIterator<Item = Destination>,
        checksum_room: &[u8],
        out: &mut BytesMut,
    ) {
        let (start, count) = (out.len(), destinations.len());
        let body_len = self.body_len(count);
        let mut crc = Hasher::new();
        self.draft(&[checksum_room]).encode_around(out, (body_len, 0), |out| {
            let body_start = out.len();
            out.put_u8(ROUTED_VERSION);
            for name in [self.exchange, self.key].map(short) {
                out.put_u8(name.len() as u8);
                out.extend_from_slice(name);
            }
            out.put_u32(self.header.len() as u32);
            out.extend_from_slice(self.header);
            self.body.iter().for_each(|piece| out.extend_from_slice(piece));
            crc.update(out.get(body_start..).unwrap_or_default());
            destinations.for_each(|destination| out.extend_from_slice(&encoded(destination)));
            out.put_u32(count as u32);
        });
        if let Some(record) = out.get_mut(start..) {
            record::store_body_crc(record, crc.finalize());
        }
    }
}

fn short(text: &[u8]) -> &[u8] {
    debug_assert!(text.len() <= SHORT_TEXT_SIZE_MAX, "a name of {} bytes", text.len());
    text.get(..SHORT_TEXT_SIZE_MAX).unwrap_or(text)
}

fn encoded(Destination { queue, lane, time_to_live_ms }: Destination) -> [u8; REFERENCE_SIZE] {
    let mut bytes = [0; REFERENCE_SIZE];
    bytes[..4].copy_from_slice(&queue.0.to_be_bytes());
    bytes[4] = lane;
    bytes[5] = if time_to_live_ms.is_some() { HAS_TIME_TO_LIVE } else { 0 };
    bytes[TIME_TO_LIVE_AT..].copy_from_slice(&time_to_live_ms.unwrap_or_default().to_be_bytes());
    bytes
}

/// Fills in the offsets of a whole record that `RoutedDraft::encode` has made for as many destinations, and completes the CRC of its body.
/// To be called once, before `record::seal_checksum`.
pub fn seal_routed(record: &mut [u8], offsets: impl ExactSizeIterator<Item = QueueOffset>) {
    let Some((range, crc)) = record::body_range(record).zip(record::stored_body_crc(record)) else { return };
    let references_size = offsets.len() * REFERENCE_SIZE + COUNT_SIZE;
    let start = range.end.saturating_sub(references_size);
    let Some(end_of_body) = record.get_mut(start..range.end) else { return };
    debug_assert!(end_of_body.ends_with(&(offsets.len() as u32).to_be_bytes()), "an offset for each reference");
    for (reference, offset) in end_of_body.chunks_exact_mut(REFERENCE_SIZE).zip(offsets) {
        reference[OFFSET_AT..TIME_TO_LIVE_AT].copy_from_slice(&offset.0.to_be_bytes());
    }
    let mut crc = Hasher::new_with_initial(crc);
    crc.update(end_of_body);
    record::store_body_crc(record, crc.finalize() & BODY_CRC_MASK);
}

/// Whether a record of this topic and system flag is a routed message.
#[inline]
pub fn is_routed(topic: &[u8], flags: i32) -> bool {
    let of_rollback = flags & system_flag::TRANSACTION_MASK == system_flag::TRANSACTION_ROLLBACK;
    flags & system_flag::ROUTED != 0 && of_rollback && topic == ROUTED_TOPIC.as_bytes()
}

/// Whether a record of this topic and system flag is no routed message, and may have been one before it was damaged.
pub fn may_have_been_routed(topic: &[u8], flags: i32) -> bool {
    let is_marked = flags & system_flag::ROUTED != 0 || topic == ROUTED_TOPIC.as_bytes();
    is_marked && !is_routed(topic, flags)
}

/// Why a record is no routed message that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutedError {
    /// It is of a newer version.
    #[error(
        "a routed message of version {0}, and this Sluice reads version {ROUTED_VERSION} and below: start the newer Sluice again"
    )]
    Newer(u8),
    /// It is none.
    #[error("no routed message: {0}")]
    Damaged(#[from] DecodeError),
}

/// A routed message, taken apart without copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed<'a> {
    /// Name of the exchange.
    pub exchange: &'a [u8],
    /// Routing key.
    pub key: &'a [u8],
    /// What the dialect says of the message.
    pub header: &'a [u8],
    /// The message's own body.
    pub body: &'a [u8],
    /// Whole references, one or more.
    references: &'a [u8],
}

impl<'a> Routed<'a> {
    /// Takes apart the record at the front of `bytes`, which may go on beyond it. The CRC is not checked here.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, RoutedError> {
        let parts = Parts::split(bytes)?;
        if !is_routed(parts.topic, parts.system_flag()) {
            let found = format!("a record of topic {}", base::cursor::preview(parts.topic));
            return Err(DecodeError::BadValue { what: "routed message", found }.into());
        }
        Self::parse(parts.body)
    }

    /// Takes apart the body of a record that `is_routed`. The references are not looked at.
    pub fn parse(body: &'a [u8]) -> Result<Self, RoutedError> {
        let mut reader = Reader::new(body);
        match reader.u8("version of a routed message")? {
            ROUTED_VERSION => {}
            0 => {
                let found = "version 0".to_owned();
                return Err(DecodeError::BadValue { what: "routed message", found }.into());
            }
            newer => return Err(RoutedError::Newer(newer)),
        }
        let exchange = short_text(&mut reader, "exchange")?;
        let key = short_text(&mut reader, "routing key")?;
        let header_len = reader.u32("header block")? as usize;
        let header = reader.slice(header_len, "header block")?;
        let rest = reader.slice(reader.remaining(), "body")?;
        let truncated =
            |needed| DecodeError::Truncated { what: "references of a routed message", needed, found: rest.len() };
        let (rest, count) = rest.split_last_chunk::<COUNT_SIZE>().ok_or_else(|| truncated(COUNT_SIZE))?;
        let count = u32::from_be_bytes(*count) as usize;
        let size = count.saturating_mul(REFERENCE_SIZE);
        let body_len = rest.len().checked_sub(size).ok_or_else(|| truncated(size))?;
        if count == 0 {
            let limit = (rest.len() / REFERENCE_SIZE) as i64;
            return Err(DecodeError::BadLength { what: "references of a routed message", found: 0, limit }.into());
        }
        let (body, references) = rest.split_at(body_len);
        Ok(Self { exchange, key, header, body, references })
    }

    /// Bytes of the record, which is this large, around the body.
    pub fn around(&self, record_size: usize) -> u32 {
        u32::try_from(record_size.saturating_sub(self.body.len())).unwrap_or(u32::MAX)
    }

    /// How many lanes list it.
    pub const fn reference_count(&self) -> usize {
        self.references.len() / REFERENCE_SIZE
    }

    /// The lanes that list it.
    pub fn references(&self) -> impl ExactSizeIterator<Item = Reference> + use<'a> {
        self.references.chunks_exact(REFERENCE_SIZE).map(reference)
    }
}

fn short_text<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<&'a [u8], DecodeError> {
    let size = reader.u8(what)?;
    reader.slice(usize::from(size), what)
}

fn reference(bytes: &[u8]) -> Reference {
    let number =
        |at: usize| u64::from_be_bytes(bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; 8]));
    let queue = u32::from_be_bytes(bytes.first_chunk().copied().unwrap_or([0; 4]));
    let has_time_to_live = bytes.get(5).is_some_and(|flags| flags & HAS_TIME_TO_LIVE != 0);
    Reference {
        destination: Destination {
            queue: QueueNumber(queue),
            lane: bytes.get(4).copied().unwrap_or_default(),
            time_to_live_ms: has_time_to_live.then(|| number(TIME_TO_LIVE_AT)),
        },
        offset: QueueOffset(number(OFFSET_AT)),
    }
}

#[cfg(test)]
mod tests {
    use base::LogOffset;

    use super::*;
    use crate::index_rules::{IndexRules, ListedTopic};
    use crate::lane_code::{LaneCode, body_size};
    use crate::queue_entry::Entry;
    use crate::record::{CHECKSUM_BLANK, Record, checksum_holds, seal, seal_checksum};

    const STORED: Timestamp = Timestamp(1_700_000_000_000);

    fn draft<'a>(body: &'a [&'a [u8]]) -> RoutedDraft<'a> {
        RoutedDraft {
            exchange: b"trades",
            key: b"eu.\xFF.stock",
            header: b"\x00\x3C\x00\x00",
            body,
            born_timestamp: Timestamp(1_699_999_999_999),
            born_host: "10.0.0.9:40000".parse().expect("an address"),
            store_host: "127.0.0.1:10911".parse().expect("an address"),
            deaths: 0,
        }
    }

    fn destinations() -> [Destination; 3] {
        [(7, 0, None), (u32::MAX, 255, Some(60_000)), (0, 3, Some(0))]
            .map(|(queue, lane, time_to_live_ms)| Destination { queue: QueueNumber(queue), lane, time_to_live_ms })
    }

    const OFFSETS: [u64; 3] = [12, 0, u64::MAX];

    fn sealed(draft: &RoutedDraft<'_>, room: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&b"before"[..]);
        draft.encode(destinations().into_iter(), room, &mut bytes);
        let mut bytes = bytes.split_off(6);
        assert_eq!(bytes.len(), draft.encoded_len(3, room));
        seal(&mut bytes, QueueOffset(0), LogOffset(4096), STORED);
        seal_routed(&mut bytes, OFFSETS.map(QueueOffset).into_iter());
        seal_checksum(&mut bytes);
        bytes
    }

    #[test]
    fn what_goes_in_comes_out_whole_with_its_offsets_and_both_checksums() {
        let wide = RoutedDraft {
            born_host: "[2001:db8::1]:40000".parse().expect("an address"),
            ..draft(&[b"bo", b"", b"dy"])
        };
        for (draft, body) in [(draft(&[b"body"]), &b"body"[..]), (draft(&[]), b""), (wide, b"body")] {
            for room in [&b""[..], CHECKSUM_BLANK] {
                let bytes = sealed(&draft, room);
                assert!(checksum_holds(&bytes));
                let record = Record::decode(&bytes).expect("a record");
                assert!(record.body_is_intact(), "{} bytes", body.len());
                assert_eq!(
                    (record.topic, record.queue, record.queue_offset),
                    (ROUTED_TOPIC, QueueId(0), QueueOffset(0))
                );
                let routed = Routed::decode(&bytes).expect("a routed message");
                assert_eq!((routed.exchange, routed.key), (draft.exchange, draft.key));
                assert_eq!((routed.header, routed.body, routed.reference_count()), (draft.header, body, 3));
                let wanted = destinations().into_iter().zip(OFFSETS.map(QueueOffset));
                assert!(routed.references().eq(wanted.map(|(destination, offset)| Reference { destination, offset })));
            }
        }
    }

    #[test]
    fn its_entries_are_in_message_queues_alone_and_keep_when_it_expires() {
        let bytes = sealed(&draft(&[b"body"]), b"");
        let record = Record::decode(&bytes).expect("a record");
        let indexed = IndexRules::default().apply_to(&record);
        assert!(indexed.is_routed && !indexed.is_listed && !indexed.is_state && indexed.key_hashes().next().is_none());
        let listings: Vec<_> = indexed.listings(&record).collect();
        let told = |number: usize| {
            let listing = &listings[number];
            let entry = Entry { log_offset: LogOffset(0), size: record.size as u32, tag_code: listing.code.at(STORED) };
            let expiry = LaneCode::of(&entry).expiry.map(|expiry| expiry.0);
            (listing.topic.as_str().to_owned(), listing.queue.0, listing.offset.0, expiry, body_size(&entry))
        };
        // The last reference has an offset that no file can have.
        assert_eq!(listings.len(), 2);
        assert_eq!(told(0), ("%MQ%7".to_owned(), 0, 12, None, 4));
        assert_eq!(told(1), ("%MQ%4294967295".to_owned(), 255, 0, Some(1_700_000_060_000), 4));
    }

    #[test]
    fn no_other_record_has_an_entry_in_a_message_queue() {
        let host = "127.0.0.1:10911".parse().expect("an address");
        let flags = system_flag::TRANSACTION_ROLLBACK | system_flag::ROUTED;
        let whole = sealed(&draft(&[]), b"");
        let body = Record::decode(&whole).expect("a record").body;
        let fan_out = record::fan_out_properties(&["%MQ%7", "bills"]);
        for (topic, system_flag, wanted) in [
            ("%MQ%7", 0, &["bills"][..]),
            ("orders", flags, &[]),
            (ROUTED_TOPIC, system_flag::TRANSACTION_ROLLBACK, &[]),
            (ROUTED_TOPIC, system_flag::ROUTED, &[ROUTED_TOPIC, "bills"]),
        ] {
            let properties: &[&[u8]] = &[&fan_out];
            let draft = Draft { topic, system_flag, body, ..crate::state::draft(b"", properties, host, STORED) };
            let mut bytes = BytesMut::new();
            draft.encode(&mut bytes);
            let record = Record::decode(&bytes).expect("a record");
            let indexed = IndexRules::default().apply_to(&record);
            let listings: Vec<_> = indexed.listings(&record).map(|listing| listing.topic).collect();
            let wanted: Vec<_> = wanted.iter().map(|&topic| ListedTopic::Named(topic)).collect();
            assert_eq!(listings, wanted, "{topic} {system_flag:#x}");
            assert!(Routed::decode(&bytes).is_err());
        }
    }

    #[test]
    fn what_is_cut_off_or_says_too_much_is_an_error() {
        let bytes = sealed(&draft(&[b"body"]), b"");
        let body = Record::decode(&bytes).expect("a record").body.to_vec();
        for length in 0..body.len() {
            // What is left may end with what reads as a smaller count.
            if let Ok(routed) = Routed::parse(&body[..length]) {
                assert!(routed.reference_count() * REFERENCE_SIZE < length);
            }
        }
        let with = |at: usize, value: &[u8]| {
            let mut changed = body.clone();
            changed[at..at + value.len()].copy_from_slice(value);
            Routed::parse(&changed).expect_err("refused")
        };
        let (count_at, header_at) = (body.len() - 4, 1 + 7 + 11);
        assert_eq!(with(0, &[2]), RoutedError::Newer(2));
        for (at, value) in [
            (0, &[0][..]),
            (1, &[255]),
            (header_at, &[255; 4]),
            (count_at, &[0; 4]),
            (count_at, &[255; 4]),
            (count_at, &[0, 0, 0, 4]),
        ] {
            assert!(matches!(with(at, value), RoutedError::Damaged(_)), "{value:?} at {at}");
        }
        assert!(Routed::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
