//! From written to committed in a governed group: batches wait, in the order of the log, until everybody who counts has them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::LogOffset;
use base::offset::Watermark;
use parking_lot::Mutex;

use super::CommitLog;
use super::publish::publish_entries;
use crate::batch::AppendInfo;

/// Batches that are written, or about to be, and not committed. Back-pressure keeps them few.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    /// Held while entries are published, so that this happens in log order.
    batches: Mutex<VecDeque<Arc<AppendInfo>>>,
    /// Bytes of their records.
    size: AtomicUsize,
}

impl Uncommitted {
    /// Adds the next batch of the log.
    pub(super) fn push(&self, batch: Arc<AppendInfo>) {
        self.size.fetch_add(batch.size, Ordering::Relaxed);
        self.batches.lock().push_back(batch);
    }
}

impl CommitLog {
    /// Bytes that are written and not yet committed.
    pub(crate) fn uncommitted_size(&self) -> usize {
        self.uncommitted.size.load(Ordering::Relaxed)
    }

    /// Makes batches visible that are written and end at or below `offset`, and passes each to `published`. `committed` follows.
    pub(crate) fn commit(&self, offset: LogOffset, mut published: impl FnMut(&AppendInfo)) {
        let mut batches = self.uncommitted.batches.lock();
        let reached = offset.min(self.watermarks.written());
        let mut end = None;
        while let Some(batch) = batches.pop_front_if(|batch| batch.end <= reached) {
            self.uncommitted.size.fetch_sub(batch.size, Ordering::Relaxed);
            publish_entries(&batch);
            published(&batch);
            end = Some(batch.end);
        }
        if let Some(end) = end {
            self.note_committed(end);
        }
    }

    /// Everything below `offset` is committed, its entries are in their queues.
    pub(crate) fn note_committed(&self, offset: LogOffset) {
        self.watermarks.advance_committed(offset);
        self.waiters.wake(Watermark::Committed, offset);
    }
}
