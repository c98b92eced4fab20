//! The broker's state that outlives it: topics, groups, committed offsets, progress of delayed messages.
//!
//! A change is proposed, appended to the log as a record, and answered once that is kept (`log.rs`). A snapshot, written with each
//! checkpoint, spares a start from reading the whole log; a start reads it and the state records behind it (`open.rs`). The JSON documents
//! are exports for a Java broker that takes over; they are read only where Java has written them.

mod log;
mod open;

pub(crate) use log::StateLog;
pub(crate) use open::OpenedState;
pub(crate) use format::state_tables::{OffsetTable, StateTables};

pub(crate) const TOPICS_FILE: &str = "topics.json";
pub(crate) const GROUPS_FILE: &str = "subscriptionGroup.json";
pub(crate) const OFFSETS_FILE: &str = "consumerOffset.json";
pub(crate) const DELAY_FILE: &str = "delayOffset.json";

/// Member of a document that we wrote: what the log says below this position is in it. Java brokers pass over it, and leave it out
/// when they write a document.
pub(crate) const POSITION: &str = "sluiceLogPosition";
