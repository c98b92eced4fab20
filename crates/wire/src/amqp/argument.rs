//! What methods are made of: numbers, bits, strings, tables. Bits that stand side by side share an octet (specification section 4.2.5.2).

use std::fmt::{self, Debug, Formatter};

use base::cursor::{DecodeError, Reader};
use bytes::{BufMut, BytesMut};

use super::table::{self, Table};

/// At most 255 bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortString<'a>(&'a [u8]);

impl<'a> ShortString<'a> {
    /// The most bytes of one.
    pub const SIZE_MAX: usize = u8::MAX as usize;

    /// These bytes, if they are not too many.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() <= Self::SIZE_MAX).then_some(Self(bytes))
    }

    /// As many of these bytes as there is room for.
    pub fn cut(bytes: &'a [u8]) -> Self {
        Self(bytes.get(..Self::SIZE_MAX).unwrap_or(bytes))
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Its text, if it is UTF-8.
    pub fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}

impl Debug for ShortString<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&String::from_utf8_lossy(self.0), f)
    }
}

/// Reads arguments.
#[derive(Debug)]
pub(super) struct ArgumentReader<'a> {
    reader: Reader<'a>,
    /// An octet of bits that is begun, and how many of it were read.
    bits: (u8, u8),
}

/// Writes arguments.
#[derive(Debug)]
pub(super) struct ArgumentWriter<'o> {
    out: &'o mut BytesMut,
    /// How many bits of the last octet are written.
    bits: u8,
}

impl<'a> ArgumentReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), bits: (0, 0) }
    }

    /// The bytes, of which the next argument is no bit.
    const fn octets(&mut self) -> &mut Reader<'a> {
        self.bits = (0, 0);
        &mut self.reader
    }

    fn bit(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        let (octet, count) = match self.bits {
            (_, 0 | 8) => (self.reader.u8(what)?, 0),
            begun => begun,
        };
        self.bits = (octet, count + 1);
        Ok(octet >> count & 1 != 0)
    }

    /// Nothing may come behind the last argument.
    pub(super) fn end(&self) -> Result<(), DecodeError> {
        let found = self.reader.remaining();
        if found == 0 {
            return Ok(());
        }
        Err(DecodeError::BadValue { what: "the end of a method", found: format!("{found} bytes") })
    }
}

impl<'o> ArgumentWriter<'o> {
    pub(super) const fn new(out: &'o mut BytesMut) -> Self {
        Self { out, bits: 0 }
    }

    const fn octets(&mut self) -> &mut BytesMut {
        self.bits = 0;
        self.out
    }

    fn bit(&mut self, is_set: bool) {
        if self.bits.is_multiple_of(8) {
            self.out.put_u8(0);
            self.bits = 0;
        }
        if let Some(octet) = self.out.last_mut() {
            *octet |= u8::from(is_set) << self.bits;
        }
        self.bits += 1;
    }
}

/// A type of arguments.
pub(super) trait Argument<'a>: Sized {
    fn read(reader: &mut ArgumentReader<'a>, what: &'static str) -> Result<Self, DecodeError>;

    fn write(&self, writer: &mut ArgumentWriter<'_>);
}

macro_rules! number {
    ($($type:ident by $put:ident),*) => {$(
        impl Argument<'_> for $type {
            fn read(reader: &mut ArgumentReader<'_>, what: &'static str) -> Result<Self, DecodeError> {
                reader.octets().$type(what)
            }

            fn write(&self, writer: &mut ArgumentWriter<'_>) {
                writer.octets().$put(*self);
            }
        }
    )*};
}

number!(u8 by put_u8, u16 by put_u16, u32 by put_u32, u64 by put_u64);

impl Argument<'_> for bool {
    fn read(reader: &mut ArgumentReader<'_>, what: &'static str) -> Result<Self, DecodeError> {
        reader.bit(what)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.bit(*self);
    }
}

impl<'a> Argument<'a> for ShortString<'a> {
    fn read(reader: &mut ArgumentReader<'a>, what: &'static str) -> Result<Self, DecodeError> {
        read_short_string(reader.octets(), what)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        write_short_string(writer.octets(), *self);
    }
}

/// A long string.
impl<'a> Argument<'a> for &'a [u8] {
    fn read(reader: &mut ArgumentReader<'a>, what: &'static str) -> Result<Self, DecodeError> {
        table::read_long(reader.octets(), what)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        table::write_long(writer.octets(), self);
    }
}

impl<'a> Argument<'a> for Table<'a> {
    fn read(reader: &mut ArgumentReader<'a>, what: &'static str) -> Result<Self, DecodeError> {
        Table::read(table::read_long(reader.octets(), what)?)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        table::write_long(writer.octets(), self.bytes());
    }
}

pub(super) fn read_short_string<'a>(
    reader: &mut Reader<'a>,
    what: &'static str,
) -> Result<ShortString<'a>, DecodeError> {
    let length = usize::from(reader.u8(what)?);
    Ok(ShortString(reader.slice(length, what)?))
}

pub(super) fn write_short_string(out: &mut BytesMut, ShortString(bytes): ShortString<'_>) {
    out.put_u8(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
    out.put_slice(bytes);
}
