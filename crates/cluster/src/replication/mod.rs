//! Replication within a broker group, as RocketMQ's masters and slaves have it: a slave follows whatever its master has written.
//!
//! [`LeaderSession`] is a master's end of a connection, [`Followers`] what its sessions know together: how far which slave is, and so
//! which part of the log is at as many replicas as were asked for.
//!
//! **Always holds**: what [`Followers`] says is replicated was reported by that many slaves, each of which said so after it had written
//! it. Nothing here survives a crash, and need not: slaves report anew when they connect.

mod followers;
mod leader;

pub use followers::{Follower, Followers, InReach};
pub use leader::{LeaderLog, LeaderSession, Times};
