//! Segments of the log: which records go into which, created ahead of time, found by log offset, removed from the front.

use std::sync::Arc;

use base::LogOffset;
use bytes::Bytes;
use format::record::{self, FILLER_SIZE};

use super::{CommitLog, Tail};
use crate::batch::BatchRecord;
use crate::error::StorageError;
use crate::reserve::check_free_space;
use crate::segment::Segment;

impl CommitLog {
    /// Which records begin a new segment, as (record number, base offset). Creates those segments.
    pub(super) fn plan(&self, tail: &mut Tail, records: &[BatchRecord]) -> Result<Vec<(usize, u64)>, StorageError> {
        let mut plan = Vec::new();
        let mut offset = tail.next;
        for (number, record) in records.iter().enumerate() {
            let size = u64::from(record.size);
            let limit = self.record_size_max();
            if record.size as usize > limit {
                return Err(StorageError::RecordTooLarge { size: record.size as usize, limit });
            }
            let segment_end = (offset / self.segment_size + 1) * self.segment_size;
            if offset + size + FILLER_SIZE as u64 > segment_end {
                offset = segment_end;
                plan.push((number, segment_end));
            }
            while tail.prepared_until < offset + size {
                tail.prepared_until = self.make_segment(tail.prepared_until)?.end();
            }
            offset += size;
        }
        Ok(plan)
    }

    /// The segment that begins at `base`, created if it is missing. One thread at a time: one that fails removes the file it began,
    /// which must not be another's.
    pub(super) fn make_segment(&self, base: u64) -> Result<Arc<Segment>, StorageError> {
        let mut made_until = self.made_until.lock();
        if base < *made_until {
            return self.segment_at(base);
        }
        let _not_released = self.reserve.hold()?;
        // Checked first: trying would take the last free space from others for a moment, at every append.
        check_free_space(&self.disk, &self.directory, self.segment_size, "the next segment of the log")?;
        let segment = Arc::new(Segment::open(&self.disk, &self.directory, base, self.segment_size)?);
        self.segments.write().push(segment.clone());
        *made_until = segment.end();
        Ok(segment)
    }

    /// Creates the next segment if the current one is more than half full, so that no append has to wait for it.
    pub(crate) fn prepare_next_segment(&self) -> Result<(), StorageError> {
        let next = self.tail.lock().next;
        let made_until = *self.made_until.lock();
        if next + self.segment_size / 2 < made_until {
            return Ok(());
        }
        // Outside the append lock: an append waits only if it needs this very segment.
        let segment = match self.make_segment(made_until) {
            // The log begins elsewhere by now.
            Err(_) if self.first().0 > made_until => return Ok(()),
            made => made?,
        };
        // File name and metadata are synced now, so that the first sync of records has less to do. A failed sync is reported by the
        // kernel once only, and this file is part of the log already: it poisons.
        segment.file().sync_data().inspect_err(|error| self.poison(error))
    }

    pub(super) fn segment_at(&self, offset: u64) -> Result<Arc<Segment>, StorageError> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.base() <= offset);
        let found = after.checked_sub(1).and_then(|at| segments.get(at)).filter(|segment| segment.contains(offset));
        found.cloned().ok_or_else(|| StorageError::Damaged {
            path: self.directory.clone(),
            problem: format!("no segment holds log offset {offset}"),
        })
    }

    /// All segments, oldest first; the one being written is the last with data.
    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().clone()
    }

    /// Removes the oldest segment if it ends at or before `below`. Returns its size in bytes. If the removal fails it stays the
    /// oldest.
    pub(crate) fn remove_oldest(&self, below: LogOffset) -> Result<Option<u64>, StorageError> {
        let oldest = match &self.segments.read()[..] {
            [first, _, ..] if first.end() <= below.0 => first.clone(),
            _ => return Ok(None),
        };
        // Makes sure that the removal before is durable, whose own sync may have failed: a segment that came back after a power cut
        // would be followed by a gap.
        self.disk.sync_directory(&self.directory)?;
        self.disk.remove_file(oldest.file().path())?;
        self.segments.write().retain(|segment| segment.base() != oldest.base());
        self.metrics.segments_deleted.add(1);
        self.metrics.log_first_bytes.set(self.first().0);
        self.disk.sync_directory(&self.directory)?;
        Ok(Some(oldest.end() - oldest.base()))
    }
}

/// Splits a batch where it crosses into new segments, with fillers before them.
pub(super) fn pieces(records: &[BatchRecord], bytes: &Bytes, start: u64, plan: &[(usize, u64)]) -> Vec<(u64, Bytes)> {
    let mut pieces = Vec::with_capacity(1 + 2 * plan.len());
    let mut from = 0_usize;
    let mut offset = start;
    for (number, base) in plan {
        let to = records.get(*number).map_or(bytes.len(), |record| record.start as usize);
        if to > from {
            pieces.push((offset, bytes.slice(from..to)));
        }
        let filler_at = offset + (to - from) as u64;
        if filler_at < *base {
            let filler = record::filler((base - filler_at) as usize);
            pieces.push((filler_at, Bytes::copy_from_slice(&filler)));
        }
        from = to;
        offset = *base;
    }
    pieces.push((offset, bytes.slice(from..)));
    pieces
}
