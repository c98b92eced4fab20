//! Which queues a member of a group consumes, where the broker says so (400 QUERY_ASSIGNMENT).

use format::request_mode::RequestMode;
use serde::{Deserialize, Serialize};

use super::client::MessageQueue;

/// What a member asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AssignmentQuery {
    /// Its id.
    pub client_id: String,
    /// Its group.
    pub consumer_group: String,
    /// `CLUSTERING` or `BROADCASTING`.
    pub message_model: String,
    /// How queues are to be divided, as `AVG`.
    pub strategy_name: String,
    /// Of which topic.
    pub topic: String,
}

/// What it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Assignments {
    /// Its queues. None: it has none any more. `None`: it cannot be said, and the member goes on with those it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_queue_assignments: Option<Vec<QueueAssignment>>,
}

/// A queue that it consumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueAssignment {
    /// The queue; with number -1 any queue of the broker.
    pub message_queue: MessageQueue,
    /// How it asks for messages.
    pub mode: RequestMode,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocketmq::body::client::decode;

    #[test]
    fn a_query_of_a_5_4_0_client_is_read() {
        let body = br#"{"clientId":"10.0.0.1@7","consumerGroup":"billing","messageModel":"CLUSTERING","strategyName":"AVG","topic":"orders"}"#;
        let query: AssignmentQuery = decode("assignment query", body).expect("decodes");
        assert_eq!(serde_json::to_string(&query).expect("text").as_bytes(), body);
        let without: AssignmentQuery = decode("assignment query", br#"{"topic":"orders"}"#).expect("decodes");
        assert_eq!((&*without.topic, &*without.strategy_name), ("orders", ""));
    }

    #[test]
    fn having_no_queue_and_not_knowing_are_written_apart() {
        let queue = MessageQueue { broker_name: "b".into(), queue_id: -1, topic: "t".into() };
        let told = Assignments {
            message_queue_assignments: Some(vec![QueueAssignment { message_queue: queue, mode: RequestMode::Pop }]),
        };
        let text = |assignments: &Assignments| serde_json::to_string(assignments).expect("text");
        assert_eq!(
            text(&told),
            r#"{"messageQueueAssignments":[{"messageQueue":{"brokerName":"b","queueId":-1,"topic":"t"},"mode":"POP"}]}"#
        );
        assert_eq!(text(&Assignments { message_queue_assignments: Some(vec![]) }), r#"{"messageQueueAssignments":[]}"#);
        assert_eq!(text(&Assignments::default()), "{}");
    }
}
