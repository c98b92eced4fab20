//! A connection to a broker with many requests under way.

use std::time::Instant;

use bytes::BytesMut;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{Command, Form, Header, Language, encode};

use crate::error::ClientError;
use crate::link::{Link, flush_and_wait};
use crate::rocketmq::control::{CLIENT_VERSION, next_frame};

/// A broker that is asked many things at once.
#[derive(Debug)]
pub struct Peer {
    link: Link,
    next_opaque: i32,
    scratch: BytesMut,
}

/// What a frame is for.
#[derive(Debug)]
pub enum Heard<'a> {
    /// The answer to the request with that number.
    Answer(i32, Command<'a>),
    /// A request of the broker's with that code.
    Request(i32),
}

impl Peer {
    /// Connects.
    pub fn open(address: &str) -> Result<Self, ClientError> {
        Ok(Self::over(Link::open(address)?))
    }

    /// Over a connection on which nothing is under way.
    pub fn over(link: Link) -> Self {
        // Numbers that a connection's first requests, one after the other, do not reach.
        Self { link, next_opaque: 1 << 16, scratch: BytesMut::new() }
    }

    /// Where it is.
    pub fn address(&self) -> &str {
        self.link.address()
    }

    /// The connection.
    pub const fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    /// Has a request sent with the next wait; gives the number of its answer.
    pub fn post<'h>(&mut self, code: i32, header: &impl TypedHeader<'h>, body: &[u8]) -> i32 {
        let opaque = self.next_opaque;
        self.next_opaque = opaque.checked_add(1).unwrap_or(1 << 16);
        let head = Header { code, language: Language::RUST, version: CLIENT_VERSION, opaque, flag: 0, remark: None };
        self.scratch.clear();
        encode(&mut self.scratch, Form::Json, &head, |sink| header.encode(sink), body);
        self.link.out().extend_from_slice(&self.scratch);
        opaque
    }

    /// What has come next, if anything has.
    pub fn hear(&mut self) -> Result<Option<Heard<'_>>, ClientError> {
        let address = self.link.address().to_owned();
        if let Some(problem) = self.link.fault() {
            return Err(ClientError::Lost { address, problem });
        }
        let Some(frame) = next_frame(&mut self.link) else { return Ok(None) };
        let command = Command::decode(frame).map_err(|source| ClientError::NotRocketmq { address, source })?;
        let (code, opaque) = (command.header.code, command.header.opaque);
        Ok(Some(if command.header.is_response() { Heard::Answer(opaque, command) } else { Heard::Request(code) }))
    }
}

/// Sends what waits to be, and waits until something has come from one of `peers`, at most until `until`.
pub fn wait(peers: &mut [Peer], until: Instant) -> Result<(), ClientError> {
    flush_and_wait(peers.iter_mut().map(Peer::link).collect(), until)
}
