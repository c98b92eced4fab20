//! Requests, one at a time over a connection that waits: routes, topics, offsets.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use bytes::BytesMut;
use wire::rocketmq::code::response::SUCCESS;
use wire::rocketmq::field::{Fields, TypedHeader};
use wire::rocketmq::frame::{Command, Form, Header, Language, encode, frame_len};

use crate::error::ClientError;
use crate::link::{Link, connect};
use crate::socket::{Socket, TLS};

/// What a client says it is, an ordinal of `MQVersion`: 5.4.0.
pub const CLIENT_VERSION: i32 = 493;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const READ_SIZE: usize = 64 * 1024;

/// A connection to a name server or broker that answers one request after the other.
#[derive(Debug)]
pub struct Control {
    socket: Socket,
    address: String,
    next_opaque: i32,
    input: BytesMut,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// Code.
    pub code: i32,
    /// The peer's own words.
    pub remark: String,
    /// Extension fields.
    fields: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The extension field `name` as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.fields.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok())
    }
}

impl Control {
    /// Connects.
    pub fn open(role: &'static str, address: &str) -> Result<Self, ClientError> {
        let socket = connect(role, address)?;
        let unreachable = |source| ClientError::Unreachable { role, address: address.to_owned(), source };
        socket.stream().set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(unreachable)?;
        socket.stream().set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(unreachable)?;
        Ok(Self { socket, address: address.to_owned(), next_opaque: 1, input: BytesMut::new() })
    }

    /// Where it is connected to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same for an address that this peer has named: it is spoken to as this peer is.
    pub fn like_own(&self, address: &str) -> String {
        let front = if self.address.starts_with(TLS) { TLS } else { "" };
        format!("{front}{address}")
    }

    /// Waits no longer than this for what is asked from here on.
    pub fn answer_within(&self, limit: Duration) -> Result<(), ClientError> {
        let unreachable = |source| ClientError::Unreachable { role: "broker", address: self.address.clone(), source };
        self.socket.stream().set_read_timeout(Some(limit.max(Duration::from_millis(1)))).map_err(unreachable)
    }

    /// The connection by itself.
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    /// Asks, and waits for the answer whatever its code.
    pub fn ask<'h>(&mut self, code: i32, header: &impl TypedHeader<'h>) -> Result<Answer, ClientError> {
        self.ask_with(code, header, &[])
    }

    /// As `ask`, with a body.
    pub fn ask_with<'h>(
        &mut self,
        code: i32,
        header: &impl TypedHeader<'h>,
        body: &[u8],
    ) -> Result<Answer, ClientError> {
        let opaque = self.next_opaque;
        self.next_opaque += 1;
        let mut out = BytesMut::new();
        let head = Header { code, language: Language::RUST, version: CLIENT_VERSION, opaque, flag: 0, remark: None };
        encode(&mut out, Form::Json, &head, |sink| header.encode(sink), body);
        self.socket.write_all(&out).map_err(|error| self.lost(&error))?;
        loop {
            while let Some(size) = frame_len(&self.input).map_err(|source| self.not_rocketmq(source))? {
                let frame = self.input.split_to(size);
                let command = Command::decode(&frame).map_err(|source| self.not_rocketmq(source))?;
                if command.header.is_response() && command.header.opaque == opaque {
                    return self.answer(&command);
                }
            }
            let mut chunk = vec![0; READ_SIZE];
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(self.lost(&io::Error::from(ErrorKind::UnexpectedEof))),
                Ok(size) => self.input.extend_from_slice(&chunk[..size]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Asks; every code but success is an error.
    pub fn demand<'h>(&mut self, code: i32, header: &impl TypedHeader<'h>) -> Result<Answer, ClientError> {
        let answer = self.ask(code, header)?;
        if answer.code == SUCCESS { Ok(answer) } else { Err(self.refused(code, &answer)) }
    }

    /// The error an answer amounts to.
    pub fn refused(&self, request: i32, answer: &Answer) -> ClientError {
        let (address, remark) = (self.address.clone(), answer.remark.clone());
        ClientError::Refused { request, address, code: answer.code, remark }
    }

    fn answer(&self, command: &Command<'_>) -> Result<Answer, ClientError> {
        let fields = command.fields.pairs().map_err(|source| self.not_rocketmq(source))?;
        let remark = command.header.remark.as_deref().unwrap_or_default().to_owned();
        Ok(Answer { code: command.header.code, remark, fields, body: command.body.to_vec() })
    }

    fn lost(&self, error: &io::Error) -> ClientError {
        let problem = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".to_owned(),
            ErrorKind::UnexpectedEof => "it was closed at the other end".to_owned(),
            _ => error.to_string(),
        };
        ClientError::Lost { address: self.address.clone(), problem }
    }

    fn not_rocketmq(&self, source: base::cursor::DecodeError) -> ClientError {
        ClientError::NotRocketmq { address: self.address.clone(), source }
    }
}

/// The next complete frame that came over `link`.
pub fn next_frame(link: &mut Link) -> Option<&[u8]> {
    let wrong = |error| format!("what it answers is not RocketMQ's protocol: {error}");
    link.next_frame(|bytes| frame_len(bytes).map_err(wrong))
}

/// A header without fields.
#[derive(Debug)]
pub struct NoFields;

impl<'a> TypedHeader<'a> for NoFields {
    fn decode(_: &Fields<'a>) -> Result<Self, wire::rocketmq::field::HeaderError> {
        Ok(Self)
    }

    fn encode(&self, _: &mut wire::rocketmq::field::FieldSink<'_>) {}
}
