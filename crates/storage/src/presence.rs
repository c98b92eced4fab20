//! Whether what cannot be read of the log is damaged, or the disk is gone for a while.
//!
//! **Always holds**: bytes count as damaged only if they cannot be read right after the disk has read others. The disk itself has to have read
//! them: the page cache has parts of a segment whatever the disk does, and a file system has the zeros of what was reserved and not written.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use base::LogOffset;

use crate::disk::BLOCK_SIZE;
use crate::error::StorageError;
use crate::segment::Segment;

/// So many places of a segment are tried at least, if it has them.
const PLACES_TRIED: u64 = 5;

/// What the disk should be able to read, if it is there.
pub(crate) struct Presence<'a> {
    pub(crate) segments: &'a [Arc<Segment>],
    /// Below this the log was put on the disk.
    pub(crate) durable: LogOffset,
    /// Below this it was written.
    pub(crate) written: LogOffset,
}

impl Presence<'_> {
    /// What `read`, which has failed to read `size` bytes at `offset`, reads when it is asked again, since it may fail in passing; `None` if the disk
    /// cannot read them but others.
    pub(crate) fn read_again<T>(
        &self,
        (offset, size): (LogOffset, usize),
        mut read: impl FnMut() -> Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        let is_unreadable =
            |outcome: &Result<T, StorageError>| outcome.as_ref().is_err_and(StorageError::is_unreadable);
        let mut outcome = read();
        // Twice: it may come back just before it has read others, or go while it reads them.
        for _ in 0..2 {
            if is_unreadable(&outcome) {
                if !self.reads_others(offset, size) {
                    return outcome.map(Some);
                }
                outcome = read();
            }
        }
        if is_unreadable(&outcome) { Ok(None) } else { outcome.map(Some) }
    }

    /// Whether the disk reads most of some places of the segment with `offset`, or else of other segments.
    pub(crate) fn reads_others(&self, offset: LogOffset, size: usize) -> bool {
        let Some(segment) = self.segments.iter().find(|segment| segment.contains(offset.0)) else { return true };
        let position = segment.position(offset);
        let own = position / BLOCK_SIZE as u64..=(position + (size as u64).saturating_sub(1)) / BLOCK_SIZE as u64;
        let here = self
            .places_of(segment)
            .filter(|block| !own.contains(block))
            .filter_map(|block| segment.file().is_readable_on_disk(block));
        let others = || self.reads_other_segments(segment);
        match most(here) {
            Some(Ordering::Greater) => true,
            // A large part of one segment may be bad.
            Some(as_many) => others().unwrap_or(as_many.is_eq()),
            None => others().unwrap_or_else(|| self.reads_within(segment, &own)),
        }
    }

    /// The same of other segments, of the same directory; `None` if there is nothing of them on the disk.
    fn reads_other_segments(&self, segment: &Segment) -> Option<bool> {
        let is_beside = |other: &&Arc<Segment>| {
            other.base() != segment.base() && other.file().path().parent() == segment.file().path().parent()
        };
        // One place is enough of each, since others of its places may be bad as well.
        let answers = self.segments.iter().filter(is_beside).filter_map(|other| {
            let places = self.places_of(other).filter_map(|block| other.file().is_readable_on_disk(block));
            places.reduce(|one, next| one || next)
        });
        most(answers.take(PLACES_TRIED as usize)).map(Ordering::is_gt)
    }

    /// Whether the disk reads one of the bytes' own blocks, where no others are known to be on it; where they lie in a single one, most of those
    /// that were written, which it has to put on the disk then, or, if that is all there is, bytes beside them.
    fn reads_within(&self, segment: &Segment, own: &RangeInclusive<u64>) -> bool {
        let file = segment.file();
        if own.start() < own.end() {
            let step = ((own.end() - own.start()) / PLACES_TRIED).max(1);
            return own.clone().step_by(step as usize).any(|block| file.is_readable_on_disk(block).unwrap_or_default());
        }
        let others = places(segment, self.written).filter(|block| !own.contains(block));
        if let Some(answer) = most(others.filter_map(|block| file.is_readable_on_disk(block))) {
            return answer.is_gt();
        }
        let size = (own.end() + 1) * BLOCK_SIZE as u64;
        let written = self.written.0.min(segment.end()).saturating_sub(segment.base()).min(size);
        let reads = |place: u64| file.read_into(&mut Vec::new(), 1, written / PLACES_TRIED * place, true).is_ok();
        most((0..PLACES_TRIED).map(reads)).is_some_and(Ordering::is_gt)
    }

    /// Those that were put on the disk.
    fn places_of(&self, segment: &Segment) -> impl Iterator<Item = u64> + use<> {
        places(segment, self.durable)
    }
}

/// Blocks of a segment below `end`, far from each other.
fn places(segment: &Segment, end: LogOffset) -> impl Iterator<Item = u64> + use<> {
    let size = end.0.min(segment.end()).saturating_sub(segment.base());
    let count = size.div_ceil(BLOCK_SIZE as u64);
    let step = (count / PLACES_TRIED).max(1);
    (0..count).step_by(step as usize)
}

/// Whether there are more yes (`Greater`) or no among the answers; `None` without one.
fn most(answers: impl Iterator<Item = bool>) -> Option<Ordering> {
    let (mut yes, mut no) = (0, 0);
    answers.for_each(|answer| if answer { yes += 1 } else { no += 1 });
    (yes + no > 0).then(|| yes.cmp(&no))
}
