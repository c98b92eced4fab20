//! One entry of a lane of a message queue, as its file has it: that of a topic's queue, and a checksum of it and of its place.
//!
//! So whatever was written over, or to another place, is found before anything of it is believed: where the message is, until when it is of
//! use, how long it is.
//!
//! ```text
//! offset  size  field                      file: sluice/queues/<queue>/<lane>/<20 digits: first byte's number>
//!      0    20  entry                      (see `queue_entry`)
//!     20     4  CRC-32 of the entry, which begins with its place (`LanePlace::mixed`) instead of 0
//! ```

use base::{QueueNumber, QueueOffset};
use crc32fast::Hasher;

use crate::queue_entry::{ENTRY_SIZE, Entry};

/// Bytes of one entry.
pub const LANE_ENTRY_SIZE: usize = ENTRY_SIZE + 4;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePlace {
    /// Message queue.
    pub queue: QueueNumber,
    /// Lane of it.
    pub lane: u32,
    /// Offset in the lane.
    pub offset: QueueOffset,
}

impl LanePlace {
    /// An entry here, as it stands on the disk.
    pub fn encode(self, entry: &Entry) -> [u8; LANE_ENTRY_SIZE] {
        let mut bytes = [0; LANE_ENTRY_SIZE];
        bytes[..ENTRY_SIZE].copy_from_slice(&entry.encode());
        let checksum = self.checksum_of(&bytes[..ENTRY_SIZE]);
        bytes[ENTRY_SIZE..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads the entry here; `None` where there is none, or anything else.
    pub fn decode(self, bytes: &[u8]) -> Option<Entry> {
        let (entry, checksum) = bytes.split_at_checked(ENTRY_SIZE)?;
        (*checksum == self.checksum_of(entry).to_be_bytes()).then(|| Entry::decode(entry))?
    }

    fn checksum_of(self, entry: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.mixed());
        hasher.update(entry);
        hasher.finalize()
    }

    /// The place in 32 bits: where the checksum begins. Multiplied twice, with the upper half drawn into the lower between, so that neither
    /// places in a row nor two lanes have a difference that is the same at every offset.
    const fn mixed(self) -> u32 {
        let lane = ((self.queue.0 as u64) << 8 ^ self.lane as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sum = lane.wrapping_add(self.offset.0.wrapping_mul(0xd6e8_feb8_6659_fd93));
        ((sum ^ sum >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::LogOffset;

    use super::*;

    const PLACE: LanePlace = LanePlace { queue: QueueNumber(3), lane: 7, offset: QueueOffset(1 << 40) };
    const ENTRY: Entry = Entry { log_offset: LogOffset(1 << 50), size: 1234, tag_code: -5 };

    #[test]
    fn an_entry_is_read_where_it_was_written_and_nowhere_else() {
        let bytes = PLACE.encode(&ENTRY);
        assert_eq!(PLACE.decode(&bytes), Some(ENTRY));
        for other in [
            LanePlace { queue: QueueNumber(4), ..PLACE },
            LanePlace { lane: 8, ..PLACE },
            LanePlace { offset: QueueOffset((1 << 40) + 1), ..PLACE },
        ] {
            assert_eq!(other.decode(&bytes), None, "{other:?}");
        }
    }

    /// They differed by the same at every offset once, and that was nothing.
    #[test]
    fn no_two_lanes_take_each_others_entries_at_every_offset() {
        for (lane, other) in [((119, 1), (7054, 13)), ((1, 0), (1, 1)), ((1, 0), (2, 0)), ((0, 9), (u32::MAX, 9))] {
            let at = |(queue, lane): (u32, u32), offset| LanePlace {
                queue: QueueNumber(queue),
                lane,
                offset: QueueOffset(offset),
            };
            let differences: BTreeSet<_> =
                (0..1000).map(|offset| at(lane, offset).mixed() ^ at(other, offset).mixed()).collect();
            assert_eq!((differences.len(), differences.contains(&0)), (1000, false), "{lane:?} and {other:?}");
        }
    }

    #[test]
    fn no_entry_is_read_of_which_a_bit_was_flipped_or_nothing_was_written() {
        for bit in 0..LANE_ENTRY_SIZE * 8 {
            let mut bytes = PLACE.encode(&ENTRY);
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(PLACE.decode(&bytes), None, "bit {bit}");
        }
        for byte in [0, 0x21, 0x5a, 0xff] {
            assert_eq!(PLACE.decode(&[byte; LANE_ENTRY_SIZE]), None);
        }
        assert_eq!(PLACE.decode(&PLACE.encode(&ENTRY)[..LANE_ENTRY_SIZE - 1]), None);
    }
}
