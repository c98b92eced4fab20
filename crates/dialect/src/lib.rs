//! What one connection of each protocol means: frames to broker operations and back, as sessions without sockets,
//! tasks or clocks. One `error.rs` per dialect maps refusals to its codes. Dialects never name each other.

pub mod amqp;
mod jobs;
pub mod rocketmq;
