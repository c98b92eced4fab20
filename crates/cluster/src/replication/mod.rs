//! Replication within a broker group, as RocketMQ's masters and slaves have it: a slave follows whatever its master has written.
//!
//! [`LeaderSession`] is a master's end of a connection, [`Followers`] what its sessions know together: how far which slave is, and so
//! which part of the log is at as many replicas as were asked for. [`FollowerSession`] is a slave's end,
//! and [`MasterSession`] its other connection, for the tables that are beside a log.
//!
//! **Always holds**: what [`Followers`] says is replicated was reported by that many slaves, each of which said so after it had written
//! it. Nothing here survives a crash, and need not: slaves report anew when they connect.

mod follower;
mod followers;
mod gathered;
mod leader;
mod master;
mod owed;
mod tables;

pub use follower::{FollowerLog, FollowerSession};
pub use followers::{Follower, Followers, InReach};
pub use leader::{LeaderLog, LeaderSession};
pub use master::{FollowerState, MasterSession, Newest};
pub use owed::{Owed, Place, Settled};

/// How often, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Whoever has said nothing for this long says something, ms: an empty piece (`haSendHeartbeatInterval`), or the end of its log.
    pub heartbeat_ms: u64,
    /// Whoever is not heard of for this long is gone, ms (`haHousekeepingInterval`).
    pub silence_ms: u64,
}
