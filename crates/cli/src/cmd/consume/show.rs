//! How a message is shown: as it is, in a form that is safe for a terminal, in hexadecimal digits, or as a line of JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::message::Received;
use serde::Serialize;
use serde_json::{Map, Value};

use super::format::Format;
use crate::say::clean_but;

/// How bodies are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bodies {
    /// Byte for byte.
    Raw,
    /// As text that cannot move the cursor of a terminal; other bytes are escaped.
    Escaped,
    /// As hexadecimal digits.
    Hex,
}

/// How messages are shown.
#[derive(Clone, Debug)]
pub(super) enum Look {
    /// By a format.
    Format(Format, Bodies, bool),
    /// A line of JSON each.
    Json,
}

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_key: Option<&'a str>,
    #[serde(skip_serializing_if = "is_none")]
    deliveries_before: u32,
    #[serde(skip_serializing_if = "Map::is_empty")]
    headers: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

fn is_none(number: &u32) -> bool {
    *number == 0
}

impl Look {
    /// Appends a message as it is shown.
    pub(super) fn print(&self, message: &Received, out: &mut Vec<u8>) {
        match self {
            Self::Format(format, bodies, is_terminal) => {
                let clean = is_terminal.then(|| cleaned(message));
                let message = clean.as_ref().unwrap_or(message);
                format.print(message, out, &|body, out| bodies.print(body, out));
            }
            Self::Json => {
                // What is made of texts and numbers can be written.
                out.extend(serde_json::to_vec(&line_of(message)).unwrap_or_default());
                out.push(b'\n');
            }
        }
    }
}

impl Bodies {
    fn print(self, body: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Raw => out.extend_from_slice(body),
            Self::Escaped => out.extend_from_slice(escaped(body).as_bytes()),
            Self::Hex => out.extend(body.iter().flat_map(|byte| format!("{byte:02x}").into_bytes())),
        }
    }
}

/// Text as it is, but for what moves the cursor; bytes that are no text as `\xNN`.
fn escaped(body: &[u8]) -> String {
    let mut text = String::new();
    for chunk in body.utf8_chunks() {
        text.push_str(&clean_but(chunk.valid(), &['\n', '\t']));
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// The same message with texts that cannot move the cursor of a terminal.
fn cleaned(message: &Received) -> Received {
    let clean = |text: &String| clean_but(text, &[]);
    let header = |(name, value): &(String, Value)| {
        (clean(name), value.as_str().map_or(value.clone(), |text| clean_but(text, &[]).into()))
    };
    Received {
        destination: clean(&message.destination),
        id: message.id.as_ref().map(clean),
        key: message.key.as_ref().map(clean),
        tag: message.tag.as_ref().map(clean),
        exchange: message.exchange.as_ref().map(clean),
        routing_key: message.routing_key.as_ref().map(clean),
        headers: message.headers.iter().map(header).collect(),
        ..message.clone()
    }
}

fn line_of(message: &Received) -> Line<'_> {
    let body = std::str::from_utf8(&message.body).ok();
    Line {
        topic: &message.destination,
        broker: message.broker.as_deref(),
        queue: message.queue,
        offset: message.offset,
        time: message.time_ms,
        id: message.id.as_deref(),
        key: message.key.as_deref(),
        tag: message.tag.as_deref(),
        exchange: message.exchange.as_deref(),
        routing_key: message.routing_key.as_deref(),
        deliveries_before: message.deliveries_before,
        headers: message.headers.iter().cloned().collect(),
        body,
        body_base64: body.is_none().then(|| BASE64_STANDARD.encode(&message.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Received {
        Received {
            destination: "t".to_owned(),
            key: Some("\u{1b}[2J".to_owned()),
            body: body.to_vec(),
            ..Received::default()
        }
    }

    fn printed(look: &Look, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        look.print(&message(body), &mut out);
        out
    }

    #[test]
    fn a_pipe_has_bytes_as_they_are_and_a_terminal_nothing_that_moves_its_cursor() {
        let format: Format = "%k %s".parse().expect("a format");
        let raw = Look::Format(format.clone(), Bodies::Raw, false);
        assert_eq!(printed(&raw, b"\xff\x1b[2J\0"), b"\x1b[2J \xff\x1b[2J\0");
        let safe = Look::Format(format.clone(), Bodies::Escaped, true);
        let shown = printed(&safe, "\u{1b}[2J gr\u{fc}n\n".as_bytes());
        assert_eq!(String::from_utf8_lossy(&shown), "\\u{1b}[2J \\u{1b}[2J gr\u{fc}n\n");
        assert_eq!(printed(&safe, b"\xffa\xfe"), b"\\u{1b}[2J \\xffa\\xfe");
        assert_eq!(printed(&Look::Format("%s".parse().expect("a format"), Bodies::Hex, true), b"\xffa"), b"ff61");
    }

    #[test]
    fn json_has_text_as_text_and_other_bodies_in_base64() {
        let line = |body: &[u8]| String::from_utf8(printed(&Look::Json, body)).expect("text");
        assert_eq!(line(b"a\n"), "{\"topic\":\"t\",\"key\":\"\\u001b[2J\",\"body\":\"a\\n\"}\n");
        assert_eq!(line(b"\xff\0"), "{\"topic\":\"t\",\"key\":\"\\u001b[2J\",\"body_base64\":\"/wA=\"}\n");
    }
}
