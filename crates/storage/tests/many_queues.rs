//! What a store promises however many queues it has. By itself in its process: it counts the files that are open.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use base::metric::Metrics;
use base::{QueueId, QueueOffset, Timestamp, TopicName};
use storage::{Options, Store};

const QUEUES: u32 = 600;
const OPEN_QUEUE_FILES: usize = 16;
/// Lock, log, keys, standard streams, and what the cache allows itself.
const OTHER_FILES: usize = 24;

fn append_to_all(store: &Store) {
    let topic = TopicName::trusted("many");
    let mut batch = store.begin_batch(0);
    for queue in (0..QUEUES).map(QueueId) {
        testkit::push(store, &mut batch, &store.queue(&topic, queue), &testkit::draft(topic.as_str(), queue, b"body"));
    }
    store.append(batch, Timestamp(1_700_000_000_000)).expect("appends");
    store.write_staged().expect("writes");
}

fn assert_few_files_are_open() {
    let open = std::fs::read_dir("/proc/self/fd").expect("this process").count();
    assert!(open <= OPEN_QUEUE_FILES + OTHER_FILES, "{open} files are open");
}

#[test]
fn files_that_are_open_do_not_grow_with_queues_and_every_entry_survives_a_kill() {
    let directory = tempfile::tempdir().expect("directory");
    let options = Options {
        segment_size: 1 << 20,
        queue_file_entries: 2,
        gathered_entries: 0,
        open_queue_files: OPEN_QUEUE_FILES,
        key_index: false,
        checkpoint_reserve: Some(4096),
        ..Options::new(directory.path())
    };
    for life in 1..=3 {
        let (store, _) = Store::open(options.clone(), Arc::new(Metrics::default()), &mut |_| ()).expect("opens");
        append_to_all(&store);
        store.flush_entries().expect("flushes");
        assert_few_files_are_open();
        if life == 2 {
            store.checkpoint().expect("checkpoint");
            assert_few_files_are_open();
        }
        for queue in (0..QUEUES).map(QueueId) {
            let index = store.queue(&TopicName::trusted("many"), queue);
            assert_eq!((index.first(), index.end()), (QueueOffset(0), QueueOffset(life)));
            assert!(index.entry(QueueOffset(0)).expect("reads").is_some());
        }
        assert_few_files_are_open();
    }
}
