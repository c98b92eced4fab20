//! What the consumers of a run that also sends still wait for.
//!
//! While messages are sent nobody knows how many there will be. Once the last send has its answer it is known, and consumers go on
//! until as many have arrived or nothing more is to be hoped for: a message that comes late is measured as late, not left out.
//! A message that comes again brings the end no nearer, else a broker that doubles some would hide that others are missing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::load::answer_times::AnswerTimes;

/// The times of the sends, and how many messages they make to arrive.
#[derive(Debug)]
pub struct Awaited {
    /// When the sends were due and answered.
    pub times: AnswerTimes,
    /// So long after the end of the run, or after the last that arrived, a message is lost if it has not arrived.
    patience_ns: u64,
    expected: AtomicU64,
    arrived: AtomicU64,
    last_ns: AtomicU64,
}

impl Awaited {
    /// Sends that go on.
    pub fn new(patience_ns: u64) -> Self {
        let (expected, arrived, last_ns) = (AtomicU64::new(u64::MAX), AtomicU64::new(0), AtomicU64::new(0));
        Self { times: AnswerTimes::new(), patience_ns, expected, arrived, last_ns }
    }

    /// The sends are over: so many messages shall arrive, each counted once for every group that reads it.
    pub fn settle(&self, expected: u64) {
        self.expected.store(expected, Relaxed);
    }

    /// So many more arrived now for the first time: a broker that is behind, but goes on, loses nothing.
    pub fn arrived(&self, count: u64, now_ns: u64) {
        self.arrived.fetch_add(count, Relaxed);
        self.last_ns.fetch_max(now_ns, Relaxed);
    }

    /// Whether nothing more is to be hoped for now, after a run that ended at `end_ns`.
    pub fn is_over(&self, end_ns: u64, now_ns: u64) -> bool {
        let last_ns = self.last_ns.load(Relaxed).max(end_ns);
        self.arrived.load(Relaxed) >= self.expected.load(Relaxed) || now_ns.saturating_sub(last_ns) >= self.patience_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_may_come_until_the_sends_are_over_and_all_have_arrived() {
        let awaited = Awaited::new(10);
        awaited.arrived(11, 50);
        assert!(!awaited.is_over(100, 109));
        awaited.settle(12);
        assert!(!awaited.is_over(100, 109));
        assert!(awaited.is_over(100, 110));
        awaited.arrived(1, 60);
        assert!(awaited.is_over(100, 109));
    }

    #[test]
    fn a_broker_that_is_behind_and_goes_on_is_waited_for() {
        let awaited = Awaited::new(10);
        awaited.settle(12);
        awaited.arrived(11, 109);
        assert!(!awaited.is_over(100, 118));
        assert!(awaited.is_over(100, 119));
    }
}
