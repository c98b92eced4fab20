//! Cache of cold blocks of the log: consumers of many queues of one topic read the same stretch of the log at about the same time.
//!
//! Only blocks below `written` are cached, so a cached block never changes. Capacity is bounded. It starts small, so that the blocks
//! stay in the processor's cache, doubles when an evicted block is wanted again, and halves when half would have done.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use quick_cache::OptionsBuilder;
use quick_cache::sync::Cache;

/// Bytes of a block: one read of the disk, some 60 messages of 1 KiB.
pub(crate) const BLOCK_SIZE: u64 = 64 * 1024;

/// Least capacity, in blocks: 4 MiB.
const BLOCKS_MIN: usize = 64;
/// Greatest capacity, in blocks: 32 MiB.
const BLOCKS_MAX: usize = 512;
/// Ghost entries, which remember that a block was cached: 1 GiB of the log.
const GHOSTS_MAX: usize = 16 * 1024;
/// Share of the capacity for blocks that were hit again. The rest evicts in order of arrival: a block has to stay until the slowest of
/// the consumers that read together has read it.
const HOT_SHARE: f64 = 0.1;
/// So often the whole cache is replaced, without a sign that half of it would not do, before its capacity is halved.
const TURNOVERS_BEFORE_FEWER: usize = 8;

#[derive(Debug)]
pub(crate) struct Blocks {
    cache: Cache<u64, Block>,
    /// Blocks inserted lately, evicted since or not.
    ghosts: Cache<u64, ()>,
    capacity: AtomicUsize,
    inserted: AtomicUsize,
    /// Insertions when the present capacity last proved necessary.
    needed_at: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Block {
    bytes: Bytes,
    /// Insertions before this one.
    inserted_before: usize,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            cache: empty_cache(),
            ghosts: Cache::new(GHOSTS_MAX),
            capacity: AtomicUsize::new(BLOCKS_MIN),
            inserted: AtomicUsize::new(0),
            needed_at: AtomicUsize::new(0),
        }
    }

    /// Number of the block that holds a log offset.
    pub(crate) const fn number(offset: u64) -> u64 {
        offset / BLOCK_SIZE
    }

    pub(crate) fn get(&self, number: u64) -> Option<Bytes> {
        let block = self.cache.get(&number)?;
        let inserted = self.inserted.load(Ordering::Relaxed);
        if inserted.saturating_sub(block.inserted_before) > self.capacity.load(Ordering::Relaxed) / 2 {
            // With half the capacity it would have been evicted.
            self.needed_at.store(inserted, Ordering::Relaxed);
        }
        Some(block.bytes)
    }

    pub(crate) fn insert(&self, number: u64, block: Bytes) {
        // A ghost whose block is not cached was evicted too soon. If it is cached, another thread just read the same block.
        if self.ghosts.get(&number).is_some() && self.cache.peek(&number).is_none() {
            self.grow();
        }
        self.ghosts.insert(number, ());
        let inserted_before = self.inserted.fetch_add(1, Ordering::Relaxed);
        self.cache.insert(number, Block { bytes: block, inserted_before });
        let capacity = self.capacity.load(Ordering::Relaxed);
        if inserted_before.saturating_sub(self.needed_at.load(Ordering::Relaxed)) >= capacity * TURNOVERS_BEFORE_FEWER {
            self.resize((capacity / 2).max(BLOCKS_MIN));
        }
    }

    fn grow(&self) {
        self.resize((self.capacity.load(Ordering::Relaxed) * 2).min(BLOCKS_MAX));
    }

    /// Threads that resize at the same time may leave `capacity` and the cache apart until the next resize.
    fn resize(&self, capacity: usize) {
        self.needed_at.store(self.inserted.load(Ordering::Relaxed), Ordering::Relaxed);
        if self.capacity.swap(capacity, Ordering::Relaxed) != capacity {
            self.cache.set_capacity(capacity as u64);
        }
    }
}

fn empty_cache() -> Cache<u64, Block> {
    let mut options = OptionsBuilder::new();
    options.estimated_items_capacity(BLOCKS_MIN).weight_capacity(BLOCKS_MIN as u64).hot_allocation(HOT_SHARE);
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

    /// Reads of the disk, where each of `readers` goes through `steps` blocks, and reader r is at block `block_of(step, r)`.
    fn count_reads(readers: u64, steps: u64, block_of: impl Fn(u64, u64) -> u64) -> u64 {
        let (blocks, mut reads) = (Blocks::new(), 0);
        for step in 0..steps {
            for reader in 0..readers {
                let number = block_of(step, reader);
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
