//! Whether what cannot be read of the log is damaged, or the disk is gone for a while.
//!
//! **Always holds**: bytes count as damaged only if they cannot be read right after the disk has read others, twice: a disk that goes for a while,
//! and once more meanwhile, costs nothing. One place that it reads is enough, since a large part of it may be bad. The disk itself has to have
//! read it: the page cache has parts of a segment whatever the disk does, and a file system has the zeros of what was reserved and not written.

use std::ops::RangeInclusive;
use std::sync::Arc;

use base::LogOffset;

use crate::disk::{ASKED_AGAIN, BLOCK_SIZE};
use crate::error::StorageError;
use crate::segment::Segment;

/// So many places of a segment are tried at least, if it has them, and so many other segments at most.
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
    /// What `read` reads of `size` bytes at `offset`; where it cannot, it is asked again, since it may fail in passing. `None` if the disk cannot
    /// read them but others.
    pub(crate) fn read_again<T>(
        &self,
        (offset, size): (LogOffset, usize),
        mut read: impl FnMut() -> Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        let mut outcome = read();
        for _ in 0..ASKED_AGAIN {
            if !outcome.as_ref().is_err_and(StorageError::is_unreadable) {
                break;
            }
            if !self.reads_others(offset, size) {
                return outcome.map(Some);
            }
            outcome = read();
        }
        if outcome.as_ref().is_err_and(StorageError::is_unreadable) { Ok(None) } else { outcome.map(Some) }
    }

    /// Whether the disk reads some other place of the segment with `offset`, or else of other segments.
    pub(crate) fn reads_others(&self, offset: LogOffset, size: usize) -> bool {
        let Some(segment) = self.segments.iter().find(|segment| segment.contains(offset.0)) else { return true };
        let position = segment.position(offset);
        let own = position / BLOCK_SIZE as u64..=(position + (size as u64).saturating_sub(1)) / BLOCK_SIZE as u64;
        let here = places(segment, self.durable)
            .filter(|block| !own.contains(block))
            .filter_map(|block| segment.file().is_readable_on_disk(block));
        let answers = here.chain(self.others(segment).filter_map(|other| self.is_readable(other)));
        any(answers).unwrap_or_else(|| self.reads_within(segment, &own))
    }

    /// Some of the other segments of the same directory.
    fn others(&self, segment: &Segment) -> impl Iterator<Item = &Segment> {
        let is_beside = |other: &&Arc<Segment>| {
            other.base() != segment.base() && other.file().path().parent() == segment.file().path().parent()
        };
        self.segments.iter().filter(is_beside).map(|other| &**other).take(PLACES_TRIED as usize)
    }

    /// Whether the disk reads a place of it; `None` if there is nothing of it on the disk.
    fn is_readable(&self, segment: &Segment) -> Option<bool> {
        any(places(segment, self.durable).filter_map(|block| segment.file().is_readable_on_disk(block)))
    }

    /// Whether the disk reads one of the bytes' own blocks, where no others are known to be on it; where they lie in a single one, one of those
    /// that were written, which it has to put on the disk then, or, if that is all there is, bytes beside them.
    fn reads_within(&self, segment: &Segment, own: &RangeInclusive<u64>) -> bool {
        let file = segment.file();
        if own.start() < own.end() {
            let step = ((own.end() - own.start()) / PLACES_TRIED).max(1);
            return own.clone().step_by(step as usize).any(|block| file.is_readable_on_disk(block).unwrap_or_default());
        }
        let others = places(segment, self.written).filter(|block| !own.contains(block));
        any(others.filter_map(|block| file.is_readable_on_disk(block))).unwrap_or_else(|| {
            let size = (own.end() + 1) * BLOCK_SIZE as u64;
            let written = self.written.0.min(segment.end()).saturating_sub(segment.base()).min(size);
            let reads = |place: u64| file.read_into(&mut Vec::new(), 1, written / PLACES_TRIED * place, true).is_ok();
            (0..PLACES_TRIED).any(reads)
        })
    }
}

/// Adds to an error that the disk is gone: damage alone would have been passed over.
pub(crate) fn gone(segment: &Segment, error: StorageError) -> StorageError {
    if !error.is_unreadable() {
        return error;
    }
    let problem =
        format!("neither it nor what is beside it can be read back ({error}). Start again once the disk can be read");
    StorageError::Damaged { path: segment.file().path().to_owned(), problem }
}

/// Blocks of a segment below `end`, far from each other.
fn places(segment: &Segment, end: LogOffset) -> impl Iterator<Item = u64> + use<> {
    let size = end.0.min(segment.end()).saturating_sub(segment.base());
    let count = size.div_ceil(BLOCK_SIZE as u64);
    let step = (count / PLACES_TRIED).max(1);
    (0..count).step_by(step as usize)
}

/// Whether one of the answers is yes, as far as has to be asked; `None` without any.
fn any(mut answers: impl Iterator<Item = bool>) -> Option<bool> {
    let first = answers.next()?;
    Some(first || answers.any(|answer| answer))
}
