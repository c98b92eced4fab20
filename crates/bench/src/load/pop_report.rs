//! What a run that pops found, for people and programs.

use serde::Serialize;

use crate::load::arrivals::Arrivals;
use crate::load::latency::LatencySummary;
use crate::load::pop_options::PopOptions;
use crate::load::pop_tally::PopTally;
use crate::load::report::{GeneratorUsage, MEGABYTE, Setup, grouped, rate, usage};
use crate::load::supervisor::Observed;
use crate::load::tally::RefusedCode;
use crate::machine::clock::{ns_to_seconds, seconds_to_ns};

/// What came of popping. The warm-up is not in it, except where that is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PopTotals {
    /// Messages received.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Messages whose acknowledgement was answered with success.
    pub acked: u64,
    /// From the start of the measurement to its end, or to the last answer to an acknowledgement where a count or the end of the
    /// queues ended it.
    pub seconds: f64,
    /// Messages popped and acknowledged a second.
    pub messages_per_second: f64,
    /// Bodies of what was popped in millions of bytes a second.
    pub megabytes_per_second: f64,
    /// Pops answered with messages.
    pub pops_found: u64,
    /// Pops answered without.
    pub pops_empty: u64,
    /// Pops refused.
    pub pops_refused: u64,
    /// Pops never answered.
    pub pops_unanswered: u64,
    /// Messages whose acknowledgement was refused.
    pub acks_refused: u64,
    /// Messages whose acknowledgement was never answered.
    pub acks_unanswered: u64,
    /// Messages of which the answer does not say how to acknowledge them.
    pub without_receipt: u64,
    /// How often a message came that had come before, warm-up included.
    pub again: u64,
    /// Messages of which it is not known any more whether they had come before, warm-up included.
    pub unknown: u64,
    /// Messages in the queues when the run began; nothing unless it ran until they were empty.
    pub expected: Option<u64>,
    /// Those of them that never came; nothing where a count or time ended the run before.
    pub missing: Option<u64>,
    /// Bodies that do not match their checksum; nothing if that was not asked for.
    pub corrupt: Option<u64>,
}

/// What a run that pops found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PopReport {
    /// `pop`.
    pub kind: &'static str,
    /// What was asked for.
    pub options: PopOptions,
    /// What it was made with.
    #[serde(flatten)]
    pub setup: Setup,
    /// Results.
    pub totals: PopTotals,
    /// From a pop to its answer with messages, in milliseconds; while the broker held it is in it.
    pub pop_ms: Option<LatencySummary>,
    /// From an acknowledgement to its answer, in milliseconds.
    pub ack_ms: Option<LatencySummary>,
    /// From the pop of a message to the answer to its acknowledgement, in milliseconds.
    pub pop_to_acked_ms: Option<LatencySummary>,
    /// From stored to popped, in milliseconds (whole ones: timestamps have no more).
    pub store_to_pop_ms: Option<LatencySummary>,
    /// Refusals of pops by code.
    pub pop_refusals: Vec<RefusedCode>,
    /// Refusals of acknowledgements by code.
    pub ack_refusals: Vec<RefusedCode>,
    /// The generator itself.
    pub generator: GeneratorUsage,
    /// The broker's process and the machine, second by second.
    #[serde(flatten)]
    pub observed: Observed,
    /// Connections that broke or consumers that gave up, and why.
    pub faults: Vec<String>,
}

impl PopReport {
    pub(crate) fn new(
        options: PopOptions,
        setup: Setup,
        end_ns: u64,
        (tally, arrivals): (PopTally, &Arrivals),
        observed: Observed,
    ) -> Self {
        let seconds = ns_to_seconds(end_ns.saturating_sub(seconds_to_ns(options.run.warm_up_seconds)));
        let load_seconds = seconds + options.run.warm_up_seconds;
        let had_enough = options.run.count.is_some_and(|count| tally.acked >= count);
        let ran_out = end_ns < options.run.end_ns() && !had_enough;
        let missing = arrivals.expected().map(|expected| expected.saturating_sub(arrivals.first()));
        let totals = PopTotals {
            messages: tally.messages,
            body_bytes: tally.body_bytes,
            acked: tally.acked,
            seconds,
            messages_per_second: rate(tally.acked, seconds),
            megabytes_per_second: rate(tally.body_bytes, seconds) / MEGABYTE,
            pops_found: tally.pops_found,
            pops_empty: tally.pops_empty,
            pops_refused: tally.pop_refusals.count(),
            pops_unanswered: tally.pops_unanswered,
            acks_refused: tally.ack_refusals.count(),
            acks_unanswered: tally.acks_unanswered,
            without_receipt: tally.without_receipt,
            again: arrivals.again(),
            unknown: arrivals.unknown(),
            expected: arrivals.expected(),
            missing: missing.filter(|_| ran_out),
            corrupt: options.verify.then_some(tally.corrupt),
        };
        Self {
            kind: "pop",
            options,
            totals,
            pop_ms: tally.pop.summary(),
            ack_ms: tally.ack.summary(),
            pop_to_acked_ms: tally.pop_to_acked.summary(),
            store_to_pop_ms: tally.store_to_pop.summary(),
            pop_refusals: tally.pop_refusals.into_codes(),
            ack_refusals: tally.ack_refusals.into_codes(),
            generator: usage(setup.threads, tally.cpu_ns, tally.messages_in_all, load_seconds),
            observed,
            faults: grouped(tally.faults),
            setup,
        }
    }
}
