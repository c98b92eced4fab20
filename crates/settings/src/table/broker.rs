//! Rows about the broker, and what it does with topics, groups, messages and offsets.

use std::time::Duration;

use base::limits;

use super::{converted, milliseconds, same, section, times_ms};
use crate::choice::BrokerRole;
use crate::conversion::Conversion;
use crate::kind::Kind;

const REPLICATION: &str = "replication";

/// RocketMQ's names of the roles.
const ROLES: &[(&str, &str)] = &[("ASYNC_MASTER", "async_master"), ("SYNC_MASTER", "sync_master"), ("SLAVE", "slave")];

/// What one connection may have waiting to be sent; a larger fetch could never be held.
const FETCH_SIZE_MAX: u64 = limits::OUTPUT_BACKLOG_SIZE_MAX as u64;

/// A message larger than a frame could never arrive.
const MESSAGE_SIZE_MAX: u64 = limits::FRAME_SIZE_MAX as u64;

section!(Broker, "broker", "Who the broker is, and to whom it says so" {
    cluster: String = "DefaultCluster", Kind::Text,
        "Cluster that the broker belongs to",
        "the name that RocketMQ gives",
        same("brokerClusterName");
    name: String = "broker-a", Kind::Text,
        "Broker group that the broker belongs to",
        "one name that does not change with the machine",
        same("brokerName");
    id: u64 = "0", Kind::Integer { min: 0, max: 1_000_000 },
        "Number within the broker group; 0 is the master",
        "a broker alone is its group's master",
        same("brokerId");
    host: Option<String> = "", Kind::Host,
        "Address that clients are told; when not set, listen.host, or found at start if that is 0.0.0.0",
        "what clients can reach is usually what is listened on",
        same("brokerIP1");
    name_servers: Vec<String> = "", Kind::Addresses,
        "Name servers that the broker registers with",
        "a process that serves everything registers with its own name server",
        same("namesrvAddr");
    permission: u32 = "6", Kind::Integer { min: 0, max: 7 },
        "What clients may do: 4 read, 2 write, 6 both",
        "a broker is there to be read from and written to",
        same("brokerPermission");
    region: String = "DefaultRegion", Kind::Text,
        "Region written into replies and traces",
        "the name that RocketMQ gives",
        same("regionId");
    registration_interval: Duration = "30s", times_ms(1_000, 60_000),
        "How often the broker registers with the name servers",
        "four tries before a name server drops the broker",
        converted("registerNameServerPeriod",
            Conversion::Clamped { min: 10_000, max: 60_000, unit: "ms" });
    registration_timeout: Duration = "24s", times_ms(100, 600_000),
        "How long one registration may take",
        "ends before the next one is due",
        milliseconds("registerBrokerTimeoutMills");
    role: BrokerRole = "async_master", Kind::Choice {
            known: &["async_master"],
            later: &[("sync_master", REPLICATION), ("slave", REPLICATION)],
        },
        "Part that the broker plays in its group",
        "a master that answers without waiting for replicas",
        converted("brokerRole", Conversion::Words(ROLES));
    trace_on: bool = "true", Kind::Boolean,
        "Whether replies tell producers that their messages may be traced",
        "as in RocketMQ; producers decide whether to trace",
        same("traceOn");
});

section!(Topic, "topic", "Topics and how they come to be" {
    auto_create: bool = "true", Kind::Boolean,
        "Whether the first message to an unknown topic creates it",
        "works at once; clusters with many teams turn it off",
        same("autoCreateTopicEnable");
    default_queues: u32 = "8",
        Kind::Integer { min: 1, max: limits::QUEUES_PER_TOPIC_MAX as u64 },
        "Most queues that a topic created by a first message gets",
        "as in RocketMQ; a producer asks for 4 unless told otherwise",
        same("defaultTopicQueueNums");
    cluster_topic: bool = "true", Kind::Boolean,
        "Whether there is a system topic with the cluster's name",
        "the admin tools find the brokers of a cluster by it",
        same("clusterTopicEnable");
    broker_topic: bool = "true", Kind::Boolean,
        "Whether there is a system topic with the broker's name",
        "the admin tools test a single broker with it",
        same("brokerTopicEnable");
    trace: bool = "false", Kind::Boolean,
        "Whether the trace topic is there from the start",
        "traces cost a message for every message",
        same("traceTopicEnable");
    trace_name: String = "RMQ_SYS_TRACE_TOPIC", Kind::Text,
        "Name of the trace topic",
        "the name that RocketMQ clients send traces to",
        same("msgTraceTopicName");
});

section!(Group, "group", "Groups of consumers and their clients" {
    auto_create: bool = "true", Kind::Boolean,
        "Whether a first consumer creates its group",
        "works at once; clusters with many teams turn it off",
        same("autoCreateSubscriptionGroup");
    notify_changes: bool = "true", Kind::Boolean,
        "Whether members are told at once when one comes or goes",
        "they share the queues anew at once instead of within 20 s",
        same("notifyConsumerIdsChangedEnable");
    client_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "How long a client may be silent before it leaves its groups",
        "four missed heartbeats, as in RocketMQ",
        milliseconds("channelExpiredTimeout");
});

section!(Message, "message", "What a message may be" {
    size_max: u64 = "4MiB", Kind::Bytes { min: 1, max: MESSAGE_SIZE_MAX },
        "Largest body of a message",
        "the limit that RocketMQ clients keep as well",
        converted("maxMessageSize",
            Conversion::Clamped { min: 1, max: MESSAGE_SIZE_MAX, unit: "" });
});

section!(Fetch, "fetch", "What a consumer gets for one request" {
    messages_max: u32 = "1024", Kind::Integer { min: 1, max: 1_000_000 },
        "Most messages in one reply",
        "more than a client asks for by default, so that asking for more helps",
        same("maxTransferCountOnMessageInMemory");
    size_max: u64 = "1MiB", Kind::Bytes { min: 1, max: FETCH_SIZE_MAX },
        "Most bytes in one reply; one message is always returned",
        "large enough for full batches, small enough to share a connection",
        converted("maxTransferBytesOnMessageInMemory",
            Conversion::Clamped { min: 1, max: FETCH_SIZE_MAX, unit: "" });
    long_polling: bool = "true", Kind::Boolean,
        "Whether a fetch that finds nothing waits for as long as the client allows",
        "messages arrive at once without busy asking",
        same("longPollingEnable");
    short_polling: Duration = "1s", times_ms(0, 3_600_000),
        "How long such a fetch waits when long_polling is off",
        "as in RocketMQ",
        milliseconds("shortPollingTimeMills");
});

section!(Offset, "offset", "Committed offsets of the groups" {
    flush_interval: Duration = "1s", times_ms(10, 3_600_000),
        "How often committed offsets are written to disk",
        "what a killed process repeats to its consumers stays small",
        milliseconds("flushConsumerOffsetInterval");
});

section!(Delay, "delay", "Messages that are delivered later" {
    levels: Vec<Duration> = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        Kind::Delays,
        "Delay of each level, level 1 first",
        "the eighteen levels that RocketMQ clients count on, retries among them",
        same("messageDelayLevel");
    flush_interval: Duration = "1s", times_ms(10, 3_600_000),
        "How often the progress of delayed delivery is written to disk",
        "what a killed process delivers twice stays small",
        milliseconds("flushDelayOffsetInterval");
});

section!(Query, "query", "Queries by key or time" {
    messages_max: u32 = "32", Kind::Integer { min: 1, max: 100_000 },
        "Messages that a query by unique id returns at most, whatever number it names",
        "copies of one message are few",
        same("defaultQueryMaxNum");
    key_messages_max: u32 = "64", Kind::Integer { min: 1, max: 100_000 },
        "Messages that a query by key or unique id returns at most",
        "a page that a person reads",
        same("maxMsgsNumBatch");
});
