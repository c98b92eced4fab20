//! AMQP 0-9-1.

pub mod address;
pub mod control;
pub mod fetcher;
pub mod heard;
pub mod publisher;
