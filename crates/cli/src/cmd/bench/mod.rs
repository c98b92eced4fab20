//! `sluice bench`: flags onto the load generator's options; see docs/bench.md.

use bench::{
    Amqp, BenchError, ConsumeOptions, DeliverOptions, Driver, HeaderForm, LimitOptions, PopOptions, ProgressSink,
    PublishOptions, QueueOptions, Report, RocketMq, RunOptions, SendOptions, Spoken, Target, VisibleOptions, driver_of,
    progress_sink,
};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use super::Outcome;
use super::report::ReportTo;
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
    /// Consumes messages from every queue of a topic: pulls them, or (AMQP) has them delivered.
    Consume(Box<Consume>),
    /// Pops messages and acknowledges each: a pop in flight for each consumer.
    Pop(Box<Pop>),
    /// Sends and consumes at once: how long after the answer to its send a message arrives.
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

/// What every run with a broker takes beside its options.
#[derive(clap::Args, Debug)]
struct Common {
    /// Form of the headers of RocketMQ's protocol.
    #[arg(long, value_enum, default_value = "binary")]
    header: HeaderForm,
    #[command(flatten)]
    report_to: ReportTo,
}

impl Common {
    /// Runs on the driver of `target`, and tells what came of it.
    fn run<R: Report>(
        &self,
        target: &Target,
        spoken: Spoken,
        run: impl FnOnce(&dyn Driver, &dyn ProgressSink) -> Result<R, BenchError>,
    ) -> Outcome {
        let rocketmq = RocketMq { form: self.header, ..spoken.rocketmq };
        run_and_tell(&self.report_to, target, Spoken { rocketmq, ..spoken }, run)
    }
}

fn run_and_tell<R: Report>(
    report_to: &ReportTo,
    target: &Target,
    spoken: Spoken,
    run: impl FnOnce(&dyn Driver, &dyn ProgressSink) -> Result<R, BenchError>,
) -> Outcome {
    spoken.check(target).map_err(|error| error.to_string())?;
    let driver = driver_of(target, spoken);
    let sink = progress_sink(report_to.is_json_printed());
    let report = run(&*driver, &*sink).map_err(|error| error.to_string())?;
    report_to.publish(report.table(), report.json())
}

#[derive(clap::Args, Debug)]
struct Send {
    #[command(flatten)]
    options: SendOptions,
    /// Leaves out the id every official client of RocketMQ sets.
    #[arg(long)]
    no_unique_key: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    publish: PublishOptions,
    #[command(flatten)]
    queues: QueueOptions,
}

#[derive(clap::Args, Debug)]
struct Consume {
    #[command(flatten)]
    options: ConsumeOptions,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    deliver: DeliverOptions,
    #[command(flatten)]
    queues: QueueOptions,
}

/// Without a form of headers: these requests go in JSON alone.
#[derive(clap::Args, Debug)]
struct Pop {
    #[command(flatten)]
    options: PopOptions,
    #[command(flatten)]
    report_to: ReportTo,
}

#[derive(clap::Args, Debug)]
struct Visible {
    #[command(flatten)]
    run: RunOptions,
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
    /// Asks for no answers; with AMQP alone: for no confirms.
    #[arg(long)]
    one_way: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    publish: PublishOptions,
    #[command(flatten)]
    deliver: DeliverOptions,
    #[command(flatten)]
    queues: QueueOptions,
}

#[derive(clap::Args, Debug)]
struct Limit {
    #[command(flatten)]
    options: LimitOptions,
    #[command(flatten)]
    report_to: ReportTo,
}

pub fn run(arguments: &Arguments) -> Outcome {
    match &arguments.scenario {
        Scenario::Send(send) => run_send(send),
        Scenario::Consume(consume) => run_consume(consume),
        Scenario::Pop(pop) => run_pop(pop),
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
    let Send { options, no_unique_key, common, publish, queues } = send;
    let options = SendOptions { run: options.run.clone().bounded(false), ..options.clone() };
    let rocketmq = RocketMq { unique_key: !no_unique_key, ..RocketMq::default() };
    let amqp = Amqp { publish: publish.clone(), queues: queues.clone(), ..Amqp::default() };
    common.run(&options.run.target.clone(), Spoken { rocketmq, amqp }, |driver, sink| driver.send(options, sink))
}

fn run_consume(consume: &Consume) -> Outcome {
    let Consume { options, common, deliver, queues } = consume;
    let options = ConsumeOptions { run: options.run.clone().bounded(options.until_empty), ..options.clone() };
    let amqp = Amqp { deliver: deliver.clone(), queues: queues.clone(), ..Amqp::default() };
    common.run(&options.run.target.clone(), amqp.into(), |driver, sink| driver.consume(options, sink))
}

fn run_pop(pop: &Pop) -> Outcome {
    let Pop { options, report_to } = pop;
    let options = PopOptions { run: options.run.clone().bounded(options.until_empty), ..options.clone() };
    run_and_tell(report_to, &options.run.target.clone(), Spoken::default(), |driver, sink| driver.pop(options, sink))
}

fn run_visible(visible: &Visible) -> Outcome {
    let run = visible.run.clone().bounded(false);
    let consume = ConsumeOptions {
        run: RunOptions { connections: visible.pull_connections, ..run.clone() },
        groups: visible.groups,
        batch: visible.batch,
        // What is consumed by AMQP is acknowledged.
        commit: !matches!(run.target, Target::Amqp(_)),
        ..ConsumeOptions::default()
    };
    let send = SendOptions {
        run: RunOptions { threads: 1, ..run.clone() },
        window: visible.window,
        message_sizes: visible.size.clone(),
        pace: visible.pace,
        one_way: visible.one_way,
        ..SendOptions::default()
    };
    let options = VisibleOptions { send, consume };
    let Visible { publish, deliver, queues, .. } = visible;
    let amqp = Amqp { publish: publish.clone(), deliver: deliver.clone(), queues: queues.clone() };
    visible.common.run(&run.target, amqp.into(), |driver, sink| driver.visible(options, sink))
}

fn run_limit(limit: &Limit) -> Outcome {
    // Lines of their own on the error stream, whatever becomes of the table: each part takes seconds and shows nothing meanwhile.
    let report = bench::limit(limit.options.clone(), &bench::Terminal::default()).map_err(|error| error.to_string())?;
    limit.report_to.publish(report.table(), report.json())
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
