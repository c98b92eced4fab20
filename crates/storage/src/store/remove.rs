//! Removes the queues of a deleted topic, and empty queues that are no longer in use. Their records stay in the log until retention
//! removes the segment.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{LogOffset, QueueId, QueueNumber, TopicName};

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
        let gone = self.queues.write().remove_topic(topic.as_str());
        gone.iter().for_each(|queue| queue.note_gone(true));
        self.remove_queues(topic, &gone).inspect_err(|_| self.take_back(gone))
    }

    /// Removes the lanes of a message queue with their files. The log must have been told that it is gone, and that be on the disk, unless no
    /// start knows the queue: a start that reads its records again removes what it cannot name.
    pub fn remove_message_queue(&self, number: QueueNumber) -> Result<(), StorageError> {
        self.remove_logged_topic(&TopicName::of_message_queue(number))
    }

    /// Knows queues again that could not be removed.
    fn take_back(&self, queues: Vec<Arc<QueueIndex>>) {
        queues.iter().for_each(|queue| queue.note_gone(false));
        self.changed_queues.look_over(&queues);
        let mut known = self.queues.write();
        queues.into_iter().for_each(|queue| known.insert(queue));
    }

    /// The same for a topic that a state record removes, which is on the disk: a start that reads the queues' records again reads that too.
    pub(super) fn remove_logged_topic(&self, topic: &TopicName) -> Result<(), StorageError> {
        let _no_flush = self.flushing.lock();
        let gone = self.queues.write().remove_topic(topic.as_str());
        gone.iter().for_each(|queue| queue.note_gone(true));
        self.log.close_queues(&gone);
        self.remove_files(topic, &gone).inspect_err(|_| self.take_back(gone))
    }

    /// Removes queues without messages that are not in use. Returns how many. One that is in use keeps its last file, which records
    /// its next offset. Lanes of message queues stay with these.
    pub fn remove_expired_queues(&self, is_used: impl Fn(&TopicName, QueueId) -> bool) -> Result<usize, StorageError> {
        let _no_flush = self.flushing.lock();
        if self.has_uncommitted() {
            return Ok(0);
        }
        let has_none = |queue: &QueueIndex| queue.first() == queue.end();
        let is_of_topic = |queue: &QueueIndex| queue.message_queue().is_none();
        let is_expired =
            |queue: &QueueIndex| is_of_topic(queue) && has_none(queue) && !is_used(queue.topic(), queue.queue());
        let mut gone = self.queues.write().extract_if(is_expired);
        if gone.is_empty() {
            return Ok(0);
        }
        recover::sort(&mut gone);
        gone.iter().for_each(|queue| queue.note_gone(true));
        let count = gone.len();
        self.remove_empty_queues(&gone).inspect_err(|_| self.take_back(gone))?;
        Ok(count)
    }

    /// Recovery restores the queue of every record above the checkpoint. So a queue that has any needs another, and no record may be
    /// appended after that, not by a caller that still holds a reference to the queue either.
    fn end_queues(&self, gone: &[Arc<QueueIndex>]) -> Result<(), StorageError> {
        self.log.close_queues(gone);
        self.write_staged()?;
        if self.has_uncommitted() {
            return Err(StorageError::Uncommitted);
        }
        let checkpointed = LogOffset(self.checkpointed.load(Ordering::Acquire));
        if gone.iter().any(|queue| queue.may_go_beyond(checkpointed)) {
            self.checkpoint_while_flushing()
        } else {
            Ok(())
        }
    }

    fn remove_empty_queues(&self, gone: &[Arc<QueueIndex>]) -> Result<(), StorageError> {
        self.end_queues(gone)?;
        for queue in gone {
            queue.remove()?;
            let topic = self.files.directory_of_topic(queue.topic());
            if self.options.disk.exists(&topic)? {
                self.options.disk.sync_directory(&topic)?;
            }
        }
        Ok(())
    }

    fn remove_queues(&self, topic: &TopicName, gone: &[Arc<QueueIndex>]) -> Result<(), StorageError> {
        self.end_queues(gone)?;
        self.remove_files(topic, gone)
    }

    fn remove_files(&self, topic: &TopicName, gone: &[Arc<QueueIndex>]) -> Result<(), StorageError> {
        let (disk, directory) = (&self.options.disk, self.files.directory_of_topic(topic));
        // A queue has files once it was flushed.
        if !disk.exists(&directory)? {
            return Ok(());
        }
        gone.iter().try_for_each(|queue| queue.remove())?;
        disk.remove_directory(&directory)?;
        // A power cut must not bring them back either.
        directory.parent().map_or(Ok(()), |above| disk.sync_directory(above))
    }
}
