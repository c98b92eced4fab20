//! Who is to be woken when a watermark passes a log offset.

use std::task::Waker;

use base::LogOffset;
use base::offset::{Watermark, Watermarks};
use parking_lot::Mutex;

/// Wakers by watermark. A waker is called at most once per registration, and never lost: registering looks at the
/// watermark again while holding the list that advancing takes.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    written: Mutex<Vec<(LogOffset, Waker)>>,
    durable: Mutex<Vec<(LogOffset, Waker)>>,
}

impl Waiters {
    const fn list(&self, watermark: Watermark) -> &Mutex<Vec<(LogOffset, Waker)>> {
        match watermark {
            Watermark::Written => &self.written,
            Watermark::Durable => &self.durable,
        }
    }

    /// Calls `waker` once `watermark` is at `offset` or beyond; at once if it already is. Returns how many wait then.
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

    /// Wakes those whose log offset `reached` has passed.
    pub(crate) fn wake(&self, watermark: Watermark, reached: LogOffset) {
        let due: Vec<_> = self.list(watermark).lock().extract_if(.., |(offset, _)| *offset <= reached).collect();
        for (_, waker) in due {
            waker.wake();
        }
    }

    /// How many wait for `watermark`.
    pub(crate) fn count(&self, watermark: Watermark) -> usize {
        self.list(watermark).lock().len()
    }

    /// Wakes everyone: the log is poisoned and nothing will be reached any more.
    pub(crate) fn wake_all(&self) {
        for watermark in [Watermark::Written, Watermark::Durable] {
            let all = std::mem::take(&mut *self.list(watermark).lock());
            for (_, waker) in all {
                waker.wake();
            }
        }
    }
}
