//! How bodies are written and read as JSON: straight into the output, and leniently from the input.

use std::collections::BTreeMap;

use base::cursor::{DecodeError, preview};
use bytes::{BufMut, BytesMut};
use format::loose_json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rocketmq::json_header::put_json_text;

/// Which JSON the peer reads. They differ in the keys of maps from a number to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonDialect {
    /// As fastjson writes by default: `{0:"10.0.0.1:10911"}`.
    Loose,
    /// JSON as everybody reads it: `{"0":"10.0.0.1:10911"}`.
    Strict,
}

/// Writes one object, member by member.
pub(crate) struct ObjectWriter<'a> {
    out: &'a mut BytesMut,
    is_first: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn new(out: &'a mut BytesMut) -> Self {
        out.put_u8(b'{');
        Self { out, is_first: true }
    }

    /// Starts a member; its value is to be written to what this returns.
    pub(crate) fn member(&mut self, name: &str) -> &mut BytesMut {
        self.separate();
        put_json_text(self.out, name);
        self.out.put_u8(b':');
        self.out
    }

    /// Starts a member whose key is a number.
    pub(crate) fn numbered_member(&mut self, key: i64, dialect: JsonDialect) -> &mut BytesMut {
        self.separate();
        match dialect {
            JsonDialect::Loose => put_number(self.out, key),
            JsonDialect::Strict => {
                self.out.put_u8(b'"');
                put_number(self.out, key);
                self.out.put_u8(b'"');
            }
        }
        self.out.put_u8(b':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        put_json_text(self.member(name), value);
    }

    pub(crate) fn optional_text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    pub(crate) fn number(&mut self, name: &str, value: impl Into<i64>) {
        put_number(self.member(name), value.into());
    }

    pub(crate) fn boolean(&mut self, name: &str, value: bool) {
        self.member(name).put_slice(if value { b"true" } else { b"false" });
    }

    pub(crate) fn end(self) {
        self.out.put_u8(b'}');
    }

    fn separate(&mut self) {
        if !self.is_first {
            self.out.put_u8(b',');
        }
        self.is_first = false;
    }
}

/// Writes an array, each item by `write`.
pub(crate) fn put_array<T>(
    out: &mut BytesMut,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut BytesMut, T),
) {
    out.put_u8(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        write(out, item);
    }
    out.put_u8(b']');
}

/// Writes an array of texts.
pub(crate) fn put_texts<T: AsRef<str>>(out: &mut BytesMut, texts: impl IntoIterator<Item = T>) {
    put_array(out, texts, |out, text| put_json_text(out, text.as_ref()));
}

/// Writes a map from text to text.
pub(crate) fn put_text_map(out: &mut BytesMut, map: &BTreeMap<String, String>) {
    let mut object = ObjectWriter::new(out);
    for (key, value) in map {
        object.text(key, value);
    }
    object.end();
}

/// Writes what is kept as it came. Numeric keys come out quoted, which both dialects' readers take.
pub(crate) fn put_value(out: &mut BytesMut, value: &Value) {
    use std::fmt::Write as _;
    // `BytesMut` grows: writing to it cannot fail.
    let _ = write!(out, "{value}");
}

fn put_number(out: &mut BytesMut, value: i64) {
    use std::fmt::Write as _;
    // `BytesMut` grows: writing to it cannot fail.
    let _ = write!(out, "{value}");
}

/// Reads an object in either dialect.
pub(crate) fn decode<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, DecodeError> {
    // Reading a structure would take an array for its members in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(DecodeError::BadValue { what, found: format!("{:?} (no JSON object)", preview(body)) });
    }
    decode_any(what, body)
}

/// Reads `body` in either dialect. Plain JSON, the usual case, is read without building a tree first.
pub(crate) fn decode_any<T: DeserializeOwned>(what: &'static str, body: &[u8]) -> Result<T, DecodeError> {
    if let Ok(read) = serde_json::from_slice(body) {
        return Ok(read);
    }
    let bad = |problem: String| DecodeError::BadValue { what, found: format!("{:?} ({problem})", preview(body)) };
    let tree = loose_json::parse(body).map_err(|error| bad(error.to_string()))?;
    serde_json::from_value(tree).map_err(|error| bad(error.to_string()))
}

/// Reads a member that Java may write as `null`.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
