//! What a run found: for people as a table, for programs as JSON. Both show the same figures.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::load::latency::LatencySummary;
use crate::load::options::{ConsumeOptions, SendOptions};
use crate::load::supervisor::Observed;
use crate::load::tally::{PullTally, RefusedCode, SendTally};
use crate::machine::Machine;
use crate::machine::clock::{ns_to_ms, ns_to_seconds, seconds_to_ns};

/// Bytes in it.
pub const MEGABYTE: f64 = 1e6;
/// A generator whose threads are at work for more than this share of the time may be what limits a rate.
const BUSY_PERCENT: f64 = 90.0;

/// What a run found, in both of its forms.
pub trait Report: Serialize + Sized {
    /// The table for people.
    fn table(&self) -> String;

    /// Everything as JSON.
    fn json(&self) -> String {
        to_json(self)
    }
}

/// What the load generator itself used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GeneratorUsage {
    /// Threads.
    pub threads: usize,
    /// CPU time of these threads, warm-up included.
    pub cpu_seconds: f64,
    /// CPU time for one message.
    pub cpu_ns_per_message: f64,
    /// How busy its threads were, 100 being all the time.
    pub busy_percent: f64,
}

impl GeneratorUsage {
    /// Whether it may have been what limited the rate.
    pub fn was_limit(&self) -> bool {
        self.busy_percent > BUSY_PERCENT
    }
}

/// What became of the messages sent. The warm-up is not in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendTotals {
    /// Handed to the sockets.
    pub sent: u64,
    /// Answered with success.
    pub ok: u64,
    /// Answered otherwise.
    pub refused: u64,
    /// Never answered.
    pub unanswered: u64,
    /// Due by the timetable but never sent.
    pub unsent: u64,
    /// `ok` in percent of `sent`; nothing for one-way sends.
    pub success_percent: Option<f64>,
    /// From the start of the measurement to the last answer.
    pub seconds: f64,
    /// `ok` (one-way: `sent`) a second.
    pub messages_per_second: f64,
    /// Bodies of these in millions of bytes a second.
    pub megabytes_per_second: f64,
    /// Frames that were sent, headers included, in millions of bytes a second.
    pub socket_megabytes_per_second: f64,
    /// Most a send went out behind its timetable, in milliseconds; nothing when unpaced.
    pub lag_max_ms: Option<f64>,
}

/// What a run that sends found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendReport {
    /// `send`.
    pub kind: &'static str,
    /// What was asked for.
    pub options: SendOptions,
    /// What it was made with.
    #[serde(flatten)]
    pub setup: Setup,
    /// Results.
    pub totals: SendTotals,
    /// Round trips in milliseconds: from when a send was due to when its answer was read.
    pub round_trip_ms: Option<LatencySummary>,
    /// Refusals by code.
    pub refusals: Vec<RefusedCode>,
    /// The generator itself.
    pub generator: GeneratorUsage,
    /// The broker's process and the machine, second by second.
    #[serde(flatten)]
    pub observed: Observed,
    /// Connections that broke, and why.
    pub faults: Vec<String>,
}

/// What came of consuming. The warm-up is not in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumeTotals {
    /// Messages received.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// From the start of the measurement to its end, or to the last message where a count or the end of the queues
    /// ended it.
    pub seconds: f64,
    /// Messages a second.
    pub messages_per_second: f64,
    /// Bodies in millions of bytes a second.
    pub megabytes_per_second: f64,
    /// Pulls answered with messages.
    pub pulls_found: u64,
    /// Pulls answered without.
    pub pulls_empty: u64,
    /// Pulls refused.
    pub pulls_refused: u64,
    /// Bodies that do not match their checksum; nothing if that was not asked for.
    pub corrupt: Option<u64>,
    /// Messages whose queue offset was not above that of the message before.
    pub out_of_order: u64,
    /// Times a broker moved a cursor to another offset.
    pub moved: u64,
}

/// What a run that consumes found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumeReport {
    /// `consume`.
    pub kind: &'static str,
    /// What was asked for.
    pub options: ConsumeOptions,
    /// What it was made with.
    #[serde(flatten)]
    pub setup: Setup,
    /// Results.
    pub totals: ConsumeTotals,
    /// From made to read, in milliseconds (whole ones: timestamps have no more).
    pub born_to_consume_ms: Option<LatencySummary>,
    /// From stored to read, in milliseconds (whole ones).
    pub store_to_consume_ms: Option<LatencySummary>,
    /// Refusals by code.
    pub refusals: Vec<RefusedCode>,
    /// The generator itself.
    pub generator: GeneratorUsage,
    /// The broker's process and the machine, second by second.
    #[serde(flatten)]
    pub observed: Observed,
    /// Connections that broke or queues that were given up, and why.
    pub faults: Vec<String>,
}

/// What a run that sends and pulls at once found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VisibleReport {
    /// `visible`.
    pub kind: &'static str,
    /// From the answer to a send to the arrival of its message, in milliseconds.
    pub answer_to_consume_ms: Option<LatencySummary>,
    /// From when a send was due to the arrival of its message, in milliseconds.
    pub due_to_consume_ms: Option<LatencySummary>,
    /// Messages that arrived before the answer to their send, in percent.
    pub before_answer_percent: f64,
    /// Messages that came so late that the times of their sends were no longer known.
    pub unmatched: u64,
    /// Messages that were stored, once for every group that reads them; nothing where some queues have more readers than others.
    pub awaited: Option<u64>,
    /// The sends.
    pub send: SendReport,
    /// The pulls.
    pub consume: ConsumeReport,
}

/// What a run was made with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// How its protocol was spoken.
    pub protocol: Value,
    /// Where it ran.
    pub machine: Machine,
    /// Brokers and queues of the topic.
    pub brokers: Vec<String>,
    /// Generator threads.
    #[serde(skip)]
    pub threads: usize,
}

impl SendReport {
    pub(crate) fn new(options: SendOptions, setup: Setup, tally: SendTally, observed: Observed) -> Self {
        let seconds = ns_to_seconds(tally.last_ns.saturating_sub(seconds_to_ns(options.run.warm_up_seconds)));
        let load_seconds = seconds + options.run.warm_up_seconds;
        let counted = if options.one_way { tally.sent } else { tally.ok };
        let messages_per_second = rate(counted, seconds);
        let success = (!options.one_way && tally.sent > 0).then(|| tally.ok as f64 * 100.0 / tally.sent as f64);
        let totals = SendTotals {
            sent: tally.sent,
            ok: tally.ok,
            refused: tally.refusals.count(),
            unanswered: tally.unanswered,
            unsent: tally.unsent,
            success_percent: success,
            seconds,
            messages_per_second,
            megabytes_per_second: messages_per_second * options.message_size_mean() / MEGABYTE,
            socket_megabytes_per_second: rate(tally.sent_bytes, seconds) / MEGABYTE,
            lag_max_ms: (options.pace > 0).then(|| ns_to_ms(tally.lag_max_ns)),
        };
        Self {
            kind: "send",
            options,
            totals,
            round_trip_ms: tally.latency.summary(),
            refusals: tally.refusals.into_codes(),
            generator: usage(setup.threads, tally.cpu_ns, tally.sent_in_all, load_seconds),
            observed,
            faults: grouped(tally.faults),
            setup,
        }
    }
}

impl ConsumeReport {
    pub(crate) fn new(
        options: ConsumeOptions,
        setup: Setup,
        end_ns: u64,
        tally: PullTally,
        observed: Observed,
    ) -> Self {
        let seconds = ns_to_seconds(end_ns.saturating_sub(seconds_to_ns(options.run.warm_up_seconds)));
        let load_seconds = seconds + options.run.warm_up_seconds;
        let totals = ConsumeTotals {
            messages: tally.messages,
            body_bytes: tally.body_bytes,
            seconds,
            messages_per_second: rate(tally.messages, seconds),
            megabytes_per_second: rate(tally.body_bytes, seconds) / MEGABYTE,
            pulls_found: tally.pulls_found,
            pulls_empty: tally.pulls_empty,
            pulls_refused: tally.refusals.count(),
            corrupt: options.verify.then_some(tally.corrupt),
            out_of_order: tally.out_of_order,
            moved: tally.moved,
        };
        Self {
            kind: "consume",
            options,
            totals,
            born_to_consume_ms: tally.born_to_consume.summary(),
            store_to_consume_ms: tally.store_to_consume.summary(),
            refusals: tally.refusals.into_codes(),
            generator: usage(setup.threads, tally.cpu_ns, tally.messages_in_all, load_seconds),
            observed,
            faults: grouped(tally.faults),
            setup,
        }
    }
}

impl VisibleReport {
    /// Of sends, and of the pulls beside them that were to bring `awaited` messages.
    pub(crate) fn new(
        send: SendReport,
        awaited: Option<u64>,
        options: ConsumeOptions,
        setup: Setup,
        tally: PullTally,
        observed: Observed,
    ) -> Self {
        let end_ns = tally.last_ns;
        Self {
            kind: "visible",
            answer_to_consume_ms: tally.answer_to_consume.summary(),
            due_to_consume_ms: tally.due_to_consume.summary(),
            before_answer_percent: tally.before_answer as f64 * 100.0 / tally.messages.max(1) as f64,
            unmatched: tally.unmatched,
            awaited,
            send,
            consume: ConsumeReport::new(options, setup, end_ns, tally, observed),
        }
    }

    /// Messages that had not arrived long after the last send, as far as that can be told.
    pub fn lost(&self) -> u64 {
        let is_known = self.unmatched == 0;
        self.awaited.filter(|_| is_known).map_or(0, |awaited| awaited.saturating_sub(self.consume.totals.messages))
    }

    /// Messages that arrived more often than once for each group, as far as that can be told: a send without an answer may have
    /// been stored.
    pub fn doubled(&self) -> u64 {
        let is_known = self.unmatched == 0 && self.send.totals.unanswered == 0 && self.send.refusals.is_empty();
        self.awaited.filter(|_| is_known).map_or(0, |awaited| self.consume.totals.messages.saturating_sub(awaited))
    }
}

/// So many a second.
pub fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Equal faults once, with their number.
pub(crate) fn grouped(faults: Vec<String>) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for fault in faults {
        *counts.entry(fault).or_default() += 1;
    }
    let text = |(fault, count)| if count == 1 { fault } else { format!("{count} times {fault}") };
    counts.into_iter().map(text).collect()
}

pub(crate) fn usage(threads: usize, cpu_ns: u64, messages: u64, seconds: f64) -> GeneratorUsage {
    let cpu_ns_per_message = if messages > 0 { cpu_ns as f64 / messages as f64 } else { 0.0 };
    let (cpu_seconds, available) = (ns_to_seconds(cpu_ns), seconds * threads.max(1) as f64);
    let busy_percent = if available > 0.0 { cpu_seconds / available * 100.0 } else { 0.0 };
    GeneratorUsage { threads, cpu_seconds, cpu_ns_per_message, busy_percent }
}

pub fn to_json(report: &impl Serialize) -> String {
    // Reports hold nothing that JSON cannot: no maps with odd keys, and not-a-number becomes null.
    serde_json::to_string_pretty(report).unwrap_or_default()
}
