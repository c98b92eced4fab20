//! What became of the pops and acknowledgements of a run or of one of its threads.

use crate::load::latency::Latency;
use crate::load::tally::Refusals;

/// All but the last group counts the measurement, not the warm-up.
#[derive(Debug, Default)]
pub struct PopTally {
    /// Messages received.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Messages whose acknowledgement was answered with success.
    pub acked: u64,
    /// Pops answered with messages.
    pub pops_found: u64,
    /// Pops answered without.
    pub pops_empty: u64,
    /// Pops refused.
    pub pop_refusals: Refusals,
    /// Messages whose acknowledgement was refused.
    pub ack_refusals: Refusals,
    /// Pops given up without an answer, or lost with their connection.
    pub pops_unanswered: u64,
    /// Messages whose acknowledgement was.
    pub acks_unanswered: u64,
    /// Messages of which the answer does not say how to acknowledge them.
    pub without_receipt: u64,
    /// Bodies that do not match their checksum.
    pub corrupt: u64,
    /// Of pops that found messages: from when they were sent to when the answer was read.
    pub pop: Latency,
    /// From when an acknowledgement was sent to when its answer was read, for every message.
    pub ack: Latency,
    /// From when the pop was sent to when the acknowledgement's answer was read, for every message.
    pub pop_to_acked: Latency,
    /// From when a message was stored to when it was read here.
    pub store_to_pop: Latency,
    /// When the last acknowledgement was answered.
    pub last_ns: u64,

    /// Warm-up and measurement: messages received.
    pub messages_in_all: u64,
    /// CPU time of the consumer thread.
    pub cpu_ns: u64,
    /// Connections that broke or consumers that gave up, and why.
    pub faults: Vec<String>,
}

impl PopTally {
    /// Takes in what another thread counted.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.acked += other.acked;
        self.pops_found += other.pops_found;
        self.pops_empty += other.pops_empty;
        self.pop_refusals.add(other.pop_refusals);
        self.ack_refusals.add(other.ack_refusals);
        self.pops_unanswered += other.pops_unanswered;
        self.acks_unanswered += other.acks_unanswered;
        self.without_receipt += other.without_receipt;
        self.corrupt += other.corrupt;
        self.pop.add(&other.pop);
        self.ack.add(&other.ack);
        self.pop_to_acked.add(&other.pop_to_acked);
        self.store_to_pop.add(&other.store_to_pop);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.messages_in_all += other.messages_in_all;
        self.cpu_ns += other.cpu_ns;
        self.faults.extend(other.faults);
    }
}
