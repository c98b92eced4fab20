//! Protocol-free reasons for saying no. Each dialect maps them to its own codes in one table (`dialect/*/error.rs`).

use crate::offset::QueueId;

/// Why an operation was not carried out. The text names the thing and, where there is one that needs no tool, the
/// remedy; a dialect adds what its users do with theirs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A topic or group name that cannot be used.
    #[error("the {kind} name [{name}] {problem}")]
    BadName {
        /// "topic" or "group".
        kind: &'static str,
        /// The name given.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The topic does not exist and may not be made on the fly.
    #[error("topic[{0}] not exist")]
    NoSuchTopic(String),
    /// The topic is kept by the broker itself and clients may not write or change it.
    #[error("the topic[{0}] is conflict with system topic.")]
    ReservedTopic(String),
    /// The group does not exist and may not be made on the fly.
    #[error("subscription group [{0}] does not exist")]
    NoSuchGroup(String),
    /// The topic has no such queue.
    #[error("queueId[{queue}] is illegal, topic:[{topic}] has {count} queues")]
    NoSuchQueue {
        /// The topic.
        topic: String,
        /// The queue asked for.
        queue: i64,
        /// Queues there are.
        count: u32,
    },
    /// Reading or writing is switched off for the topic, the group or the whole broker.
    #[error("{0}")]
    NotPermitted(String),
    /// The message cannot be kept: too large, too many properties, malformed.
    #[error("{0}")]
    BadMessage(String),
    /// A field of the request is missing or has no usable value.
    #[error("{0}")]
    BadRequest(String),
    /// A filter expression that cannot be understood.
    #[error("{0}")]
    BadFilter(String),
    /// Nothing is known of the group's consumer or its subscription.
    #[error(
        "the consumer's subscription not exist: group [{group}], topic [{topic}]; it comes with the consumer's heartbeat"
    )]
    NoSubscription {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
    },
    /// The subscription the client asks with is newer than the one it registered.
    #[error("the consumer's subscription not latest: group [{group}]")]
    StaleSubscription {
        /// The group.
        group: String,
    },
    /// No message at that place, under that key or id.
    #[error("{0}")]
    NoSuchMessage(String),
    /// No value is kept for what was asked (an offset never committed, a missing key).
    #[error("{0}")]
    NotFound(String),
    /// No consumer of the group is connected.
    #[error("the consumer group[{0}] not online")]
    GroupOffline(String),
    /// The broker cannot take writes now: the disk is full, the log is poisoned, it is stopping.
    #[error("{0}")]
    Unavailable(String),
    /// A bound was reached; trying again later may work.
    #[error("{0}")]
    Busy(String),
    /// The sync did not finish in time; the message is stored and will be synced.
    #[error("the message is stored, but was not synced to disk in time")]
    FlushTimedOut,
    /// The replicas did not have it in time; the message is stored and will be replicated.
    #[error("the message is stored, but was not replicated in time")]
    ReplicationTimedOut,
    /// No replica is near enough to be waited for; the message is stored and will be replicated.
    #[error(
        "the message is stored, but no replica is in reach: fewer are connected than replication.copies asks for, or they lag by over replication.gap_max"
    )]
    NoReplica,
    /// Sluice does not have this feature.
    #[error("{0}")]
    NotSupported(String),
    /// Something inside failed.
    #[error("{0}")]
    Internal(String),
}

impl Refusal {
    /// A queue that the topic does not have.
    pub fn no_such_queue(topic: &str, queue: i64, count: u32) -> Self {
        Self::NoSuchQueue { topic: topic.to_owned(), queue, count }
    }

    /// A queue by its id.
    pub fn no_queue_id(topic: &str, queue: QueueId, count: u32) -> Self {
        Self::no_such_queue(topic, i64::from(queue.0), count)
    }
}
