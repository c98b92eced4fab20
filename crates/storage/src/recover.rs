//! Opens what is on the disk, whoever wrote it and however it stopped.
//!
//! The log is read from the checkpoint, below which log and entries are known to be durable, to its end. This table says what is
//! done about the bytes at one log offset; what operators see of it is in `docs/operating.md`.
//!
//! | at the log offset           | below durable               | above durable, killed     | above durable, power cut |
//! |-----------------------------|-----------------------------|---------------------------|--------------------------|
//! | whole record                | keep, restore its entry     | keep, restore its entry   | the same                 |
//! | filler                      | go on with the next segment | the same                  | the same                 |
//! | filler of a wrong size      | go on with the next segment | truncate the log here     | the same                 |
//! | zeroes                      | refuse to open              | end of the log            | the same                 |
//! | damaged, next record whole  | keep its entry, report it   | keep its entry, report it | truncate the log here    |
//! | damaged, next record too    | refuse to open              | truncate the log here     | the same                 |
//! | unreadable                  | refuse to open              | the same                  | the same                 |
//!
//! Below durable, zeroes are damage like any other, and lead to no next record. After an orderly stop everything counts as durable,
//! except that zeroes above the checkpoint are the end: a Java broker may have written there.
//!
//! Missing and short segments are dealt with in `recover/segments.rs`.
//!
//! Above durable, a power cut may leave a record whole and not the one before it. A killed process may have been interrupted at the last
//! one, and leaves no damage before it: the boot ID tells the two apart. Everything after the end is cleared, so that old bytes are never
//! taken for records; so are entries that point beyond it.

mod doubts;
mod rebuild;
mod removed;
mod restore;
mod segments;
mod state;

use std::path::PathBuf;
use std::sync::Arc;

use base::{LogOffset, QueueId, Timestamp, TopicName};
use format::index_rules::{IndexRules, is_in_place};
use format::record::{self, Kind, Parts, Record};

use crate::checkpoint::Checkpoint;
use crate::damage::problem_of;
use crate::error::StorageError;
use crate::key_index::KeyIndex;
use crate::presence::{Presence, gone};
use crate::queue_files::{Doubts, Ends};
use crate::queue_index::QueueIndex;
use crate::queue_table::QueueTable;
use crate::segment::Segment;
use crate::state::StateReplay;
use crate::window::Window;
pub(crate) use doubts::settle_lanes;
pub(crate) use rebuild::Rebuild;
pub(crate) use removed::Removed;
pub(crate) use restore::{Unpublished, tell_state_lost};
pub use segments::log_begins;
pub(crate) use segments::open_segments;
pub use state::replay_state;

/// Java brokers may lag this much behind their checkpoint's times.
const CHECKPOINT_SLACK_MS: u64 = 3000;

/// Bytes of the log read between two reports of progress: less than a slow disk reads in a second.
const PROGRESS_SIZE: u64 = 16 * 1024 * 1024;

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
    /// Bytes truncated from the end of the log: written, never promised.
    pub truncated_bytes: u64,
    /// Log offsets of damaged records; they are not served.
    pub damaged: Vec<LogOffset>,
    /// There may be records of which nobody knows in which queues they were, beside the damaged ones.
    pub(crate) misses_records: bool,
    /// Whole segments after the end of the log, set aside.
    pub set_aside: Vec<PathBuf>,
    /// Unusable files of queue entries or keys, set aside; their contents are rebuilt from the log.
    pub unusable: Vec<PathBuf>,
    /// Whether all queue entries were rebuilt from the log.
    pub entries_made_again: bool,
    /// Queues of removed topics that were found, and removed.
    pub removed_queues: u64,
    /// Whether the last process stopped in good order.
    pub was_clean: bool,
    /// Whether the boot ID is still that of the last process: all it wrote is there, synced or not.
    pub runs_on: bool,
}

/// Puts queues in the order of their names.
pub(crate) fn sort(queues: &mut [Arc<QueueIndex>]) {
    queues.sort_unstable_by(|one, other| (one.topic(), one.queue()).cmp(&(other.topic(), other.queue())));
}

/// Where reading the log must begin: below, log and queue entries are known to be on the disk.
pub fn replay_start(
    segments: &[Arc<Segment>],
    checkpoint: &Checkpoint,
    was_clean: bool,
) -> Result<LogOffset, StorageError> {
    let first = segments.first().map_or(0, |segment| segment.base());
    let last = segments.last().map_or(0, |segment| segment.end());
    if let Some(indexed) = checkpoint.indexed {
        return Ok(LogOffset(indexed.0.clamp(first, last)));
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

fn start_of_last_with_data(segments: &[Arc<Segment>]) -> Result<u64, StorageError> {
    for segment in segments.iter().rev() {
        if first_store_time(segment)?.is_some() {
            return Ok(segment.base());
        }
    }
    Ok(segments.first().map_or(0, |segment| segment.base()))
}

/// Whether there is a record at a log offset, or what is left of one.
pub(crate) fn has_record_at(segments: &[Arc<Segment>], offset: LogOffset) -> Result<bool, StorageError> {
    let Some(segment) = segments.iter().find(|segment| segment.contains(offset.0)) else { return Ok(false) };
    let mut window = Window::new(segment);
    Ok(!matches!(record::kind_at(window.at(offset.0, record::FILLER_SIZE)?), Ok(Kind::End)))
}

/// When the first record of a segment was stored; `None` if it has none, or the disk cannot read it back.
pub(crate) fn first_store_time(segment: &Segment) -> Result<Option<Timestamp>, StorageError> {
    let mut bytes = [0; record::STORE_TIMESTAMP_WITHIN];
    if !is_read(segment.file().read_at(&mut bytes, 0))? {
        return Ok(None);
    }
    Ok(match record::kind_at(&bytes) {
        Ok(Kind::Record(_)) => record::store_timestamp_of(&bytes),
        _ => None,
    })
}

/// When the newest segment that has records below `end` began: a lower bound is all a checkpoint's time needs to be.
pub(crate) fn last_store_time(segments: &[Arc<Segment>], end: LogOffset) -> Result<Timestamp, StorageError> {
    for segment in segments.iter().rev().filter(|segment| segment.base() < end.0) {
        if let Some(time) = first_store_time(segment)? {
            return Ok(time);
        }
    }
    Ok(Timestamp(0))
}

/// Reads the log from `start` on, restoring entries and keys of what is committed, and returns its end.
pub(crate) struct Replay<'a> {
    pub(crate) segments: &'a [Arc<Segment>],
    /// Where to begin.
    pub(crate) start: LogOffset,
    /// Where to stop at the latest: before the record that goes beyond.
    pub(crate) end_at: LogOffset,
    pub(crate) durable: LogOffset,
    /// The log had records up to here, so zeroes below are damage and not its end.
    pub(crate) end_from: LogOffset,
    /// Below this, queues have their entries; those of removed topics must not come back.
    pub(crate) entries_from: LogOffset,
    /// But for these.
    pub(crate) doubts: &'a Doubts,
    /// Their records get no entries.
    pub(crate) removed: &'a Removed,
    pub(crate) keys_from: LogOffset,
    /// What goes beyond this is noted in `unpublished` instead of being restored.
    pub(crate) committed: LogOffset,
    pub(crate) unpublished: &'a mut Unpublished,
    pub(crate) rules: &'a IndexRules,
    pub(crate) record_checksums: bool,
    /// Entries of all queues that may gather in memory before they are written to their files.
    pub(crate) gathered_entries: u64,
    pub(crate) key_index: Option<&'a KeyIndex>,
    pub(crate) queues: &'a mut QueueTable,
    pub(crate) written_ends: &'a mut Ends,
    pub(crate) state: &'a mut dyn StateReplay,
    pub(crate) new_queue: &'a dyn Fn(&TopicName, QueueId) -> Arc<QueueIndex>,
    pub(crate) recovery: &'a mut Recovery,
    pub(crate) progress: &'a mut dyn FnMut(RecoveryProgress),
    /// Nothing is appended meanwhile: queues go on where the log ends.
    pub(crate) is_opening: bool,
    /// The record that is looked at.
    pub(crate) at: u64,
}

/// What the log holds at one offset.
enum Content {
    Record(usize),
    NextSegment,
    End,
    Damaged,
}

/// Why reading a segment came no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The log goes on in the next segment.
    NextSegment,
    /// The log ends, or a record goes beyond where to stop.
    End,
    /// There is no whole record, and nothing leads to one.
    Damage,
}

impl Replay<'_> {
    pub(crate) fn run(mut self) -> Result<LogOffset, StorageError> {
        self.run_for_doubts()?;
        let mut end = self.start;
        for segment in self.segments {
            if segment.end() <= self.start.0 {
                continue;
            }
            let from = segment.base().max(self.start.0);
            let (reached, stop) = self.run_segment(segment, from).map_err(|error| unreadable(segment, error))?;
            if stop == Stop::Damage {
                return Err(self.no_whole_record(segment, reached));
            }
            end = LogOffset(reached);
            self.flush_if_many()?;
            self.tell(reached);
            if stop == Stop::End {
                break;
            }
        }
        Ok(end)
    }

    /// Writes entries into files if more have gathered than may stay in memory.
    fn flush_if_many(&self) -> Result<(), StorageError> {
        let mut queues: Vec<_> = self.queues.iter().filter(|queue| queue.unflushed_count() > 0).cloned().collect();
        if queues.iter().map(|queue| queue.unflushed_count()).sum::<u64>() <= self.gathered_entries {
            return Ok(());
        }
        sort(&mut queues);
        queues.iter().try_for_each(|queue| queue.flush(0))
    }

    /// Reports that everything below `reached` was read.
    fn tell(&mut self, reached: u64) {
        let begin = self.doubted_from().map_or(self.start, |from| from.min(self.start));
        let begin = begin.0.max(self.segments.first().map_or(0, |first| first.base()));
        let total = self.segments.last().map_or(0, |last| last.end()).saturating_sub(begin);
        (self.progress)(RecoveryProgress { done: reached.saturating_sub(begin), total });
    }

    /// Returns where the log goes on, and why not in this segment. An error says `is_unreadable` only if the segment is.
    fn run_segment(&mut self, segment: &Segment, from: u64) -> Result<(u64, Stop), StorageError> {
        let mut window = Window::new(segment);
        let (mut offset, mut told) = (from, from);
        while offset < segment.end().min(self.end_at.0) {
            self.at = offset;
            if offset - told >= PROGRESS_SIZE {
                told = offset;
                self.tell(offset);
            }
            match self.examine(&mut window, offset)? {
                Content::Record(size) if offset + size as u64 > self.end_at.0 => return Ok((offset, Stop::End)),
                Content::Record(size) => {
                    self.take_in(window.at(offset, size)?)?;
                    offset += size as u64;
                }
                Content::NextSegment if segment.end() > self.end_at.0 => return Ok((offset, Stop::End)),
                Content::NextSegment => return Ok((segment.end(), Stop::NextSegment)),
                Content::End if offset >= self.end_from.0 => return Ok((offset, Stop::End)),
                Content::Damaged if offset >= self.durable.0 && !self.is_followed(&mut window, offset)? => {
                    return Ok((offset, Stop::End));
                }
                Content::End | Content::Damaged => match self.next_after_damaged(&mut window, offset)? {
                    None => return Ok((offset, Stop::Damage)),
                    Some(next) if next > self.end_at.0 => return Ok((offset, Stop::End)),
                    Some(next) => {
                        self.take_damaged(window.at(offset, (next - offset) as usize)?, offset)?;
                        offset = next;
                    }
                },
            }
        }
        Ok((offset, if offset == segment.end() { Stop::NextSegment } else { Stop::End }))
    }

    fn examine(&self, window: &mut Window<'_>, offset: u64) -> Result<Content, StorageError> {
        let bytes = window.at(offset, record::FILLER_SIZE)?;
        Ok(match record::kind_at(bytes) {
            Ok(Kind::End) => Content::End,
            // A power cut may have left half of it.
            Ok(Kind::Filler(size)) if offset >= self.durable.0 && offset + size as u64 != window.segment.end() => {
                Content::Damaged
            }
            Ok(Kind::Filler(_)) => Content::NextSegment,
            Ok(Kind::Record(size)) if self.is_whole(window.at(offset, size)?, offset) => Content::Record(size),
            Ok(Kind::Record(_)) | Err(_) => Content::Damaged,
        })
    }

    /// Whether `bytes` are a record that belongs at `offset`, all of it there.
    fn is_whole(&self, bytes: &[u8], offset: u64) -> bool {
        Parts::split(bytes).is_ok_and(|parts| {
            is_in_place(&parts, offset) && problem_of(bytes, &parts, LogOffset(offset), self.record_checksums).is_none()
        })
    }

    /// Whether a whole record, or the rest of the segment, was written behind a damaged one, so that this is not where a killed process was
    /// interrupted. What a power cut leaves does not tell: it may have kept what was written later.
    fn is_followed(&self, window: &mut Window<'_>, offset: u64) -> Result<bool, StorageError> {
        if !self.recovery.runs_on {
            return Ok(false);
        }
        let next = self.next_after_damaged(window, offset)?.filter(|next| *next < window.segment.end());
        next.map_or(Ok(false), |next| Ok(!matches!(self.examine(window, next)?, Content::End)))
    }

    /// Takes in what is left of a damaged record.
    fn take_damaged(&mut self, bytes: &[u8], offset: u64) -> Result<(), StorageError> {
        self.recovery.damaged.push(LogOffset(offset));
        if Parts::split(bytes).is_ok_and(|parts| is_in_place(&parts, offset) && !parts.body_is_intact()) {
            // Only its body is damaged: it keeps its entry, and is never served.
            self.take_in(bytes)?;
        }
        Ok(())
    }

    fn no_whole_record(&self, segment: &Segment, offset: u64) -> StorageError {
        let known = if self.recovery.was_clean {
            "although the last process stopped in good order".to_owned()
        } else {
            format!("below {}, where everything is known to have been on the disk", self.durable)
        };
        StorageError::Damaged {
            path: segment.file().path().to_owned(),
            problem: format!(
                "no whole record at log offset {offset}, {known}. Restore the file from a copy or a replica, or move it and all later segments away to go on without them"
            ),
        }
    }

    /// The sizes that a damaged record may have, of which it reads no more than that takes.
    fn sizes_of_damaged(&self, window: &mut Window<'_>, offset: u64) -> Result<[Option<usize>; 2], StorageError> {
        let head_size = record::BODY_LENGTH_WITHIN;
        let parts_size = record::parts_size_of_damaged(window.at(offset, head_size)?).max(head_size);
        let sizes = match window.at(offset, parts_size).map(record::sizes_of_damaged) {
            // What is behind the head may be another record's.
            Err(error) if error.is_unreadable() => record::sizes_of_damaged(window.at(offset, head_size)?),
            outcome => outcome?,
        };
        Ok(sizes)
    }

    /// Where the log goes on after a damaged record: at the nearest whole record, or else at the log's end.
    fn next_after_damaged(&self, window: &mut Window<'_>, offset: u64) -> Result<Option<u64>, StorageError> {
        let mut end = None;
        for size in self.sizes_of_damaged(window, offset)?.into_iter().flatten() {
            let next = offset + size as u64;
            if next == window.segment.end() {
                // Only a filler reaches that far.
                return Ok(Some(next));
            }
            if next < window.segment.end() {
                match self.examine(window, next)? {
                    Content::Record(_) | Content::NextSegment => return Ok(Some(next)),
                    Content::End if next >= self.end_from.0 => end = end.or(Some(next)),
                    Content::End | Content::Damaged => {}
                }
            }
        }
        Ok(end)
    }
}

/// Adds to an error what to do about an unreadable segment.
fn unreadable(segment: &Segment, error: StorageError) -> StorageError {
    if !error.is_unreadable() {
        return error;
    }
    StorageError::Damaged {
        path: segment.file().path().to_owned(),
        problem: format!(
            "it cannot be read back ({error}). Restore the file from a copy, or move it and all later segments away to go on without them"
        ),
    }
}

/// Whether a read succeeded; `false` if the disk cannot read these bytes.
fn is_read(outcome: Result<(), StorageError>) -> Result<bool, StorageError> {
    match outcome {
        Err(error) if error.is_unreadable() => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

/// Reads what may be the record at `offset`; `None` if it cannot be one, or lies before the first segment.
pub(crate) fn bytes_at(segments: &[Arc<Segment>], offset: LogOffset) -> Result<Option<Vec<u8>>, StorageError> {
    let Some(segment) = segments.iter().find(|segment| segment.contains(offset.0)) else { return Ok(None) };
    if offset.0 + record::FILLER_SIZE as u64 > segment.end() {
        return Ok(None);
    }
    let mut bytes = vec![0; record::FILLER_SIZE];
    segment.file().read_at(&mut bytes, segment.position(offset))?;
    match record::kind_at(&bytes) {
        Ok(Kind::Record(size)) if offset.0 + size as u64 <= segment.end() => {
            bytes.resize(size, 0);
            segment.file().read_at(&mut bytes, segment.position(offset))?;
            Ok(Some(bytes))
        }
        _ => Ok(None),
    }
}

/// Whether the record at `offset` has a key of this hash; `true` also where the disk cannot read it, `false` where the log has nothing there.
pub(crate) fn has_key(
    presence: &Presence<'_>,
    rules: &IndexRules,
    offset: LogOffset,
    hash: u32,
) -> Result<bool, StorageError> {
    let segments = presence.segments;
    let Some(segment) = segments.iter().find(|segment| segment.contains(offset.0)) else { return Ok(false) };
    let read = presence.read_again((offset, 1), || bytes_at(segments, offset));
    let Some(bytes) = read.map_err(|error| gone(segment, error))? else { return Ok(true) };
    let record = bytes.as_deref().and_then(|bytes| Record::decode(bytes).ok());
    Ok(record.is_some_and(|record| rules.apply_to(&record).key_hashes().any(|own| own == hash)))
}
