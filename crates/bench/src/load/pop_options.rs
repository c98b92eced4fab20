//! What a run that pops shall do: the flags of `sluice bench pop`, and the values that scenarios fill in.

use base::limits::GROUP_NAME_SIZE_MAX;
use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::load::options::{GROUPS_MAX, RunOptions, WINDOW_MAX, by_default, check_range, check_seconds, names, wrong};

/// Messages in one answer to a pop: more than any broker gives.
const BATCH_MAX: usize = 1 << 10;
/// Consumers of a run; each has a pop in flight.
const CONSUMERS_MAX: usize = 100_000;

/// A run that pops messages and acknowledges them.
#[derive(Args, Clone, Debug, PartialEq, Serialize)]
pub struct PopOptions {
    /// Where from, and for how long.
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunOptions,
    /// Group.
    #[arg(long, default_value = "sluice_bench_popper")]
    pub group: String,
    /// Groups; more than 1 are named GROUP-0, GROUP-1 and so on.
    #[arg(long, default_value_t = 1)]
    pub groups: u32,
    /// Tags wanted, as in "A || B".
    #[arg(long, default_value = "*")]
    pub subscription: String,
    /// Consumers, dealt out over the connections; each has one pop in flight. 0 is one on each connection.
    #[arg(long, default_value_t = 0)]
    pub consumers: usize,
    /// Messages asked for in one pop.
    #[arg(long, default_value_t = 32)]
    pub batch: usize,
    /// Acknowledgements in flight with which a consumer still pops.
    #[arg(long, default_value_t = 256)]
    pub window: usize,
    /// Acknowledges what came from one queue in one answer with one request.
    #[arg(long)]
    pub batch_ack: bool,
    /// Milliseconds for which nobody else gets what was popped.
    #[arg(long, default_value_t = 60_000)]
    pub invisible_ms: u64,
    /// Milliseconds the broker may hold a pop that finds nothing.
    #[arg(long, default_value_t = 15_000)]
    pub poll_ms: u64,
    /// Ends when every queue is empty.
    #[arg(long)]
    pub until_empty: bool,
    /// A group that has no offset yet begins behind the last message.
    #[arg(long)]
    pub latest: bool,
    /// Checks every body against its checksum.
    #[arg(long)]
    pub verify: bool,
    /// Leaves out the heartbeats that make a consumer a member of its group.
    #[arg(long)]
    pub no_heartbeat: bool,
    /// So many consumers, each on a connection of its own, that wait at TOPIC-idle, where nothing is sent; nothing else.
    #[arg(long, value_name = "CONSUMERS", conflicts_with_all = ["until_empty", "connections", "consumers", "count"])]
    pub idle: Option<usize>,
    /// Seconds after which an acknowledgement without an answer is given up.
    #[arg(long = "answer-timeout", default_value_t = 10.0, value_name = "SECONDS")]
    pub answer_timeout_seconds: f64,
}

impl Default for PopOptions {
    fn default() -> Self {
        let options: Self = by_default();
        Self { run: options.run.bounded(false), ..options }
    }
}

impl PopOptions {
    /// Checks every value against its bounds.
    pub fn check(&self) -> Result<(), BenchError> {
        self.run.check()?;
        check_range("groups", self.groups as usize, 1, GROUPS_MAX)?;
        check_range("group", self.group.len(), 1, GROUP_NAME_SIZE_MAX)?;
        check_range("consumers", self.consumers, 0, CONSUMERS_MAX)?;
        check_range("batch", self.batch, 1, BATCH_MAX)?;
        check_range("window", self.window, 1, WINDOW_MAX)?;
        check_seconds("answer timeout", Some(self.answer_timeout_seconds))?;
        if self.invisible_ms == 0 {
            return Err(wrong("invisible ms", "what is popped for no time cannot be acknowledged"));
        }
        if self.run.count.is_none() && self.run.seconds.is_none() && !self.until_empty {
            return Err(wrong("seconds", "neither a count, seconds nor an empty topic would end the run"));
        }
        Ok(())
    }

    /// The same where idle consumers are asked for: a connection for each, and a topic of their own with nothing in it.
    pub(crate) fn with_idle_ones(mut self) -> Self {
        if let Some(idle) = self.idle {
            (self.run.connections, self.consumers, self.until_empty) = (idle, 0, false);
            self.run.topic.push_str("-idle");
            self.run.queues.get_or_insert(1);
        }
        self
    }

    /// Names of its groups. Groups and topics are dealt to each other in turn until every group reads and every topic is read.
    pub(crate) fn group_names(&self) -> Vec<String> {
        names(&self.group, self.groups)
    }

    /// Milliseconds brokers may hold its pops: what waits for messages does not see the end of a queue.
    pub(crate) const fn held_ms(&self) -> u64 {
        if self.until_empty { 0 } else { self.poll_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_pass_and_each_bound_is_held() {
        assert!(PopOptions::default().check().is_ok());
        let wrong: [fn(&mut PopOptions); 8] = [
            |options| options.run.connections = 0,
            |options| options.groups = 0,
            |options| options.group = String::new(),
            |options| options.consumers = CONSUMERS_MAX + 1,
            |options| options.batch = 0,
            |options| options.window = 0,
            |options| options.invisible_ms = 0,
            |options| options.run.seconds = None,
        ];
        for spoil in wrong {
            let mut options = PopOptions::default();
            spoil(&mut options);
            assert!(matches!(options.check(), Err(BenchError::WrongOption { .. })), "{options:?}");
        }
    }

    #[test]
    fn idle_consumers_have_a_connection_each_and_a_topic_of_their_own() {
        let idle = PopOptions { idle: Some(300), ..PopOptions::default() }.with_idle_ones();
        assert_eq!((idle.run.connections, idle.run.queues, &*idle.run.topic), (300, Some(1), "SluiceBench-idle"));
        assert_eq!(PopOptions::default().with_idle_ones(), PopOptions::default());
    }
}
