//! `sluice produce`: messages of lines, files or JSON to a topic, a queue or an exchange.

mod input;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use client::amqp::publisher::{PublishTo, Publisher};
use client::message::{Message, NotStored, Store};
use client::rocketmq::producer::{ProduceOptions, Producer};
use client::rocketmq::topic::{Directory, QueueName};
use client::{ClientError, Target};
use serde_json::Value;

use super::traffic::{Failure, ended, exit_codes, grouped, is_stopped, refuse, watch_for_stop};
use crate::say;
use input::{Defaults, Form, Input, Pass};

/// Copies of messages that go out together, and their bytes.
const COPIES_MAX: usize = 10_000;
const COPIES_SIZE_MAX: usize = 4 << 20;
/// How often is looked whether to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The times of delay levels, as brokers have them unless told otherwise.
const DELAYS: [&str; 18] =
    ["1s", "5s", "10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h"];

/// Arguments of `sluice produce`.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!("Examples:\n  \
    sluice produce orders --create < lines            a line is a message; makes the topic if need be\n  \
    sluice produce orders --body 'one message' --key 4711 --tag paid\n  \
    sluice produce orders --file a.json --file b.json --whole      a file is a message\n  \
    sluice produce orders --delay 10s --header source=shop < lines\n  \
    sluice consume orders --json | sluice produce copies --json    with keys, tags and headers\n  \
    sluice produce work --target amqp://127.0.0.1 < lines          to a queue\n  \
    sluice produce --exchange events --routing-key order.paid --target amqp://me:secret@mq < lines\n\n\
    A line of --json is an object with body (text, or any JSON), or body_base64, and if wanted key,\n\
    tag, routing_key and headers.\n\n", exit_codes!()))]
pub struct Arguments {
    /// Topic, or queue of AMQP.
    #[arg(value_name = "DESTINATION", required_unless_present = "exchange", conflicts_with = "exchange")]
    destination: Option<String>,
    /// Where the broker is: rocketmq://HOST:PORT (a name server), rocketmq-broker://HOST:PORT or
    /// amqp://USER:PASSWORD@HOST:PORT/VHOST; with TLS rocketmqs, rocketmqs-broker and amqps.
    #[arg(long, value_name = "URL", default_value_t = Target::default().to_string(), env = "SLUICE_TARGET", hide_env_values = true)]
    target: String,
    /// Reads this instead of standard input; may be given often.
    #[arg(short, long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sends this and reads nothing.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["files", "json"])]
    body: Option<String>,
    /// Takes a whole file, or all of standard input, as one message.
    #[arg(long, conflicts_with = "json")]
    whole: bool,
    /// Takes each line as JSON.
    #[arg(long)]
    json: bool,
    /// Header of every message; may be given often.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Sends each message so often.
    #[arg(long, value_name = "COUNT", visible_alias = "count", default_value_t = 1, hide_default_value = true)]
    repeat: u32,
    /// Says nothing of what went well.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    rocketmq: RocketMq,
    #[command(flatten)]
    amqp: Amqp,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "RocketMQ")]
struct RocketMq {
    /// Key by which messages are found; several have spaces between them.
    #[arg(long)]
    key: Option<String>,
    /// Tag by which consumers filter.
    #[arg(long)]
    tag: Option<String>,
    /// Holds messages back for as long as a delay level says: 1s 5s 10s 30s, 1m to 10m, 20m, 30m, 1h or 2h; or
    /// level:NUMBER.
    #[arg(long, value_name = "TIME", value_parser = delay_level)]
    delay: Option<u32>,
    /// Sends all to this queue, in order, instead of to each in turn: its number, or BROKER:NUMBER.
    #[arg(long)]
    queue: Option<QueueName>,
    /// Lets the first message make the topic, where the broker allows it.
    #[arg(long)]
    create: bool,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "AMQP")]
struct Amqp {
    /// Exchange that messages go to, instead of to a queue.
    #[arg(long, value_name = "NAME")]
    exchange: Option<String>,
    /// Key that they are routed by; a line of JSON may have its own.
    #[arg(long, value_name = "KEY", requires = "exchange")]
    routing_key: Option<String>,
    /// Sends messages that need not outlive a restart.
    #[arg(long)]
    transient: bool,
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it needs a name and a value, with = between them")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The level with that number, or that time.
fn delay_level(text: &str) -> Result<u32, String> {
    let level = DELAYS.iter().position(|time| *time == text).map(|index| index + 1);
    let number = text.strip_prefix("level:").and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    level.and_then(|level| u32::try_from(level).ok()).or(number).ok_or_else(|| {
        format!(
            "brokers hold messages back for levels alone: {}, or level:NUMBER where they have others",
            DELAYS.join(" ")
        )
    })
}

/// What was done.
#[derive(Debug, Default)]
struct Done {
    messages: u64,
    bytes: u64,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let mut done = Done::default();
    let result = produce(arguments, &mut done);
    if !arguments.quiet && (done.messages > 0 || result.is_ok()) {
        say::note(done.told(begun.elapsed()));
    }
    ended(result)
}

fn produce(arguments: &Arguments, done: &mut Done) -> Result<(), Failure> {
    let mut store = open(arguments)?;
    watch_for_stop()?;
    let RocketMq { key, tag, .. } = &arguments.rocketmq;
    let headers = arguments.headers.iter().map(|(name, value)| (name.clone(), Value::String(value.clone())));
    let defaults = Defaults { key: key.clone(), tag: tag.clone(), headers: headers.collect() };
    let form = match (arguments.whole, arguments.json) {
        (true, _) => Form::Whole,
        (_, true) => Form::Json,
        _ => Form::Lines,
    };
    let input = match &arguments.body {
        Some(body) => Input::of(defaults.message(body.clone().into_bytes())),
        None => Input::read(&arguments.files, form, defaults),
    };
    let bar = say::bar("{spinner} {pos} messages stored, {per_sec}");
    bar.unset_length();
    if arguments.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let result = loop {
        if let Err(failure) = check_not_stopped() {
            break Err(failure);
        }
        let pass = match input.next(LOOK_INTERVAL) {
            Ok(pass) => pass,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        };
        if let Err(failure) = store_pass(&mut *store, &pass, arguments.repeat as usize, done) {
            break Err(failure);
        }
        if let Some(problem) = pass.problem {
            break Err(Failure::NotAll(problem));
        }
        bar.set_position(done.messages);
    };
    bar.finish_and_clear();
    if let Some(remark) = store.remark() {
        say::note(remark);
    }
    let closed = store.close().map_err(Failure::from);
    result.and(closed)
}

fn check_not_stopped() -> Result<(), Failure> {
    if is_stopped() {
        return Err(Failure::NotAll("stopped by Ctrl-C before all of it was sent".to_owned()));
    }
    Ok(())
}

fn store_pass(store: &mut dyn Store, pass: &Pass, repeat: usize, done: &mut Done) -> Result<(), Failure> {
    if repeat == 1 {
        return store_some(store, &pass.messages, |index| pass.place(index), done);
    }
    let mut copies = pass.messages.iter().flat_map(|message| std::iter::repeat_n(message, repeat));
    let mut first = 0;
    loop {
        let (mut some, mut size) = (Vec::new(), 0);
        while some.len() < COPIES_MAX
            && size < COPIES_SIZE_MAX
            && let Some(message) = copies.next()
        {
            size += message.body.len();
            some.push(message.clone());
        }
        if some.is_empty() {
            return Ok(());
        }
        check_not_stopped()?;
        store_some(store, &some, |index| pass.place((first + index) / repeat), done)?;
        first += some.len();
    }
}

fn store_some(
    store: &mut dyn Store,
    messages: &[Message],
    place: impl Fn(usize) -> String,
    done: &mut Done,
) -> Result<(), Failure> {
    let size = |messages: &[Message]| messages.iter().map(|message| message.body.len() as u64).sum::<u64>();
    match store.store(messages) {
        Ok(()) => {
            done.messages += messages.len() as u64;
            done.bytes += size(messages);
            Ok(())
        }
        Err(NotStored { stored, index, why }) => {
            done.messages += stored as u64;
            done.bytes += size(messages.get(..stored).unwrap_or_default());
            let place = index.map_or_else(String::new, place);
            // What was under way when a connection broke may be stored all the same.
            let fate =
                if matches!(why, ClientError::Lost { .. }) { "may not have been stored" } else { "was not stored" };
            Err(Failure::NotAll(format!("{place}{fate}: {why}")))
        }
    }
}

fn open(arguments: &Arguments) -> Result<Box<dyn Store>, Failure> {
    let Arguments { destination, target, rocketmq, amqp, .. } = arguments;
    let RocketMq { key, tag, delay, queue, create } = rocketmq;
    let Amqp { exchange, routing_key, transient } = amqp;
    let of_amqp = [("--exchange", exchange.is_some()), ("--transient", *transient)];
    let of_rocketmq = [
        ("--key, but routing keys (--exchange, --routing-key)", key.is_some()),
        ("--tag", tag.is_some()),
        ("--delay", delay.is_some()),
        ("--queue", queue.is_some()),
        ("--create, but sluice admin queue add", *create),
    ];
    let target = target.parse()?;
    refuse(&target, &of_amqp, &of_rocketmq)?;
    let name = destination.clone().unwrap_or_default();
    if let Target::Amqp(address) = &target {
        let to = match exchange {
            Some(exchange) => {
                PublishTo::Exchange { exchange: exchange.clone(), routing_key: routing_key.clone().unwrap_or_default() }
            }
            None => PublishTo::Queue(name),
        };
        return Ok(Box::new(Publisher::open(address, to, *transient)?));
    }
    let options = ProduceOptions { queue: queue.clone(), delay_level: *delay, may_create: *create };
    let directory = Directory::open(&target)?.ok_or_else(|| Failure::Wrong("the target speaks AMQP".to_owned()))?;
    Ok(Box::new(Producer::open(directory, &name, &options)?))
}

impl Done {
    fn told(&self, time: Duration) -> String {
        let Self { messages, bytes } = self;
        let seconds = time.as_secs_f64().max(0.001);
        let rate = (*messages as f64 / seconds).round() as u64;
        let noun = if *messages == 1 { "message" } else { "messages" };
        format!(
            "{} {noun} stored ({:.1} MB) in {seconds:.1} s: {} a second",
            grouped(*messages),
            *bytes as f64 / 1e6,
            grouped(rate)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_levels_by_their_time_or_number() {
        assert_eq!((delay_level("10s"), delay_level("2h"), delay_level("level:3")), (Ok(3), Ok(18), Ok(3)));
        for wrong in ["7s", "0", "10", "level:0", "level:", ""] {
            assert!(delay_level(wrong).is_err_and(|text| text.contains("1s 5s 10s")), "{wrong}");
        }
    }

    #[test]
    fn what_was_done_is_told_in_words() {
        let done = Done { messages: 1_234_567, bytes: 92_400_000 };
        assert_eq!(done.told(Duration::from_secs(2)), "1 234 567 messages stored (92.4 MB) in 2.0 s: 617 284 a second");
    }
}
