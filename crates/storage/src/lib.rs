//! Storage: commit log, queue index, key index, flush, recovery, retention.
//!
//! **Owns** every file under the data directory. **Knows** records, offsets and bytes, but no topic settings, consumers or
//! connections. **Always holds**: what lies below the `written` watermark survives a killed process, below `durable` a power cut;
//! queue index and key index can be rebuilt from the log alone. **Passive**: starts no thread and reads no clock; the server calls
//! `write_staged`, `sync`, `index_staged` and `checkpoint` from its own threads.
//!
//! Lock order:
//!
//! 1. what recovery left unpublished (`Store::unpublished`)
//! 2. flushing (`Store::flushing`): held while entries are written to files, synced or removed
//! 3. indexing (`Store::indexing`)
//! 4. writing (`CommitLog::writing`)
//! 5. syncing (`CommitLog::syncing`)
//! 6. batches not committed (`CommitLog::uncommitted`)
//! 7. append lock (`CommitLog::tail`)
//! 8. creating a segment (`CommitLog::made_until`)
//! 9. segment list, staged list, changed queues, queue state, recent chunks, in this order

pub mod answer_memory;
mod batch;
pub mod begun;
mod buffers;
mod changed_queues;
pub mod checkpoint;
mod commit_log;
mod damage;
pub mod disk;
mod document;
mod entry_file;
mod error;
mod extents;
mod key_index;
mod open_files;
mod presence;
mod queue_files;
mod queue_index;
mod queue_table;
mod recent;
mod records;
mod recover;
mod reserve;
mod retention;
pub mod schedule;
mod search;
pub mod segment;
mod state;
mod store;
mod truncate;
mod waiters;
pub mod window;

pub use batch::{AppendBatch, AppendInfo, BatchRecord};
pub use document::{read as read_document, read_as as read_document_as, write as write_document};
pub use error::StorageError;
pub use key_index::read_header;
pub use open_files::{folder_of_all, folder_of_topic, topic_of_folder};
pub use queue_index::{QueueIndex, QueueListener};
pub use records::Records;
pub use recover::{Recovery, RecoveryProgress, log_begins, replay_start, replay_state};
pub use retention::{DiskState, LogState, RetentionOutcome, RetentionPolicy};
pub use state::{NoState, Snapshot, SnapshotContent, SnapshotFrame, StateReplay};
pub use store::{CommitRule, Options, ReadMode, Store};
