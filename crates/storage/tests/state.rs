//! State records: told again in order after a crash, listed nowhere, and a topic removed by one stays removed.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use base::{LogOffset, QueueId, QueueOffset, Timestamp, TopicName};
use format::record::Record;
use format::state::{self, StateError};
use storage::disk::{Disk, MemoryDisk};
use storage::{Options, StateReplay, StorageError, Store};

/// Notes what it is told; a body `-topic` removes that topic.
#[derive(Default)]
struct Noted {
    known_until: LogOffset,
    bodies: Vec<String>,
}

impl StateReplay for Noted {
    fn known_until(&self) -> LogOffset {
        self.known_until
    }

    fn apply(&mut self, offset: LogOffset, body: &[u8]) -> Result<Vec<TopicName>, StateError> {
        let text = String::from_utf8(body.to_vec()).expect("text");
        if text == "newer" {
            return Err(StateError::Newer(9));
        }
        if text == "nonsense" {
            return Err(StateError::Damaged(text));
        }
        let removed = text.strip_prefix('-').map(TopicName::trusted);
        if offset >= self.known_until {
            self.bodies.push(text);
        }
        Ok(removed.into_iter().collect())
    }
}

fn options(disk: &MemoryDisk) -> Options {
    Options { disk: Disk::new(disk.clone()), ..testkit::store_options(Path::new("/data")) }
}

fn open_telling(disk: &MemoryDisk, noted: &mut Noted) -> Store {
    Store::open_with_state(options(disk), Arc::default(), noted, &mut |_| ()).expect("opens").0
}

fn open(disk: &MemoryDisk) -> (Store, Vec<String>) {
    let mut noted = Noted::default();
    (open_telling(disk, &mut noted), noted.bodies)
}

/// Appends a state record; one that begins with `-` removes that topic.
fn append_state(store: &Store, body: &str) -> LogOffset {
    let mut batch = store.begin_batch(0);
    batch.push_unlisted(&state::draft(body.as_bytes(), &[], "127.0.0.1:1".parse().expect("address"), Timestamp(1)));
    if let Some(topic) = body.strip_prefix('-') {
        store.queues_of(&TopicName::trusted(topic)).into_iter().for_each(|queue| batch.close(queue));
    }
    let appended = store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    appended.records[0].log_offset
}

fn append_message(store: &Store, topic: &str, body: &str) -> Result<(), StorageError> {
    let queue = store.queue(&TopicName::trusted(topic), QueueId(0));
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &queue, &testkit::draft(topic, QueueId(0), body.as_bytes()));
    store.append(batch, Timestamp(1000))?;
    store.write_staged().expect("writes");
    Ok(())
}

/// Bodies of a topic's messages.
fn messages(store: &Store, topic: &str) -> Vec<String> {
    let queue = store.queue(&TopicName::trusted(topic), QueueId(0));
    let entries: Vec<_> = (queue.first().0..queue.end().0)
        .map(|offset| (QueueOffset(offset), queue.entry(QueueOffset(offset)).expect("reads").expect("an entry")))
        .collect();
    let records = store.read(&queue, &entries, storage::ReadMode::MayWait).expect("reads");
    let body = |bytes: Option<&[u8]>| Record::decode(bytes.expect("a record")).expect("decodes").body.to_vec();
    records.iter().map(|bytes| String::from_utf8(body(bytes)).expect("text")).collect()
}

#[test]
fn state_records_are_told_again_in_order_and_are_no_messages() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk);
    let first = append_state(&store, "one");
    append_message(&store, "orders", "a").expect("appends");
    let second = append_state(&store, "two");
    assert_eq!(store.record_at(first).expect("reads"), None, "nobody is shown it");
    assert_eq!(store.topics().len(), 1);
    drop(store);
    let (store, told) = open(&disk);
    assert_eq!((told, messages(&store, "orders")), (vec!["one".to_owned(), "two".to_owned()], vec!["a".to_owned()]));
    store.close().expect("closes");
    drop(store);
    // Also below the checkpoint, for who does not know them.
    assert_eq!(open(&disk).1, ["one", "two"]);
    let mut knows = Noted { known_until: second, ..Noted::default() };
    open_telling(&disk, &mut knows);
    assert_eq!(knows.bodies, ["two"]);
}

#[test]
fn a_topic_that_was_removed_and_made_again_has_its_later_messages_alone_wherever_the_checkpoint_is() {
    for checkpoint_after in 0..6 {
        let disk = MemoryDisk::new();
        let (store, _) = open(&disk);
        let steps: [&dyn Fn(); 5] = [
            &|| append_message(&store, "orders", "old").expect("appends"),
            &|| append_message(&store, "orders", "older").expect("appends"),
            &|| {
                append_state(&store, "-orders");
                assert!(matches!(append_message(&store, "orders", "late"), Err(StorageError::TopicRemoved(_))));
                store.remove_topic(&TopicName::trusted("orders")).expect("removes");
            },
            &|| append_message(&store, "orders", "new").expect("appends"),
            &|| append_message(&store, "orders", "newer").expect("appends"),
        ];
        for (number, step) in steps.iter().enumerate() {
            if number == checkpoint_after {
                store.checkpoint().expect("a checkpoint");
            }
            step();
        }
        drop(store);
        let (store, _) = open(&disk);
        assert_eq!(messages(&store, "orders"), ["new", "newer"], "checkpoint before step {checkpoint_after}");
    }
}

#[test]
fn state_of_a_newer_version_stops_the_start_and_what_says_nothing_counts_as_damaged() {
    let disk = MemoryDisk::new();
    let (store, _) = open(&disk);
    let nonsense = append_state(&store, "nonsense");
    append_state(&store, "one");
    drop(store);
    let mut noted = Noted::default();
    let (store, recovery) =
        Store::open_with_state(options(&disk), Arc::default(), &mut noted, &mut |_| ()).expect("opens");
    assert_eq!((recovery.damaged, noted.bodies), (vec![nonsense], vec!["one".to_owned()]));
    append_state(&store, "newer");
    drop(store);
    let error = Store::open_with_state(options(&disk), Arc::default(), &mut Noted::default(), &mut |_| ())
        .expect_err("a newer version")
        .to_string();
    assert!(error.contains("version 9") && error.contains("commitlog"), "{error}");
}
