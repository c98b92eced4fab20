//! Removes the queues of a deleted topic, and empty queues that are no longer in use. Their records stay in the log until retention
//! removes the segment.

use std::sync::Arc;

use base::{QueueId, TopicName};

use super::Store;
use crate::error::StorageError;
use crate::queue_index::QueueIndex;
use crate::recover;

impl Store {
    /// Removes a topic's queues with their files. Queues that cannot be removed stay, closed to appends, for the next call; until
    /// then the topic must not be created again, since it would get the old files.
    pub fn remove_topic(&self, topic: &TopicName) -> Result<(), StorageError> {
        // Until the end: entries of a topic created again must not be flushed into files that are about to be removed.
        let _no_flush = self.flushing.lock();
        let mut gone: Vec<_> = {
            let mut queues = self.queues.write();
            queues.extract_if(|(name, _), _| name == topic).map(|(_, queue)| queue).collect()
        };
        recover::sort(&mut gone);
        self.remove_queues(topic, &gone).inspect_err(|_| {
            self.queues.write().extend(gone.into_iter().map(|queue| ((topic.clone(), queue.queue()), queue)));
        })
    }

    /// Removes queues without messages that are not in use. Returns how many. One that is in use keeps its last file, which records
    /// its next offset.
    pub fn remove_expired_queues(&self, is_used: impl Fn(&TopicName, QueueId) -> bool) -> Result<usize, StorageError> {
        let _no_flush = self.flushing.lock();
        let has_none = |queue: &QueueIndex| queue.first() == queue.end();
        let mut gone: Vec<_> = {
            let mut queues = self.queues.write();
            let expired = queues.extract_if(|(name, number), queue| has_none(queue) && !is_used(name, *number));
            expired.map(|(_, queue)| queue).collect()
        };
        if gone.is_empty() {
            return Ok(0);
        }
        recover::sort(&mut gone);
        let count = gone.len();
        self.remove_empty_queues(&gone).inspect_err(|_| {
            let known = gone.into_iter().map(|queue| ((queue.topic().clone(), queue.queue()), queue));
            self.queues.write().extend(known);
        })?;
        Ok(count)
    }

    fn remove_empty_queues(&self, gone: &[Arc<QueueIndex>]) -> Result<(), StorageError> {
        self.log.close_queues(gone);
        self.write_staged()?;
        self.checkpoint_while_flushing()?;
        let (disk, queues) = (&self.options.disk, self.options.directory.join("consumequeue"));
        for queue in gone {
            queue.remove()?;
            let topic = queues.join(queue.topic().as_str());
            if disk.exists(&topic) {
                disk.sync_directory(&topic)?;
            }
        }
        Ok(())
    }

    fn remove_queues(&self, topic: &TopicName, gone: &[Arc<QueueIndex>]) -> Result<(), StorageError> {
        // Recovery restores the queue of every record above the checkpoint. So no record of these queues may be appended after it,
        // not by a caller that still holds a reference to them either.
        self.log.close_queues(gone);
        self.write_staged()?;
        self.checkpoint_while_flushing()?;
        gone.iter().try_for_each(|queue| queue.remove())?;
        let (disk, queues) = (&self.options.disk, self.options.directory.join("consumequeue"));
        disk.remove_directory(&queues.join(topic.as_str()))?;
        // A power cut must not bring them back either.
        disk.sync_directory(&queues)
    }
}
