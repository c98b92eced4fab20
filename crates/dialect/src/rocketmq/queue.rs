//! Queues as clients name them.

use base::{QueueId, Refusal};
use broker::{Broker, Topic};
use wire::rocketmq::body::client::MessageQueue;

/// A queue number of a request.
pub(super) fn queue_id(topic: &str, number: i32, broker: &Broker) -> Result<QueueId, Refusal> {
    queue_of(&*broker.catalog.topic(topic).ok_or_else(|| Refusal::NoSuchTopic(topic.to_owned()))?, number)
}

/// The same of a topic that is known.
pub(super) fn queue_of(topic: &Topic, number: i32) -> Result<QueueId, Refusal> {
    let count = topic.queues.len() as u32;
    let queue = u32::try_from(number).ok().filter(|&number| number < count).map(QueueId);
    queue.ok_or_else(|| Refusal::no_such_queue(topic.name.as_str(), i64::from(number), count))
}

/// A queue as clients name it.
pub(super) fn message_queue(broker: &Broker, topic: &str, queue: QueueId) -> MessageQueue {
    MessageQueue {
        broker_name: broker.options().broker_name.clone(),
        queue_id: i32::try_from(queue.0).unwrap_or(i32::MAX),
        topic: topic.to_owned(),
    }
}
