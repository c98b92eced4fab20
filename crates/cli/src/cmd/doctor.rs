//! `sluice doctor`: what was found about this machine, for people as a table and for programs as JSON.

use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};
use doctor::{Mark, Report};
use settings::Role;

use super::Outcome;
use super::settings::Sources;
use crate::say;

/// Columns the table takes where nobody says how many there are.
const WIDTH: u16 = 140;

/// Arguments of `sluice doctor`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// What is to run here: everything (serve), or a broker alone, which needs no port for a name server.
    #[arg(long, value_enum, default_value = "serve")]
    role: Process,
    /// Prints everything as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sources: Sources,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    Serve,
    Broker,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let role = match arguments.role {
        Process::Serve => Role::Serve,
        Process::Broker => Role::Broker,
    };
    let loaded = arguments.sources.load(role, Vec::new())?;
    let report = doctor::examine(role, &loaded.settings);
    if arguments.json {
        say::line(serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?)?;
    } else {
        say::line(text(&report))?;
    }
    let failed: Vec<_> = with_mark(&report, Mark::Fail).map(|finding| finding.subject.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("a broker cannot work here: {}", failed.join(", ")))
}

fn with_mark(report: &Report, mark: Mark) -> impl Iterator<Item = &doctor::Finding> {
    report.findings.iter().filter(move |finding| finding.mark == mark)
}

/// The table, then what to do: commands on lines of their own, so that they can be copied.
fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    table.set_header(["", "what", "found", "what matters here"]);
    for finding in &report.findings {
        table.add_row([finding.mark.name(), &finding.subject, &finding.found, &finding.meaning]);
    }
    for (column, most) in [(1, 30), (2, 38)] {
        if let Some(column) = table.column_mut(column) {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(most)));
        }
    }
    let mut text: String = table.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    let wanting: Vec<_> =
        [Mark::Fail, Mark::Warn, Mark::Note].into_iter().flat_map(|mark| with_mark(report, mark)).collect();
    if wanting.iter().any(|finding| finding.remedy.is_some()) {
        text.push_str("\nto do (sysctl lasts until a restart; /etc/sysctl.d/ keeps it):\n");
    }
    for finding in &wanting {
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("  {:4}  {}: {remedy}\n", finding.mark.name(), finding.subject));
        }
    }
    let count = |mark| with_mark(report, mark).count();
    let (ok, notes, warnings, failures) = (count(Mark::Ok), count(Mark::Note), count(Mark::Warn), count(Mark::Fail));
    text + &format!("\n{ok} ok, {notes} to note, {warnings} warnings, {failures} that keep a broker from working")
}
