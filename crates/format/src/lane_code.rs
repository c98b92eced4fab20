//! What an entry of a message queue keeps beside its record's place and size: until when the message is of use, and how many bytes of the
//! record are not the message's own body. So limits of bytes and times are kept without reading records.
//!
//! ```text
//! bits   field
//!  22    bytes of the record that are not the body; what is more counts as the most
//!  42    when the message is of no use any more, ms since 1970; 0 for never
//! ```

use base::Timestamp;

use crate::queue_entry::Entry;

const EXPIRY_BITS: u32 = 42;
const EXPIRY_MAX: u64 = (1 << EXPIRY_BITS) - 1;
const AROUND_MAX: u64 = u64::MAX >> EXPIRY_BITS;

/// What an entry of a message queue keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneCode {
    /// When the message is of no use any more.
    pub expiry: Option<Timestamp>,
    /// Bytes of its record around the body.
    pub around: u32,
}

impl LaneCode {
    /// That of an entry.
    pub const fn of(entry: &Entry) -> Self {
        let bits = entry.tag_code as u64;
        let expiry = bits & EXPIRY_MAX;
        Self { expiry: if expiry == 0 { None } else { Some(Timestamp(expiry)) }, around: (bits >> EXPIRY_BITS) as u32 }
    }

    /// As the entry has it. Times beyond the year 2109 are that year.
    pub const fn encode(self) -> i64 {
        let expiry = match self.expiry {
            None => 0,
            Some(Timestamp(0)) => 1,
            Some(Timestamp(expiry)) if expiry > EXPIRY_MAX => EXPIRY_MAX,
            Some(Timestamp(expiry)) => expiry,
        };
        let around = if self.around as u64 > AROUND_MAX { AROUND_MAX } else { self.around as u64 };
        (around << EXPIRY_BITS | expiry) as i64
    }
}

/// Bytes of the body of the message that an entry of a message queue stands for.
pub fn body_size(entry: &Entry) -> u64 {
    if entry.is_gap() { 0 } else { u64::from(entry.size.saturating_sub(LaneCode::of(entry).around)) }
}

#[cfg(test)]
mod tests {
    use base::LogOffset;

    use super::*;
    use crate::queue_entry::GAP;

    fn entry(size: u32, code: LaneCode) -> Entry {
        Entry { log_offset: LogOffset(7), size, tag_code: code.encode() }
    }

    #[test]
    fn an_entry_tells_the_time_and_the_size_of_its_message() {
        for expiry in [None, Some(1), Some(1_700_000_000_000), Some(EXPIRY_MAX)] {
            for around in [0, 150, AROUND_MAX as u32] {
                let code = LaneCode { expiry: expiry.map(Timestamp), around };
                let entry = entry(AROUND_MAX as u32 + 10, code);
                assert_eq!(LaneCode::of(&entry), code);
                assert_eq!(body_size(&entry), AROUND_MAX - u64::from(around) + 10);
            }
        }
        assert_eq!(body_size(&GAP), 0, "nothing is there");
    }

    #[test]
    fn what_is_too_much_is_as_much_as_there_can_be_and_no_time_is_none() {
        let told = |expiry, around| LaneCode::of(&entry(1, LaneCode { expiry: Some(Timestamp(expiry)), around }));
        assert_eq!(told(u64::MAX, u32::MAX).expiry, Some(Timestamp(EXPIRY_MAX)));
        assert_eq!(told(u64::MAX, u32::MAX).around, AROUND_MAX as u32);
        assert_eq!(told(0, 0).expiry, Some(Timestamp(1)));
    }
}
