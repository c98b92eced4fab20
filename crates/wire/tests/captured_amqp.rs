//! What official AMQP clients and RabbitMQ say to each other (`testdata/amqp`, made by `conformance/amqp/capture`) is read to the last
//! byte, and written again as it was.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use wire::amqp::content::ContentHeader;
use wire::amqp::frame::{self, Frame, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;

/// What the connections agreed on.
const FRAME_SIZE_MAX: usize = 8192;

/// Files of one side.
fn captured(side: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/amqp");
    let clients = fs::read_dir(folder).expect("a folder").map(|client| client.expect("an entry").path());
    let files = clients.filter(|client| client.is_dir()).flat_map(|client| fs::read_dir(client).expect("a folder"));
    let mut files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(&format!(".{side}.bin")));
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}

/// Every frame, each held against the bytes it came in.
fn frames<'a>(mut bytes: &'a [u8], file: &Path) -> Vec<Frame<'a>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let frame = frame::decode(bytes, FRAME_SIZE_MAX).expect("a frame");
        let frame = frame.unwrap_or_else(|| panic!("{}: {} bytes are left over", file.display(), bytes.len()));
        let mut out = BytesMut::new();
        frame::encode(&mut out, frame.kind, frame.channel, |out| out.extend_from_slice(frame.payload));
        let (whole, rest) = bytes.split_at(frame.size());
        assert_eq!(out, whole);
        frames.push(frame);
        bytes = rest;
    }
    frames
}

/// Content on its way on a channel: bytes of the body that are to come, if its header has come.
type Content = Option<u64>;

/// Reads frames and writes them again; gives the names of the methods.
fn read(frames: &[Frame<'_>], file: &Path) -> Vec<&'static str> {
    let mut names = Vec::new();
    let mut contents: BTreeMap<u16, Content> = BTreeMap::new();
    for frame in frames {
        let mut again = BytesMut::new();
        let content = contents.remove(&frame.channel);
        match (frame.kind, content) {
            (Kind::Method, None) => {
                let method = Method::decode(frame.payload);
                let method = method.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                method.encode(&mut again);
                names.push(method.name());
                if method.has_content() {
                    contents.insert(frame.channel, None);
                }
            }
            (Kind::Header, Some(None)) => {
                let header = ContentHeader::decode(frame.payload).expect("a header");
                header.encode(&mut again);
                if header.body_size > 0 {
                    contents.insert(frame.channel, Some(header.body_size));
                }
            }
            (Kind::Body, Some(Some(left))) => {
                again.extend_from_slice(frame.payload);
                let left = left.checked_sub(frame.payload.len() as u64).expect("no more than the header says");
                if left > 0 {
                    contents.insert(frame.channel, Some(left));
                }
            }
            (Kind::Heartbeat, content) => {
                assert_eq!((frame.channel, frame.payload), (0, &b""[..]));
                contents.extend(content.map(|content| (frame.channel, content)));
            }
            (kind, content) => panic!("{}: {kind:?} where {content:?} is to come", file.display()),
        }
        assert_eq!(again, frame.payload, "{}: {names:?}", file.display());
    }
    assert_eq!(contents, BTreeMap::new(), "{}", file.display());
    names
}

/// All that the sides say, but for what none of these clients has a call for.
#[test]
fn all_that_clients_and_rabbitmq_say_is_read_and_written_as_it_was() {
    let mut names = BTreeSet::new();
    for file in captured("client") {
        let bytes = fs::read(&file).expect("a file");
        let rest = bytes.strip_prefix(&PROTOCOL_HEADER[..]).expect("a protocol header");
        names.extend(read(&frames(rest, &file), &file));
    }
    for file in captured("server") {
        let bytes = fs::read(&file).expect("a file");
        names.extend(read(&frames(&bytes, &file), &file));
    }
    for name in [
        "connection.start",
        "connection.start-ok",
        "connection.tune",
        "connection.tune-ok",
        "connection.open",
        "connection.open-ok",
        "connection.close",
        "connection.close-ok",
        "connection.update-secret",
        "connection.update-secret-ok",
        "channel.open",
        "channel.open-ok",
        "channel.close",
        "channel.close-ok",
        "exchange.declare",
        "exchange.declare-ok",
        "exchange.delete",
        "exchange.delete-ok",
        "exchange.bind",
        "exchange.bind-ok",
        "exchange.unbind",
        "exchange.unbind-ok",
        "queue.declare",
        "queue.declare-ok",
        "queue.bind",
        "queue.bind-ok",
        "queue.unbind",
        "queue.unbind-ok",
        "queue.purge",
        "queue.purge-ok",
        "queue.delete",
        "queue.delete-ok",
        "basic.qos",
        "basic.qos-ok",
        "basic.consume",
        "basic.consume-ok",
        "basic.cancel",
        "basic.cancel-ok",
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get",
        "basic.get-ok",
        "basic.get-empty",
        "basic.ack",
        "basic.reject",
        "basic.nack",
        "basic.recover",
        "basic.recover-ok",
        "confirm.select",
        "confirm.select-ok",
        "tx.select",
        "tx.select-ok",
        "tx.commit",
        "tx.commit-ok",
        "tx.rollback",
        "tx.rollback-ok",
    ] {
        assert!(names.contains(name), "nobody says {name}");
    }
}

/// A stream that arrives in pieces is the same frames.
#[test]
fn no_piece_of_a_frame_passes_for_one() {
    for file in captured("client") {
        let bytes = fs::read(&file).expect("a file");
        let rest = &bytes[PROTOCOL_HEADER.len()..];
        let mut start = 0;
        for frame in frames(rest, &file) {
            let whole = &rest[start..start + frame.size()];
            for end in [0, 1, 6, 7, whole.len() / 2, whole.len() - 1] {
                assert_eq!(frame::decode(&whole[..end], FRAME_SIZE_MAX), Ok(None));
            }
            start += frame.size();
        }
    }
}
