//! One subcommand a file; `serve` and `namesrv` take nothing beside their settings.

pub mod admin;
pub mod bench;
pub mod broker;
pub mod completions;
pub mod config;
pub mod consume;
pub mod doctor;
pub mod manual;
pub mod produce;
mod report;
pub mod settings;
pub mod store;
mod traffic;

/// How a subcommand ends: well, or with a text for people.
pub type Outcome = Result<(), String>;
