//! RocketMQ remoting: frames, both header forms, request and response headers, JSON bodies.
//!
//! Three answers to bytes are kept apart: *incomplete* (wait), *invalid* (close the connection) and *unsupported*
//! (a polite refusal, which the dialect gives). Source: RocketMQ remoting protocol 4.9.7 and 5.4.0.

pub mod body;
pub mod code;
pub mod field;
pub mod frame;
pub mod header;
mod json_header;
mod lenient_text;
pub mod pop;
mod registered_topic;
pub mod registration;
pub mod replication;
