//! Field tables and arrays: names and values of types that each value tells.
//!
//! Types by their letter, as RabbitMQ reads and writes them (the specification's own list differs): `t` bool, `b` i8, `B` u8, `s` i16,
//! `u` u16, `I` i32, `i` u32, `l` and `L` i64, `f` f32, `d` f64, `D` decimal, `S` long string, `x` bytes, `T` timestamp, `F` table,
//! `A` array, `V` nothing.
//!
//! **Always holds**: a [`Table`] or an [`Array`] has been read through once, to the last value inside, so that going over it cannot fail.

use base::cursor::{DecodeError, Reader};
use bytes::{BufMut, BytesMut};

use super::argument::{self, ShortString};

/// How deep tables and arrays may lie inside each other.
const DEPTH_MAX: u32 = 32;

/// A table, in the bytes it came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table<'a>(&'a [u8]);

/// An array, in the bytes it came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Array<'a>(&'a [u8]);

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`; `L` is read too.
    I64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: digits behind the point, and the number without it.
    Decimal(u8, i32),
    /// `S`
    LongString(&'a [u8]),
    /// `x`
    Bytes(&'a [u8]),
    /// `T`: seconds since 1970.
    Timestamp(u64),
    /// `F`
    Table(Table<'a>),
    /// `A`
    Array(Array<'a>),
    /// `V`
    Void,
}

impl Value<'_> {
    /// The number, of whatever type of whole numbers.
    pub fn integer(&self) -> Option<i64> {
        match *self {
            Self::I8(number) => Some(number.into()),
            Self::U8(number) => Some(number.into()),
            Self::I16(number) => Some(number.into()),
            Self::U16(number) => Some(number.into()),
            Self::I32(number) => Some(number.into()),
            Self::U32(number) => Some(number.into()),
            Self::I64(number) => Some(number),
            _ => None,
        }
    }
}

impl<'a> Table<'a> {
    /// The table whose names and values these bytes are, without the length in front.
    pub fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        check_table(bytes, 0)?;
        Ok(Self(bytes))
    }

    /// Names and values, as they came.
    pub fn iter(&self) -> impl Iterator<Item = (ShortString<'a>, Value<'a>)> + use<'a> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || read_pair(&mut reader).ok())
    }

    /// Names, and values as bytes: the type's letter and what follows it.
    pub fn raw(&self) -> impl Iterator<Item = (ShortString<'a>, &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.0);
        let bytes = self.0;
        std::iter::from_fn(move || {
            let name = argument::read_short_string(&mut reader, "a field's name").ok()?;
            let start = bytes.len() - reader.remaining();
            read_value(&mut reader).ok()?;
            bytes.get(start..bytes.len() - reader.remaining()).map(|value| (name, value))
        })
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.iter().find(|(known, _)| known.bytes() == name.as_bytes()).map(|(_, value)| value)
    }

    /// The bytes of one with the same names and values, in the order of the names: equal tables have equal ones, whatever the order that they
    /// came in (RabbitMQ compares bindings so).
    pub fn sorted(&self) -> Vec<u8> {
        let mut pairs: Vec<_> = self.raw().collect();
        pairs.sort_by_key(|(name, _)| name.bytes());
        let mut sorted = BytesMut::with_capacity(self.0.len());
        for (name, value) in pairs {
            argument::write_short_string(&mut sorted, name);
            sorted.put_slice(value);
        }
        sorted.into()
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes, without the length in front.
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Array<'a> {
    /// The values, as they came.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let mut reader = Reader::new(self.0);
        std::iter::from_fn(move || read_value(&mut reader).ok())
    }
}

/// Reads the bytes of something with its length in front.
pub(super) fn read_long<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<&'a [u8], DecodeError> {
    let length = reader.u32(what)? as usize;
    reader.slice(length, what)
}

fn read_pair<'a>(reader: &mut Reader<'a>) -> Result<(ShortString<'a>, Value<'a>), DecodeError> {
    Ok((argument::read_short_string(reader, "a field's name")?, read_value(reader)?))
}

/// Reads a value. What lies in a table or array inside is not looked at.
fn read_value<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, DecodeError> {
    const WHAT: &str = "a field's value";
    Ok(match reader.u8("a field's type")? {
        b't' => Value::Bool(reader.u8(WHAT)? != 0),
        b'b' => Value::I8(reader.u8(WHAT)?.cast_signed()),
        b'B' => Value::U8(reader.u8(WHAT)?),
        b's' => Value::I16(reader.i16(WHAT)?),
        b'u' => Value::U16(reader.u16(WHAT)?),
        b'I' => Value::I32(reader.i32(WHAT)?),
        b'i' => Value::U32(reader.u32(WHAT)?),
        b'l' | b'L' => Value::I64(reader.i64(WHAT)?),
        b'f' => Value::F32(f32::from_bits(reader.u32(WHAT)?)),
        b'd' => Value::F64(f64::from_bits(reader.u64(WHAT)?)),
        b'D' => Value::Decimal(reader.u8(WHAT)?, reader.i32(WHAT)?),
        b'S' => Value::LongString(read_long(reader, WHAT)?),
        b'x' => Value::Bytes(read_long(reader, WHAT)?),
        b'T' => Value::Timestamp(reader.u64(WHAT)?),
        b'F' => Value::Table(Table(read_long(reader, WHAT)?)),
        b'A' => Value::Array(Array(read_long(reader, WHAT)?)),
        b'V' => Value::Void,
        other => {
            return Err(DecodeError::BadValue {
                what: "a field's type",
                found: char::from(other).escape_default().to_string(),
            });
        }
    })
}

fn check_table(bytes: &[u8], depth: u32) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let (_, value) = read_pair(&mut reader)?;
        check_inside(&value, depth)?;
    }
    Ok(())
}

fn check_inside(value: &Value<'_>, depth: u32) -> Result<(), DecodeError> {
    let (Value::Table(Table(bytes)) | Value::Array(Array(bytes))) = value else { return Ok(()) };
    if depth == DEPTH_MAX {
        return Err(DecodeError::BadLength {
            what: "tables and arrays inside each other",
            found: i64::from(depth) + 1,
            limit: i64::from(DEPTH_MAX),
        });
    }
    if matches!(value, Value::Table(_)) {
        return check_table(bytes, depth + 1);
    }
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        check_inside(&read_value(&mut reader)?, depth + 1)?;
    }
    Ok(())
}

/// Writes a table.
#[derive(Debug)]
pub struct TableWriter<'o> {
    out: &'o mut BytesMut,
}

/// Writes an array.
#[derive(Debug)]
pub struct ArrayWriter<'o> {
    out: &'o mut BytesMut,
}

impl TableWriter<'_> {
    /// Adds a name and a value. Of a name longer than 255 bytes only these are written.
    pub fn put(&mut self, name: &str, value: Value<'_>) -> &mut Self {
        self.put_bytes(name.as_bytes(), value)
    }

    /// The same with a name that need not be UTF-8.
    pub fn put_bytes(&mut self, name: &[u8], value: Value<'_>) -> &mut Self {
        argument::write_short_string(self.out, ShortString::cut(name));
        write_value(self.out, value);
        self
    }

    /// Adds a table.
    pub fn table(&mut self, name: &str, write: impl FnOnce(&mut TableWriter<'_>)) -> &mut Self {
        argument::write_short_string(self.out, ShortString::cut(name.as_bytes()));
        self.out.put_u8(b'F');
        write_table(self.out, write);
        self
    }

    /// Adds an array.
    pub fn array(&mut self, name: &str, write: impl FnOnce(&mut ArrayWriter<'_>)) -> &mut Self {
        argument::write_short_string(self.out, ShortString::cut(name.as_bytes()));
        self.out.put_u8(b'A');
        with_length(self.out, |out| write(&mut ArrayWriter { out }));
        self
    }

    /// Adds names and values as they came.
    pub fn all_of(&mut self, table: Table<'_>) -> &mut Self {
        self.out.put_slice(table.bytes());
        self
    }
}

impl ArrayWriter<'_> {
    /// Adds a value.
    pub fn put(&mut self, value: Value<'_>) -> &mut Self {
        write_value(self.out, value);
        self
    }

    /// Adds a table.
    pub fn table(&mut self, write: impl FnOnce(&mut TableWriter<'_>)) -> &mut Self {
        self.out.put_u8(b'F');
        write_table(self.out, write);
        self
    }
}

/// Writes a table with its length in front.
pub fn write_table(out: &mut BytesMut, write: impl FnOnce(&mut TableWriter<'_>)) {
    with_length(out, |out| write(&mut TableWriter { out }));
}

/// Writes bytes with their length in front.
pub(super) fn write_long(out: &mut BytesMut, bytes: &[u8]) {
    with_length(out, |out| out.put_slice(bytes));
}

fn with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    write(out);
    let length = u32::try_from(out.len() - start - size_of::<u32>()).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + size_of::<u32>()) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

fn write_value(out: &mut BytesMut, value: Value<'_>) {
    let letter = match value {
        Value::Bool(_) => b't',
        Value::I8(_) => b'b',
        Value::U8(_) => b'B',
        Value::I16(_) => b's',
        Value::U16(_) => b'u',
        Value::I32(_) => b'I',
        Value::U32(_) => b'i',
        Value::I64(_) => b'l',
        Value::F32(_) => b'f',
        Value::F64(_) => b'd',
        Value::Decimal(..) => b'D',
        Value::LongString(_) => b'S',
        Value::Bytes(_) => b'x',
        Value::Timestamp(_) => b'T',
        Value::Table(_) => b'F',
        Value::Array(_) => b'A',
        Value::Void => b'V',
    };
    out.put_u8(letter);
    match value {
        Value::Bool(is_so) => out.put_u8(is_so.into()),
        Value::I8(number) => out.put_i8(number),
        Value::U8(number) => out.put_u8(number),
        Value::I16(number) => out.put_i16(number),
        Value::U16(number) => out.put_u16(number),
        Value::I32(number) => out.put_i32(number),
        Value::U32(number) => out.put_u32(number),
        Value::I64(number) => out.put_i64(number),
        Value::F32(number) => out.put_f32(number),
        Value::F64(number) => out.put_f64(number),
        Value::Decimal(scale, number) => {
            out.put_u8(scale);
            out.put_i32(number);
        }
        Value::Timestamp(seconds) => out.put_u64(seconds),
        Value::LongString(bytes) | Value::Bytes(bytes) | Value::Table(Table(bytes)) | Value::Array(Array(bytes)) => {
            write_long(out, bytes);
        }
        Value::Void => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut TableWriter<'_>)) -> Vec<u8> {
        let mut out = BytesMut::new();
        write_table(&mut out, write);
        assert_eq!(out.len(), size_of::<u32>() + u32::from_be_bytes(*out.first_chunk().expect("a length")) as usize);
        out[4..].to_vec()
    }

    /// As RabbitMQ's own tests and pika write them.
    #[test]
    fn every_type_is_written_by_its_letter_and_comes_back() {
        for (value, bytes) in [
            (Value::Bool(true), &b"t\x01"[..]),
            (Value::I8(-2), b"b\xfe"),
            (Value::U8(254), b"B\xfe"),
            (Value::I16(-2), b"s\xff\xfe"),
            (Value::U16(65534), b"u\xff\xfe"),
            (Value::I32(-2), b"I\xff\xff\xff\xfe"),
            (Value::U32(4_294_967_294), b"i\xff\xff\xff\xfe"),
            (Value::I64(-2), b"l\xff\xff\xff\xff\xff\xff\xff\xfe"),
            (Value::F32(1.5), b"f\x3f\xc0\x00\x00"),
            (Value::F64(1.5), b"d\x3f\xf8\x00\x00\x00\x00\x00\x00"),
            (Value::Decimal(2, 314), b"D\x02\x00\x00\x01\x3a"),
            (Value::LongString(b"text"), b"S\x00\x00\x00\x04text"),
            (Value::Bytes(b"\x00\xff"), b"x\x00\x00\x00\x02\x00\xff"),
            (Value::Timestamp(1_700_000_000), b"T\x00\x00\x00\x00\x65\x53\xf1\x00"),
            (Value::Void, b"V"),
        ] {
            let expected = [b"\x01a", bytes].concat();
            let table = written(|table| _ = table.put("a", value));
            assert_eq!(table, expected);
            assert_eq!(Table::read(&expected).expect("a table").get("a"), Some(value));
        }
        let long = Table::read(b"\x01aL\x00\x00\x00\x00\x00\x00\x00\x05").expect("a table");
        assert_eq!(long.get("a"), Some(Value::I64(5)), "an old letter of the same type");
    }

    #[test]
    fn tables_and_arrays_lie_inside_each_other() {
        let bytes = written(|table| {
            table.table("capabilities", |inside| _ = inside.put("basic.nack", Value::Bool(true)));
            table.array("x-death", |deaths| {
                deaths.table(|death| _ = death.put("count", Value::I64(1))).put(Value::LongString(b"last"));
            });
        });
        let table = Table::read(&bytes).expect("a table");
        let Some(Value::Table(capabilities)) = table.get("capabilities") else { panic!("{table:?}") };
        assert_eq!(capabilities.get("basic.nack"), Some(Value::Bool(true)));
        let Some(Value::Array(deaths)) = table.get("x-death") else { panic!("{table:?}") };
        let deaths: Vec<_> = deaths.iter().collect();
        let [Value::Table(death), Value::LongString(b"last")] = deaths[..] else { panic!("{deaths:?}") };
        assert_eq!(death.get("count").and_then(|count| count.integer()), Some(1));
        assert_eq!(written(|again| _ = again.all_of(table)), bytes);
    }

    #[test]
    fn what_is_no_table_is_refused_also_deep_inside() {
        let inside = |bytes: &[u8]| [b"\x01aF", &(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        for bad in [&b"\x05ab"[..], b"\x01a", b"\x01aQ", b"\x01aS\x00\x00\x00\x09short", b"\x01aF\xff\xff\xff\xff"] {
            assert!(Table::read(bad).is_err(), "{bad:?}");
            assert!(Table::read(&inside(bad)).is_err(), "{bad:?} inside");
            assert!(Table::read(&inside(&inside(bad))).is_err(), "{bad:?} deep inside");
        }
        let mut deep = Vec::new();
        for _ in 0..DEPTH_MAX {
            deep = inside(&deep);
        }
        assert!(Table::read(&deep).is_ok());
        assert!(Table::read(&inside(&deep)).is_err(), "one more");
    }
}
