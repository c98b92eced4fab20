//! The text of each of RocketMQ's documents: written here alone, by a broker at work and for one that is stopped.

use base::{LogOffset, Now};
use format::state_documents::{GROUPS_FILE, TOPICS_FILE};
use serde::Serialize;
use serde_json::{Value, json};

/// `consumerOffset.json`
pub(crate) fn offsets(version: i64, table: &impl Serialize, now: Now) -> Value {
    json!({
        "dataVersion": {"counter": version, "stateVersion": 0, "timestamp": now.wall.0},
        "offsetTable": table,
    })
}

/// `delayOffset.json`
pub(crate) fn delay(delivered: &impl Serialize, now: Now) -> Value {
    json!({
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": now.wall.0},
        "offsetTable": delivered,
    })
}

/// A table as a document of ours has it.
#[derive(Serialize)]
struct Export<'a, T: Serialize> {
    #[serde(flatten)]
    table: &'a T,
    // As `format::state_documents::POSITION` has it.
    #[serde(rename = "sluiceLogPosition")]
    position: u64,
}

/// The text of a document, with what the log says below `position`.
pub(crate) fn text(name: &str, table: &impl Serialize, position: LogOffset) -> String {
    let export = Export { table, position: position.0 };
    let is_for_people = name == TOPICS_FILE || name == GROUPS_FILE;
    let text = if is_for_people { serde_json::to_string_pretty(&export) } else { serde_json::to_string(&export) };
    text.unwrap_or_default()
}
