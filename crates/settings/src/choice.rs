//! Settings that are one of a few words.

use super::kind::Value;
use super::values::Field;

/// When a producer is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// Once the message is in the page cache.
    Async,
    /// Once the message is on disk.
    Sync,
}

/// Part that the broker plays in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerRole {
    /// Answers producers without waiting for replicas.
    AsyncMaster,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the words of a setting mean.
macro_rules! words {
    ($($type:ident: $($word:literal = $meaning:ident),*;)*) => {$(
        impl Field for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    $(Value::Text(word) if word == $word => Some(Self::$meaning),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    FlushMode: "async" = Async, "sync" = Sync;
    BrokerRole: "async_master" = AsyncMaster;
    LogFormat: "text" = Text, "json" = Json;
}
