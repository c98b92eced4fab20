//! A client of brokers, in both protocols: where they are, how they are connected to and asked. `sluice bench` makes its load with it,
//! `sluice produce` and `sluice consume` their messages.
//!
//! It knows no broker's inside, blocks, and has no threads: a `Control` asks one thing after the other, a [`link::Link`] has much under
//! way. What becomes of an answer is for whoever asked.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a client has sockets, and waits for them")]
#![deny(clippy::print_stdout, clippy::print_stderr, reason = "what is said is for whoever uses it")]

pub mod amqp;
mod error;
pub mod link;
pub mod message;
mod near;
pub mod rocketmq;
pub mod socket;
pub mod target;

pub use error::ClientError;
pub use target::Target;
