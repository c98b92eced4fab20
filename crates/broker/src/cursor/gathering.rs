//! When commits that wait for their answer go into the log: at once while they are few; else together, so that records of them take about
//! a megabyte a second, however many connections commit. Pure.

use std::task::Waker;

use base::{LogOffset, Monotonic};

/// Bytes that records of commits may take a millisecond.
const SIZE_PER_MS: u64 = 1000;

/// Bytes they may take at once after a pause.
const SIZE_AT_ONCE: u64 = 4096;

/// No commit waits longer for others, whatever they all take.
const WAIT_MS_MAX: u64 = 20;

/// How far the commits of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStage {
    /// They gather with others for a record of the log, which is due then.
    Gathering {
        /// Which of the records.
        round: u64,
        /// When it is due.
        due: Monotonic,
    },
    /// They are in the log: kept once `written` passes this.
    Logged(LogOffset),
}

/// The commits that gather.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// The size of all records so far, as if what was not used in time had been used: it is paid for once so many milliseconds have
    /// passed.
    spent: u64,
    /// Rounds that are in the log.
    logged: u64,
    /// Who waits, and for which round.
    waiting: Vec<(u64, Waker)>,
}

impl Gathering {
    /// When the next record may be written.
    pub(crate) const fn due(&self) -> Monotonic {
        Monotonic(self.spent.div_ceil(SIZE_PER_MS))
    }

    pub(crate) const fn is_logged(&self, round: u64) -> bool {
        round < self.logged
    }

    pub(crate) fn wait(&mut self, round: u64, waker: Waker) {
        self.waiting.push((round, waker));
    }

    /// A round is in the log, in `size` bytes. Gives those who wait for it.
    pub(crate) fn note(&mut self, round: u64, size: u64, now: Monotonic) -> Vec<Waker> {
        let passed = now.0 * SIZE_PER_MS;
        let spent = self.spent.max(passed.saturating_sub(SIZE_AT_ONCE)) + size;
        self.spent = spent.min(passed + WAIT_MS_MAX * SIZE_PER_MS);
        self.logged = self.logged.max(round + 1);
        self.waiting.extract_if(.., |(waits_for, _)| *waits_for <= round).map(|(_, waker)| waker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic(1_000_000 + ms)
    }

    #[test]
    fn a_few_go_at_once_and_more_are_held_to_their_share() {
        let mut gathering = Gathering::default();
        let mut written = 0;
        for round in 0..100 {
            if gathering.due() <= at(0) {
                gathering.note(round, 170, at(0));
                written += 170;
            }
        }
        assert!((SIZE_AT_ONCE..SIZE_AT_ONCE + 170).contains(&written), "{written} bytes at once");
        for ms in 1..=1000 {
            if gathering.due() <= at(ms) {
                gathering.note(ms, 170, at(ms));
            }
        }
        assert!(gathering.due() <= at(1000), "less than its share was used");
        let mut written = 0;
        for ms in 1001..=2000 {
            while gathering.due() <= at(ms) {
                gathering.note(ms, 900, at(ms));
                written += 900;
            }
        }
        assert!((1_000_000..1_010_000).contains(&written), "{written} bytes a second");
    }

    #[test]
    fn no_record_is_so_long_that_the_next_waits_for_long() {
        let mut gathering = Gathering::default();
        gathering.note(0, 10_000_000, at(0));
        assert_eq!(gathering.due(), at(WAIT_MS_MAX));
    }

    #[test]
    fn who_waits_is_woken_by_his_round_or_a_later_one() {
        let mut gathering = Gathering::default();
        for round in 0..3 {
            gathering.wait(round, Waker::noop().clone());
        }
        assert_eq!(gathering.note(1, 0, at(0)).len(), 2);
        assert!(gathering.is_logged(1) && !gathering.is_logged(2));
        assert_eq!(gathering.note(2, 0, at(0)).len(), 1);
    }
}
