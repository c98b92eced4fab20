//! The recent end of the log in memory: the bytes that were appended, shared with readers instead of copied.
//!
//! **Always holds**: at most `limit` bytes, in whole chunks. A chunk larger than that is not kept.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;

#[derive(Debug)]
pub(crate) struct Recent {
    state: Mutex<State>,
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Contiguous, in log order, never overlapping.
    chunks: VecDeque<Chunk>,
    size: usize,
}

#[derive(Debug)]
struct Chunk {
    start: u64,
    bytes: Bytes,
}

/// Holds the lock for all records of one fetch.
pub(crate) struct RecentReader<'a> {
    state: parking_lot::MutexGuard<'a, State>,
    /// The chunk with the record that was found last: records of one fetch mostly lie side by side, in this chunk or the next.
    last: usize,
}

impl Recent {
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), limit }
    }

    /// Adds what was just written at `start`.
    pub(crate) fn push(&self, start: u64, bytes: Bytes) {
        let mut state = self.state.lock();
        let mut dropped = Vec::new();
        state.size += bytes.len();
        state.chunks.push_back(Chunk { start, bytes });
        while state.size > self.limit {
            if let Some(oldest) = state.chunks.pop_front() {
                state.size -= oldest.bytes.len();
                dropped.push(oldest);
            }
        }
        drop(state);
        // Freed outside the lock.
        drop(dropped);
    }

    pub(crate) fn reader(&self) -> RecentReader<'_> {
        RecentReader { state: self.state.lock(), last: 0 }
    }
}

impl RecentReader<'_> {
    /// The chunk with the `size` bytes at `start`, if it is here, and their position in it.
    pub(crate) fn find(&mut self, start: u64, size: usize) -> Option<(&Bytes, usize)> {
        let chunks = &self.state.chunks;
        // Consumers that lag ask for records older than all chunks: answer these without a search.
        chunks.front().filter(|oldest| oldest.start <= start)?;
        let has = |place: usize| chunks.get(place).is_some_and(|chunk| chunk.has(start));
        if !has(self.last) {
            self.last = if has(self.last + 1) {
                self.last + 1
            } else {
                chunks.partition_point(|chunk| chunk.start <= start).checked_sub(1)?
            };
        }
        let chunk = chunks.get(self.last)?;
        let from = (start - chunk.start) as usize;
        let to = from.checked_add(size).filter(|&to| to > from)?;
        (to <= chunk.bytes.len()).then_some((&chunk.bytes, from))
    }
}

impl RecentReader<'_> {
    /// At most `size` bytes from `start` on, in pieces that follow each other without a gap; none if `start` is not here.
    pub(crate) fn run(&self, start: u64, size: usize) -> Vec<Bytes> {
        let chunks = &self.state.chunks;
        let first = chunks.partition_point(|chunk| chunk.start <= start).saturating_sub(1);
        let (mut next, end) = (start, start.saturating_add(size as u64));
        let mut run = Vec::new();
        for chunk in chunks.iter().skip(first) {
            if next >= end || !chunk.has(next) {
                break;
            }
            let from = (next - chunk.start) as usize;
            let to = chunk.bytes.len().min(from + (end - next) as usize);
            run.push(chunk.bytes.slice(from..to));
            next += (to - from) as u64;
        }
        run
    }
}

impl Chunk {
    fn has(&self, offset: u64) -> bool {
        offset.checked_sub(self.start).is_some_and(|within| within < self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_larger_than_all_that_is_kept_nothing_stays() {
        let recent = Recent::new(10);
        recent.push(100, Bytes::from_static(b"abcdef"));
        recent.push(106, Bytes::from_static(b"much more than ten"));
        assert_eq!(recent.state.lock().size, 0);
        recent.push(124, Bytes::from_static(b"k"));
        assert_eq!(recent.reader().find(124, 1).map(|(bytes, _)| bytes.len()), Some(1));
    }

    #[test]
    fn a_run_goes_over_chunks_up_to_a_gap_or_its_size() {
        let recent = Recent::new(100);
        recent.push(100, Bytes::from_static(b"abc"));
        recent.push(103, Bytes::from_static(b"def"));
        recent.push(110, Bytes::from_static(b"k"));
        let run = |start, size| recent.reader().run(start, size).concat();
        let found =
            [(100, 9), (101, 1), (102, 3), (106, 9), (110, 9), (99, 9), (111, 9)].map(|(start, size)| run(start, size));
        assert_eq!(found, [&b"abcdef"[..], b"b", b"cde", b"", b"k", b"", b""]);
    }

    #[test]
    fn old_bytes_leave_and_new_ones_are_found() {
        let recent = Recent::new(10);
        recent.push(100, Bytes::from_static(b"abcdef"));
        recent.push(106, Bytes::from_static(b"ghij"));
        let find = |start, size| recent.reader().find(start, size).map(|(bytes, at)| bytes[at..at + size].to_vec());
        assert_eq!(find(102, 3).as_deref(), Some(&b"cde"[..]));
        recent.push(110, Bytes::from_static(b"k"));
        assert_eq!(find(102, 3), None);
        assert_eq!(find(106, 4).as_deref(), Some(&b"ghij"[..]));
        assert_eq!(find(106, 5), None);
        assert_eq!(find(110, 1).as_deref(), Some(&b"k"[..]));
        assert_eq!(find(111, 1), None);
        let mut reader = recent.reader();
        for (start, expected) in [(110, b'k'), (106, b'g'), (108, b'i'), (110, b'k')] {
            assert_eq!(reader.find(start, 1).map(|(bytes, at)| bytes[at]), Some(expected), "{start}, in one fetch");
        }
    }
}
