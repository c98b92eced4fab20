//! The broker's state that outlives it: topics, groups, committed offsets, progress of delayed messages, how groups ask for messages.
//!
//! A change is proposed, appended to the log as a record, and answered once that is kept (`log.rs`). A snapshot, written with each
//! checkpoint, spares a start from reading the whole log; a start reads it and the state records behind it (`open.rs`). The JSON documents
//! are exports for a *foreign* broker, of another program, that takes the directory over; they are read only where one has written them.

mod export;
mod found;
mod log;
mod open;
mod settled;
mod unsaved;

pub use export::{Exported, Written, export_documents};
pub(crate) use format::state_documents::{
    self as documents, DELAY_FILE, GROUPS_FILE, OFFSETS_FILE, REQUEST_MODES_FILE, TOPICS_FILE,
};
pub(crate) use format::state_tables::{LeaseTable, OffsetTable, StateTables};
pub(crate) use log::StateLog;
pub(crate) use open::OpenedState;
pub(crate) use settled::{SETTLED_FILE, SettledOffsets};
