//! Cold blocks of the log, read whole and kept for the next reader: consumers of many queues of one topic read the
//! same stretch of the log at about the same time.
//!
//! Only blocks below `appended` are kept, so a block never changes once it is here. Memory is bounded, and stays small (and so
//! in the processor's cache) until blocks are wanted again that had to go.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use quick_cache::sync::Cache;

/// Bytes of a block: one read of the disk, and some 60 messages of 1 KiB.
pub(crate) const BLOCK_SIZE: u64 = 64 * 1024;

/// Blocks kept at least: 4 MiB.
const BLOCKS_MIN: usize = 64;
/// Blocks kept at most: 32 MiB.
const BLOCKS_MAX: usize = 512;
/// Blocks remembered without their bytes: 1 GiB of the log.
const TRACES_MAX: usize = 16 * 1024;
/// So many times all blocks kept are replaced before fewer are.
const LIVES_BEFORE_FEWER: usize = 8;

#[derive(Debug)]
pub(crate) struct Blocks {
    cache: Cache<u64, Bytes>,
    /// Blocks that were here.
    traces: Cache<u64, ()>,
    capacity: AtomicUsize,
    /// Blocks that came since one was last wanted back.
    inserted: AtomicUsize,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            cache: Cache::new(BLOCKS_MIN),
            traces: Cache::new(TRACES_MAX),
            capacity: AtomicUsize::new(BLOCKS_MIN),
            inserted: AtomicUsize::new(0),
        }
    }

    /// Number of the block that holds a log offset.
    pub(crate) const fn number(offset: u64) -> u64 {
        offset / BLOCK_SIZE
    }

    pub(crate) fn get(&self, number: u64) -> Option<Bytes> {
        self.cache.get(&number)
    }

    pub(crate) fn insert(&self, number: u64, block: Bytes) {
        // Two threads may read the same block at the same time: that is no sign that it went too soon.
        if self.traces.get(&number).is_some() && self.cache.peek(&number).is_none() {
            self.keep_more();
        }
        self.traces.insert(number, ());
        self.cache.insert(number, block);
        let capacity = self.capacity.load(Ordering::Relaxed);
        if self.inserted.fetch_add(1, Ordering::Relaxed) >= capacity * LIVES_BEFORE_FEWER {
            self.resize((capacity / 2).max(BLOCKS_MIN));
        }
    }

    fn keep_more(&self) {
        self.resize((self.capacity.load(Ordering::Relaxed) * 2).min(BLOCKS_MAX));
    }

    /// Threads that do this at the same time agree soon enough.
    fn resize(&self, capacity: usize) {
        self.inserted.store(0, Ordering::Relaxed);
        if self.capacity.swap(capacity, Ordering::Relaxed) != capacity {
            self.cache.set_capacity(capacity as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(blocks: &Blocks, number: u64) {
        if blocks.get(number).is_none() {
            blocks.insert(number, Bytes::from_static(b"block"));
        }
    }

    #[test]
    fn as_many_are_kept_as_are_wanted_back_and_no_more() {
        let blocks = Blocks::new();
        let capacity = || blocks.capacity.load(Ordering::Relaxed);
        (0..1000).for_each(|number| read(&blocks, number));
        assert_eq!(capacity(), BLOCKS_MIN, "a single reader needs no more");
        for _ in 0..4 {
            (2000..2400).for_each(|number| read(&blocks, number));
        }
        assert!(capacity() >= 400, "readers far apart do");
        (10_000..60_000).for_each(|number| read(&blocks, number));
        assert_eq!(capacity(), BLOCKS_MIN, "until they are gone");
    }
}
