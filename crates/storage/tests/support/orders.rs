//! A small store with one topic, `orders`, whose messages follow from their places.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::metric::Metrics;
use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use format::hash::key_hash;
use format::index_rules::IndexRules;
use format::record::{Draft, Record};
use storage::{Options, ReadMode, Recovery, Store};

use super::entries;
use testkit::draft as draft_of;

pub const SEGMENT_SIZE: u64 = 4096;

pub fn options(directory: &Path) -> Options {
    Options {
        segment_size: SEGMENT_SIZE,
        queue_file_entries: 8,
        checkpoint_reserve: Some(4096),
        key_index_slots: 16,
        key_index_entries: 40,
        recent_size: 1024,
        index_rules: IndexRules::new(vec![1000]),
        ..Options::new(directory)
    }
}

pub fn open(directory: &Path) -> (Store, Recovery) {
    Store::open(options(directory), Arc::new(Metrics::default()), &mut |_| ()).expect("opens")
}

pub fn topic() -> TopicName {
    TopicName::trusted("orders")
}

pub fn body_of(queue: u32, offset: u64) -> Vec<u8> {
    let length = (offset * 37 % 200) as usize;
    let mut body = format!("{queue}/{offset}/").into_bytes();
    body.resize(body.len() + length, b'x');
    body
}

pub fn draft(body: &[u8], queue: u32) -> Draft<'_> {
    draft_of("orders", QueueId(queue), body)
}

/// Appends one message to `queue` with a body that follows from its place.
pub fn append_to(store: &Store, queue: u32) -> (QueueOffset, LogOffset) {
    let index = store.queue(&topic(), QueueId(queue));
    let body = body_of(queue, index.end().0);
    let key = format!("KEYS\u{1}k{queue}-{}\u{2}", index.end().0);
    let properties: &[&[u8]] = &[key.as_bytes()];
    let draft = Draft { properties, ..draft(&body, queue) };
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &index, &draft);
    let appended = store.append(batch, Timestamp(1000)).expect("appends");
    assert!(store.write_staged().expect("writes"));
    (appended.records[0].queue_offset, appended.records[0].log_offset)
}

/// Every message of a queue is where it was put, whole; returns how many there are.
pub fn verify_queue(store: &Store, queue: u32) -> u64 {
    let index = store.queue(&topic(), QueueId(queue));
    let entries = entries(&index);
    let found = store.read(&index, &entries, ReadMode::MayWait).expect("reads records");
    for ((offset, _), bytes) in entries.into_iter().zip(found.iter()) {
        let record = Record::decode(bytes.expect("a record")).expect("decodes");
        assert_eq!((record.queue, record.queue_offset), (QueueId(queue), offset));
        assert_eq!(record.body, body_of(queue, offset.0));
        assert!(record.body_is_intact());
    }
    index.end().0
}

pub fn found_by_key(store: &Store, key: &str) -> Vec<LogOffset> {
    let mut found = Vec::new();
    let all = (Timestamp(0), Timestamp(u64::MAX / 2));
    store
        .find_by_key(key_hash("orders", key), all, 10, |offset| {
            found.push(offset);
            Ok(true)
        })
        .expect("finds");
    found
}

pub fn segment_path(directory: &Path, base: u64) -> PathBuf {
    directory.join("commitlog").join(format!("{base:020}"))
}
