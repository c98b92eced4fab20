//! Frames of AMQP 0-9-1, and the methods, content headers and tables in them.

use bytes::BytesMut;
use wire::amqp::content::ContentHeader;
use wire::amqp::frame::{self, Kind, PROTOCOL_HEADER};
use wire::amqp::method::Method;
use wire::amqp::table::{Table, Value};

/// The largest frame.
const FRAME_SIZE_MAX: usize = 8192;

/// What is read of a frame comes back the same after it was written; a cut frame is waited for.
pub fn run(mut data: &[u8]) {
    walk(data);
    while let Ok(Some(frame)) = frame::decode(data, FRAME_SIZE_MAX) {
        let (whole, rest) = data.split_at(frame.size());
        for cut in (0..whole.len().min(9)).chain([whole.len() / 2, whole.len() - 1]) {
            assert_eq!(frame::decode(&whole[..cut.min(whole.len() - 1)], FRAME_SIZE_MAX), Ok(None));
        }
        match frame.kind {
            Kind::Method => method(frame.payload),
            Kind::Header => header(frame.payload),
            Kind::Body | Kind::Heartbeat => {}
        }
        data = rest;
    }
}

fn method(payload: &[u8]) {
    let Ok(method) = Method::decode(payload) else { return };
    let mut out = BytesMut::new();
    method.encode(&mut out);
    assert_eq!(Method::decode(&out).as_ref(), Ok(&method));
    if let Method::StartOk(start) = method {
        walk(start.client_properties.bytes());
    }
}

fn header(payload: &[u8]) {
    let Ok(header) = ContentHeader::decode(payload) else { return };
    let mut out = BytesMut::new();
    header.encode(&mut out);
    assert_eq!(out, payload, "properties have one way to be written");
    header.properties.headers.iter().for_each(|headers| walk(headers.bytes()));
}

/// Goes over all that is in a table: what was read once is there to the end.
fn walk(bytes: &[u8]) {
    let Ok(table) = Table::read(bytes) else { return };
    let size = |name: usize, value: &Value<'_>| 1 + name + 1 + size_of(value);
    let total: usize = table.iter().map(|(name, value)| size(name.bytes().len(), &value)).sum();
    assert_eq!(total, bytes.len());
}

/// Bytes of a value behind its letter.
fn size_of(value: &Value<'_>) -> usize {
    match value {
        Value::Void => 0,
        Value::Bool(_) | Value::I8(_) | Value::U8(_) => 1,
        Value::I16(_) | Value::U16(_) => 2,
        Value::I32(_) | Value::U32(_) | Value::F32(_) => 4,
        Value::I64(_) | Value::F64(_) | Value::Timestamp(_) => 8,
        Value::Decimal(..) => 5,
        Value::LongString(bytes) | Value::Bytes(bytes) => 4 + bytes.len(),
        Value::Table(table) => {
            walk(table.bytes());
            4 + table.bytes().len()
        }
        Value::Array(array) => 4 + array.iter().map(|value| 1 + size_of(&value)).sum::<usize>(),
    }
}

/// Captured frames one by one, and all that each side said.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for conversation in crate::golden::amqp() {
        let mut rest = conversation.strip_prefix(&PROTOCOL_HEADER[..]).unwrap_or(&conversation);
        while let Ok(Some(frame)) = frame::decode(rest, FRAME_SIZE_MAX) {
            let (whole, behind) = rest.split_at(frame.size());
            seeds.push(whole.to_vec());
            rest = behind;
        }
    }
    seeds.sort();
    seeds.dedup();
    seeds
}
