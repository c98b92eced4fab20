//! One record in many queues: stored once, found in each, and there again after the queues' files are lost.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use base::metric::Metrics;
use base::{QueueId, Timestamp, TopicName};
use format::hash::tag_code;
use format::record::{Draft, Record, fan_out_properties, fan_out_queue_id};
use storage::{Options, QueueIndex, ReadMode, Store};

const OWN: &str = "orders";
const FURTHER: [&str; 3] = ["bills", "%LMQ%one", "stock"];

fn options(directory: &Path) -> Options {
    Options {
        segment_size: 1 << 20,
        queue_file_entries: 100,
        key_index_slots: 16,
        key_index_entries: 40,
        checkpoint_reserve: Some(4096),
        ..Options::new(directory)
    }
}

fn open(options: &Options) -> Store {
    Store::open(options.clone(), Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0
}

fn queue(store: &Store, topic: &str) -> Arc<QueueIndex> {
    store.queue(&TopicName::trusted(topic), fan_out_queue_id(topic, QueueId(1)))
}

/// Appends a record to its own queue and the further ones.
fn append(store: &Store, body: &[u8], further: &[&str]) {
    let block = if further.is_empty() { Vec::new() } else { fan_out_properties(further) };
    let properties: &[&[u8]] = &[b"TAGS\x01red\x02", &block, store.checksum_room()];
    let draft = Draft { properties, ..testkit::draft(OWN, QueueId(1), body) };
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &queue(store, OWN), &draft);
    batch.list_in(&further.iter().map(|topic| queue(store, topic)).collect::<Vec<_>>());
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
}

/// The bodies a queue leads to.
fn bodies(store: &Store, topic: &str) -> Vec<String> {
    let index = queue(store, topic);
    let entries = support::entries(&index);
    assert!(entries.iter().all(|(_, entry)| entry.tag_code == tag_code("red")));
    let found = store.read(&index, &entries, ReadMode::MayWait).expect("reads");
    let body_of = |bytes: &[u8]| Record::decode(bytes).expect("decodes").body.to_vec();
    found.iter().map(|bytes| String::from_utf8(body_of(bytes.expect("a record"))).expect("text")).collect()
}

fn assert_all_there(store: &Store) {
    assert_eq!(bodies(store, OWN), ["first", "second", "third", "last"]);
    assert_eq!(bodies(store, "bills"), ["second", "third"]);
    assert_eq!(bodies(store, "%LMQ%one"), ["second", "third"]);
    assert_eq!(bodies(store, "stock"), ["second", "third", "last"]);
}

#[test]
fn a_record_of_many_queues_is_found_in_each_and_again_when_their_files_are_lost() {
    for record_checksums in [false, true] {
        let directory = tempfile::tempdir().expect("directory");
        let options = Options { record_checksums, ..options(directory.path()) };
        let store = open(&options);
        append(&store, b"first", &[]);
        append(&store, b"second", &FURTHER);
        append(&store, b"third", &FURTHER);
        append(&store, b"last", &["stock"]);
        assert_all_there(&store);
        store.close().expect("closes");
        drop(store);
        assert_all_there(&open(&options));
        std::fs::remove_dir_all(directory.path().join("consumequeue")).expect("removes");
        assert_all_there(&open(&options));
    }
}

#[test]
fn a_body_is_stored_once_however_many_queues_list_it() {
    let directory = tempfile::tempdir().expect("directory");
    let store = open(&options(directory.path()));
    let topics: Vec<String> = (0..500).map(|number| format!("topic-{number}")).collect();
    let further: Vec<&str> = topics.iter().map(String::as_str).collect();
    let body = vec![b'x'; 100_000];
    append(&store, &body, &further);
    assert!(store.watermarks().written().0 < 150_000);
    assert!(topics.iter().all(|topic| bodies(&store, topic)[0].len() == body.len()));
}

#[test]
fn what_is_taken_out_of_a_batch_takes_no_place_in_any_queue() {
    let directory = tempfile::tempdir().expect("directory");
    let store = open(&options(directory.path()));
    let mut batch = store.begin_batch(0);
    for (body, further) in [(&b"one"[..], &FURTHER[..1]), (b"two", &FURTHER), (b"three", &FURTHER[1..])] {
        let properties = fan_out_properties(further);
        let draft = Draft { properties: &[&properties], ..testkit::draft(OWN, QueueId(1), body) };
        testkit::push(&store, &mut batch, &queue(&store, OWN), &draft);
        batch.list_in(&further.iter().map(|topic| queue(&store, topic)).collect::<Vec<_>>());
    }
    batch.truncate(1);
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    let counts = [OWN, "bills", "%LMQ%one", "stock"].map(|topic| queue(&store, topic).end().0);
    assert_eq!(counts, [1, 1, 0, 0]);
}
