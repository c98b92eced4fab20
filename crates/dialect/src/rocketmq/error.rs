//! The one table from refusals to RocketMQ's response codes, and what users of its tools are told to do about them.

use base::Refusal;
use base::name::{DEAD_LETTER_PREFIX, RETRY_PREFIX};
use wire::rocketmq::code::response;

/// The code a client is told.
pub(super) const fn code_of(refusal: &Refusal) -> i32 {
    match refusal {
        Refusal::BadName { .. } => response::INVALID_PARAMETER,
        Refusal::NoSuchTopic(_) => response::TOPIC_NOT_EXIST,
        Refusal::ReservedTopic(_) | Refusal::NotPermitted(_) => response::NO_PERMISSION,
        Refusal::NoSuchGroup(_) => response::SUBSCRIPTION_GROUP_NOT_EXIST,
        Refusal::NoSuchQueue { .. } | Refusal::BadRequest(_) | Refusal::NoSuchMessage(_) | Refusal::Internal(_) => {
            response::SYSTEM_ERROR
        }
        Refusal::BadMessage(_) => response::MESSAGE_ILLEGAL,
        Refusal::BadFilter(_) => response::SUBSCRIPTION_PARSE_FAILED,
        Refusal::NoSubscription { .. } => response::SUBSCRIPTION_NOT_EXIST,
        Refusal::StaleSubscription { .. } => response::SUBSCRIPTION_NOT_LATEST,
        Refusal::NotFound(_) => response::QUERY_NOT_FOUND,
        Refusal::GroupOffline(_) => response::CONSUMER_NOT_ONLINE,
        Refusal::Unavailable(_) => response::SERVICE_NOT_AVAILABLE,
        Refusal::Busy(_) => response::SYSTEM_BUSY,
        Refusal::FlushTimedOut => response::FLUSH_DISK_TIMEOUT,
        Refusal::ReplicationTimedOut => response::FLUSH_SLAVE_TIMEOUT,
        Refusal::NoReplica => response::SLAVE_NOT_AVAILABLE,
        Refusal::NotSupported(_) => response::REQUEST_CODE_NOT_SUPPORTED,
    }
}

/// What a client is told in words: what is wrong, and the remedy.
pub(super) fn remark_of(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NoSuchTopic(topic) => format!("{refusal}{}", missing_topic_advice(topic)),
        Refusal::NoSuchGroup(_) => format!(
            "{refusal}; create it first (mqadmin updateSubGroup), or let groups be created automatically (group.auto_create)"
        ),
        _ => refusal.to_string(),
    }
}

/// What to do about a missing topic, by what its name says it is for.
fn missing_topic_advice(topic: &str) -> String {
    if let Some(group) = topic.strip_prefix(RETRY_PREFIX) {
        format!(
            ": group [{group}] keeps no retries here; it is made with the group's first heartbeat, so look whether the group's name is \
             right, and create the group if groups are not created automatically (mqadmin updateSubGroup, group.auto_create)"
        )
    } else if let Some(group) = topic.strip_prefix(DEAD_LETTER_PREFIX) {
        format!(": group [{group}] has no dead letters; it is made with the first of them")
    } else {
        "; create it first (mqadmin updateTopic), or send to it where topics are created automatically (topic.auto_create)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_topic_is_advised_on_by_what_it_is() {
        let advice = |topic: &str| remark_of(&Refusal::NoSuchTopic(topic.to_owned()));
        assert!(advice("orders").contains("updateTopic"));
        for (topic, says) in [("%RETRY%billing", "updateSubGroup"), ("%DLQ%billing", "no dead letters")] {
            let text = advice(topic);
            assert!(text.contains("group [billing]") && text.contains(says) && !text.contains("updateTopic"), "{text}");
        }
    }
}
