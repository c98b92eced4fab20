//! Stores, brokers and sessions as tests, benchmarks and fuzz targets set them up: what is the same in all of them, once.
//!
//! Only development dependencies name it; nothing of it is in the binary.

#![allow(clippy::expect_used, reason = "of tests alone, which fail by panicking")]

mod copy;
mod hanging;
mod host;
mod open;
mod options;
mod push;
mod record;
mod settings;
mod time;

pub use copy::copy_directory;
pub use hanging::HangingDisk;
pub use host::ManualHost;
pub use open::open_broker;
pub use options::{broker_options, session_options, store_options, system_topics};
pub use push::push;
pub use record::draft;
pub use settings::GivenSettings;
pub use time::{CLOCK_STEPS_MS, at, clock_set};
