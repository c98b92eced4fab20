//! One subcommand a file.

pub mod bench;
pub mod broker;
pub mod config;
pub mod doctor;
pub mod namesrv;
mod report;
pub mod serve;
mod settings;
pub mod store;

/// How a subcommand ends: well, or with a text for people.
pub type Outcome = Result<(), String>;
