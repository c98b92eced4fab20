//! Records that the disk cannot read: whether they are damaged, or the disk is gone for a while.
//!
//! **Always holds**: a record is passed over, and told of as damaged, only if it cannot be read right after the disk has read others. The disk
//! itself has to have read them: the page cache has parts of a segment whatever the disk does, and a file system has the zeros of what was
//! reserved and not written.

use std::ops::RangeInclusive;

use base::LogOffset;
use bytes::Bytes;

use super::CommitLog;
use crate::disk::BLOCK_SIZE;
use crate::error::StorageError;
use crate::segment::Segment;
use crate::store::ReadMode;

/// Where a record cannot be read, so many places of its segment are tried at least, if it has them.
const PLACES_TRIED: u64 = 5;

impl CommitLog {
    /// Bytes of the record at `offset`; `None` if the disk cannot read them but others, which is reported.
    pub(super) fn read_or_tell(&self, offset: LogOffset, size: usize) -> Result<Option<Bytes>, StorageError> {
        self.unless_unreadable((offset, size), || self.read_bytes(offset.0, size, ReadMode::MayWait))
    }

    /// What `read` reads of the record of `size` bytes at `offset`, asked again, since it may fail in passing; `None` as in `read_or_tell`.
    pub(super) fn unless_unreadable<T>(
        &self,
        (offset, size): (LogOffset, usize),
        mut read: impl FnMut() -> Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        let is_unreadable =
            |outcome: &Result<T, StorageError>| outcome.as_ref().is_err_and(StorageError::is_unreadable);
        let mut outcome = read();
        if is_unreadable(&outcome) {
            outcome = read();
        }
        if is_unreadable(&outcome) {
            if !self.reads_others(offset, size) {
                // What was noted of extents meanwhile is not theirs.
                self.extents.forget_unreadable();
                return outcome.map(Some);
            }
            // It may have come back just before it has read others.
            outcome = read();
        }
        match outcome {
            Err(error) if error.is_unreadable() => {
                self.tell_damage(offset, &error.to_string());
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Whether the disk reads most of some places of the segment that holds the record, or of other segments where that has no other places.
    fn reads_others(&self, offset: LogOffset, size: usize) -> bool {
        let Ok(segment) = self.segment_at(offset.0) else { return true };
        let position = segment.position(offset);
        let own = position / BLOCK_SIZE as u64..=(position + (size as u64).saturating_sub(1)) / BLOCK_SIZE as u64;
        let here = self
            .places_of(&segment)
            .filter(|block| !own.contains(block))
            .filter_map(|block| segment.file().is_readable_on_disk(block));
        most(here).or_else(|| self.reads_other_segments(&segment)).unwrap_or_else(|| self.reads_within(&segment, &own))
    }

    /// The same of other segments, of the same directory; `None` if there is nothing of them on the disk.
    fn reads_other_segments(&self, segment: &Segment) -> Option<bool> {
        let is_beside = |other: &Segment| {
            other.base() != segment.base() && other.file().path().parent() == segment.file().path().parent()
        };
        let others = self.segments().into_iter().filter(|other| is_beside(other));
        let answers = others.filter_map(|other| {
            let mut places = self.places_of(&other);
            places.find_map(|block| other.file().is_readable_on_disk(block))
        });
        most(answers.take(PLACES_TRIED as usize))
    }

    /// Whether the disk reads one of the record's own blocks, where there are no others; bytes beside it, where it lies in a single one.
    fn reads_within(&self, segment: &Segment, own: &RangeInclusive<u64>) -> bool {
        if own.start() < own.end() {
            let step = ((own.end() - own.start()) / PLACES_TRIED).max(1);
            let mut blocks = own.clone().step_by(step as usize);
            return blocks.any(|block| segment.file().is_readable_on_disk(block).unwrap_or_default());
        }
        let size = (own.end() + 1) * BLOCK_SIZE as u64;
        let written = self.watermarks.written().0.min(segment.end()).saturating_sub(segment.base()).min(size);
        let reads =
            |place: u64| segment.file().read_into(&mut Vec::new(), 1, written / PLACES_TRIED * place, true).is_ok();
        most((0..PLACES_TRIED).map(reads)).unwrap_or_default()
    }

    /// Blocks of a segment that were put on the disk, far from each other.
    fn places_of(&self, segment: &Segment) -> impl Iterator<Item = u64> + use<> {
        let size = self.watermarks.durable().0.min(segment.end()).saturating_sub(segment.base());
        let count = size.div_ceil(BLOCK_SIZE as u64);
        let step = (count / PLACES_TRIED).max(1);
        (0..count).step_by(step as usize)
    }
}

/// What most of the answers are; `None` without one.
fn most(answers: impl Iterator<Item = bool>) -> Option<bool> {
    let (mut yes, mut no) = (0, 0);
    answers.for_each(|answer| if answer { yes += 1 } else { no += 1 });
    (yes + no > 0).then_some(yes > no)
}
