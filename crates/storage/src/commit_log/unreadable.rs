//! Records that the disk cannot read: whether they are damaged, or the disk is gone for a while.
//!
//! **Always holds**: a record is passed over, and told of as damaged, only while the disk reads others.

use std::sync::atomic::Ordering;

use base::LogOffset;
use bytes::Bytes;

use super::CommitLog;
use crate::error::StorageError;
use crate::store::ReadMode;

/// Where a record cannot be read, a byte at so many places of its segment is tried.
const PLACES_TRIED: u64 = 5;

impl CommitLog {
    /// Bytes of the record at `offset`; `None` if the disk cannot read them but others, which is reported.
    pub(super) fn read_or_tell(&self, offset: LogOffset, size: usize) -> Result<Option<Bytes>, StorageError> {
        self.unless_unreadable(offset, || self.read_bytes(offset.0, size, ReadMode::MayWait))
    }

    /// What `read` reads of the record at `offset`, asked twice, since it may fail in passing; `None` as in `read_or_tell`.
    pub(super) fn unless_unreadable<T>(
        &self,
        offset: LogOffset,
        mut read: impl FnMut() -> Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        match read().or_else(|error| if error.is_unreadable() { read() } else { Err(error) }) {
            Err(error) if error.is_unreadable() && self.reads_elsewhere(offset) => {
                self.tell_damage(offset, &error.to_string());
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Whether the disk reads most of some places of the segment that holds `offset`.
    fn reads_elsewhere(&self, offset: LogOffset) -> bool {
        let written = self.in_segments.load(Ordering::Acquire);
        let Ok(segment) = self.segment_at(offset.0) else { return true };
        let size = segment.end().min(written).saturating_sub(segment.base());
        let reads = |place: u64| {
            let mut byte = Vec::new();
            segment.file().read_into(&mut byte, 1, size / PLACES_TRIED * place, true).is_ok()
        };
        let (mut read, mut failed) = (0, 0);
        (0..PLACES_TRIED).any(|place| {
            if reads(place) {
                read += 1
            } else {
                failed += 1
            }
            2 * read.max(failed) > PLACES_TRIED
        });
        read > failed
    }
}
