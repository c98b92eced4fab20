//! Wakers that wait for a watermark to reach a log offset.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use base::LogOffset;
use base::offset::{Watermark, Watermarks};
use parking_lot::Mutex;

/// Wakers by watermark. None is lost: `register` checks the watermark under the lock that `wake` takes after advancing it.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    lists: [List; Watermark::ALL.len()],
}

#[derive(Debug, Default)]
struct List {
    waiting: Mutex<Vec<(LogOffset, Waker)>>,
    /// How often all were woken. Raised under the lock, before they are taken from the list.
    wakes_of_all: AtomicU64,
}

impl Waiters {
    const fn list(&self, watermark: Watermark) -> &List {
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
        let mut waiting = self.list(watermark).waiting.lock();
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
        let due: Vec<_> =
            self.list(watermark).waiting.lock().extract_if(.., |(offset, _)| *offset <= reached).collect();
        for (_, waker) in due {
            waker.wake();
        }
    }

    /// Number of waiters for `watermark`.
    pub(crate) fn count(&self, watermark: Watermark) -> usize {
        self.list(watermark).waiting.lock().len()
    }

    /// Wakes all that wait for `watermark`.
    pub(crate) fn wake_all_of(&self, watermark: Watermark) {
        let list = self.list(watermark);
        let all = {
            let mut waiting = list.waiting.lock();
            list.wakes_of_all.fetch_add(1, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        for (_, waker) in all {
            waker.wake();
        }
    }

    /// How often `wake_all_of` was called. Who reads it and registers then still waits as long as it is the same, unless the watermark came.
    pub(crate) fn wakes_of_all(&self, watermark: Watermark) -> u64 {
        self.list(watermark).wakes_of_all.load(Ordering::Acquire)
    }

    /// Wakes all, since a poisoned log reaches nothing any more.
    pub(crate) fn wake_all(&self) {
        Watermark::ALL.into_iter().for_each(|watermark| self.wake_all_of(watermark));
    }
}
