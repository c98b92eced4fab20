//! RocketMQ's replication: bytes of the log one way, positions the other, on a connection of their own.
//!
//! A slave reports its log's end when it has connected, whenever it has stored something, and at least every 5 s. A master sends pieces of
//! its log, none beyond the end of a segment, and an empty one when it had nothing to send for 5 s. Source: `DefaultHAConnection` and
//! `DefaultHAClient` of 5.4.0, `HAConnection` and `HAClient` of 4.9.7; all numbers are big-endian.

use base::LogOffset;

/// Bytes of a report.
pub const REPORT_SIZE: usize = 8;

/// Bytes in front of each piece.
pub const PIECE_HEADER_SIZE: usize = 12;

/// Largest piece that a Java slave takes: with its header it has to fit a buffer of 4 MiB (`READ_MAX_BUFFER_SIZE`).
pub const PIECE_SIZE_MAX: usize = 4 * 1024 * 1024 - PIECE_HEADER_SIZE;

/// A slave's log ends at `end`.
pub const fn report(end: LogOffset) -> [u8; REPORT_SIZE] {
    end.0.to_be_bytes()
}

/// Where a slave's log ends; `None` for a number that is no position.
pub fn read_report(bytes: [u8; REPORT_SIZE]) -> Option<LogOffset> {
    let end = u64::from_be_bytes(bytes);
    i64::try_from(end).is_ok().then_some(LogOffset(end))
}

/// What stands in front of a piece of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceHeader {
    /// Where the piece begins; for an empty one, where the master goes on.
    pub start: LogOffset,
    /// Its bytes.
    pub size: usize,
}

/// A header that no master sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a piece of {size} bytes at {start}: no master of RocketMQ sends that")]
pub struct BadPiece {
    start: i64,
    size: i32,
}

impl PieceHeader {
    /// As it is sent.
    pub fn encode(self) -> [u8; PIECE_HEADER_SIZE] {
        let mut bytes = [0; PIECE_HEADER_SIZE];
        let (start, size) = bytes.split_at_mut(8);
        start.copy_from_slice(&self.start.0.to_be_bytes());
        size.copy_from_slice(&u32::try_from(self.size).unwrap_or(u32::MAX).to_be_bytes());
        bytes
    }

    /// The header at the begin of `bytes`; `None` if they are too few.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, BadPiece> {
        let Some((start, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let Some(size) = rest.first_chunk() else { return Ok(None) };
        let (start, size) = (i64::from_be_bytes(*start), i32::from_be_bytes(*size));
        match (u64::try_from(start), usize::try_from(size)) {
            (Ok(offset), Ok(count)) if count <= PIECE_SIZE_MAX => {
                Ok(Some(Self { start: LogOffset(offset), size: count }))
            }
            _ => Err(BadPiece { start, size }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_no_java_process_sends_is_not() {
        let header = PieceHeader { start: LogOffset(0x0102_0304_0506_0708), size: 0x0a0b };
        let bytes = header.encode();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x0a, 0x0b]);
        assert_eq!(PieceHeader::decode(&bytes), Ok(Some(header)));
        assert_eq!(PieceHeader::decode(&bytes[..11]), Ok(None));
        assert_eq!(read_report(report(LogOffset(77))), Some(LogOffset(77)));
        assert_eq!(read_report([0xff; 8]), None);
        let huge = PieceHeader { start: LogOffset(1), size: PIECE_SIZE_MAX + 1 };
        for bad in [huge.encode(), PieceHeader { start: LogOffset(u64::MAX), size: 1 }.encode(), [0xff; 12]] {
            assert!(PieceHeader::decode(&bad).is_err());
        }
    }
}
