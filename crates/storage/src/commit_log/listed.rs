//! The entries that records of the log have in a queue, for one whose files have lost them.

use std::ops::Range;

use base::LogOffset;
use format::queue_entry::Entry;
use format::record::{self, Kind, Record};
use format::routed::may_have_been_routed;

use super::CommitLog;
use crate::error::StorageError;
use crate::queue_index::{EntrySource, Listed, QueueIndex};

/// Bytes of the log that are read at most: some seconds.
pub(crate) const LISTED_SIZE_MAX: u64 = 1 << 30;

impl EntrySource for CommitLog {
    fn entries_of(
        &self,
        queue: &QueueIndex,
        part: Range<u64>,
        records: Range<LogOffset>,
    ) -> Result<Option<Listed>, StorageError> {
        let has_end = records.end < LogOffset(u64::MAX);
        let bound = if has_end { self.watermarks.written() } else { self.watermarks.committed() };
        let (mut at, end) = (records.start.max(self.first()), records.end.min(bound));
        let limit = at.after(LISTED_SIZE_MAX);
        // Without an end there may be enough before the log's, but only behind something that is sure: not from the log's first on.
        if end > limit && (has_end || records.start <= self.first()) {
            return Ok(None);
        }
        let mut listed = Listed::default();
        while at < end.min(limit) {
            let Some(head) = self.read_or_tell(at, record::LOG_OFFSET_WITHIN)? else { return Ok(None) };
            match record::kind_at(&head) {
                Ok(Kind::Filler(size)) => at = at.after(size.max(1) as u64),
                Ok(Kind::Record(size)) if at.after(size as u64) <= end => {
                    let bytes = self.read_or_tell(at, size)?;
                    let is_whole = bytes.is_some_and(|bytes| self.list(queue, &part, (at, &bytes), &mut listed));
                    listed.misses_records |= !is_whole;
                    at = at.after(size as u64);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(listed))
    }
}

impl CommitLog {
    /// Adds the entries that a record has in a part of a queue; `false` if it may have had others, and is damaged. What it says of its places is
    /// in its body where it is routed.
    fn list(
        &self,
        queue: &QueueIndex,
        part: &Range<u64>,
        (at, bytes): (LogOffset, &[u8]),
        listed: &mut Listed,
    ) -> bool {
        let Ok(record) = Record::decode(bytes) else { return false };
        let indexed = self.index_rules.apply_to(&record);
        if record.log_offset != at || indexed.is_routed && !record.body_is_intact() {
            return false;
        }
        for listing in indexed.listings(&record) {
            let is_of_queue = listing.queue == queue.queue() && listing.topic.as_str() == queue.topic().as_str();
            if is_of_queue && part.contains(&listing.offset.0) {
                let tag_code = listing.code.at(record.store_timestamp);
                let entry = Entry { log_offset: at, size: record.size as u32, tag_code };
                listed.entries.insert(listing.offset.0, entry);
            }
        }
        !may_have_been_routed(record.topic.as_bytes(), record.system_flag)
    }
}
