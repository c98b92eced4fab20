//! The checksum a record may have of its own, over everything the CRC of the body leaves out.
//!
//! It is the last property: `__CRC32#` 0x01, ten decimal digits with the lowest first, 0x02. The digits are the CRC-32 of all
//! bytes of the record before the property, the top bit cleared. Source: RocketMQ 5.x `enabledAppendPropCRC`,
//! `MessageDecoder.createCrc32`.

use base::cursor::{DecodeError, Reader};
use base::limits::RECORD_SIZE_MAX;

use super::{
    BODY_CRC_AT, BORN_HOST_AT, FILLER_SIZE, HOST_V6_SIZE, MAGIC_AT, MAGIC_V2, SYSTEM_FLAG_AT, body_crc, host_size,
    system_flag,
};

/// The property with its digits still to be filled in.
pub const CHECKSUM_BLANK: &[u8; CHECKSUM_SIZE] = b"__CRC32#\x010000000000\x02";
const CHECKSUM_SIZE: usize = 20;
const DIGITS_AT: usize = 9;
const DIGITS_END: usize = 19;

/// Fills in the checksum of a whole record if its property block ends with `CHECKSUM_BLANK`. To be called after `seal`.
pub fn seal_checksum(record: &mut [u8]) {
    if let Some((before, property)) = record.split_last_chunk_mut().filter(|(_, last)| *last == CHECKSUM_BLANK) {
        *property = property_of(before);
    }
}

/// Whether a whole record is what was stored, as far as its checksum tells: one that has none cannot.
///
/// The property itself may be what is damaged: half of it is enough to know it by.
pub fn checksum_holds(record: &[u8]) -> bool {
    let Some((before, found)) = record.split_last_chunk::<CHECKSUM_SIZE>() else { return true };
    let expected = property_of(before);
    let is_one = found[..DIGITS_AT] == expected[..DIGITS_AT] || found[DIGITS_AT..] == expected[DIGITS_AT..];
    !is_one || *found == expected
}

fn property_of(before: &[u8]) -> [u8; CHECKSUM_SIZE] {
    let mut property = *CHECKSUM_BLANK;
    // The body's CRC is counted the same way.
    let mut rest = body_crc(before);
    for digit in &mut property[DIGITS_AT..DIGITS_END] {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    property
}

/// The sizes a damaged record may have, to find the next one by: what it says, and what its parts add up to if its body is
/// whole. One damaged field leaves one of them right. The smaller comes first. `bytes` begin at the record and may go on beyond it.
pub fn sizes_of_damaged(bytes: &[u8]) -> [Option<usize>; 2] {
    let says = Reader::new(bytes).u32("record size").ok().map(|size| size as usize);
    let mut sizes = [says, size_of_parts(bytes).ok().flatten()]
        .map(|size| size.filter(|size| (FILLER_SIZE..=RECORD_SIZE_MAX).contains(size)));
    sizes.sort_unstable();
    sizes
}

/// Bytes from a record's front that hold its body's length, whatever its flags.
pub const BODY_LENGTH_WITHIN: usize = BORN_HOST_AT + 8 + 4 + 8 + 4 + 2 * HOST_V6_SIZE;

/// Most bytes from the front of a damaged record in which its parts are, as far as its first `BODY_LENGTH_WITHIN` bytes say.
pub fn parts_size_of_damaged(bytes: &[u8]) -> usize {
    let length_max = 2 + i16::MAX as usize;
    let mut reader = Reader::new(bytes);
    let Ok((_, _, body_len)) = head_of_parts(&mut reader) else { return 0 };
    bytes.len() - reader.remaining() + body_len + 2 * length_max
}

/// Magic, body CRC and length of the body, up to which it reads.
fn head_of_parts(reader: &mut Reader<'_>) -> Result<(u32, u32, usize), DecodeError> {
    reader.slice(MAGIC_AT, "record size")?;
    let magic = reader.u32("record magic")?;
    debug_assert_eq!(BODY_CRC_AT, MAGIC_AT + 4);
    let crc = reader.u32("body CRC")?;
    reader.slice(SYSTEM_FLAG_AT - BODY_CRC_AT - 4, "queue and offsets")?;
    let flags = reader.i32("system flag")?;
    let born_host_size = host_size(flags & system_flag::BORN_HOST_V6 != 0);
    let store_host_size = host_size(flags & system_flag::STORE_HOST_V6 != 0);
    let to_body = BORN_HOST_AT - SYSTEM_FLAG_AT - 4 + born_host_size + 8 + store_host_size + 4 + 8;
    reader.slice(to_body, "hosts and times")?;
    Ok((magic, crc, reader.length_i32(RECORD_SIZE_MAX, "body")?))
}

/// What the lengths within a record add up to; `None` if its body is not whole.
fn size_of_parts(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let (magic, crc, body_len) = head_of_parts(&mut reader)?;
    if body_crc(reader.slice(body_len, "body")?) != crc {
        return Ok(None);
    }
    let topic_len =
        if magic == MAGIC_V2 { reader.length_i16(RECORD_SIZE_MAX, "topic")? } else { usize::from(reader.u8("topic")?) };
    reader.slice(topic_len, "topic")?;
    let properties_len = reader.length_i16(RECORD_SIZE_MAX, "properties")?;
    reader.slice(properties_len, "properties")?;
    Ok(Some(bytes.len() - reader.remaining()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_is_that_of_an_official_broker() {
        // Made by `MessageDecoder.createCrc32` of 5.4.0 from `UtilAll.crc32` of these bytes.
        let mut record = [b"hello record", &CHECKSUM_BLANK[..]].concat();
        seal_checksum(&mut record);
        assert_eq!(record, b"hello record__CRC32#\x016720291671\x02");
    }

    #[test]
    fn every_flipped_bit_shows_and_a_record_without_a_checksum_passes() {
        let mut record = [b"some record", &CHECKSUM_BLANK[..]].concat();
        seal_checksum(&mut record);
        assert!(checksum_holds(&record));
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!checksum_holds(&flipped), "bit {bit}");
        }
        assert!(checksum_holds(b"a record without any checksum at all\x02"));
        assert!(checksum_holds(b""));
    }
}
