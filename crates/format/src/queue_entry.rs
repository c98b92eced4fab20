//! One entry of a queue. On disk, RocketMQ's ConsumeQueue format.
//!
//! ```text
//! offset  size  field                      file: consumequeue/<topic>/<queue>/<20 digits: first byte's number>
//!      0     8  log offset of the record
//!      8     4  size of the record         (0: no entry here yet)
//!     12     8  tag code, or due time of a delayed message
//! ```

use base::LogOffset;

/// Bytes of one entry.
pub const ENTRY_SIZE: usize = 20;

/// Queue offsets end here: their entries' byte positions name files and are signed numbers.
pub const QUEUE_OFFSET_MAX: u64 = i64::MAX as u64 / ENTRY_SIZE as u64;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the record is.
    pub log_offset: LogOffset,
    /// Bytes of the record.
    pub size: u32,
    /// Code of its tag, or the time it is due.
    pub tag_code: i64,
}

impl Entry {
    /// As it stands on the disk.
    pub fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..8].copy_from_slice(&self.log_offset.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tag_code.to_be_bytes());
        bytes
    }

    /// Whether it stands for no record at all.
    pub fn is_gap(&self) -> bool {
        *self == GAP
    }

    /// Stands where a record was lost, of which nothing is known but that it was before `log_offset`.
    pub const fn lost(log_offset: LogOffset) -> Self {
        Self { log_offset, size: 1, tag_code: 0 }
    }

    /// Whether it stands for a record that is there, or should be.
    pub fn has_record(&self) -> bool {
        !self.is_gap() && *self != Self::lost(self.log_offset)
    }

    /// Reads an entry; `None` where there is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (log_offset, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (tag_code, _) = rest.split_first_chunk()?;
        let entry = Self {
            log_offset: LogOffset(u64::from_be_bytes(*log_offset)),
            size: u32::from_be_bytes(*size),
            tag_code: i64::from_be_bytes(*tag_code),
        };
        (entry.size > 0).then_some(entry)
    }
}

/// Stands where there is no record any more (RocketMQ `fillPreBlank`).
pub const GAP: Entry = Entry { log_offset: LogOffset(0), size: i32::MAX as u32, tag_code: 0 };
