//! The key index: a chain of RocketMQ's IndexFiles, which find records by key and time.
//!
//! ```text
//! header, 40 bytes                               slots: 4 bytes each, number of the newest entry of that slot
//!      0  8  store time of the first record      entries, 20 bytes each, numbered from 1
//!      8  8  store time of the last record            0  4  hash of "topic#key"
//!     16  8  log offset of the first record           4  8  log offset of the record
//!     24  8  log offset of the last record           12  4  seconds after the header's first store time
//!     32  4  slots in use                            16  4  number of the slot's entry before this one
//!     36  4  number of the next entry            file: index/<yyyyMMddHHmmssSSS of creation>
//! ```

use base::Timestamp;
use base::cursor::{DecodeError, Reader};

/// Bytes at the head of a file.
pub const HEADER_SIZE: usize = 40;
/// Bytes of a hash slot.
pub const SLOT_SIZE: usize = 4;
/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 20;

/// Shape of the files.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Hash slots of a file.
    pub slot_count: u32,
    /// Entries of a file, the unused entry 0 included.
    pub entry_count: u32,
}

impl Shape {
    /// Where an entry stands in its file.
    pub const fn entry_at(self, number: u32) -> u64 {
        HEADER_SIZE as u64 + self.slot_count as u64 * SLOT_SIZE as u64 + number as u64 * ENTRY_SIZE as u64
    }

    /// Bytes of a file.
    pub const fn file_size(self) -> u64 {
        self.entry_at(self.entry_count)
    }
}

/// What stands at the head of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Store time of the first record, in ms.
    pub first_time: u64,
    /// Store time of the last record, in ms.
    pub last_time: u64,
    /// Log offset of the first record.
    pub first_offset: u64,
    /// Log offset of the last record.
    pub last_offset: u64,
    /// Slots in use.
    pub used_slots: u32,
    /// Number of the next entry.
    pub next_entry: u32,
}

impl Header {
    /// As it stands on the disk.
    pub fn encode(&self) -> Vec<u8> {
        let longs = [self.first_time, self.last_time, self.first_offset, self.last_offset];
        let mut bytes = longs.map(u64::to_be_bytes).concat();
        bytes.extend([self.used_slots, self.next_entry].map(u32::to_be_bytes).concat());
        bytes
    }

    /// Reads the first [`HEADER_SIZE`] bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            first_time: reader.u64("first time")?,
            last_time: reader.u64("last time")?,
            first_offset: reader.u64("first offset")?,
            last_offset: reader.u64("last offset")?,
            used_slots: reader.u32("used slots")?,
            next_entry: reader.u32("next entry")?.max(1),
        })
    }
}

/// One key of one record.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry {
    /// Hash of "topic#key".
    pub hash: u32,
    /// Log offset of the record.
    pub log_offset: u64,
    /// Seconds after the header's first store time.
    pub seconds: u32,
    /// Number of the slot's entry before this one.
    pub previous: u32,
}

impl IndexEntry {
    /// Adds it as it stands on the disk.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.hash.to_be_bytes());
        out.extend(self.log_offset.to_be_bytes());
        out.extend(self.seconds.to_be_bytes());
        out.extend(self.previous.to_be_bytes());
    }

    /// Whether it is what a file holds where no entry was written yet.
    pub const fn is_unwritten(&self) -> bool {
        self.hash == 0 && self.log_offset == 0 && self.seconds == 0 && self.previous == 0
    }

    /// Reads an entry; `None` of fewer bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (hash, rest) = bytes.split_first_chunk()?;
        let (log_offset, rest) = rest.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let (previous, _) = rest.split_first_chunk()?;
        Some(Self {
            hash: u32::from_be_bytes(*hash),
            log_offset: u64::from_be_bytes(*log_offset),
            seconds: u32::from_be_bytes(*seconds),
            previous: u32::from_be_bytes(*previous),
        })
    }
}

/// Name of a file that is made at this time, in UTC.
pub fn file_name(time: Timestamp) -> String {
    let calendar = i64::try_from(time.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let calendar = calendar.unwrap_or(jiff::Timestamp::MAX);
    calendar.strftime("%Y%m%d%H%M%S%3f").to_string()
}

/// Whether a file of the index is called so.
pub fn is_file_name(name: &str) -> bool {
    name.len() == 17 && name.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_calendar_times() {
        assert_eq!(file_name(Timestamp(0)), "19700101000000000");
        assert_eq!(file_name(Timestamp(951_782_400_123)), "20000229000000123");
        assert_eq!(file_name(Timestamp(1_767_225_599_999)), "20251231235959999");
        assert!(is_file_name(&file_name(Timestamp(u64::MAX))), "of a time beyond every calendar too");
    }
}
