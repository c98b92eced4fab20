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

fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

impl Field for FlushMode {
    fn from_value(value: &Value) -> Option<Self> {
        match word(value)? {
            "async" => Some(FlushMode::Async),
            "sync" => Some(FlushMode::Sync),
            _ => None,
        }
    }
}

impl Field for BrokerRole {
    fn from_value(value: &Value) -> Option<Self> {
        (word(value)? == "async_master").then_some(BrokerRole::AsyncMaster)
    }
}

impl Field for LogFormat {
    fn from_value(value: &Value) -> Option<Self> {
        match word(value)? {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            _ => None,
        }
    }
}
