//! Turns settings into the options of store, broker, sessions and registration.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use base::offset::AckPolicy;
use cluster::registration::{Identity, Times};
use cluster::replication;
use dialect::amqp::{self, AmqpOptions, CertificateUser};
use dialect::rocketmq::{SessionOptions, SystemTopicNames, system_topics};
use format::document::permission_of;
use format::index_rules::IndexRules;
use format::request_mode::RequestMode;
use settings::table::{self, Scope};
use settings::{BrokerRole, Effective, FlushMode, Settings};
use storage::RetentionPolicy;

use crate::error::StartError;
use crate::net;
use crate::running::Running;

/// How often a checkpoint is written while messages arrive.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

/// The address that clients are told to connect to, as text and resolved.
pub(crate) fn advertised_address(settings: &Settings, port: u16) -> Result<(String, SocketAddr), StartError> {
    let bad = |problem| StartError::Setting { name: "broker.host", problem };
    let host = match settings.advertised_host() {
        Some(host) => host.to_owned(),
        None => net::own_address().ok_or_else(|| {
            bad("this machine's address cannot be found; set it, e.g. --set broker.host=10.0.0.5".to_owned())
        })?,
    };
    let resolved = (host.as_str(), port).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let resolved = resolved.ok_or_else(|| bad(format!("[{host}] is no address and cannot be resolved to one")))?;
    Ok((resolved.to_string(), resolved))
}

/// The store that a broker with these settings has.
pub fn store_options(settings: &Settings) -> storage::Options {
    let options = storage::Options {
        log_directory: Some(settings.log_directory()),
        segment_size: settings.storage.segment_size,
        queue_file_entries: settings.storage.queue_file_entries,
        key_index: settings.storage.index_enabled,
        key_index_slots: settings.storage.index_slots,
        key_index_entries: settings.storage.index_entries,
        recent_size: usize::try_from(settings.storage.tail_cache_size).unwrap_or(usize::MAX),
        record_checksums: settings.storage.record_checksums,
        index_rules: IndexRules::new(settings.delay.levels.iter().copied().map(milliseconds).collect()),
        retention: retention_policy(settings),
        ..storage::Options::new(&settings.storage.directory)
    };
    if settings.broker.role == BrokerRole::Slave { options.following() } else { options }
}

/// How long its log is kept.
pub(crate) fn retention_policy(settings: &Settings) -> RetentionPolicy {
    let retention = &settings.retention;
    let percent = |value: u32| u8::try_from(value.min(100)).unwrap_or(100);
    RetentionPolicy {
        age_ms: milliseconds(retention.age),
        delete_hours: retention.delete_hours.clone(),
        size: (retention.size > 0).then_some(retention.size),
        disk_used_percent: percent(retention.disk_used_percent),
        disk_force_percent: retention.force_enabled.then(|| percent(retention.disk_force_percent)),
        disk_refuse_percent: percent(retention.disk_refuse_percent),
    }
}

pub(crate) fn broker_options(settings: &Settings, store_host: SocketAddr) -> broker::Options {
    let model = amqp::model_options();
    broker::Options {
        cluster_name: settings.broker.cluster.clone(),
        broker_name: settings.broker.name.clone(),
        region: settings.broker.region.clone(),
        store_host,
        permission: permission_of(settings.broker.permission),
        message_size_max: usize::try_from(settings.message.size_max).unwrap_or(usize::MAX),
        ack_policy: AckPolicy {
            durable: settings.storage.flush == FlushMode::Sync,
            replicated: settings.broker.role == BrokerRole::SyncMaster,
        },
        replica_gap_max: settings.replication.gap_max,
        auto_create_topics: settings.topic.auto_create,
        auto_create_groups: settings.group.auto_create,
        system_topics: system_topics(&SystemTopicNames {
            cluster: &settings.broker.cluster,
            cluster_is_template: settings.topic.cluster_topic,
            broker: &settings.broker.name,
            broker_is_template: settings.topic.broker_topic,
            template_queues: settings.topic.auto_create.then_some(settings.topic.default_queues),
            trace: settings.topic.trace.then_some(&*settings.topic.trace_name),
        }),
        client_expiry_ms: milliseconds(settings.group.client_timeout),
        trace_on: settings.broker.trace_on,
        young_queue_size: YOUNG_QUEUE_SIZE,
        keeps_unsettled: settings.retention.keeps_unsettled,
        // Exchanges are there and messages die as they do, whether or not clients may connect now.
        model: broker::ModelOptions { first_host: model.first_host.filter(|_| settings.amqp.is_spoken()), ..model },
    }
}

/// A new group reads a queue from its start if the start is this close to the log's end. A Java broker decides by what is still in
/// memory; this is what one with 24 GiB would hold.
const YOUNG_QUEUE_SIZE: u64 = 8 * 1024 * 1024 * 1024;

/// Who reads what is this far behind the log's end reads what may not be in memory any more. A Java broker takes 40 % of the machine's
/// memory; this is what one with 10 GiB has.
const SLOW_READER_GAP: u64 = 4 * 1024 * 1024 * 1024;

/// The options that all sessions of AMQP share.
pub(crate) fn amqp_options(settings: &Settings) -> Arc<AmqpOptions> {
    let of = &settings.amqp;
    Arc::new(AmqpOptions {
        product: of.product.clone(),
        version: of.version.clone(),
        cluster_name: settings.broker.cluster.clone(),
        heartbeat_s: u16::try_from(of.heartbeat.as_secs()).unwrap_or(u16::MAX),
        replica_timeout_ms: milliseconds(settings.replication.timeout),
        consumer_timeout_ms: milliseconds(of.consumer_timeout),
        loopback_users: of.loopback_users.split(',').map(|user| user.trim().to_owned()).collect(),
        certificate_user: match of.certificate_user {
            settings::CertificateUser::CommonName => CertificateUser::CommonName,
            settings::CertificateUser::DistinguishedName => CertificateUser::DistinguishedName,
        },
        ..AmqpOptions::default()
    })
}

/// The options that all sessions share.
pub(crate) fn session_options(settings: &Settings, running: &Arc<Running>) -> Arc<SessionOptions> {
    Arc::new(SessionOptions {
        fetch_count_max: settings.fetch.messages_max as usize,
        fetch_size_max: usize::try_from(settings.fetch.size_max).unwrap_or(usize::MAX),
        long_polling: settings.fetch.long_polling,
        slave_reads: settings.replication.slave_reads,
        slow_reader_gap: SLOW_READER_GAP,
        short_poll_ms: milliseconds(settings.fetch.short_polling),
        flush_timeout_ms: milliseconds(settings.storage.flush_timeout),
        replica_timeout_ms: milliseconds(settings.replication.timeout),
        idle_timeout_ms: milliseconds(settings.rocketmq.idle_timeout),
        notify_changes: settings.group.notify_changes,
        assigns_queues: settings.group.assigns_queues,
        request_mode: match settings.group.request_mode {
            settings::RequestMode::Pull => RequestMode::Pull,
            settings::RequestMode::Pop => RequestMode::Pop,
        },
        shared_queues: i32::try_from(settings.group.shared_queues).unwrap_or(i32::MAX),
        query_count_max: settings.query.messages_max as usize,
        query_key_count_max: settings.query.key_messages_max as usize,
        settings: running.clone(),
    })
}

/// All settings by their own names and by those of RocketMQ, which admin tools look for.
pub(crate) fn shown_settings(settings: &Settings, effective: &[Effective]) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for one in effective {
        let value = settings.own_value(one.name).unwrap_or_else(|| one.value.clone());
        shown.push((one.name.to_owned(), value.to_string()));
        let aliases = table::find(one.name).map_or(&[][..], |setting| setting.aliases);
        for alias in aliases.iter().filter(|alias| alias.scope != Scope::NameServer) {
            shown.extend(alias.conversion.undo(&value).map(|value| (alias.key.to_owned(), value)));
        }
    }
    shown
}

pub(crate) fn intervals(settings: &Settings) -> broker::Intervals {
    broker::Intervals {
        flush_entries_ms: milliseconds(settings.storage.queue_flush_interval),
        save_documents_ms: milliseconds(settings.offset.flush_interval.min(settings.delay.flush_interval)),
        checkpoint_ms: milliseconds(CHECKPOINT_INTERVAL),
        retention_ms: milliseconds(settings.retention.check_interval),
    }
}

/// When the broker registers.
pub(crate) fn registration_times(settings: &Settings) -> Times {
    Times {
        interval_ms: milliseconds(settings.broker.registration_interval),
        timeout_ms: milliseconds(settings.broker.registration_timeout),
    }
}

/// How replicas are served.
pub(crate) fn replication_times(settings: &Settings) -> replication::Times {
    replication::Times {
        heartbeat_ms: milliseconds(settings.replication.heartbeat_interval),
        silence_ms: milliseconds(settings.replication.silence_max),
    }
}

/// The identity that the broker registers with.
pub(crate) fn identity(settings: &Settings, address: &str, replication_port: u16) -> Identity {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    Identity {
        cluster_name: settings.broker.cluster.clone(),
        broker_name: settings.broker.name.clone(),
        broker_id: i64::try_from(settings.broker.id).unwrap_or_default(),
        address: address.to_owned(),
        ha_address: format!("{host}:{replication_port}"),
        heartbeat_timeout_ms: None,
        // As a RocketMQ master that has no word for it.
        enable_acting_master: (settings.broker.role == BrokerRole::Slave).then_some(settings.replication.acting_master),
        zone: None,
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
