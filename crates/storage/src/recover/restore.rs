//! What one record of the log means when it is read again: entries, keys, state, and queue offsets that are taken.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, TopicName};
use format::index_rules::{Indexed, Listing};
use format::queue_entry::Entry;
use format::record::Record;
use format::routed::{Routed, RoutedError, may_have_been_routed};
use format::state::StateError;

use super::Replay;
use crate::error::StorageError;
use crate::queue_index::QueueIndex;

/// Records that recovery found in the log and that are not committed: they are in no queue and under no key.
#[derive(Debug, Default)]
pub(crate) struct Unpublished {
    /// The first of them.
    pub(crate) from: Option<LogOffset>,
    /// Where the last of them ends.
    pub(crate) end: LogOffset,
    /// Queues that begin among them, some after their topic was removed, and where.
    begun: HashMap<(TopicName, QueueId), LogOffset>,
}

impl Replay<'_> {
    /// Takes in the next record of the log.
    pub(super) fn take_in(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let Ok(record) = Record::decode(bytes) else { return Ok(()) };
        self.recovery.records += 1;
        if record.log_offset.after(record.size as u64) <= self.committed {
            self.restore(&record)
        } else {
            self.note_uncommitted(&record);
            Ok(())
        }
    }

    fn restore(&mut self, record: &Record<'_>) -> Result<(), StorageError> {
        let indexed = self.rules.apply_to(record);
        if indexed.is_state {
            return self.apply_state(record);
        }
        let has_sure_places = self.has_sure_places(record, &indexed)?;
        let (is_new, has_doubts) = (record.log_offset >= self.entries_from, !self.doubts.is_empty());
        self.recovery.misses_records |= has_doubts && may_have_been_routed(record.topic.as_bytes(), record.system_flag);
        if is_new || has_doubts {
            for listing in indexed.listings(record) {
                if !is_new && !self.doubts(&listing, record.log_offset) {
                    continue;
                }
                let tag_code = listing.code.at(record.store_timestamp);
                let entry = Entry { log_offset: record.log_offset, size: record.size as u32, tag_code };
                if self.removed.has(listing.topic.as_str(), record.log_offset) {
                    continue;
                }
                let is_opening = self.is_opening;
                let Some(queue) = self.queue(&listing) else { continue };
                if !has_sure_places && !continues(queue, listing.offset, entry)? {
                    continue;
                }
                queue.restore(listing.offset, entry)?;
                if is_opening {
                    queue.go_on_at_end();
                }
            }
        }
        if let Some(index) = self.key_index.filter(|_| record.log_offset >= self.keys_from) {
            for hash in indexed.key_hashes() {
                index.restore(hash, record.log_offset, record.store_timestamp)?;
            }
        }
        Ok(())
    }

    /// Whether what a record says of its places in queues is what was stored. Of a routed message that is in the body, which may be damaged
    /// where everything else is whole: then a lane takes what continues it, as that offset was given out.
    fn has_sure_places(&mut self, record: &Record<'_>, indexed: &Indexed<'_>) -> Result<bool, StorageError> {
        if !indexed.is_routed {
            return Ok(true);
        }
        if !record.body_is_intact() {
            // Noted by whoever passed the damage.
            return Ok(false);
        }
        match Routed::parse(record.body) {
            Ok(_) => Ok(true),
            Err(problem @ RoutedError::Newer(_)) => {
                Err(StorageError::Damaged { path: self.path_at(record.log_offset), problem: problem.to_string() })
            }
            Err(RoutedError::Damaged(_)) => {
                self.recovery.damaged.push(record.log_offset);
                Ok(true)
            }
        }
    }

    /// The file of the segment with a log offset.
    fn path_at(&self, offset: LogOffset) -> PathBuf {
        let segment = self.segments.iter().find(|segment| segment.contains(offset.0));
        segment.map(|segment| segment.file().path().to_owned()).unwrap_or_default()
    }

    /// The queue of a listing, made if it is new.
    fn queue(&mut self, listing: &Listing<'_>) -> Option<&Arc<QueueIndex>> {
        let (topic, queue) = (listing.topic.as_str(), listing.queue);
        if self.queues.get(topic, queue).is_none() {
            self.queues.insert((self.new_queue)(&TopicName::trusted(topic), queue));
        }
        self.queues.get(topic, queue)
    }

    /// Notes which queue offsets a record takes that is not committed yet.
    fn note_uncommitted(&mut self, record: &Record<'_>) {
        let offset = record.log_offset;
        self.unpublished.from.get_or_insert(offset);
        let indexed = self.rules.apply_to(record);
        let is_sure = !indexed.is_routed || record.body_is_intact();
        for listing in indexed.listings(record) {
            let Some(queue) = self.queue(&listing) else { continue };
            if !is_sure && queue.appended_end() != listing.offset {
                continue;
            }
            if queue.note_uncommitted(listing.offset) {
                let topic = TopicName::trusted(listing.topic.as_str());
                self.unpublished.begun.insert((topic, listing.queue), offset);
            }
        }
    }

    /// Takes in a state record. One that is not what was stored, or says nothing readable, counts as damaged; one of a newer version
    /// stops the start.
    fn apply_state(&mut self, record: &Record<'_>) -> Result<(), StorageError> {
        if record.log_offset < self.state.known_until().min(self.entries_from) {
            return Ok(());
        }
        if !record.body_is_intact() {
            // Noted by whoever passed the damage. What it seems to say was never decided.
            tell_state_lost(record.log_offset, "its body does not have its checksum");
            return Ok(());
        }
        let removed = match self.state.apply(record.log_offset, record.body) {
            Ok(removed) => removed,
            Err(problem @ StateError::Damaged(_)) => {
                tell_state_lost(record.log_offset, &problem.to_string());
                self.recovery.damaged.push(record.log_offset);
                return Ok(());
            }
            Err(problem @ StateError::Newer(_)) => {
                return Err(StorageError::State { path: self.path_at(record.log_offset), problem });
            }
        };
        removed.iter().try_for_each(|topic| self.remove_topic(topic, record.log_offset))
    }

    /// Removes what a crash has left of topics that the state knows to be gone.
    pub(crate) fn remove_known_gone(&mut self) -> Result<(), StorageError> {
        let gone = self.state.removed();
        gone.iter().try_for_each(|(topic, at)| self.remove_topic(topic, *at))
    }

    /// Removes the queues of a topic that was removed at a log offset, but for those of the topic that was made again since, as no message queue
    /// is.
    fn remove_topic(&mut self, topic: &TopicName, at: LogOffset) -> Result<(), StorageError> {
        for queue in self.queues.remove_topic(topic.as_str()) {
            let key = (topic.clone(), queue.queue());
            if self.unpublished.begun.get(&key).is_some_and(|begun| *begun > at) {
                // Whoever appends to it knows the queue.
                queue.begin_anew()?;
                self.queues.insert(queue);
            } else if queue.message_queue().is_none() && newest_of(&queue)?.is_some_and(|newest| newest >= at) {
                // It was flushed with what it has now.
                self.queues.insert(queue);
                continue;
            } else {
                self.recovery.removed_queues += 1;
                queue.remove()?;
                queue.note_gone(true);
            }
            self.written_ends.remove(&key);
        }
        Ok(())
    }
}

/// Whether a queue has this entry at `offset`, or goes on there.
fn continues(queue: &QueueIndex, offset: QueueOffset, entry: Entry) -> Result<bool, StorageError> {
    let is_within = (queue.first()..queue.end()).contains(&offset);
    Ok(offset == queue.end() || is_within && queue.stored_entry(offset)? == Some(entry))
}

/// Where the newest record is that a queue lists.
pub(super) fn newest_of(queue: &QueueIndex) -> Result<Option<LogOffset>, StorageError> {
    let last = queue.end().0.checked_sub(1).map(QueueOffset).filter(|last| *last >= queue.first());
    let entry = last.map_or(Ok(None), |last| queue.entry(last))?;
    Ok(entry.map(|entry| entry.log_offset))
}

/// Tells operators of a state record that says nothing readable.
pub(crate) fn tell_state_lost(log_offset: LogOffset, problem: &str) {
    tracing::error!(
        %log_offset, problem,
        "changes of topics, groups or offsets are lost: their record is damaged. Those before and after it are taken; look whether settings are as they should be"
    );
}
