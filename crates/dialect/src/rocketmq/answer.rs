//! An answer to one request, and how it is put on the wire.

use std::borrow::Cow;
use std::net::SocketAddr;

use base::cursor::DecodeError;
use base::limits::{FRAME_HEADER_SIZE_MAX, FRAME_SIZE_MAX};
use base::refused::Kind;
use base::{Now, Refusal};
use broker::Broker;
use bytes::{Bytes, BytesMut};
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, HeaderError, TypedHeader};
use wire::rocketmq::frame::{self, Command, FLAG_RESPONSE, Form, Header, Language};

use super::error::{code_of, remark_of};
use super::version::VERSION;

/// Most bytes in the body of an answer: what a frame may hold, without the longest header.
pub(super) const BODY_SIZE_MAX: usize = FRAME_SIZE_MAX - FRAME_HEADER_SIZE_MAX;

/// What of a request its answer needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) code: i32,
    pub(super) opaque: i32,
    pub(super) form: Form,
    pub(super) one_way: bool,
}

impl Asked {
    pub(super) fn of(command: &Command<'_>) -> Self {
        let header = &command.header;
        Self { code: header.code, opaque: header.opaque, form: command.form, one_way: header.is_one_way() }
    }
}

/// An answer that is not on the hot path.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) remark: Option<String>,
    /// Header fields, already encoded as name and text.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self::refused(&refusal)
    }
}

/// What a handler gives: an answer, or the reason why not.
pub(super) type Answered = Result<Answer, Refusal>;

impl Answer {
    /// Success with nothing to say.
    pub(super) fn ok() -> Self {
        Self::default()
    }

    /// Success with a body.
    pub(super) fn body(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// Success with a JSON body.
    pub(super) fn json(value: &serde_json::Value) -> Self {
        Self::body(value.to_string())
    }

    /// Adds a header field.
    pub(super) fn field(mut self, name: &'static str, value: impl ToString) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    /// A refusal as an answer.
    pub(super) fn refused(refusal: &Refusal) -> Self {
        Self { code: code_of(refusal), remark: Some(remark_of(refusal)), ..Self::default() }
    }

    /// The frame that carries it; a refusal if it is more than a frame may hold.
    pub(super) fn encode(&self, asked: Asked) -> Bytes {
        if self.body.len() > BODY_SIZE_MAX {
            let size = self.body.len();
            let problem = format!(
                "the answer would have {size} bytes, and no frame holds more than {BODY_SIZE_MAX}; ask for less"
            );
            return Self::refused(&Refusal::Internal(problem)).encode(asked);
        }
        let mut out = BytesMut::new();
        let write_fields =
            |sink: &mut FieldSink<'_>| self.fields.iter().for_each(|(name, value)| sink.text(name, value));
        let header = response_header(asked.opaque, self.code, self.remark.as_deref());
        frame::encode(&mut out, asked.form, &header, write_fields, &self.body);
        out.freeze()
    }
}

/// The fixed part of a response.
pub(super) fn response_header(opaque: i32, code: i32, remark: Option<&str>) -> Header<'_> {
    Header {
        code,
        language: Language::JAVA,
        version: VERSION,
        opaque,
        flag: FLAG_RESPONSE,
        remark: remark.map(Cow::Borrowed),
    }
}

/// Reads a typed header; what is wrong with it becomes a refusal that names the field.
pub(super) fn header<'a, H: TypedHeader<'a>>(command: &Command<'a>) -> Result<H, Refusal> {
    H::decode(&command.fields).map_err(|error| bad_header(&error))
}

pub(super) fn bad_header(error: &HeaderError) -> Refusal {
    Refusal::BadRequest(error.to_string())
}

/// A body that cannot be read, as a refusal.
pub(super) fn bad_body(error: DecodeError) -> Refusal {
    Refusal::BadRequest(format!("the body cannot be read: {error}"))
}

/// Whether an answer says no to what was asked. That there is nothing, or nobody, is an answer as good as any.
const fn is_refusal(code: i32) -> bool {
    !matches!(
        code,
        response::SUCCESS
            | response::PULL_NOT_FOUND
            | response::PULL_RETRY_IMMEDIATELY
            | response::PULL_OFFSET_MOVED
            | response::QUERY_NOT_FOUND
            | response::CONSUMER_NOT_ONLINE
            | response::NO_MESSAGE
    )
}

/// Counts an answer that says no.
pub(super) fn note_refusal(broker: &Broker, from: SocketAddr, asked: Asked, answer: &Answer, now: Now) {
    if is_refusal(answer.code) {
        let kind = Kind { request: request::name(asked.code), answer: response::name(answer.code) };
        broker.refused().note(kind, asked.code, from, answer.remark.as_deref().unwrap_or_default(), now);
    }
}

/// Requests Sluice does not know, or knows and does not have.
pub(super) fn not_supported(code: i32) -> Answer {
    let name = request::name(code);
    Answer {
        code: response::REQUEST_CODE_NOT_SUPPORTED,
        remark: Some(format!("request type {code} ({name}) not supported by Sluice")),
        ..Answer::default()
    }
}
