//! The one table from refusals to RocketMQ's response codes.

use base::Refusal;
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
        Refusal::NotSupported(_) => response::REQUEST_CODE_NOT_SUPPORTED,
    }
}
