//! What a run shall do: the flags of `sluice bench send` and `consume`, and the values that scenarios fill in.

use std::path::PathBuf;

use base::limits::{GROUP_NAME_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX, PROPERTIES_SIZE_MAX, QUEUES_PER_TOPIC_MAX};
use clap::{Args, Command, ValueEnum};
use client::target::Target;
use serde::Serialize;

use crate::error::BenchError;
use crate::machine::clock::seconds_to_ns;

/// How long a run is that nothing else ends.
const SECONDS: f64 = 10.0;
/// Sends in flight on one connection: more than any broker needs to be busy, and few enough for the opaque's slot bits.
pub(crate) const WINDOW_MAX: usize = 1 << 16;
/// Connections of a run; each has its socket and buffers.
const CONNECTIONS_MAX: usize = 10_000;
/// Topics of a run: sends to each queue of each are prepared in every generator thread.
const TOPICS_MAX: usize = 100_000;
/// AMQP queues of a run.
const AMQP_QUEUES_MAX: usize = 1_000_000;
/// Groups of a run: each reads with pulls of its own.
pub(crate) const GROUPS_MAX: usize = 100_000;
/// Body and batch limit of the official brokers (`maxMessageSize`).
const BODY_SIZE_MAX: usize = 4 * 1024 * 1024;

/// Where a consumer begins in each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StartFrom {
    /// The first message that is still kept.
    #[default]
    #[value(help = None::<&str>)]
    First,
    /// Behind the group's committed offset; the first message where there is none.
    #[value(help = None::<&str>)]
    Committed,
    /// Behind the last message: only what arrives from now on.
    #[value(help = None::<&str>)]
    Latest,
}

/// What every run with a broker is told.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
pub struct RunOptions {
    /// Name server rocketmq://HOST:PORT, one broker rocketmq-broker://HOST:PORT, or amqp://[USER:PASSWORD@]HOST[:PORT][/VHOST].
    #[arg(long, default_value_t)]
    pub target: Target,
    /// Topic; AMQP: queue.
    #[arg(long, default_value = "SluiceBench")]
    pub topic: String,
    /// Topics; more than 1 are named TOPIC-0, TOPIC-1 and so on.
    #[arg(long, default_value_t = 1)]
    pub topics: u32,
    /// Makes the topic with this many queues on every broker first; AMQP: so many queues, more than 1 named TOPIC-0, TOPIC-1 and so on.
    #[arg(long)]
    pub queues: Option<u32>,
    /// Connections.
    #[arg(long, default_value_t = 4)]
    pub connections: usize,
    /// Generator threads.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Ends after this many messages.
    #[arg(long)]
    pub count: Option<u64>,
    /// Ends after this many seconds (10 if nothing else ends the run).
    #[arg(long = "duration", value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Seconds of load before the measurement begins.
    #[arg(long = "warm-up", default_value_t = 0.0, value_name = "SECONDS")]
    pub warm_up_seconds: f64,
    /// Process on this machine whose memory and CPU are recorded.
    #[arg(long = "broker-pid", value_name = "PID")]
    pub broker_pids: Vec<u32>,
    /// Directory that process keeps its files in: what of them is in the page cache is recorded.
    #[arg(long, value_name = "DIR", requires = "broker_pids")]
    pub broker_data: Vec<PathBuf>,
}

/// A run that sends.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
pub struct SendOptions {
    /// Where to, and for how long; each generator thread serves its share of the connections.
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunOptions,
    /// Sends in flight on each connection; AMQP: on each channel.
    #[arg(long, default_value_t = 256)]
    pub window: usize,
    /// Bytes of a body; several, as in 256,1024, are sent in turn.
    #[arg(long = "size", value_name = "SIZE", default_value = "1024", value_delimiter = ',')]
    pub message_sizes: Vec<usize>,
    /// Messages in one request.
    #[arg(long, default_value_t = 1)]
    pub batch: usize,
    /// Messages a second in total; 0 is as fast as the windows allow.
    #[arg(long, default_value_t = 0)]
    pub pace: u64,
    /// Sets a key too.
    #[arg(long)]
    pub keys: bool,
    /// Sets a tag.
    #[arg(long)]
    pub tag: Option<String>,
    /// Sets a property (AMQP: a header); may be given often.
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = property)]
    pub properties: Vec<(String, String)>,
    /// Asks for no answers; AMQP: for no confirms.
    #[arg(long)]
    pub one_way: bool,
    /// Seconds after which a send without an answer is given up.
    #[arg(long = "answer-timeout", default_value_t = 10.0, value_name = "SECONDS")]
    pub answer_timeout_seconds: f64,
}

/// A run that sends and pulls at the same time. Topics and times are those of the sends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VisibleOptions {
    /// The sends.
    pub send: SendOptions,
    /// The pulls.
    pub consume: ConsumeOptions,
}

/// A run that consumes by pulling.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
pub struct ConsumeOptions {
    /// Where from, and for how long; there are never more connections than queues.
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunOptions,
    /// Group.
    #[arg(long, default_value = "sluice_bench_consumer")]
    pub group: String,
    /// Groups; more than 1 are named GROUP-0, GROUP-1 and so on.
    #[arg(long, default_value_t = 1)]
    pub groups: u32,
    /// Tags wanted, as in "A || B".
    #[arg(long, default_value = "*")]
    pub subscription: String,
    /// Messages asked for in one pull.
    #[arg(long, default_value_t = 32)]
    pub batch: usize,
    /// Pulls in flight on each connection; 0 is one for every queue.
    #[arg(long, default_value_t = 0)]
    pub pulls: usize,
    /// Ends when every queue is empty.
    #[arg(long)]
    pub until_empty: bool,
    /// Where to begin.
    #[arg(long = "from", value_name = "FROM", value_enum, default_value = "first")]
    pub start_from: StartFrom,
    /// Commits offsets.
    #[arg(long)]
    pub commit: bool,
    /// Checks every body against its checksum.
    #[arg(long)]
    pub verify: bool,
    /// Milliseconds the broker may hold a pull that finds nothing.
    #[arg(long, default_value_t = 15_000)]
    pub suspend_ms: u64,
}

impl Default for RunOptions {
    fn default() -> Self {
        by_default::<Self>().bounded(false)
    }
}

impl Default for SendOptions {
    fn default() -> Self {
        let options: Self = by_default();
        Self { run: options.run.bounded(false), ..options }
    }
}

impl Default for ConsumeOptions {
    fn default() -> Self {
        let options: Self = by_default();
        Self { run: options.run.bounded(false), ..options }
    }
}

/// What a command line without flags amounts to.
pub(crate) fn by_default<T: Args>() -> T {
    let no_flags = T::augment_args(Command::new("default")).get_matches_from(["default"]);
    T::from_arg_matches(&no_flags).unwrap_or_else(|error| error.exit())
}

impl RunOptions {
    /// Ends after the usual time where nothing else ends it.
    pub fn bounded(mut self, ends_otherwise: bool) -> Self {
        self.seconds = self.seconds.or_else(|| (self.count.is_none() && !ends_otherwise).then_some(SECONDS));
        self
    }

    /// When the warm-up ends.
    pub(crate) fn measure_from_ns(&self) -> u64 {
        seconds_to_ns(self.warm_up_seconds)
    }

    /// When the time is over; without a length, never.
    pub(crate) fn end_ns(&self) -> u64 {
        self.seconds.map_or(u64::MAX, |seconds| self.measure_from_ns() + seconds_to_ns(seconds))
    }

    /// Names of its topics.
    pub(crate) fn topic_names(&self) -> Vec<String> {
        names(&self.topic, self.topics)
    }

    pub(crate) fn check(&self) -> Result<(), BenchError> {
        match &self.target {
            Target::NameServer(_) | Target::Broker(_) => check_topic(&self.topic, self.queues)?,
            Target::Amqp(_) => check_queues(&self.topic, self.queues)?,
        }
        check_range("topics", self.topics as usize, 1, TOPICS_MAX)?;
        check_range("connections", self.connections, 1, CONNECTIONS_MAX)?;
        check_range("threads", self.threads, 1, CONNECTIONS_MAX)?;
        check_seconds("seconds", self.seconds)?;
        check_seconds("warm-up seconds", Some(self.warm_up_seconds))
    }
}

impl VisibleOptions {
    /// Checks every value against its bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        self.send.check()?;
        self.consume.check()?;
        if self.send.run.threads != 1 || self.send.batch != 1 {
            let problem = "messages are found again by their ids: one sender thread, one message a send";
            return Err(wrong("send", problem));
        }
        Ok(())
    }
}

impl SendOptions {
    /// Bytes of a body on average.
    pub fn message_size_mean(&self) -> f64 {
        self.message_sizes.iter().sum::<usize>() as f64 / self.message_sizes.len().max(1) as f64
    }

    /// Checks every value against its bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        self.run.check()?;
        check_range("window", self.window, 1, WINDOW_MAX)?;
        self.message_sizes.iter().try_for_each(|&size| check_range("message size", size, 1, BODY_SIZE_MAX))?;
        let Some(largest) = self.message_sizes.iter().max() else {
            return Err(wrong("message size", "at least one is needed"));
        };
        check_range("batch", self.batch, 1, BODY_SIZE_MAX / largest)?;
        check_seconds("answer timeout", Some(self.answer_timeout_seconds))?;
        if self.run.count.is_none() && self.run.seconds.is_none() {
            return Err(wrong("seconds", "neither a count nor seconds would end the run"));
        }
        let mut size = 0;
        for (name, value) in &self.properties {
            let separators = ['\u{1}', '\u{2}'];
            if name.is_empty() || name.contains(separators) || value.contains(separators) {
                return Err(wrong("properties", format!("{name:?} = {value:?} is not a name and a value")));
            }
            size += name.len() + value.len() + 2;
        }
        // Room for what the generator sets itself, and for what brokers add.
        check_range("properties", size, 0, PROPERTIES_SIZE_MAX - 1024)
    }
}

impl ConsumeOptions {
    /// Checks every value against its bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        self.run.check()?;
        check_range("groups", self.groups as usize, 1, GROUPS_MAX)?;
        check_range("group", self.group.len(), 1, GROUP_NAME_SIZE_MAX)?;
        check_range("batch", self.batch, 1, 1 << 16)?;
        if self.run.count.is_none() && self.run.seconds.is_none() && !self.until_empty {
            return Err(wrong("seconds", "neither a count, seconds nor an empty topic would end the run"));
        }
        Ok(())
    }

    /// Names of its groups. Groups and topics are dealt to each other in turn until every group reads and every topic is read.
    pub(crate) fn group_names(&self) -> Vec<String> {
        names(&self.group, self.groups)
    }
}

fn property(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// One is named as it is, several are numbered.
pub(crate) fn names(name: &str, count: u32) -> Vec<String> {
    if count <= 1 { vec![name.to_owned()] } else { (0..count).map(|number| format!("{name}-{number}")).collect() }
}

pub(crate) fn wrong(name: &'static str, problem: impl Into<String>) -> BenchError {
    BenchError::WrongOption { name, problem: problem.into() }
}

fn check_topic(topic: &str, queues: Option<u32>) -> Result<(), BenchError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '|' | '_' | '-');
    if topic.is_empty() || topic.len() > INTERNAL_TOPIC_NAME_SIZE_MAX || !topic.chars().all(allowed) {
        return Err(wrong("topic", format!("{topic:?} is not a topic name (letters, digits, %, |, _ and -)")));
    }
    match queues {
        Some(queues) => check_range("queues", queues as usize, 1, QUEUES_PER_TOPIC_MAX as usize),
        None => Ok(()),
    }
}

fn check_queues(name: &str, queues: Option<u32>) -> Result<(), BenchError> {
    // Behind the name comes a number.
    check_range("topic", name.len(), 1, usize::from(u8::MAX) - 8)?;
    check_range("queues", queues.unwrap_or(1) as usize, 1, AMQP_QUEUES_MAX)
}

pub(crate) fn check_range(name: &'static str, value: usize, low: usize, high: usize) -> Result<(), BenchError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(wrong(name, format!("{value} is not within {low}..={high}")))
}

pub(crate) fn check_seconds(name: &'static str, seconds: Option<f64>) -> Result<(), BenchError> {
    match seconds {
        Some(seconds) if !(seconds.is_finite() && seconds >= 0.0) => {
            Err(wrong(name, format!("{seconds} is not a length of time")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_pass_and_each_bound_is_held() {
        assert!(SendOptions::default().check().is_ok());
        assert!(ConsumeOptions::default().check().is_ok());
        let wrong: [fn(&mut SendOptions); 10] = [
            |options| options.run.topic = "a b".into(),
            |options| options.run.queues = Some(0),
            |options| options.run.connections = 0,
            |options| options.window = WINDOW_MAX + 1,
            |options| options.message_sizes = vec![1024, 0],
            |options| options.message_sizes = Vec::new(),
            |options| options.batch = 5000,
            |options| options.run.seconds = None,
            |options| options.run.warm_up_seconds = f64::NAN,
            |options| options.properties = vec![("a\u{1}".into(), String::new())],
        ];
        for spoil in wrong {
            let mut options = SendOptions::default();
            spoil(&mut options);
            assert!(matches!(options.check(), Err(BenchError::WrongOption { .. })), "{options:?}");
        }
        let run = RunOptions { seconds: None, ..RunOptions::default() };
        let endless = ConsumeOptions { run, ..ConsumeOptions::default() };
        assert!(endless.check().is_err());
        assert!(ConsumeOptions { until_empty: true, ..endless }.check().is_ok());
    }
}
