//! Positions: in the log, in a queue, and the watermarks that say how far a log has come.
//!
//! Watermarks always keep this order: `durable <= written <= appended`, the last being the end of what has a log offset. What
//! is below `written` is visible to consumers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Byte position in the commit log, counted from the first byte ever appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogOffset(pub u64);

impl LogOffset {
    /// The position `byte_count` bytes further on.
    pub const fn after(self, byte_count: u64) -> Self {
        Self(self.0.saturating_add(byte_count))
    }
}

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Position of an entry in its queue: the first entry ever is 0 and positions are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueOffset(pub u64);

impl QueueOffset {
    /// The position `entry_count` entries further on.
    pub const fn after(self, entry_count: u64) -> Self {
        Self(self.0.saturating_add(entry_count))
    }
}

impl fmt::Display for QueueOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of a queue within its topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Which promise a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watermark {
    /// In the page cache: survives a killed process.
    Written,
    /// Synced to the disk: survives power loss.
    Durable,
}

/// How far the log has come. Written by the log's own threads, read by everyone.
#[derive(Debug, Default)]
pub struct Watermarks {
    written: AtomicU64,
    durable: AtomicU64,
}

impl Watermarks {
    /// Both watermarks at `offset`, as after recovery.
    pub fn starting_at(offset: LogOffset) -> Self {
        Self { written: AtomicU64::new(offset.0), durable: AtomicU64::new(offset.0) }
    }

    /// Everything below this is in the page cache.
    pub fn written(&self) -> LogOffset {
        LogOffset(self.written.load(Ordering::Acquire))
    }

    /// Everything below this is on the disk.
    pub fn durable(&self) -> LogOffset {
        LogOffset(self.durable.load(Ordering::Acquire))
    }

    /// The watermark `which` names.
    pub fn get(&self, which: Watermark) -> LogOffset {
        match which {
            Watermark::Written => self.written(),
            Watermark::Durable => self.durable(),
        }
    }

    /// Moves `written` forward to `offset`.
    pub fn advance_written(&self, offset: LogOffset) {
        debug_assert!(offset >= self.written());
        self.written.store(offset.0, Ordering::Release);
    }

    /// Moves `durable` forward to `offset`, which must have been written.
    pub fn advance_durable(&self, offset: LogOffset) {
        debug_assert!(offset <= self.written());
        self.durable.fetch_max(offset.0, Ordering::AcqRel);
    }
}
