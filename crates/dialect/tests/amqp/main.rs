//! What RabbitMQ's clients are promised, over the bytes of whole sessions.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests: what goes wrong is a failed test")]

mod access;
mod administering;
mod blocking;
mod breaking;
mod client;
mod cold_reading;
mod consuming;
mod damage;
mod dying;
mod entries;
mod following;
mod lengths;
mod publishing;
mod replying;
mod streaming;
mod topology;
mod transactions;
mod troubles;
mod wrong_entries;
