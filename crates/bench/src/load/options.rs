//! What a run shall do. The command line maps its flags onto these; nothing here reads arguments.

use std::path::PathBuf;

use base::limits::{GROUP_NAME_SIZE_MAX, INTERNAL_TOPIC_NAME_SIZE_MAX, PROPERTIES_SIZE_MAX, QUEUES_PER_TOPIC_MAX};
use serde::Serialize;

use crate::error::BenchError;
use crate::target::Target;

/// Topic of a run that names none.
const TOPIC: &str = "SluiceBench";
/// Sends in flight on one connection: more than any broker needs to be busy, and few enough for the opaque's slot bits.
pub(crate) const WINDOW_MAX: usize = 1 << 16;
/// Connections of a run; each has its socket and buffers.
const CONNECTIONS_MAX: usize = 10_000;
/// Topics of a run: sends to each queue of each are prepared in every generator thread.
const TOPICS_MAX: usize = 100_000;
/// Groups of a run: each reads with pulls of its own.
const GROUPS_MAX: usize = 100_000;
/// Body and batch limit of the official brokers (`maxMessageSize`).
const BODY_SIZE_MAX: usize = 4 * 1024 * 1024;

/// Where a consumer begins in each queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StartFrom {
    /// The first message that is still kept.
    #[default]
    First,
    /// Behind the group's committed offset; the first message where there is none.
    Committed,
    /// Behind the last message: only what arrives from now on.
    Latest,
}

/// A run that sends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SendOptions {
    /// Where to.
    pub target: Target,
    /// Topic; with several topics the first part of their names.
    pub topic: String,
    /// Topics: more than 1 are named `topic-0`, `topic-1` and so on, and are written to in turn.
    pub topics: u32,
    /// Creates the topic with this many queues on every broker (or gives an existing one that many).
    pub queues: Option<u32>,
    /// Connections, spread over the brokers of the route.
    pub connections: usize,
    /// Sends in flight on each connection.
    pub window: usize,
    /// Generator threads; each serves its share of the connections.
    pub threads: usize,
    /// Bytes of a body; several are sent in turn.
    pub message_sizes: Vec<usize>,
    /// Messages in one request; more than 1 sends batches.
    pub batch: usize,
    /// Ends after this many messages (warm-up not counted).
    pub count: Option<u64>,
    /// Ends after this many seconds (warm-up not counted). With `count` too, whichever comes first.
    pub seconds: Option<f64>,
    /// Seconds of load before the measurement begins.
    pub warm_up_seconds: f64,
    /// Messages a second in total; 0 sends as fast as the windows allow.
    pub pace: u64,
    /// Sets a key (to the text of the id), so that the broker indexes twice.
    pub keys: bool,
    /// Sets a tag.
    pub tag: Option<String>,
    /// Further properties.
    pub properties: Vec<(String, String)>,
    /// Asks for no answers.
    pub one_way: bool,
    /// A send without an answer for this long is given up and counted as unanswered.
    pub answer_timeout_seconds: f64,
    /// Processes whose memory and CPU are recorded.
    pub broker_pids: Vec<u32>,
    /// Where they keep their files: what of them is in the page cache is recorded.
    pub broker_data: Vec<PathBuf>,
}

/// A run that sends and pulls at the same time. Topics and times are those of the sends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VisibleOptions {
    /// The sends.
    pub send: SendOptions,
    /// The pulls.
    pub consume: ConsumeOptions,
}

impl VisibleOptions {
    /// Checks every value against its bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        self.send.check()?;
        self.consume.check()?;
        let SendOptions { threads, batch, one_way, .. } = self.send;
        if threads != 1 || batch != 1 || one_way {
            let problem = "messages are found again by their ids: one sender thread, one message a send, with answer";
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
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            target: Target::default(),
            topic: TOPIC.to_owned(),
            topics: 1,
            queues: None,
            connections: 4,
            window: 256,
            threads: 1,
            message_sizes: vec![1024],
            batch: 1,
            count: None,
            seconds: Some(10.0),
            warm_up_seconds: 0.0,
            pace: 0,
            keys: false,
            tag: None,
            properties: Vec::new(),
            one_way: false,
            answer_timeout_seconds: 10.0,
            broker_pids: Vec::new(),
            broker_data: Vec::new(),
        }
    }
}

/// A run that consumes by pulling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConsumeOptions {
    /// Where from.
    pub target: Target,
    /// Topic; with several topics the first part of their names.
    pub topic: String,
    /// Topics: more than 1 are named as those of a run that sends.
    pub topics: u32,
    /// Creates the topic with this many queues first.
    pub queues: Option<u32>,
    /// Consumer group; with several groups the first part of their names.
    pub group: String,
    /// Groups: more than 1 are named `group-0`, `group-1` and so on. Groups and topics are dealt to each other in turn until
    /// every group reads and every topic is read.
    pub groups: u32,
    /// Tag expression, as in `A || B`; `*` for everything.
    pub subscription: String,
    /// Connections the queues are split over; never more than there are queues.
    pub connections: usize,
    /// Consumer threads; each serves its share of the connections.
    pub threads: usize,
    /// Messages asked for in one pull.
    pub batch: usize,
    /// Pulls in flight on each connection, at most one a queue; 0 = one for every queue.
    pub pulls: usize,
    /// Ends after this many messages (warm-up not counted).
    pub count: Option<u64>,
    /// Ends after this many seconds (warm-up not counted).
    pub seconds: Option<f64>,
    /// Ends when every queue has answered that nothing more is there.
    pub until_empty: bool,
    /// Seconds of load before the measurement begins.
    pub warm_up_seconds: f64,
    /// Where to begin.
    pub start_from: StartFrom,
    /// Commits offsets: with every pull, and once more at the end.
    pub commit: bool,
    /// Checks every body against its checksum.
    pub verify: bool,
    /// How long a broker may hold a pull that finds nothing, in milliseconds.
    pub suspend_ms: u64,
    /// Processes whose memory and CPU are recorded.
    pub broker_pids: Vec<u32>,
    /// Where they keep their files: what of them is in the page cache is recorded.
    pub broker_data: Vec<PathBuf>,
}

impl Default for ConsumeOptions {
    fn default() -> Self {
        Self {
            target: Target::default(),
            topic: TOPIC.to_owned(),
            topics: 1,
            queues: None,
            group: "sluice_bench_consumer".to_owned(),
            groups: 1,
            subscription: "*".to_owned(),
            connections: 4,
            threads: 1,
            batch: 32,
            pulls: 0,
            count: None,
            seconds: Some(10.0),
            until_empty: false,
            warm_up_seconds: 0.0,
            start_from: StartFrom::First,
            commit: false,
            verify: false,
            suspend_ms: 15_000,
            broker_pids: Vec::new(),
            broker_data: Vec::new(),
        }
    }
}

impl SendOptions {
    /// Checks every value against its bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        check_topic(&self.topic, self.queues)?;
        check_range("topics", self.topics as usize, 1, TOPICS_MAX)?;
        check_range("connections", self.connections, 1, CONNECTIONS_MAX)?;
        check_range("window", self.window, 1, WINDOW_MAX)?;
        check_range("threads", self.threads, 1, CONNECTIONS_MAX)?;
        self.message_sizes.iter().try_for_each(|&size| check_range("message size", size, 1, BODY_SIZE_MAX))?;
        let Some(largest) = self.message_sizes.iter().max() else {
            return Err(wrong("message size", "at least one is needed"));
        };
        check_range("batch", self.batch, 1, BODY_SIZE_MAX / largest)?;
        check_seconds("seconds", self.seconds)?;
        check_seconds("warm-up seconds", Some(self.warm_up_seconds))?;
        check_seconds("answer timeout", Some(self.answer_timeout_seconds))?;
        if self.count.is_none() && self.seconds.is_none() {
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
        check_topic(&self.topic, self.queues)?;
        check_range("topics", self.topics as usize, 1, TOPICS_MAX)?;
        check_range("groups", self.groups as usize, 1, GROUPS_MAX)?;
        check_range("group", self.group.len(), 1, GROUP_NAME_SIZE_MAX)?;
        check_range("connections", self.connections, 1, CONNECTIONS_MAX)?;
        check_range("threads", self.threads, 1, CONNECTIONS_MAX)?;
        check_range("batch", self.batch, 1, 1 << 16)?;
        check_seconds("seconds", self.seconds)?;
        check_seconds("warm-up seconds", Some(self.warm_up_seconds))?;
        if self.count.is_none() && self.seconds.is_none() && !self.until_empty {
            return Err(wrong("seconds", "neither a count, seconds nor an empty topic would end the run"));
        }
        Ok(())
    }
}

impl SendOptions {
    /// Names of its topics.
    pub(crate) fn topic_names(&self) -> Vec<String> {
        names(&self.topic, self.topics)
    }
}

impl ConsumeOptions {
    /// Names of its topics.
    pub(crate) fn topic_names(&self) -> Vec<String> {
        names(&self.topic, self.topics)
    }

    /// Names of its groups.
    pub(crate) fn group_names(&self) -> Vec<String> {
        names(&self.group, self.groups)
    }
}

/// One is named as it is, several are numbered.
fn names(name: &str, count: u32) -> Vec<String> {
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

fn check_range(name: &'static str, value: usize, low: usize, high: usize) -> Result<(), BenchError> {
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
            |options| options.topic = "a b".into(),
            |options| options.queues = Some(0),
            |options| options.connections = 0,
            |options| options.window = WINDOW_MAX + 1,
            |options| options.message_sizes = vec![1024, 0],
            |options| options.message_sizes = Vec::new(),
            |options| options.batch = 5000,
            |options| options.seconds = None,
            |options| options.warm_up_seconds = f64::NAN,
            |options| options.properties = vec![("a\u{1}".into(), String::new())],
        ];
        for spoil in wrong {
            let mut options = SendOptions::default();
            spoil(&mut options);
            assert!(matches!(options.check(), Err(BenchError::WrongOption { .. })), "{options:?}");
        }
        let endless = ConsumeOptions { seconds: None, ..ConsumeOptions::default() };
        assert!(endless.check().is_err());
        assert!(ConsumeOptions { until_empty: true, ..endless }.check().is_ok());
    }
}
