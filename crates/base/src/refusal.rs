//! Protocol-free reasons for saying no. Each dialect maps them to its own codes in one table (`dialect/*/error.rs`).

use std::fmt;

use crate::name::{DEAD_LETTER_PREFIX, RETRY_PREFIX};
use crate::offset::QueueId;

/// Why an operation was not carried out. The text names the thing and, where there is one, the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A topic or group name that cannot be used.
    BadName {
        /// "topic" or "group".
        kind: &'static str,
        /// The name given.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The topic does not exist and may not be made on the fly.
    NoSuchTopic(String),
    /// The topic is kept by the broker itself and clients may not write or change it.
    ReservedTopic(String),
    /// The group does not exist and may not be made on the fly.
    NoSuchGroup(String),
    /// The topic has no such queue.
    NoSuchQueue {
        /// The topic.
        topic: String,
        /// The queue asked for.
        queue: i64,
        /// Queues there are.
        count: u32,
    },
    /// Reading or writing is switched off for the topic, the group or the whole broker.
    NotPermitted(String),
    /// The message cannot be kept: too large, too many properties, malformed.
    BadMessage(String),
    /// A field of the request is missing or has no usable value.
    BadRequest(String),
    /// A filter expression that cannot be understood.
    BadFilter(String),
    /// Nothing is known of the group's consumer or its subscription.
    NoSubscription {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
    },
    /// The subscription the client asks with is newer than the one it registered.
    StaleSubscription {
        /// The group.
        group: String,
    },
    /// No message at that place, under that key or id.
    NoSuchMessage(String),
    /// No value is kept for what was asked (an offset never committed, a missing key).
    NotFound(String),
    /// No consumer of the group is connected.
    GroupOffline(String),
    /// The broker cannot take writes now: the disk is full, the log is poisoned, it is stopping.
    Unavailable(String),
    /// A bound was reached; trying again later may work.
    Busy(String),
    /// The sync did not finish in time; the message is stored and will be synced.
    FlushTimedOut,
    /// Sluice does not have this feature.
    NotSupported(String),
    /// Something inside failed.
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { kind, name, problem } => write!(f, "the {kind} name [{name}] {problem}"),
            Self::NoSuchTopic(topic) if let Some(group) = topic.strip_prefix(RETRY_PREFIX) => write!(
                f,
                "topic[{topic}] not exist: group [{group}] keeps no retries here; it is made with the group's first heartbeat, so look \
                 whether the group's name is right, and create the group if groups are not created automatically (mqadmin \
                 updateSubGroup, group.auto_create)"
            ),
            Self::NoSuchTopic(topic) if let Some(group) = topic.strip_prefix(DEAD_LETTER_PREFIX) => write!(
                f,
                "topic[{topic}] not exist: group [{group}] has no dead letters; it is made with the first of them"
            ),
            Self::NoSuchTopic(topic) => write!(
                f,
                "topic[{topic}] not exist; create it first (mqadmin updateTopic), or send to it where topics are created automatically (topic.auto_create)"
            ),
            Self::ReservedTopic(topic) => write!(f, "the topic[{topic}] is conflict with system topic."),
            Self::NoSuchGroup(group) => write!(
                f,
                "subscription group [{group}] does not exist; create it first (mqadmin updateSubGroup), or let groups be created automatically (group.auto_create)"
            ),
            Self::NoSuchQueue { topic, queue, count } => {
                write!(f, "queueId[{queue}] is illegal, topic:[{topic}] has {count} queues")
            }
            Self::NotPermitted(text)
            | Self::BadMessage(text)
            | Self::BadRequest(text)
            | Self::BadFilter(text)
            | Self::NoSuchMessage(text)
            | Self::NotFound(text)
            | Self::Unavailable(text)
            | Self::Busy(text)
            | Self::NotSupported(text)
            | Self::Internal(text) => f.write_str(text),
            Self::NoSubscription { group, topic } => {
                write!(
                    f,
                    "the consumer's subscription not exist: group [{group}], topic [{topic}]; it comes with the consumer's heartbeat"
                )
            }
            Self::StaleSubscription { group } => {
                write!(f, "the consumer's subscription not latest: group [{group}]")
            }
            Self::GroupOffline(group) => write!(f, "the consumer group[{group}] not online"),
            Self::FlushTimedOut => f.write_str("the message is stored, but was not synced to disk in time"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_topic_is_advised_on_by_what_it_is() {
        let advice = |topic: &str| Refusal::NoSuchTopic(topic.to_owned()).to_string();
        assert!(advice("orders").contains("updateTopic"));
        for (topic, says) in [("%RETRY%billing", "updateSubGroup"), ("%DLQ%billing", "no dead letters")] {
            let text = advice(topic);
            assert!(text.contains("group [billing]") && text.contains(says) && !text.contains("updateTopic"), "{text}");
        }
    }
}
