//! Rows about the broker, and what it does with topics, groups, messages and offsets.

use std::time::Duration;

use base::limits;

use super::row::{converted, milliseconds, same, section, times_ms};
use crate::choice::{BrokerRole, RequestMode};
use crate::conversion::Conversion;
use crate::kind::Kind;

/// RocketMQ's names of the roles.
const ROLES: &[(&str, &str)] = &[("ASYNC_MASTER", "async_master"), ("SYNC_MASTER", "sync_master"), ("SLAVE", "slave")];

/// RocketMQ's names of the ways to ask for messages.
const REQUEST_MODES: &[(&str, &str)] = &[("PULL", "pull"), ("POP", "pop")];

/// What one connection may have waiting to be sent; a larger fetch could never be held.
const FETCH_SIZE_MAX: u64 = limits::OUTPUT_BACKLOG_SIZE_MAX as u64;

/// A message larger than a frame could never arrive.
const MESSAGE_SIZE_MAX: u64 = limits::FRAME_SIZE_MAX as u64;

section!(Broker, "broker", "Identity of the broker, and its registration at name servers" {
    cluster: String = "DefaultCluster", Kind::Text,
        "Name of the cluster",
        "the default name in RocketMQ",
        same("brokerClusterName");
    name: String = "broker-a", Kind::Text,
        "Name of the broker group: a master and its replicas share it",
        "a fixed name survives a move to another machine; each master of a cluster needs its own",
        same("brokerName");
    id: u64 = "0", Kind::Integer { min: 0, max: 1_000_000 },
        "Number within the broker group; 0 is the master",
        "a single broker is the master of its group",
        same("brokerId");
    host: Option<String> = "", Kind::Host,
        "Address that clients are told to connect to; when not set, listen.host, or with 0.0.0.0 an address of this machine",
        "usually the address it listens on; set it behind NAT or in a container",
        same("brokerIP1");
    name_servers: Vec<String> = "", Kind::Addresses,
        "Addresses (host:port) of the name servers to register with",
        "not needed when the process runs its own name server",
        same("namesrvAddr");
    permission: u32 = "6", Kind::Integer { min: 0, max: 7 },
        "What clients may do, as a sum: 4 read, 2 write",
        "6 allows both; set 4 to drain a broker before maintenance",
        same("brokerPermission");
    region: String = "DefaultRegion", Kind::Text,
        "Region name in replies and message traces",
        "the default name in RocketMQ",
        same("regionId");
    registration_interval: Duration = "30s", times_ms(1_000, 60_000),
        "How often the broker registers with the name servers",
        "a name server misses four before it drops the broker",
        converted("registerNameServerPeriod",
            Conversion::Clamped { min: 10_000, max: 60_000, unit: "ms" });
    registration_timeout: Duration = "24s", times_ms(100, 600_000),
        "Time limit for one registration",
        "shorter than the interval, so that registrations do not overlap",
        milliseconds("registerBrokerTimeoutMills");
    role: BrokerRole = "async_master", Kind::Choice {
            known: &["async_master", "sync_master", "slave"],
            later: &[],
        },
        "Role of the broker in its group: a master that answers producers before its slaves have their messages, or after; or a slave",
        "a master that does not wait for replicas",
        converted("brokerRole", Conversion::Words(ROLES));
    trace_on: bool = "true", Kind::Boolean,
        "Whether producers are told that they may send message traces",
        "as in RocketMQ; producers decide for themselves whether to trace",
        same("traceOn");
});

section!(Topic, "topic", "Creation of topics, and system topics" {
    auto_create: bool = "true", Kind::Boolean,
        "Whether the first message to an unknown topic creates it",
        "convenient for a start; turn off where topics are managed by administrators",
        same("autoCreateTopicEnable");
    default_queues: u32 = "8",
        Kind::Integer { min: 1, max: limits::QUEUES_PER_TOPIC_MAX as u64 },
        "Most queues of an automatically created topic",
        "as in RocketMQ; producers ask for 4 by default",
        same("defaultTopicQueueNums");
    cluster_topic: bool = "true", Kind::Boolean,
        "Whether the system topic named like the cluster exists",
        "admin tools use it to find the brokers of a cluster",
        same("clusterTopicEnable");
    broker_topic: bool = "true", Kind::Boolean,
        "Whether the system topic named like the broker exists",
        "admin tools use it to test a single broker",
        same("brokerTopicEnable");
    trace: bool = "false", Kind::Boolean,
        "Whether the topic for message traces is created at start",
        "tracing costs one more message per message; turn on if clients trace",
        same("traceTopicEnable");
    trace_name: String = "RMQ_SYS_TRACE_TOPIC", Kind::Text,
        "Name of the topic for message traces",
        "the name that RocketMQ clients use by default",
        same("msgTraceTopicName");
});

section!(Group, "group", "Consumer groups and their members" {
    auto_create: bool = "true", Kind::Boolean,
        "Whether the first consumer of an unknown group creates it",
        "convenient for a start; turn off where groups are managed by administrators",
        same("autoCreateSubscriptionGroup");
    notify_changes: bool = "true", Kind::Boolean,
        "Whether members are notified when another joins or leaves",
        "they rebalance queues at once instead of within 20 s",
        same("notifyConsumerIdsChangedEnable");
    client_timeout: Duration = "2m", times_ms(1_000, 86_400_000),
        "Time without a heartbeat after which a client is removed from its groups",
        "four heartbeat intervals, as in RocketMQ; lower it for faster failover",
        milliseconds("channelExpiredTimeout");
    assigns_queues: bool = "true", Kind::Boolean,
        "Whether the broker divides queues among consumers that leave it to the broker; otherwise each of them gets all",
        "as in RocketMQ; only consumers of 5.x leave it to the broker, and only if they are told to",
        same("serverLoadBalancerEnable");
    request_mode: RequestMode = "pull", Kind::Choice { known: &["pull", "pop"], later: &[] },
        "How such consumers ask for messages, unless their group was given a mode: pull, each from queues of its own, or pop, from shared ones",
        "as in RocketMQ",
        converted("defaultMessageRequestMode", Conversion::Words(REQUEST_MODES));
    shared_queues: u32 = "0", Kind::Integer { min: 0, max: i32::MAX as u64 },
        "With pop, and unless their group was given a number: how many other members' queues each one asks too; 0: all",
        "as in RocketMQ: no queue waits for a slow member",
        converted("defaultPopShareQueueNum", Conversion::NothingBelowOne);
});

section!(Message, "message", "Limits of a message" {
    size_max: u64 = "4MiB", Kind::Bytes { min: 1, max: MESSAGE_SIZE_MAX },
        "Largest message body",
        "the default limit of RocketMQ clients; raise it there as well",
        converted("maxMessageSize",
            Conversion::Clamped { min: 1, max: MESSAGE_SIZE_MAX, unit: "" });
});

section!(Fetch, "fetch", "Limits of one fetch (pull) by a consumer" {
    messages_max: u32 = "1024", Kind::Integer { min: 1, max: 1_000_000 },
        "Most messages in one reply",
        "more than clients ask for by default, so that their own setting decides",
        same("maxTransferCountOnMessageInMemory");
    size_max: u64 = "1MiB", Kind::Bytes { min: 1, max: FETCH_SIZE_MAX },
        "Most bytes in one reply, 128 KiB at most where it has to be read from the disk; a single larger message is still returned",
        "large enough for full batches, small enough to keep memory per connection low",
        converted("maxTransferBytesOnMessageInMemory",
            Conversion::Clamped { min: 1, max: FETCH_SIZE_MAX, unit: "" });
    long_polling: bool = "true", Kind::Boolean,
        "Whether a fetch that finds nothing waits for a message, as long as the client allows",
        "messages arrive at once, without repeated polling",
        same("longPollingEnable");
    short_polling: Duration = "1s", times_ms(0, 3_600_000),
        "How long a fetch that finds nothing waits with long_polling = false",
        "as in RocketMQ",
        milliseconds("shortPollingTimeMills");
});

section!(Offset, "offset", "Committed offsets of consumer groups" {
    flush_interval: Duration = "1s", times_ms(10, 3_600_000),
        "How often committed offsets are exported to `consumerOffset.json`, for a RocketMQ broker that takes over",
        "bounds how many messages such a broker delivers again; Sluice itself keeps offsets in the log",
        milliseconds("flushConsumerOffsetInterval");
});

section!(Delay, "delay", "Delayed messages" {
    levels: Vec<Duration> = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        Kind::Delays,
        "Delays of the delay levels, level 1 first",
        "the levels of RocketMQ, on which clients rely, for retries too",
        same("messageDelayLevel");
    flush_interval: Duration = "1s", times_ms(10, 3_600_000),
        "How often the progress of delayed delivery is exported to `delayOffset.json`, for a RocketMQ broker that takes over",
        "bounds how many delayed messages such a broker delivers twice; Sluice itself keeps the progress in the log",
        milliseconds("flushDelayOffsetInterval");
});

section!(Query, "query", "Message queries by key or unique id" {
    messages_max: u32 = "32", Kind::Integer { min: 1, max: 100_000 },
        "Most messages that a query by unique id returns, whatever the client asks for",
        "a message rarely has more copies than that",
        same("defaultQueryMaxNum");
    key_messages_max: u32 = "64", Kind::Integer { min: 1, max: 100_000 },
        "Most messages that a query by key or unique id returns",
        "enough to look through; raise it if many messages share a key",
        same("maxMsgsNumBatch");
});
