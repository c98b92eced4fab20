//! Removes queues, of a topic that goes or that are of no use any more: their records stay in the log until retention takes them, and no queue has an entry of them.

use std::sync::Arc;

use base::{QueueId, TopicName};

use super::Store;
use crate::error::StorageError;
use crate::queue_index::QueueIndex;
use crate::recover;

impl Store {
    /// Forgets a topic's queues and removes their files. What could not be removed is known still, takes no more entries,
    /// and goes when this is called again: until then the topic must not be made anew, over files of before.
    pub fn remove_topic(&self, topic: &TopicName) -> Result<(), StorageError> {
        // To the end, so that entries of a topic made again do not go into files that are about to be removed.
        let _not_while_written = self.flushing.lock();
        let mut gone: Vec<_> = {
            let mut queues = self.queues.write();
            queues.extract_if(|(name, _), _| name == topic).map(|(_, queue)| queue).collect()
        };
        recover::sort(&mut gone);
        self.remove_queues(topic, &gone).inspect_err(|_| {
            self.queues.write().extend(gone.into_iter().map(|queue| ((topic.clone(), queue.queue()), queue)));
        })
    }

    /// Removes queues that are of no use and have no message left; gives how many. One that is of use keeps its last file, which
    /// tells where it goes on.
    pub fn remove_expired_queues(&self, is_used: impl Fn(&TopicName, QueueId) -> bool) -> Result<usize, StorageError> {
        let _not_while_written = self.flushing.lock();
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
        // Recovery must not read the records again and so bring the queues back: neither those that are staged, nor
        // any that come later from who still knows the queues.
        self.log.close_queues(gone);
        self.write_staged()?;
        self.checkpoint_while_flushing()?;
        gone.iter().try_for_each(|queue| queue.remove())?;
        let (disk, queues) = (&self.options.disk, self.options.directory.join("consumequeue"));
        disk.remove_directory(&queues.join(topic.as_str()))?;
        // Nor may a power cut.
        disk.sync_directory(&queues)
    }
}
