//! Extension fields: every value travels as text, whatever its type.

use std::borrow::Cow;

use base::cursor::{DecodeError, Reader, preview};
use base::limits::HEADER_FIELD_COUNT_MAX;
use bytes::{BufMut, BytesMut};

use super::json_header::put_json_text;

/// The extension fields of one command, as they came.
#[derive(Clone, Debug)]
pub enum Fields<'a> {
    /// Undecoded bytes of the binary form; their shape was checked.
    Binary(&'a [u8]),
    /// Decoded pairs of the JSON form.
    Pairs(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

impl<'a> Fields<'a> {
    /// The fields in `bytes`, whose count is checked.
    pub fn binary(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self::Binary(bytes))
    }

    /// Calls `visit` with each field in order.
    pub fn for_each(&self, mut visit: impl FnMut(&str, Cow<'a, str>)) -> Result<(), DecodeError> {
        match self {
            Self::Pairs(pairs) => {
                for (key, value) in pairs {
                    visit(key, value.clone());
                }
            }
            Self::Binary(bytes) => {
                let texts = Texts::new(bytes);
                let mut reader = Reader::new(bytes);
                let mut count = 0;
                while !reader.is_empty() {
                    count += 1;
                    if count > HEADER_FIELD_COUNT_MAX {
                        return Err(too_many_fields(count));
                    }
                    let key_len = reader.length_i16(bytes.len(), "field name")?;
                    let key = texts.take(&mut reader, key_len, "field name")?;
                    let value_len = reader.length_i32(bytes.len(), "field value")?;
                    let value = texts.take(&mut reader, value_len, "field value")?;
                    visit(&key, value);
                }
            }
        }
        Ok(())
    }

    /// All fields in order.
    pub fn pairs(&self) -> Result<Vec<(String, String)>, DecodeError> {
        let mut pairs = Vec::new();
        self.for_each(|key, value| pairs.push((key.to_owned(), value.into_owned())))?;
        Ok(pairs)
    }

    /// The value of one field.
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut found = None;
        let visited = self.for_each(|key, value| {
            if key == name {
                found = Some(value);
            }
        });
        visited.ok().and(found)
    }
}

/// The texts between the lengths of the binary form.
struct Texts<'a> {
    /// All the bytes, if they are text as they are. Mostly so: lengths below 128 are. Then one check serves for every field.
    whole: Option<&'a str>,
}

impl<'a> Texts<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { whole: std::str::from_utf8(bytes).ok() }
    }

    /// The next `size` bytes of `reader`, which is somewhere in those bytes. What is no text becomes U+FFFD, as in Java.
    #[inline]
    fn take(&self, reader: &mut Reader<'a>, size: usize, what: &'static str) -> Result<Cow<'a, str>, DecodeError> {
        let rest = self.whole.and_then(|whole| whole.get(whole.len() - reader.remaining()..));
        match rest.and_then(|rest| rest.get(..size)) {
            Some(text) => reader.slice(size, what).map(|_| Cow::Borrowed(text)),
            None => reader.slice(size, what).map(String::from_utf8_lossy),
        }
    }
}

pub(super) fn too_many_fields(count: usize) -> DecodeError {
    DecodeError::BadLength { what: "extension fields", found: count as i64, limit: HEADER_FIELD_COUNT_MAX as i64 }
}

/// Writes extension fields in whichever form the header has.
pub struct FieldSink<'a> {
    out: &'a mut BytesMut,
    json: bool,
    count: usize,
}

impl<'a> FieldSink<'a> {
    pub(super) const fn binary(out: &'a mut BytesMut) -> Self {
        Self { out, json: false, count: 0 }
    }

    pub(super) const fn json(out: &'a mut BytesMut) -> Self {
        Self { out, json: true, count: 0 }
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// A text field.
    pub fn text(&mut self, name: &str, value: &str) {
        self.count += 1;
        if self.json {
            if self.count > 1 {
                self.out.put_u8(b',');
            }
            put_json_text(self.out, name);
            self.out.put_u8(b':');
            put_json_text(self.out, value);
        } else {
            debug_assert!(name.len() <= i16::MAX as usize);
            self.out.put_u16(name.len() as u16);
            self.out.put_slice(name.as_bytes());
            self.out.put_u32(value.len() as u32);
            self.out.put_slice(value.as_bytes());
        }
    }

    /// A numeric field.
    pub fn number(&mut self, name: &str, value: i64) {
        self.text(name, itoa::Buffer::new().format(value));
    }

    /// A boolean field.
    pub fn boolean(&mut self, name: &str, value: bool) {
        self.text(name, if value { "true" } else { "false" });
    }
}

/// A typed header field: how its text is read and written.
pub trait FieldValue<'a>: Sized {
    /// What the text must be, for errors.
    const EXPECTED: &'static str;
    /// Reads the value; gives the text back if it is not one.
    fn read(text: Cow<'a, str>) -> Result<Self, Cow<'a, str>>;
    /// Writes the value as field `name`.
    fn write(&self, name: &str, sink: &mut FieldSink<'_>);
}

impl<'a> FieldValue<'a> for Cow<'a, str> {
    const EXPECTED: &'static str = "text";
    fn read(text: Cow<'a, str>) -> Result<Self, Cow<'a, str>> {
        Ok(text)
    }
    fn write(&self, name: &str, sink: &mut FieldSink<'_>) {
        sink.text(name, self);
    }
}

impl<'a> FieldValue<'a> for bool {
    const EXPECTED: &'static str = "true or false";
    /// As Java's `Boolean.parseBoolean`: whatever is not `true` is false.
    fn read(text: Cow<'a, str>) -> Result<Self, Cow<'a, str>> {
        Ok(text.eq_ignore_ascii_case("true"))
    }
    fn write(&self, name: &str, sink: &mut FieldSink<'_>) {
        sink.boolean(name, *self);
    }
}

macro_rules! numeric_field {
    ($type:ty) => {
        impl<'a> FieldValue<'a> for $type {
            const EXPECTED: &'static str = "a number";
            fn read(text: Cow<'a, str>) -> Result<Self, Cow<'a, str>> {
                text.parse().map_err(|_| text)
            }
            fn write(&self, name: &str, sink: &mut FieldSink<'_>) {
                sink.number(name, i64::from(*self));
            }
        }
    };
}

numeric_field!(i32);
numeric_field!(i64);

/// Why a typed header could not be made of the fields that came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A field that must be there is not.
    #[error("the header field <{0}> is missing")]
    Missing(&'static str),
    /// A field whose text is not what it must be.
    #[error("the header field <{name}> is [{found}]; expected {expected}")]
    Malformed {
        /// The field.
        name: &'static str,
        /// Its text.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
    /// The fields themselves cannot be read.
    #[error("the header fields cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
}

/// Reads `text` as field `name`.
pub fn read_field<'a, T: FieldValue<'a>>(name: &'static str, text: Cow<'a, str>) -> Result<T, HeaderError> {
    T::read(text).map_err(|text| HeaderError::Malformed {
        name,
        found: preview(text.as_bytes()),
        expected: T::EXPECTED,
    })
}

/// A typed header: made of the fields of a command, and written as such.
pub trait TypedHeader<'a>: Sized {
    /// Reads the header; unknown fields are ignored.
    fn decode(fields: &Fields<'a>) -> Result<Self, HeaderError>;
    /// Writes every field that has a value.
    fn encode(&self, sink: &mut FieldSink<'_>);
}

/// Defines typed headers. `!` marks a field that must be there, `?` one that may be absent. The first word is a
/// dollar sign, for the macro that is defined here: no macro can write one of itself. The second is that macro's name.
macro_rules! headers {
    ($dollar:tt $every:ident $($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident $mark:tt $type:tt $wire:literal),* $(,)? })*) => {
        /// Calls the macro that is named, with the names of all headers of one table: for who goes through all of them.
        #[macro_export]
        macro_rules! $every {
            ($dollar then:ident) => { $dollar then!($($name),*); };
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name<'a> {
                $(#[doc = concat!("Field `", $wire, "`.")] $(#[$field_doc])* pub $field: $crate::rocketmq::field::header_type!($mark $type),)*
                /// Ties the header to the bytes it borrows from, whether or not it has text.
                pub lifetime: std::marker::PhantomData<&'a ()>,
            }

            impl<'a> $crate::rocketmq::field::TypedHeader<'a> for $name<'a> {
                #[allow(unused_variables, unused_mut, clippy::useless_conversion, reason = "a header may have no fields")]
                fn decode(fields: &$crate::rocketmq::field::Fields<'a>) -> Result<Self, $crate::rocketmq::field::HeaderError> {
                    $(let mut $field: Option<$crate::rocketmq::field::header_type!(! $type)> = None;)*
                    let mut problem = None;
                    fields.for_each(|key, value| {
                        match key {
                            $($wire => match $crate::rocketmq::field::read_field($wire, value) {
                                Ok(read) => $field = Some(read),
                                Err(error) => problem = Some(error),
                            },)*
                            _ => {}
                        }
                    })?;
                    if let Some(problem) = problem {
                        return Err(problem);
                    }
                    Ok(Self {
                        $($field: $crate::rocketmq::field::header_finish!($mark $field $wire),)*
                        lifetime: std::marker::PhantomData,
                    })
                }

                #[allow(unused_variables, reason = "a header may have no fields")]
                fn encode(&self, sink: &mut $crate::rocketmq::field::FieldSink<'_>) {
                    $($crate::rocketmq::field::header_write!($mark self.$field, $wire, sink);)*
                }
            }
        )*
    };
}

/// Rust type of a header field.
macro_rules! header_type {
    (! text) => { std::borrow::Cow<'a, str> };
    (? text) => { Option<std::borrow::Cow<'a, str>> };
    (! $type:ty) => { $type };
    (? $type:ty) => { Option<$type> };
}

/// Turns what was read into the field's value.
macro_rules! header_finish {
    (! $field:ident $wire:literal) => {
        $field.ok_or($crate::rocketmq::field::HeaderError::Missing($wire))?
    };
    (? $field:ident $wire:literal) => {
        $field
    };
}

/// Writes one header field.
macro_rules! header_write {
    (! $value:expr, $wire:literal, $sink:ident) => {
        $crate::rocketmq::field::FieldValue::write(&$value, $wire, $sink)
    };
    (? $value:expr, $wire:literal, $sink:ident) => {
        if let Some(value) = &$value {
            $crate::rocketmq::field::FieldValue::write(value, $wire, $sink);
        }
    };
}

pub(crate) use {header_finish, header_type, header_write, headers};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_fields_are_read_up_to_their_limit_and_no_further() {
        let read = |count: usize| {
            let fields: Vec<_> = (0..count).map(|number| format!(r#""k{number}":"v""#)).collect();
            let header = format!(r#"{{"code":10,"extFields":{{{}}}}}"#, fields.join(","));
            let (_, fields) = super::super::json_header::decode(header.as_bytes())?;
            fields.pairs().map(|pairs| pairs.len())
        };
        assert_eq!(read(HEADER_FIELD_COUNT_MAX), Ok(HEADER_FIELD_COUNT_MAX));
        assert_eq!(read(HEADER_FIELD_COUNT_MAX + 1), Err(too_many_fields(HEADER_FIELD_COUNT_MAX + 1)));
    }

    #[test]
    fn binary_fields_are_read_up_to_their_limit_and_no_further() {
        let fields = |count: usize| [0, 1, b'k', 0, 0, 0, 1, b'v'].repeat(count);
        let at_most = Fields::Binary(&fields(HEADER_FIELD_COUNT_MAX)).pairs().expect("reads").len();
        assert_eq!(at_most, HEADER_FIELD_COUNT_MAX);
        let one_more = Fields::Binary(&fields(HEADER_FIELD_COUNT_MAX + 1)).pairs();
        assert_eq!(one_more, Err(too_many_fields(HEADER_FIELD_COUNT_MAX + 1)));
    }
}
