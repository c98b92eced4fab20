//! Socket bytes to typed frames and back, a folder per dialect. Pure: no socket, clock, task or broker in here, and
//! dialect folders never name each other.

pub mod amqp;
pub mod rocketmq;
