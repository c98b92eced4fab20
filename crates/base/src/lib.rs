//! The words every crate shares: identifiers, offsets, watermarks, limits, refusals, metrics, the session contract.
//!
//! Nothing here does I/O, reads a clock or starts a task. A type lives here when two crates that must not know each other
//! both need it; anything else belongs to the crate that owns the knowledge.

pub mod budget;
pub mod cursor;
pub mod durations;
pub mod escaped_name;
pub mod limits;
pub mod metric;
pub mod name;
pub mod offset;
pub mod permission;
pub mod refusal;
pub mod refused;
pub mod running_settings;
pub mod session;
pub mod time;

pub use name::{GroupName, TopicName};
pub use offset::{LogOffset, QueueId, QueueNumber, QueueOffset};
pub use permission::Permission;
pub use refusal::Refusal;
pub use time::{Monotonic, Now, Timestamp};
