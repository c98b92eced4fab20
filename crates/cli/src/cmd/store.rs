//! `sluice store`: looks at a data directory without changing anything in it, or brings its documents up to date; see docs/operating.md.

mod export;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use indicatif::HumanCount;
use inspect::{DumpOptions, Dumped, DumpedRecord, DumpedReference, DumpedRouted, Report, Severity};
use serde_json::json;
use settings::{Role, Settings};

use super::report::ReportTo;
use super::settings::Given;
use crate::say::{self, clean};

/// Exit code when it could not be done.
const NOT_DONE: u8 = 3;

/// Arguments of `sluice store`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Verifies every record and entry of a data directory and explains what it finds, read-only.
    ///
    /// Ends with 0 if there is nothing worse than a note, 1 for warnings, 2 for damage, 3 if it could not check.
    Check(Check),
    /// Prints the records of a data directory, one a line.
    Dump(Dump),
    /// Writes RocketMQ's documents (topics, groups, offsets, delay progress) of a stopped broker.
    ///
    /// They are made of the snapshot and the log: a RocketMQ broker that is started next sees every change, also after a kill. Nothing
    /// else is changed. After an orderly stop they are up to date already. Ends with 0, or 3 if it could not write them.
    Export(export::Export),
}

#[derive(clap::Args, Debug)]
struct Check {
    /// Data directory, of Sluice or of a Java broker.
    directory: PathBuf,
    /// Checks it although a broker is at work on it; what moves meanwhile is not judged.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    report_to: ReportTo,
    #[command(flatten)]
    settings: Given,
}

#[derive(clap::Args, Debug)]
struct Dump {
    /// Data directory, of Sluice or of a Java broker.
    directory: PathBuf,
    /// Log offset to begin at; the first record there or after it.
    #[arg(long, default_value_t = 0, value_name = "OFFSET")]
    from: u64,
    /// Ends after this many records.
    #[arg(long)]
    count: Option<u64>,
    /// Only records of this topic.
    #[arg(long)]
    topic: Option<String>,
    /// Only records of this queue.
    #[arg(long)]
    queue: Option<u32>,
    /// Only records with this key or unique id.
    #[arg(long)]
    key: Option<String>,
    /// Prints bodies too.
    #[arg(long)]
    body: bool,
    /// Prints one JSON object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Given,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let outcome = match &arguments.action {
        Action::Check(arguments) => run_check(arguments),
        Action::Dump(arguments) => run_dump(arguments),
        Action::Export(arguments) => export::run(arguments),
    };
    outcome.unwrap_or_else(|problem| {
        say::note(format_args!("sluice: {problem}"));
        ExitCode::from(NOT_DONE)
    })
}

/// Sizes, delay levels and the log's directory may be told in settings, if they are not the usual ones.
fn settings_of(given: &Given, directory: &Path) -> Result<Settings, String> {
    let flags = vec![("storage.directory", directory.display().to_string())];
    let loaded = given.origin(Role::Broker, flags)?.load();
    let mut settings = loaded.map_err(|errors| errors.to_string())?.settings;
    // As it was given: not every path is a text.
    settings.storage.directory = directory.to_owned();
    is_there(directory)?;
    is_there(&settings.log_directory())?;
    Ok(settings)
}

/// Says what a path that cannot be a part of a store is instead.
fn is_there(directory: &Path) -> Result<(), String> {
    let what = match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "is a file, not a directory".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be looked at: {error}"),
    };
    Err(format!(
        "{} {what}; name a broker's data directory, the one with `commitlog` in it (--set storage.log_directory=DIR if the log is elsewhere)",
        directory.display()
    ))
}

fn run_check(arguments: &Check) -> Result<ExitCode, String> {
    let store = server::store_options(&settings_of(&arguments.settings, &arguments.directory)?);
    if let Some(holder) = inspect::holder(&store).filter(|_| !arguments.live) {
        return Err(in_use(&arguments.directory, holder));
    }
    let bar = say::bar("{msg} [{bar:40}] {percent:>3} %  {bytes} of {total_bytes}  {bytes_per_sec}");
    bar.set_message(format!("check {}", arguments.directory.display()));
    let started = Instant::now();
    let checked = inspect::check(&store, arguments.live, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    let seconds = started.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let report = checked.map_err(|error| error.to_string())?;
    arguments.report_to.publish(findings(&report) + &table(&report, seconds), json_of(&report, seconds))?;
    Ok(ExitCode::from(match report.worst() {
        None | Some(Severity::Note) => 0,
        Some(Severity::Warning) => 1,
        Some(Severity::Damage) => 2,
    }))
}

/// A process by its ID, which may be unknown.
fn process(id: u32) -> String {
    if id > 0 { format!("process {id}") } else { "another process".to_owned() }
}

fn in_use(directory: &Path, holder: u32) -> String {
    let holder = process(holder);
    format!(
        "{} is in use by {holder}; stop it for a full check, or give --live to check what does not move",
        directory.display()
    )
}

/// Findings for people: each kind with what it means and what to do, then where.
fn findings(report: &Report) -> String {
    let mut text = String::new();
    let mut kinds: Vec<_> = report.by_kind.iter().collect();
    kinds.sort_by_key(|(kind, _)| std::cmp::Reverse(kind.severity()));
    for (kind, count) in kinds {
        let severity = severity_name(kind.severity());
        let _ = writeln!(text, "{severity}: {} ({})", kind.name(), grouped(*count));
        let _ = writeln!(text, "  {}", kind.meaning());
        let _ = writeln!(text, "  To do: {}", kind.remedy());
        let mut shown = 0;
        for finding in report.findings.iter().filter(|finding| finding.kind == *kind) {
            let position = finding.position.map(|position| format!(" at {position}")).unwrap_or_default();
            let _ = writeln!(text, "    {}{position}: {}", clean(&finding.file), clean(&finding.what));
            shown += 1;
        }
        if *count > shown {
            let _ = writeln!(text, "    and {} more", grouped(count - shown));
        }
        text.push('\n');
    }
    text
}

fn table(report: &Report, seconds: f64) -> String {
    let counts = &report.counts;
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(["store", &report.directory.display().to_string()]);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("segments", grouped(counts.segments));
    row("records", grouped(counts.records));
    row("state records", grouped(counts.state_records));
    row("routed messages", grouped(counts.routed_records));
    row("bytes of the log", grouped(counts.log_bytes));
    row("log offsets", format!("{} to {}", grouped(counts.log_first), grouped(counts.log_end)));
    row("on the disk by the checkpoint", counts.durable.map_or("not told".to_owned(), grouped));
    row("topics / queues", format!("{} / {}", grouped(counts.topics), grouped(counts.queues)));
    row("message queues / lanes", format!("{} / {}", grouped(counts.message_queues), grouped(counts.lanes)));
    row("queue entries", grouped(counts.entries));
    if counts.entries_gone > 0 {
        row("entries of removed segments", grouped(counts.entries_gone));
    }
    row("keys / key files", format!("{} / {}", grouped(counts.keys), grouped(counts.key_files)));
    row("documents", grouped(counts.documents));
    for severity in [Severity::Damage, Severity::Warning, Severity::Note] {
        let count = report.by_severity.get(&severity).copied().unwrap_or_default();
        row(&format!("findings: {}", severity_name(severity)), grouped(count));
    }
    row("seconds", format!("{seconds:.2}"));
    row("GB/s", format!("{:.2}", rate(report, seconds)));
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn json_of(report: &Report, seconds: f64) -> String {
    let rate = rate(report, seconds);
    let mut value = json!(report);
    if let Some(object) = value.as_object_mut() {
        object.insert("seconds".to_owned(), json!(seconds));
        object.insert("gigabytes_per_second".to_owned(), json!(rate));
    }
    value.to_string()
}

/// Gigabytes of the log a second.
fn rate(report: &Report, seconds: f64) -> f64 {
    report.counts.log_bytes as f64 / 1e9 / seconds.max(1e-9)
}

const fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Damage => "damage",
    }
}

fn run_dump(arguments: &Dump) -> Result<ExitCode, String> {
    let store = server::store_options(&settings_of(&arguments.settings, &arguments.directory)?);
    if inspect::holder(&store).is_some() {
        say::note("sluice: a broker is at work on the directory; the end of the log moves");
    }
    let options = DumpOptions {
        from: arguments.from,
        topic: arguments.topic.clone(),
        queue: arguments.queue,
        key: arguments.key.clone(),
    };
    let mut left = arguments.count.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut printed = Ok(());
    inspect::dump(&store, &options, &mut |dumped| {
        let is_record = matches!(dumped, Dumped::Record(_));
        left -= u64::from(is_record);
        let line = if arguments.json { json_line(&dumped, arguments.body) } else { text_line(&dumped, arguments.body) };
        // Whoever reads it may have seen enough.
        printed = writeln!(out, "{line}");
        printed.is_ok() && left > 0
    })
    .map_err(|error| error.to_string())?;
    say::ended(printed.and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}

fn json_line(dumped: &Dumped<'_>, with_body: bool) -> String {
    let mut value = json!(dumped);
    if let (Dumped::Record(record), Some(object), true) = (dumped, value.as_object_mut(), with_body) {
        match std::str::from_utf8(record.body) {
            Ok(text) => object.insert("body".to_owned(), json!(text)),
            Err(_) => object.insert("body_hex".to_owned(), json!(hex(record.body))),
        };
    }
    value.to_string()
}

fn text_line(dumped: &Dumped<'_>, with_body: bool) -> String {
    let record = match dumped {
        Dumped::Record(record) => record,
        Dumped::Broken { log_offset, next, damaged } => {
            return format!("{log_offset:>14}  DAMAGED up to {next}: {}", clean(damaged));
        }
    };
    let DumpedRecord { log_offset, topic, queue, queue_offset, size, body_size, .. } = record;
    let time = inspect::time_text(record.store_time_ms);
    let text = |value: Option<&str>| value.map_or("-".to_owned(), clean);
    let mut line = format!(
        "{log_offset:>14}  {time}  {}  {queue}/{queue_offset}  {size} B  tags {}  keys {}  id {}  body {body_size} B  crc {}",
        clean(topic),
        text(record.tags),
        text(record.keys),
        text(record.unique_id),
        if record.crc_ok { "ok" } else { "WRONG" },
    );
    if !record.state.is_empty() {
        let _ = write!(line, "  state: {}", clean(&record.state.join("; ")));
    }
    if let Some(routed) = record.routed {
        let _ = write!(line, "  {}", clean(&routed_text(routed)));
    }
    if with_body {
        let body = std::str::from_utf8(record.body).map_or_else(|_| hex(record.body), clean);
        let _ = write!(line, "  {body}");
    }
    line
}

/// Lanes of a routed message that are told in a line.
const LANES_TOLD_MAX: usize = 16;

/// What a routed message says beside its body.
fn routed_text(routed: &DumpedRouted) -> String {
    let DumpedRouted { exchange, key, header_size, queues } = routed;
    let mut text = format!("exchange {exchange}  routing key {key}  header {header_size} B  to");
    for DumpedReference { queue, lane, offset, time_to_live_ms } in queues.iter().take(LANES_TOLD_MAX) {
        let _ = write!(text, " {queue}/{lane}/{offset}");
        if let Some(time_to_live_ms) = time_to_live_ms {
            let _ = write!(text, " for {time_to_live_ms} ms");
        }
        text.push(',');
    }
    match queues.len().saturating_sub(LANES_TOLD_MAX) {
        0 => text.truncate(text.len() - 1),
        more => _ = write!(text, " and {more} more"),
    }
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A whole number in groups of three digits.
fn grouped(number: u64) -> String {
    HumanCount(number).to_string().replace(',', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_grouped_and_harmless() {
        assert_eq!((grouped(7), grouped(1000), grouped(12_345_678)), ("7".into(), "1 000".into(), "12 345 678".into()));
        assert_eq!(clean("a\u{1b}[2Jb ü"), "a\\u{1b}[2Jb ü");
        assert_eq!(hex(&[0, 255]), "00ff");
    }

    #[test]
    fn a_record_is_one_line() {
        let record = DumpedRecord {
            log_offset: 77,
            store_time_ms: 0,
            topic: "orders",
            queue: 1,
            queue_offset: 5,
            size: 120,
            tags: Some("TagA"),
            keys: None,
            unique_id: None,
            body_size: 2,
            crc_ok: true,
            state: &[],
            routed: None,
            body: b"a\n",
        };
        let line = text_line(&Dumped::Record(record), true);
        assert_eq!(
            line.trim_start(),
            "77  1970-01-01 00:00:00.000  orders  1/5  120 B  tags TagA  keys -  id -  body 2 B  crc ok  a\\n"
        );
        assert!(json_line(&Dumped::Record(record), true).contains(r#""body":"a\n""#));
        let to = |queue, time_to_live_ms| DumpedReference { queue, lane: 0, offset: 3, time_to_live_ms };
        let mut routed = DumpedRouted {
            exchange: "trades".to_owned(),
            key: "eu".to_owned(),
            header_size: 14,
            queues: vec![to(7, None), to(8, Some(60))],
        };
        let line = text_line(&Dumped::Record(DumpedRecord { routed: Some(&routed), ..record }), false);
        assert!(line.ends_with("  exchange trades  routing key eu  header 14 B  to 7/0/3, 8/0/3 for 60 ms"), "{line}");
        routed.queues = vec![to(1, None); LANES_TOLD_MAX + 5];
        assert!(routed_text(&routed).ends_with(", 1/0/3, and 5 more"), "{}", routed_text(&routed));
    }
}
