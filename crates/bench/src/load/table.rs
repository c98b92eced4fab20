//! The tables at the end of a run.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use indicatif::HumanCount;

use crate::load::latency::LatencySummary;
use crate::load::pop_report::PopReport;
use crate::load::report::{ConsumeReport, GeneratorUsage, Report, SendReport, VisibleReport};
use crate::load::supervisor::Observed;
use crate::load::tally::RefusedCode;

/// Columns a table takes at most: remarks and faults are wrapped.
pub const WIDTH: u16 = 100;

impl Report for SendReport {
    fn table(&self) -> String {
        send(self)
    }
}

impl Report for ConsumeReport {
    fn table(&self) -> String {
        consume(self)
    }
}

impl Report for PopReport {
    fn table(&self) -> String {
        pop(self)
    }
}

impl Report for VisibleReport {
    fn table(&self) -> String {
        visible(self)
    }
}

/// The table of a run that sent.
fn send(report: &SendReport) -> String {
    let totals = &report.totals;
    let mut table = begin(&format!("send {}", report.options.run.topic), &report.setup.brokers);
    row(&mut table, "messages/s", grouped(totals.messages_per_second));
    row(&mut table, "MB/s", format!("{:.1}", totals.megabytes_per_second));
    row(&mut table, "MB/s on the sockets", format!("{:.1}", totals.socket_megabytes_per_second));
    row(&mut table, "seconds", format!("{:.3}", totals.seconds));
    row(&mut table, "sent", grouped(totals.sent as f64));
    match totals.success_percent {
        Some(percent) => {
            row(&mut table, "ok", grouped(totals.ok as f64));
            row(&mut table, "success", success(percent, totals.ok == totals.sent));
        }
        None => row(&mut table, "success", "one-way: nobody answers".to_owned()),
    }
    refused(&mut table, &report.refusals);
    unless_zero(&mut table, "unanswered", totals.unanswered);
    unless_zero(&mut table, "due but never sent", totals.unsent);
    if let Some(lag) = totals.lag_max_ms {
        row(&mut table, "behind the timetable, max", milliseconds(lag));
    }
    latency(&mut table, "RT", report.round_trip_ms.as_ref());
    end(table, &report.generator, &report.observed, &report.faults)
}

/// The table of a run that consumed.
fn consume(report: &ConsumeReport) -> String {
    let totals = &report.totals;
    let mut table = begin(&format!("consume {}", report.options.run.topic), &report.setup.brokers);
    row(&mut table, "messages/s", grouped(totals.messages_per_second));
    row(&mut table, "MB/s", format!("{:.1}", totals.megabytes_per_second));
    row(&mut table, "seconds", format!("{:.3}", totals.seconds));
    row(&mut table, "messages", grouped(totals.messages as f64));
    let pulls = totals.pulls_found;
    if pulls + totals.pulls_empty > 0 {
        row(&mut table, "pulls with / without messages", format!("{} / {}", grouped(pulls as f64), totals.pulls_empty));
    }
    if pulls > 0 {
        row(&mut table, "messages in a pull", format!("{:.1}", totals.messages as f64 / pulls as f64));
    }
    refused(&mut table, &report.refusals);
    if let Some(corrupt) = totals.corrupt {
        row(&mut table, "corrupt bodies", corrupt.to_string());
    }
    unless_zero(&mut table, "out of order", totals.out_of_order);
    unless_zero(&mut table, "cursors moved by a broker", totals.moved);
    latency(&mut table, "store to consume", report.store_to_consume_ms.as_ref());
    latency(&mut table, "born to consume", report.born_to_consume_ms.as_ref());
    end(table, &report.generator, &report.observed, &report.faults)
}

/// The table of a run that popped.
fn pop(report: &PopReport) -> String {
    let totals = &report.totals;
    let mut table = begin(&format!("pop {}", report.options.run.topic), &report.setup.brokers);
    row(&mut table, "messages/s, popped and acknowledged", grouped(totals.messages_per_second));
    row(&mut table, "MB/s", format!("{:.1}", totals.megabytes_per_second));
    row(&mut table, "seconds", format!("{:.3}", totals.seconds));
    row(&mut table, "popped", grouped(totals.messages as f64));
    row(&mut table, "acknowledged", grouped(totals.acked as f64));
    let pops = totals.pops_found;
    row(&mut table, "pops with / without messages", format!("{} / {}", grouped(pops as f64), totals.pops_empty));
    if pops > 0 {
        row(&mut table, "messages in a pop", format!("{:.1}", totals.messages as f64 / pops as f64));
    }
    row(&mut table, "came a second time", grouped(totals.again as f64));
    if let (Some(expected), Some(missing)) = (totals.expected, totals.missing) {
        row(&mut table, "missing", format!("{} of {}", grouped(missing as f64), grouped(expected as f64)));
    }
    if let Some(corrupt) = totals.corrupt {
        row(&mut table, "corrupt bodies", corrupt.to_string());
    }
    for (kind, refusals) in [("pops", &report.pop_refusals), ("acknowledgements", &report.ack_refusals)] {
        refused_of(&mut table, &format!("{kind} refused"), refusals);
    }
    unless_zero(&mut table, "pops unanswered", totals.pops_unanswered);
    unless_zero(&mut table, "acknowledgements unanswered", totals.acks_unanswered);
    unless_zero(&mut table, "came without a receipt", totals.without_receipt);
    unless_zero(&mut table, "not known whether they came before", totals.unknown);
    latency(&mut table, "pop", report.pop_ms.as_ref());
    latency(&mut table, "acknowledgement", report.ack_ms.as_ref());
    latency(&mut table, "pop to acknowledged", report.pop_to_acked_ms.as_ref());
    latency(&mut table, "store to pop", report.store_to_pop_ms.as_ref());
    end(table, &report.generator, &report.observed, &report.faults)
}

/// The tables of a run that sent and consumed at once.
fn visible(report: &VisibleReport) -> String {
    let mut table = begin("visible", &report.consume.setup.brokers);
    if report.answer_to_consume_ms.is_some() {
        row(&mut table, "arrived before the answer", format!("{:.1} %", report.before_answer_percent));
    }
    unless_zero(&mut table, "arrived too late to be matched", report.unmatched);
    unless_zero(&mut table, "never arrived", report.lost());
    latency(&mut table, "answer to arrival", report.answer_to_consume_ms.as_ref());
    latency(&mut table, "send to arrival", report.due_to_consume_ms.as_ref());
    if let Some(note) = backlog_of_its_own(report) {
        row(&mut table, "note", note.to_owned());
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    [send(&report.send), consume(&report.consume), table.to_string()].join("\n")
}

/// Why the times of a run may be those of a backlog that it made itself.
fn backlog_of_its_own(report: &VisibleReport) -> Option<&'static str> {
    match (report.send.options.pace, report.send.totals.unsent) {
        (0, _) => Some("unpaced: sends and messages wait in a backlog that the run makes itself; --pace N has none"),
        (_, 0) => None,
        _ => Some("the pace was not kept, and the times are those of a backlog: try a lower --pace"),
    }
}

fn begin(title: &str, brokers: &[String]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header([title, &brokers.join("\n")]);
    table
}

fn end(mut table: Table, generator: &GeneratorUsage, observed: &Observed, faults: &[String]) -> String {
    let GeneratorUsage { cpu_seconds, cpu_ns_per_message, busy_percent, .. } = generator;
    row(&mut table, "generator CPU", format!("{cpu_seconds:.2} s ({cpu_ns_per_message:.0} ns a message)"));
    let limit = if generator.was_limit() { ": it may have been the limit, try more --threads" } else { "" };
    row(&mut table, "generator threads busy", format!("{busy_percent:.0} %{limit}"));
    if let Some(pauses) = &observed.machine_pauses_ms {
        let text = format!("{}, max {}", milliseconds(pauses.p99_9), milliseconds(pauses.max));
        row(&mut table, "machine paused, p99.9", text);
    }
    if let Some(broker) = &observed.broker {
        row(&mut table, "broker CPU", format!("{:.2} s", broker.cpu_seconds));
        row(&mut table, "broker memory of its own", format!("{} MiB", grouped(broker.own_max_mib)));
        if let Some(cached) = broker.page_cache_mib {
            row(&mut table, "its files in the page cache", format!("{} MiB", grouped(cached)));
        }
        let resident = format!("{} MiB (max {})", grouped(broker.resident_mib), grouped(broker.resident_max_mib));
        row(&mut table, "broker resident, mapped files too", resident);
        if let Some(written) = broker.written_mib {
            row(&mut table, "broker wrote to disk", format!("{} MiB", grouped(written)));
        }
    }
    for fault in faults {
        row(&mut table, "fault", fault.clone());
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn row(table: &mut Table, name: &str, value: String) {
    table.add_row([name.to_owned(), value]);
}

fn unless_zero(table: &mut Table, name: &str, count: u64) {
    if count > 0 {
        row(table, name, grouped(count as f64));
    }
}

fn refused(table: &mut Table, refusals: &[RefusedCode]) {
    refused_of(table, "refused", refusals);
}

fn refused_of(table: &mut Table, what: &str, refusals: &[RefusedCode]) {
    for refusal in refusals {
        let name = format!("{what}: {} {}", refusal.code, refusal.name);
        row(table, &name, format!("{}\n{}", grouped(refusal.count as f64), refusal.remark).trim_end().to_owned());
    }
}

fn latency(table: &mut Table, name: &str, summary: Option<&LatencySummary>) {
    let Some(summary) = summary else { return };
    for (part, value) in [
        ("min", summary.min),
        ("mean", summary.mean),
        ("p50", summary.p50),
        ("p90", summary.p90),
        ("p99", summary.p99),
        ("p99.9", summary.p99_9),
        ("max", summary.max),
    ] {
        row(table, &format!("{name} {part}"), milliseconds(value));
    }
}

/// A time with its unit.
pub fn milliseconds(value: f64) -> String {
    format!("{value:.3} ms")
}

/// Percent with four digits; never 100 while one message is missing.
fn success(percent: f64, all: bool) -> String {
    if all { "100 %".to_owned() } else { format!("{:.4} %", percent.min(99.9999)) }
}

/// A whole number in groups of three digits.
pub fn grouped(number: f64) -> String {
    HumanCount(number.round_ties_even() as u64).to_string().replace(',', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_success_is_not_rounded_up() {
        assert_eq!(grouped(0.4), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_234_567.0), "1 234 567");
        assert_eq!(success(100.0, true), "100 %");
        assert_eq!(success(99.999_999, false), "99.9999 %");
        assert_eq!(success(96.6024, false), "96.6024 %");
    }
}
