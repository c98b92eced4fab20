//! Lanes of which something was written over where they end: the log is read again for them, from their last whole entry's record on.
//!
//! What of it cannot be read, or is damaged, is passed over and reported. Where messages of a lane may be missed by that, none of the offsets that
//! it may have given out is given out again, and entries that its files still have stay.

use std::collections::HashSet;
use std::ops::Range;

use base::{LogOffset, TopicName};
use format::index_rules::Listing;
use format::record::{self, Kind};

use super::restore::newest_of;
use super::{Content, Recovery, Replay};
use crate::disk::ASKED_AGAIN;
use crate::error::StorageError;
use crate::presence::{Presence, gone};
use crate::queue_files::Doubts;
use crate::queue_table::QueueTable;
use crate::segment::Segment;
use crate::window::Window;

/// Bytes of the log looked through for a record between two reports of progress.
const SEARCHED_AT_ONCE: u64 = 1 << 20;

impl<'a> Replay<'a> {
    /// Where reading for lanes in doubt begins: behind the first record that one of them is sure of.
    pub(super) fn doubted_from(&self) -> Option<LogOffset> {
        self.doubts.values().map(|doubt| doubt.from.unwrap_or_default()).min()
    }

    /// Reads what is before the start for lanes that are in doubt, as far as it can be read.
    pub(super) fn run_for_doubts(&mut self) -> Result<(), StorageError> {
        let Some(from) = self.doubted_from() else { return Ok(()) };
        let (segments, end_at) = (self.segments, self.end_at);
        self.end_at = self.start.min(end_at);
        for segment in segments {
            let until = segment.end().min(self.end_at.0);
            let mut next = Some(segment.base().max(from.0)).filter(|next| *next < until);
            if next == Some(from.0) && from.0 > segment.base() {
                next = self.doubts_begin(segment, from.0)?;
            }
            while let Some(from) = next.take() {
                let reached = self.run_as_far_as_readable(segment, from)?;
                // Also where damage seems to lead beyond.
                let bad = Some(reached).filter(|reached| *reached < until);
                if let Some(bad) = bad {
                    self.recovery.misses_records = true;
                    self.recovery.damaged.push(LogOffset(bad));
                    next = self.behind(segment, bad)?.filter(|next| *next < until);
                }
                self.flush_if_many()?;
            }
        }
        self.end_at = end_at;
        Ok(())
    }

    /// As `run_segment`, up to what is damaged or cannot be read, while the disk reads others.
    fn run_as_far_as_readable(&mut self, segment: &Segment, from: u64) -> Result<u64, StorageError> {
        let (mut from, mut asked) = (from, 0);
        loop {
            let error = match self.run_segment(segment, from) {
                Err(error) if error.is_unreadable() => error,
                outcome => return Ok(outcome?.0),
            };
            asked = if self.at == from { asked + 1 } else { 1 };
            if asked > ASKED_AGAIN {
                return Ok(self.at);
            }
            // As in `Presence::read_again`.
            if !self.presence().reads_others(LogOffset(self.at), 1) {
                return Err(gone(segment, error));
            }
            from = self.at;
        }
    }

    fn presence(&self) -> Presence<'a> {
        // After an orderly stop all is durable; nobody knows yet where that ends.
        let durable = self.durable.min(self.start);
        Presence { segments: self.segments, durable, written: durable }
    }

    /// Where reading begins within a segment. No record need begin at `from`, behind a lost message.
    fn doubts_begin(&mut self, segment: &Segment, from: u64) -> Result<Option<u64>, StorageError> {
        let is_record_there =
            self.doubts.values().any(|doubt| doubt.from == Some(LogOffset(from)) && !doubt.is_behind_lost);
        if is_record_there || self.is_record(&mut Window::new(segment), from)? {
            return Ok(Some(from));
        }
        self.recovery.misses_records = true;
        self.behind(segment, from)
    }

    /// Whether a whole record, or the segment's last bytes, begin at `offset`.
    fn is_record(&self, window: &mut Window<'_>, offset: u64) -> Result<bool, StorageError> {
        if offset >= window.segment.end() {
            return Ok(false);
        }
        let content = match self.examine(window, offset) {
            Err(error) if error.is_unreadable() => {
                let again = self.presence().read_again((LogOffset(offset), 1), || self.examine(window, offset));
                again.map_err(|error| gone(window.segment, error))?
            }
            outcome => Some(outcome?),
        };
        Ok(matches!(content, Some(Content::Record(_) | Content::NextSegment)))
    }

    /// Where the log goes on behind what cannot be read, or is no record: where its size leads to one, else at the next whole one that is found.
    fn behind(&mut self, segment: &Segment, offset: u64) -> Result<Option<u64>, StorageError> {
        let mut window = Window::new(segment);
        let size = match window.at(offset, record::FILLER_SIZE).map(record::kind_at) {
            Ok(Ok(Kind::Record(size))) => size as u64,
            Err(error) if !error.is_unreadable() => return Err(error),
            _ => 0,
        };
        let next = offset + size;
        if size > 0
            && next < segment.end()
            && (self.says_it_is(&mut window, next) || self.is_record(&mut window, next)?)
        {
            return Ok(Some(next));
        }
        let (mut from, end) = (offset + 1, segment.end().min(self.end_at.0));
        while from < end {
            let until = end.min(from + SEARCHED_AT_ONCE);
            let found = window.search(
                from..until,
                |window, at| self.is_record(window, at),
                |window, at, size| {
                    let again = || window.at(at, size).map(drop);
                    Ok(self.presence().read_again((LogOffset(at), size), again)?.is_none())
                },
            );
            if let Some(found) = found.map_err(|error| gone(segment, error))? {
                return Ok(Some(found));
            }
            self.tell(until);
            from = until;
        }
        Ok(None)
    }

    /// Whether a record, perhaps a damaged one, says that it is at `offset`.
    fn says_it_is(&self, window: &mut Window<'_>, offset: u64) -> bool {
        let head = window.at(offset, record::LOG_OFFSET_WITHIN);
        head.is_ok_and(|head| record::has_record_magic(head) && record::log_offset_of(head) == Some(LogOffset(offset)))
    }

    /// Whether the queue of a listing is in doubt about it.
    pub(super) fn doubts(&self, listing: &Listing<'_>, record: LogOffset) -> bool {
        let (topic, lane) = (TopicName::trusted(listing.topic.as_str()), listing.queue);
        // One that was removed does not come back.
        let is_there = self.queues.get(topic.as_str(), lane).is_some();
        is_there && self.doubts.get(&(topic, lane)).is_some_and(|doubt| doubt.from.is_none_or(|from| record >= from))
    }
}

/// Gives lanes the ends that they are to have, whatever the log lacks of them. `log` is what is committed of it; below `sure` queues had their
/// entries.
pub(crate) fn settle_lanes(
    queues: &QueueTable,
    doubts: &Doubts,
    recovery: &Recovery,
    (log, sure): (Range<LogOffset>, LogOffset),
) -> Result<(), StorageError> {
    keep_damaged(queues, &recovery.damaged, log.end)?;
    let misses_records = recovery.misses_records || !recovery.damaged.is_empty();
    settle_doubts(queues, doubts, misses_records, (log, sure))
}

/// Lanes go on behind records that are damaged, so that nobody knows in which lanes they are, if their files list them. What is not committed, from
/// `committed` on, keeps none.
fn keep_damaged(queues: &QueueTable, damaged: &[LogOffset], committed: LogOffset) -> Result<(), StorageError> {
    let damaged: HashSet<LogOffset> = damaged.iter().copied().filter(|offset| *offset < committed).collect();
    if damaged.is_empty() {
        return Ok(());
    }
    let mut lanes =
        queues.iter().filter(|queue| queue.message_queue().is_some() && queue.appended_end() == queue.end());
    lanes.try_for_each(|lane| lane.keep_listed(|entry| damaged.contains(&entry.log_offset)))
}

/// Lanes that were in doubt have what the log says by now. Where it may lack messages of theirs, since it misses records or has lost its beginning,
/// none of the offsets that their files may have had is given out again.
fn settle_doubts(
    queues: &QueueTable,
    doubts: &Doubts,
    misses_records: bool,
    (log, sure): (Range<LogOffset>, LogOffset),
) -> Result<(), StorageError> {
    for ((topic, lane), doubt) in doubts {
        let Some(queue) = queues.get(topic.as_str(), *lane) else { continue };
        let may_be_gone = doubt.from.unwrap_or_default() < log.start && queue.end() <= doubt.whole_end;
        let is_committed = queue.appended_end() == queue.end();
        if (misses_records || may_be_gone) && is_committed && queue.end() < doubt.end {
            // As of records that are there, and below `sure` where it can be: those beyond are none for a start that a crash of this one leads to.
            let is_newer = newest_of(queue)?.is_some_and(|newest| newest >= sure);
            let end = if is_newer { log.end } else { log.end.min(sure) };
            queue.go_on_at(doubt.end, LogOffset(end.0.saturating_sub(1)))?;
        }
    }
    Ok(())
}
