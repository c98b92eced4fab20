//! Where an encoded record has its body, and the field for its CRC: for bodies that are completed where they lie.

use std::ops::Range;

use super::{BODY_CRC_AT, BORN_HOST_AT, QUEUE_ID_AT, SYSTEM_FLAG_AT, host_size, system_flag};

/// CRC-32 of a body as records keep it: the top bit cleared, since Java keeps it in a signed number.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & BODY_CRC_MASK
}

pub(crate) const BODY_CRC_MASK: u32 = 0x7FFF_FFFF;

/// Where the body is in an encoded record; `None` where it is too short.
pub(crate) fn body_range(record: &[u8]) -> Option<Range<usize>> {
    let flags = i32::from(*record.get(SYSTEM_FLAG_AT + 3)?);
    let [born, store] =
        [system_flag::BORN_HOST_V6, system_flag::STORE_HOST_V6].map(|flag| host_size(flags & flag != 0));
    let length_at = BORN_HOST_AT + born + 8 + store + 4 + 8;
    let length = u32::from_be_bytes(*record.get(length_at..)?.first_chunk()?);
    let start = length_at + 4;
    let end = start.checked_add(length as usize)?;
    (end <= record.len()).then_some(start..end)
}

/// The CRC field of an encoded record.
pub(crate) fn stored_body_crc(record: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*record.get(BODY_CRC_AT..)?.first_chunk()?))
}

/// Writes the CRC field of an encoded record.
pub(crate) fn store_body_crc(record: &mut [u8], crc: u32) {
    if let Some(field) = record.get_mut(BODY_CRC_AT..QUEUE_ID_AT) {
        field.copy_from_slice(&crc.to_be_bytes());
    }
}
