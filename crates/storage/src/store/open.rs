//! Opening a data directory: the order in which its parts are read, and from which log offset each is rebuilt.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use base::metric::Metrics;
use base::offset::Watermarks;
use base::{LogOffset, QueueId, QueueOffset, TopicName};
use format::key_index::Shape;
use parking_lot::{Mutex, RwLock};

use super::{CommitRule, Options, Store, new_queue};
use crate::begun::Begun;
use crate::changed_queues::ChangedQueues;
use crate::checkpoint::{BegunWork, Checkpoint};
use crate::commit_log::CommitLog;
use crate::disk::{DirectoryLock, Disk};
use crate::error::StorageError;
use crate::key_index::{KeyIndex, Sure};
use crate::open_files::{MESSAGE_QUEUES, OWN_FOLDER, OpenFiles, QUEUES};
use crate::presence::Presence;
use crate::queue_files::{self, Ends, Found, Trust};
use crate::queue_index::QueueIndex;
use crate::queue_table::QueueTable;
use crate::recover::{self, Rebuild, Recovery, RecoveryProgress, Removed, Replay, Unpublished};
use crate::reserve::Reserve;
use crate::segment::Segment;
use crate::state::{NoState, Snapshot, StateReplay};
use crate::truncate;

impl Store {
    /// Opens the directory, making it if it is missing, and recovers what an unclean stop left.
    pub fn open(
        options: Options,
        metrics: Arc<Metrics>,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        Self::open_with_state(options, metrics, &mut NoState, progress)
    }

    /// As `open`, and tells `state` what the state records say that it does not know.
    pub fn open_with_state(
        options: Options,
        metrics: Arc<Metrics>,
        state: &mut dyn StateReplay,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        let lock = options.disk.lock_directory(&options.directory)?;
        Self::open_locked(options, lock, LogOffset(u64::MAX), metrics, state, progress)
    }

    /// Opens a directory that is locked already, with what its log has up to `end_at`.
    pub(super) fn open_locked(
        mut options: Options,
        lock: DirectoryLock,
        end_at: LogOffset,
        metrics: Arc<Metrics>,
        state: &mut dyn StateReplay,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Self, Recovery), StorageError> {
        let root = options.directory.clone();
        let disk = options.disk.clone();
        let mut recovery = recovery_after(Begun::read(&disk, &root)?, &disk);
        let log_directory = options.log_directory.clone().unwrap_or_else(|| root.join("commitlog"));
        disk.create_directory(&log_directory)?;
        let mut checkpoint = Checkpoint::read(&disk, &root)?;
        let segments = recover::open_segments(&mut options, &log_directory, &checkpoint, &mut recovery)?;
        // Given up until recovery is done, which may need as much space.
        let reserve = Arc::new(Reserve::new(disk.clone(), &root, options.checkpoint_reserve())?);
        reserve.want_for_state(Snapshot::size_of_file(&disk, &root));
        if segments.is_empty() {
            check_disk_size(&options, &log_directory)?;
        }
        let sure = recover::replay_start(&segments, &checkpoint, recovery.was_clean)?;
        let log_end = segments.last().map_or(sure, |last| LogOffset(last.end()));
        let durable = checkpoint.log_durable.map_or(sure, |durable| durable.min(log_end).max(sure));
        let rebuild = Rebuild::new(&disk, &root, &mut checkpoint, (sure, durable));
        let Recovered { files, queues, written_ends, key_index, unpublished, end } =
            recover_indexes(&options, &segments, (sure, durable, end_at), rebuild, &mut recovery, state, progress)?;
        if end_at < LogOffset(u64::MAX) || checkpoint.log_durable.is_some_and(|durable| durable > end) {
            // The end is taken back, or segments were moved away. First, or a crash would leave a log that ends before what the checkpoint
            // promises.
            checkpoint = checkpoint.lowered_to(end, recover::last_store_time(&segments, end)?);
            checkpoint.write(&disk, &root)?;
        }
        let segments =
            truncate::truncate_log(&disk, log_directory.parent().unwrap_or(&root), segments, end, &mut recovery)?;
        let mut watermarks = Watermarks::new(durable.min(end), end);
        let mut told_committed = LogOffset(0);
        if let CommitRule::Told { known } = options.commit_rule {
            told_committed = known;
            watermarks = watermarks.governed(unpublished.from.unwrap_or(end));
        }
        let log = CommitLog::new(&options, log_directory, segments, watermarks, reserve.clone(), metrics.clone());
        recovery.damaged.iter().for_each(|offset| log.tell_damage(*offset, "found when the log was read again"));
        metrics.log_first_bytes.set(log.first().0);
        let store = Self {
            log: Arc::new(log),
            queues: RwLock::new(queues),
            changed_queues: ChangedQueues::default(),
            files,
            // Files that were removed may come back with a power cut, until their folders are synced; so may what a start before this one wrote.
            doubts_disk: AtomicBool::new(
                !recovery.was_clean || checkpoint.begun != BegunWork::None || recovery.removed_queues > 0,
            ),
            key_index,
            unindexed: Mutex::default(),
            unindexed_count: AtomicUsize::new(0),
            told_committed: AtomicU64::new(told_committed.0),
            unpublished: Mutex::new(unpublished),
            untold_states: Mutex::default(),
            documents: Mutex::default(),
            reserve,
            flushing: Mutex::default(),
            indexing: Mutex::default(),
            index_has_failed: AtomicBool::new(false),
            entries_are_stuck: AtomicBool::new(false),
            checkpointed: AtomicU64::new(checkpoint.indexed.map_or(0, |indexed| indexed.min(end).0)),
            state_known: AtomicU64::new(state.known_until().0),
            disk_state: Mutex::default(),
            retention: Mutex::new(options.retention.clone()),
            writes_refused: AtomicBool::new(false),
            lacks_segment_space: AtomicBool::new(false),
            metrics,
            _lock: lock,
            options,
        };
        store.begin(&written_ends, checkpoint.is_to_be_replaced())?;
        Ok((store, recovery))
    }

    /// Has the folder for entries of message queues there: a start takes it for lost where it is missing beside queues.
    pub fn make_message_queue_folder(&self) -> Result<(), StorageError> {
        self.options.disk.create_directory(&self.options.directory.join(MESSAGE_QUEUES))
    }

    /// Writes what recovery found to the directory, and marks it as in use (`abort`).
    fn begin(&self, written_ends: &Ends, needs_checkpoint: bool) -> Result<(), StorageError> {
        self.files.set_entry_source(Arc::<CommitLog>::downgrade(&self.log));
        self.settle_queues(written_ends)?;
        let (disk, root) = (&self.options.disk, &self.options.directory);
        // Even if nothing goes in: the next start takes a missing folder for a lost one.
        disk.create_directory(&root.join(QUEUES))?;
        if disk.exists(&root.join(OWN_FOLDER))? {
            disk.create_directory(&root.join(MESSAGE_QUEUES))?;
        }
        if self.key_index.is_some() {
            disk.create_directory(&root.join("index"))?;
        }
        let documents = root.join("config");
        if self.doubts_disk.load(Ordering::Relaxed) && disk.exists(&documents)? {
            // A killed process may not have synced the names of documents it replaced. They are read now and not written again
            // until they change, so sync the names here.
            disk.sync_directory(&documents)?;
        }
        Begun::write(disk, root)?;
        if needs_checkpoint {
            // A crash from here on needs a checkpoint to compare with; and what was made again need not be made again once more.
            self.checkpoint()?;
        }
        // Any other checkpoint is still valid, and writing a new one would delay the start. Without space for a segment the store opens
        // all the same, to serve what it has.
        self.prepare_next_segment().or_else(|error| if error.is_disk_full() { Ok(()) } else { Err(error) })
    }

    /// Makes every queue hold exactly the entries of the log's records.
    fn settle_queues(&self, written_ends: &Ends) -> Result<(), StorageError> {
        let first = self.log.first();
        let mut queues = self.all_queues();
        queues.retain(|queue| {
            let written_end = written_ends.get(&(queue.topic().clone(), queue.queue()));
            written_end.is_none_or(|written_end| queue.end() < *written_end)
        });
        recover::sort(&mut queues);
        for queue in queues {
            queue.flush(0)?;
            queue.truncate()?;
            queue.drop_before(first)?;
        }
        self.changed_queues.look_over(&self.all_queues());
        Ok(())
    }
}

/// Fails if the disk is too small to ever hold a segment and a checkpoint.
fn check_disk_size(options: &Options, log_directory: &Path) -> Result<(), StorageError> {
    let (_, total) = options.disk.usage(log_directory)?;
    let (segment, reserve) = (options.segment_size, options.checkpoint_reserve());
    if total == 0 || total >= segment.saturating_add(reserve) {
        return Ok(());
    }
    Err(StorageError::DiskFull(format!(
        "the disk of {} has {total} bytes in all, and a broker needs at least {}: {segment} for a segment of the log and {reserve} for a checkpoint; set storage.segment_size to less, or choose a larger disk",
        log_directory.display(),
        segment + reserve
    )))
}

/// What was rebuilt from the log.
struct Recovered {
    files: Arc<OpenFiles>,
    queues: QueueTable,
    written_ends: Ends,
    key_index: Option<KeyIndex>,
    unpublished: Unpublished,
    /// End of the log.
    end: LogOffset,
}

/// What is known of the process before, before anything is read.
fn recovery_after(begun: Option<Begun>, disk: &Disk) -> Recovery {
    Recovery {
        was_clean: begun.is_none(),
        runs_on: begun.is_some_and(|begun| begun.runs_on(disk)),
        ..Recovery::default()
    }
}

/// Opens queues and key index as far as they can be trusted, and rebuilds the rest from the log.
fn recover_indexes(
    options: &Options,
    segments: &[Arc<Segment>],
    (sure, log_sure, end_at): (LogOffset, LogOffset, LogOffset),
    mut rebuild: Rebuild<'_>,
    recovery: &mut Recovery,
    state: &mut dyn StateReplay,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Recovered, StorageError> {
    // After an orderly stop every entry has its record, unless somebody removed the segment since.
    let log_end = LogOffset(segments.last().map_or(0, |segment| segment.end()));
    let committed = match options.commit_rule {
        CommitRule::Written => LogOffset(u64::MAX),
        CommitRule::Told { known } => known.max(sure),
    };
    let files = Arc::new(OpenFiles::new(options));
    let log_first = start_of(segments);
    let indexes_sure = if rebuild.is_needed() { log_first } else { sure };
    if !segments.is_empty() && has_lost_queues(options, state.has_message_queues())? {
        rebuild.begin()?;
    }
    // The checkpoint of a stop of our own is the end of the log: what is behind it a Java broker has written.
    let is_java_stop = recovery.was_clean && !rebuild.is_needed() && recover::has_record_at(segments, sure)?;
    let none_is_torn = recovery.runs_on || rebuild.has_lanes_begun();
    let is_begun = rebuild.is_begun();
    let checked = Trust { below: indexes_sure, segments, none_is_torn, is_begun };
    let all = Trust { below: log_end.min(committed), segments: &[], none_is_torn: true, is_begun };
    // Of lanes a Java broker knows nothing: whatever a crash before it left of them is still there.
    let [of_topics, of_lanes] = match recovery.was_clean && !rebuild.is_needed() {
        true if is_java_stop => [all, checked],
        true => [all, all],
        false => [checked, checked],
    };
    let Found { mut queues, mut written_ends, doubts, emptied } =
        queue_files::open_queues(options, &files, log_first, [of_topics, of_lanes], &mut rebuild)?;
    let entries_from = if rebuild.is_needed() { log_first } else { sure };
    recovery.entries_made_again = rebuild.is_needed();
    let removed = if is_java_stop && !rebuild.is_needed() { Removed::find(&queues)? } else { Removed::default() };
    let (key_index, keys_from) = open_key_index(options, segments, indexes_sure, &mut rebuild)?;
    rebuild.begin_lanes(&doubts)?;
    recovery.unusable = rebuild.unusable;
    // After an orderly stop nothing is unfinished: damage anywhere is damage to something that was whole.
    let durable = if recovery.was_clean { LogOffset(u64::MAX) } else { log_sure };
    let new_queue_of = |topic: &TopicName, queue: QueueId| Arc::new(new_queue(&files, topic, queue));
    let mut unpublished = Unpublished::default();
    let mut replay = Replay {
        segments,
        start: entries_from.min(keys_from).min(state.known_until().max(log_first)),
        end_at,
        durable,
        end_from: log_sure,
        entries_from,
        doubts: &doubts,
        removed: &removed,
        keys_from,
        committed,
        unpublished: &mut unpublished,
        rules: &options.index_rules,
        record_checksums: options.record_checksums,
        // After a power cut the files may hold garbage above the checkpoint, or a later file but not the one before it: restored
        // entries are written over that during the start.
        gathered_entries: if recovery.runs_on { options.gathered_entries } else { 0 },
        key_index: key_index.as_ref(),
        queues: &mut queues,
        written_ends: &mut written_ends,
        state,
        new_queue: &new_queue_of,
        recovery,
        progress,
        is_opening: true,
        at: 0,
    };
    replay.remove_known_gone()?;
    let end = replay.run()?;
    unpublished.end = end;
    let committed = committed.min(unpublished.from.unwrap_or(end));
    recover::settle_lanes(&queues, &doubts, recovery, (log_first..committed, entries_from))?;
    go_on_behind(&mut queues, &files, emptied);
    Ok(Recovered { files, queues, written_ends, key_index, unpublished, end })
}

/// Queues whose entries were lost, and of which the log has none, go on behind all that they may have had.
fn go_on_behind(queues: &mut QueueTable, files: &Arc<OpenFiles>, emptied: Vec<((TopicName, QueueId), QueueOffset)>) {
    for ((topic, queue), goes_on) in emptied {
        let Some(known) = queues.get(topic.as_str(), queue) else { continue };
        if known.first() == known.end() && known.end() < goes_on {
            let next = known.appended_end().max(goes_on);
            let behind = QueueIndex::new(files.clone(), topic, queue, (goes_on, goes_on));
            // Behind what is not committed too.
            behind.continue_at(next);
            queues.insert(Arc::new(behind));
        }
    }
}

/// Whether folders of queues are gone that an earlier start, or the first flush of a lane, has made.
fn has_lost_queues(options: &Options, has_message_queues: bool) -> Result<bool, StorageError> {
    let has = |folder: &str| options.disk.exists(&options.directory.join(folder));
    Ok(!has(QUEUES)? || (has_message_queues || has(OWN_FOLDER)?) && !has(MESSAGE_QUEUES)?)
}

fn start_of(segments: &[Arc<Segment>]) -> LogOffset {
    LogOffset(segments.first().map_or(0, |segment| segment.base()))
}

/// Opens the key index, if it is enabled, and returns the log offset from which keys have to be added.
fn open_key_index(
    options: &Options,
    segments: &[Arc<Segment>],
    sure: LogOffset,
    rebuild: &mut Rebuild<'_>,
) -> Result<(Option<KeyIndex>, LogOffset), StorageError> {
    if !options.key_index {
        return Ok((None, LogOffset(u64::MAX)));
    }
    let shape = Shape { slot_count: options.key_index_slots.max(1), entry_count: options.key_index_entries.max(2) };
    let directory = options.directory.join("index");
    let (was_there, unusable_before) = (options.disk.exists(&directory)?, rebuild.unusable.len());
    if !was_there && !segments.is_empty() {
        rebuild.begin()?;
    }
    let presence = Presence { segments, durable: sure, written: sure };
    let has_key = |offset: LogOffset, hash: u32| recover::has_key(&presence, &options.index_rules, offset, hash);
    let sure_keys = Sure { below: sure, has_key: &has_key };
    let mut set_aside = |path: &Path| rebuild.set_aside(path);
    let index = KeyIndex::open(&options.disk, directory, shape, sure_keys, &mut set_aside)?;
    let is_usable = was_there && rebuild.unusable.len() == unusable_before;
    let keys_from = if is_usable { sure } else { start_of(segments) };
    Ok((Some(index), keys_from))
}
