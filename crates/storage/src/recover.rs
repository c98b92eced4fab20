//! Opens what is on the disk, whoever wrote it and however it stopped.
//!
//! The log is read from the last place known to be durable with its entries (the checkpoint) to its end. Each place is one
//! row of this table:
//!
//! | at the place             | below durable                        | above durable              |
//! |--------------------------|--------------------------------------|----------------------------|
//! | whole record             | keep, restore its entry              | keep, restore its entry    |
//! | filler                   | go on with the next segment          | the same                   |
//! | zeroes                   | end of the log                       | end of the log             |
//! | damaged, next one whole  | keep its place, say so               | cut the log here           |
//! | damaged, next one too    | refuse to open                       | cut the log here           |
//!
//! Above durable nothing was promised to survive a power cut, and a killed process leaves no damage. After the end, everything
//! is cleared, so that old bytes can never be taken for records. Entries that point beyond the end are cleared too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::hash::{key_hash, tag_code};
use base::limits::QUEUES_PER_TOPIC_MAX;
use base::properties::{self, names};
use base::record::{self, Kind, Record, system_flag};
use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};

use crate::checkpoint::Checkpoint;
use crate::disk::{self, DiskFile};
use crate::error::StorageError;
use crate::key_index::KeyIndex;
use crate::queue_index::{ENTRY_SIZE, Entry, QueueIndex, partition_point};
use crate::segment::{Segment, file_name};
use crate::window::Window;

/// Java brokers may lag this much behind their checkpoint's times.
const CHECKPOINT_SLACK_MS: u64 = 3000;

/// Queue offsets end here: their entries' byte positions name files and are signed numbers.
const QUEUE_OFFSET_MAX: u64 = i64::MAX as u64 / ENTRY_SIZE as u64;

/// Topic whose entries keep due times instead of tag codes.
pub(crate) const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";

/// How far recovery has come, for people who wait.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryProgress {
    /// Bytes read so far.
    pub done: u64,
    /// Bytes to be read, at most.
    pub total: u64,
}

/// What recovery found.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// Records read again.
    pub records: u64,
    /// Bytes cut off the end of the log: written, never promised.
    pub cut_bytes: u64,
    /// Records whose bytes are damaged, by place; they are not served.
    pub damaged: Vec<LogOffset>,
    /// Whole segments after the end of the log, moved aside.
    pub set_aside: Vec<PathBuf>,
    /// Files of queue entries or keys that could not be used, moved aside: what was in them is made again from the log.
    pub unusable: Vec<PathBuf>,
    /// Whether all queue entries were made again from the log.
    pub entries_made_again: bool,
    /// Whether the last process stopped in good order.
    pub was_clean: bool,
}

pub(crate) type Queues = HashMap<(TopicName, QueueId), Arc<QueueIndex>>;

/// What is needed to give entries their meaning back. Delay levels in ms, the first level first.
#[derive(Clone, Debug)]
pub(crate) struct ReplayRules {
    pub(crate) delay_levels_ms: Vec<u64>,
}

/// Finds the segment size in use: what is on the disk wins over the setting.
pub(crate) fn open_segments(directory: &Path, configured: u64) -> Result<(Vec<Arc<Segment>>, u64), StorageError> {
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    let mut segment_size = configured;
    for name in disk::list(directory)? {
        let path = directory.join(&name);
        let Ok(base) = name.parse::<u64>() else { continue };
        if name.len() != 20 || base > i64::MAX as u64 {
            continue;
        }
        let size = DiskFile::open(&path)?.size()?;
        if size == 0 {
            disk::remove_file(&path)?;
            continue;
        }
        if let Some(last) = segments.last() {
            if size != segment_size || base != last.end() {
                return Err(StorageError::Damaged {
                    path,
                    problem: format!(
                        "expected a segment of {segment_size} bytes that begins at {}; a segment before it is missing or was cut short. Restore it from a copy, or move this and all later segments away to go on without them",
                        last.end()
                    ),
                });
            }
        } else {
            segment_size = size;
        }
        segments.push(Arc::new(Segment::open(directory, base, size)?));
    }
    if segments.first().is_some_and(|first| first.base() % segment_size != 0) {
        return Err(StorageError::Damaged {
            path: directory.to_owned(),
            problem: format!("the first segment's name is no multiple of the segment size {segment_size}"),
        });
    }
    Ok((segments, segment_size))
}

/// Opens every queue found in the data directory `root`, with the entries that are sure to be there (records below `sure`).
/// Files that cannot be used are moved aside and named in `unusable`: the whole log must be read again.
pub(crate) fn open_queues(
    root: &Path,
    entries_per_file: u64,
    sure: LogOffset,
    unusable: &mut Vec<PathBuf>,
) -> Result<Queues, StorageError> {
    let directory = &root.join("consumequeue");
    let mut queues = Queues::new();
    for topic in disk::list(directory)? {
        for name in disk::list(&directory.join(&topic))? {
            let Ok(number) = name.parse::<u32>() else { continue };
            let path = directory.join(&topic).join(&name);
            let (topic, queue) = (TopicName::trusted(&topic), QueueId(number));
            let (first, next) = queue_bounds(root, &path, entries_per_file, sure, unusable)?;
            let index = QueueIndex::new(topic.clone(), queue, path, entries_per_file, first, next);
            queues.insert((topic, queue), Arc::new(index));
        }
    }
    Ok(queues)
}

/// First and one past the last entry whose record lies below `sure`.
fn queue_bounds(
    root: &Path,
    directory: &Path,
    entries_per_file: u64,
    sure: LogOffset,
    unusable: &mut Vec<PathBuf>,
) -> Result<(QueueOffset, QueueOffset), StorageError> {
    let file_size = entries_per_file * ENTRY_SIZE as u64;
    let mut starts = Vec::new();
    for name in disk::list(directory)? {
        let Ok(start) = name.parse::<u64>() else { continue };
        let path = directory.join(&name);
        if DiskFile::open(&path)?.size()? == file_size && start % file_size == 0 && start <= i64::MAX as u64 {
            starts.push(start);
        } else {
            // Of another size or cut short: its entries are made again from the log.
            unusable.push(disk::set_aside(root, &path)?);
        }
    }
    let Some(&oldest) = starts.first() else { return Ok((QueueOffset(0), QueueOffset(0))) };
    let first = QueueOffset(oldest / ENTRY_SIZE as u64);
    for &start in starts.iter().rev() {
        let file = DiskFile::open(&directory.join(file_name(start)))?;
        let mut failure = None;
        let count = partition_point(0, entries_per_file, |number| {
            let mut bytes = [0; ENTRY_SIZE];
            if let Err(error) = file.read_at(&mut bytes, number * ENTRY_SIZE as u64) {
                failure.get_or_insert(error);
            }
            Entry::decode(&bytes).is_none_or(|entry| entry.log_offset >= sure)
        });
        if let Some(error) = failure {
            return Err(error);
        }
        if count > 0 {
            return Ok((first, QueueOffset(start / ENTRY_SIZE as u64 + count)));
        }
    }
    Ok((first, first))
}

/// Where reading the log must begin: below, log and queue entries are known to be on the disk.
pub(crate) fn replay_start(
    segments: &[Arc<Segment>],
    checkpoint: &Checkpoint,
    was_clean: bool,
) -> Result<LogOffset, StorageError> {
    let first = segments.first().map_or(0, |segment| segment.base());
    let last = segments.last().map_or(0, |segment| segment.end());
    if let Some(durable) = checkpoint.durable {
        return Ok(LogOffset(durable.0.clamp(first, last)));
    }
    if was_clean {
        // A Java broker that stopped in good order has written all entries; only the end must be found.
        return Ok(LogOffset(start_of_last_with_data(segments)?));
    }
    // A killed Java broker: begin with the segment its checkpoint's times allow.
    let sure = Timestamp(checkpoint.log_time.min(checkpoint.queue_time).0.saturating_sub(CHECKPOINT_SLACK_MS));
    for segment in segments.iter().rev() {
        if first_store_time(segment)?.is_some_and(|time| time <= sure) {
            return Ok(LogOffset(segment.base()));
        }
    }
    Ok(LogOffset(first))
}

/// First byte after the record at `offset`, or the start of its segment if no record is there.
pub(crate) fn end_of_record(segments: &[Arc<Segment>], offset: LogOffset) -> LogOffset {
    let Some(segment) = segments.iter().find(|segment| segment.contains(offset.0)) else { return LogOffset(0) };
    let mut head = [0; record::FILLER_SIZE];
    match segment.file().read_at(&mut head, segment.position(offset)).map(|()| record::kind_at(&head)) {
        Ok(Ok(Kind::Record(size))) => offset.after(size as u64),
        _ => LogOffset(segment.base()),
    }
}

fn start_of_last_with_data(segments: &[Arc<Segment>]) -> Result<u64, StorageError> {
    for segment in segments.iter().rev() {
        if first_store_time(segment)?.is_some() {
            return Ok(segment.base());
        }
    }
    Ok(segments.first().map_or(0, |segment| segment.base()))
}

/// When the first record of a segment was stored; `None` if it has none.
pub(crate) fn first_store_time(segment: &Segment) -> Result<Option<Timestamp>, StorageError> {
    let mut bytes = [0; record::STORE_TIMESTAMP_WITHIN];
    segment.file().read_at(&mut bytes, 0)?;
    Ok(match record::kind_at(&bytes) {
        Ok(Kind::Record(_)) => record::store_timestamp_of(&bytes),
        _ => None,
    })
}

/// Reads the log from `start`, restoring entries and keys, and returns its end.
pub(crate) struct Replay<'a> {
    pub(crate) segments: &'a [Arc<Segment>],
    pub(crate) durable: LogOffset,
    /// Below this, queues have their entries; those of removed topics must not come back.
    pub(crate) entries_from: LogOffset,
    pub(crate) keys_from: LogOffset,
    pub(crate) rules: &'a ReplayRules,
    pub(crate) key_index: Option<&'a KeyIndex>,
    pub(crate) queues: &'a mut Queues,
    pub(crate) new_queue: &'a dyn Fn(&TopicName, QueueId) -> Arc<QueueIndex>,
    pub(crate) recovery: &'a mut Recovery,
    pub(crate) progress: &'a mut dyn FnMut(RecoveryProgress),
}

/// What one place of the log holds.
enum Place {
    Record(usize),
    NextSegment,
    End,
    Damaged,
}

impl Replay<'_> {
    pub(crate) fn run(mut self, start: LogOffset) -> Result<LogOffset, StorageError> {
        let total = self.segments.last().map_or(0, |last| last.end()).saturating_sub(start.0);
        let mut end = start;
        for segment in self.segments {
            if segment.end() <= start.0 {
                continue;
            }
            let from = segment.base().max(start.0);
            let (reached, is_full) = self.run_segment(segment, from)?;
            end = LogOffset(reached);
            // Entries of one segment at a time are kept in memory.
            self.queues.values().try_for_each(|queue| queue.flush().map(|_| ()))?;
            (self.progress)(RecoveryProgress { done: reached - start.0, total });
            if !is_full {
                break;
            }
        }
        Ok(end)
    }

    /// Returns where the log goes on, and whether that is the next segment.
    fn run_segment(&mut self, segment: &Segment, from: u64) -> Result<(u64, bool), StorageError> {
        let mut window = Window::new(segment);
        let mut offset = from;
        while offset < segment.end() {
            match self.examine(&mut window, offset)? {
                Place::Record(size) => {
                    self.restore(window.at(offset, size)?)?;
                    offset += size as u64;
                }
                Place::NextSegment => return Ok((segment.end(), true)),
                Place::End => return Ok((offset, false)),
                Place::Damaged if offset >= self.durable.0 => return Ok((offset, false)),
                Place::Damaged => offset = self.pass_damage(&mut window, offset)?,
            }
        }
        Ok((offset, true))
    }

    fn examine(&self, window: &mut Window<'_>, offset: u64) -> Result<Place, StorageError> {
        let bytes = window.at(offset, record::FILLER_SIZE)?;
        Ok(match record::kind_at(bytes) {
            Ok(Kind::End) => Place::End,
            Ok(Kind::Filler) => Place::NextSegment,
            Ok(Kind::Record(size)) if is_whole(window.at(offset, size)?, offset) => Place::Record(size),
            Ok(Kind::Record(_)) | Err(_) => Place::Damaged,
        })
    }

    /// Steps over one damaged record whose size still leads to a whole one.
    fn pass_damage(&mut self, window: &mut Window<'_>, offset: u64) -> Result<u64, StorageError> {
        let path = window.segment.file().path().to_owned();
        if let Ok(Kind::Record(size)) = record::kind_at(window.at(offset, record::FILLER_SIZE)?) {
            let next = offset + size as u64;
            if next < window.segment.end() && !matches!(self.examine(window, next)?, Place::Damaged) {
                self.recovery.damaged.push(LogOffset(offset));
                let bytes = window.at(offset, size)?;
                if Record::decode(bytes).is_ok_and(|record| is_in_place(&record, offset)) {
                    // Only its body is damaged: it keeps its place, and is never served.
                    self.restore(bytes)?;
                }
                return Ok(next);
            }
        }
        let known = if self.recovery.was_clean {
            "although the last process stopped in good order".to_owned()
        } else {
            format!("below {}, where everything is known to have been on the disk", self.durable)
        };
        Err(StorageError::Damaged {
            path,
            problem: format!(
                "no whole record at log offset {offset}, {known}. Restore the file from a copy or a replica"
            ),
        })
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let Ok(record) = Record::decode(bytes) else { return Ok(()) };
        self.recovery.records += 1;
        if is_listed(&record) && record.log_offset >= self.entries_from {
            let tag_code = self.tag_code_of(&record);
            let key = (TopicName::trusted(record.topic), record.queue);
            let queue = self.queues.entry(key).or_insert_with_key(|(topic, queue)| (self.new_queue)(topic, *queue));
            let entry = Entry { log_offset: record.log_offset, size: record.size as u32, tag_code };
            queue.restore(record.queue_offset, entry)?;
        }
        if let Some(index) = self.key_index.filter(|_| record.log_offset >= self.keys_from && has_keys(&record)) {
            for key in keys_of(record.properties) {
                index.restore(key_hash(record.topic, key), record.log_offset, record.store_timestamp)?;
            }
        }
        Ok(())
    }

    /// The tag's code, or for a parked message the time it is due.
    fn tag_code_of(&self, record: &Record<'_>) -> i64 {
        if record.topic == DELAY_TOPIC {
            let level = record.property(names::DELAY).and_then(|level| level.parse::<usize>().ok()).unwrap_or_default();
            // A level above the highest means the highest, as when it was sent.
            let levels = &self.rules.delay_levels_ms;
            let delay_ms = level.checked_sub(1).and_then(|at| levels.get(at).or(levels.last())).copied();
            return record.store_timestamp.plus_ms(delay_ms.unwrap_or_default()).0 as i64;
        }
        record.property(names::TAGS).map_or(0, tag_code)
    }
}

/// Whether a record has an entry in its queue: halves of transactions have none.
pub(crate) const fn is_listed(record: &Record<'_>) -> bool {
    let state = record.system_flag & system_flag::TRANSACTION_MASK;
    state != system_flag::TRANSACTION_ROLLBACK && state != system_flag::TRANSACTION_PREPARED
}

/// Whether a record can be found by its keys.
pub(crate) const fn has_keys(record: &Record<'_>) -> bool {
    record.system_flag & system_flag::TRANSACTION_MASK != system_flag::TRANSACTION_ROLLBACK
}

/// Every key a message can be found by: its unique key, and each word of its keys.
pub(crate) fn keys_of(block: &[u8]) -> impl Iterator<Item = &str> {
    let unique = properties::find(block, names::UNIQUE_KEY);
    let words = properties::find(block, names::KEYS).unwrap_or_default();
    unique.into_iter().chain(words.split(' ')).filter(|key| !key.is_empty())
}

/// Whether `bytes` are a record that belongs at `offset`, all of it there. The CRC covers the body alone.
fn is_whole(bytes: &[u8], offset: u64) -> bool {
    Record::decode(bytes).is_ok_and(|record| is_in_place(&record, offset) && record.body_is_intact())
}

/// Whether everything but the body can be what was stored at `offset`.
///
/// A write that was cut short leaves zeroes behind, and neither a topic nor the end of a property block (0x02, always
/// written by Sluice) is ever zero. A topic names a folder, and only one below ours; queue and queue offset lead to a
/// file that can be.
pub(crate) fn is_in_place(record: &Record<'_>, offset: u64) -> bool {
    record.log_offset.0 == offset
        && !record.topic.contains(['\0', '/'])
        && !matches!(record.topic, "" | "." | "..")
        && record.queue.0 < QUEUES_PER_TOPIC_MAX
        && record.queue_offset.0 < QUEUE_OFFSET_MAX
        && record.properties.last() != Some(&0)
}
