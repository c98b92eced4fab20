//! What the machine was found to do at most, for people and for programs.

use std::path::PathBuf;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};
use serde::Serialize;

use crate::error::BenchError;
use crate::load::latency::{Latency, LatencySummary};
use crate::load::options::{check_seconds, wrong};
use crate::load::report::{MEGABYTE, Report, rate};
use crate::load::table::{WIDTH, grouped, milliseconds};
use crate::machine::Machine;
use crate::machine::clock::ns_to_seconds;

/// A measurement of the machine itself.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize)]
pub struct LimitOptions {
    /// Directory on the disk to be measured; it takes 1 GiB there while it runs.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Seconds for each of the measurements.
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
}

/// One thing the machine was asked to do for a while, as fast as it can.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// What.
    pub name: &'static str,
    /// Bytes at once; where they come from a socket, at most.
    pub block_bytes: usize,
    /// How often.
    pub operations: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// How long.
    pub seconds: f64,
    /// How often a second.
    pub operations_per_second: f64,
    /// Millions of bytes a second.
    pub megabytes_per_second: f64,
    /// The same in the best tenth of a second.
    pub megabytes_per_second_best: f64,
    /// CPU time of the thread that did it.
    pub cpu_seconds: f64,
    /// Each of them, in milliseconds.
    pub operation_ms: Option<LatencySummary>,
}

/// What the machine can do at most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitReport {
    /// `limit`.
    pub kind: &'static str,
    /// What was asked for.
    pub options: LimitOptions,
    /// Where it ran.
    pub machine: Machine,
    /// Results.
    pub measures: Vec<Measure>,
}

impl LimitOptions {
    /// Whether a run can be made of it.
    pub fn check(&self) -> Result<(), BenchError> {
        if self.seconds == 0.0 {
            return Err(wrong("seconds", "in no time nothing can be measured"));
        }
        check_seconds("seconds", Some(self.seconds))
    }
}

impl Measure {
    pub(crate) fn new(
        name: &'static str,
        block_bytes: usize,
        (operations, bytes): (u64, u64),
        (wall_ns, cpu_ns): (u64, u64),
        bytes_per_second_best: f64,
        latency: &Latency,
    ) -> Self {
        let seconds = ns_to_seconds(wall_ns);
        Self {
            name,
            block_bytes,
            operations,
            bytes,
            seconds,
            operations_per_second: rate(operations, seconds),
            megabytes_per_second: rate(bytes, seconds) / MEGABYTE,
            megabytes_per_second_best: bytes_per_second_best.max(rate(bytes, seconds)) / MEGABYTE,
            cpu_seconds: ns_to_seconds(cpu_ns),
            operation_ms: latency.summary(),
        }
    }
}

impl LimitReport {
    pub(crate) fn new(options: LimitOptions, machine: Machine, measures: Vec<Measure>) -> Self {
        Self { kind: "limit", options, machine, measures }
    }
}

impl Report for LimitReport {
    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
        table.set_header(["limit", "MB/s", "best", "a second", "p50", "p99", "max", "CPU"]);
        for measure in &self.measures {
            let at = |value: fn(&LatencySummary) -> f64| {
                measure.operation_ms.as_ref().map_or_else(String::new, |summary| milliseconds(value(summary)))
            };
            let moved = |rate: f64| if measure.bytes > 0 { format!("{rate:.1}") } else { String::new() };
            table.add_row([
                measure.name.to_owned(),
                moved(measure.megabytes_per_second),
                moved(measure.megabytes_per_second_best),
                grouped(measure.operations_per_second),
                at(|summary| summary.p50),
                at(|summary| summary.p99),
                at(|summary| summary.max),
                format!("{:.0} %", measure.cpu_seconds / measure.seconds.max(f64::MIN_POSITIVE) * 100.0),
            ]);
        }
        // Figures of a slow machine are wide, and names are to be found in one piece all the same.
        table.column_iter_mut().take(1).for_each(|column| {
            column.set_constraint(ColumnConstraint::ContentWidth);
        });
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }
}
