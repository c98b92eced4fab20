//! Routed messages in lanes of message queues.

use std::sync::Arc;

use base::{QueueId, QueueNumber, Timestamp, TopicName};
use format::routed::RoutedDraft;
use storage::{AppendBatch, QueueIndex, Store};

/// A lane by its queue's number and its own.
pub fn lane(store: &Store, (number, lane): (u32, u8)) -> Arc<QueueIndex> {
    store.queue(&TopicName::of_message_queue(QueueNumber(number)), QueueId(u32::from(lane)))
}

/// A lane, and how long the message lives there.
pub type To = ((u32, u8), Option<u64>);

pub fn push(store: &Store, batch: &mut AppendBatch, body: &[u8], to: &[To]) {
    let draft = RoutedDraft {
        exchange: b"trades",
        key: b"stock.eu",
        header: b"header",
        body: &[body],
        born_timestamp: Timestamp(500),
        born_host: "127.0.0.1:40000".parse().expect("an address"),
        store_host: "127.0.0.1:10911".parse().expect("an address"),
        deaths: 0,
    };
    let destinations: Vec<_> = to.iter().map(|(at, time_to_live)| (lane(store, *at), *time_to_live)).collect();
    batch.push_routed(&draft, &destinations);
}

/// Appends one message and writes it.
pub fn append(store: &Store, body: &[u8], to: &[To]) {
    let mut batch = store.begin_batch(0);
    push(store, &mut batch, body, to);
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
}
