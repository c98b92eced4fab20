//! The memory that answers copy records into, which is used again: the allocator gives what is free back to the system at once, and asking
//! the system anew costs a reader more than the copy.
//!
//! **Always holds**: a piece is at most twice as large as what was asked for; those kept for later are bounded.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Smaller pieces share the allocator's pages with many others; larger ones are rare. Between them sizes are powers of two.
const PIECE_MIN: usize = 1024;
const PIECE_MAX: usize = 1024 * 1024;
const SIZES: usize = (PIECE_MAX / PIECE_MIN).ilog2() as usize + 1;

/// Bytes that are kept: as much as many answers on their way to clients that take them.
const SPARE_MAX: usize = 4 * 1024 * 1024;

/// Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerMemory(Arc<Mutex<Spare>>);

#[derive(Debug, Default)]
struct Spare {
    /// Empty pieces of each size, the last used at the end.
    pieces: [Vec<Vec<u8>>; SIZES],
    /// Capacity of all of them.
    size: usize,
}

/// A piece that goes back when the last who shares its bytes lets them go.
struct Lent {
    piece: Vec<u8>,
    memory: AnswerMemory,
}

impl AnswerMemory {
    /// An empty piece with capacity for `size` bytes.
    pub(crate) fn take(&self, size: usize) -> Vec<u8> {
        if !(PIECE_MIN..=PIECE_MAX).contains(&size) {
            return Vec::with_capacity(size);
        }
        let capacity = size.next_power_of_two();
        let mut spare = self.0.lock();
        let Some(piece) = spare.of_size(capacity).pop() else {
            drop(spare);
            return Vec::with_capacity(capacity);
        };
        spare.size -= capacity;
        piece
    }

    /// The bytes of a piece, which comes back to be used again.
    pub(crate) fn lend(&self, piece: Vec<u8>) -> Bytes {
        if is_kept(piece.capacity()) { Bytes::from_owner(Lent { piece, memory: self.clone() }) } else { piece.into() }
    }

    /// Takes a piece back that was taken and not lent.
    pub(crate) fn give_back(&self, mut piece: Vec<u8>) {
        if !is_kept(piece.capacity()) {
            return;
        }
        piece.clear();
        let mut too_many = Vec::new();
        let mut spare = self.0.lock();
        while spare.size + piece.capacity() > SPARE_MAX {
            let Some(other) = spare.drop_other(piece.capacity()) else { return };
            too_many.push(other);
        }
        spare.size += piece.capacity();
        spare.of_size(piece.capacity()).push(piece);
        // Not with the lock held: their memory goes back to the system.
        drop(spare);
        drop(too_many);
    }
}

impl Spare {
    /// Takes away a piece of the largest size but this one: what was wanted once does not keep out what is wanted now.
    fn drop_other(&mut self, capacity: usize) -> Option<Vec<u8>> {
        let other =
            self.pieces.iter_mut().rev().find_map(|pieces| pieces.pop_if(|piece| piece.capacity() != capacity))?;
        self.size -= other.capacity();
        Some(other)
    }

    /// The pieces of this capacity, which is one that is kept.
    fn of_size(&mut self, capacity: usize) -> &mut Vec<Vec<u8>> {
        &mut self.pieces[(capacity / PIECE_MIN).ilog2() as usize]
    }
}

const fn is_kept(capacity: usize) -> bool {
    capacity >= PIECE_MIN && capacity <= PIECE_MAX && capacity.is_power_of_two()
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.memory.give_back(std::mem::take(&mut self.piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(memory: &AnswerMemory, size: usize) -> Bytes {
        let mut piece = memory.take(size);
        piece.resize(size, 7);
        memory.lend(piece)
    }

    #[test]
    fn a_piece_is_used_again_once_nobody_has_any_of_it() {
        let memory = AnswerMemory::default();
        let first = filled(&memory, 100_000);
        let (part, address) = (first.slice(10..20), first.as_ptr());
        drop(first);
        assert_ne!(filled(&memory, 100_000).as_ptr(), address, "a part is kept");
        assert_eq!(&part[..], [7; 10]);
        drop(part);
        let again = filled(&memory, 70_000);
        assert_eq!((again.as_ptr(), again.len()), (address, 70_000));
        assert_eq!(filled(&memory, 20_000).len(), 20_000);
    }

    #[test]
    fn pieces_are_at_most_twice_as_large_as_is_wanted() {
        let memory = AnswerMemory::default();
        for _ in 0..2 {
            let pieces = [0, 1, 100, PIECE_MIN - 1, PIECE_MIN, PIECE_MIN + 1, 100_000, PIECE_MAX, PIECE_MAX + 1];
            for size in pieces {
                let piece = memory.take(size);
                assert!((size..=2 * size).contains(&piece.capacity()), "{size}: {}", piece.capacity());
                drop(memory.lend(piece));
            }
        }
    }

    #[test]
    fn large_answers_of_once_keep_out_no_small_ones_of_now() {
        let memory = AnswerMemory::default();
        drop((0..8).map(|_| filled(&memory, 500_000)).collect::<Vec<_>>());
        drop([filled(&memory, 6000), filled(&memory, 6000)]);
        assert_eq!(memory.0.lock().of_size(8192).len(), 2);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let memory = AnswerMemory::default();
        let answers: Vec<_> =
            (0..100).flat_map(|_| [20_000, 300_000, PIECE_MAX]).map(|size| filled(&memory, size)).collect();
        drop(answers);
        let spare = memory.0.lock();
        assert_eq!(spare.size, spare.pieces.iter().flatten().map(Vec::capacity).sum::<usize>());
        assert!(spare.size <= SPARE_MAX && spare.size > SPARE_MAX / 2, "{}", spare.size);
    }
}
