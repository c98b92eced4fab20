//! What a connection of a RocketMQ client is promised, at the level of bytes: requests go in, answers come out.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests: what goes wrong is a failed test")]

mod accepting;
mod administering;
mod assigning;
mod back_pressure;
mod bench;
mod calling;
mod captured;
mod client;
mod cold_reading;
mod forging;
mod groups;
mod holding;
mod lookup;
mod malformed;
mod offsets;
mod popping;
mod popping_troubles;
mod pulling;
mod remembering;
mod requests;
mod retrying;
mod scenarios;
mod sending;
mod slaves;
mod waiting;
mod watermarks;
