//! What one thread of a run that pops has seen, as it goes into the tally.

use format::record::Record;
use wire::rocketmq::pop::origin::Origin;

use crate::load::arrivals::Arrivals;
use crate::load::live::Beat;
use crate::load::pop_tally::PopTally;
use crate::rocketmq::reply::words_of;

const MS_NS: u64 = 1_000_000;

/// The account of a thread.
pub struct PopAccount<'a> {
    /// Which messages have come, over all threads.
    pub arrivals: &'a Arrivals,
    /// What became of pops and acknowledgements.
    pub tally: PopTally,
    /// The same since it was last told.
    pub beat: Beat,
    /// Whether bodies are checked.
    pub verify: bool,
    /// When the warm-up ends.
    pub measure_from_ns: u64,
    /// Now, by the run's clock.
    pub now_ns: u64,
    /// Now, by the wall clock.
    pub now_wall_ms: u64,
}

/// Messages of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    /// How many.
    pub messages: u64,
    /// When their pop was sent.
    pub popped_ns: u64,
    /// When the acknowledgement was.
    pub acked_ns: u64,
}

impl PopAccount<'_> {
    const fn is_measuring(&self) -> bool {
        self.now_ns >= self.measure_from_ns
    }

    /// A message came from the queue with that index, or from a retry topic.
    pub fn message(&mut self, record: &Record<'_>, origin: Origin, queue: usize) {
        // What is in a retry topic was handed out before.
        if origin == Origin::Topic {
            self.arrivals.came(queue, record.queue_offset.0, self.now_ns);
        } else {
            self.arrivals.came_again(self.now_ns);
        }
        self.tally.messages_in_all += 1;
        if self.is_measuring() {
            let stored_ns = self.now_wall_ms.saturating_sub(record.store_timestamp.0) * MS_NS;
            self.tally.messages += 1;
            self.tally.body_bytes += record.body.len() as u64;
            self.tally.store_to_pop.record(stored_ns, 1);
            self.tally.corrupt += u64::from(self.verify && !record.body_is_intact());
        }
    }

    /// A pop brought messages.
    pub fn found(&mut self, popped_ns: u64) {
        if self.is_measuring() {
            self.tally.pops_found += 1;
            self.tally.pop.record(self.now_ns.saturating_sub(popped_ns), 1);
        }
    }

    /// A pop brought none.
    pub fn empty(&mut self) {
        self.tally.pops_empty += u64::from(self.is_measuring());
    }

    /// A message cannot be acknowledged.
    pub fn without_receipt(&mut self) {
        self.tally.without_receipt += u64::from(self.is_measuring());
    }

    /// A pop was refused.
    pub fn pop_refused(&mut self, code: i32, frame: &[u8]) {
        self.beat.refused += 1;
        if self.is_measuring() {
            self.tally.pop_refusals.record(code, 1, || words_of(code, frame));
        }
    }

    /// An acknowledgement went well.
    pub fn acked(&mut self, acknowledged: Acknowledged) {
        let Acknowledged { messages, popped_ns, acked_ns } = acknowledged;
        let in_all_ns = self.now_ns.saturating_sub(popped_ns);
        self.beat.messages += messages;
        self.beat.latency(in_all_ns, messages);
        if self.is_measuring() {
            self.beat.measured += messages;
            self.tally.acked += messages;
            self.tally.last_ns = self.now_ns;
            self.tally.ack.record(self.now_ns.saturating_sub(acked_ns), messages);
            self.tally.pop_to_acked.record(in_all_ns, messages);
        }
    }

    /// An acknowledgement was refused.
    pub fn ack_refused(&mut self, code: i32, messages: u64, frame: &[u8]) {
        self.beat.refused += messages;
        if self.is_measuring() {
            self.tally.ack_refusals.record(code, messages, || words_of(code, frame));
        }
    }
}
