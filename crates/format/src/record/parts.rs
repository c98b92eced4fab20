//! A record, split where its lengths say, with nothing read that was not asked for: what a reader of many records looks at.

use base::cursor::{DecodeError, Reader};
use base::offset::{LogOffset, QueueId, QueueOffset};
use base::time::Timestamp;

use super::{
    BODY_CRC_AT, BORN_HOST_AT, Kind, LOG_OFFSET_AT, MAGIC_AT, MAGIC_V2, QUEUE_ID_AT, QUEUE_OFFSET_AT, SYSTEM_FLAG_AT,
    body_crc, host_size, kind_at, system_flag,
};

/// The pieces of a whole record.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Bytes of the whole record.
    pub size: usize,
    /// Everything before the length of the body: as many bytes as its hosts make it.
    pub(super) head: &'a [u8],
    /// Body.
    pub body: &'a [u8],
    /// Topic, which need not be UTF-8.
    pub topic: &'a [u8],
    /// Property block.
    pub properties: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits the record at the front of `bytes`, which may go on beyond it. The body's CRC is not checked here.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Kind::Record(size) = kind_at(bytes)? else {
            return Err(DecodeError::BadValue { what: "record", found: "no record at this offset".to_owned() });
        };
        let mut reader = Reader::new(Reader::new(bytes).slice(size, "record")?);
        // The smallest record is longer than that.
        let (is_wide, flags) = (bytes[MAGIC_AT + 3] == MAGIC_V2 as u8, i32::from(bytes[SYSTEM_FLAG_AT + 3]));
        let host = |flag| host_size(flags & flag != 0);
        let hosts = host(system_flag::BORN_HOST_V6) + host(system_flag::STORE_HOST_V6);
        let head = reader.slice(BORN_HOST_AT + hosts + 8 + 4 + 8, "fields before the body")?;
        let body_len = reader.length_i32(size, "body")?;
        let body = reader.slice(body_len, "body")?;
        let topic_len = if is_wide { reader.length_i16(size, "topic")? } else { usize::from(reader.u8("topic")?) };
        let topic = reader.slice(topic_len, "topic")?;
        let properties_len = reader.length_i16(size, "properties")?;
        let properties = reader.slice(properties_len, "properties")?;
        if !reader.is_empty() {
            return Err(DecodeError::BadLength {
                what: "bytes after the record's last field",
                found: reader.remaining() as i64,
                limit: 0,
            });
        }
        Ok(Self { size, head, body, topic, properties })
    }

    /// Queue it is in.
    #[inline]
    pub fn queue(&self) -> QueueId {
        QueueId(u32::from_be_bytes(self.bytes_at(QUEUE_ID_AT)))
    }

    /// Offset in the queue.
    #[inline]
    pub fn queue_offset(&self) -> QueueOffset {
        QueueOffset(u64::from_be_bytes(self.bytes_at(QUEUE_OFFSET_AT)))
    }

    /// Byte position in the log.
    #[inline]
    pub fn log_offset(&self) -> LogOffset {
        LogOffset(u64::from_be_bytes(self.bytes_at(LOG_OFFSET_AT)))
    }

    /// When it was stored.
    pub fn store_timestamp(&self) -> Timestamp {
        let is_v6 = self.system_flag() & system_flag::BORN_HOST_V6 != 0;
        Timestamp(u64::from_be_bytes(self.bytes_at(BORN_HOST_AT + host_size(is_v6))))
    }

    /// System flag.
    #[inline]
    pub fn system_flag(&self) -> i32 {
        i32::from_be_bytes(self.bytes_at(SYSTEM_FLAG_AT))
    }

    /// Whether the body is what was stored.
    #[inline]
    pub fn body_is_intact(&self) -> bool {
        body_crc(self.body) == u32::from_be_bytes(self.bytes_at(BODY_CRC_AT))
    }

    #[inline]
    fn bytes_at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.head.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
    }
}
