//! Which messages the consumers of a run have been handed: what comes a second time is told from what comes first, whichever of them
//! gets it.
//!
//! A bit for every message of a queue, so that it costs next to nothing; the oldest are forgotten where a queue has very many. All
//! threads of a run share it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bits of a word.
const WORD: u64 = 64;
/// Words for all queues together: 32 MiB.
const WORDS_MAX: usize = 1 << 22;
/// Words of a queue at least: however many queues there are, what is in flight is known.
const QUEUE_WORDS_MIN: usize = 1 << 6;

/// What arrived so far.
#[derive(Debug)]
pub struct Arrivals {
    queues: Vec<Mutex<Seen>>,
    /// Messages that were there when the run began, if that was asked for.
    expected: Option<u64>,
    first: AtomicU64,
    again: AtomicU64,
    unknown: AtomicU64,
    last_ns: AtomicU64,
}

/// Whether a message has come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    First,
    Again,
    /// It is older than what is remembered.
    Unknown,
}

impl Arrivals {
    /// Nothing yet, of so many queues.
    pub fn new(queues: usize, expected: Option<u64>) -> Self {
        let words_max = (WORDS_MAX / queues.max(1)).max(QUEUE_WORDS_MIN);
        let queues = (0..queues).map(|_| Mutex::new(Seen::new(words_max))).collect();
        let [first, again, unknown, last_ns] = [(); 4].map(|()| AtomicU64::new(0));
        Self { queues, expected, first, again, unknown, last_ns }
    }

    /// A message of the queue with this index came.
    pub fn came(&self, queue: usize, offset: u64, now_ns: u64) {
        let seen = self.queues.get(queue).and_then(|seen| seen.lock().ok());
        let counter = match seen.map_or(Coming::Unknown, |mut seen| seen.insert(offset)) {
            Coming::First => &self.first,
            Coming::Again => &self.again,
            Coming::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Relaxed);
        self.last_ns.fetch_max(now_ns, Relaxed);
    }

    /// A message came that its broker says it has handed out before.
    pub fn came_again(&self, now_ns: u64) {
        self.again.fetch_add(1, Relaxed);
        self.last_ns.fetch_max(now_ns, Relaxed);
    }

    /// Messages that were there when the run began.
    pub const fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Messages that came at least once.
    pub fn first(&self) -> u64 {
        self.first.load(Relaxed)
    }

    /// How often a message came that had come before.
    pub fn again(&self) -> u64 {
        self.again.load(Relaxed)
    }

    /// Messages of which nobody remembers whether they came before.
    pub fn unknown(&self) -> u64 {
        self.unknown.load(Relaxed)
    }

    /// Whether everything expected has come, or nothing more is to be hoped for after so long a silence.
    pub fn are_over(&self, now_ns: u64, patience_ns: u64) -> bool {
        let all_came = self.expected.is_none_or(|expected| self.first() >= expected);
        all_came || now_ns.saturating_sub(self.last_ns.load(Relaxed)) >= patience_ns
    }
}

/// Offsets of one queue: a bit each, of the last words that there is room for.
#[derive(Debug)]
struct Seen {
    words: VecDeque<u64>,
    words_max: usize,
    /// Which word the first of them is.
    begin: u64,
    /// Words before this one were forgotten.
    forgotten: u64,
}

impl Seen {
    const fn new(words_max: usize) -> Self {
        Self { words: VecDeque::new(), words_max, begin: 0, forgotten: 0 }
    }

    fn insert(&mut self, offset: u64) -> Coming {
        let number = offset / WORD;
        if number < self.forgotten {
            return Coming::Unknown;
        }
        if !self.make_room(number) {
            return Coming::Unknown;
        }
        let at = usize::try_from(number - self.begin).unwrap_or(usize::MAX);
        let Some(word) = self.words.get_mut(at) else { return Coming::Unknown };
        let bit = 1 << (offset % WORD);
        let coming = if *word & bit == 0 { Coming::First } else { Coming::Again };
        *word |= bit;
        coming
    }

    /// Has a word with that number; not where it would be too far in front of those that are there.
    fn make_room(&mut self, number: u64) -> bool {
        let room = self.words_max as u64;
        if self.words.is_empty() {
            self.begin = number;
        }
        if number < self.begin {
            if self.begin - number + self.words.len() as u64 > room {
                return false;
            }
            while self.begin > number {
                self.words.push_front(0);
                self.begin -= 1;
            }
        }
        // Of what is left behind nothing is remembered.
        let begin = (number + 1).saturating_sub(room);
        if begin > self.begin {
            let gone = usize::try_from(begin - self.begin).unwrap_or(usize::MAX).min(self.words.len());
            self.words.drain(..gone);
            (self.begin, self.forgotten) = (begin, begin);
        }
        while self.begin + self.words.len() as u64 <= number {
            self.words.push_back(0);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_is_told_from_what_comes_first_in_any_order() {
        let arrivals = Arrivals::new(2, Some(200));
        for offset in (1_000..1_100).rev().chain(1_100..1_200) {
            arrivals.came(0, offset, 5);
        }
        assert_eq!((arrivals.first(), arrivals.again(), arrivals.unknown()), (200, 0, 0));
        for offset in [1_000, 1_150, 1_150] {
            arrivals.came(0, offset, 6);
        }
        arrivals.came(1, 1_000, 7);
        arrivals.came_again(8);
        arrivals.came(2, 0, 9);
        assert_eq!((arrivals.first(), arrivals.again(), arrivals.unknown()), (201, 4, 1));
    }

    #[test]
    fn a_run_is_over_when_everything_came_or_nothing_has_come_for_long() {
        let arrivals = Arrivals::new(1, Some(2));
        arrivals.came(0, 0, 100);
        assert!(!arrivals.are_over(109, 10) && arrivals.are_over(110, 10));
        arrivals.came(0, 1, 105);
        assert!(arrivals.are_over(106, 10));
        assert!(Arrivals::new(1, None).are_over(0, 10));
    }

    #[test]
    fn a_long_queue_takes_no_more_memory_than_it_may() {
        let mut seen = Seen::new(2);
        assert!((0..1_000).all(|offset| seen.insert(offset) == Coming::First));
        assert_eq!((seen.words.len(), seen.insert(999), seen.insert(0)), (2, Coming::Again, Coming::Unknown));
        assert_eq!(seen.insert(u64::MAX), Coming::First);
        assert_eq!((seen.words.len(), seen.insert(999)), (2, Coming::Unknown));
        let mut late = Seen::new(2);
        assert_eq!([500, 300, 440].map(|offset| late.insert(offset)), [Coming::First, Coming::Unknown, Coming::First]);
        assert_eq!((late.words.len(), late.insert(440)), (2, Coming::Again));
    }
}
