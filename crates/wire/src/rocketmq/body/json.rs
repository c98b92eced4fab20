//! How bodies are written and read as JSON, the reading lenient.

use std::io;

use base::cursor::{DecodeError, preview};
use bytes::Bytes;
use format::loose_json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// Which JSON the peer reads. They differ in the keys of maps from a number to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonDialect {
    /// As fastjson writes by default: `{0:"10.0.0.1:10911"}`.
    Loose,
    /// JSON as everybody reads it: `{"0":"10.0.0.1:10911"}`.
    Strict,
}

/// Writes `value` as a peer of `dialect` reads it.
pub(crate) fn encode(value: &impl Serialize, dialect: JsonDialect) -> Bytes {
    let mut out = Vec::new();
    // Texts, numbers, lists and maps of these always have a JSON form, and memory grows.
    let _ = match dialect {
        JsonDialect::Loose => value.serialize(&mut Serializer::with_formatter(&mut out, BareNumberKeys::default())),
        JsonDialect::Strict => value.serialize(&mut Serializer::new(&mut out)),
    };
    out.into()
}

/// Leaves the quotes off keys that are numbers: an opening quote waits until it is known what it would open.
#[derive(Default)]
struct BareNumberKeys {
    waits: bool,
    is_bare: bool,
}

impl BareNumberKeys {
    fn put_waiting_quote<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if std::mem::take(&mut self.waits) { out.write_all(b"\"") } else { Ok(()) }
    }
}

impl Formatter for BareNumberKeys {
    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        *self = Self { waits: true, is_bare: false };
        Ok(())
    }

    fn write_i64<W: ?Sized + io::Write>(&mut self, out: &mut W, number: i64) -> io::Result<()> {
        self.is_bare = std::mem::take(&mut self.waits);
        CompactFormatter.write_i64(out, number)
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        self.put_waiting_quote(out)?;
        out.write_all(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        self.put_waiting_quote(out)?;
        CompactFormatter.write_char_escape(out, escape)
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.is_bare {
            return Ok(());
        }
        self.put_waiting_quote(out)?;
        out.write_all(b"\"")
    }
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
