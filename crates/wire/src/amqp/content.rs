//! The header of a message's content: how long its body is, and its properties.
//!
//! ```text
//! offset  size  meaning
//!      0     2  class of the method: 60
//!      2     2  weight: 0
//!      4     8  length of the body
//!     12     2  which properties there are, the first in the highest bit
//!     14     .  those, one behind the other
//! ```

use base::cursor::{DecodeError, Reader};
use bytes::{BufMut, BytesMut};

use super::argument::{Argument, ArgumentReader, ArgumentWriter, ShortString};
use super::table::Table;

/// Class of the methods that have content.
pub const CLASS: u16 = 60;
/// `delivery_mode` of a message that outlives a restart.
pub const PERSISTENT: u8 = 2;

/// The header of a content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// Length of the body.
    pub body_size: u64,
    /// Properties.
    pub properties: Properties<'a>,
}

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $bit:literal,)*) => {
        /// What a message says of itself.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Properties<'a> {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        impl<'a> Properties<'a> {
            /// Reads flags and properties, to the end of `bytes`.
            pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(bytes);
                let flags = reader.u16("the flags of properties")?;
                if flags & UNKNOWN != 0 {
                    return Err(DecodeError::BadValue { what: "the flags of properties", found: format!("{flags:#06x}") });
                }
                let mut reader = ArgumentReader::new(bytes.get(size_of::<u16>()..).unwrap_or_default());
                let properties = Self {
                    $($name: if flags & 1 << $bit == 0 { None } else { Some(Argument::read(&mut reader, stringify!($name))?) },)*
                };
                reader.end()?;
                Ok(properties)
            }

            /// Writes flags and properties.
            pub fn write(&self, out: &mut BytesMut) {
                let flags = 0_u16 $(| u16::from(self.$name.is_some()) << $bit)*;
                out.put_u16(flags);
                let mut writer = ArgumentWriter::new(out);
                $(if let Some(value) = &self.$name {
                    value.write(&mut writer);
                })*
            }
        }

        /// Flags that no property has. The lowest would say that more flags follow, which nobody writes.
        const UNKNOWN: u16 = !(0 $(| 1 << $bit)*);
    };
}

properties! {
    /// MIME type of the body.
    content_type: ShortString<'a> = 15,
    /// MIME encoding of the body.
    content_encoding: ShortString<'a> = 14,
    /// Headers.
    headers: Table<'a> = 13,
    /// [`PERSISTENT`], or 1.
    delivery_mode: u8 = 12,
    /// 0 to 255.
    priority: u8 = 11,
    /// To which message it belongs.
    correlation_id: ShortString<'a> = 10,
    /// Where an answer goes.
    reply_to: ShortString<'a> = 9,
    /// Milliseconds to live, in digits.
    expiration: ShortString<'a> = 8,
    /// Its name.
    message_id: ShortString<'a> = 7,
    /// Seconds since 1970.
    timestamp: u64 = 6,
    /// What it is.
    kind: ShortString<'a> = 5,
    /// Who sends it.
    user_id: ShortString<'a> = 4,
    /// Which program sends it.
    app_id: ShortString<'a> = 3,
    /// Was: cluster id.
    cluster_id: ShortString<'a> = 2,
}

/// Bytes of a header before its properties' flags.
const HEAD_SIZE: usize = 12;

/// Why a frame is no header of content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Of a class that has no content (505).
    #[error("a content header of class {0}")]
    WrongClass(u16),
    /// Of a weight, which the specification leaves to none (505).
    #[error("a content header of weight {0}")]
    WrongWeight(u16),
    /// It cannot be read (502).
    #[error(transparent)]
    Malformed(#[from] DecodeError),
}

impl<'a> ContentHeader<'a> {
    /// What a frame of that kind says.
    pub fn decode(payload: &'a [u8]) -> Result<Self, ContentError> {
        let mut reader = Reader::new(payload);
        let class = reader.u16("class of a content header")?;
        if class != CLASS {
            return Err(ContentError::WrongClass(class));
        }
        let weight = reader.u16("weight of a content header")?;
        if weight != 0 {
            return Err(ContentError::WrongWeight(weight));
        }
        let body_size = reader.u64("length of a body")?;
        let properties = Properties::read(payload.get(HEAD_SIZE..).unwrap_or_default())?;
        Ok(Self { body_size, properties })
    }

    /// Writes what a frame of that kind says.
    pub fn encode(&self, out: &mut BytesMut) {
        encode_head(out, self.body_size);
        self.properties.write(out);
    }
}

/// Writes what comes before flags and properties.
pub fn encode_head(out: &mut BytesMut, body_size: u64) {
    out.put_u16(CLASS);
    out.put_u16(0);
    out.put_u64(body_size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amqp::table::{Value, write_table};

    fn short(text: &str) -> Option<ShortString<'_>> {
        ShortString::new(text.as_bytes())
    }

    /// As pika writes a persistent text.
    #[test]
    fn properties_stand_in_the_order_of_their_flags() {
        let properties =
            Properties { content_type: short("text/plain"), delivery_mode: Some(PERSISTENT), ..Properties::default() };
        let mut out = BytesMut::new();
        ContentHeader { body_size: 5, properties }.encode(&mut out);
        assert_eq!(&out[..], b"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x90\x00\x0atext/plain\x02");
    }

    #[test]
    fn all_properties_come_back() {
        let mut headers = BytesMut::new();
        write_table(&mut headers, |table| _ = table.put("n", Value::I32(1)));
        let properties = Properties {
            content_type: short("a"),
            content_encoding: short("b"),
            headers: Some(Table::read(&headers[4..]).expect("a table")),
            delivery_mode: Some(1),
            priority: Some(9),
            correlation_id: ShortString::new(b"\xff\xfe"),
            reply_to: short("c"),
            expiration: short("60000"),
            message_id: short("d"),
            timestamp: Some(1_700_000_000),
            kind: short("e"),
            user_id: short("guest"),
            app_id: short("f"),
            cluster_id: short(""),
        };
        let header = ContentHeader { body_size: u64::MAX, properties };
        let mut out = BytesMut::new();
        header.encode(&mut out);
        assert_eq!(ContentHeader::decode(&out), Ok(header));
        for end in 0..out.len() {
            assert!(ContentHeader::decode(&out[..end]).is_err(), "{end} bytes");
        }
        assert!(ContentHeader::decode(&[&out[..], b"\x00"].concat()).is_err(), "a byte more");
    }

    #[test]
    fn flags_that_no_property_has_and_other_classes_are_refused() {
        let with = |class: u8, flags: u16| {
            let mut bytes = vec![0, class, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend(flags.to_be_bytes());
            ContentHeader::decode(&bytes).map(drop)
        };
        assert_eq!(with(60, 0), Ok(()));
        assert!(matches!(with(60, 1), Err(ContentError::Malformed(_))));
        assert!(matches!(with(60, 2), Err(ContentError::Malformed(_))));
        assert_eq!(with(50, 0), Err(ContentError::WrongClass(50)));
        let weighty = ContentHeader::decode(b"\x00\x3c\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00");
        assert_eq!(weighty, Err(ContentError::WrongWeight(1)));
    }
}
