//! Reads the log of a stopped broker for its state records alone, and changes nothing.

use std::collections::HashMap;
use std::sync::Arc;

use base::{LogOffset, QueueId, TopicName};

use super::segments::open_segments_read_only;
use super::{Recovery, RecoveryProgress, Removed, Replay, Unpublished, replay_start};
use crate::begun::Begun;
use crate::checkpoint::Checkpoint;
use crate::error::StorageError;
use crate::open_files::OpenFiles;
use crate::queue_files::Doubts;
use crate::queue_table::QueueTable;
use crate::state::StateReplay;
use crate::store::{Options, new_queue};

/// Tells `state` what the log says, up to where the next start would find its end; gives that. Nothing is written, made or removed.
///
/// Whoever calls this has locked the directory. Waits for the disk.
pub fn replay_state(
    options: &Options,
    state: &mut dyn StateReplay,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<LogOffset, StorageError> {
    let (disk, root) = (&options.disk, &options.directory);
    let log_directory = options.log_directory.clone().unwrap_or_else(|| root.join("commitlog"));
    let begun = Begun::read(disk, root)?;
    let (was_clean, runs_on) = (begun.is_none(), begun.is_some_and(|begun| begun.runs_on(disk)));
    let checkpoint = Checkpoint::read(disk, root)?;
    let segments = open_segments_read_only(disk, &log_directory, &checkpoint, was_clean)?;
    let sure = replay_start(&segments, &checkpoint, was_clean)?;
    let log_first = LogOffset(segments.first().map_or(0, |first| first.base()));
    let log_end = segments.last().map_or(sure, |last| LogOffset(last.end()));
    let promised = checkpoint.log_durable.map_or(sure, |durable| durable.min(log_end).max(sure));
    let files = Arc::new(OpenFiles::new(options));
    Replay {
        segments: &segments,
        start: state.known_until().min(sure).max(log_first),
        end_at: LogOffset(u64::MAX),
        durable: if was_clean { LogOffset(u64::MAX) } else { promised },
        end_from: promised,
        // No entry and no key is restored.
        entries_from: LogOffset(u64::MAX),
        doubts: &Doubts::default(),
        keys_from: LogOffset(u64::MAX),
        removed: &Removed::default(),
        committed: LogOffset(u64::MAX),
        unpublished: &mut Unpublished::default(),
        rules: &options.index_rules,
        record_checksums: options.record_checksums,
        gathered_entries: 0,
        key_index: None,
        queues: &mut QueueTable::default(),
        written_ends: &mut HashMap::new(),
        state,
        new_queue: &|topic: &TopicName, queue: QueueId| Arc::new(new_queue(&files, topic, queue)),
        recovery: &mut Recovery { was_clean, runs_on, ..Recovery::default() },
        progress,
        is_opening: true,
        at: 0,
    }
    .run()
}
