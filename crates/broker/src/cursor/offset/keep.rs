//! How what groups have come to gets into the log: committed offsets and settled leases alike.

use std::sync::atomic::Ordering;
use std::task::Waker;

use base::limits::STAGED_SIZE_MAX;
use base::offset::Watermark;
use base::{LogOffset, Now, Refusal};
use storage::StorageError;

use super::Offsets;
use crate::cursor::gathering::CommitStage;
use crate::error::refusal_of;

/// How long commits wait before they try again to get into a log that is behind.
const LOG_BEHIND_WAIT_MS: u64 = 20;

impl Offsets {
    /// Puts what has changed into the log, what it could not take before first, and has those who wait for it woken once it is written.
    pub(crate) fn keep(&self, now: Now) -> Result<(), StorageError> {
        self.state.settle(now)?;
        let _in_order = self.keeping.lock();
        let round = self.committed.lock().end_round();
        // Leases first: committed offsets follow their floors.
        let of_leases = self.lanes.take_unkept();
        let mut changes = self.committed.lock().take_unkept();
        self.lanes.follow_commits(&changes);
        changes.extend(of_leases);
        let mut size = 0;
        if !changes.is_empty() {
            self.unexported.store(true, Ordering::Release);
            let proposed = self.state.propose(changes.clone(), now);
            let put_back = |_: &StorageError| self.lanes.put_back(self.committed.lock().put_back(changes));
            size = proposed.inspect_err(put_back)?.size;
        }
        let waiting = self.gathering.lock().note(round, size, now.monotonic);
        for waker in waiting {
            self.state.store().when(Watermark::Written, self.state.end(), waker);
        }
        Ok(())
    }

    /// Puts committed offsets that have changed into the log, and what else it does not know yet. Gives where they end there: what a
    /// watermark must pass for all that was taken before to be kept.
    pub fn keep_changes(&self, now: Now) -> Result<LogOffset, Refusal> {
        self.keep(now).map_err(refusal_of)?;
        Ok(self.state.end())
    }

    /// Has what was committed before put into the log: now, or with what others commit before long. `waker` is called when it is written.
    pub fn gather_commits(&self, waker: Waker, now: Now) -> Result<CommitStage, Refusal> {
        let round = {
            let mut gathering = self.gathering.lock();
            let round = self.committed.lock().round();
            if gathering.due() > now.monotonic {
                gathering.wait(round, waker);
            }
            round
        };
        self.gathered_commits(round, now)
    }

    /// How far commits are that gathered; puts them into the log if they are due.
    pub fn gathered_commits(&self, round: u64, now: Now) -> Result<CommitStage, Refusal> {
        let (is_logged, due) = {
            let gathering = self.gathering.lock();
            (gathering.is_logged(round), gathering.due())
        };
        if is_logged {
            return Ok(CommitStage::Logged(self.state.end()));
        }
        if due > now.monotonic {
            return Ok(CommitStage::Gathering { round, due });
        }
        if self.state.store().staged_size() >= STAGED_SIZE_MAX {
            // The log would have to keep in memory what the table has anyway.
            return Ok(CommitStage::Gathering { round, due: now.monotonic.plus_ms(LOG_BEHIND_WAIT_MS) });
        }
        self.keep_changes(now).map(CommitStage::Logged)
    }
}
