//! Waiting for the log's watermarks.

use std::task::Waker;

use base::LogOffset;
use base::offset::Watermark;

use super::Store;

impl Store {
    /// Number of waiters for `durable`.
    pub fn waiting_for_sync(&self) -> usize {
        self.log.waiting(Watermark::Durable)
    }

    /// See `CommitLog::when`.
    pub fn when(&self, watermark: Watermark, offset: LogOffset, waker: Waker) -> usize {
        self.log.when(watermark, offset, waker)
    }

    /// Wakes all that wait for a watermark.
    pub fn wake_all_of(&self, watermark: Watermark) {
        self.log.wake_all_of(watermark);
    }

    /// How often that was done. Who reads it before `when` still waits while it is the same, unless the watermark came.
    pub fn wakes_of_all(&self, watermark: Watermark) -> u64 {
        self.log.wakes_of_all(watermark)
    }

    /// Wakes `waker` once all that is appended now is written, or the log is poisoned. Gives where that ends.
    pub fn when_caught_up(&self, waker: Waker) -> LogOffset {
        let appended = self.log_end();
        self.log.when(Watermark::Written, appended, waker);
        appended
    }
}
