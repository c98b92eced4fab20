//! A message that comes in frames: `basic.publish`, a content header, and as many frames of its body as there are.
//!
//! **Always holds**: all that it takes is counted, and between messages that is little.

use bytes::BytesMut;
use wire::amqp::content::{ContentError, ContentHeader};
use wire::amqp::frame::{Frame, Kind};
use wire::amqp::method::basic::Publish;

use super::error::{Fault, code};

/// Bytes of a body that are set aside before they come.
const RESERVED_SIZE_MAX: usize = 256 * 1024;

/// Bytes for a header that are kept for the next.
const KEPT_SIZE_MAX: usize = 4 * 1024;

/// Where in a content's header the size of its body is: behind class and weight.
const BODY_SIZE_WITHIN: usize = 4;

/// A message that is coming.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) exchange: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) mandatory: bool,
    /// The header's frame.
    pub(super) header: Vec<u8>,
    /// As much of the body as has come, unless it came in one frame.
    pub(super) body: BytesMut,
    body_size: u64,
    awaited: Awaited,
}

/// What has to come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Awaited {
    #[default]
    Method,
    Header,
    Body,
}

/// What a frame of content led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress<'a> {
    /// More has to come.
    Partial,
    /// It is all there; the body is what has gathered.
    Gathered,
    /// It is all there; this is the body.
    Whole(&'a [u8]),
}

impl Incoming {
    /// Whether a message has begun and is not all there.
    pub(super) fn has_begun(&self) -> bool {
        self.awaited != Awaited::Method
    }

    /// Bytes that it holds or is to hold.
    pub(super) fn size(&self) -> usize {
        let announced = usize::try_from(self.announced()).unwrap_or(usize::MAX);
        self.body.capacity().max(announced) + self.header.capacity()
    }

    /// Bytes of the body that has begun.
    pub(super) fn announced(&self) -> u64 {
        if self.awaited == Awaited::Body { self.body_size } else { 0 }
    }

    /// A message is to come.
    pub(super) fn begin(&mut self, publish: &Publish<'_>) {
        for (text, of_message) in [(&mut self.exchange, publish.exchange), (&mut self.key, publish.routing_key)] {
            text.clear();
            text.extend_from_slice(of_message.bytes());
        }
        self.mandatory = publish.mandatory;
        self.awaited = Awaited::Header;
    }

    /// The message was taken: a large one leaves nothing.
    pub(super) fn end(&mut self) {
        self.header.clear();
        self.header.shrink_to(KEPT_SIZE_MAX);
    }

    /// Takes a frame of content.
    pub(super) fn take<'a>(&mut self, frame: &Frame<'a>, size_max: u64) -> Result<Progress<'a>, Fault> {
        match (self.awaited, frame.kind) {
            (Awaited::Header, Kind::Header) => self.take_header(frame.payload, size_max),
            (Awaited::Body, Kind::Body) => self.take_body(frame.payload),
            (Awaited::Method, _) => Err(unexpected("a method, and content came instead")),
            (Awaited::Header, _) => Err(unexpected("a content header for class 60, got something else")),
            (Awaited::Body, _) => Err(unexpected("content body, got something else")),
        }
    }

    fn take_header<'a>(&mut self, payload: &'a [u8], size_max: u64) -> Result<Progress<'a>, Fault> {
        let header = ContentHeader::decode(payload).map_err(|error| match error {
            ContentError::WrongClass(_) | ContentError::WrongWeight(_) => unexpected(&error.to_string()),
            ContentError::Malformed(error) => Fault::new(code::SYNTAX_ERROR, error.to_string()),
        })?;
        if header.body_size > size_max {
            self.awaited = Awaited::Method;
            let size = header.body_size;
            return Err(Fault::precondition(format!(
                "message size {size} is larger than configured max size {size_max}"
            )));
        }
        self.header.clear();
        self.header.extend_from_slice(payload);
        self.body.clear();
        self.body_size = header.body_size;
        if header.body_size == 0 {
            self.awaited = Awaited::Method;
            return Ok(Progress::Whole(&[]));
        }
        self.awaited = Awaited::Body;
        Ok(Progress::Partial)
    }

    fn take_body<'a>(&mut self, payload: &'a [u8]) -> Result<Progress<'a>, Fault> {
        let has = self.body.len() as u64 + payload.len() as u64;
        if has > self.body_size {
            let found = format!("{has} bytes of a body of {}", self.body_size);
            return Err(Fault::new(code::FRAME_ERROR, found));
        }
        let is_whole = has == self.body_size;
        if is_whole {
            self.awaited = Awaited::Method;
            if self.body.is_empty() {
                return Ok(Progress::Whole(payload));
            }
        } else if self.body.is_empty() {
            let size = usize::try_from(self.body_size).unwrap_or(usize::MAX);
            self.body.reserve(size.min(RESERVED_SIZE_MAX));
        }
        self.body.extend_from_slice(payload);
        Ok(if is_whole { Progress::Gathered } else { Progress::Partial })
    }
}

/// Bytes that a content's header, which need not be one, says its body has.
pub(super) fn announced_size(header: &[u8]) -> u64 {
    let size = header.get(BODY_SIZE_WITHIN..).and_then(<[u8]>::first_chunk);
    size.map_or(0, |size| u64::from_be_bytes(*size))
}

fn unexpected(expected: &str) -> Fault {
    Fault::new(code::UNEXPECTED_FRAME, format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE_MAX: u64 = 100;

    fn header(body_size: u64) -> BytesMut {
        let mut out = BytesMut::new();
        ContentHeader { body_size, ..ContentHeader::default() }.encode(&mut out);
        out
    }

    fn begun(body_size: u64) -> Incoming {
        let mut incoming = Incoming::default();
        incoming.begin(&Publish::default());
        let bytes = header(body_size);
        let frame = Frame { kind: Kind::Header, channel: 1, payload: &bytes };
        let progress = incoming.take(&frame, SIZE_MAX).expect("taken");
        assert_eq!(progress == Progress::Partial, body_size > 0);
        incoming
    }

    const fn body(payload: &[u8]) -> Frame<'_> {
        Frame { kind: Kind::Body, channel: 1, payload }
    }

    #[test]
    fn a_body_is_whole_when_it_has_as_many_bytes_as_its_header_says() {
        assert_eq!(begun(3).take(&body(b"abc"), SIZE_MAX), Ok(Progress::Whole(b"abc")));
        let mut incoming = begun(3);
        assert_eq!(incoming.take(&body(b"a"), SIZE_MAX), Ok(Progress::Partial));
        assert_eq!(incoming.take(&body(b""), SIZE_MAX), Ok(Progress::Partial));
        assert_eq!(incoming.take(&body(b"bc"), SIZE_MAX), Ok(Progress::Gathered));
        assert_eq!((&incoming.body[..], incoming.has_begun()), (&b"abc"[..], false));
        assert!(!begun(0).has_begun());
    }

    #[test]
    fn what_is_out_of_turn_or_too_long_ends_the_connection_and_what_is_too_large_the_channel() {
        let code_of = |taken: Result<Progress<'_>, Fault>| taken.expect_err("refused").code;
        assert_eq!(code_of(begun(3).take(&body(b"abcd"), SIZE_MAX)), code::FRAME_ERROR);
        let bytes = header(1);
        let again = Frame { kind: Kind::Header, channel: 1, payload: &bytes };
        assert_eq!(code_of(begun(3).take(&again, SIZE_MAX)), code::UNEXPECTED_FRAME);
        assert_eq!(code_of(Incoming::default().take(&body(b"a"), SIZE_MAX)), code::UNEXPECTED_FRAME);
        let mut incoming = Incoming::default();
        incoming.begin(&Publish::default());
        let large = header(SIZE_MAX + 1);
        let large = Frame { kind: Kind::Header, channel: 1, payload: &large };
        assert_eq!(code_of(incoming.take(&large, SIZE_MAX)), code::PRECONDITION_FAILED);
    }
}
