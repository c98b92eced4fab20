//! Which pages of the log the kernel is asked to make ahead of the writes, and which it is asked to take back.
//!
//! A page that is made while it is written costs three times as much as the copy into one that is there (measured: 0.6 ms a MiB
//! against 0.2), and far more where the memory itself has to be got from a host. The further the log has come, the further ahead
//! its pages are made. Where writes are faster than pages can be made, nobody is helped by both at the same place: they are left
//! alone for a while, longer each time.
//!
//! Where new memory is dear, as on a virtual machine whose host has to find it first, a log that grows through it is slower than its
//! disk. There the pages of what was written a while ago are given back as fast as new ones are made: the kernel then makes those
//! of memory it has. Readers that lag further than that read from the disk, and what they have gone through is given back too, as long
//! as the log grows: where nothing is written, nobody needs the memory more than the next reader.

use std::time::Duration;

/// Bytes asked for with one call.
pub(super) const PAGES_SIZE: u64 = 256 * 1024;
/// How far ahead at most: a quarter of a second of a fast log.
const AHEAD_MAX: u64 = 64 * 1024 * 1024;
/// Nearer than this the next write may already be at work, and would wait for whoever makes the page it wants.
const AHEAD_MIN: u64 = 8 * 1024 * 1024;
/// What is left alone after having been overtaken, at first and at most.
const LEFT_ALONE: (u64, u64) = (AHEAD_MAX / 2, 1024 * 1024 * 1024);

#[derive(Debug)]
pub(super) struct PagesAhead {
    /// Where the log ended when it was opened.
    opened_at: u64,
    /// The next pages to be made.
    next: u64,
    /// What is left alone should the writes overtake.
    left_alone: u64,
}

impl PagesAhead {
    pub(super) const fn new(opened_at: u64) -> Self {
        Self { opened_at, next: opened_at + AHEAD_MIN, left_alone: LEFT_ALONE.0 }
    }

    /// Where `PAGES_SIZE` bytes of pages should be made now that everything below `written` is written, if anywhere.
    pub(super) fn next(&mut self, written: u64) -> Option<u64> {
        let ahead = (AHEAD_MIN + 2 * written.saturating_sub(self.opened_at)).min(AHEAD_MAX);
        let start = self.next.next_multiple_of(PAGES_SIZE);
        if start < written + AHEAD_MIN {
            self.next = written + self.left_alone;
            self.left_alone = (2 * self.left_alone).min(LEFT_ALONE.1);
            return None;
        }
        if start + PAGES_SIZE > written + ahead {
            if start < written + AHEAD_MAX && ahead == AHEAD_MAX {
                // As far as it goes: the writes are no faster.
                self.left_alone = LEFT_ALONE.0;
            }
            return None;
        }
        self.next = start + PAGES_SIZE;
        Some(start)
    }
}

/// Bytes behind the writes whose pages are kept however dear memory is: seconds of a fast log, and on the disk by then.
const KEPT_MIN: u64 = 512 * 1024 * 1024;
/// The log has to grow by so much for a piece to be given back behind a reader.
const GROWTH_MIN: u64 = 256 * 1024;
/// What is given back at once: enough to be worth a call.
pub(super) const GIVEN_BACK_SIZE: u64 = 4 * 1024 * 1024;
/// Memory is dear above this, per MiB of new pages: four times what making them takes on an ordinary machine.
const DEAR_NS: u64 = 1_000_000;
/// One sample counts no more than this.
const COST_MAX_NS: u64 = 4_000_000;
/// The share a sample has in the cost: some pieces in a row make memory dear, one does not.
const SAMPLE_SHARE: u64 = 16;
/// Memory that was dear counts as dear until so much more was written. Then growing is tried again.
const DEAR_FOR: u64 = 8 * 1024 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

/// How far behind the writes pages are kept.
#[derive(Debug)]
pub(super) struct PagesKept {
    /// Pages of everything written before this were given back, or are not ours to judge.
    from: u64,
    /// Where the log has to be for the next to be given back.
    next_at: u64,
    /// Where the log was when a reader last left pages behind.
    left_at: u64,
    /// Processor time a MiB of new pages takes, smoothed.
    cost_ns: u64,
    /// Memory counts as dear until the log has come here.
    dear_until: u64,
}

impl PagesKept {
    pub(super) const fn new(opened_at: u64) -> Self {
        Self { from: opened_at, next_at: 0, left_at: 0, cost_ns: 0, dear_until: 0 }
    }

    /// Takes in that making pages for `size` bytes took so much processor time, when everything below `written` was written.
    pub(super) fn note_cost(&mut self, size: u64, took: Duration, written: u64) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let sample_ns = (took_ns.saturating_mul(MIB) / size.max(1)).min(COST_MAX_NS);
        self.cost_ns = (self.cost_ns * (SAMPLE_SHARE - 1) + sample_ns) / SAMPLE_SHARE;
        if self.cost_ns > DEAR_NS {
            self.dear_until = written + DEAR_FOR;
        }
    }

    /// Whether pages of what was written before `end` are kept.
    const fn keeps(&self, end: u64, written: u64) -> bool {
        written >= self.dear_until || end + KEPT_MIN > written
    }

    /// Whether a reader that has come to `end` gives back what lies behind it.
    pub(super) fn leaves(&mut self, end: u64, written: u64) -> bool {
        let leaves = !self.keeps(end, written) && written >= self.left_at + GROWTH_MIN;
        if leaves {
            self.left_at = written;
        }
        leaves
    }

    /// The stretch whose pages are to be given back now, as its first byte and its end: exactly as much as is written. What is free
    /// for long is memory that has to be found again, and what is missing has to be found too.
    pub(super) fn next(&mut self, written: u64) -> Option<(u64, u64)> {
        let end = (self.from / GIVEN_BACK_SIZE + 1) * GIVEN_BACK_SIZE;
        if written < self.next_at || self.keeps(end, written) {
            return None;
        }
        // Counted from where it was due and not from where it was noticed, but for what is long past.
        self.next_at = self.next_at.max(written.saturating_sub(GIVEN_BACK_SIZE)) + GIVEN_BACK_SIZE;
        Some((std::mem::replace(&mut self.from, end), end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENED_AT: u64 = 12_345;

    /// How much was made of what was written in the end, if so many bytes are written in the time of making one piece.
    fn share_made(written_meanwhile: u64) -> f64 {
        let mut pages = PagesAhead::new(OPENED_AT);
        let (mut written, mut made) = (OPENED_AT, 0);
        while written < OPENED_AT + (8 << 30) {
            written += written_meanwhile;
            if let Some(start) = pages.next(written) {
                assert!(start >= written + AHEAD_MIN && start + PAGES_SIZE <= written + AHEAD_MAX);
                made += PAGES_SIZE;
            }
        }
        made as f64 / (written - OPENED_AT) as f64
    }

    #[test]
    fn writes_that_are_slower_find_their_pages_made() {
        for written_meanwhile in [1_000, PAGES_SIZE / 2, PAGES_SIZE] {
            assert!(share_made(written_meanwhile) > 0.97, "{written_meanwhile}: {}", share_made(written_meanwhile));
        }
    }

    #[test]
    fn writes_that_are_much_faster_are_left_alone() {
        assert!(share_made(4 * PAGES_SIZE) < 0.05, "{}", share_made(4 * PAGES_SIZE));
    }

    /// What is given back of a log that grows by GiB, pages taking `cost` a MiB in the first of them.
    fn given_back(cost: Duration, gibibytes: u64) -> u64 {
        let (mut kept, mut written, mut given_back) = (PagesKept::new(OPENED_AT), OPENED_AT, 0);
        while written < OPENED_AT + (gibibytes << 30) {
            written += MIB;
            let cost = if written < OPENED_AT + (1 << 30) { cost } else { Duration::from_micros(250) };
            kept.note_cost(PAGES_SIZE, cost / 4, written);
            if let Some((start, end)) = kept.next(written) {
                assert!(start < end && end + KEPT_MIN <= written);
                given_back += end - start;
            }
        }
        given_back
    }

    #[test]
    fn pages_are_given_back_where_memory_is_dear_and_nowhere_else() {
        assert_eq!(given_back(Duration::from_micros(250), 10), 0);
        let given_back = given_back(Duration::from_micros(2500), 4);
        assert!((4 << 30) - given_back < KEPT_MIN + 2 * GIVEN_BACK_SIZE, "{given_back}");
    }

    /// Writes that come in odd steps, as they do: what is given back keeps up with them.
    #[test]
    fn as_much_is_given_back_as_is_written() {
        let (mut kept, mut given_back, mut from) = (PagesKept::new(0), 0, 0);
        for written in (0..8 << 30).step_by(1_700_000) {
            kept.note_cost(PAGES_SIZE, Duration::from_millis(1), written);
            given_back += kept.next(written).map_or(0, |(start, end)| end - start);
            if written < 1 << 30 {
                from = given_back;
            }
        }
        assert!(given_back - from + 2 * GIVEN_BACK_SIZE > 7 << 30, "{}", given_back - from);
    }

    #[test]
    fn growing_is_tried_again_after_a_while() {
        let given_back = given_back(Duration::from_micros(2500), 20);
        assert!(given_back < (1 << 30) + DEAR_FOR && given_back > DEAR_FOR, "{given_back}");
    }

    #[test]
    fn one_slow_piece_does_not_make_memory_dear() {
        let mut kept = PagesKept::new(0);
        (0..1000).for_each(|_| kept.note_cost(PAGES_SIZE, Duration::from_micros(62), 1 << 40));
        kept.note_cost(PAGES_SIZE, Duration::from_millis(100), 1 << 40);
        assert_eq!(kept.next(1 << 40), None);
    }

    #[test]
    fn a_log_that_hardly_grows_takes_no_memory() {
        let mut pages = PagesAhead::new(OPENED_AT);
        let made = (0..1000).filter(|step| pages.next(OPENED_AT + step).is_some()).count();
        assert_eq!(made, 0);
    }
}
