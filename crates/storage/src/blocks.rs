//! Cold blocks of the log, read whole and kept for the next reader: consumers of many queues of one topic read the
//! same stretch of the log at about the same time.
//!
//! Only blocks below `written` are kept, so a block never changes once it is here. Memory is bounded, and stays small (and so
//! in the processor's cache) until blocks are wanted again that had to go.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use quick_cache::OptionsBuilder;
use quick_cache::sync::Cache;

/// Bytes of a block: one read of the disk, and some 60 messages of 1 KiB.
pub(crate) const BLOCK_SIZE: u64 = 64 * 1024;

/// Blocks kept at least: 4 MiB.
const BLOCKS_MIN: usize = 64;
/// Blocks kept at most: 32 MiB.
const BLOCKS_MAX: usize = 512;
/// Blocks remembered without their bytes: 1 GiB of the log.
const GHOSTS_MAX: usize = 16 * 1024;
/// Share of the blocks kept that the cache chooses by how often they were wanted. The rest are simply the last that were read: each
/// has to be there until the slowest of those who read together has come by.
const CHOSEN_SHARE: f64 = 0.1;
/// So many times all blocks kept are replaced before fewer are.
const LIVES_BEFORE_FEWER: usize = 8;

#[derive(Debug)]
pub(crate) struct Blocks {
    cache: Cache<u64, Kept>,
    /// Blocks that were here.
    ghosts: Cache<u64, ()>,
    capacity: AtomicUsize,
    /// Blocks that came.
    came: AtomicUsize,
    /// How many had come when it last showed that so many are needed.
    needed_at: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Kept {
    bytes: Bytes,
    /// How many had come before.
    came_before: usize,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            cache: blocks_kept(),
            ghosts: Cache::new(GHOSTS_MAX),
            capacity: AtomicUsize::new(BLOCKS_MIN),
            came: AtomicUsize::new(0),
            needed_at: AtomicUsize::new(0),
        }
    }

    /// Number of the block that holds a log offset.
    pub(crate) const fn number(offset: u64) -> u64 {
        offset / BLOCK_SIZE
    }

    pub(crate) fn get(&self, number: u64) -> Option<Bytes> {
        let kept = self.cache.get(&number)?;
        let came = self.came.load(Ordering::Relaxed);
        if came.saturating_sub(kept.came_before) > self.capacity.load(Ordering::Relaxed) / 2 {
            // With half as many it would have gone.
            self.needed_at.store(came, Ordering::Relaxed);
        }
        Some(kept.bytes)
    }

    pub(crate) fn insert(&self, number: u64, block: Bytes) {
        // Two threads may read the same block at the same time: that is no sign that it went too soon.
        if self.ghosts.get(&number).is_some() && self.cache.peek(&number).is_none() {
            self.keep_more();
        }
        self.ghosts.insert(number, ());
        let came_before = self.came.fetch_add(1, Ordering::Relaxed);
        self.cache.insert(number, Kept { bytes: block, came_before });
        let capacity = self.capacity.load(Ordering::Relaxed);
        if came_before.saturating_sub(self.needed_at.load(Ordering::Relaxed)) >= capacity * LIVES_BEFORE_FEWER {
            self.resize((capacity / 2).max(BLOCKS_MIN));
        }
    }

    fn keep_more(&self) {
        self.resize((self.capacity.load(Ordering::Relaxed) * 2).min(BLOCKS_MAX));
    }

    /// Threads that do this at the same time agree soon enough.
    fn resize(&self, capacity: usize) {
        self.needed_at.store(self.came.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.capacity.swap(capacity, Ordering::Relaxed) != capacity {
            self.cache.set_capacity(capacity as u64);
        }
    }
}

fn blocks_kept() -> Cache<u64, Kept> {
    let mut options = OptionsBuilder::new();
    options.estimated_items_capacity(BLOCKS_MIN).weight_capacity(BLOCKS_MIN as u64).hot_allocation(CHOSEN_SHARE);
    let with = |options| Cache::with_options(options, Default::default(), Default::default(), Default::default());
    options.build().map_or_else(|_| Cache::new(BLOCKS_MIN), with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(blocks: &Blocks, number: u64) {
        if blocks.get(number).is_none() {
            blocks.insert(number, Bytes::from_static(b"block"));
        }
    }

    /// Reads of the disk, where each of `readers` goes through `steps` blocks, and reader r is at block `place(step, r)`.
    fn count_reads(readers: u64, steps: u64, place: impl Fn(u64, u64) -> u64) -> u64 {
        let (blocks, mut reads) = (Blocks::new(), 0);
        for step in 0..steps {
            for reader in 0..readers {
                let number = place(step, reader);
                reads += u64::from(blocks.get(number).is_none());
                read(&blocks, number);
            }
        }
        reads
    }

    #[test]
    fn readers_that_go_along_together_have_each_block_read_once() {
        for (readers, apart) in [(1, 0), (8, 0), (8, 1), (8, 3), (40, 1)] {
            let reads = count_reads(readers, 2000, |step, reader| 1000 + step - reader * apart);
            assert!(reads <= 2000 + readers * apart + 100, "{readers} readers {apart} apart: {reads}");
        }
        // One queue had to wait for the disk, and stays behind.
        let reads = count_reads(2, 40_000, |step, reader| step - reader * (step / 10).min(300));
        assert!(reads <= 40_400, "a reader that stays behind: {reads}");
        // Queues of a topic that were not written to quite alike.
        for (readers, percent) in [(2, 1), (3, 1), (3, 2), (2, 4)] {
            let reads = count_reads(readers, 10_000, |step, reader| step - step * reader * percent / 100);
            assert!(reads <= 10_100, "{readers} readers that drift apart by {percent} %: {reads}");
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
