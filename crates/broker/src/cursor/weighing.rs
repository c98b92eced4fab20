//! Weighing a lane: its cursor knows what is ready, its entries how many bytes that has.

use std::sync::Arc;

use base::QueueOffset;
use format::lane_code::body_size;
use storage::{ReadMode, StorageError};

use super::lane::Lane;
use super::lease::LeaseCursor;
use super::window::Window;

/// Entries read at once, and looked at with the lane locked.
const SCAN_COUNT: usize = 256;

/// Entries looked at in one go where the disk is waited for: others wait.
const SCAN_COUNT_MAX: usize = 1 << 20;

/// Messages, and bytes of their bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) count: u64,
    pub(crate) size: u64,
}

impl Length {
    #[must_use]
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { count: self.count + other.count, size: self.size + other.size }
    }

    /// What is left without that; never less than nothing.
    #[must_use]
    pub(crate) const fn less(self, other: Self) -> Self {
        Self { count: self.count.saturating_sub(other.count), size: self.size.saturating_sub(other.size) }
    }

    pub(crate) const fn is_none(self) -> bool {
        self.count == 0 && self.size == 0
    }
}

/// Up to where the length of a lane is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Its messages are counted.
    pub(crate) counted: QueueOffset,
    /// Their bytes are.
    pub(crate) weighed: QueueOffset,
}

/// Why weighing stops.
enum Halt {
    /// Others may need the lane.
    Turn,
    /// This entry has to be read from the disk.
    Cold(QueueOffset),
    /// A message that was weighed is gone from the queue.
    Lost,
    Failed(StorageError),
}

impl Lane {
    /// Weighs what is ready, where that was asked for by `begin_weight`: some of it, or as much as is done in one go where it may wait for the
    /// disk. Gives whether that is all.
    pub(crate) fn weigh(self: &Arc<Self>, mode: ReadMode) -> Result<bool, StorageError> {
        let Some(queue) = self.queue() else { return Ok(true) };
        let mut window = Window::default();
        let mut scanned = 0;
        while scanned < SCAN_COUNT_MAX {
            let mut left = SCAN_COUNT;
            let size_of = |offset: QueueOffset| {
                left = left.checked_sub(1).ok_or(Halt::Turn)?;
                if offset < queue.first() {
                    return Err(Halt::Lost);
                }
                match window.entry(&queue.index, offset, SCAN_COUNT) {
                    Ok(entry) => Ok(entry.as_ref().map_or(0, body_size)),
                    Err(StorageError::WouldBlock) => Err(Halt::Cold(offset)),
                    Err(error) => Err(Halt::Failed(error)),
                }
            };
            match self.with(|cursor| cursor.weigh(queue.end(), size_of)) {
                Ok(()) => return Ok(true),
                Err(Halt::Failed(error)) => return Err(error),
                Err(Halt::Lost) => self.with(LeaseCursor::begin_weight),
                Err(_) if mode == ReadMode::IfCached => return Ok(false),
                Err(Halt::Cold(offset)) => window.read(&queue.index, offset, SCAN_COUNT, ReadMode::MayWait)?,
                Err(Halt::Turn) => {}
            }
            scanned += SCAN_COUNT;
        }
        Ok(false)
    }

    /// What is ready, and up to where that is known. Bytes are those that were weighed.
    pub(crate) fn length(self: &Arc<Self>) -> (Length, Measured) {
        let counted = self.queue().map_or(QueueOffset(0), |queue| queue.end());
        self.with(|cursor| {
            let length = Length { count: cursor.counts(counted).ready, size: cursor.weighed() };
            (length, Measured { counted, weighed: cursor.weighed_until().unwrap_or(counted) })
        })
    }
}
