//! Messages of standard input or files. A thread reads ahead, a bounded way, so that many go out together once a broker is slower than
//! the input, and a line that is typed goes out at once.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use client::message::Message;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Bytes read at once.
const READ_SIZE: usize = 1 << 20;
/// Bytes and messages of a piece, and pieces read ahead.
const PIECE_SIZE_MAX: usize = 1 << 20;
const PIECE_COUNT_MAX: usize = 10_000;
const PIECES_AHEAD: usize = 8;
/// Bytes of a message, at most: more than any broker takes.
const MESSAGE_SIZE_MAX: u64 = 256 << 20;

/// How messages are taken out of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line is one.
    Lines,
    /// All of it is one.
    Whole,
    /// A line is JSON.
    Json,
}

/// What messages have that say nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub key: Option<String>,
    pub tag: Option<String>,
    pub headers: Vec<(String, Value)>,
}

/// Messages that go out together.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub messages: Vec<Message>,
    /// Why the one behind them is none.
    pub problem: Option<String>,
    /// Where pieces of it begin: the first of its messages, what it is of, and the number of its line, if it is one.
    origins: Vec<(usize, Arc<str>, Option<u64>)>,
}

/// What is still to be read.
pub(super) struct Input {
    pieces: Receiver<Pass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with a body")]
struct Line {
    #[serde(default, deserialize_with = "given")]
    body: Option<Box<RawValue>>,
    body_base64: Option<String>,
    key: Option<String>,
    tag: Option<String>,
    routing_key: Option<String>,
    headers: Option<Map<String, Value>>,
    // What `sluice consume --json` tells beside that of where a message was.
    #[serde(rename = "topic")]
    _topic: Option<Value>,
    #[serde(rename = "broker")]
    _broker: Option<Value>,
    #[serde(rename = "queue")]
    _queue: Option<Value>,
    #[serde(rename = "offset")]
    _offset: Option<Value>,
    #[serde(rename = "time")]
    _time: Option<Value>,
    #[serde(rename = "id")]
    _id: Option<Value>,
    #[serde(rename = "exchange")]
    _exchange: Option<Value>,
    #[serde(rename = "deliveries_before")]
    _deliveries_before: Option<Value>,
}

/// What is there, be it `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(deserializer).map(Some)
}

impl Defaults {
    /// A message with that body.
    pub(super) fn message(&self, body: Vec<u8>) -> Message {
        let Self { key, tag, headers } = self.clone();
        Message { key, tag, headers, routing_key: None, body }
    }

    fn of_json(&self, line: &[u8]) -> Result<Message, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| format!("is no message as JSON: {error}"))?;
        let body = match (line.body, line.body_base64) {
            // Other JSON goes out as it stands there: a reader may tell its numbers and the order of its names apart.
            (Some(raw), None) => match serde_json::from_str::<String>(raw.get()) {
                Ok(text) => text.into_bytes(),
                Err(_) => raw.get().as_bytes().to_vec(),
            },
            (None, Some(text)) => {
                BASE64_STANDARD.decode(text).map_err(|error| format!("has a body_base64 that is not that: {error}"))?
            }
            _ => return Err("needs a body, or a body_base64".to_owned()),
        };
        let mut message = self.message(body);
        message.key = line.key.or(message.key);
        message.tag = line.tag.or(message.tag);
        message.routing_key = line.routing_key;
        for (name, value) in line.headers.unwrap_or_default() {
            message.headers.retain(|(known, _)| *known != name);
            message.headers.push((name, value));
        }
        Ok(message)
    }
}

impl Pass {
    /// Where a message of it comes from, in words that a sentence begins with.
    pub(super) fn place(&self, index: usize) -> String {
        match self.origins.iter().rfind(|(first, ..)| *first <= index) {
            Some((first, name, Some(line))) => format!("line {} of {name} ", line + (index - first) as u64),
            Some((_, name, None)) => format!("{name} "),
            None => "the message ".to_owned(),
        }
    }

    fn add(&mut self, mut piece: Self) {
        let first = self.messages.len();
        self.messages.append(&mut piece.messages);
        self.origins.extend(piece.origins.into_iter().map(|(at, name, line)| (first + at, name, line)));
        self.problem = piece.problem;
    }
}

impl Input {
    /// A single message.
    pub(super) fn of(message: Message) -> Self {
        let (pieces, received) = sync_channel(1);
        // There is room for one.
        let _ = pieces.send(Pass { messages: vec![message], ..Pass::default() });
        Self { pieces: received }
    }

    /// What files have, or standard input.
    pub(super) fn read(files: &[PathBuf], form: Form, defaults: Defaults) -> Self {
        let (pieces, received) = sync_channel(PIECES_AHEAD);
        let files = files.to_vec();
        thread::spawn(move || {
            let reading = Reading { form, defaults, pieces };
            if files.is_empty() {
                let _ = reading.read("standard input", io::stdin());
            }
            for file in files {
                if reading.open(&file).is_none() {
                    return;
                }
            }
        });
        Self { pieces: received }
    }

    /// All that was read meanwhile; `Timeout` if that is nothing, `Disconnected` at the end.
    pub(super) fn next(&self, wait: Duration) -> Result<Pass, RecvTimeoutError> {
        let mut pass = self.pieces.recv_timeout(wait)?;
        for piece in self.pieces.try_iter().take(PIECES_AHEAD) {
            pass.add(piece);
        }
        Ok(pass)
    }
}

/// The thread's side. Each function gives nothing once nobody wants more, or there can be no more.
struct Reading {
    form: Form,
    defaults: Defaults,
    pieces: SyncSender<Pass>,
}

impl Reading {
    fn open(&self, path: &Path) -> Option<()> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => self.read(&name, file),
            Err(error) => self.fail(Pass::default(), format!("{name} cannot be read: {error}")),
        }
    }

    fn read(&self, name: &str, from: impl Read) -> Option<()> {
        let name: Arc<str> = name.into();
        let mut from = BufReader::with_capacity(READ_SIZE, from);
        let (mut number, mut size) = (1, 0);
        let mut piece = Pass::default();
        loop {
            let origin = (self.form != Form::Whole).then_some(number);
            let place = origin.map_or_else(|| name.to_string(), |line| format!("line {line} of {name}"));
            let body = match self.take(&mut from) {
                Ok(Some(body)) => body,
                Ok(None) => break,
                Err(error) => return self.fail(piece, format!("{place} cannot be read: {error}")),
            };
            if body.len() as u64 >= MESSAGE_SIZE_MAX {
                return self
                    .fail(piece, format!("{place} is longer than {MESSAGE_SIZE_MAX} bytes, which no broker takes"));
            }
            size += body.len();
            let message = match self.form {
                Form::Json => self.defaults.of_json(&body),
                Form::Lines | Form::Whole => Ok(self.defaults.message(body)),
            };
            match message {
                Ok(message) => piece.messages.push(message),
                Err(problem) => return self.fail(piece, format!("{place} {problem}")),
            }
            if piece.origins.is_empty() {
                piece.origins.push((0, name.clone(), origin));
            }
            number += 1;
            let is_dry = self.form == Form::Whole || !from.buffer().contains(&b'\n');
            if is_dry || size >= PIECE_SIZE_MAX || piece.messages.len() >= PIECE_COUNT_MAX {
                size = 0;
                self.pieces.send(std::mem::take(&mut piece)).ok()?;
            }
            if self.form == Form::Whole {
                break;
            }
        }
        if piece.messages.is_empty() { Some(()) } else { self.pieces.send(piece).ok() }
    }

    /// The next body.
    fn take(&self, from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let mut body = Vec::new();
        let mut from = from.take(MESSAGE_SIZE_MAX);
        if self.form == Form::Whole {
            from.read_to_end(&mut body)?;
            return Ok(Some(body));
        }
        if from.read_until(b'\n', &mut body)? == 0 {
            return Ok(None);
        }
        body.pop_if(|last| *last == b'\n');
        Ok(Some(body))
    }

    fn fail(&self, piece: Pass, problem: String) -> Option<()> {
        let _ = self.pieces.send(Pass { problem: Some(problem), ..piece });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, form: Form) -> Pass {
        let (pieces, received) = sync_channel(100);
        let defaults = Defaults { tag: Some("T".to_owned()), ..Defaults::default() };
        let _ = Reading { form, defaults, pieces }.read("x", text.as_bytes());
        let mut pass = Pass::default();
        received.iter().for_each(|piece| pass.add(piece));
        pass
    }

    fn bodies(pass: &Pass) -> Vec<&[u8]> {
        pass.messages.iter().map(|message| &*message.body).collect()
    }

    #[test]
    fn each_line_is_a_message_whether_or_not_the_last_one_ends() {
        for text in ["a\n\nb\r\n", "a\n\nb\r"] {
            let pass = read(text, Form::Lines);
            assert_eq!(bodies(&pass), [&b"a"[..], b"", b"b\r"]);
            assert_eq!(pass.place(2), "line 3 of x ");
        }
        assert_eq!(bodies(&read("a\nb\n", Form::Whole)), [b"a\nb\n"]);
        assert!(read("", Form::Lines).messages.is_empty());
    }

    #[test]
    fn a_line_of_json_has_what_it_says_and_else_what_was_given() {
        let pass = read(
            r#"{"body":"a","key":"k","headers":{"h":1}}
{"body":{"b": [1,2.50,12345678901234567890123],"a":0},"tag":"U","offset":5}
{"body_base64":"/wA="}
{"body":null}"#,
            Form::Json,
        );
        assert_eq!(bodies(&pass), [&b"a"[..], br#"{"b": [1,2.50,12345678901234567890123],"a":0}"#, b"\xff\0", b"null"]);
        let tags: Vec<_> = pass.messages.iter().map(|message| message.tag.as_deref()).collect();
        assert_eq!(tags, [Some("T"), Some("U"), Some("T"), Some("T")]);
        assert_eq!(pass.messages[0].headers, [("h".to_owned(), Value::from(1))]);
    }

    #[test]
    fn a_line_that_is_none_is_named_and_those_before_it_go_out() {
        for (line, told) in
            [("{", "no message as JSON"), ("{}", "needs a body"), (r#"{"bdy":"x"}"#, "expected one of `body`")]
        {
            let pass = read(&format!("{{\"body\":\"a\"}}\n{line}\n"), Form::Json);
            let problem = pass.problem.expect("a problem");
            assert!(problem.starts_with("line 2 of x ") && problem.contains(told), "{problem}");
            assert_eq!(pass.messages.len(), 1);
        }
    }
}
