//! Commits what somebody else decides about: in a governed group a record is nobody's but the log's until the in-sync set has it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::limits::RECORD_SIZE_MAX;
use base::{LogOffset, QueueId, TopicName};
use format::record::Record;
use format::state::StateError;

use super::{Store, new_queue};
use crate::error::StorageError;
use crate::queue_files::Doubts;
use crate::recover::{Recovery, Removed, Replay, tell_state_lost};
use crate::state::StateReplay;

/// Bytes of the log that are read again at once, while no other queue can be made.
const REPLAYED_AT_ONCE: u64 = 2 * RECORD_SIZE_MAX as u64;

impl Store {
    /// Everything below `offset` is committed: what of it is written becomes visible, batch by batch, and the rest once this is called
    /// again. `state` is told what state records say that were in the log when it was opened, or came from a leader. Does nothing in a store
    /// that is alone.
    ///
    /// Such records are read again, waiting for the disk: not for a network thread until all of them are committed.
    pub fn set_committed(&self, offset: LogOffset, state: &mut dyn StateReplay) -> Result<(), StorageError> {
        if !self.watermarks().is_governed() {
            return Ok(());
        }
        self.told_committed.fetch_max(offset.0, Ordering::AcqRel);
        self.publish_recovered(offset, state)?;
        let mut untold = self.untold_states.lock();
        self.log.commit(offset, |batch| {
            self.note_published(batch);
            untold.extend(&batch.foreign_states);
        });
        while let Some(at) = untold.front() {
            self.tell_state(*at, state)?;
            untold.pop_front();
        }
        Ok(())
    }

    /// Whether state records are committed that could not be told: `set_committed` tries again, and nothing is to be appended before.
    pub fn has_untold_states(&self) -> bool {
        !self.untold_states.lock().is_empty()
    }

    /// Tells what the state record of a leader says, and removes the queues of topics that it removes.
    fn tell_state(&self, offset: LogOffset, state: &mut dyn StateReplay) -> Result<(), StorageError> {
        let Some(bytes) = self.log.record_at(offset)? else { return Ok(()) };
        let Ok(record) = Record::decode(&bytes) else { return Ok(()) };
        let removed = match state.apply(offset, record.body) {
            Ok(removed) => removed,
            Err(problem @ StateError::Damaged(_)) => {
                // As a start does, which would come no further either.
                tell_state_lost(offset, &problem.to_string());
                return Ok(());
            }
            Err(problem @ StateError::Newer(_)) => {
                return Err(StorageError::State { path: self.log.directory().to_owned(), problem });
            }
        };
        if !removed.is_empty() {
            // First: after a power cut the log must not end before, without what the files had.
            self.sync_until(offset.after(record.size as u64))?;
        }
        removed.iter().try_for_each(|topic| self.remove_logged_topic(topic))
    }

    /// Whether records wait to be committed.
    pub(super) fn has_uncommitted(&self) -> bool {
        self.watermarks().committed() < self.watermarks().written()
    }

    /// Publishes what recovery left unpublished, up to `offset`.
    fn publish_recovered(&self, offset: LogOffset, state: &mut dyn StateReplay) -> Result<(), StorageError> {
        let mut unpublished = self.unpublished.lock();
        while let Some(from) = unpublished.from.filter(|from| *from < offset) {
            let end = unpublished.end;
            // As at a start: files may have to be cleared for a topic's next life.
            let flushing = self.flushing.lock();
            let mut recovery = Recovery::default();
            let reached = Replay {
                segments: &self.log.segments(),
                start: from,
                end_at: offset.min(end).min(from.after(REPLAYED_AT_ONCE)),
                // It was read when the store was opened, to its end.
                durable: LogOffset(u64::MAX),
                end_from: LogOffset(u64::MAX),
                entries_from: from,
                doubts: &Doubts::default(),
                removed: &Removed::default(),
                // Those before were added when this was tried last.
                keys_from: from.max(self.key_index_last().1),
                committed: LogOffset(u64::MAX),
                unpublished: &mut unpublished,
                rules: &self.options.index_rules,
                record_checksums: self.options.record_checksums,
                gathered_entries: self.options.gathered_entries,
                key_index: self.key_index.as_ref(),
                queues: &mut self.queues.write(),
                written_ends: &mut HashMap::new(),
                state,
                new_queue: &|topic: &TopicName, queue: QueueId| Arc::new(new_queue(&self.files, topic, queue)),
                recovery: &mut recovery,
                progress: &mut |_| (),
                is_opening: false,
                at: 0,
            }
            .run()?;
            self.changed_queues.look_over(&self.all_queues());
            if recovery.removed_queues > 0 {
                self.doubts_disk.store(true, Ordering::Relaxed);
            }
            drop(flushing);
            recovery.damaged.iter().for_each(|at| self.log.tell_damage(*at, "found when the log was read again"));
            if reached == from {
                break;
            }
            unpublished.from = Some(reached).filter(|reached| *reached < end);
            self.log.note_committed(reached);
        }
        Ok(())
    }
}
