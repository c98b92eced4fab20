//! `sluice consume`: messages of a topic, a queue or a stream, printed. What was not printed is never settled.

mod format;
mod show;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use client::Target;
use client::amqp::fetcher::{FetchOptions, Fetcher};
use client::message::{Next, Source, Start};
use client::rocketmq::pulled::Filter;
use client::rocketmq::reader::{ReadOptions, Reader};
use client::rocketmq::topic::{Directory, QueueName};

use super::admin::moment::moment;
use super::traffic::{Failure, ended, exit_codes, is_stopped, refuse, watch_for_stop};
use crate::say;
use format::Format;
use show::{Bodies, Look};

/// Arguments of `sluice consume`.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!("Examples:\n  \
    sluice consume orders                                 all that is there, and ends\n  \
    sluice consume orders --from latest --follow          what comes from now on, until Ctrl-C\n  \
    sluice consume orders --group billing --count 3       the group's next three; it goes on behind\n  \
    sluice consume orders --from 10m --format '%t[%p]@%o %k: %s\\n'\n  \
    sluice consume %DLQ%billing --json | jq .body\n  \
    sluice consume work --target amqp://127.0.0.1 --peek --count 5   leaves them in the queue\n  \
    sluice consume events --target amqp://127.0.0.1 --from earliest  reads a stream\n\n\
    Format: %s body, %S its bytes, %k key, %g tag, %h headers, %t topic or queue, %p queue of the\n\
    topic, %o offset, %T time in ms since 1970, %i id, %e exchange, %r routing key, %% a %; and\n\
    \\n \\t \\r \\0 \\xNN \\\\.\n\n\
    Who knows kcat or rpk: without --follow it ends once it has printed what is there, as kcat -e does.\n\n", exit_codes!()))]
pub struct Arguments {
    /// Topic, or queue or stream of AMQP.
    destination: String,
    /// Where the broker is: rocketmq://HOST:PORT (a name server), rocketmq-broker://HOST:PORT or
    /// amqp://USER:PASSWORD@HOST:PORT/VHOST; with TLS rocketmqs, rocketmqs-broker and amqps.
    #[arg(long, value_name = "URL", default_value_t = Target::default().to_string(), env = "SLUICE_TARGET", hide_env_values = true)]
    target: String,
    /// Where to begin: earliest, latest, an offset, -N for the last N of each queue, a date as 2026-11-25T10:00:00Z, or an age
    /// as 10m. A group begins there only where it never was; a queue of AMQP has no such place, a stream has.
    #[arg(long, value_name = "WHERE", value_parser = start, allow_hyphen_values = true)]
    from: Option<Start>,
    /// Ends after so many messages.
    #[arg(short = 'n', long)]
    count: Option<usize>,
    /// Waits for more at the end, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// How a message is printed, see below; otherwise its body, and a line's end.
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    format: Option<Format>,
    /// Prints each message as a line of JSON; a body that is no text as body_base64.
    #[arg(long)]
    json: bool,
    /// Prints bodies in hexadecimal digits.
    #[arg(long, conflicts_with = "json")]
    hex: bool,
    #[command(flatten)]
    rocketmq: RocketMq,
    #[command(flatten)]
    amqp: Amqp,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "RocketMQ")]
struct RocketMq {
    /// Reads as a member of this group, which shares the queues and remembers what was printed; without one nothing is remembered.
    #[arg(short, long)]
    group: Option<String>,
    /// Reads this queue alone: its number, or BROKER:NUMBER.
    #[arg(long, conflicts_with = "group")]
    queue: Option<QueueName>,
    /// Takes messages with this tag alone, or with one of 'A || B'.
    #[arg(long, value_name = "TAGS")]
    tag: Option<String>,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "AMQP")]
struct Amqp {
    /// Leaves the messages in the queue. They count as delivered once.
    #[arg(long, conflicts_with = "follow")]
    peek: bool,
    /// Messages that may be on their way unacknowledged; 256 unless told otherwise.
    #[arg(long, value_name = "COUNT")]
    prefetch: Option<u16>,
}

const PREFETCH: u16 = 256;

fn start(text: &str) -> Result<Start, String> {
    let wrong = |_| {
        "write earliest, latest, an offset, -N for the last N of each queue, a date as 2026-11-25 or 2026-11-25T10:00:00Z, or an age as 10m"
            .to_owned()
    };
    match text {
        "earliest" | "first" => return Ok(Start::Earliest),
        "latest" | "next" => return Ok(Start::Latest),
        _ => {}
    }
    let number =
        text.strip_prefix('-').map_or_else(|| text.parse().map(Start::Offset), |last| last.parse().map(Start::Last));
    number.or_else(|_| moment(text).map(Start::Time).map_err(wrong))
}

pub fn run(arguments: &Arguments) -> ExitCode {
    ended(consume(arguments))
}

fn consume(arguments: &Arguments) -> Result<(), Failure> {
    let mut source = open(arguments)?;
    watch_for_stop()?;
    let printed = print_all(&mut *source, arguments);
    let closed = source.close().map_err(Failure::from);
    let had_nothing = printed?;
    closed?;
    if had_nothing {
        say::note(nothing(arguments));
    }
    Ok(())
}

/// Prints what comes, and settles what is printed; tells whether it came to the end without any.
fn print_all(source: &mut dyn Source, arguments: &Arguments) -> Result<bool, Failure> {
    let look = look_of(arguments);
    let mut out = io::stdout().lock();
    let (mut count, most) = (0, arguments.count.unwrap_or(usize::MAX));
    let mut text = Vec::new();
    while count < most && !is_stopped() {
        let Next::Messages(messages) = source.next(most - count)? else { return Ok(count == 0) };
        if messages.is_empty() {
            continue;
        }
        text.clear();
        messages.iter().for_each(|message| look.print(message, &mut text));
        match out.write_all(&text).and_then(|()| out.flush()) {
            Ok(()) => {}
            // Whoever reads has enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(Failure::NotAll(format!("cannot write to standard output: {error}"))),
        }
        source.settle()?;
        count += messages.len();
    }
    Ok(false)
}

fn look_of(arguments: &Arguments) -> Look {
    if arguments.json {
        return Look::Json;
    }
    let is_terminal = io::stdout().is_terminal();
    let bodies = match (arguments.hex, is_terminal) {
        (true, _) => Bodies::Hex,
        (false, true) => Bodies::Escaped,
        (false, false) => Bodies::Raw,
    };
    Look::Format(arguments.format.clone().unwrap_or_else(Format::lines), bodies, is_terminal)
}

fn open(arguments: &Arguments) -> Result<Box<dyn Source>, Failure> {
    let Arguments { destination, target, from, follow, count, .. } = arguments;
    let RocketMq { group, queue, tag } = &arguments.rocketmq;
    let Amqp { peek, prefetch } = arguments.amqp;
    let of_amqp = [("--peek: without --group nothing is taken away", peek), ("--prefetch", prefetch.is_some())];
    let of_rocketmq = [
        ("--group: whoever takes a message of a queue has it alone", group.is_some()),
        ("--queue", queue.is_some()),
        ("--tag", tag.is_some()),
    ];
    let target = target.parse()?;
    refuse(&target, &of_amqp, &of_rocketmq)?;
    if let Target::Amqp(address) = &target {
        let prefetch = prefetch.unwrap_or(PREFETCH);
        let prefetch = count.and_then(|count| u16::try_from(count).ok()).map_or(prefetch, |count| count.min(prefetch));
        let options = FetchOptions { start: *from, follows: *follow, peeks: peek, prefetch };
        return Ok(Box::new(Fetcher::open(address, destination, options)?));
    }
    let options = ReadOptions {
        group: group.clone(),
        start: from.unwrap_or(Start::Earliest),
        queue: queue.clone(),
        filter: tag.as_deref().map_or_else(Filter::default, Filter::of),
        follows: *follow,
    };
    let directory = Directory::open(&target)?.ok_or_else(|| Failure::Wrong("the target speaks AMQP".to_owned()))?;
    Ok(Box::new(Reader::open(directory, destination, options)?))
}

/// Why nothing was printed.
fn nothing(arguments: &Arguments) -> String {
    let name = &arguments.destination;
    match &arguments.rocketmq.group {
        Some(group) => format!(
            "nothing to consume: group {group} has all that {name} has, or other members have it; --follow waits"
        ),
        None => format!("nothing to consume: {name} has nothing there; --follow waits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_word_a_number_or_a_time() {
        for (text, wanted) in [
            ("earliest", Start::Earliest),
            ("latest", Start::Latest),
            ("0", Start::Offset(0)),
            ("42", Start::Offset(42)),
            ("-10", Start::Last(10)),
            ("2023-11-14T22:13:20Z", Start::Time(1_700_000_000_000)),
        ] {
            assert_eq!(start(text), Ok(wanted), "{text}");
        }
        assert!(matches!(start("10m"), Ok(Start::Time(_))));
        for wrong in ["", "yesterday", "-", "--5", "1.5", "-1h"] {
            assert!(start(wrong).is_err_and(|told| told.contains("earliest")), "{wrong}");
        }
    }
}
