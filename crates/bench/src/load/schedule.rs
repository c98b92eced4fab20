//! When each message of a paced run is due: a fixed timetable that does not wait for answers.
//!
//! Message *i* is due at `start + i / rate`. A broker that stalls does not move the timetable: what could not be sent
//! in time is sent late and its latency is counted from the moment it was due. Several threads share one timetable by
//! taking every n-th message each.
//!
//! Times are rounded up to a grid: what is due within the same fifth of a millisecond goes out together, with one
//! wake-up and one write. Waking up for every single message would take a core from the broker on the same machine.

use crate::machine::clock::SECOND_NS;

/// Grid of the timetable.
const TICK_NS: u64 = SECOND_NS / 5_000;

/// A timetable for one thread.
#[derive(Clone, Debug)]
pub struct Schedule {
    start_ns: u64,
    per_second: u64,
    messages_per_send: u64,
    first: u64,
    stride: u64,
    issued: u64,
}

impl Schedule {
    /// The timetable of thread `thread` of `threads`: `per_second` messages in total, `messages_per_send` at a time.
    pub fn new(start_ns: u64, per_second: u64, messages_per_send: usize, thread: usize, threads: usize) -> Self {
        debug_assert!(per_second > 0 && thread < threads);
        Self {
            start_ns,
            per_second,
            messages_per_send: messages_per_send as u64,
            first: thread as u64,
            stride: threads as u64,
            issued: 0,
        }
    }

    /// When the next send is due.
    pub fn next_due_ns(&self) -> u64 {
        let send = u128::from(self.first) + u128::from(self.issued) * u128::from(self.stride);
        let messages = send * u128::from(self.messages_per_send);
        let offset = messages * u128::from(SECOND_NS) / u128::from(self.per_second);
        let offset_ns = u64::try_from(offset).unwrap_or(u64::MAX);
        self.start_ns.saturating_add(offset_ns.checked_next_multiple_of(TICK_NS).unwrap_or(u64::MAX))
    }

    /// Counts the send that was due as issued.
    pub const fn advance(&mut self) {
        self.issued += 1;
    }

    /// Sends that were due before `until_ns` and were not issued.
    pub fn overdue(&self, until_ns: u64) -> u64 {
        let mut rest = self.clone();
        let Some(behind_ns) = until_ns.checked_sub(rest.next_due_ns()) else { return 0 };
        let step = u128::from(SECOND_NS) * u128::from(self.messages_per_send) * u128::from(self.stride);
        let whole = u128::from(behind_ns) * u128::from(self.per_second) / step;
        rest.issued += u64::try_from(whole).unwrap_or(u64::MAX);
        // Rounding may be off by a few either way: settle it by the definition.
        while rest.issued > self.issued && rest.next_due_ns() >= until_ns {
            rest.issued -= 1;
        }
        while rest.next_due_ns() < until_ns {
            rest.issued += 1;
        }
        rest.issued - self.issued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dues_are_exact_for_ever() {
        let mut schedule = Schedule::new(1_000, 3, 1, 0, 1);
        let mut dues = Vec::new();
        for _ in 0..4 {
            dues.push(schedule.next_due_ns());
            schedule.advance();
        }
        assert_eq!(dues, [1_000, 333_401_000, 666_801_000, 1_000_001_000]);
        schedule.issued = 3_000_000_000;
        assert_eq!(schedule.next_due_ns(), 1_000 + 1_000_000_000 * SECOND_NS);
    }

    #[test]
    fn what_is_due_within_a_tick_goes_out_together() {
        let mut schedule = Schedule::new(0, 20_000, 1, 0, 1);
        let mut dues = Vec::new();
        for _ in 0..9 {
            dues.push(schedule.next_due_ns() / TICK_NS);
            schedule.advance();
        }
        assert_eq!(dues, [0, 1, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn threads_share_one_timetable() {
        let mut dues: Vec<u64> = Vec::new();
        for thread in 0..3 {
            let mut schedule = Schedule::new(0, 1_000, 2, thread, 3);
            for _ in 0..4 {
                dues.push(schedule.next_due_ns());
                schedule.advance();
            }
        }
        dues.sort_unstable();
        let wanted: Vec<u64> = (0..12).map(|send| send * 2_000_000).collect();
        assert_eq!(dues, wanted);
    }

    #[test]
    fn overdue_counts_what_was_due_and_not_sent() {
        for (per_second, messages_per_send, threads) in [(1_000, 1, 1), (7, 3, 2), (999_983, 32, 1)] {
            let mut schedule = Schedule::new(50, per_second, messages_per_send, 0, threads);
            schedule.issued = 2;
            let until_ns = 50 + 5 * SECOND_NS + 1;
            let mut walked = schedule.clone();
            while walked.next_due_ns() < until_ns {
                walked.advance();
            }
            assert_eq!(schedule.overdue(until_ns), walked.issued - schedule.issued);
            assert_eq!(walked.overdue(until_ns), 0);
        }
    }
}
