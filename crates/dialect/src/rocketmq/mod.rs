//! RocketMQ's broker side: one session per connection.
//!
//! Requests of the every-day path are answered on the spot; whatever may wait for a disk is a job. Replies leave in any
//! order: clients match them by `opaque`.

mod acks;
mod administering;
mod allocation;
mod answer;
mod assignment;
mod broker_admin;
mod call;
mod calls;
mod commit;
mod connection;
mod consumer;
mod context;
mod description;
mod error;
mod group_admin;
mod heartbeat;
mod held_sends;
mod lookup;
mod offset;
mod options;
mod pop;
mod pop_lanes;
mod pops;
mod pull;
mod pulls;
mod queue;
mod readings;
mod requests;
mod send;
mod send_backs;
mod session;
mod slave;
mod subscription;
mod system_topics;
mod topic_admin;
mod turn;
mod version;
mod waits;

pub use administering::{Administrator, Move, Reset, ResetTo};
pub use description::client_kind;
pub use options::SessionOptions;
pub use requests::{Needs, REQUESTS, Row};
pub use session::RocketSession;
pub use system_topics::{SystemTopicNames, system_topics};
