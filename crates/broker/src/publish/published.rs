//! What became of a publish batch.

use std::ops::Range;
use std::sync::Arc;

use base::{LogOffset, QueueOffset, Timestamp};
use storage::AppendInfo;

/// Messages that are appended. Whoever waits for a watermark may keep this for long: it does not keep their bytes.
#[derive(Clone, Debug)]
pub struct Published(pub(crate) Arc<AppendInfo>);

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// In the log.
    pub log_offset: LogOffset,
    /// In its queue.
    pub queue_offset: QueueOffset,
}

impl Published {
    /// What a watermark must pass for all of them to keep its promise.
    pub fn end(&self) -> LogOffset {
        self.0.end
    }

    /// When they were stored.
    pub(crate) fn store_timestamp(&self) -> Timestamp {
        self.0.store_timestamp
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.0.records.len()
    }

    /// Where some of them are, in the order they were added.
    pub fn positions(&self, messages: Range<usize>) -> impl ExactSizeIterator<Item = Position> + Clone {
        let records = self.0.records.get(messages).unwrap_or_default();
        records.iter().map(|record| Position { log_offset: record.log_offset, queue_offset: record.queue_offset })
    }
}
