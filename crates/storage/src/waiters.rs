//! Wakers that wait for a watermark to reach a log offset.

use std::task::Waker;

use base::LogOffset;
use base::offset::{Watermark, Watermarks};
use parking_lot::Mutex;

/// Wakers by watermark. None is lost: `register` checks the watermark under the lock that `wake` takes after advancing it.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    lists: [Mutex<Vec<(LogOffset, Waker)>>; Watermark::ALL.len()],
}

impl Waiters {
    const fn list(&self, watermark: Watermark) -> &Mutex<Vec<(LogOffset, Waker)>> {
        let [written, durable, replicated, committed] = &self.lists;
        match watermark {
            Watermark::Written => written,
            Watermark::Durable => durable,
            Watermark::Replicated => replicated,
            Watermark::Committed => committed,
        }
    }

    /// Wakes `waker` once, when `watermark` reaches `offset`; at once if it has. Returns how many wait then.
    pub(crate) fn register(
        &self,
        watermarks: &Watermarks,
        watermark: Watermark,
        offset: LogOffset,
        waker: Waker,
    ) -> usize {
        let mut waiting = self.list(watermark).lock();
        if watermarks.get(watermark) >= offset {
            let count = waiting.len();
            drop(waiting);
            waker.wake();
            return count;
        }
        waiting.push((offset, waker));
        waiting.len()
    }

    /// Wakes those that wait for `reached` or less.
    pub(crate) fn wake(&self, watermark: Watermark, reached: LogOffset) {
        let due: Vec<_> = self.list(watermark).lock().extract_if(.., |(offset, _)| *offset <= reached).collect();
        for (_, waker) in due {
            waker.wake();
        }
    }

    /// Number of waiters for `watermark`.
    pub(crate) fn count(&self, watermark: Watermark) -> usize {
        self.list(watermark).lock().len()
    }

    /// Wakes all, since a poisoned log reaches nothing any more.
    pub(crate) fn wake_all(&self) {
        for list in &self.lists {
            let all = std::mem::take(&mut *list.lock());
            for (_, waker) in all {
                waker.wake();
            }
        }
    }
}
