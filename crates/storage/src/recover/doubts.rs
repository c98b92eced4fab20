//! Lanes of which something was written over where they end: the log is read again for them, from their last whole entry's record on.
//!
//! What of it cannot be read, or is damaged, is passed over and reported. Where messages of a lane may be missed by that, none of the offsets that
//! it may have given out is given out again, and entries that its files still have stay.

use std::ops::Range;

use base::{LogOffset, TopicName};
use format::index_rules::Listing;
use format::record::{self, Kind};

use super::restore::newest_of;
use super::{Content, Replay};
use crate::error::StorageError;
use crate::queue_files::Doubts;
use crate::queue_table::QueueTable;
use crate::segment::Segment;
use crate::window::Window;

impl Replay<'_> {
    /// Where the first record is that a lane is in doubt about.
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
            let mut next = self.doubts_begin(segment, from).filter(|next| *next < until);
            while let Some(from) = next.take() {
                let reached = match self.run_segment(segment, from) {
                    Err(error) if error.is_unreadable() => self.at,
                    outcome => outcome?.0,
                };
                // Also where damage seems to lead beyond.
                let bad = Some(reached).filter(|reached| *reached < until);
                if let Some(bad) = bad {
                    *self.misses_records = true;
                    self.recovery.damaged.push(LogOffset(bad));
                    next = self.behind(segment, bad).filter(|next| *next < until);
                }
                self.flush_if_many()?;
            }
        }
        self.end_at = end_at;
        Ok(())
    }

    /// Where reading a segment begins. The last entry of a lane may stand for a lost message: it lies where no record begins.
    fn doubts_begin(&mut self, segment: &Segment, from: LogOffset) -> Option<u64> {
        if from.0 <= segment.base() || from.0 >= segment.end() || self.is_record(&mut Window::new(segment), from.0) {
            return Some(segment.base().max(from.0));
        }
        *self.misses_records = true;
        self.behind(segment, from.0)
    }

    fn is_record(&self, window: &mut Window<'_>, offset: u64) -> bool {
        offset < window.segment.end()
            && matches!(self.examine(window, offset), Ok(Content::Record(_) | Content::NextSegment))
    }

    /// Where the log goes on behind what cannot be read, or is no record: where its size leads to a whole one, else at the next that is found.
    fn behind(&self, segment: &Segment, offset: u64) -> Option<u64> {
        let mut window = Window::new(segment);
        let size = match window.at(offset, record::FILLER_SIZE).map(record::kind_at) {
            Ok(Ok(Kind::Record(size))) => size as u64,
            _ => 0,
        };
        let next = Some(offset + size).filter(|next| size > 0 && self.is_record(&mut window, *next));
        next.or_else(|| window.search(offset + 1, |window, at| self.is_record(window, at)))
    }

    /// Whether the queue of a listing is in doubt about it.
    pub(super) fn doubts(&self, listing: &Listing<'_>, record: LogOffset) -> bool {
        let (topic, lane) = (TopicName::trusted(listing.topic.as_str()), listing.queue);
        // One that was removed does not come back.
        let is_there = self.queues.get(topic.as_str(), lane).is_some();
        is_there && self.doubts.get(&(topic, lane)).is_some_and(|doubt| doubt.from.is_none_or(|from| record >= from))
    }
}

/// Lanes that were in doubt have what the log says by now. Where it may lack messages of theirs, since it misses records or has lost its beginning,
/// none of the offsets that their files may have had is given out again. `log` is what is committed of it; below `sure` queues had their entries.
pub(crate) fn settle_doubts(
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
