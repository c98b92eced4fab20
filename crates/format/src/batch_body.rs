//! The body of a batch send: small messages one after the other.
//!
//! ```text
//! size 4 | magic 4 (0) | body CRC 4 (0) | flag 4 | body length 4, body | properties length 2, properties
//! ```
//! Source: RocketMQ `MessageDecoder.encodeMessages`.

use bytes::{BufMut, BytesMut};

use base::cursor::{DecodeError, Reader};
use base::limits::PROPERTIES_SIZE_MAX;

const FIXED_SIZE: usize = 4 + 4 + 4 + 4 + 4 + 2;

/// One message of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchItem<'a> {
    /// The user's own number.
    pub flag: i32,
    /// Body.
    pub body: &'a [u8],
    /// Property block.
    pub properties: &'a [u8],
}

impl BatchItem<'_> {
    /// Appends the item to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u32((FIXED_SIZE + self.body.len() + self.properties.len()) as u32);
        out.put_u32(0);
        out.put_u32(0);
        out.put_i32(self.flag);
        out.put_u32(self.body.len() as u32);
        out.put_slice(self.body);
        out.put_u16(self.properties.len() as u16);
        out.put_slice(self.properties);
    }
}

/// Takes the items out of a batch body one by one; after an error it ends.
pub struct BatchItems<'a> {
    reader: Reader<'a>,
}

/// Walks the items of `body`.
pub const fn items(body: &[u8]) -> BatchItems<'_> {
    BatchItems { reader: Reader::new(body) }
}

impl<'a> Iterator for BatchItems<'a> {
    type Item = Result<BatchItem<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let item = decode_item(&mut self.reader);
        if item.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(item)
    }
}

fn decode_item<'a>(reader: &mut Reader<'a>) -> Result<BatchItem<'a>, DecodeError> {
    let size = reader.length_i32(reader.remaining(), "batch item size")?;
    let rest = size.checked_sub(4).ok_or(DecodeError::BadLength {
        what: "batch item size",
        found: size as i64,
        limit: i64::MAX,
    })?;
    let mut item = Reader::new(reader.slice(rest, "batch item")?);
    item.u32("batch item magic")?;
    item.u32("batch item CRC")?;
    let flag = item.i32("batch item flag")?;
    let body_len = item.length_i32(rest, "batch item body")?;
    let body = item.slice(body_len, "batch item body")?;
    let properties_len = item.length_i16(PROPERTIES_SIZE_MAX, "batch item properties")?;
    let properties = item.slice(properties_len, "batch item properties")?;
    if !item.is_empty() {
        return Err(DecodeError::BadLength {
            what: "bytes after a batch item's last field",
            found: item.remaining() as i64,
            limit: 0,
        });
    }
    Ok(BatchItem { flag, body, properties })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_as_they_went_in_and_cuts_are_errors() {
        let wanted = [
            BatchItem { flag: 1, body: b"one", properties: b"TAGS\x01A\x02" },
            BatchItem { flag: 0, body: b"", properties: b"" },
        ];
        let mut body = BytesMut::new();
        for item in &wanted {
            item.encode(&mut body);
        }
        let found: Result<Vec<_>, _> = items(&body).collect();
        assert_eq!(found.expect("decodes"), wanted);
        let first_len = body.len() - FIXED_SIZE;
        for cut in (1..body.len()).filter(|&cut| cut != first_len) {
            assert!(items(&body[..cut]).any(|item| item.is_err()), "cut at {cut}");
        }
    }
}
