//! What one broker did in one round of a step, in the figures every load has, with what it did that it must not.

use std::time::Duration;

use serde::Serialize;

use crate::compare::scenario::step::Side;
use crate::error::BenchError;
use crate::load::latency::LatencySummary;
use crate::load::pop_report::PopReport;
use crate::load::progress::Second;
use crate::load::report::{ConsumeReport, ConsumeTotals, GeneratorUsage, SendReport, VisibleReport};
use crate::load::supervisor::Observed;

/// A rate over fewer seconds says nothing of how it goes on.
const DRIFT_SECONDS_MIN: usize = 6;
/// A rate that changes by more than this from the first to the second half is not that of a steady state.
const DRIFT_PERCENT: f64 = 15.0;
const MILLION: f64 = 1e6;

/// Figures of one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Messages that went well.
    pub messages: u64,
    /// How long that took.
    pub seconds: f64,
    /// Messages a second.
    pub messages_per_second: f64,
    /// Messages a second that were read meanwhile, where `messages_per_second` is of sends.
    pub read_per_second: Option<f64>,
    /// Sends that went well; nothing where nothing was sent.
    pub success_percent: Option<f64>,
    /// Most the machine was late to wake a thread that wanted nothing else: latencies of that length say nothing of the broker.
    pub machine_pause_max_ms: Option<f64>,
    /// What `latency_ms` is the time of.
    pub latency_of: &'static str,
    /// Latencies in milliseconds.
    pub latency_ms: Option<LatencySummary>,
    /// CPU the broker's processes used for a million messages.
    pub broker_cpu_seconds_per_million: Option<f64>,
    /// Most memory the broker's processes ever had resident, pages of files that they have mapped among it.
    pub broker_resident_max_mib: Option<f64>,
    /// Most memory of their own that they had, as seen once a second: no page of a file.
    pub broker_own_max_mib: Option<f64>,
    /// What of their files was in the page cache at the end, mapped or not.
    pub broker_page_cache_mib: Option<f64>,
    /// What they wrote to disks.
    pub broker_written_mib: Option<f64>,
    /// How long slaves took, once the load had ended, for what they lacked; nothing without slaves, and if that was too long.
    pub slaves_behind_seconds: Option<f64>,
    /// How busy the generator's threads were, 100 being all the time.
    pub generator_percent: f64,
    /// How much faster the second half was than the first, in percent; nothing for runs of a few seconds.
    pub drift_percent: Option<f64>,
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
        let went_well = if report.options.one_way { totals.sent } else { totals.ok };
        Self {
            seconds: totals.seconds,
            messages_per_second: totals.messages_per_second,
            success_percent: totals.success_percent,
            latency_of: "round trip",
            problems: problems_of_sends(&report),
            latency_ms: report.round_trip_ms,
            ..Self::used(report.observed, &report.generator, went_well)
        }
        .judged()
    }

    /// Of opening connections: each counts as a message.
    pub(crate) fn of_connect(report: SendReport) -> Self {
        Self { latency_of: "connecting to the first answer", ..Self::of_send(report) }
    }

    /// Whether the rate was still rising or falling, if that can be told.
    pub(crate) fn is_unsteady(&self) -> bool {
        self.drift_percent.is_some_and(|drift| drift.abs() > DRIFT_PERCENT)
    }

    /// Of reading a backlog of `backlog` messages to its end; without a number, of reading a part of one.
    pub(crate) fn of_consume(report: ConsumeReport, backlog: Option<u64>) -> Self {
        let totals = &report.totals;
        let mut problems = report.faults;
        let came = totals.messages;
        match backlog {
            Some(backlog) if came < backlog => {
                problems.push(format!("{} of {backlog} messages were lost", backlog - came));
            }
            Some(backlog) if came > backlog => {
                problems.push(format!("{} messages more came than were sent", came - backlog));
            }
            _ => {}
        }
        problems.extend(wrong_order(&report.totals));
        Self {
            seconds: totals.seconds,
            messages_per_second: totals.messages_per_second,
            problems,
            ..Self::used(report.observed, &report.generator, totals.messages)
        }
        .judged()
    }

    /// Of popping a backlog of `backlog` messages. A pass that its time ended before the backlog did has lost nothing.
    pub(crate) fn of_pop(report: PopReport, backlog: u64) -> Self {
        let totals = &report.totals;
        let mut problems = report.faults;
        let refusals = [("pops", &report.pop_refusals), ("acknowledgements", &report.ack_refusals)];
        for (what, refusal) in refusals.iter().flat_map(|(what, of_kind)| of_kind.iter().map(move |one| (what, one))) {
            let (count, code, name, remark) = (refusal.count, refusal.code, refusal.name, &refusal.remark);
            problems.push(format!("{count} {what} were refused with code {code} ({name}): {remark}"));
        }
        let came = totals.messages.saturating_sub(totals.again);
        for (count, what) in [
            (totals.pops_unanswered, "pops were never answered"),
            (totals.acks_unanswered, "acknowledgements were never answered"),
            (totals.without_receipt, "messages came without a receipt"),
            (totals.again, "messages came a second time"),
        ] {
            problems.extend((count > 0).then(|| format!("{count} {what}")));
        }
        if came < backlog && totals.missing.is_some() {
            problems.push(format!("{} of {backlog} messages were lost", backlog - came));
        }
        if came > backlog {
            problems.push(format!("{} messages more came than were sent", came - backlog));
        }
        Self {
            seconds: totals.seconds,
            messages_per_second: totals.messages_per_second,
            latency_of: "pop to acknowledged",
            latency_ms: report.pop_to_acked_ms,
            problems,
            ..Self::used(report.observed, &report.generator, totals.acked)
        }
        .judged()
    }

    /// The one of the middle rate of several of the same; what went wrong in any of them is told.
    pub(crate) fn middle_of(mut passes: Vec<Self>) -> Self {
        passes.sort_by(|one, other| one.messages_per_second.total_cmp(&other.messages_per_second));
        let problems = passes.iter().flat_map(|pass| pass.problems.clone()).collect();
        let middle = passes.len() / 2;
        Self { problems, ..passes.swap_remove(middle) }
    }

    /// Of sending and reading at once: the rate and the times are those of one side.
    pub(crate) fn of_visible(report: VisibleReport, side: Side) -> Self {
        let totals = &report.consume.totals;
        let (lost, doubled) = (report.lost(), report.doubled());
        let mut problems = problems_of_sends(&report.send);
        problems.extend(report.consume.faults);
        problems.extend(wrong_order(totals));
        if report.unmatched > 0 {
            problems.push(format!("{} messages came so late that nobody waited any more", report.unmatched));
        }
        if lost > 0 {
            problems.push(format!("{lost} of {} messages were lost", report.awaited.unwrap_or_default()));
        }
        if doubled > 0 {
            problems.push(format!("{doubled} messages more came than were sent"));
        }
        let (sender, reader) = (&report.send.generator, &report.consume.generator);
        let busiest = if sender.busy_percent > reader.busy_percent { sender } else { reader };
        let sends = &report.send.totals;
        let success_percent = sends.success_percent;
        let measured = match side {
            Side::Reads => Self {
                seconds: totals.seconds,
                messages_per_second: totals.messages_per_second,
                latency_of: "due to arrival",
                latency_ms: report.due_to_consume_ms,
                ..Self::used(report.consume.observed, busiest, totals.messages)
            },
            Side::Sends => Self {
                seconds: sends.seconds,
                messages_per_second: sends.messages_per_second,
                read_per_second: Some(totals.messages_per_second),
                latency_of: "round trip",
                latency_ms: report.send.round_trip_ms,
                // Second by second only the reads are known.
                drift_percent: None,
                ..Self::used(report.consume.observed, busiest, sends.ok)
            },
        };
        Self { success_percent, problems, ..measured }.judged()
    }

    /// With what became of the slaves: the time they took for the rest, or why they do not have it.
    pub(crate) fn followed(mut self, outcome: Result<Duration, BenchError>) -> Self {
        match outcome {
            Ok(behind) => self.slaves_behind_seconds = Some(behind.as_secs_f64()),
            Err(error) => self.problems.push(error.to_string()),
        }
        self
    }

    /// Its 99th percentile: for ever if nothing was answered at all, nothing where latencies are not measured.
    pub(crate) fn p99_ms(&self) -> Option<f64> {
        let nothing_came = (self.messages == 0).then_some(f64::INFINITY);
        self.latency_ms.as_ref().map(|latency| latency.p99).or(nothing_came)
    }

    /// A round in which nothing went well has a rate of 0, and says so.
    fn judged(mut self) -> Self {
        if self.messages == 0 {
            self.problems.push("no message went well in a round".to_owned());
        }
        self
    }

    fn used(observed: Observed, generator: &GeneratorUsage, messages: u64) -> Self {
        let broker = observed.broker.as_ref();
        Self {
            messages,
            machine_pause_max_ms: observed.machine_pauses_ms.as_ref().map(|pauses| pauses.max),
            broker_cpu_seconds_per_million: broker
                .filter(|_| messages > 0)
                .map(|broker| broker.cpu_seconds * MILLION / messages as f64),
            broker_resident_max_mib: broker.map(|broker| broker.resident_max_mib),
            broker_own_max_mib: broker.map(|broker| broker.own_max_mib),
            broker_page_cache_mib: broker.and_then(|broker| broker.page_cache_mib),
            broker_written_mib: broker.and_then(|broker| broker.written_mib),
            generator_percent: generator.busy_percent,
            drift_percent: drift_percent(&observed.series),
            generator_was_limit: generator.was_limit(),
            series: observed.series,
            ..Self::default()
        }
    }
}

/// How much faster the second half was than the first. The last second may be a part of one.
fn drift_percent(series: &[Second]) -> Option<f64> {
    let rates: Vec<_> = series.iter().filter(|one| !one.warm_up).map(|one| one.messages_per_second).collect();
    let (first, rest) = rates.split_at_checked(rates.len().saturating_sub(1) / 2)?;
    let second = rest.get(..first.len())?;
    let (first, second): (f64, f64) = (first.iter().sum(), second.iter().sum());
    (rates.len() > DRIFT_SECONDS_MIN && first > 0.0).then(|| (second / first - 1.0) * 100.0)
}

/// Whatever was not stored as it should have been, in a run that sends alone as in one that reads meanwhile.
fn problems_of_sends(report: &SendReport) -> Vec<String> {
    let mut problems = report.faults.clone();
    for refusal in &report.refusals {
        let (count, code, name, remark) = (refusal.count, refusal.code, refusal.name, &refusal.remark);
        problems.push(format!("{count} sends were refused with code {code} ({name}): {remark}"));
    }
    if report.totals.unanswered > 0 {
        problems.push(format!("{} sends were never answered", report.totals.unanswered));
    }
    if report.totals.unsent > 0 {
        problems.push(format!("{} sends were due and found no room", report.totals.unsent));
    }
    problems
}

fn wrong_order(totals: &ConsumeTotals) -> Option<String> {
    (totals.out_of_order > 0).then(|| format!("{} messages came out of their queue's order", totals.out_of_order))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(rates: &[f64]) -> Vec<Second> {
        let warm_up = Second { warm_up: true, messages_per_second: 1e9, ..Second::default() };
        let second = |&messages_per_second| Second { messages_per_second, ..Second::default() };
        std::iter::once(warm_up).chain(rates.iter().map(second)).collect()
    }

    #[test]
    fn a_rate_that_falls_away_is_told_and_a_short_run_is_not_judged() {
        // The last second is a part of one.
        assert_eq!(drift_percent(&seconds(&[100.0, 100.0, 100.0, 50.0, 50.0, 50.0, 3.0])), Some(-50.0));
        assert_eq!(drift_percent(&seconds(&[100.0; 8])), Some(0.0));
        assert_eq!(drift_percent(&seconds(&[100.0, 50.0])), None);
    }
}
