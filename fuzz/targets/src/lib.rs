//! One module per fuzz target: what it decodes, what must hold, and its seeds.
//!
//! `run` panics when something that must hold does not. The libFuzzer entry points in `fuzz_targets/` call it with
//! what the engine makes up; `tests/replay.rs` calls it on a stable compiler with the seeds and the kept corpus.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "it makes directories as a broker finds them, and is no part of what is shipped"
)]

pub mod amqp_frames;
pub mod amqp_session;
pub mod archive;
pub mod batch_body;
pub mod broker_documents;
pub mod driver;
pub mod golden;
pub mod key_value_file;
pub mod loose_json;
pub mod name_server_session;
pub mod pop_texts;
pub mod properties;
pub mod record;
pub mod requests;
pub mod rocketmq_bodies;
pub mod rocketmq_frame;
pub mod rocketmq_headers;
pub mod scratch;
pub mod session;
pub mod state_changes;
pub mod state_snapshot;
pub mod store_check;
pub mod store_files;
pub mod taker;

/// A fuzz target.
pub struct Target {
    /// Its name: that of its archive in `corpus` and of the entry point.
    pub name: &'static str,
    /// Tries one input; panics if something does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        /// Every fuzz target.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run, seeds: $name::seeds },)*];
    };
}

targets!(
    rocketmq_frame,
    rocketmq_headers,
    rocketmq_bodies,
    pop_texts,
    record,
    batch_body,
    properties,
    loose_json,
    store_files,
    store_check,
    state_changes,
    state_snapshot,
    broker_documents,
    key_value_file,
    session,
    name_server_session,
    amqp_frames,
    amqp_session,
);
