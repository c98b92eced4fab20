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

impl Field for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Boolean(on) => Some(*on),
            _ => None,
        }
    }
}

impl Field for u64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) | Value::Bytes(number) => Some(*number),
            _ => None,
        }
    }
}

impl Field for u32 {
    fn from_value(value: &Value) -> Option<Self> {
        u64::from_value(value)?.try_into().ok()
    }
}

impl Field for u16 {
    fn from_value(value: &Value) -> Option<Self> {
        u64::from_value(value)?.try_into().ok()
    }
}

impl Field for usize {
    fn from_value(value: &Value) -> Option<Self> {
        u64::from_value(value)?.try_into().ok()
    }
}

impl Field for Duration {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Duration(time) => Some(*time),
            _ => None,
        }
    }
}

impl Field for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl Field for PathBuf {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Path(path) => Some(path.clone()),
            _ => None,
        }
    }
}

impl Field for Vec<PathBuf> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Paths(paths) => Some(paths.clone()),
            _ => None,
        }
    }
}

impl Field for Vec<String> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(items) => Some(items.clone()),
            _ => None,
        }
    }
}

impl Field for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Hours(hours) => Some(hours.clone()),
            _ => None,
        }
    }
}

impl Field for Vec<Duration> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Delays(times) => Some(times.clone()),
            _ => None,
        }
    }
}
