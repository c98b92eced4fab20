//! What the consumers of a run that also sends still wait for.
//!
//! While messages are sent nobody knows how many there will be. Once the last send has its answer it is known, and consumers go on
//! until as many have arrived or nothing more is to be hoped for: a message that comes late is measured as late, not left out.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::answer_times::AnswerTimes;

/// The times of the sends, and how many messages they make to arrive.
#[derive(Debug)]
pub struct Awaited {
    /// When the sends were due and answered.
    pub times: AnswerTimes,
    /// So long after the end of the run a message is lost if it has not arrived.
    pub patience_ns: u64,
    arrivals: AtomicU64,
}

impl Awaited {
    /// Sends that go on.
    pub fn new(patience_ns: u64) -> Self {
        Self { times: AnswerTimes::new(), patience_ns, arrivals: AtomicU64::new(u64::MAX) }
    }

    /// The sends are over: so many messages shall arrive, each counted once for every group that reads it.
    pub fn settle(&self, arrivals: u64) {
        self.arrivals.store(arrivals, Relaxed);
    }

    /// Whether, with `arrived` of them, there is nothing more to come.
    pub fn is_met(&self, arrived: u64) -> bool {
        arrived >= self.arrivals.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_may_come_until_the_sends_are_over_and_all_have_arrived() {
        let awaited = Awaited::new(0);
        assert!(!awaited.is_met(1_000_000));
        awaited.settle(12);
        assert!(!awaited.is_met(11));
        assert!(awaited.is_met(12));
    }
}
