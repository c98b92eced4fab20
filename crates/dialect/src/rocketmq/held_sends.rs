//! Sends that were read while the log is behind. They wait as they came, so that what comes behind them on the same connection does not:
//! commits, heartbeats, pulls.

use std::collections::VecDeque;

use base::budget::Room;
use bytes::Bytes;

/// Bytes of frames that one connection holds, the last not counted: the sends of some tens of threads that wait for their answers.
const SIZE_MAX: usize = 256 * 1024;

/// The frames, in the order they came.
#[derive(Default)]
pub(super) struct HeldSends {
    frames: VecDeque<Bytes>,
    size: usize,
}

impl HeldSends {
    /// Whether another may be held, with so much room for all connections together.
    pub(super) fn has_room(&self, room: Room) -> bool {
        room == Room::Plenty && self.size < SIZE_MAX
    }

    pub(super) fn push(&mut self, frame: &[u8]) {
        self.size += frame.len();
        self.frames.push_back(Bytes::copy_from_slice(frame));
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let frame = self.frames.pop_front()?;
        self.size -= frame.len();
        Some(frame)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes held.
    pub(super) const fn size(&self) -> usize {
        self.size
    }
}
