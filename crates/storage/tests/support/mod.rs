//! What tests of the store share.

#![allow(dead_code, clippy::expect_used, reason = "support of several tests, each of which uses a part")]

pub mod beside;
pub mod lanes;
pub mod orders;
pub mod woken;
pub mod world;

use base::QueueOffset;
use format::queue_entry::Entry;
use storage::{QueueIndex, ReadMode};

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
