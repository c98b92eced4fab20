//! `sluice bench`: flags onto the load generator's options; see docs/bench.md.

use std::path::{Path, PathBuf};

use bench::{
    ConsumeOptions, HeaderForm, LimitOptions, Report, RocketMq, SendOptions, StartFrom, Target, VisibleOptions,
    driver_of, progress_sink,
};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use super::Outcome;
use crate::say;

mod compare;

/// Arguments of `sluice bench`.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(clap::Subcommand, Debug)]
enum Scenario {
    /// Sends messages: a window of sends in flight on each connection.
    Send(Box<Send>),
    /// Pulls messages from every queue of a topic.
    Consume(Box<Consume>),
    /// Sends and pulls at once: how long after the answer to its send a message arrives.
    Visible(Box<Visible>),
    /// Measures this machine without a broker: what no broker on it can exceed.
    Limit(Limit),
    /// Measures the load generator itself, against a broker that only reads and answers.
    Generator {
        /// Seconds for each size of bodies.
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// Lists the scenarios of `compare`.
    List,
    /// Takes Sluice and other brokers through scenarios, in turn.
    Compare(Box<compare::Compare>),
    /// Takes a broker that runs already through scenarios.
    Run(Box<compare::Run>),
    /// Replays every field note that the protocols spoken so far allow.
    FieldNotes(Box<compare::FieldNotes>),
    /// Starts a broker to be compared with, by itself.
    Peers(compare::Peers),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Header {
    Binary,
    Json,
}

impl From<Header> for HeaderForm {
    fn from(header: Header) -> Self {
        match header {
            Header::Binary => Self::Binary,
            Header::Json => Self::Json,
        }
    }
}

/// What every scenario with a broker takes.
#[derive(clap::Args, Debug)]
struct Common {
    /// Name server rocketmq://HOST:PORT, or one broker rocketmq-broker://HOST:PORT.
    #[arg(long, default_value = "rocketmq://127.0.0.1:9876")]
    target: String,
    /// Topic.
    #[arg(long, default_value = "SluiceBench")]
    topic: String,
    /// Topics; more than 1 are named TOPIC-0, TOPIC-1 and so on.
    #[arg(long, default_value_t = 1)]
    topics: u32,
    /// Makes the topic with this many queues on every broker first.
    #[arg(long)]
    queues: Option<u32>,
    /// Connections.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Generator threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Ends after this many messages.
    #[arg(long)]
    count: Option<u64>,
    /// Ends after this many seconds (10 if nothing else ends the run).
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Seconds of load before the measurement begins.
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    warm_up: f64,
    /// Form of the headers.
    #[arg(long, value_enum, default_value = "binary")]
    header: Header,
    /// Process on this machine whose memory and CPU are recorded.
    #[arg(long, value_name = "PID")]
    broker_pid: Option<u32>,
    /// Directory that process keeps its files in: what of them is in the page cache is recorded.
    #[arg(long, value_name = "DIR", requires = "broker_pid")]
    broker_data: Option<PathBuf>,
    /// Writes everything as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Common {
    fn target(&self) -> Result<Target, String> {
        self.target.parse::<Target>().map_err(|error| error.to_string())
    }

    /// The time limit, where neither a count nor the end of the queues is one.
    fn seconds(&self, ends_otherwise: bool) -> Option<f64> {
        self.duration.or_else(|| (self.count.is_none() && !ends_otherwise).then_some(10.0))
    }

    fn reports_to_stdout(&self) -> bool {
        is_stdout(self.json.as_deref())
    }
}

#[derive(clap::Args, Debug)]
struct Send {
    #[command(flatten)]
    common: Common,
    /// Sends in flight on each connection.
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// Bytes of a body; several, as in 256,1024, are sent in turn.
    #[arg(long, default_value = "1024", value_delimiter = ',')]
    size: Vec<usize>,
    /// Messages in one request.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Messages a second in total; 0 is as fast as the windows allow.
    #[arg(long, default_value_t = 0)]
    pace: u64,
    /// Leaves out the id every official client sets.
    #[arg(long)]
    no_unique_key: bool,
    /// Sets a key too.
    #[arg(long)]
    keys: bool,
    /// Sets a tag.
    #[arg(long)]
    tag: Option<String>,
    /// Sets a property; may be given often.
    #[arg(long = "property", value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// Asks for no answers.
    #[arg(long)]
    one_way: bool,
    /// Seconds after which a send without an answer is given up.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    answer_timeout: f64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Start {
    First,
    Committed,
    Latest,
}

impl From<Start> for StartFrom {
    fn from(from: Start) -> Self {
        match from {
            Start::First => Self::First,
            Start::Committed => Self::Committed,
            Start::Latest => Self::Latest,
        }
    }
}

#[derive(clap::Args, Debug)]
struct Consume {
    #[command(flatten)]
    common: Common,
    /// Group.
    #[arg(long, default_value = "sluice_bench_consumer")]
    group: String,
    /// Groups; more than 1 are named GROUP-0, GROUP-1 and so on.
    #[arg(long, default_value_t = 1)]
    groups: u32,
    /// Tags wanted, as in "A || B".
    #[arg(long, default_value = "*")]
    subscription: String,
    /// Messages asked for in one pull.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Pulls in flight on each connection; 0 is one for every queue.
    #[arg(long, default_value_t = 0)]
    pulls: usize,
    /// Ends when every queue is empty.
    #[arg(long)]
    until_empty: bool,
    /// Where to begin.
    #[arg(long, value_enum, default_value = "first")]
    from: Start,
    /// Commits offsets.
    #[arg(long)]
    commit: bool,
    /// Checks every body against its checksum.
    #[arg(long)]
    verify: bool,
    /// Milliseconds the broker may hold a pull that finds nothing.
    #[arg(long, default_value_t = 15_000)]
    suspend_ms: u64,
}

#[derive(clap::Args, Debug)]
struct Visible {
    #[command(flatten)]
    common: Common,
    /// Sends in flight on each connection.
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// Bytes of a body; several, as in 256,1024, are sent in turn.
    #[arg(long, default_value = "1024", value_delimiter = ',')]
    size: Vec<usize>,
    /// Messages a second in total; 0 is as fast as the windows allow, and measures the backlog that makes.
    #[arg(long, default_value_t = 10_000)]
    pace: u64,
    /// Groups; dealt to the topics in turn, so that twice as many groups as topics read every message twice.
    #[arg(long, default_value_t = 1)]
    groups: u32,
    /// Connections of the consumers.
    #[arg(long, default_value_t = 4)]
    pull_connections: usize,
    /// Messages asked for in one pull.
    #[arg(long, default_value_t = 32)]
    batch: usize,
}

#[derive(clap::Args, Debug)]
struct Limit {
    /// Directory on the disk to be measured; it takes 1 GiB there while it runs.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Seconds for each of the measurements.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Writes everything as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.scenario {
        Scenario::Send(send) => run_send(send),
        Scenario::Consume(consume) => run_consume(consume),
        Scenario::Visible(visible) => run_visible(visible),
        Scenario::Limit(limit) => run_limit(limit),
        Scenario::Generator { seconds } => run_generator(*seconds),
        Scenario::List => compare::list(),
        Scenario::Compare(arguments) => compare::run_compare(arguments),
        Scenario::Run(arguments) => compare::run_running(arguments),
        Scenario::FieldNotes(arguments) => compare::run_field_notes(arguments),
        Scenario::Peers(arguments) => compare::run_peers(arguments),
    }
}

fn run_send(send: &Send) -> Outcome {
    let common = &send.common;
    let properties = send
        .properties
        .iter()
        .map(|text| {
            let (name, value) = text.split_once('=').ok_or(format!("--property {text} is not NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect::<Result<_, String>>()?;
    let options = SendOptions {
        target: common.target()?,
        topic: common.topic.clone(),
        topics: common.topics,
        queues: common.queues,
        connections: common.connections,
        window: send.window,
        threads: common.threads,
        message_sizes: send.size.clone(),
        batch: send.batch,
        count: common.count,
        seconds: common.seconds(false),
        warm_up_seconds: common.warm_up,
        pace: send.pace,
        keys: send.keys,
        tag: send.tag.clone(),
        properties,
        one_way: send.one_way,
        answer_timeout_seconds: send.answer_timeout,
        broker_pids: common.broker_pid.into_iter().collect(),
        broker_data: common.broker_data.clone().into_iter().collect(),
    };
    let rocketmq = RocketMq { form: common.header.into(), unique_key: !send.no_unique_key };
    let (driver, sink) = (driver_of(&options.target, rocketmq), progress_sink(common.reports_to_stdout()));
    let report = driver.send(options, &*sink).map_err(|error| error.to_string())?;
    publish(common.json.as_deref(), &report)
}

fn run_consume(consume: &Consume) -> Outcome {
    let common = &consume.common;
    let options = ConsumeOptions {
        target: common.target()?,
        topic: common.topic.clone(),
        topics: common.topics,
        queues: common.queues,
        group: consume.group.clone(),
        groups: consume.groups,
        subscription: consume.subscription.clone(),
        connections: common.connections,
        threads: common.threads,
        batch: consume.batch,
        pulls: consume.pulls,
        count: common.count,
        seconds: common.seconds(consume.until_empty),
        until_empty: consume.until_empty,
        warm_up_seconds: common.warm_up,
        start_from: consume.from.into(),
        commit: consume.commit,
        verify: consume.verify,
        suspend_ms: consume.suspend_ms,
        broker_pids: common.broker_pid.into_iter().collect(),
        broker_data: common.broker_data.clone().into_iter().collect(),
    };
    let rocketmq = RocketMq { form: common.header.into(), ..RocketMq::default() };
    let (driver, sink) = (driver_of(&options.target, rocketmq), progress_sink(common.reports_to_stdout()));
    let report = driver.consume(options, &*sink).map_err(|error| error.to_string())?;
    publish(common.json.as_deref(), &report)
}

fn run_visible(visible: &Visible) -> Outcome {
    let common = &visible.common;
    let (target, seconds) = (common.target()?, common.seconds(false));
    let send = SendOptions {
        target: target.clone(),
        topic: common.topic.clone(),
        topics: common.topics,
        queues: common.queues,
        connections: common.connections,
        window: visible.window,
        message_sizes: visible.size.clone(),
        count: common.count,
        seconds,
        warm_up_seconds: common.warm_up,
        pace: visible.pace,
        broker_pids: common.broker_pid.into_iter().collect(),
        broker_data: common.broker_data.clone().into_iter().collect(),
        ..SendOptions::default()
    };
    let consume = ConsumeOptions {
        target,
        groups: visible.groups,
        connections: visible.pull_connections,
        threads: common.threads,
        batch: visible.batch,
        commit: true,
        broker_pids: common.broker_pid.into_iter().collect(),
        broker_data: common.broker_data.clone().into_iter().collect(),
        ..ConsumeOptions::default()
    };
    let rocketmq = RocketMq { form: common.header.into(), ..RocketMq::default() };
    let (driver, sink) = (driver_of(&send.target, rocketmq), progress_sink(common.reports_to_stdout()));
    let report = driver.visible(VisibleOptions { send, consume }, &*sink).map_err(|error| error.to_string())?;
    publish(common.json.as_deref(), &report)
}

fn run_limit(limit: &Limit) -> Outcome {
    let options = LimitOptions { data: limit.data.clone(), seconds: limit.seconds };
    // Lines of their own on the error stream, whatever becomes of the table: each part takes seconds and shows nothing meanwhile.
    let report = bench::limit(options, &bench::Terminal::default()).map_err(|error| error.to_string())?;
    publish(limit.json.as_deref(), &report)
}

fn run_generator(seconds: f64) -> Outcome {
    let reports = bench::generator(seconds).map_err(|error| error.to_string())?;
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header([
        "body",
        "messages/s",
        "MB/s",
        "CPU ns a message",
        "of one core",
    ]);
    for report in reports {
        let (totals, usage) = (&report.totals, &report.generator);
        table.add_row([
            format!("{} B", report.options.message_size_mean()),
            format!("{:.0}", totals.messages_per_second),
            format!("{:.1}", totals.megabytes_per_second),
            format!("{:.0}", usage.cpu_ns_per_message),
            format!("{:.0} %", usage.busy_percent),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    say::line(table)
}

fn is_stdout(path: Option<&Path>) -> bool {
    path == Some(Path::new("-"))
}

/// A table for people; JSON where it was asked for.
fn publish(json_path: Option<&Path>, report: &impl Report) -> Outcome {
    if is_stdout(json_path) {
        return say::line(report.json());
    }
    // The file is written whatever becomes of the table.
    let printed = say::line(report.table());
    json_path.map_or(Ok(()), |path| report.write_json(path)).map_err(|error| error.to_string())?;
    printed
}
