//! A queue of a topic, as a dialect sees it.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use base::limits::RECORD_SIZE_MAX;
use base::{QueueId, QueueOffset, Refusal, TopicName};
use format::queue_entry::Entry;
use storage::{QueueIndex, ReadMode};

use crate::cursor::lane::Lane;
use crate::cursor::takers::{Taker, Wish};
use crate::cursor::waiters::{Waiter, Waiters};
use crate::error::internal;
use crate::group::mailbox::Mailbox;

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

    /// Signals `FetchReady(number)` once, when a message comes or who waits is to look again; not for messages that came before the call:
    /// look at `end` after it. Until the waiter is dropped.
    pub fn wait(&self, mailbox: Arc<Mailbox>, number: u64) -> Waiter {
        self.waiters().add(mailbox, number)
    }

    /// Signals a wish once, when messages of a lane of this queue may be taken; see `Lane::wait`.
    pub(crate) fn wait_at(&self, lane: &Arc<Lane>, wish: Wish) -> Taker {
        Taker::wait(lane, self.waiters(), wish)
    }

    /// Has all that wait look again, for what was noted before.
    pub(crate) fn wake_waiting(&self) {
        // As for entries: who registers after this sees what was noted.
        fence(Ordering::SeqCst);
        self.waiters().tell_all();
    }

    #[allow(clippy::expect_used, reason = "nothing else listens to a queue")]
    fn waiters(&self) -> Arc<Waiters> {
        self.index.listener().expect("the waiters")
    }
}

/// Bytes that are read for an entry: none for one that was overwritten with a size that no record has.
pub(crate) fn size_of(entry: &Entry) -> usize {
    Some(entry.size as usize).filter(|size| *size <= RECORD_SIZE_MAX).unwrap_or_default()
}
