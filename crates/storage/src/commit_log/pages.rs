//! Which pages of the log the kernel is asked to make ahead of the writes.
//!
//! A page that is made while it is written costs three times as much as the copy into one that is there (measured: 0.6 ms a MiB
//! against 0.2), and far more where the memory itself has to be got from a host. The further the log has come, the further ahead
//! its pages are made. Where writes are faster than pages can be made, nobody is helped by both at the same place: they are left
//! alone for a while, longer each time.

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

    #[test]
    fn a_log_that_hardly_grows_takes_no_memory() {
        let mut pages = PagesAhead::new(OPENED_AT);
        let made = (0..1000).filter(|step| pages.next(OPENED_AT + step).is_some()).count();
        assert_eq!(made, 0);
    }
}
