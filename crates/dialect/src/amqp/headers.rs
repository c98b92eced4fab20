//! Headers of a message, for exchanges that route by them, and without what only the broker is to see.

use broker::Headers;
use bytes::BytesMut;
use wire::amqp::content::{ContentHeader, Properties};
use wire::amqp::table::{Table, TableWriter, Value, write_table};

/// How often a message was delivered in vain.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// Headers as exchanges ask for them.
pub(super) struct HeaderTable<'a>(pub(super) Table<'a>);

impl Headers for HeaderTable<'_> {
    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.raw().find(|(known, _)| known.bytes() == name).map(|(_, value)| value)
    }
}

/// A content header with other properties.
pub(super) fn with_properties(header: &[u8], properties: Properties<'_>) -> Vec<u8> {
    let body_size = ContentHeader::decode(header).map_or(0, |header| header.body_size);
    let mut out = BytesMut::new();
    ContentHeader { body_size, properties }.encode(&mut out);
    out.to_vec()
}

/// A content header with other properties; headers are those that `write` writes.
pub(super) fn with_headers(
    header: &[u8],
    properties: Properties<'_>,
    write: impl FnOnce(&mut TableWriter<'_>),
) -> Vec<u8> {
    let mut table = BytesMut::new();
    write_table(&mut table, write);
    // Written here a moment ago, with its length in front.
    let headers = table.get(size_of::<u32>()..).and_then(|bytes| Table::read(bytes).ok());
    with_properties(header, Properties { headers, ..properties })
}

/// The header, saying how often the message was delivered in vain.
pub(super) fn with_delivery_count(header: &[u8], count: u32) -> Vec<u8> {
    let properties = ContentHeader::decode(header).map(|header| header.properties).unwrap_or_default();
    let headers = properties.headers.unwrap_or_default();
    with_headers(header, properties, |table| {
        table.put(DELIVERY_COUNT, Value::I64(count.into()));
        for (name, value) in headers.iter().filter(|(name, _)| name.bytes() != DELIVERY_COUNT.as_bytes()) {
            table.put_bytes(name.bytes(), value);
        }
    })
}

/// The header without the keys that nobody else is to see.
pub(super) fn without_blind_copies(header: &[u8], properties: &Properties<'_>) -> Vec<u8> {
    let headers = properties.headers.unwrap_or_default();
    with_headers(header, *properties, |table| {
        for (name, value) in headers.iter().filter(|(name, _)| name.bytes() != b"BCC") {
            table.put_bytes(name.bytes(), value);
        }
    })
}
