//! A queue of a topic, as a dialect sees it.

use std::sync::Arc;
use std::task::Waker;

use base::{QueueId, QueueOffset, Refusal, TopicName};
use format::queue_entry::Entry;
use storage::{QueueIndex, ReadMode};

use crate::error::internal;

/// A queue. A copy is the same queue.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) index: Arc<QueueIndex>,
}

impl Queue {
    /// Its topic.
    pub fn topic(&self) -> &TopicName {
        self.index.topic()
    }

    /// Its number.
    pub fn id(&self) -> QueueId {
        self.index.queue()
    }

    /// Offset of its oldest message.
    pub fn first(&self) -> QueueOffset {
        self.index.first()
    }

    /// One past its newest message.
    pub fn end(&self) -> QueueOffset {
        self.index.end()
    }

    /// At most `count_max` entries from an offset on. Waits for the disk.
    pub fn entries(&self, from: QueueOffset, count_max: usize) -> Result<Vec<Entry>, Refusal> {
        let mut entries = Vec::new();
        self.index.read(from, count_max, ReadMode::MayWait, &mut entries).map_err(internal)?;
        Ok(entries)
    }

    /// Wakes `waker` once when a message comes.
    pub fn watch(&self, waker: Waker) {
        self.index.watch(waker);
    }

    /// Forgets a waker that was not woken.
    pub fn unwatch(&self, waker: &Waker) {
        self.index.unwatch(waker);
    }
}
