//! Topics that a Java broker has removed since Sluice's last checkpoint: the log still has their messages.
//!
//! Entries are made in the order of the log. So after an orderly stop, queues have one of every record below the last that has one, and a
//! topic with messages there and without entries was removed. After a kill that cannot be told from entries that are not written.

use std::collections::HashSet;

use base::name::MessageQueueName;
use base::{LogOffset, QueueOffset, TopicName};

use crate::error::StorageError;
use crate::queue_table::QueueTable;

/// What tells of them.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Below this, every record has the entries it is to have.
    listed_until: LogOffset,
    /// Topics with entries.
    listed: HashSet<TopicName>,
}

impl Removed {
    /// Looks at queues as a broker left them that stopped in good order.
    pub(crate) fn find(queues: &QueueTable) -> Result<Self, StorageError> {
        let mut removed = Self::default();
        // A Java broker knows nothing of message queues.
        for queue in queues.iter().filter(|queue| queue.message_queue().is_none() && queue.first() < queue.end()) {
            removed.listed.insert(queue.topic().clone());
            let last = queue.entry(QueueOffset(queue.end().0 - 1))?;
            if let Some(last) = last.filter(|last| !last.is_gap()) {
                removed.listed_until = removed.listed_until.max(last.log_offset.after(u64::from(last.size)));
            }
        }
        Ok(removed)
    }

    /// Whether the topic of a record at `offset` is one.
    pub(crate) fn has(&self, topic: &str, offset: LogOffset) -> bool {
        offset < self.listed_until && !self.listed.contains(topic) && MessageQueueName::number_of(topic).is_none()
    }
}
