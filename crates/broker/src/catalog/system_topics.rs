//! Topics that belong to the broker rather than to users.

use base::{Now, TopicName};
use format::document::TopicDocument;
use format::index_rules::DELAY_TOPIC;
use format::state::STATE_TOPIC;

use super::Catalog;

/// Topic whose settings new topics take, unless the producer names another.
pub(super) const TEMPLATE_TOPIC: &str = "TBW102";

impl Catalog {
    /// Topics every broker has (source: RocketMQ `TopicConfigManager`).
    pub(crate) fn make_system_topics(&self, now: Now) {
        let options = &self.options;
        let mut wanted = vec![("SELF_TEST_TOPIC", 1, 6), ("BenchmarkTest", 1024, 6), ("OFFSET_MOVED_EVENT", 1, 6)];
        if options.auto_create_topics {
            wanted.push((TEMPLATE_TOPIC, options.default_queues, 7));
        }
        wanted.push((&options.cluster_name, 16, if options.cluster_topic { 7 } else { 6 }));
        wanted.push((&options.broker_name, 1, if options.broker_topic { 7 } else { 6 }));
        if let Some(trace) = &options.trace_topic {
            wanted.push((trace, 1, 6));
        }
        if let Err(refusal) = self.delay_topic(now) {
            tracing::warn!(topic = DELAY_TOPIC, %refusal, "a system topic cannot be made");
        }
        for (name, queues, perm) in wanted {
            if self.topic(name).is_some() {
                continue;
            }
            let settings =
                TopicDocument { read_queue_nums: queues, write_queue_nums: queues, perm, ..TopicDocument::default() };
            let made = TopicName::checked(name).and_then(|name| self.put_topic(name, settings, now).map(|_| ()));
            if let Err(refusal) = made {
                tracing::warn!(topic = name, %refusal, "a system topic cannot be made");
            }
        }
    }

    /// Names of topics that belong to the broker rather than to users.
    pub fn system_topics(&self) -> Vec<String> {
        let options = &self.options;
        let fixed = ["SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", DELAY_TOPIC, TEMPLATE_TOPIC];
        let named = [&options.cluster_name, &options.broker_name].into_iter().chain(&options.trace_topic);
        fixed.into_iter().map(str::to_owned).chain(named.cloned()).collect()
    }
}

/// Topics the broker alone writes (source: RocketMQ `TopicValidator`, `TimerMessageStore`: a Java broker stops at a record there that is not
/// its own).
pub(crate) fn is_write_protected(name: &str) -> bool {
    matches!(
        name,
        DELAY_TOPIC
            | STATE_TOPIC
            | "RMQ_SYS_TRANS_HALF_TOPIC"
            | "RMQ_SYS_TRANS_OP_HALF_TOPIC"
            | "TRANS_CHECK_MAX_TIME_TOPIC"
            | "SELF_TEST_TOPIC"
            | "OFFSET_MOVED_EVENT"
            | "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
            | "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
            | "rmq_sys_wheel_timer"
    )
}
