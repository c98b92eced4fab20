//! The newest entries of a queue, in memory, in pieces of a fixed size: adding never moves entries, and the queue's lock is held
//! for at most the copy of one piece.

use std::collections::VecDeque;

use format::queue_entry::Entry;

/// Entries of a piece.
pub(super) const PIECE_SIZE: usize = 512;

#[derive(Debug, Default)]
pub(super) struct RecentEntries {
    /// All full except the last.
    pieces: VecDeque<Vec<Entry>>,
    /// Dropped entries at the front of the first piece.
    dropped: usize,
    len: usize,
}

impl RecentEntries {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn extend(&mut self, entries: impl Iterator<Item = Entry>) {
        for entry in entries {
            if self.pieces.back().is_none_or(|last| last.len() == PIECE_SIZE) {
                // A queue with few entries should take little memory.
                let size = if self.pieces.is_empty() { 0 } else { PIECE_SIZE };
                self.pieces.push_back(Vec::with_capacity(size));
            }
            if let Some(last) = self.pieces.back_mut() {
                last.push(entry);
                self.len += 1;
            }
        }
    }

    /// Adds up to `count` entries from number `from` on to `copied`.
    pub(super) fn copy(&self, from: usize, count: usize, copied: &mut Vec<Entry>) {
        let (mut at, mut rest) = (self.dropped + from, count.min(self.len.saturating_sub(from)));
        while rest > 0 {
            let Some(piece) = self.pieces.get(at / PIECE_SIZE) else { return };
            let part = piece.get(at % PIECE_SIZE..).unwrap_or_default();
            let part = part.get(..rest).unwrap_or(part);
            copied.extend_from_slice(part);
            (at, rest) = (at + part.len(), rest - part.len());
        }
    }

    /// Drops the oldest `count` entries. Returns memory for the caller to free outside the lock.
    pub(super) fn drop_oldest(&mut self, count: usize) -> Vec<Vec<Entry>> {
        self.dropped += count.min(self.len);
        self.len -= count.min(self.len);
        let mut freed: Vec<_> = self.pieces.drain(..(self.dropped / PIECE_SIZE).min(self.pieces.len())).collect();
        self.dropped %= PIECE_SIZE;
        if self.pieces.len() == 1 && self.dropped > 0 {
            let mut kept = Vec::with_capacity(self.len);
            self.copy(0, self.len, &mut kept);
            freed.extend(self.pieces.pop_front());
            self.dropped = 0;
            if !kept.is_empty() {
                self.pieces.push_back(kept);
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use base::LogOffset;

    use super::*;

    fn entry(number: usize) -> Entry {
        Entry { log_offset: LogOffset(number as u64), size: 1, tag_code: 0 }
    }

    #[test]
    fn what_was_added_and_not_dropped_is_there_in_order() {
        let mut recent = RecentEntries::default();
        let (mut first, mut end) = (0, 0);
        let steps = [1, 3, 0, PIECE_SIZE - 4, 1, PIECE_SIZE, 2 * PIECE_SIZE + 1, 7, 0, 600];
        for (number, added) in steps.into_iter().cycle().take(80).enumerate() {
            recent.extend((end..end + added).map(entry));
            end += added;
            let goes = match number % 5 {
                0 => recent.len(),
                1 => recent.len() / 2,
                2 => 1.min(recent.len()),
                3 => PIECE_SIZE.min(recent.len()),
                _ => 0,
            };
            recent.drop_oldest(goes);
            first += goes;
            assert_eq!(recent.len(), end - first);
            for (from, count) in [(0, usize::MAX), (1, 5), (recent.len() / 2, PIECE_SIZE), (recent.len(), 1)] {
                let mut copied = Vec::new();
                recent.copy(from, count, &mut copied);
                let wanted = (first + from..end.min((first + from).saturating_add(count))).map(entry);
                assert!(copied.into_iter().eq(wanted), "step {number}, from {from}");
            }
        }
    }

    #[test]
    fn a_queue_that_keeps_few_entries_keeps_little_memory() {
        let mut recent = RecentEntries::default();
        recent.extend((0..100_000).map(entry));
        recent.drop_oldest(100_000 - 10);
        let capacity: usize = recent.pieces.iter().map(Vec::capacity).sum();
        assert!(capacity <= PIECE_SIZE, "{capacity}");
        recent.drop_oldest(1);
        assert_eq!(recent.pieces.iter().map(Vec::capacity).sum::<usize>(), 9);
    }
}
