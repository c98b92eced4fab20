//! The entries that records of the log have in a queue, for one whose files have lost them.

use std::collections::BTreeMap;
use std::ops::Range;

use base::LogOffset;
use format::queue_entry::Entry;
use format::record::{self, Kind, Record};

use super::CommitLog;
use crate::error::StorageError;
use crate::queue_index::{EntrySource, QueueIndex};

/// Bytes of the log that are read at most: some seconds.
const LISTED_SIZE_MAX: u64 = 1 << 30;

impl EntrySource for CommitLog {
    fn entries_of(
        &self,
        queue: &QueueIndex,
        part: Range<u64>,
        records: Range<LogOffset>,
    ) -> Result<Option<BTreeMap<u64, Entry>>, StorageError> {
        let has_end = records.end < LogOffset(u64::MAX);
        let bound = if has_end { self.watermarks.written() } else { self.watermarks.committed() };
        let (mut at, end) = (records.start.max(self.first()), records.end.min(bound));
        let limit = at.after(LISTED_SIZE_MAX);
        // Without an end there may be enough before the log's, but only behind something that is sure: not from the log's first on.
        if end > limit && (has_end || records.start <= self.first()) {
            return Ok(None);
        }
        let mut entries = BTreeMap::new();
        while at < end.min(limit) {
            let Some(head) = self.read_or_tell(at, record::LOG_OFFSET_WITHIN)? else { return Ok(None) };
            match record::kind_at(&head) {
                Ok(Kind::Filler(size)) => at = at.after(size.max(1) as u64),
                Ok(Kind::Record(size)) if at.after(size as u64) <= end => {
                    // What the disk cannot read, or is damaged, is in no queue.
                    if let Some(bytes) = self.read_or_tell(at, size)? {
                        self.list(queue, &part, (at, &bytes), &mut entries);
                    }
                    at = at.after(size as u64);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(entries))
    }
}

impl CommitLog {
    /// Adds the entries that a record has in a part of a queue. What it says of its places is in its body where it is routed.
    fn list(
        &self,
        queue: &QueueIndex,
        part: &Range<u64>,
        (at, bytes): (LogOffset, &[u8]),
        entries: &mut BTreeMap<u64, Entry>,
    ) {
        let Ok(record) = Record::decode(bytes) else { return };
        let indexed = self.index_rules.apply_to(&record);
        if record.log_offset != at || indexed.is_routed && !record.body_is_intact() {
            return;
        }
        for listing in indexed.listings(&record) {
            let is_of_queue = listing.queue == queue.queue() && listing.topic.as_str() == queue.topic().as_str();
            if is_of_queue && part.contains(&listing.offset.0) {
                let tag_code = listing.code.at(record.store_timestamp);
                entries.insert(listing.offset.0, Entry { log_offset: at, size: record.size as u32, tag_code });
            }
        }
    }
}
