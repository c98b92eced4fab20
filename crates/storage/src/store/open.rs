//! Opening a data directory: in which order its parts are read, and from where in the log they are made again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::metric::Metrics;
use base::{LogOffset, QueueId, TopicName};
use parking_lot::{Mutex, RwLock};

use super::{Options, Store, new_queue_at};
use crate::checkpoint::Checkpoint;
use crate::commit_log::CommitLog;
use crate::cut;
use crate::error::StorageError;
use crate::key_index::{KeyIndex, Shape, Sure};
use crate::recover::{self, Recovery, RecoveryProgress, Replay, ReplayRules};
use crate::segment::Segment;

impl Store {
    /// Opens the directory, making it if it is missing, and recovers what an unclean stop left.
    pub fn open(
        mut options: Options,
        metrics: Arc<Metrics>,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        let root = options.directory.clone();
        let disk = options.disk.clone();
        let lock = disk.lock_directory(&root)?;
        let mut recovery = Recovery { was_clean: !disk.exists(&root.join("abort")), ..Recovery::default() };
        let log_directory = options.log_directory.clone().unwrap_or_else(|| root.join("commitlog"));
        disk.create_directory(&log_directory)?;
        let checkpoint = Checkpoint::read(&disk, &root)?;
        let segments = recover::open_segments(&mut options, &log_directory, &checkpoint, &mut recovery)?;
        let sure = recover::replay_start(&segments, &checkpoint, recovery.was_clean)?;
        let queue_root = root.join("consumequeue");
        // After an orderly stop every entry has its record, unless the segment was taken away since.
        let log_end = LogOffset(segments.last().map_or(0, |segment| segment.end()));
        let entries_sure = if recovery.was_clean { log_end } else { sure };
        let unusable = &mut recovery.unusable;
        let to_check = if recovery.was_clean { &[][..] } else { &segments };
        let mut queues = recover::open_queues(&options, entries_sure, to_check, unusable)?;
        let queues_usable = unusable.is_empty() && disk.exists(&queue_root);
        let (key_index, keys_from) = open_key_index(&options, &segments, sure, unusable)?;
        let entries_from = if queues_usable { sure } else { start_of(&segments) };
        recovery.entries_made_again = !queues_usable && !segments.is_empty();
        // After an orderly stop nothing was left unfinished: whatever is damaged was whole once.
        let durable = if recovery.was_clean { LogOffset(u64::MAX) } else { sure };
        let new_queue = |topic: &TopicName, queue: QueueId| Arc::new(new_queue_at(&options, topic, queue));
        let replay = Replay {
            segments: &segments,
            durable,
            entries_from,
            keys_from,
            rules: &ReplayRules { delay_levels_ms: options.delay_levels_ms.clone() },
            key_index: key_index.as_ref(),
            queues: &mut queues,
            new_queue: &new_queue,
            recovery: &mut recovery,
            progress,
        };
        let end = replay.run(entries_from.min(keys_from))?;
        let segments = cut::cut_log(&disk, log_directory.parent().unwrap_or(&root), segments, end, &mut recovery)?;
        let log = CommitLog::new(
            disk,
            log_directory,
            options.segment_size,
            segments,
            (sure.min(end), end),
            options.recent_size,
            metrics.clone(),
        );
        metrics.log_first_bytes.set(log.first().0);
        let store = Self {
            log,
            queues: RwLock::new(queues),
            key_index,
            unindexed: Mutex::default(),
            flushing: Mutex::default(),
            indexing: Mutex::default(),
            index_has_failed: AtomicBool::new(false),
            writes_refused: AtomicBool::new(false),
            has_no_room: AtomicBool::new(false),
            metrics,
            _lock: lock,
            options,
        };
        store.begin()?;
        Ok((store, recovery))
    }

    /// Brings the directory to where recovery has come: from here on an unclean stop leaves its sign.
    fn begin(&self) -> Result<(), StorageError> {
        self.settle_queues()?;
        let (disk, root) = (&self.options.disk, &self.options.directory);
        // Made even if nothing goes in: a missing one would count as lost at the next start.
        disk.create_directory(&root.join("consumequeue"))?;
        if self.key_index.is_some() {
            disk.create_directory(&root.join("index"))?;
        }
        // Without room for more it still serves what there is.
        self.prepare_next_segment().or_else(|error| if error.is_disk_full() { Ok(()) } else { Err(error) })?;
        disk.replace_file(&root.join("abort"), format!("{}\n", std::process::id()).as_bytes())?;
        disk.remove_file(&root.join("abort.bak"))?;
        self.checkpoint()
    }

    /// Brings every queue to what the log holds, no more and no less.
    fn settle_queues(&self) -> Result<(), StorageError> {
        let first = self.log.first();
        let mut queues = self.all_queues();
        recover::sort(&mut queues);
        for queue in queues {
            queue.flush()?;
            queue.cut()?;
            queue.drop_before(first)?;
            queue.close_files();
        }
        Ok(())
    }
}

fn start_of(segments: &[Arc<Segment>]) -> LogOffset {
    LogOffset(segments.first().map_or(0, |segment| segment.base()))
}

/// Opens the key index, if there is to be one, and tells from where in the log keys are to be added.
fn open_key_index(
    options: &Options,
    segments: &[Arc<Segment>],
    sure: LogOffset,
    unusable: &mut Vec<PathBuf>,
) -> Result<(Option<KeyIndex>, LogOffset), StorageError> {
    if !options.key_index {
        return Ok((None, LogOffset(u64::MAX)));
    }
    let shape = Shape { slot_count: options.key_index_slots.max(1), entry_count: options.key_index_entries.max(2) };
    let directory = options.directory.join("index");
    let (was_there, unusable_before) = (options.disk.exists(&directory), unusable.len());
    let has_key = |place: LogOffset, hash: u32| recover::has_key(segments, place, hash);
    let index = KeyIndex::open(&options.disk, directory, shape, Sure { below: sure, has_key: &has_key }, unusable)?;
    let is_usable = was_there && unusable.len() == unusable_before;
    let keys_from = if is_usable { sure } else { start_of(segments) };
    Ok((Some(index), keys_from))
}
