//! Directories an official 5.4.0 broker wrote, stopped in good order and killed: everything in them is served as it was.
//! What they hold stands in testdata/rocketmq/README.md.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;

use base::{QueueId, Timestamp};
use broker::{Filter, KeyKind};
use format::record::Record;
use testkit::{at, copy_directory};

/// The official delay levels.
fn delays_ms() -> Vec<u64> {
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200].map(|s| s * 1000).to_vec()
}

fn is_served_as_it_was(name: &str) {
    let fixture = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq")).join(name);
    let scratch = tempfile::tempdir().expect("directory");
    copy_directory(&fixture, scratch.path());
    let mut bench = support::open_with(scratch.path(), at(2_000_000_000_000), delays_ms(), |_| ());
    for (topic, queue, count, size) in
        [("OldA", 0, 1100_u64, 60), ("OldA", 1, 150, 60), ("OldB", 0, 150, 3000), ("OldB", 1, 150, 3000)]
    {
        let mut offset = 0;
        while offset < count {
            let fetched = bench.fetch(topic, queue, offset as i64, Filter::All);
            for bytes in fetched.records().take((count - offset) as usize) {
                let record = Record::decode(bytes).expect("a record");
                let text = format!("{topic} queue {queue} offset {offset} ");
                assert_eq!(record.body.len(), size);
                assert!(record.body.starts_with(text.as_bytes()), "{topic} {queue} {offset}");
                assert_eq!(record.queue_offset.0, offset);
                assert_eq!(record.property("number"), Some(&*offset.to_string()));
                offset += 1;
            }
        }
    }
    let tagged = bench.fetch("OldA", 1, 0, Filter::parse("TagB").expect("a tag"));
    assert_eq!(tagged.count, 75);
    let all = (Timestamp(0), Timestamp(u64::MAX / 2));
    let found = bench.broker.lookup.by_key("OldA", "key-0-1042", KeyKind::Key, all, (10, usize::MAX)).expect("found");
    assert_eq!(Record::decode(&found[0]).expect("a record").queue_offset.0, 1042);
    let offset = |topic, queue| bench.broker.offsets.committed(topic, "old_group", QueueId(queue));
    assert_eq!((offset("OldA", 0), offset("OldA", 1)), (Some(1000), Some(20)));
    assert_eq!((offset("OldB", 0), offset("OldB", 1)), (Some(5), None));
    // Due long ago: delivered at once, to the queue it was sent to.
    bench.advance(1);
    assert_eq!(bench.bodies("OldA", 1).last().map(String::as_str), Some("OldA delayed"));
}

#[test]
fn a_directory_of_a_java_broker_that_stopped_is_served_as_it_was() {
    is_served_as_it_was("store-5.4.0");
}

#[test]
fn a_directory_of_a_java_broker_that_was_killed_is_served_as_it_was() {
    is_served_as_it_was("store-5.4.0-killed");
}
