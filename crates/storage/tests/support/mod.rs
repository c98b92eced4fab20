//! What tests of the store share.

#![allow(dead_code, clippy::expect_used, reason = "support of several tests, each of which uses a part")]

pub mod beside;
pub mod orders;
pub mod world;

use base::{QueueId, QueueOffset, Timestamp};
use format::record::Draft;
use storage::{Entry, QueueIndex, ReadMode};

/// A message without properties; what no test looks at is the same in all of them.
pub fn draft<'a>(topic: &'a str, queue: QueueId, body: &'a [u8]) -> Draft<'a> {
    Draft {
        topic,
        queue,
        flag: 0,
        system_flag: 0,
        born_timestamp: Timestamp(5),
        born_host: "127.0.0.1:1".parse().expect("address"),
        store_host: "127.0.0.1:2".parse().expect("address"),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: &[],
    }
}

/// Every entry of a queue, with its offset.
pub fn entries(queue: &QueueIndex) -> Vec<(QueueOffset, Entry)> {
    let mut entries = Vec::new();
    while queue.first().after(entries.len() as u64) < queue.end() {
        let (from, before) = (queue.first().after(entries.len() as u64), entries.len());
        queue.read(from, 7, ReadMode::MayWait, &mut entries).expect("reads entries");
        assert!(entries.len() > before, "no entries at {from}");
    }
    (0..).map(|number| queue.first().after(number)).zip(entries).collect()
}
