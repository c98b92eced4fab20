//! The id of a stored message, by which it can be found without a look-up.

use std::net::{IpAddr, SocketAddr};

use base::offset::LogOffset;

/// The id a broker gives a stored message: store host and log offset in hexadecimal (source: RocketMQ `offsetMsgId`).
pub fn offset_message_id(store_host: SocketAddr, log_offset: LogOffset) -> OffsetMessageId {
    let mut id = OffsetMessageId { text: [0; OffsetMessageId::SIZE_MAX], size: 0 };
    match store_host.ip() {
        IpAddr::V4(address) => id.push_hex(&address.octets()),
        IpAddr::V6(address) => id.push_hex(&address.octets()),
    }
    id.push_hex(&u32::from(store_host.port()).to_be_bytes());
    id.push_hex(&log_offset.0.to_be_bytes());
    id
}

/// The log offset in such an id.
pub fn log_offset_of_message_id(id: &str) -> Option<LogOffset> {
    let is_id = matches!(id.len(), 32 | OffsetMessageId::SIZE_MAX) && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = is_id.then(|| id.get(id.len() - 16..)).flatten()?;
    u64::from_str_radix(digits, 16).ok().map(LogOffset)
}

/// 32 or 56 upper-case hexadecimal digits, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct OffsetMessageId {
    text: [u8; Self::SIZE_MAX],
    size: usize,
}

impl OffsetMessageId {
    const SIZE_MAX: usize = 56;

    fn push_hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        for byte in bytes {
            self.text[self.size] = DIGITS[usize::from(byte >> 4)];
            self.text[self.size + 1] = DIGITS[usize::from(byte & 15)];
            self.size += 2;
        }
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.text.get(..self.size).unwrap_or_default()).unwrap_or_default()
    }
}
