//! The one commit-log record: what a message is on disk, on a replica, and in the body of a fetch reply.
//!
//! ```text
//! offset  size  field
//!      0     4  size of the whole record
//!      4     4  magic: 0xDAA320A7 (topic length in 1 byte), 0xDAA320AB (in 2 bytes), 0xCBD43194 (filler at a segment's end)
//!      8     4  CRC-32 of the body, top bit cleared
//!     12     4  queue id
//!     16     4  flag (the user's own)
//!     20     8  queue offset          } patched by `seal` once the
//!     28     8  log offset            } append lock is held
//!     36     4  system flag
//!     40     8  born timestamp, ms
//!     48   8|20 born host: address 4 or 16, port 4   (16 if system flag has 0x10)
//!      ..    8  store timestamp, ms   } patched by `seal`
//!      ..  8|20 store host: address 4 or 16, port 4  (16 if system flag has 0x20)
//!      ..    4  reconsume times
//!      ..    8  prepared transaction offset
//!      ..  4+n  body length, body
//!      ..  1+n  topic length, topic   (2+n under the second magic)
//!      ..  2+n  properties length, properties (the last may be a checksum, see `record/checksum.rs`)
//! ```
//! All numbers are big-endian. Source: RocketMQ `CommitLog` / `MessageDecoder`. The layout stands here alone: `storage`
//! writes it, `wire` and the load generator read it out of fetch replies.

mod body;
mod checksum;
mod deliveries;
mod message_id;
mod parts;
mod queue_ref;
pub mod system_flag;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{BufMut, BytesMut};

use base::cursor::{DecodeError, Reader};
use base::limits::{PROPERTIES_SIZE_MAX, RECORD_SIZE_MAX};
use base::offset::{LogOffset, QueueId, QueueOffset};
use base::time::Timestamp;

pub use body::body_crc;
pub(crate) use body::{BODY_CRC_MASK, body_range, store_body_crc, stored_body_crc};
pub use checksum::{
    BODY_LENGTH_WITHIN, CHECKSUM_BLANK, checksum_holds, parts_size_of_damaged, seal_checksum, sizes_of_damaged,
};
pub use deliveries::{add_deliveries, deliveries_of};
pub use message_id::{OffsetMessageId, log_offset_of_message_id, offset_message_id};
pub use parts::Parts;
pub use queue_ref::{QueueRef, fan_out_properties, fan_out_queue_id, seal_fan_out};

/// Record whose topic length takes one byte.
pub const MAGIC_V1: u32 = 0xDAA3_20A7;
/// Record whose topic length takes two bytes.
pub const MAGIC_V2: u32 = 0xDAA3_20AB;
/// Filler that ends a segment.
pub const MAGIC_FILLER: u32 = 0xCBD4_3194;
/// Bytes of a filler that are written: its size and magic. This much stays free at the end of every segment.
pub const FILLER_SIZE: usize = 8;

const SIZE_AT: usize = 0;
const MAGIC_AT: usize = SIZE_AT + 4;
const BODY_CRC_AT: usize = MAGIC_AT + 4;
const QUEUE_ID_AT: usize = BODY_CRC_AT + 4;
const FLAG_AT: usize = QUEUE_ID_AT + 4;
const QUEUE_OFFSET_AT: usize = FLAG_AT + 4;
const LOG_OFFSET_AT: usize = QUEUE_OFFSET_AT + 8;
const SYSTEM_FLAG_AT: usize = LOG_OFFSET_AT + 8;
const BORN_TIMESTAMP_AT: usize = SYSTEM_FLAG_AT + 4;
const BORN_HOST_AT: usize = BORN_TIMESTAMP_AT + 8;

const HOST_V4_SIZE: usize = 8;
const HOST_V6_SIZE: usize = 20;
/// Everything but hosts, body, topic and properties.
const FIXED_SIZE: usize = BORN_HOST_AT + 8 + 4 + 8 + 4 + 1 + 2;
/// The smallest record: IPv4 hosts, nothing in it.
pub const RECORD_SIZE_MIN: usize = FIXED_SIZE + 2 * HOST_V4_SIZE;
const _: () = assert!(RECORD_SIZE_MIN == 91);

/// What is known of a message before it is appended.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    /// Topic name, at most 127 bytes: RocketMQ 4.9 reads no record of a longer one (the second magic).
    pub topic: &'a str,
    /// Queue it goes to.
    pub queue: QueueId,
    /// The user's own number.
    pub flag: i32,
    /// System flag; the host bits are set here.
    pub system_flag: i32,
    /// When the producer made it.
    pub born_timestamp: Timestamp,
    /// Where the producer is.
    pub born_host: SocketAddr,
    /// Where this broker is.
    pub store_host: SocketAddr,
    /// How often it was consumed in vain.
    pub reconsume_times: i32,
    /// Log offset of the half message it comes from; 0 for none.
    pub prepared_transaction_offset: u64,
    /// Body as the producer sent it (compressed or not).
    pub body: &'a [u8],
    /// Property block in pieces that are stored one after the other.
    pub properties: &'a [&'a [u8]],
}

impl Draft<'_> {
    /// Length of the property block.
    pub fn properties_len(&self) -> usize {
        self.properties.iter().map(|piece| piece.len()).sum()
    }

    /// Bytes `encode` will append.
    pub fn encoded_len(&self) -> usize {
        self.encoded_len_around(self.body.len())
    }

    /// The same with a body of that many bytes instead of its own.
    pub(crate) fn encoded_len_around(&self, body_len: usize) -> usize {
        FIXED_SIZE
            + host_size(self.born_host.is_ipv6())
            + host_size(self.store_host.is_ipv6())
            + body_len
            + self.topic.len()
            + usize::from(self.topic.len() > MAGIC_V1_TOPIC_SIZE_MAX)
            + self.properties_len()
    }

    /// System flag with the bits that tell the kind of either host.
    fn flags_with_hosts(&self) -> i32 {
        let mut flags = self.system_flag & !(system_flag::BORN_HOST_V6 | system_flag::STORE_HOST_V6);
        flags |= if self.born_host.is_ipv6() { system_flag::BORN_HOST_V6 } else { 0 };
        flags |= if self.store_host.is_ipv6() { system_flag::STORE_HOST_V6 } else { 0 };
        flags
    }

    /// Appends the record to `out` with queue offset, log offset and store timestamp zero: `seal` fills them in.
    ///
    /// The caller has checked topic, body and properties against their limits.
    pub fn encode(&self, out: &mut BytesMut) {
        self.encode_around(out, (self.body.len(), body_crc(self.body)), |out| out.extend_from_slice(self.body));
    }

    /// The same around a body of that length and CRC which `put_body` appends.
    #[inline]
    pub(crate) fn encode_around(
        &self,
        out: &mut BytesMut,
        (body_len, body_crc): (usize, u32),
        put_body: impl FnOnce(&mut BytesMut),
    ) {
        let length = self.encoded_len_around(body_len);
        debug_assert!(length <= RECORD_SIZE_MAX && self.properties_len() <= PROPERTIES_SIZE_MAX);
        out.reserve(length);
        let start = out.len();
        // Small fields are gathered first: an append to the buffer costs more than most of them.
        let wide_topic = self.topic.len() > MAGIC_V1_TOPIC_SIZE_MAX;
        let mut head = Head::default();
        head.put((length as u32).to_be_bytes());
        head.put(if wide_topic { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
        head.put(body_crc.to_be_bytes());
        head.put(self.queue.0.to_be_bytes());
        head.put(self.flag.to_be_bytes());
        head.put([0; 16]);
        head.put(self.flags_with_hosts().to_be_bytes());
        head.put(self.born_timestamp.0.to_be_bytes());
        head.put_host(self.born_host);
        head.put([0; 8]);
        head.put_host(self.store_host);
        head.put(self.reconsume_times.to_be_bytes());
        head.put(self.prepared_transaction_offset.to_be_bytes());
        head.put((body_len as u32).to_be_bytes());
        out.extend_from_slice(head.as_slice());
        put_body(out);
        if wide_topic {
            out.put_u16(self.topic.len() as u16);
        } else {
            out.put_u8(self.topic.len() as u8);
        }
        out.extend_from_slice(self.topic.as_bytes());
        out.put_u16(self.properties_len() as u16);
        for piece in self.properties {
            out.extend_from_slice(piece);
        }
        debug_assert_eq!(out.len() - start, length);
    }
}

const MAGIC_V1_TOPIC_SIZE_MAX: usize = 127;

/// Everything before the body, at its longest.
const HEAD_SIZE_MAX: usize = BORN_HOST_AT + HOST_V6_SIZE + 8 + HOST_V6_SIZE + 4 + 8 + 4;

/// The fields before the body, on the stack.
struct Head {
    bytes: [u8; HEAD_SIZE_MAX],
    size: usize,
}

impl Default for Head {
    fn default() -> Self {
        Self { bytes: [0; HEAD_SIZE_MAX], size: 0 }
    }
}

impl Head {
    #[inline]
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.size..self.size + N].copy_from_slice(&field);
        self.size += N;
    }

    #[inline]
    fn put_host(&mut self, host: SocketAddr) {
        match host.ip() {
            IpAddr::V4(address) => self.put(address.octets()),
            IpAddr::V6(address) => self.put(address.octets()),
        }
        self.put(u32::from(host.port()).to_be_bytes());
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.size).unwrap_or_default()
    }
}

/// Writes offsets and store time into an encoded record. `record` begins at the record and may be longer than it.
pub fn seal(record: &mut [u8], queue_offset: QueueOffset, log_offset: LogOffset, store_timestamp: Timestamp) {
    debug_assert!(record.len() >= RECORD_SIZE_MIN);
    let born_host_size = host_size(record[SYSTEM_FLAG_AT + 3] & system_flag::BORN_HOST_V6 as u8 != 0);
    let store_timestamp_at = BORN_HOST_AT + born_host_size;
    record[QUEUE_OFFSET_AT..LOG_OFFSET_AT].copy_from_slice(&queue_offset.0.to_be_bytes());
    record[LOG_OFFSET_AT..SYSTEM_FLAG_AT].copy_from_slice(&log_offset.0.to_be_bytes());
    record[store_timestamp_at..store_timestamp_at + 8].copy_from_slice(&store_timestamp.0.to_be_bytes());
}

/// Whether `bytes` begin with the size and magic of a record, whatever the size.
pub fn has_record_magic(bytes: &[u8]) -> bool {
    let magic = bytes.get(MAGIC_AT..BODY_CRC_AT).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    matches!(magic, Some(MAGIC_V1 | MAGIC_V2))
}

/// Where the first record begins in `bytes`, which lie at `at`: one with the magic of a record, and with this very log offset in it.
pub fn find(bytes: &[u8], at: LogOffset) -> Option<LogOffset> {
    (0..bytes.len().saturating_sub(LOG_OFFSET_AT)).find_map(|from| {
        let (bytes, here) = (bytes.get(from..)?, at.after(from as u64));
        (has_record_magic(bytes) && log_offset_of(bytes) == Some(here)).then_some(here)
    })
}

/// The log offset an encoded record says it is at.
pub fn log_offset_of(record: &[u8]) -> Option<LogOffset> {
    let bytes = record.get(LOG_OFFSET_AT..SYSTEM_FLAG_AT)?;
    Some(LogOffset(u64::from_be_bytes(bytes.try_into().ok()?)))
}

/// When an encoded record says it was stored.
pub fn store_timestamp_of(record: &[u8]) -> Option<Timestamp> {
    let is_v6 = record.get(SYSTEM_FLAG_AT + 3)? & system_flag::BORN_HOST_V6 as u8 != 0;
    let at = BORN_HOST_AT + host_size(is_v6);
    let bytes = record.get(at..at + 8)?;
    Some(Timestamp(u64::from_be_bytes(bytes.try_into().ok()?)))
}

/// Bytes from a record's front that hold its size, magic and log offset.
pub const LOG_OFFSET_WITHIN: usize = SYSTEM_FLAG_AT;
/// Bytes from a record's front that hold its store timestamp, whatever its flags.
pub const STORE_TIMESTAMP_WITHIN: usize = BORN_HOST_AT + HOST_V6_SIZE + 8;

/// The filler that takes up the last `size` bytes of a segment.
pub fn filler(size: usize) -> [u8; FILLER_SIZE] {
    let mut bytes = [0; FILLER_SIZE];
    bytes[..MAGIC_AT].copy_from_slice(&(size as u32).to_be_bytes());
    bytes[MAGIC_AT..].copy_from_slice(&MAGIC_FILLER.to_be_bytes());
    bytes
}

/// What the log holds at one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A record of this many bytes.
    Record(usize),
    /// A filler that says it takes up this many bytes: the next record begins the next segment.
    Filler(usize),
    /// Zeroes: nothing was written here yet.
    End,
}

/// Reads size and magic from the first 8 bytes at a log offset.
#[inline]
pub fn kind_at(bytes: &[u8]) -> Result<Kind, DecodeError> {
    let mut reader = Reader::new(bytes);
    let size = reader.u32("record size")?;
    let magic = reader.u32("record magic")?;
    match (size, magic) {
        (size, MAGIC_FILLER) => Ok(Kind::Filler(size as usize)),
        (size, MAGIC_V1 | MAGIC_V2) if (RECORD_SIZE_MIN..=RECORD_SIZE_MAX).contains(&(size as usize)) => {
            Ok(Kind::Record(size as usize))
        }
        (size, MAGIC_V1 | MAGIC_V2) => {
            Err(DecodeError::BadLength { what: "record size", found: i64::from(size), limit: RECORD_SIZE_MAX as i64 })
        }
        (0, _) => Ok(Kind::End),
        (_, magic) => Err(DecodeError::BadValue { what: "record magic", found: format!("{magic:#010x}") }),
    }
}

/// The records that `bytes` are, one after the other; ends where none begins.
pub fn split(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let Ok(Kind::Record(size)) = kind_at(bytes) else { return None };
        let (record, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        Some(record)
    })
}

/// A record, taken apart without copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Bytes of the whole record.
    pub size: usize,
    /// CRC-32 of the body, top bit cleared.
    pub body_crc: u32,
    /// Queue it is in.
    pub queue: QueueId,
    /// The user's own number.
    pub flag: i32,
    /// Offset in the queue.
    pub queue_offset: QueueOffset,
    /// Byte position in the log.
    pub log_offset: LogOffset,
    /// System flag.
    pub system_flag: i32,
    /// When the producer made it.
    pub born_timestamp: Timestamp,
    /// Where the producer is.
    pub born_host: SocketAddr,
    /// When it was stored.
    pub store_timestamp: Timestamp,
    /// Where the broker is that stored it.
    pub store_host: SocketAddr,
    /// How often it was consumed in vain.
    pub reconsume_times: i32,
    /// Log offset of the half message it comes from.
    pub prepared_transaction_offset: u64,
    /// Body.
    pub body: &'a [u8],
    /// Topic.
    pub topic: &'a str,
    /// Property block.
    pub properties: &'a [u8],
}

impl<'a> Record<'a> {
    /// Takes apart the record at the front of `bytes`, which may go on beyond it. The body's CRC is not checked here.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Parts { size, head, body, topic, properties } = Parts::split(bytes)?;
        let topic = Reader::new(topic).text(topic.len(), "topic")?;
        let mut reader = Reader::new(head);
        reader.slice(BODY_CRC_AT, "record size and magic")?;
        let body_crc = reader.u32("body CRC")?;
        let queue = QueueId(reader.u32("queue id")?);
        let flag = reader.i32("flag")?;
        let queue_offset = QueueOffset(reader.u64("queue offset")?);
        let log_offset = LogOffset(reader.u64("log offset")?);
        let flags = reader.i32("system flag")?;
        let born_timestamp = Timestamp(reader.u64("born timestamp")?);
        let born_host = take_host(&mut reader, flags & system_flag::BORN_HOST_V6 != 0)?;
        let store_timestamp = Timestamp(reader.u64("store timestamp")?);
        let store_host = take_host(&mut reader, flags & system_flag::STORE_HOST_V6 != 0)?;
        let reconsume_times = reader.i32("reconsume times")?;
        let prepared_transaction_offset = reader.u64("prepared transaction offset")?;
        Ok(Self {
            size,
            body_crc,
            queue,
            flag,
            queue_offset,
            log_offset,
            system_flag: flags,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body,
            topic,
            properties,
        })
    }

    /// Whether the body is what was stored.
    pub fn body_is_intact(&self) -> bool {
        body_crc(self.body) == self.body_crc
    }

    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&'a str> {
        crate::properties::find(self.properties, name)
    }
}

const fn host_size(is_v6: bool) -> usize {
    if is_v6 { HOST_V6_SIZE } else { HOST_V4_SIZE }
}

fn take_host(reader: &mut Reader<'_>, is_v6: bool) -> Result<SocketAddr, DecodeError> {
    let address = if is_v6 {
        let high = reader.u64("host")?;
        let low = reader.u64("host")?;
        IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
    } else {
        IpAddr::V4(Ipv4Addr::from_bits(reader.u32("host")?))
    };
    let port = reader.u32("port")?;
    Ok(SocketAddr::new(address, port as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft<'a>(topic: &'a str, body: &'a [u8], properties: &'a [&'a [u8]], host: &str) -> Draft<'a> {
        Draft {
            topic,
            queue: QueueId(3),
            flag: 7,
            system_flag: 1,
            born_timestamp: Timestamp(1_700_000_000_001),
            born_host: host.parse().expect("address"),
            store_host: "127.0.0.1:10911".parse().expect("address"),
            reconsume_times: 2,
            prepared_transaction_offset: 99,
            body,
            properties,
        }
    }

    #[test]
    fn what_is_encoded_is_what_is_decoded() {
        let long_topic = "t".repeat(200);
        for (topic, host) in [("orders", "10.0.0.9:40000"), (&*long_topic, "[2001:db8::1]:40000")] {
            let mut out = BytesMut::from(&b"before"[..]);
            let draft = draft(topic, b"body", &[b"TAGS\x01A\x02", b"KEYS\x01k\x02"], host);
            draft.encode(&mut out);
            let mut bytes = out.split_off(6);
            assert_eq!(bytes.len(), draft.encoded_len());
            seal(&mut bytes, QueueOffset(5), LogOffset(1 << 40), Timestamp(1_700_000_000_002));
            let record = Record::decode(&bytes).expect("decodes");
            assert_eq!((record.topic, record.body, record.queue), (topic, &b"body"[..], QueueId(3)));
            assert_eq!((record.queue_offset, record.log_offset), (QueueOffset(5), LogOffset(1 << 40)));
            assert_eq!(record.store_timestamp, Timestamp(1_700_000_000_002));
            assert_eq!(record.born_host, host.parse().expect("address"));
            assert_eq!(record.store_host.port(), 10911);
            assert_eq!((record.property("TAGS"), record.property("KEYS")), (Some("A"), Some("k")));
            assert!(record.body_is_intact());
        }
    }

    #[test]
    fn a_flipped_bit_in_the_body_is_caught() {
        let mut bytes = BytesMut::new();
        draft("orders", b"body", &[], "10.0.0.9:40000").encode(&mut bytes);
        let body_at = bytes.windows(4).position(|window| window == b"body").expect("body");
        bytes[body_at] ^= 1;
        assert!(!Record::decode(&bytes).expect("decodes").body_is_intact());
    }

    #[test]
    fn no_cut_and_no_changed_byte_makes_decoding_fail_badly() {
        let mut bytes = BytesMut::new();
        draft("orders", b"body", &[b"TAGS\x01A\x02"], "10.0.0.9:40000").encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert!(Record::decode(&bytes[..cut]).is_err());
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = Record::decode(&changed);
            }
        }
    }

    #[test]
    fn an_id_names_host_and_place() {
        let id = offset_message_id("127.0.0.1:10911".parse().expect("address"), LogOffset(0x1234));
        assert_eq!(id.as_str(), "7F00000100002A9F0000000000001234");
    }
}
