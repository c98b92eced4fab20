//! Frames, and the header by which a client says which protocol it speaks.
//!
//! ```text
//! offset  size  meaning
//!      0     1  kind: 1 method, 2 content header, 3 content body, 8 heartbeat
//!      1     2  channel
//!      3     4  length of the payload
//!      7     N  payload
//!    7+N     1  end: 0xCE
//! ```

use bytes::{BufMut, BytesMut};

/// What a client of this version sends first (specification section 4.2.2).
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// The same from clients of 0-9, which RabbitMQ takes for 0-9-1.
pub const PROTOCOL_HEADER_OF_0_9: [u8; 8] = *b"AMQP\x01\x01\x00\x09";
/// Bytes of a frame before its payload.
pub const HEAD_SIZE: usize = 7;
/// Bytes of a frame beside its payload.
pub const OVERHEAD_SIZE: usize = HEAD_SIZE + 1;
/// The last byte of a frame.
pub const END: u8 = 0xCE;
/// The largest frame before a connection has agreed on a size, and the smallest size that it may agree on.
pub const SIZE_MIN: usize = 4096;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A method.
    Method,
    /// The header of a method's content.
    Header,
    /// A part of a method's content.
    Body,
    /// Nothing but a sign of life.
    Heartbeat,
}

impl Kind {
    const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Method),
            2 => Some(Self::Header),
            3 => Some(Self::Body),
            8 => Some(Self::Heartbeat),
            _ => None,
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::Method => 1,
            Self::Header => 2,
            Self::Body => 3,
            Self::Heartbeat => 8,
        }
    }
}

/// A frame, without a copy of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its channel.
    pub channel: u16,
    /// What it says.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes that it takes on the wire.
    pub const fn size(&self) -> usize {
        self.payload.len() + OVERHEAD_SIZE
    }
}

/// Why bytes are no frame: the connection cannot go on behind them (501).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No kind has that number.
    #[error("type {0} is none of a frame's")]
    UnknownKind(u8),
    /// Larger than was agreed.
    #[error("a frame of {size} bytes is larger than {size_max}")]
    TooLarge {
        /// All of it.
        size: usize,
        /// What was agreed.
        size_max: usize,
    },
    /// It does not end where its length says.
    #[error("a frame ends with {0:#04x} instead of 0xce")]
    BadEnd(u8),
}

/// Clients that take the agreed size for the payload's send frames that are larger by this.
const SIZE_SLACK: usize = OVERHEAD_SIZE;

/// The frame that `bytes` begin with; `None` if it is not all there yet. What cannot be one is told as soon as its head is there, so that
/// nobody waits for the rest.
pub fn decode(bytes: &[u8], size_max: usize) -> Result<Option<Frame<'_>>, FrameError> {
    let Some(([kind, c0, c1, l0, l1, l2, l3], rest)) = bytes.split_first_chunk::<HEAD_SIZE>() else {
        // One byte is enough to see that it is another protocol's.
        return bytes
            .first()
            .map_or(Ok(None), |first| Kind::of(*first).map(|_| None).ok_or(FrameError::UnknownKind(*first)));
    };
    let kind = Kind::of(*kind).ok_or(FrameError::UnknownKind(*kind))?;
    let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]) as usize;
    let size = length.saturating_add(OVERHEAD_SIZE);
    if size > size_max.saturating_add(SIZE_SLACK) {
        return Err(FrameError::TooLarge { size, size_max });
    }
    let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    match rest.first() {
        Some(&END) => Ok(Some(Frame { kind, channel: u16::from_be_bytes([*c0, *c1]), payload })),
        Some(&other) => Err(FrameError::BadEnd(other)),
        None => Ok(None),
    }
}

/// The size of the frame that `bytes` begin with, once that is known and may be; else 0.
pub fn announced_size(bytes: &[u8], size_max: usize) -> usize {
    let length = bytes.get(3..HEAD_SIZE).and_then(<[u8]>::first_chunk).map_or(0, |length| u32::from_be_bytes(*length));
    let size = (length as usize).saturating_add(OVERHEAD_SIZE);
    if length == 0 || size > size_max.saturating_add(SIZE_SLACK) { 0 } else { size }
}

/// Writes a frame whose payload `write` writes.
pub fn encode(out: &mut BytesMut, kind: Kind, channel: u16, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u8(kind.number());
    out.put_u16(channel);
    out.put_u32(0);
    write(out);
    let length = u32::try_from(out.len() - start - HEAD_SIZE).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start + 3..start + HEAD_SIZE) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    out.put_u8(END);
}

/// Writes what goes in front of a body of `length` bytes: it, and [`END`], follow.
pub fn encode_body_head(out: &mut BytesMut, channel: u16, length: u32) {
    out.put_u8(Kind::Body.number());
    out.put_u16(channel);
    out.put_u32(length);
}

/// Writes a sign of life.
pub fn encode_heartbeat(out: &mut BytesMut) {
    encode(out, Kind::Heartbeat, 0, |_| ());
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE_MAX: usize = 4096;

    fn body(payload: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        encode(&mut out, Kind::Body, 7, |out| out.put_slice(payload));
        out
    }

    #[test]
    fn a_frame_comes_back_and_not_before_it_is_whole() {
        let bytes = body(b"hello");
        assert_eq!(&bytes[..], b"\x03\x00\x07\x00\x00\x00\x05hello\xce");
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], SIZE_MAX), Ok(None), "{end} bytes");
        }
        let frame = Frame { kind: Kind::Body, channel: 7, payload: b"hello" };
        assert_eq!(decode(&bytes, SIZE_MAX), Ok(Some(frame)));
        assert_eq!(frame.size(), bytes.len());
        let mut parts = BytesMut::new();
        encode_body_head(&mut parts, 7, 5);
        assert_eq!([&parts[..], b"hello", &[END]].concat(), bytes);
    }

    #[test]
    fn a_heartbeat_is_eight_bytes() {
        let mut out = BytesMut::new();
        encode_heartbeat(&mut out);
        assert_eq!(&out[..], b"\x08\x00\x00\x00\x00\x00\x00\xce");
    }

    #[test]
    fn what_is_no_frame_is_told_by_its_head() {
        assert_eq!(decode(b"GET / HTTP", SIZE_MAX), Err(FrameError::UnknownKind(b'G')));
        assert_eq!(decode(b"G", SIZE_MAX), Err(FrameError::UnknownKind(b'G')));
        let mut bytes = body(b"hello");
        bytes[12] = 0;
        assert_eq!(decode(&bytes, SIZE_MAX), Err(FrameError::BadEnd(0)));
        assert_eq!(
            decode(b"\x01\x00\x01\xff\xff\xff\xff", SIZE_MAX),
            Err(FrameError::TooLarge { size: u32::MAX as usize + OVERHEAD_SIZE, size_max: SIZE_MAX })
        );
    }

    #[test]
    fn clients_that_count_the_payload_alone_are_put_up_with() {
        assert!(decode(&body(&[0; SIZE_MAX]), SIZE_MAX).is_ok_and(|frame| frame.is_some()));
        assert!(decode(&body(&[0; SIZE_MAX + 1]), SIZE_MAX).is_err());
    }
}
