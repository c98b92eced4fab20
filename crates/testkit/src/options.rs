//! Options that suit a test: everything small, nothing left out.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base::Permission;
use base::offset::AckPolicy;
use base::running_settings::NoSettings;
use broker::SystemTopics;
use dialect::rocketmq::{SessionOptions, SystemTopicNames};
use format::index_rules::IndexRules;
use format::request_mode::RequestMode;

/// Delay levels in ms.
const DELAYS_MS: [u64; 2] = [1000, 5000];

/// How a store of that directory is laid out: files of which even a short test fills some.
pub fn store_options(directory: &Path) -> storage::Options {
    storage::Options {
        segment_size: 1 << 20,
        queue_file_entries: 1000,
        key_index_slots: 1000,
        key_index_entries: 4000,
        recent_size: 1 << 20,
        index_rules: IndexRules::new(DELAYS_MS.to_vec()),
        checkpoint_reserve: Some(4096),
        ..storage::Options::new(directory)
    }
}

/// The topics of such a broker; the one that others take their settings from has so many queues.
pub fn system_topics(template_queues: u32) -> SystemTopics {
    dialect::rocketmq::system_topics(&SystemTopicNames {
        cluster: "DefaultCluster",
        cluster_is_template: true,
        broker: "broker-a",
        broker_is_template: true,
        template_queues: Some(template_queues),
        trace: None,
    })
}

/// A broker as it is by default.
pub fn broker_options() -> broker::Options {
    broker::Options {
        cluster_name: "DefaultCluster".to_owned(),
        broker_name: "broker-a".to_owned(),
        region: "DefaultRegion".to_owned(),
        store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
        permission: Permission::OPEN,
        message_size_max: 4 << 20,
        ack_policy: AckPolicy::WRITTEN,
        replica_gap_max: 256 << 20,
        auto_create_topics: true,
        auto_create_groups: true,
        system_topics: system_topics(8),
        client_expiry_ms: 120_000,
        trace_on: true,
        young_queue_size: 1 << 30,
        model: broker::ModelOptions::default(),
        keeps_unsettled: false,
    }
}

/// Sessions as they are by default.
pub fn session_options() -> SessionOptions {
    SessionOptions {
        fetch_count_max: 1024,
        fetch_size_max: 1 << 20,
        long_polling: true,
        slave_reads: false,
        slow_reader_gap: u64::MAX,
        short_poll_ms: 1000,
        flush_timeout_ms: 5000,
        replica_timeout_ms: 3000,
        idle_timeout_ms: 120_000,
        notify_changes: true,
        assigns_queues: true,
        request_mode: RequestMode::Pull,
        shared_queues: -1,
        query_count_max: 32,
        query_key_count_max: 64,
        settings: Arc::new(NoSettings),
    }
}
