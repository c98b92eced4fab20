//! Positions: in the log, in a queue, and the watermarks that say how far a log has come.

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

/// Number of a message queue: one that has a name of its own, and gets what exchanges route to it. Never given out twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueNumber(pub u32);

impl fmt::Display for QueueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names one of the positions up to which something holds for all of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watermark {
    /// In the page cache: survives a killed process.
    Written,
    /// Synced to the disk: survives power loss.
    Durable,
    /// At as many replicas as were asked for: survives the loss of this machine.
    Replicated,
    /// Never taken back: what consumers see, and keys and exports are made of.
    Committed,
}

impl Watermark {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Written, Self::Durable, Self::Replicated, Self::Committed];
}

/// Which watermarks have to pass a message before its producer is answered: `written` always, and those named here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AckPolicy {
    /// Whether `durable` has to.
    pub durable: bool,
    /// Whether `replicated` has to.
    pub replicated: bool,
}

impl AckPolicy {
    /// `written` is enough.
    pub const WRITTEN: Self = Self { durable: false, replicated: false };
    /// Waits for the sync.
    pub const DURABLE: Self = Self { durable: true, replicated: false };
    /// Waits for the replicas.
    pub const REPLICATED: Self = Self { durable: false, replicated: true };

    /// What keeps both: for messages that are answered together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { durable: self.durable | other.durable, replicated: self.replicated | other.replicated }
    }

    /// The watermarks that have to pass. `written` is not looked at where a later one is, which never runs ahead of it.
    pub fn watermarks(self) -> impl Iterator<Item = Watermark> {
        let is_named = move |watermark: &Watermark| match watermark {
            Watermark::Written => self == Self::WRITTEN,
            Watermark::Durable => self.durable,
            Watermark::Replicated => self.replicated,
            Watermark::Committed => false,
        };
        Watermark::ALL.into_iter().filter(is_named)
    }
}

/// How far the log has come. Written by who writes, syncs and replicates it, read by everyone.
///
/// **Always holds**: `durable`, `replicated` and `committed` are at or below `written`, and that is at or below the end of what was
/// appended (has a log offset). The first three know nothing of each other. None goes back.
#[derive(Debug, Default)]
pub struct Watermarks {
    written: AtomicU64,
    durable: AtomicU64,
    replicated: AtomicU64,
    /// `None` where all that is written is committed.
    committed: Option<AtomicU64>,
}

impl Watermarks {
    /// As recovery finds them; what replicas have is not known then.
    pub fn new(durable: LogOffset, written: LogOffset) -> Self {
        debug_assert!(durable <= written);
        Self {
            written: AtomicU64::new(written.0),
            durable: AtomicU64::new(durable.0),
            replicated: AtomicU64::default(),
            committed: None,
        }
    }

    /// The same for a governed group: `committed` goes on where it is said to, from here.
    #[must_use]
    pub fn governed(self, committed: LogOffset) -> Self {
        debug_assert!(committed <= self.written());
        Self { committed: Some(AtomicU64::new(committed.0)), ..self }
    }

    /// Whether something that is written may not be committed.
    pub const fn is_governed(&self) -> bool {
        self.committed.is_some()
    }

    /// Everything below this is in the page cache.
    pub fn written(&self) -> LogOffset {
        LogOffset(self.written.load(Ordering::Acquire))
    }

    /// Everything below this is on the disk.
    pub fn durable(&self) -> LogOffset {
        LogOffset(self.durable.load(Ordering::Acquire))
    }

    /// Everything below this is at the replicas.
    pub fn replicated(&self) -> LogOffset {
        LogOffset(self.replicated.load(Ordering::Acquire))
    }

    /// Everything below this is committed.
    pub fn committed(&self) -> LogOffset {
        self.committed.as_ref().map_or_else(|| self.written(), |committed| LogOffset(committed.load(Ordering::Acquire)))
    }

    /// The watermark `which` names.
    pub fn get(&self, which: Watermark) -> LogOffset {
        match which {
            Watermark::Written => self.written(),
            Watermark::Durable => self.durable(),
            Watermark::Replicated => self.replicated(),
            Watermark::Committed => self.committed(),
        }
    }

    /// Everything below this may be answered to who waits as `policy` says.
    pub fn reached(&self, policy: AckPolicy) -> LogOffset {
        policy.watermarks().map(|watermark| self.get(watermark)).min().unwrap_or_default()
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

    /// Moves `replicated` forward to `offset`, which must have been written.
    pub fn advance_replicated(&self, offset: LogOffset) {
        debug_assert!(offset <= self.written());
        self.replicated.fetch_max(offset.0, Ordering::AcqRel);
    }

    /// Moves `committed` forward to `offset`, which must have been written, where it does not move with `written`.
    pub fn advance_committed(&self, offset: LogOffset) {
        debug_assert!(offset <= self.written());
        if let Some(committed) = &self.committed {
            committed.fetch_max(offset.0, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_waits_for_every_watermark_its_policy_names() {
        let watermarks = Watermarks::new(LogOffset(100), LogOffset(400));
        watermarks.advance_replicated(LogOffset(300));
        let both = AckPolicy::DURABLE.and(AckPolicy::REPLICATED);
        let policies = [AckPolicy::WRITTEN, AckPolicy::DURABLE, AckPolicy::REPLICATED, both];
        let reached = || policies.map(|policy| watermarks.reached(policy).0);
        assert_eq!(reached(), [400, 100, 300, 100]);
        watermarks.advance_durable(LogOffset(350));
        assert_eq!(reached(), [400, 350, 300, 300]);
        assert_eq!(AckPolicy::WRITTEN.and(AckPolicy::DURABLE), AckPolicy::DURABLE);
    }

    #[test]
    fn what_is_written_is_committed_unless_somebody_else_decides_that() {
        let alone = Watermarks::new(LogOffset(0), LogOffset(100));
        alone.advance_written(LogOffset(200));
        alone.advance_committed(LogOffset(150));
        assert_eq!((alone.committed(), alone.is_governed()), (LogOffset(200), false));
        let governed = Watermarks::new(LogOffset(0), LogOffset(100)).governed(LogOffset(50));
        governed.advance_written(LogOffset(200));
        assert_eq!((governed.committed(), governed.is_governed()), (LogOffset(50), true));
        governed.advance_committed(LogOffset(150));
        governed.advance_committed(LogOffset(120));
        assert_eq!(governed.committed(), LogOffset(150));
    }
}
