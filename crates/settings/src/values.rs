//! The values of all rows, on their way to the typed structs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use super::kind::Value;

/// The checked value of every row, by the row's name.
#[derive(Debug, Default)]
pub(super) struct Values(pub(super) HashMap<&'static str, Value>);

impl Values {
    /// Gives a value its field's type; the error is the name of the row.
    pub(super) fn take<T: Field>(&self, name: &'static str) -> Result<T, &'static str> {
        self.0.get(name).and_then(T::from_value).ok_or(name)
    }
}

/// A type that a field of the settings can have.
pub(super) trait Field: Sized {
    /// The typed value, unless the row is of another kind.
    fn from_value(value: &Value) -> Option<Self>;
}

impl<T: Field> Field for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Absent => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// Types that are what a value of one kind holds.
macro_rules! fields {
    ($($type:ty = $kind:ident;)*) => {$(
        impl Field for $type {
            fn from_value(value: &Value) -> Option<Self> {
                if let Value::$kind(held) = value { Some(held.to_owned()) } else { None }
            }
        }
    )*};
}

fields! {
    bool = Boolean;
    Duration = Duration;
    String = Text;
    PathBuf = Path;
    Vec<PathBuf> = Paths;
    Vec<String> = List;
    Vec<u8> = Hours;
    Vec<Duration> = Delays;
}

impl Field for u64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) | Value::Bytes(number) => Some(*number),
            _ => None,
        }
    }
}

/// Types that hold numbers up to some size.
macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Field for $type {
            fn from_value(value: &Value) -> Option<Self> {
                u64::from_value(value)?.try_into().ok()
            }
        }
    )*};
}

numbers!(u32, u16, usize);
