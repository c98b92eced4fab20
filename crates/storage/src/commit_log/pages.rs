//! Which pages of the log are prefaulted ahead of the writes, and which are evicted behind them.
//!
//! Creating a page during a write costs three times as much as copying into one that exists (measured: 0.6 ms a MiB against 0.2),
//! and far more where a virtual machine has to get the memory from its host. The more the log has grown since it was opened, the
//! further ahead pages are prefaulted. When writes overtake, prefaulting the same pages helps nobody: it skips ahead, each time further.
//!
//! Where new pages are slow, a growing log is slower than its disk. There, pages written a while ago are evicted as fast as new ones
//! are created, so that the kernel reuses them. Readers that lag further than that read past the page cache, as they
//! do where what they read showed that new pages are slow.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::LogOffset;

use super::CommitLog;
use crate::disk::Reading;
use crate::error::StorageError;

/// Write-back is started for this many bytes at a time: some milliseconds of a fast disk.
const WRITE_BACK_SIZE: u64 = 4 * 1024 * 1024;

/// Bytes prefaulted with one call.
const PAGES_SIZE: u64 = 256 * 1024;
/// How far ahead at most: what a fast log writes in a quarter of a second.
const AHEAD_MAX: u64 = 64 * 1024 * 1024;
/// How far ahead at least: nearer, a write in progress might have to wait for a page that is being prefaulted.
const AHEAD_MIN: u64 = 8 * 1024 * 1024;
/// Bytes skipped after having been overtaken, at first and at most.
const SKIPPED: (u64, u64) = (AHEAD_MAX / 2, 1024 * 1024 * 1024);

#[derive(Debug)]
pub(super) struct PagesAhead {
    /// Where the log ended when it was opened.
    opened_at: u64,
    /// The next pages to prefault.
    next: u64,
    /// Bytes to skip when the writes next overtake.
    to_skip: u64,
}

impl PagesAhead {
    pub(super) const fn new(opened_at: u64) -> Self {
        Self { opened_at, next: opened_at + AHEAD_MIN, to_skip: SKIPPED.0 }
    }

    /// Log offset of the `PAGES_SIZE` bytes to prefault now that everything below `written` is written, if any.
    pub(super) fn next(&mut self, written: u64) -> Option<u64> {
        let ahead = (AHEAD_MIN + 2 * written.saturating_sub(self.opened_at)).min(AHEAD_MAX);
        let start = self.next.next_multiple_of(PAGES_SIZE);
        if start < written + AHEAD_MIN {
            self.next = written + self.to_skip;
            self.to_skip = (2 * self.to_skip).min(SKIPPED.1);
            return None;
        }
        if start + PAGES_SIZE > written + ahead {
            if start < written + AHEAD_MAX && ahead == AHEAD_MAX {
                // As far ahead as allowed: the writes do not overtake.
                self.to_skip = SKIPPED.0;
            }
            return None;
        }
        self.next = start + PAGES_SIZE;
        Some(start)
    }
}

/// Pages this near behind the writes are never evicted: seconds of a fast log, which is synced by then.
const KEPT_MIN: u64 = 512 * 1024 * 1024;
/// Bytes evicted with one call.
const EVICTED_SIZE: u64 = 4 * 1024 * 1024;
/// Processor time per MiB above which new pages count as slow: four times what they take on an ordinary machine.
const SLOW_NS: u64 = 1_000_000;
/// A sample counts as this at most.
const COST_MAX_NS: u64 = 4_000_000;
/// Smoothing: a sample has one share of this many, so that one slow call has no effect and some in a row have.
const SAMPLE_SHARE: u64 = 16;
/// After the last slow page, new pages count as slow until this much more was written, or read. Then they are tried again.
const SLOW_FOR: u64 = 8 * 1024 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

#[derive(Debug)]
pub(super) struct PagesKept {
    /// Everything written before this was evicted, or is from before the log was opened.
    from: u64,
    /// Log offset that `written` has to reach for the next eviction.
    next_at: u64,
    cost: PageCost,
}

/// What new pages cost: processor time per MiB, smoothed. Bytes are those that were made, or read, so far.
#[derive(Debug, Default)]
struct PageCost {
    cost_ns: u64,
    /// New pages count as slow until there are so many bytes.
    slow_until: u64,
}

impl PageCost {
    /// Notes the processor time that `size` bytes took, of `bytes` in all.
    fn note(&mut self, size: u64, took: Duration, bytes: u64) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let sample_ns = (took_ns.saturating_mul(MIB) / size.max(1)).min(COST_MAX_NS);
        self.cost_ns = (self.cost_ns * (SAMPLE_SHARE - 1) + sample_ns) / SAMPLE_SHARE;
        if self.cost_ns > SLOW_NS {
            self.slow_until = bytes + SLOW_FOR;
        }
    }

    const fn is_slow(&self, bytes: u64) -> bool {
        bytes < self.slow_until
    }
}

/// What reads of old data cost that make pages.
#[derive(Debug, Default)]
pub(super) struct PagesRead {
    read: u64,
    cost: PageCost,
}

impl PagesRead {
    fn note(&mut self, size: u64, took: Duration) {
        self.read += size;
        self.cost.note(size, took, self.read);
    }

    const fn is_slow(&self) -> bool {
        self.cost.is_slow(self.read)
    }
}

impl PagesKept {
    pub(super) const fn new(opened_at: u64) -> Self {
        Self { from: opened_at, next_at: 0, cost: PageCost { cost_ns: 0, slow_until: 0 } }
    }

    /// Notes the processor time that prefaulting `size` bytes took when everything below `written` was written.
    pub(super) fn note_cost(&mut self, size: u64, took: Duration, written: u64) {
        self.cost.note(size, took, written);
    }

    /// Whether pages before `end` are kept.
    const fn keeps(&self, end: u64, written: u64) -> bool {
        !self.cost.is_slow(written) || end + KEPT_MIN > written
    }

    /// What to evict now, as log offsets of its begin and end: exactly as much as is written. More would become free memory, which
    /// the host takes back; less would leave some new pages to come from the host.
    pub(super) fn next(&mut self, written: u64) -> Option<(u64, u64)> {
        let end = (self.from / EVICTED_SIZE + 1) * EVICTED_SIZE;
        if written < self.next_at || self.keeps(end, written) {
            return None;
        }
        // Counted from where it was due, not from where it was noticed, unless that is more than one piece ago.
        self.next_at = self.next_at.max(written.saturating_sub(EVICTED_SIZE)) + EVICTED_SIZE;
        Some((std::mem::replace(&mut self.from, end), end))
    }
}

impl CommitLog {
    /// Starts write-back of what was written since the last call, if that is enough to be worth it. Returns whether it was.
    pub(crate) fn start_write_back(&self) -> Result<bool, StorageError> {
        let end = self.in_segments.load(Ordering::Acquire);
        let from = self.write_back_started.load(Ordering::Relaxed);
        if end.saturating_sub(from) < WRITE_BACK_SIZE {
            return Ok(false);
        }
        for segment in self.segments().iter().filter(|s| s.end() > from && s.base() < end) {
            let (first, last) = (from.max(segment.base()), end.min(segment.end()));
            segment.file().start_write_back(segment.position(LogOffset(first)), last - first)?;
        }
        self.write_back_started.store(end, Ordering::Relaxed);
        Ok(true)
    }

    /// Prefaults some pages ahead of the writes, so that a write only copies. Returns for how many bytes; 0 if none are due now.
    pub(crate) fn prefault(&self) -> u64 {
        let Some(start) = self.pages.lock().next(self.in_segments.load(Ordering::Acquire)) else { return 0 };
        // A segment that does not exist yet has no pages.
        let Ok(segment) = self.segment_at(start) else { return 0 };
        segment.file().will_need(segment.position(LogOffset(start)), PAGES_SIZE);
        PAGES_SIZE
    }

    /// Notes the processor time that prefaulting `size` bytes took. While new pages are slow, evicts old ones.
    pub(crate) fn note_page_cost(&self, size: u64, took: Duration) {
        let written = self.in_segments.load(Ordering::Acquire);
        let next = {
            let mut kept = self.pages_kept.lock();
            kept.note_cost(size, took, written);
            kept.next(written)
        };
        if let Some((start, end)) = next {
            self.evict(start, end);
        }
    }

    /// How to read what lies before `end`: while new pages are slow, none are made for what is old.
    pub(super) fn reading_of(&self, end: u64) -> Reading {
        let written = self.in_segments.load(Ordering::Acquire);
        // What was written lately has pages.
        let is_slow = end + KEPT_MIN <= written
            && (self.pages_read.lock().is_slow() || self.pages_kept.lock().cost.is_slow(written));
        if is_slow { Reading::PastCache } else { Reading::MayWait }
    }

    /// Notes the processor time that reading `size` bytes took. Where what is read is old, its pages are new.
    pub(crate) fn note_read_cost(&self, size: u64, took: Duration) {
        self.pages_read.lock().note(size, took);
    }

    fn evict(&self, start: u64, end: u64) {
        // A segment that was removed has no pages.
        if let Ok(segment) = self.segment_at(start) {
            segment.file().wont_need(segment.position(LogOffset(start)), end - start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENED_AT: u64 = 12_345;

    /// Share of the written pages that was prefaulted, if this many bytes are written while one piece is prefaulted.
    fn share_prefaulted(written_meanwhile: u64) -> f64 {
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
    fn slower_writes_find_their_pages_prefaulted() {
        for written_meanwhile in [1_000, PAGES_SIZE / 2, PAGES_SIZE] {
            assert!(
                share_prefaulted(written_meanwhile) > 0.97,
                "{written_meanwhile}: {}",
                share_prefaulted(written_meanwhile)
            );
        }
    }

    #[test]
    fn writes_that_are_much_faster_are_skipped() {
        assert!(share_prefaulted(4 * PAGES_SIZE) < 0.05, "{}", share_prefaulted(4 * PAGES_SIZE));
    }

    /// Bytes evicted of a log that grows by so many GiB, where new pages take `cost` a MiB in the first of them.
    fn evicted(cost: Duration, gibibytes: u64) -> u64 {
        let (mut kept, mut written, mut evicted) = (PagesKept::new(OPENED_AT), OPENED_AT, 0);
        while written < OPENED_AT + (gibibytes << 30) {
            written += MIB;
            let cost = if written < OPENED_AT + (1 << 30) { cost } else { Duration::from_micros(250) };
            kept.note_cost(PAGES_SIZE, cost / 4, written);
            if let Some((start, end)) = kept.next(written) {
                assert!(start < end && end + KEPT_MIN <= written);
                evicted += end - start;
            }
        }
        evicted
    }

    #[test]
    fn pages_are_evicted_where_new_pages_are_slow_and_nowhere_else() {
        assert_eq!(evicted(Duration::from_micros(250), 10), 0);
        let evicted = evicted(Duration::from_micros(2500), 4);
        assert!((4 << 30) - evicted < KEPT_MIN + 2 * EVICTED_SIZE, "{evicted}");
    }

    /// Eviction keeps up with writes of odd sizes.
    #[test]
    fn as_much_is_evicted_as_is_written() {
        let (mut kept, mut evicted, mut from) = (PagesKept::new(0), 0, 0);
        for written in (0..8 << 30).step_by(1_700_000) {
            kept.note_cost(PAGES_SIZE, Duration::from_millis(1), written);
            evicted += kept.next(written).map_or(0, |(start, end)| end - start);
            if written < 1 << 30 {
                from = evicted;
            }
        }
        assert!(evicted - from + 2 * EVICTED_SIZE > 7 << 30, "{}", evicted - from);
    }

    #[test]
    fn the_cache_may_grow_again_after_a_while() {
        let evicted = evicted(Duration::from_micros(2500), 20);
        assert!(evicted < (1 << 30) + SLOW_FOR && evicted > SLOW_FOR, "{evicted}");
    }

    #[test]
    fn reads_that_are_slow_make_no_pages_for_a_while_and_are_tried_again() {
        let mut pages = PagesRead::default();
        (0..1000).for_each(|_| pages.note(PAGES_SIZE, Duration::from_micros(62)));
        pages.note(PAGES_SIZE, Duration::from_millis(100));
        assert!(!pages.is_slow(), "one alone shows nothing");
        (0..64).for_each(|_| pages.note(PAGES_SIZE, Duration::from_micros(500)));
        assert!(pages.is_slow());
        // Reads past the page cache cost little.
        let direct = (0..)
            .take_while(|_| {
                pages.note(PAGES_SIZE, Duration::from_micros(25));
                pages.is_slow()
            })
            .count() as u64;
        assert!((SLOW_FOR / PAGES_SIZE..SLOW_FOR / PAGES_SIZE + 100).contains(&direct), "{direct}");
    }

    #[test]
    fn one_slow_piece_causes_no_eviction() {
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
