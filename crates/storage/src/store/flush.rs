//! Flushes queue entries to their files, and writes checkpoints.
//!
//! A checkpoint syncs entries, keys and log, and then records up to which log offset they are durable. It is written last: after a
//! crash its offset is still right, and recovery starts there.

use std::sync::atomic::Ordering;

use super::Store;
use crate::checkpoint::{BegunWork, Checkpoint};
use crate::error::StorageError;
use crate::key_index::KeyIndex;
use crate::recover;

/// Entries of all queues that stay in memory after they were flushed, for consumers that keep up.
const RECENT_ENTRIES_MAX: usize = 1 << 20;

/// The same for one queue.
const RECENT_PER_QUEUE_MAX: usize = 128;

/// A queue is flushed early once it has one in so many of `Options::gathered_entries`.
const GATHERED_SHARE: u64 = 1024;

impl Store {
    /// Writes entries of queues that have many unflushed ones to their files (the page cache). This only bounds memory. If it fails
    /// while `Options::gathered_entries` are exceeded, appends are refused until it succeeds.
    pub fn flush_entries(&self) -> Result<(), StorageError> {
        let _one_at_a_time = self.flushing.lock();
        let limit = self.options.gathered_entries;
        let at_least = if self.changed_queues.unflushed_count() > limit { 0 } else { limit / GATHERED_SHARE };
        let flushed = self.with_reserve(|| self.flush_queues(at_least));
        let are_too_many = flushed.is_err() && self.changed_queues.unflushed_count() > limit;
        self.entries_are_stuck.store(are_too_many, Ordering::Relaxed);
        flushed
    }

    /// Makes log, entries and keys durable and records up to which log offset they are, so that recovery starts there.
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        // A second checkpoint would find the files of the first no longer marked as unsynced, though their sync is not finished.
        let _one_at_a_time = self.flushing.lock();
        self.checkpoint_while_flushing()
    }

    /// `checkpoint` for a caller that holds `flushing`.
    pub(super) fn checkpoint_while_flushing(&self) -> Result<(), StorageError> {
        // Queues have the entries of all records below `committed` before it advances.
        let indexed = self.watermarks().committed();
        self.index_staged()?;
        self.with_reserve(|| self.flush_queues(0))?;
        let keys = self.with_reserve(|| self.key_index.as_ref().map_or(Ok(Vec::new()), KeyIndex::flush))?;
        // After a failed sync the kernel drops the error: a later sync would succeed though the data is lost.
        let synced = keys.iter().try_for_each(|file| file.sync_data()).and_then(|()| self.sync_queues());
        synced.inspect_err(|error| self.log.poison(error))?;
        let log_durable = self.log.sync()?;
        let last_time = recover::last_store_time(&self.log.segments(), log_durable)?;
        let (key_time, _) = self.key_index_last();
        let checkpoint = Checkpoint {
            log_time: last_time,
            queue_time: last_time,
            key_time,
            indexed: Some(indexed),
            log_durable: Some(log_durable),
            begun: BegunWork::None,
        };
        self.with_reserve(|| checkpoint.write(&self.options.disk, &self.options.directory))?;
        self.checkpointed.store(indexed.0, Ordering::Release);
        Ok(())
    }

    /// Where a recovery would begin to read the log.
    pub(super) fn recovery_begins(&self) -> u64 {
        self.checkpointed.load(Ordering::Acquire).min(self.state_known.load(Ordering::Acquire))
    }

    /// Syncs the files of queues one by one; or the whole file system, if more were written to than are kept open, or if a killed
    /// process may have written to others.
    fn sync_queues(&self) -> Result<(), StorageError> {
        let mut queues = self.changed_queues.take_unsynced();
        let unsynced_count: usize = queues.iter().map(|queue| queue.unsynced_count()).sum();
        if unsynced_count > self.files.limit() || self.doubts_disk.load(Ordering::Relaxed) {
            queues.iter().for_each(|queue| drop(queue.take_unsynced()));
            self.options.disk.sync_everything(&self.options.directory)?;
            self.doubts_disk.store(false, Ordering::Relaxed);
            return Ok(());
        }
        recover::sort(&mut queues);
        queues.iter().try_for_each(|queue| queue.sync())
    }

    /// Flushes queues with at least `at_least` unflushed entries, in the order of their names, so that tests are reproducible.
    fn flush_queues(&self, at_least: u64) -> Result<(), StorageError> {
        let queue_count = self.queues.read().len();
        let kept_count = (RECENT_ENTRIES_MAX / queue_count.max(1)).min(RECENT_PER_QUEUE_MAX);
        self.changed_queues.flush(at_least, kept_count)
    }
}
