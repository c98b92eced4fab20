//! What one consumer thread of an AMQP run has seen of its messages.

use std::mem;

use crate::amqp::conversation::Delivery;
use crate::amqp::mark::{Mark, Origin};
use crate::load::answer_times::AnswerTimes;
use crate::load::live::Beat;
use crate::load::tally::PullTally;

/// The last mark of each publishing channel, as one consuming channel saw them: messages of one channel come in its order.
#[derive(Debug, Default)]
pub struct LastMarks(Vec<(u64, u64)>);

impl LastMarks {
    /// Whether that mark comes behind all of its channel before.
    fn take(&mut self, mark: Mark) -> bool {
        let index = usize::from(mark.channel);
        if self.0.len() <= index {
            self.0.resize(index + 1, (0, 0));
        }
        let Some(last) = self.0.get_mut(index) else { return true };
        let is_behind = (mark.due_ns, mark.number) > *last;
        *last = (*last).max((mark.due_ns, mark.number));
        is_behind
    }
}

/// A thread's.
pub struct Observer<'a> {
    /// When the run's sends were answered, where it sends and is answered.
    times: Option<&'a AnswerTimes>,
    origin: Origin,
    /// Whether a message counts by when it was due, as where the run sends itself, not by when it came.
    counts_due: bool,
    measure_from_ns: u64,
    now_ns: u64,
    /// Messages handled that others wait for, since they were last told.
    handled: u64,
    /// What is to be told at the end.
    pub tally: PullTally,
    /// What is told meanwhile.
    pub beat: Beat,
}

impl<'a> Observer<'a> {
    /// Of a run that consumes alone.
    pub fn new(origin: Origin, measure_from_ns: u64) -> Self {
        let (tally, beat) = (PullTally::default(), Beat::default());
        Self { times: None, origin, counts_due: false, measure_from_ns, now_ns: 0, handled: 0, tally, beat }
    }

    /// Of a run that sends too; `times` are there if its sends are answered.
    pub fn of_own_sends(self, times: Option<&'a AnswerTimes>) -> Self {
        Self { times, counts_due: true, ..self }
    }

    /// It is this late.
    pub const fn set_time(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// How late it is.
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whether the warm-up is over.
    pub const fn is_measuring(&self) -> bool {
        self.now_ns >= self.measure_from_ns
    }

    /// Messages that others wait for and that were handled since this was last asked.
    pub const fn take_handled(&mut self) -> u64 {
        mem::replace(&mut self.handled, 0)
    }

    /// A message came; tells whether it belongs to the measurement.
    pub fn arrived(&mut self, delivery: &Delivery, last_marks: &mut LastMarks) -> bool {
        self.tally.messages_in_all += 1;
        let Some(mark) = delivery.mark else { return self.is_measuring() };
        let since_ns = (self.origin.0 + self.now_ns).saturating_sub(mark.due_ns);
        self.beat.latency(since_ns, 1);
        // What was due before the measurement is a backlog of the warm-up, or of another run.
        let is_due = mark.due_ns >= self.origin.0 + self.measure_from_ns;
        let is_measured = if self.counts_due { is_due } else { self.is_measuring() };
        let is_in_order = last_marks.take(mark) || delivery.redelivered;
        if is_measured {
            self.tally.born_to_consume.record(since_ns, 1);
            self.tally.out_of_order += u64::from(!is_in_order);
        }
        if is_measured && self.counts_due {
            self.compare(mark, since_ns);
        }
        is_measured
    }

    /// Holds a message of the run's own against its send.
    fn compare(&mut self, mark: Mark, since_ns: u64) {
        self.tally.due_to_consume.record(since_ns, 1);
        let Some(times) = self.times else { return };
        let Some(send) = times.find(mark.id()) else {
            self.tally.unmatched += 1;
            return;
        };
        let answered_ns = send.answered_ns.filter(|answered_ns| *answered_ns <= self.now_ns);
        self.tally.before_answer += u64::from(answered_ns.is_none());
        let since = answered_ns.map_or(0, |answered_ns| self.now_ns - answered_ns);
        self.tally.answer_to_consume.record(since, 1);
    }

    /// A message was handled.
    pub fn handled(&mut self, body_size: u64, is_measured: bool) {
        self.beat.messages += 1;
        self.handled += u64::from(is_measured || !self.counts_due);
        if is_measured {
            self.beat.measured += 1;
            self.tally.messages += 1;
            self.tally.body_bytes += body_size;
            self.tally.last_ns = self.now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_or_before_its_turn_is_out_of_order_and_a_later_run_begins_anew() {
        let mark = |channel, number, due_ns| Mark { channel, number, due_ns };
        let mut marks = LastMarks::default();
        for (mark, is_in_order) in [
            (mark(1, 5, 100), true),
            (mark(1, 6, 100), true),
            (mark(2, 1, 50), true),
            (mark(1, 6, 100), false),
            (mark(1, 4, 90), false),
            (mark(1, 7, 110), true),
            (mark(1, 1, 1_000), true),
        ] {
            assert_eq!(marks.take(mark), is_in_order, "{mark:?}");
        }
    }
}
