//! Routes: which brokers have which queues of a topic.
