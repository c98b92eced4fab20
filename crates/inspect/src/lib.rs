//! Examines a data directory, whoever wrote it, and explains what it finds. Strictly read-only.
//!
//! **Owns** nothing: every file is opened for reading alone, nothing is made, no lock is taken. **Always holds**: the log is
//! read once, from front to back, and everything else is held against it on the way; memory depends on the number of
//! queues and of files, not on that of records. Each fault is told once, where it is: what only points at it is not blamed.
//! **Must not be called** by a process that has the directory open as a store (see `disk::lock_holder`).

mod directory;
mod documents;
mod dump;
mod finding;
mod key_file;
mod keys;
mod log_files;
mod queue_files;
mod queues;
mod scene;
mod spans;
mod state;
mod walk;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use format::key_index::Shape;
use format::record::Record;
use format::routed::Routed;
use serde::Serialize;
use storage::begun::{self, Begun};
use storage::disk::Disk;
use storage::{Options, StorageError};

use documents::Documents;
pub use dump::{DumpOptions, Dumped, DumpedRecord, DumpedReference, DumpedRouted, dump, time_text};
use finding::Findings;
pub use finding::{FINDINGS_PER_KIND_MAX, Finding, Kind, Severity};
use keys::Keys;
use log_files::LogFiles;
use queue_files::QueueFiles;
use queues::Queues;
use scene::Scene;
use spans::Spans;
use state::State;
use walk::{End, Event, Walk};

/// How far a check has come.
#[derive(Clone, Copy, Debug)]
pub struct CheckProgress {
    /// Bytes of the log read so far.
    pub done: u64,
    /// Bytes of all segments; the last ones may not be full.
    pub total: u64,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Segments of the log.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Records of changes of the state, among them.
    pub state_records: u64,
    /// Routed messages, among them.
    pub routed_records: u64,
    /// Bytes of the log, from its first record to its end.
    pub log_bytes: u64,
    /// Log offset of the first byte kept.
    pub log_first: u64,
    /// Log offset after the last record.
    pub log_end: u64,
    /// Log offset below which everything was on the disk, by Sluice's checkpoint.
    pub durable: Option<u64>,
    /// Topics with queues or messages.
    pub topics: u64,
    /// Queues of topics with files.
    pub queues: u64,
    /// Message queues with files or messages.
    pub message_queues: u64,
    /// Lanes of them with files.
    pub lanes: u64,
    /// Entries that point at their records.
    pub entries: u64,
    /// Entries whose records retention has removed.
    pub entries_gone: u64,
    /// Files of the key index.
    pub key_files: u64,
    /// Keys in them.
    pub keys: u64,
    /// Documents in `config`.
    pub documents: u64,
}

/// What a check has found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The directory.
    pub directory: PathBuf,
    /// How much there is.
    pub counts: Counts,
    /// Findings by severity: notes, warnings, damage.
    pub by_severity: BTreeMap<Severity, u64>,
    /// Findings of each kind, those left out below included.
    pub by_kind: BTreeMap<Kind, u64>,
    /// The findings, worst first; of each kind at most `FINDINGS_PER_KIND_MAX`.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The worst severity found.
    pub fn worst(&self) -> Option<Severity> {
        self.by_severity.keys().next_back().copied()
    }
}

/// Checks a store's directory. Sizes are found out where files have others than those of `store`. If a process holds it, fails with
/// `StorageError::Locked`, unless a broker may be at work on it: `live`.
pub fn check(store: &Options, live: bool, progress: &mut dyn FnMut(CheckProgress)) -> Result<Report, StorageError> {
    let (disk, root) = (&store.disk, store.directory.as_path());
    must_exist(disk, root)?;
    let mut findings = Findings::default();
    if let Some(holder) = disk.lock_holder(root)? {
        if !live {
            return Err(StorageError::Locked(root.to_owned()));
        }
        findings.add(Kind::InUse, "lock", None, format!("held by process {holder}"));
    }
    // Documents first: what is added to queues meanwhile can only make their offsets right.
    let mut documents = Documents::read(disk, root, &mut findings);
    let mut state = State::open(disk, root, &documents, &mut findings)?;
    let was_clean = Begun::read(disk, root)?.is_none();
    if !was_clean && !live {
        findings.add(Kind::NotStopped, begun::NAME, None, "it is there");
    }
    let log_directory = log_directory(root, store.log_directory.as_deref());
    must_exist(disk, &log_directory)?;
    let log = LogFiles::open(disk, root, &log_directory, store.segment_size, &mut findings)?;
    let checkpoint = directory::checkpoint(disk, root, !log.segments.is_empty(), &mut findings);
    let is_unsure = live || !was_clean;
    let sure = storage::replay_start(&log.segments, &checkpoint, was_clean && !live);
    let sure = sure.map_or(0, |sure| sure.0);
    let durable = checkpoint.log_durable.map(|durable| durable.0);
    let unsure_from = if is_unsure { durable.unwrap_or(sure).max(sure) } else { u64::MAX };
    // What was not committed has neither entry nor key, in whatever order the process stopped.
    let lags = is_unsure || checkpoint.log_durable > checkpoint.indexed;
    let lag_from = if lags { sure } else { u64::MAX };
    let shape = Shape { slot_count: store.key_index_slots.max(1), entry_count: store.key_index_entries.max(2) };
    let mut keys = Keys::open(disk, root, shape, store.key_index, &mut findings);
    let usual_entries = [store.queue_file_entries, store.lane_file_entries];
    let files = QueueFiles::open(disk, root, usual_entries, &mut findings);
    let mut queues = Queues::new(files);
    let rules = store.index_rules.clone();
    let mut scene = Scene { log, rules, findings, broken: Spans::default(), unsure_from, lag_from };
    let mut counts = Counts { durable, log_first: scene.log.first(), documents: documents.count, ..Counts::default() };
    counts.segments = scene.log.segments.len() as u64;

    let end = read_log(&mut scene, &mut state, &mut queues, &mut keys, &mut counts, progress);
    judge_end(&end, durable, live, &mut scene);
    queues.finish(end.offset, &mut scene);
    keys.finish(end.offset, &mut scene);
    state.judge(&documents, end.offset, live, &mut scene);
    documents.topics = state.topics(&documents).or(documents.topics);
    queues.judge_topics(documents.topics.as_ref(), state.message_queues().as_ref(), &mut scene);
    documents.judge(&queues, &mut scene.findings);
    directory::rest(disk, root, &mut scene.findings)?;

    counts.log_end = end.offset;
    counts.log_bytes = end.offset.saturating_sub(counts.log_first);
    counts.state_records = state.records;
    counts.topics = queues.topics().count() as u64;
    (counts.queues, counts.lanes) = queues.queue_counts();
    counts.message_queues = queues.message_queue_count();
    counts.entries = queues.entry_count();
    counts.entries_gone = queues.gone_count();
    counts.key_files = keys.files;
    counts.keys = keys.entries;
    Ok(report(root, counts, scene.findings))
}

/// The process that has the directory open as a store, if one has; 0 if its ID is unknown.
pub fn holder(store: &Options) -> Option<u32> {
    store.disk.lock_holder(&store.directory).ok().flatten()
}

/// Reads the log from front to back and holds queues and keys against it.
fn read_log(
    scene: &mut Scene,
    state: &mut State,
    queues: &mut Queues,
    keys: &mut Keys,
    counts: &mut Counts,
    progress: &mut dyn FnMut(CheckProgress),
) -> End {
    let log = LogFiles { segments: scene.log.segments.clone(), shown: String::new(), gaps: Spans::default() };
    let (first, total) = (log.first(), log.size());
    let walk = Walk { log: &log, unsure_from: scene.unsure_from };
    walk.run(0, &mut |event| {
        match event {
            Event::Record { record, is_intact } => {
                counts.records += 1;
                if !state.record(record, is_intact, scene) && !is_intact {
                    let log_offset = record.log_offset.0;
                    let what = format!(
                        "the body of {} queue {} offset {} at log offset {log_offset} does not have its checksum",
                        record.topic, record.queue.0, record.queue_offset.0
                    );
                    broken(scene, Kind::BodyDamaged, log_offset, what);
                }
                let indexed = scene.rules.apply_to(record);
                if indexed.is_routed {
                    counts.routed_records += 1;
                    judge_routed(record, is_intact, scene);
                }
                if is_intact || !indexed.is_routed {
                    indexed.listings(record).for_each(|listing| queues.record(record, &listing, scene));
                }
                keys.record(record, scene);
            }
            Event::Broken { from, to, is_zero, why } => {
                let bytes = to - from;
                let what =
                    format!("{why} at log offset {from}; the next whole record is {bytes} bytes further, at {to}");
                // Only the last record of a segment that is cut short can reach beyond it.
                if !(scene.log.is_cut(from) && scene.log.segment_at(from).is_some_and(|segment| to >= segment.end())) {
                    broken(scene, if is_zero { Kind::LogBroken } else { Kind::RecordDamaged }, from, what);
                }
                scene.broken.add(from, to);
            }
            Event::Filler { at, says, takes } => {
                let what = format!("the filler at log offset {at} says {says} bytes, takes {takes}");
                broken(scene, Kind::FillerSize, at, what);
            }
            Event::Read { done } => progress(CheckProgress { done: done.saturating_sub(first), total }),
        }
        true
    })
}

/// Of a routed message the places in queues are in its body: what points at one that is damaged is not blamed.
fn judge_routed(record: &Record<'_>, is_intact: bool, scene: &mut Scene) {
    let log_offset = record.log_offset.0;
    if !is_intact {
        scene.broken.add(log_offset, log_offset + record.size as u64);
    } else if let Err(problem) = Routed::parse(record.body) {
        broken(scene, Kind::RoutedUnreadable, log_offset, format!("log offset {log_offset}: {problem}"));
    }
}

/// Adds a finding about a log offset; where a start would take it for the log's end, that is what is said.
fn broken(scene: &mut Scene, kind: Kind, offset: u64, what: String) {
    let (file, position) = scene.log.locate(offset);
    let kind = if scene.is_unsure(offset) { Kind::LogBroken } else { kind };
    scene.findings.add(kind, file, position, what);
}

fn judge_end(end: &End, durable: Option<u64>, is_live: bool, scene: &mut Scene) {
    let (file, position) = scene.log.locate(end.offset);
    let there = end.why.as_deref().unwrap_or("zeroes");
    if scene.log.is_cut(end.offset) {
        return scene.broken.add(end.offset, u64::MAX);
    }
    if let Some(durable) = durable.filter(|durable| *durable > end.offset) {
        let what =
            format!("the log ends at {} with {there}; the checkpoint knew it on the disk up to {durable}", end.offset);
        scene.findings.add(Kind::LogEndsEarly, file, position, what);
        scene.broken.add(end.offset, durable.max(end.used_until.unwrap_or(0)));
    } else if let Some(until) = end.used_until.filter(|_| !is_live) {
        let what = format!("{there} at the log's end {}; bytes in use up to {until}", end.offset);
        let kind = if scene.is_unsure(end.offset) { Kind::UnfinishedEnd } else { Kind::LeftoverAfterEnd };
        scene.findings.add(kind, file, position, what);
    }
}

fn report(root: &Path, counts: Counts, findings: Findings) -> Report {
    let (findings, by_kind) = findings.finish();
    let mut by_severity = BTreeMap::new();
    for (kind, count) in &by_kind {
        *by_severity.entry(kind.severity()).or_default() += count;
    }
    Report { directory: root.to_owned(), counts, by_severity, by_kind, findings }
}

fn log_directory(root: &Path, log_directory: Option<&Path>) -> PathBuf {
    log_directory.map_or_else(|| root.join("commitlog"), Path::to_owned)
}

/// A missing directory is a mistake in the command, not an empty store.
fn must_exist(disk: &Disk, path: &Path) -> Result<(), StorageError> {
    if disk.exists(path)? {
        return Ok(());
    }
    Err(StorageError::io("find", path)(std::io::ErrorKind::NotFound.into()))
}

/// A path as findings name it: relative to the data directory where it lies in it.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// The size of most files, or `usual` if one has it.
fn usual_size(sizes: impl Iterator<Item = u64>, usual: u64) -> Option<u64> {
    let mut counts: HashMap<u64, u64> = HashMap::new();
    sizes.filter(|size| *size > 0).for_each(|size| *counts.entry(size).or_default() += 1);
    if counts.contains_key(&usual) {
        return Some(usual);
    }
    counts.into_iter().max_by_key(|(size, count)| (*count, *size)).map(|(size, _)| size)
}
