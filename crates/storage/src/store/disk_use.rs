//! What the store does when its disk fills up: it removes old segments, uses the checkpoint's reserve, and refuses appends. And what
//! it knows of a disk that does not answer.

use std::sync::atomic::Ordering;

use base::{LogOffset, Monotonic, Timestamp};

use super::Store;
use crate::disk::Stall;
use crate::error::StorageError;
use crate::recover;
use crate::retention::{DiskState, LogState, RetentionOutcome, RetentionPolicy};

impl Store {
    /// Reserves space for a checkpoint if none is, and creates the next segment if it will be needed soon.
    pub fn prepare_next_segment(&self) -> Result<(), StorageError> {
        let prepared = self.reserve.acquire().and_then(|()| self.log.prepare_next_segment());
        self.lacks_segment_space.store(prepared.as_ref().is_err_and(StorageError::is_disk_full), Ordering::Relaxed);
        prepared
    }

    /// Has room reserved for a snapshot of the state of that many bytes; see `prepare_next_segment`.
    pub fn reserve_for_state(&self, bytes: u64) {
        self.reserve.want_for_state(bytes);
    }

    /// Runs `act`, a part of a checkpoint. If the disk is full, releases the reserve and runs it once more.
    pub fn with_reserve<T>(&self, mut act: impl FnMut() -> Result<T, StorageError>) -> Result<T, StorageError> {
        match act() {
            Err(error) if error.is_disk_full() && self.reserve.release()? => act(),
            done => done,
        }
    }

    /// Removes segments as the policy says, and decides whether appends are refused. `hour_of_day` is in UTC.
    ///
    /// Only segments below the last checkpoint are removed: recovery could not rebuild entries that were not durable yet, and their
    /// queues would give out the same offsets again. On a disk that is nearly full a checkpoint is written first.
    pub fn apply_retention(&self, now: Timestamp, hour_of_day: u8) -> Result<RetentionOutcome, StorageError> {
        self.apply_retention_below(LogOffset(u64::MAX), now, hour_of_day)
    }

    /// How long the log is kept.
    pub fn retention(&self) -> RetentionPolicy {
        self.retention.lock().clone()
    }

    /// Another policy from the next pass on.
    pub fn set_retention(&self, policy: RetentionPolicy) {
        *self.retention.lock() = policy;
    }

    /// The same, but that no segment is removed which ends above `keep_from`, whatever the policy says.
    pub fn apply_retention_below(
        &self,
        keep_from: LogOffset,
        now: Timestamp,
        hour_of_day: u8,
    ) -> Result<RetentionOutcome, StorageError> {
        let policy = self.retention();
        // Disk use is read once and then computed: a removed segment that is still open frees its space later, and reading again
        // would remove more segments than necessary.
        let (mut used, total) = self.disk_usage()?;
        let wanted = self.wanted_space();
        let percent = |used: u64| (used.saturating_mul(100) / total.max(1)).min(100) as u8;
        let (first_before, mut removed) = (self.log.first(), 0);
        let (mut checkpointed, mut removal, mut is_held) = (Ok(()), Ok(()), false);
        loop {
            let state = policy.disk_state(percent(used.saturating_add(wanted)));
            if !policy.removes(state, self.log_state(now), hour_of_day) {
                break;
            }
            if state >= DiskState::Short && self.oldest_is_above_checkpoint() {
                checkpointed = self.checkpoint();
            }
            let below = LogOffset(self.recovery_begins());
            match self.log.remove_oldest(below.min(keep_from)) {
                Ok(Some(freed)) => used = used.saturating_sub(freed),
                Ok(None) => {
                    is_held = keep_from < below;
                    break;
                }
                Err(error) => {
                    removal = Err(error);
                    break;
                }
            }
            removed += 1;
        }
        let disk_used_percent = percent(used);
        let disk = {
            let mut state = self.disk_state.lock();
            *state = policy.next_disk_state(*state, disk_used_percent);
            *state
        };
        self.writes_refused.store(disk == DiskState::Full, Ordering::Relaxed);
        self.metrics.disk_used_percent.set(u64::from(disk_used_percent));
        self.metrics.disk_state.set(disk as u64);
        let dropped = if self.log.first() > first_before { self.drop_entries_and_keys() } else { Ok(()) };
        checkpointed.and(removal).and(dropped).map(|()| RetentionOutcome { removed, is_held, disk, disk_used_percent })
    }

    /// Drops entries and keys of records before the log. Goes on with the other queues if one fails.
    fn drop_entries_and_keys(&self) -> Result<(), StorageError> {
        let _no_flush = self.flushing.lock();
        let (first, mut queues) = (self.log.first(), self.all_queues());
        recover::sort(&mut queues);
        let mut outcome = Ok(());
        for queue in queues {
            outcome = outcome.and(queue.drop_before(first));
        }
        outcome.and(self.key_index.as_ref().map_or(Ok(()), |index| index.drop_before(first)))
    }

    /// Bytes to count as used: the reserve and the segment, if they could not be allocated when last tried.
    fn wanted_space(&self) -> u64 {
        let reserve = if self.reserve.is_short() { self.reserve.missing() } else { 0 };
        let segment = if self.lacks_segment_space.load(Ordering::Relaxed) { self.options.segment_size } else { 0 };
        reserve.saturating_add(segment)
    }

    /// Whether a checkpoint would allow the removal of the oldest segment: all of it is written, and not below the last one.
    fn oldest_is_above_checkpoint(&self) -> bool {
        let checkpointed = self.recovery_begins();
        let oldest = self.log.segments().first().map_or(u64::MAX, |oldest| oldest.end());
        oldest > checkpointed && oldest <= self.watermarks().written().0
    }

    fn log_state(&self, now: Timestamp) -> LogState {
        let oldest = self.log.segments().first().and_then(|oldest| self.options.disk.modified_ms(oldest.file().path()));
        LogState {
            size: self.watermarks().written().0.saturating_sub(self.log.first().0),
            oldest_age_ms: oldest.map_or(0, |modified| now.0.saturating_sub(modified)),
        }
    }

    /// Why appends are refused because of the disk, or soon will be.
    pub fn shortage(&self) -> Option<StorageError> {
        let lacks_segment = || {
            let directory = self.log.directory().display();
            self.lacks_segment_space.load(Ordering::Relaxed).then(|| {
                StorageError::DiskFull(format!(
                    "the disk of {directory} is full: it has no room for the next segment of the log (storage.segment_size); free space on that disk"
                ))
            })
        };
        self.check_accepts_messages().err().or_else(lacks_segment)
    }

    /// Looks what is being done on the disk at `now`; see `Disk::look`.
    pub fn look_at_disk(&self, now: Monotonic) {
        self.options.disk.look(now);
    }

    /// What the disk takes longest for; see `Disk::stall`.
    pub fn stall(&self) -> Option<Stall> {
        self.options.disk.stall()
    }

    /// Bytes used on the log's disk, and bytes in total.
    pub fn disk_usage(&self) -> Result<(u64, u64), StorageError> {
        self.options.disk.usage(self.log.directory())
    }
}
