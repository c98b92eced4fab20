//! RocketMQ's topics that belong to the broker (source: `TopicConfigManager`, `TopicValidator`).

use base::Permission;
use broker::{SystemTopic, SystemTopics};
use format::index_rules::DELAY_TOPIC;

/// Topic whose settings new topics take, unless the producer names another.
const TEMPLATE: &str = "TBW102";

/// Topics that a Java broker reads for itself: it stops at a record there that is not its own (source: `TimerMessageStore`).
const UNWRITABLE: [&str; 8] = [
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    SELF_TEST,
    OFFSET_MOVED,
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    "rmq_sys_wheel_timer",
];

const SELF_TEST: &str = "SELF_TEST_TOPIC";
const OFFSET_MOVED: &str = "OFFSET_MOVED_EVENT";
const BENCHMARK: &str = "BenchmarkTest";

/// What a broker's own topics depend on.
#[derive(Clone, Debug)]
pub struct SystemTopicNames<'a> {
    /// Name of the cluster, which is one of them,
    pub cluster: &'a str,
    /// and whether new topics may take their settings from it.
    pub cluster_is_template: bool,
    /// Name of the broker, likewise.
    pub broker: &'a str,
    /// Likewise.
    pub broker_is_template: bool,
    /// Queues of the template, if topics are made on the first send.
    pub template_queues: Option<u32>,
    /// The topic for traces, if there is one.
    pub trace: Option<&'a str>,
}

/// The topics that belong to a broker.
pub fn system_topics(names: &SystemTopicNames<'_>) -> SystemTopics {
    let permission = |is_template| if is_template { Permission::TEMPLATE } else { Permission::OPEN };
    let mut made = vec![
        (SELF_TEST, 1, Permission::OPEN),
        (BENCHMARK, 1024, Permission::OPEN),
        (OFFSET_MOVED, 1, Permission::OPEN),
        (names.cluster, 16, permission(names.cluster_is_template)),
        (names.broker, 1, permission(names.broker_is_template)),
    ];
    made.extend(names.template_queues.map(|queues| (TEMPLATE, queues, Permission::TEMPLATE)));
    made.extend(names.trace.map(|trace| (trace, 1, Permission::OPEN)));
    let fixed = [SELF_TEST, BENCHMARK, OFFSET_MOVED, DELAY_TOPIC, TEMPLATE, names.cluster, names.broker];
    let owned = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
    SystemTopics {
        made: made
            .into_iter()
            .map(|(name, queues, permission)| SystemTopic { name: name.to_owned(), queues, permission })
            .collect(),
        reserved: owned(&mut fixed.into_iter().chain(names.trace)),
        unwritable: owned(&mut UNWRITABLE.into_iter()),
        template: TEMPLATE.to_owned(),
    }
}
