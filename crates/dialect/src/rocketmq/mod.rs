//! RocketMQ's broker side: one session per connection.
//!
//! Requests of the every-day path are answered on the spot; whatever may wait for a disk is a job. Replies leave in any
//! order: clients match them by `opaque`.

mod answer;
mod broker_admin;
mod commit;
mod consumer;
mod error;
mod fetched;
mod group_admin;
mod handlers;
mod job_size;
mod lookup;
mod offset;
mod pull;
mod send;
mod session;
mod topic_admin;

pub use session::{RocketSession, SessionOptions};

/// The version Sluice presents itself as: 5.4.0's ordinal in `MQVersion`.
pub const VERSION: i32 = 493;
/// Its name.
pub const VERSION_NAME: &str = "V5_4_0";
