//! Keys of a store: indexed some time after their records are committed, and looked up.

use std::sync::atomic::Ordering;

use base::{LogOffset, Timestamp};

use super::Store;
use crate::error::StorageError;
use crate::key_index::{Key, KeyIndex};

impl Store {
    /// Bytes of keys not yet indexed.
    pub(super) fn unindexed_size(&self) -> usize {
        self.unindexed_count.load(Ordering::Relaxed) * size_of::<Key>()
    }

    /// Indexes the keys of what is committed. Keys that fail stay for the next call; until it succeeds no checkpoint is written, so
    /// recovery would index them too.
    pub fn index_staged(&self) -> Result<(), StorageError> {
        self.with_reserve(|| self.index_unindexed())
    }

    fn index_unindexed(&self) -> Result<(), StorageError> {
        let Some(index) = &self.key_index else { return Ok(()) };
        let _in_log_order = self.indexing.lock();
        let mut keys = std::mem::take(&mut *self.unindexed.lock());
        let before = keys.len();
        let added = index.add(&mut keys);
        self.unindexed_count.fetch_sub(before - keys.len(), Ordering::Relaxed);
        if !keys.is_empty() {
            let mut unindexed = self.unindexed.lock();
            keys.append(&mut unindexed);
            *unindexed = keys;
        }
        self.index_has_failed.store(added.is_err(), Ordering::Relaxed);
        added
    }

    /// Log offsets of records with a key of this hash, newest first; see `KeyIndex::find`.
    pub fn find_by_key(
        &self,
        hash: u32,
        times: (Timestamp, Timestamp),
        count: usize,
        accept: impl FnMut(LogOffset) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        self.index_staged()?;
        self.key_index.as_ref().map_or(Ok(()), |index| index.find(hash, times, count, accept))
    }

    /// Time and log offset of the last record in the key index.
    pub fn key_index_last(&self) -> (Timestamp, LogOffset) {
        self.key_index.as_ref().map(KeyIndex::last).unwrap_or_default()
    }
}
