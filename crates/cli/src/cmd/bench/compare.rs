//! `sluice bench compare`, `field-notes`, `list` and `peers`: scenarios, the brokers they are run against, and the reports.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bench::{
    BrokerNeeds, CompareOptions, Comparison, Flush, Peer, PeerSetup, ProgressSink, Replication, SCENARIOS, Scale,
    Scenario, find_scenario,
};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use indicatif::ProgressBar;

use crate::cmd::Outcome;
use crate::cmd::report::write;
use crate::say;

/// Field notes that scenarios replay.
const NOTES: [&str; 4] = ["N0", "N2", "N3", "N4"];

/// What comparisons share.
#[derive(clap::Args, Debug)]
struct Common {
    #[command(flatten)]
    setup: PeerSetup,
    /// Rounds of each step, taken in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Some seconds a step instead of twenty.
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// So long a step, as in 90s or 10h.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Most time that brokers are given to get faster before a step is measured (16s with --quick, else 40s): shorter, and one that runs in a
    /// virtual machine may not be as fast as it gets; the report says so.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warm_up: Option<Duration>,
    /// Messages of a backlog in the queues that are measured (queue-backlog), instead of the scenario's own number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    backlog: Option<u64>,
    /// Writes a page to look at.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Writes everything as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes a line for each round as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Writes tables for documents.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Arguments of `sluice bench compare`.
#[derive(clap::Args, Debug)]
pub(super) struct Compare {
    /// Scenarios, by name.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Brokers beside Sluice: rocketmq, rocketmq:4.9.7, rabbitmq, or the address of one that runs, as in rocketmq://HOST:PORT.
    #[arg(long, value_delimiter = ',', default_value = "rocketmq", value_name = "NAME")]
    with: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `sluice bench run`.
#[derive(clap::Args, Debug)]
pub(super) struct Run {
    /// Scenarios, by name.
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Where the broker's name server listens, as in rocketmq://HOST:PORT; or an AMQP broker, as in amqp://HOST:PORT.
    #[arg(long, value_name = "ADDRESS")]
    target: String,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `sluice bench field-notes`.
#[derive(clap::Args, Debug)]
pub(super) struct FieldNotes {
    /// Brokers beside Sluice: rocketmq, rocketmq:4.9.7, or rabbitmq.
    #[arg(long, value_delimiter = ',', default_value = "rocketmq", value_name = "NAME")]
    with: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `sluice bench peers`.
#[derive(clap::Args, Debug)]
pub(super) struct Peers {
    #[command(subcommand)]
    action: PeersAction,
}

#[derive(clap::Subcommand, Debug)]
enum PeersAction {
    /// Fetches a broker, starts it on loopback, and stops it at Ctrl-C.
    Up {
        /// sluice, rocketmq, rocketmq:4.9.7, rabbitmq, or kafka.
        peer: String,
        /// Has it answer after its disk has the message.
        #[arg(long)]
        sync_flush: bool,
        /// Broker groups.
        #[arg(long, default_value_t = 1)]
        groups: u32,
        /// Whether masters have slaves, and wait for them.
        #[arg(long, value_enum, default_value_t)]
        replication: Replication,
        #[command(flatten)]
        setup: PeerSetup,
    },
}

pub(super) fn list() -> Outcome {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["scenario", "source", "protocol", "what it does"]);
    for scenario in &SCENARIOS {
        table.add_row([scenario.name, scenario.source, scenario.protocol().title(), scenario.sentence]);
    }
    say::line(format_args!(
        "{table}\nsluice bench compare SCENARIO --with rocketmq takes Sluice and others through one of them in turn;\n\
         sluice bench field-notes --html page.html through all."
    ))
}

pub(super) fn run_compare(compare: &Compare) -> Outcome {
    run(named(&compare.scenarios)?, &beside_sluice(&compare.with), &compare.common)
}

pub(super) fn run_running(running: &Run) -> Outcome {
    // What is no address would be taken for the name of a broker to be started.
    running.target.parse::<bench::Target>().map_err(|error| error.to_string())?;
    run(named(&running.scenarios)?, std::slice::from_ref(&running.target), &running.common)
}

pub(super) fn run_field_notes(notes: &FieldNotes) -> Outcome {
    let (peers, others) = (beside_sluice(&notes.with), peers_of(&notes.with)?);
    let all = || SCENARIOS.iter().filter(|scenario| NOTES.contains(&scenario.source));
    let is_told_beside = |scenario: &&Scenario| others.iter().any(|peer| peer.speaks(scenario.protocol()));
    let scenarios: Vec<_> = all().filter(is_told_beside).collect();
    // Where nobody speaks anything, who does not is told.
    run(if scenarios.is_empty() { all().collect() } else { scenarios }, &peers, &notes.common)
}

fn peers_of(names: &[String]) -> Result<Vec<Peer>, String> {
    names.iter().map(|name| name.parse()).collect::<Result<_, bench::BenchError>>().map_err(|error| error.to_string())
}

fn named(names: &[String]) -> Result<Vec<&'static Scenario>, String> {
    names.iter().map(|name| find_scenario(name).map_err(|error| error.to_string())).collect()
}

/// Sluice comes first: it is what the others are held against.
fn beside_sluice(with: &[String]) -> Vec<String> {
    std::iter::once("sluice".to_owned()).chain(with.iter().cloned()).collect()
}

pub(super) fn run_peers(peers: &Peers) -> Outcome {
    let PeersAction::Up { peer, sync_flush, groups, replication, setup } = &peers.action;
    let peer: Peer = peer.parse().map_err(|error: bench::BenchError| error.to_string())?;
    let flush = if *sync_flush { Flush::Sync } else { Flush::Async };
    let needs = BrokerNeeds { flush, groups: *groups, replication: *replication, ..BrokerNeeds::default() };
    watch_for_ctrl_c()?;
    let mut cluster = peer.start(needs, setup).map_err(|error| error.to_string())?;
    let (address, processes) = (&cluster.address, cluster.broker_pids());
    say::line(format_args!("{peer} ready: {address} (broker processes: {processes:?}); Ctrl-C stops it"))?;
    while !STOP.load(Ordering::Relaxed) {
        if !cluster.is_running() {
            return Err(format!("{peer} ended by itself"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn run(scenarios: Vec<&'static Scenario>, peers: &[String], common: &Common) -> Outcome {
    // Noticed before the run, not after it.
    [&common.html, &common.json, &common.csv, &common.markdown]
        .into_iter()
        .flatten()
        .try_for_each(|path| check_writable(path))?;
    if common.rounds == 0 {
        return Err("--rounds 0 measures nothing; 1 is the least".to_owned());
    }
    let peers = peers_of(peers)?;
    if let Some(cpus) = &common.setup.cpus {
        bench::leave_processors(cpus).map_err(|error| error.to_string())?;
    }
    let scale = match (common.quick, common.duration) {
        (true, _) => Scale::Quick,
        (false, None) => Scale::Full,
        (false, Some(duration)) => Scale::Lasting(u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)),
    };
    let options = CompareOptions {
        scenarios,
        peers,
        scale,
        rounds: common.rounds,
        backlog: common.backlog,
        warm_up_max: common.warm_up,
        setup: common.setup.clone(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
    };
    watch_for_ctrl_c()?;
    let sink = Sink { bar: say::bar("[{bar:30}] {pos}/{len} {elapsed} {msg}") };
    let comparison = bench::compare(&options, &sink);
    sink.bar.finish_and_clear();
    let comparison = comparison.map_err(|error| error.to_string())?;
    // The files are written whatever becomes of the table.
    let printed = say::line(table(&comparison)).and_then(|()| say_remarks(&comparison));
    if let Some(path) = &common.json {
        write(path, &(comparison.json() + "\n"))?;
    }
    if let Some(path) = &common.csv {
        let text = comparison.csv().map_err(|error| format!("no CSV can be made: {error}"))?;
        write(path, &text)?;
    }
    if let Some(path) = &common.markdown {
        write(path, &bench::markdown(&comparison))?;
    }
    if let Some(path) = &common.html {
        let page = bench::page(&comparison).map_err(|error| error.to_string())?;
        write(path, &page)?;
        say::line(format_args!("the page: {}", path.display()))?;
    }
    printed
}

/// As settings have it, a second at least.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = settings::duration(text).filter(|duration| duration.as_secs() > 0);
    duration.ok_or_else(|| "a length of time is written as in 90s, 15m or 10h".to_owned())
}

fn check_writable(path: &Path) -> Outcome {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// What the page has beneath each table.
fn say_remarks(comparison: &Comparison) -> Outcome {
    for scenario in &comparison.scenarios {
        for remark in bench::remarks_of(scenario) {
            say::line(format_args!("{}: {remark}", scenario.name))?;
        }
    }
    Ok(())
}

/// One line a step, for the terminal.
fn table(comparison: &Comparison) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let mut header = vec!["scenario".to_owned(), "step".to_owned()];
    for (at, peer) in comparison.peers.iter().enumerate() {
        header.push(format!("{peer}, messages/s"));
        header.push("p99, p99.9, max ms".to_owned());
        if at > 0 {
            header.push("ratio (min to max)".to_owned());
        }
    }
    table.set_header(header);
    for (scenario, step) in comparison.scenarios.iter().flat_map(|one| one.steps.iter().map(move |step| (one, step))) {
        let mut row = vec![scenario.name.to_owned(), step.label.clone()];
        for (at, peer) in step.peers.iter().enumerate() {
            let typical = peer.typical();
            row.push(typical.map_or("-".to_owned(), |one| format!("{:.0}", one.messages_per_second)));
            let latency = typical.and_then(|one| one.latency_ms.as_ref());
            row.push(latency.map_or(String::new(), |latency| {
                format!("{:.2}, {:.2}, {:.1}", latency.p99, latency.p99_9, latency.max)
            }));
            if at > 0 {
                let slower = |ratio: &bench::Ratio| if ratio.is_below_one() { ", slower" } else { "" };
                row.push(peer.ratio.map(|ratio| format!("{ratio}{}", slower(&ratio))).unwrap_or_default());
            }
        }
        table.add_row(row);
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

static STOP: AtomicBool = AtomicBool::new(false);

/// The first Ctrl-C (or termination) lets the run drain and report; the second ends it.
fn watch_for_ctrl_c() -> Outcome {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        say::note("stopping; once more to give up at once");
    };
    ctrlc::set_handler(handler).map_err(|error| format!("Ctrl-C cannot be watched for: {error}"))
}

/// A bar over all rounds, on stderr.
struct Sink {
    bar: ProgressBar,
}

impl ProgressSink for Sink {
    fn part(&self, what: &str, number: usize, all: usize) {
        self.preparing(&format!("the machine alone, {number} of {all}: {what}"));
    }

    fn preparing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        if self.bar.is_hidden() {
            say::note(what);
        }
    }

    fn round(&self, what: &str, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64 - 1);
        self.bar.set_message(what.to_owned());
        // Where nobody sees a bar, a line tells how far it is.
        if self.bar.is_hidden() {
            say::note(format_args!("[{done}/{all}] {what}"));
        }
    }

    fn stop_requested(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}
