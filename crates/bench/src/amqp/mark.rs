//! What the first bytes of a body say: from which channel of which run it is, and when it was due.
//!
//! ```text
//! offset  size  meaning
//!      0     2  number of the channel within the run
//!      2     6  number of the message within its generator thread
//!      8     8  when it was due: nanoseconds since 1970, by the wall clock as the run began and the monotonic one since
//! ```
//! A body that is too short for it has none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::rocketmq::unique_key::IdNumbers;

use crate::load::sender::SendStamp;
use crate::machine::clock::Clock;

/// Bytes of a mark.
pub const SIZE: usize = 16;
const NUMBER_BITS: u32 = 48;

/// A mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Channel within the run.
    pub channel: u16,
    /// Message within its thread; 48 bits.
    pub number: u64,
    /// When it was due, since 1970.
    pub due_ns: u64,
}

impl Mark {
    /// Its bytes.
    pub fn bytes(self) -> [u8; SIZE] {
        let first = u64::from(self.channel) << NUMBER_BITS | self.number;
        (u128::from(first) << u64::BITS | u128::from(self.due_ns)).to_be_bytes()
    }

    /// What those bytes say.
    pub fn read(bytes: [u8; SIZE]) -> Self {
        let both = u128::from_be_bytes(bytes);
        let first = (both >> u64::BITS) as u64;
        let number = first & ((1 << NUMBER_BITS) - 1);
        Self { channel: (first >> NUMBER_BITS) as u16, number, due_ns: both as u64 }
    }

    /// What tells it apart from the others of its thread.
    pub const fn id(self) -> IdNumbers {
        IdNumbers { milliseconds: (self.number >> u16::BITS) as u32, counter: self.number as u16 }
    }
}

/// When a run's clock stood at 0, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Origin(pub u64);

impl Origin {
    /// That of `clock`.
    pub fn of(clock: Clock) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX).saturating_sub(clock.now_ns()))
    }
}

/// Marks the messages of one generator thread.
#[derive(Debug)]
pub struct Marker {
    origin: Origin,
    number: u64,
}

impl Marker {
    /// Has marked nothing yet.
    pub const fn new(origin: Origin) -> Self {
        Self { origin, number: 0 }
    }

    /// Of the next message, due at `due_ns` of the run's clock, on that channel.
    pub const fn next(&mut self, channel: u16, due_ns: u64) -> Mark {
        self.number = (self.number + 1) & ((1 << NUMBER_BITS) - 1);
        Mark { channel, number: self.number, due_ns: self.origin.0 + due_ns }
    }
}

impl SendStamp for Marker {
    fn set_time(&mut self, _wall_ms: u64, _now_ns: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_tells_messages_apart() {
        let mut marker = Marker { origin: Origin(1_700_000_000_000_000_000), number: (1 << NUMBER_BITS) - 3 };
        let marks: Vec<_> = (0..4).map(|due_ns| marker.next(u16::MAX, due_ns)).collect();
        for mark in &marks {
            assert_eq!(Mark::read(mark.bytes()), *mark);
        }
        let ids: Vec<_> = marks.iter().map(|mark| mark.id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    }
}
