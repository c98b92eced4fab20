//! When the log is written and synced, as values: whoever has threads and clocks asks, does what is said, and tells how long it took.

use std::time::Duration;

use base::Monotonic;

/// Most bytes that the appending thread writes itself. For little data, handing over to another thread takes longer than the write; for
/// more, this thread had better decode the next frames meanwhile.
pub const WRITE_HERE_MAX: usize = 64 * 1024;

/// A write that takes this long was blocked: for `SLOW_PERIOD_MS` no appending thread writes, so that no network thread blocks.
const SLOW_WRITE_MS: u64 = 10;
const SLOW_PERIOD_MS: u64 = 1000;

/// Syncs are not closer together than this while nobody waits for one.
const SYNC_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Producers that waited for a sync together are waited for no longer than this, also after a sync that hung.
const TOGETHER_MAX: Duration = Duration::from_millis(200);

/// Whether appending threads write what they append.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteSchedule {
    slow_until: Monotonic,
}

impl WriteSchedule {
    /// Whether a thread that has appended little should write it now.
    pub fn writes_here(&self, now: Monotonic) -> bool {
        now >= self.slow_until
    }

    /// Whether a write has taken so long that `note_blocked` should hear of it.
    pub const fn was_blocked(began: Monotonic, ended: Monotonic) -> bool {
        ended.ms_since(began) > SLOW_WRITE_MS
    }

    /// Notes a write that was blocked.
    pub const fn note_blocked(&mut self, began: Monotonic) {
        self.slow_until = began.plus_ms(SLOW_PERIOD_MS);
    }
}

/// What comes next for the thread that syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStep {
    /// The log is to be synced now.
    Sync,
    /// Until that many producers wait for a sync, or for so long.
    Wait {
        /// Producers.
        count: usize,
        /// How long at most.
        at_most: Duration,
    },
}

/// When to sync: once an interval, and whenever somebody waits for it.
///
/// Producers that wait for each answer come back together after a sync. A sync started for the first of them would make the others
/// wait for the next one. So after a sync that several shared, the next one waits until as many are back, but at most for a part of a
/// sync's duration. A single producer never waits.
#[derive(Clone, Copy, Debug)]
pub struct SyncSchedule {
    interval: Duration,
    /// When the last sync began, by the clock of whoever asks.
    last: Duration,
    /// Producers that waited when it ended, those it served included.
    expected: usize,
    took: Duration,
    has_waited: bool,
}

impl SyncSchedule {
    /// Syncs once every `interval` if nobody waits.
    pub fn new(interval: Duration, now: Duration) -> Self {
        let interval = interval.max(SYNC_INTERVAL_MIN);
        Self { interval, last: now, expected: 0, took: Duration::ZERO, has_waited: false }
    }

    /// What comes next, with `waiting` producers waiting for a sync.
    pub fn next(&mut self, waiting: usize, now: Duration) -> SyncStep {
        if waiting == 0 {
            let rest = (self.last + self.interval).saturating_sub(now);
            if !rest.is_zero() {
                return SyncStep::Wait { count: 1, at_most: rest };
            }
        } else if waiting < self.expected && !self.has_waited {
            self.has_waited = true;
            return SyncStep::Wait { count: self.expected, at_most: (self.took / 2).min(TOGETHER_MAX) };
        }
        self.last = now;
        self.has_waited = false;
        SyncStep::Sync
    }

    /// Notes a sync that served `answered` producers; `left` more came while it ran.
    pub const fn note(&mut self, answered: usize, left: usize, took: Duration) {
        self.expected = answered + left;
        self.took = took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);
    const TOOK: Duration = Duration::from_micros(300);

    fn after(answered: usize, left: usize) -> SyncSchedule {
        let mut schedule = SyncSchedule::new(INTERVAL, Duration::ZERO);
        schedule.note(answered, left, TOOK);
        schedule
    }

    #[test]
    fn after_a_sync_that_hung_nobody_waits_long_for_those_who_waited_for_it() {
        let mut schedule = SyncSchedule::new(INTERVAL, Duration::ZERO);
        schedule.note(1, 1, Duration::from_mins(1));
        assert_eq!(schedule.next(1, Duration::ZERO), SyncStep::Wait { count: 2, at_most: TOGETHER_MAX });
    }

    #[test]
    fn the_log_is_synced_once_an_interval_if_nobody_waits() {
        let mut schedule = SyncSchedule::new(INTERVAL, Duration::ZERO);
        let part = INTERVAL / 5;
        assert_eq!(schedule.next(0, part), SyncStep::Wait { count: 1, at_most: INTERVAL - part });
        assert_eq!(schedule.next(0, INTERVAL), SyncStep::Sync);
        assert_eq!(schedule.next(0, INTERVAL + part), SyncStep::Wait { count: 1, at_most: INTERVAL - part });
        let mut always = SyncSchedule::new(Duration::ZERO, Duration::ZERO);
        assert_eq!(
            always.next(0, Duration::ZERO),
            SyncStep::Wait { count: 1, at_most: SYNC_INTERVAL_MIN },
            "not all the time"
        );
    }

    #[test]
    fn a_lone_sender_waits_for_nobody() {
        assert_eq!(after(0, 0).next(1, Duration::ZERO), SyncStep::Sync);
        assert_eq!(after(1, 0).next(1, Duration::ZERO), SyncStep::Sync);
    }

    #[test]
    fn those_who_waited_together_are_waited_for_but_not_for_longer_than_a_part_of_a_sync() {
        let mut schedule = after(10, 6);
        assert_eq!(schedule.next(6, Duration::ZERO), SyncStep::Wait { count: 16, at_most: TOOK / 2 });
        assert_eq!(schedule.next(7, TOOK / 2), SyncStep::Sync, "once");
        assert_eq!(after(10, 6).next(16, Duration::ZERO), SyncStep::Sync, "all are back");
    }

    #[test]
    fn a_write_that_blocked_keeps_appending_threads_from_writing_for_a_while() {
        let mut schedule = WriteSchedule::default();
        assert!(!WriteSchedule::was_blocked(Monotonic(100), Monotonic(110)) && schedule.writes_here(Monotonic(110)));
        assert!(WriteSchedule::was_blocked(Monotonic(200), Monotonic(211)));
        schedule.note_blocked(Monotonic(200));
        assert!(!schedule.writes_here(Monotonic(1199)));
        assert!(schedule.writes_here(Monotonic(1200)));
    }
}
