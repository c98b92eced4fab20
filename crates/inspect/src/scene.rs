//! What every part of a check looks at: the log, where it is sure, and the findings.

use format::index_rules::IndexRules;

use crate::finding::Findings;
use crate::log_files::LogFiles;
use crate::spans::Spans;

/// The log and what is known of it so far.
pub(crate) struct Scene {
    pub(crate) log: LogFiles,
    /// How its records are found.
    pub(crate) rules: IndexRules,
    pub(crate) findings: Findings,
    /// Stretches of the log without whole records, so far.
    pub(crate) broken: Spans,
    /// From here on the log's end may be unfinished: the last process was killed, or one is at work.
    pub(crate) unsure_from: u64,
    /// From here on entries and keys may lag behind the log: for the same reasons, or since its records are not committed.
    pub(crate) lag_from: u64,
}

impl Scene {
    /// Whether something that points here is not to blame: what it points at is gone for a reason told elsewhere.
    pub(crate) fn is_excused(&self, offset: u64) -> bool {
        offset < self.log.first() || self.broken.contains(offset) || self.log.gaps.contains(offset)
    }

    pub(crate) const fn is_unsure(&self, offset: u64) -> bool {
        offset >= self.unsure_from
    }

    pub(crate) const fn may_lag(&self, offset: u64) -> bool {
        offset >= self.lag_from
    }
}
