//! What RocketMQ keeps on disk and in the bodies of requests: the record and its properties, the body of a batch, the JSON
//! documents about topics and groups.
//!
//! Pure: bytes and text to values and back, as every Java version we promise reads and writes them. Nothing here does I/O or
//! decides anything. Frames of the socket are `wire`'s; files are `storage`'s.

pub mod batch_body;
pub mod document;
pub mod entry_form;
pub mod hash;
pub mod index_rules;
pub mod key_index;
pub mod lane_code;
pub mod lane_entry;
pub mod lease;
pub mod loose_json;
pub mod master_tables;
pub mod model;
pub mod model_tables;
pub mod noted_properties;
pub mod properties;
pub mod queue_entry;
pub mod record;
pub mod request_mode;
pub mod routed;
pub mod state;
pub mod state_documents;
pub mod state_tables;
