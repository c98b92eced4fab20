//! Places that messages were promised in a lane, until they are in it: what a queue that refuses messages has to count besides those that are
//! there.
//!
//! **Always holds**: a message that was let in counts from then on: in its batch, and on its way into its lane.

use std::sync::Arc;

use base::QueueOffset;
use parking_lot::Mutex;
use storage::QueueIndex;

use crate::cursor::weighing::{Length, Measured};

/// Batches on their way into lanes that are told apart; of more the last count as one.
const ARRIVING_MAX: usize = 256;

/// What a queue has let in and is not in its lanes yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// In batches that are not in the log.
    promised: Length,
    arriving: Vec<Arriving>,
}

/// Messages that the log has, and their bytes, which are in their lane once these are known there up to `end`.
#[derive(Debug)]
struct Arriving {
    priority: u8,
    end: QueueOffset,
    length: Length,
}

/// A place for one message in a queue that refuses what is too much; dropped, it is free again, unless its message is in the log.
#[derive(Debug)]
pub(crate) struct PromisedPlace {
    pub(crate) incoming: Arc<Mutex<Incoming>>,
    /// Of the lane,
    pub(crate) index: Arc<QueueIndex>,
    /// which is that of this priority.
    pub(crate) priority: u8,
    pub(crate) length: Length,
}

impl Incoming {
    /// Nothing that a lane has by now is on its way into it.
    pub(crate) fn arrive(&mut self, priority: u8, until: Measured) {
        self.arriving.retain_mut(|arriving| {
            if arriving.priority == priority {
                let Length { count, size } = &mut arriving.length;
                *count = if arriving.end > until.counted { *count } else { 0 };
                *size = if arriving.end > until.weighed { *size } else { 0 };
            }
            !arriving.length.is_none()
        });
    }

    /// All of it.
    pub(crate) fn length(&self) -> Length {
        self.arriving.iter().fold(self.promised, |sum, arriving| sum.plus(arriving.length))
    }

    /// A place is promised.
    pub(crate) const fn promise(&mut self, length: Length) {
        self.promised = self.promised.plus(length);
    }

    fn append(&mut self, arriving: Arriving) {
        let is_crowded = self.arriving.len() >= ARRIVING_MAX;
        let last = self.arriving.iter_mut().rev().find(|last| last.priority == arriving.priority);
        match last.filter(|last| last.end == arriving.end || is_crowded) {
            Some(last) => (last.end, last.length) = (arriving.end.max(last.end), last.length.plus(arriving.length)),
            None => self.arriving.push(arriving),
        }
    }
}

impl PromisedPlace {
    /// The log has the message.
    pub(crate) fn note_appended(self) {
        let Self { priority, length, .. } = self;
        let end = self.index.appended_end();
        self.incoming.lock().append(Arriving { priority, end, length });
    }
}

impl Drop for PromisedPlace {
    fn drop(&mut self) {
        let mut incoming = self.incoming.lock();
        incoming.promised = incoming.promised.less(self.length);
    }
}
