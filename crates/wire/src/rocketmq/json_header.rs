//! The JSON header: one flat object with one inner object of text fields. Written and read by hand, since official
//! Java clients send it with every message unless told otherwise.
//!
//! Texts are read as leniently as Java reads them (fastjson): a property that was cut inside an emoji, a raw control
//! character or bytes that are no UTF-8 cost the text its odd character, and nobody the connection.

use std::borrow::Cow;

use base::cursor::{DecodeError, preview};
use base::limits::HEADER_FIELD_COUNT_MAX;
use bytes::{BufMut, BytesMut};

use super::field::{FieldSink, Fields, too_many_fields};
use super::frame::{Header, Language};
use super::lenient_text::unescape;

pub(super) fn decode(bytes: &[u8]) -> Result<(Header<'_>, Fields<'_>), DecodeError> {
    let mut scanner = Scanner { bytes, text: std::str::from_utf8(bytes).ok(), position: 0 };
    let mut header = Header { code: 0, language: Language::OTHER, version: 0, opaque: 0, flag: 0, remark: None };
    let mut fields = Vec::new();
    let mut has_code = false;
    scanner.members(|scanner, key| {
        match &*key {
            "code" => {
                header.code = scanner.integer()?;
                has_code = true;
            }
            "version" => header.version = scanner.integer()?,
            "opaque" => header.opaque = scanner.integer()?,
            "flag" => header.flag = scanner.integer()?,
            "language" => {
                header.language = scanner.text_or_null()?.map_or(Language::OTHER, |name| Language::from_name(&name))
            }
            "remark" => header.remark = scanner.text_or_null()?,
            "extFields" => scanner.fields(&mut fields)?,
            _ => scanner.skip_value()?,
        }
        Ok(())
    })?;
    scanner.blanks();
    if scanner.position != bytes.len() || !has_code {
        return Err(bad(bytes, "no header object with a code"));
    }
    Ok((header, Fields::Pairs(fields)))
}

pub(super) fn encode(out: &mut BytesMut, header: &Header<'_>, fields: impl FnOnce(&mut FieldSink<'_>)) {
    out.reserve(128);
    out.put_slice(b"{\"code\":");
    put_integer(out, header.code);
    let fields_at = out.len();
    out.put_slice(b",\"extFields\":{");
    let mut sink = FieldSink::json(out);
    fields(&mut sink);
    if sink.count() == 0 {
        out.truncate(fields_at);
    } else {
        out.put_u8(b'}');
    }
    out.put_slice(b",\"flag\":");
    put_integer(out, header.flag);
    out.put_slice(b",\"language\":\"");
    out.put_slice(header.language.name().as_bytes());
    out.put_slice(b"\",\"opaque\":");
    put_integer(out, header.opaque);
    if let Some(remark) = &header.remark {
        out.put_slice(b",\"remark\":");
        put_json_text(out, remark);
    }
    out.put_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    put_integer(out, header.version);
    out.put_u8(b'}');
}

fn put_integer(out: &mut BytesMut, value: i32) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `text` as a JSON string.
pub(super) fn put_json_text(out: &mut BytesMut, text: &str) {
    out.reserve(text.len() + 2);
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (clean, odd) = rest.split_at(at);
        out.put_slice(clean);
        let Some((&byte, behind)) = odd.split_first() else { break };
        rest = behind;
        match byte {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.put_slice(b"\\u00");
                out.put_u8(DIGITS[usize::from(byte >> 4)]);
                out.put_u8(DIGITS[usize::from(byte & 15)]);
            }
        }
    }
    out.put_slice(rest);
    out.put_u8(b'"');
}

fn bad(bytes: &[u8], problem: &str) -> DecodeError {
    DecodeError::BadValue { what: "JSON header", found: format!("{problem} in {:?}", preview(bytes)) }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    /// The same, if all of it is text. Mostly so: then one check serves for every part.
    text: Option<&'a str>,
    position: usize,
}

impl<'a> Scanner<'a> {
    fn error<T>(&self, expected: &str) -> Result<T, DecodeError> {
        Err(bad(self.bytes, &format!("{expected} expected at byte {}", self.position)))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// What lies between two places, with a mark for each byte that is no text.
    fn part(&self, from: usize, to: usize) -> Cow<'a, str> {
        match self.text {
            Some(text) => Cow::Borrowed(text.get(from..to).unwrap_or_default()),
            None => String::from_utf8_lossy(self.bytes.get(from..to).unwrap_or_default()),
        }
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.blanks();
        let there = self.peek() == Some(byte);
        self.position += usize::from(there);
        there
    }

    /// Walks the members of an object; `visit` must consume each value.
    fn members(
        &mut self,
        mut visit: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        if !self.take(b'{') {
            return self.error("{");
        }
        if self.take(b'}') {
            return Ok(());
        }
        let mut count = 0;
        loop {
            count += 1;
            if count > HEADER_FIELD_COUNT_MAX {
                return Err(too_many_fields(count));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return self.error(":");
            }
            self.blanks();
            visit(self, key)?;
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.error(", or }");
            }
        }
    }

    fn fields(&mut self, fields: &mut Vec<(Cow<'a, str>, Cow<'a, str>)>) -> Result<(), DecodeError> {
        if self.peek() == Some(b'n') {
            return self.skip_value();
        }
        // A second object replaces the first, or two would exceed the limit of one.
        fields.clear();
        fields.reserve(16);
        self.members(|scanner, key| {
            let value = match scanner.peek() {
                Some(b'"') => scanner.string()?,
                Some(b'n') => return scanner.skip_value(),
                _ => {
                    let start = scanner.position;
                    scanner.skip_value()?;
                    scanner.part(start, scanner.position)
                }
            };
            fields.push((key, value));
            Ok(())
        })
    }

    fn text_or_null(&mut self) -> Result<Option<Cow<'a, str>>, DecodeError> {
        if self.peek() == Some(b'"') {
            return self.string().map(Some);
        }
        self.skip_value().map(|()| None)
    }

    fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        self.blanks();
        if self.peek() != Some(b'"') {
            return self.error("text");
        }
        let start = self.position;
        self.position += 1;
        let mut escaped = false;
        let mut at = self.position;
        loop {
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    at += 2;
                }
                Some(_) => at += 1,
                None => {
                    self.position = at;
                    return self.error("the end of a text");
                }
            }
        }
        self.position = at + 1;
        if !escaped {
            return Ok(self.part(start + 1, self.position - 1));
        }
        let quoted = self.bytes.get(start..self.position).unwrap_or_default();
        let inner = self.bytes.get(start + 1..self.position - 1).unwrap_or_default();
        match serde_json::from_slice(quoted).ok().or_else(|| unescape(inner)) {
            Some(text) => Ok(Cow::Owned(text)),
            None => self.error("a text with proper escapes before"),
        }
    }

    fn integer(&mut self) -> Result<i32, DecodeError> {
        let start = self.position;
        while self.peek().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit()) {
            self.position += 1;
        }
        match self.part(start, self.position).parse() {
            Ok(number) => Ok(number),
            Err(_) => self.error("an integer of 32 bits before"),
        }
    }

    /// Skips a number, a word, a text, or an object or array of any shape.
    fn skip_value(&mut self) -> Result<(), DecodeError> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'{' | b'[') => self.skip_nested(),
            Some(byte) if byte == b'-' || byte.is_ascii_alphanumeric() => {
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
                {
                    self.position += 1;
                }
                Ok(())
            }
            _ => self.error("a value"),
        }
    }

    fn skip_nested(&mut self) -> Result<(), DecodeError> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth -= 1,
                Some(_) => {}
                None => return self.error("the end of a nested value"),
            }
            self.position += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}
