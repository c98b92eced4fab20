//! Which topics and message queues have queues here.

use std::collections::BTreeMap;

use base::{QueueNumber, TopicName};

use super::Store;
use crate::queue_table::QueueTable;

impl Store {
    /// Topics that have queues on the disk or in memory, each with its highest queue number plus one. Message queues are none.
    pub fn topics(&self) -> BTreeMap<TopicName, u32> {
        let queues = self.queues.read();
        let seen = queues.topics().filter(|(topic, _)| topic.message_queue().is_none() && self.is_seen(&queues, topic));
        seen.map(|(topic, last)| (topic.clone(), last.0.saturating_add(1))).collect()
    }

    /// Message queues that have lanes on the disk or in memory, in the order of their numbers.
    pub fn message_queues(&self) -> Vec<QueueNumber> {
        let queues = self.queues.read();
        let seen = queues.topics().filter_map(|(topic, _)| Some((topic, topic.message_queue()?)));
        let mut numbers: Vec<_> =
            seen.filter(|(topic, _)| self.is_seen(&queues, topic)).map(|(_, number)| number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Whether a topic has more than queues whose messages were never committed.
    fn is_seen(&self, queues: &QueueTable, topic: &TopicName) -> bool {
        let mut of_topic = queues.of_topic(topic.as_str()).iter();
        !self.watermarks().is_governed() || of_topic.any(|queue| !queue.is_uncommitted())
    }
}
