//! The id every official producer gives its messages (`UNIQ_KEY`), 32 hexadecimal digits.
//!
//! ```text
//! digits  0..8   address of the producer    } the same for all messages of one generator thread
//!         8..12  its process                }
//!        12..20  its class loader           } (here: the thread and the start of the run)
//!        20..28  milliseconds since the start of the month (UTC)
//!        28..32  counter
//! ```
//! Source: RocketMQ `MessageClientIDSetter`. Admin tools read the time back out of the id, so it is kept true.

use jiff::Timestamp;
use jiff::tz::Offset;

/// Digits of an id.
pub const UNIQUE_KEY_SIZE: usize = 32;
/// Where the part begins that differs from message to message.
pub const TAIL_AT: usize = 20;
/// Digits of that part.
pub const TAIL_SIZE: usize = UNIQUE_KEY_SIZE - TAIL_AT;
/// Decimal digits of a wall-clock time in milliseconds, until the year 2286.
pub const TIMESTAMP_SIZE: usize = 13;

/// What an id says that tells the messages of one sender thread apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdNumbers {
    /// Milliseconds since a moment that all messages of a sender share.
    pub milliseconds: u32,
    /// Counter.
    pub counter: u16,
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The digits that do not change within one generator thread.
pub fn prefix(process: u32, thread: usize, run: u64) -> String {
    let loader = (run as u32) ^ ((thread as u32) << 20);
    format!("7F000001{:04X}{loader:08X}", process & 0xFFFF)
}

/// What the changing digits of a whole id say: milliseconds since the start of the month, and the counter. `None` if it is no id.
pub fn numbers_of(id: &str) -> Option<IdNumbers> {
    let tail = id.get(TAIL_AT..UNIQUE_KEY_SIZE)?;
    let milliseconds = u32::from_str_radix(tail.get(..8)?, 16).ok()?;
    let counter = u16::from_str_radix(tail.get(8..)?, 16).ok()?;
    Some(IdNumbers { milliseconds, counter })
}

/// The changing digits and the born timestamp, kept as text so that a message costs two short copies.
#[derive(Debug)]
pub struct Stamp {
    wall_ms: u64,
    month_ms: u32,
    counter: u16,
    born: [u8; TIMESTAMP_SIZE],
    tail: [u8; TAIL_SIZE],
}

impl Stamp {
    /// A stamp that stands at `wall_ms`.
    pub fn new(wall_ms: u64) -> Self {
        let mut stamp =
            Self { wall_ms: 0, month_ms: 0, counter: 0, born: [b'0'; TIMESTAMP_SIZE], tail: [b'0'; TAIL_SIZE] };
        stamp.set_wall_time(wall_ms);
        stamp
    }

    /// Moves the stamp to `wall_ms`.
    pub fn set_wall_time(&mut self, wall_ms: u64) {
        if wall_ms == self.wall_ms {
            return;
        }
        self.wall_ms = wall_ms;
        put_digits(&mut self.born, wall_ms);
        self.month_ms = (wall_ms - month_start_ms(wall_ms)) as u32;
        put_hex(&mut self.tail[..8], self.month_ms);
    }

    /// The born timestamp in decimal digits.
    pub const fn born(&self) -> &[u8; TIMESTAMP_SIZE] {
        &self.born
    }

    /// What the next id will say.
    pub const fn next_numbers(&self) -> IdNumbers {
        IdNumbers { milliseconds: self.month_ms, counter: self.counter.wrapping_add(1) }
    }

    /// The last digits of the next id.
    pub fn next_tail(&mut self) -> &[u8; TAIL_SIZE] {
        self.counter = self.counter.wrapping_add(1);
        put_hex(&mut self.tail[8..], u32::from(self.counter));
        &self.tail
    }
}

/// Fills `digits` with the last digits of `number`.
pub fn put_digits(digits: &mut [u8], number: u64) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

fn put_hex(digits: &mut [u8], number: u32) {
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(rest & 15) as usize];
        rest >>= 4;
    }
}

/// Start of the month `wall_ms` is in.
fn month_start_ms(wall_ms: u64) -> u64 {
    let time = i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    let day_of_month = Offset::UTC.to_datetime(time).day() as u64;
    (wall_ms / DAY_MS + 1 - day_of_month) * DAY_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_they_should() {
        for (day, first) in
            [(0, 0), (30, 0), (31, 31), (58, 31), (59, 59), (11_016, 10_988), (11_017, 11_017), (20_514, 20_514 - 1)]
        {
            assert_eq!(month_start_ms(day * DAY_MS + 12_345) / DAY_MS, first, "day {day}");
        }
    }

    #[test]
    fn a_stamp_tells_time_and_never_repeats_within_a_millisecond() {
        let mut stamp = Stamp::new(1_700_000_000_123);
        assert_eq!(stamp.born(), b"1700000000123");
        let announced = stamp.next_numbers();
        let first = *stamp.next_tail();
        let id = prefix(1, 2, 3) + std::str::from_utf8(&first).expect("digits");
        assert_eq!(numbers_of(&id), Some(announced));
        assert_eq!(numbers_of(&id[1..]), None);
        let second = *stamp.next_tail();
        assert_eq!((&first[8..], &second[8..]), (&b"0001"[..], &b"0002"[..]));
        stamp.set_wall_time(1_700_000_000_124);
        let third = *stamp.next_tail();
        let number = |digits: &[u8]| u32::from_str_radix(std::str::from_utf8(digits).expect("text"), 16).expect("hex");
        assert_eq!(number(&third[..8]) - number(&first[..8]), 1);
        assert_eq!(u64::from(number(&first[..8])) + month_start_ms(1_700_000_000_123), 1_700_000_000_123);
        assert_eq!(prefix(0x12345, 1, 0).len(), TAIL_AT);
    }
}
