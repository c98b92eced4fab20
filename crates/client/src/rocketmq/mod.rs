//! RocketMQ's remoting protocol.

pub mod cluster;
pub mod control;
pub mod cursor;
pub mod member;
pub mod peer;
pub mod producer;
pub mod pulled;
pub mod reader;
pub mod route;
pub mod share;
pub mod topic;
pub mod unique_key;
