//! A pool of blocks that records are encoded into, so that nothing is allocated under load.
//!
//! Batches share a block, and the records in it keep it alive, mostly those in `Recent`. Once all are dropped, it is used again.

use std::collections::VecDeque;

use bytes::BytesMut;
use parking_lot::Mutex;

/// Bytes of a block: three batches of what is read from a socket at once, so that little of it stays empty.
pub(crate) const BLOCK_SIZE: usize = 2 << 20;
/// A block with less spare capacity than this counts as full.
const WORTH_KEEPING: usize = 16 * 1024;
/// Blocks that are partly filled: about as many as threads that encode at the same time.
const OPEN_MAX: usize = 16;
/// Full blocks that are kept beside those with the end of the log.
const SPARE: usize = 2;

#[derive(Debug)]
pub(crate) struct Buffers {
    state: Mutex<State>,
    spent_max: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Partly filled blocks, the last used at the end.
    open: Vec<BytesMut>,
    /// Full blocks, oldest first.
    spent: VecDeque<BytesMut>,
}

impl Buffers {
    /// A pool for a log whose last `recent_size` bytes are kept in memory.
    pub(crate) fn new(recent_size: usize) -> Self {
        // An eighth of a block stays empty.
        Self { state: Mutex::default(), spent_max: recent_size / BLOCK_SIZE * 9 / 8 + SPARE }
    }

    /// An empty buffer with capacity for `size` bytes.
    pub(crate) fn take(&self, size: usize) -> BytesMut {
        let mut state = self.state.lock();
        if let Some(at) = state.open.iter().rposition(|block| block.capacity() >= size) {
            return state.open.remove(at);
        }
        if size <= BLOCK_SIZE
            && let Some(mut oldest) = state.spent.pop_front()
        {
            if oldest.try_reclaim(BLOCK_SIZE) {
                return oldest;
            }
            state.spent.push_front(oldest);
        }
        drop(state);
        BytesMut::with_capacity(size.max(BLOCK_SIZE))
    }

    /// Returns the rest of a buffer of which `used` bytes were just filled. Buffers larger than a block are not kept.
    pub(crate) fn give_back(&self, rest: BytesMut, used: usize) {
        if used + rest.capacity() > BLOCK_SIZE {
            return;
        }
        let mut state = self.state.lock();
        if rest.capacity() >= WORTH_KEEPING {
            state.open.push(rest);
        } else {
            state.spent.push_back(rest);
        }
        // The one least recently used had too little capacity for most batches.
        let unused = if state.open.len() > OPEN_MAX { Some(state.open.remove(0)) } else { None };
        state.spent.extend(unused);
        if state.spent.len() > self.spent_max {
            state.spent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// A batch of `size` bytes, as the log keeps it.
    fn fill(buffers: &Buffers, size: usize) -> Bytes {
        let mut buffer = buffers.take(size);
        buffer.resize(size, 7);
        let batch = buffer.split().freeze();
        buffers.give_back(buffer, batch.len());
        batch
    }

    #[test]
    fn batches_share_a_block() {
        let buffers = Buffers::new(4 * BLOCK_SIZE);
        let (first, second) = (fill(&buffers, 1000), fill(&buffers, 2000));
        assert_eq!(first.as_ptr_range().end, second.as_ptr_range().start);
    }

    #[test]
    fn what_nobody_needs_any_more_is_used_again_and_what_is_needed_stays_as_it_is() {
        let buffers = Buffers::new(4 * BLOCK_SIZE);
        let mut log = VecDeque::new();
        let mut addresses = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let batch = fill(&buffers, BLOCK_SIZE - 100);
            addresses.insert(batch.as_ptr());
            log.push_back(batch);
            if log.len() > 4 {
                log.pop_front();
            }
            assert!(log.iter().all(|batch| batch.iter().all(|&byte| byte == 7)));
        }
        assert!(addresses.len() <= 6, "{}", addresses.len());
    }

    #[test]
    fn a_large_batch_gets_the_room_it_wants() {
        let buffers = Buffers::new(0);
        assert!(buffers.take(3 * BLOCK_SIZE).capacity() >= 3 * BLOCK_SIZE);
        assert_eq!(fill(&buffers, 2 * BLOCK_SIZE).len(), 2 * BLOCK_SIZE);
    }

    #[test]
    fn what_is_larger_than_a_block_goes_back_to_the_system() {
        let buffers = Buffers::new(64 * BLOCK_SIZE);
        // Taken at that size, and grown to it; filled, and hardly used.
        for (taken, filled) in [(3, 3 * BLOCK_SIZE), (1, 3 * BLOCK_SIZE), (3, 100)] {
            let mut buffer = buffers.take(taken * BLOCK_SIZE);
            buffer.resize(filled, 7);
            let batch = buffer.split().freeze();
            buffers.give_back(buffer, batch.len());
            let state = buffers.state.lock();
            assert_eq!((state.open.len(), state.spent.len()), (0, 0), "{taken} blocks, {filled} bytes");
        }
    }

    #[test]
    fn blocks_that_are_held_for_long_do_not_pile_up() {
        let buffers = Buffers::new(0);
        let held: Vec<_> = (0..10 * OPEN_MAX).map(|_| fill(&buffers, BLOCK_SIZE)).collect();
        assert!(buffers.state.lock().spent.len() <= OPEN_MAX);
        drop(held);
    }
}
