//! What became of the requests of a run or of one of its threads.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::load::latency::Latency;

/// Requests refused, by code.
#[derive(Debug, Default)]
pub struct Refusals {
    by_code: BTreeMap<i32, RefusedCode>,
}

/// Messages (or pulls) refused with one code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedCode {
    /// The code.
    pub code: i32,
    /// Its name.
    pub name: &'static str,
    /// How many.
    pub count: u64,
    /// What the broker said the first time.
    pub remark: String,
}

impl Refusals {
    /// Counts a reply of `code` to `messages` messages; only the first of a code is asked for the code's name and its remark.
    pub fn record(&mut self, code: i32, messages: u64, words: impl FnOnce() -> (&'static str, String)) {
        let refused = self.by_code.entry(code).or_insert_with(|| {
            let (name, remark) = words();
            RefusedCode { code, name, count: 0, remark }
        });
        refused.count += messages;
    }

    /// Takes in what another thread counted.
    pub fn add(&mut self, other: Self) {
        for (code, refused) in other.by_code {
            self.record(code, refused.count, || (refused.name, refused.remark));
        }
    }

    /// Messages refused.
    pub fn count(&self) -> u64 {
        self.by_code.values().map(|refused| refused.count).sum()
    }

    /// By code, smallest first.
    pub fn into_codes(self) -> Vec<RefusedCode> {
        self.by_code.into_values().collect()
    }
}

/// What became of the sends. All but the last group counts messages of the measurement, not of the warm-up.
#[derive(Debug, Default)]
pub struct SendTally {
    /// Handed to the socket.
    pub sent: u64,
    /// Bytes of their frames.
    pub sent_bytes: u64,
    /// Answered with success.
    pub ok: u64,
    /// Answered otherwise.
    pub refusals: Refusals,
    /// Given up without an answer, or lost with their connection.
    pub unanswered: u64,
    /// Due by the timetable, never sent.
    pub unsent: u64,
    /// From when each was due to when its answer was read.
    pub latency: Latency,
    /// When the last answer was read (one-way: when the last byte was written).
    pub last_ns: u64,
    /// Most a send was behind its timetable.
    pub lag_max_ns: u64,

    /// Warm-up and measurement: messages handed to the socket.
    pub sent_in_all: u64,
    /// CPU time of the generator thread.
    pub cpu_ns: u64,
    /// Connections that broke, and why.
    pub faults: Vec<String>,
}

impl SendTally {
    /// Takes in what another thread counted.
    pub fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.ok += other.ok;
        self.refusals.add(other.refusals);
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
        self.latency.add(&other.latency);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.lag_max_ns = self.lag_max_ns.max(other.lag_max_ns);
        self.sent_in_all += other.sent_in_all;
        self.cpu_ns += other.cpu_ns;
        self.faults.extend(other.faults);
    }
}

/// What became of the pulls. All but the last group counts the measurement, not the warm-up.
#[derive(Debug, Default)]
pub struct PullTally {
    /// Messages received.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Pulls answered with messages.
    pub pulls_found: u64,
    /// Pulls answered without.
    pub pulls_empty: u64,
    /// Pulls refused.
    pub refusals: Refusals,
    /// Bodies that do not match their checksum.
    pub corrupt: u64,
    /// Messages whose queue offset is not above that of the message before.
    pub out_of_order: u64,
    /// Times a broker moved a cursor to another offset.
    pub moved: u64,
    /// From when a message was made to when it was read here.
    pub born_to_consume: Latency,
    /// From when a message was stored to when it was read here.
    pub store_to_consume: Latency,
    /// Where answers of the sends are known: from when a message's send was due to when it was read here.
    pub due_to_consume: Latency,
    /// From when a message's send was answered to when it was read here; 0 for what was read before the answer.
    pub answer_to_consume: Latency,
    /// Messages read before the answer to their send.
    pub before_answer: u64,
    /// Messages whose send is not known any more.
    pub unmatched: u64,
    /// When the last message was read.
    pub last_ns: u64,

    /// Warm-up and measurement: messages received.
    pub messages_in_all: u64,
    /// CPU time of the consumer thread.
    pub cpu_ns: u64,
    /// Connections that broke or queues that were given up, and why.
    pub faults: Vec<String>,
}

impl PullTally {
    /// Takes in what another thread counted.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.pulls_found += other.pulls_found;
        self.pulls_empty += other.pulls_empty;
        self.refusals.add(other.refusals);
        self.corrupt += other.corrupt;
        self.out_of_order += other.out_of_order;
        self.moved += other.moved;
        self.born_to_consume.add(&other.born_to_consume);
        self.store_to_consume.add(&other.store_to_consume);
        self.due_to_consume.add(&other.due_to_consume);
        self.answer_to_consume.add(&other.answer_to_consume);
        self.before_answer += other.before_answer;
        self.unmatched += other.unmatched;
        self.last_ns = self.last_ns.max(other.last_ns);
        self.messages_in_all += other.messages_in_all;
        self.cpu_ns += other.cpu_ns;
        self.faults.extend(other.faults);
    }
}
