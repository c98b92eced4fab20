//! Cold blocks of the log, read whole and kept for the next reader: consumers of many queues of one topic read the
//! same stretch of the log at about the same time.
//!
//! Only blocks below `appended` are kept, so a block never changes once it is here. Memory is bounded.

use bytes::Bytes;
use quick_cache::sync::Cache;

/// Bytes of a block: one read of the disk, and some 60 messages of 1 KiB.
pub(crate) const BLOCK_SIZE: u64 = 64 * 1024;

/// Blocks kept: 32 MiB.
const BLOCKS_MAX: usize = 512;

#[derive(Debug)]
pub(crate) struct Blocks {
    cache: Cache<u64, Bytes>,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { cache: Cache::new(BLOCKS_MAX) }
    }

    /// Number of the block that holds a log offset.
    pub(crate) const fn number(offset: u64) -> u64 {
        offset / BLOCK_SIZE
    }

    pub(crate) fn get(&self, number: u64) -> Option<Bytes> {
        self.cache.get(&number)
    }

    pub(crate) fn insert(&self, number: u64, block: Bytes) {
        self.cache.insert(number, block);
    }
}
