//! Brings entries and keys to the disk: into files when many have gathered, and for good at a checkpoint.
//!
//! A checkpoint says how far everything is on the disk, and is written last: after a crash, what it says is true.

use std::sync::atomic::Ordering;

use base::Timestamp;

use super::Store;
use crate::checkpoint::Checkpoint;
use crate::error::StorageError;
use crate::key_index::KeyIndex;
use crate::recover;

/// Entries of all queues that stay in memory after they were written, for consumers that keep up.
const RECENT_ENTRIES_MAX: usize = 1 << 20;

/// And of one queue.
const RECENT_PER_QUEUE_MAX: usize = 128;

/// A queue with this share of the entries that may gather is written before the others.
const GATHERED_SHARE: u64 = 1024;

impl Store {
    /// Writes queue entries into files (the page cache) where many have gathered: needed for nothing but memory. While that fails
    /// and more have gathered than may, no more messages are taken.
    pub fn flush_entries(&self) -> Result<(), StorageError> {
        let _one_at_a_time = self.flushing.lock();
        let limit = self.options.gathered_entries;
        let at_least = if self.gathered_entries() > limit { 0 } else { limit / GATHERED_SHARE };
        let flushed = self.with_reserve(|| self.flush_queues(at_least));
        let are_too_many = flushed.is_err() && self.gathered_entries() > limit;
        self.entries_are_stuck.store(are_too_many, Ordering::Relaxed);
        flushed
    }

    /// Entries that are in no file yet.
    fn gathered_entries(&self) -> u64 {
        self.all_queues().iter().map(|queue| queue.unflushed_count()).sum()
    }

    /// Puts log, entries and keys on the disk and notes how far that goes, so that recovery begins there.
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        // Whoever takes files to be synced must be done before another says that they are.
        let _one_at_a_time = self.flushing.lock();
        self.checkpoint_while_flushing()
    }

    /// As `checkpoint`, for who holds `flushing`.
    pub(super) fn checkpoint_while_flushing(&self) -> Result<(), StorageError> {
        // Entries of everything below `written` are in their queues by the time it is advanced.
        let durable = self.watermarks().written();
        self.index_staged()?;
        self.with_reserve(|| self.flush_queues(0))?;
        let keys = self.with_reserve(|| self.key_index.as_ref().map_or(Ok(Vec::new()), KeyIndex::flush))?;
        // What a failed sync leaves in the page cache only must never count as being on the disk.
        let synced = keys.iter().try_for_each(|file| file.sync_data()).and_then(|()| self.sync_queues());
        synced.inspect_err(|error| self.log.poison(error))?;
        self.log.sync()?;
        let last_time = self.last_store_time()?;
        let (key_time, _) = self.key_index_last();
        let checkpoint = Checkpoint { log_time: last_time, queue_time: last_time, key_time, durable: Some(durable) };
        self.with_reserve(|| checkpoint.write(&self.options.disk, &self.options.directory))?;
        self.checkpointed.store(durable.0, Ordering::Release);
        Ok(())
    }

    /// Puts what was written into the files of queues on the disk: file by file, or if they are more than are open or not
    /// all known, with everything else on that disk in one go.
    fn sync_queues(&self) -> Result<(), StorageError> {
        let mut queues = self.all_queues();
        let mut unsynced_count = 0;
        queues.retain(|queue| {
            let count = queue.unsynced_count();
            unsynced_count += count;
            count > 0
        });
        if unsynced_count > self.files.limit() || self.doubts_disk.load(Ordering::Relaxed) {
            queues.iter().for_each(|queue| drop(queue.take_unsynced()));
            self.options.disk.sync_everything(&self.options.directory)?;
            self.doubts_disk.store(false, Ordering::Relaxed);
            return Ok(());
        }
        recover::sort(&mut queues);
        queues.iter().try_for_each(|queue| queue.sync())
    }

    /// When the newest segment that has records began: a lower bound is all a checkpoint's time needs to be.
    fn last_store_time(&self) -> Result<Timestamp, StorageError> {
        for segment in self.log.segments().iter().rev() {
            if let Some(time) = recover::first_store_time(segment)? {
                return Ok(time);
            }
        }
        Ok(Timestamp(0))
    }

    /// Writes entries of queues of which at least `at_least` are not in a file, in the order of the queues' names, so that
    /// one history leads to one disk.
    fn flush_queues(&self, at_least: u64) -> Result<(), StorageError> {
        let mut queues = self.all_queues();
        let kept_count = (RECENT_ENTRIES_MAX / queues.len().max(1)).min(RECENT_PER_QUEUE_MAX);
        queues.retain(|queue| queue.unflushed_count() >= at_least.max(1));
        recover::sort(&mut queues);
        queues.iter().try_for_each(|queue| queue.flush(kept_count))
    }
}
