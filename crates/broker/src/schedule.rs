//! When a broker's own work is due, as values: whoever has threads and clocks asks, has the broker do it, and tells how it went.
//!
//! What producers wait for has schedules of its own (`storage::schedule`), and so have delayed messages (`Delivery::deliver_due`).

use base::{LogOffset, Monotonic, Refusal};
use storage::{RetentionOutcome, StorageError};

/// How often members, locks and rates are looked after, ms.
const EXPIRY_MS: u64 = 1000;
/// How often topics and groups that have changed are exported, ms.
const CATALOG_EXPORT_MS: u64 = 1000;
/// How often a failed removal of a topic's files is tried again, ms.
const REMOVALS_MS: u64 = 5000;
/// Bytes of log after which a checkpoint is due, whatever the time.
const CHECKPOINT_SIZE: u64 = 512 << 20;

/// A piece of a broker's own work. Each waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// The next segment of the log is made.
    PrepareSegment,
    /// Entries of queues go into files.
    FlushEntries,
    /// A checkpoint is made, so that recovery begins there.
    Checkpoint,
    /// Committed offsets that nobody waits for go into the log.
    KeepChanges,
    /// The documents of topics, groups, offsets and delays are written.
    SaveDocuments,
    /// What is left of removed topics is removed.
    FinishRemovals,
    /// Members and locks that were not heard of expire.
    Expire,
    /// Old segments are removed.
    Retention,
}

/// Why a piece of work failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// By the store.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// By the broker.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What came of a piece of work.
#[derive(Clone, Copy, Debug)]
pub enum Worked {
    /// It is done.
    Done,
    /// It was retention.
    Retained(RetentionOutcome),
}

/// How often what is done, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// Entries of queues.
    pub flush_entries_ms: u64,
    /// Documents of offsets and delays.
    pub save_documents_ms: u64,
    /// Checkpoints, while the log grows.
    pub checkpoint_ms: u64,
    /// Retention.
    pub retention_ms: u64,
}

/// What is due of a broker's work.
#[derive(Debug)]
pub struct Schedule {
    flush_entries: Due,
    save_documents: Due,
    save_catalog: Due,
    finish_removals: Due,
    checkpoint: Due,
    expire: Due,
    retention: Due,
    /// The log below this is in a checkpoint.
    checkpointed: LogOffset,
    /// Where the log ended when a checkpoint was last tried.
    tried: LogOffset,
}

impl Schedule {
    /// From `now` on. What was recovered may not be in a checkpoint, but for what is `durable`.
    pub fn new(intervals: Intervals, durable: LogOffset, now: Monotonic) -> Self {
        let every = |interval_ms| Due { interval_ms, at: now.plus_ms(interval_ms) };
        Self {
            flush_entries: every(intervals.flush_entries_ms),
            save_documents: every(intervals.save_documents_ms),
            save_catalog: every(CATALOG_EXPORT_MS),
            finish_removals: every(REMOVALS_MS),
            checkpoint: every(intervals.checkpoint_ms),
            expire: every(EXPIRY_MS),
            retention: every(intervals.retention_ms),
            checkpointed: durable,
            tried: durable,
        }
    }

    /// What is to be done now, in this order. The log is written up to `written`; `is_unexported` says whether topics or groups have
    /// changed since their documents were written.
    pub fn due(&mut self, now: Monotonic, written: LogOffset, is_unexported: bool) -> Vec<Work> {
        let is_checkpoint_due = written > self.checkpointed
            && (self.checkpoint.is_due(now) || written.0.saturating_sub(self.tried.0) > CHECKPOINT_SIZE);
        let wanted = [
            (Work::PrepareSegment, true),
            (Work::FlushEntries, self.flush_entries.is_due(now)),
            (Work::Checkpoint, is_checkpoint_due),
            (Work::KeepChanges, true),
            (Work::SaveDocuments, self.save_documents.is_due(now) | (is_unexported && self.save_catalog.is_due(now))),
            (Work::FinishRemovals, self.finish_removals.is_due(now)),
            (Work::Expire, self.expire.is_due(now)),
            (Work::Retention, self.retention.is_due(now)),
        ];
        if is_checkpoint_due {
            self.tried = written;
        }
        wanted.into_iter().filter_map(|(work, is_due)| is_due.then_some(work)).collect()
    }

    /// A checkpoint has been made. One that fails is due again after a while.
    pub const fn note_checkpoint(&mut self) {
        self.checkpointed = self.tried;
    }
}

/// Something that is repeated.
#[derive(Debug)]
struct Due {
    interval_ms: u64,
    at: Monotonic,
}

impl Due {
    fn is_due(&mut self, now: Monotonic) -> bool {
        let is_due = self.at <= now;
        if is_due {
            self.at = now.plus_ms(self.interval_ms);
        }
        is_due
    }
}

impl WorkError {
    /// Whether it failed for lack of room on the disk.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_disk_full(),
            Self::Refused(refusal) => matches!(refusal, Refusal::Unavailable(_)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVALS: Intervals =
        Intervals { flush_entries_ms: 2000, save_documents_ms: 5000, checkpoint_ms: 10_000, retention_ms: 30_000 };

    fn schedule() -> Schedule {
        Schedule::new(INTERVALS, LogOffset(100), Monotonic(0))
    }

    /// What is due besides what always is.
    fn due(schedule: &mut Schedule, at_ms: u64, written: u64) -> Vec<Work> {
        let mut due = schedule.due(Monotonic(at_ms), LogOffset(written), false);
        due.retain(|work| !matches!(work, Work::PrepareSegment | Work::KeepChanges | Work::Expire));
        due
    }

    #[test]
    fn each_piece_is_due_once_an_interval() {
        let mut schedule = schedule();
        assert_eq!(due(&mut schedule, 1999, 100), []);
        assert_eq!(due(&mut schedule, 2000, 100), [Work::FlushEntries]);
        assert_eq!(due(&mut schedule, 3999, 100), []);
        assert_eq!(due(&mut schedule, 6000, 100), [Work::FlushEntries, Work::SaveDocuments, Work::FinishRemovals]);
        assert_eq!(due(&mut schedule, 30_000, 100).last(), Some(&Work::Retention));
    }

    #[test]
    fn topics_and_groups_that_changed_are_saved_sooner() {
        let saves = |at_ms, is_unexported| {
            schedule().due(Monotonic(at_ms), LogOffset(100), is_unexported).contains(&Work::SaveDocuments)
        };
        assert_eq!([saves(999, true), saves(1000, false), saves(1000, true)], [false, false, true]);
    }

    #[test]
    fn a_checkpoint_is_due_only_while_the_log_grows_and_at_once_when_it_has_grown_much() {
        let mut schedule = schedule();
        assert!(!due(&mut schedule, 10_000, 100).contains(&Work::Checkpoint), "there is nothing new");
        assert!(due(&mut schedule, 20_000, 101).contains(&Work::Checkpoint));
        schedule.note_checkpoint();
        assert!(due(&mut schedule, 20_001, 102 + CHECKPOINT_SIZE).contains(&Work::Checkpoint));
    }

    #[test]
    fn a_checkpoint_that_failed_is_due_again_though_the_log_does_not_grow_but_not_at_once() {
        let mut schedule = schedule();
        let written = 101 + CHECKPOINT_SIZE;
        assert!(due(&mut schedule, 1, written).contains(&Work::Checkpoint));
        assert!(!due(&mut schedule, 2, written).contains(&Work::Checkpoint));
        assert!(due(&mut schedule, 10_000, written).contains(&Work::Checkpoint));
        schedule.note_checkpoint();
        assert!(!due(&mut schedule, 20_000, written).contains(&Work::Checkpoint));
    }
}
