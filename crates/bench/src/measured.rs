//! What one broker did in one round of a step, in the figures every load has, with what it did that it must not.

use serde::Serialize;

use crate::latency::LatencySummary;
use crate::process::BrokerUsage;
use crate::progress::Second;
use crate::report::{ConsumeReport, GeneratorUsage, SendReport};
use crate::run_visible::VisibleReport;

/// A generator thread that is at work for more than this share of the time may be what limited the rate.
const BUSY_PERCENT: f64 = 90.0;
const MILLION: f64 = 1e6;

/// Figures of one round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Messages that went well.
    pub messages: u64,
    /// How long that took.
    pub seconds: f64,
    /// Messages a second.
    pub messages_per_second: f64,
    /// Sends that went well; nothing where nothing was sent.
    pub success_percent: Option<f64>,
    /// What `latency_ms` is the time of.
    pub latency_of: &'static str,
    /// Latencies in milliseconds.
    pub latency_ms: Option<LatencySummary>,
    /// CPU the broker's processes used for a million messages.
    pub broker_cpu_seconds_per_million: Option<f64>,
    /// Most memory the broker's processes ever had resident.
    pub broker_resident_max_mib: Option<f64>,
    /// What they wrote to disks.
    pub broker_written_mib: Option<f64>,
    /// How busy the generator's threads were, 100 being all the time.
    pub generator_percent: f64,
    /// Whether the generator may have been what limited the rate.
    pub generator_was_limit: bool,
    /// What the broker did that no broker may do, and what went wrong otherwise.
    pub problems: Vec<String>,
    /// Second by second.
    pub series: Vec<Second>,
}

impl Measured {
    /// Of sends.
    pub(crate) fn of_send(report: SendReport) -> Self {
        let totals = &report.totals;
        let mut problems = report.faults;
        for refusal in &report.refusals {
            let (count, code, name, remark) = (refusal.count, refusal.code, refusal.name, &refusal.remark);
            problems.push(format!("{count} sends were refused with code {code} ({name}): {remark}"));
        }
        if totals.unanswered > 0 {
            problems.push(format!("{} sends were never answered", totals.unanswered));
        }
        if totals.unsent > 0 {
            problems.push(format!("{} sends were due and found no room", totals.unsent));
        }
        let load_seconds = totals.seconds + report.options.warm_up_seconds;
        Self {
            messages: totals.ok,
            seconds: totals.seconds,
            messages_per_second: totals.messages_per_second,
            success_percent: totals.success_percent,
            latency_of: "round trip",
            latency_ms: report.round_trip_ms,
            problems,
            series: report.series,
            ..Self::used(report.broker.as_ref(), &report.generator, load_seconds, totals.ok)
        }
    }

    /// Of reading a backlog of `backlog` messages.
    pub(crate) fn of_consume(report: ConsumeReport, backlog: u64) -> Self {
        let totals = &report.totals;
        let mut problems = report.faults;
        if totals.messages < backlog {
            problems.push(format!("{} of {backlog} messages were lost", backlog - totals.messages));
        }
        if totals.messages > backlog {
            problems.push(format!("{} messages more came than were sent", totals.messages - backlog));
        }
        problems.extend(wrong_order(&report.totals));
        Self {
            messages: totals.messages,
            seconds: totals.seconds,
            messages_per_second: totals.messages_per_second,
            success_percent: None,
            latency_of: "",
            latency_ms: None,
            problems,
            series: report.series,
            ..Self::used(report.broker.as_ref(), &report.generator, totals.seconds, totals.messages)
        }
    }

    /// Of sending and reading at once: the rate is that of the reads.
    pub(crate) fn of_visible(report: VisibleReport) -> Self {
        let totals = &report.consume.totals;
        let mut problems = report.send.faults;
        problems.extend(report.consume.faults);
        problems.extend(wrong_order(totals));
        if report.unmatched > 0 {
            problems.push(format!("{} messages came so late that nobody waited any more", report.unmatched));
        }
        if report.send.totals.unanswered > 0 {
            problems.push(format!("{} sends were never answered", report.send.totals.unanswered));
        }
        let load_seconds = totals.seconds + report.send.options.warm_up_seconds;
        let busiest = [&report.send.generator, &report.consume.generator]
            .into_iter()
            .max_by(|one, other| busy_percent(one, load_seconds).total_cmp(&busy_percent(other, load_seconds)));
        let generator = busiest.unwrap_or(&report.send.generator);
        Self {
            messages: totals.messages,
            seconds: totals.seconds,
            messages_per_second: totals.messages_per_second,
            success_percent: report.send.totals.success_percent,
            latency_of: "due to arrival",
            latency_ms: report.due_to_consume_ms,
            problems,
            series: report.consume.series,
            ..Self::used(report.consume.broker.as_ref(), generator, load_seconds, totals.messages)
        }
    }

    fn used(broker: Option<&BrokerUsage>, generator: &GeneratorUsage, seconds: f64, messages: u64) -> Self {
        let generator_percent = busy_percent(generator, seconds);
        Self {
            messages,
            seconds,
            messages_per_second: 0.0,
            success_percent: None,
            latency_of: "",
            latency_ms: None,
            broker_cpu_seconds_per_million: broker
                .filter(|_| messages > 0)
                .map(|broker| broker.cpu_seconds * MILLION / messages as f64),
            broker_resident_max_mib: broker.map(|broker| broker.resident_max_mib),
            broker_written_mib: broker.and_then(|broker| broker.written_mib),
            generator_percent,
            generator_was_limit: generator_percent > BUSY_PERCENT,
            problems: Vec::new(),
            series: Vec::new(),
        }
    }
}

fn busy_percent(generator: &GeneratorUsage, seconds: f64) -> f64 {
    let available = seconds * generator.threads.max(1) as f64;
    if available > 0.0 { generator.cpu_seconds / available * 100.0 } else { 0.0 }
}

fn wrong_order(totals: &crate::report::ConsumeTotals) -> Option<String> {
    (totals.out_of_order > 0).then(|| format!("{} messages came out of their queue's order", totals.out_of_order))
}
