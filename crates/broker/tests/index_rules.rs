//! One rule says how a record is found: what a running broker has written of entries and keys is what is made again from its log.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{GroupName, LogOffset, Now, QueueId, Timestamp};
use broker::SendBack;
use format::hash::key_hash;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use storage::Store;
use support::{Bench, layout, message, open_on};
use testkit::clock_set;

const START: Now = testkit::at(1_700_000_000_000);
const DELAYS_MS: [u64; 3] = [1_000, 5_000, 60_000];
const TOPICS: [&str; 3] = ["orders", "bills", "SCHEDULE_TOPIC_XXXX1"];
/// What senders say of tags, keys, ids and levels, odd ones among them.
const PROPERTIES: &[&[u8]] = &[
    b"TAGS\x01red\x02",
    b"TAGS\x01green || red\x02",
    b"TAGS\x01\xff\xfe\x02",
    b"TAGS\x01",
    b"KEYS\x01k1 k2  k1\x02",
    b"KEYS\x01k3\x02",
    b"KEYS\x01\xff\x02",
    b"UNIQ_KEY\x01id1\x02",
    b"UNIQ_KEY\x01id 2\x02",
    b"DELAY\x011\x02",
    b"DELAY\x01+2\x02",
    b"DELAY\x0199\x02",
    b"DELAY\x010\x02",
    b"DELAY\x01-1\x02",
    b"\x02junk\x02TAGS\x02",
    b"MYTAGS\x01red\x02",
    b"WAIT\x01false\x02",
    b"__CRC32#\x01forged\x02",
    b"INNER_MULTI_QUEUE_OFFSET\x017\x02",
];
const KEYS: [&str; 6] = ["k1", "k2", "k3", "id1", "id 2", "id"];

fn properties(chance: &mut StdRng) -> Vec<u8> {
    let mut block: Vec<u8> =
        (0..chance.random_range(0..5)).filter_map(|_| PROPERTIES.choose(chance)).copied().flatten().copied().collect();
    if chance.random_bool(0.2) && block.last() == Some(&2) {
        block.pop();
    }
    block
}

/// Something that puts records into the log.
fn act(bench: &mut Bench, chance: &mut StdRng) {
    match chance.random_range(0..20) {
        0..14 => {
            let (block, topic) = (properties(chance), TOPICS.choose(chance).expect("topics"));
            let one = message(b"body", &block);
            let one = broker::Message { queue: Some(QueueId(chance.random_range(0..4))), ..one };
            // What is refused puts nothing there.
            drop(bench.publish(topic, &one));
        }
        14..17 => bench.advance(chance.random_range(0..4_000)),
        17 => bench.now = clock_set(bench.now, chance.random_range(-7_200_000..7_200_000)),
        18 => send_back(bench, chance),
        _ => bench.broker.store().checkpoint().expect("a checkpoint"),
    }
}

/// A consumer gives a message back, to be tried again later.
fn send_back(bench: &Bench, chance: &mut StdRng) {
    let topic = TOPICS.choose(chance).expect("topics");
    let Some(known) = bench.broker.catalog.topic(topic) else { return };
    let entries = known.queues.iter().flat_map(|queue| queue.entries(queue.first(), 10).expect("reads"));
    let entries: Vec<_> = entries.collect();
    let Some(entry) = entries.choose(chance) else { return };
    let request = SendBack {
        group: GroupName::trusted("billing"),
        log_offset: entry.log_offset,
        delay_level: chance.random_range(-1..4),
        redeliveries_max: None,
    };
    bench.broker.retries.send_back(&request, bench.now).expect("stored again");
    bench.broker.store().write_staged().expect("writes");
}

/// Files below a directory, by path.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(path).expect("reads"));
            }
        }
    }
    found
}

/// Where each key leads in each topic.
fn found_by_keys(store: &Store) -> BTreeMap<(String, &'static str), Vec<LogOffset>> {
    let mut found = BTreeMap::new();
    for topic in store.topics().into_keys() {
        for key in KEYS {
            let mut offsets = Vec::new();
            let hash = key_hash(topic.as_str(), key);
            let take = |offset| {
                offsets.push(offset);
                Ok(true)
            };
            store.find_by_key(hash, (Timestamp(0), Timestamp(u64::MAX)), 10_000, take).expect("looks up");
            if !offsets.is_empty() {
                found.insert((topic.as_str().to_owned(), key), offsets);
            }
        }
    }
    found
}

#[test]
fn entries_and_keys_made_again_from_the_log_are_those_a_running_broker_wrote() {
    for seed in 0..24 {
        let mut chance = StdRng::seed_from_u64(seed);
        let directory = tempfile::tempdir().expect("a directory");
        let options = layout(directory.path(), DELAYS_MS.to_vec());
        let mut bench = open_on(options.clone(), START, |_| ());
        (0..300).for_each(|_| act(&mut bench, &mut chance));
        bench.broker.close(bench.now).expect("closes");
        let keys = found_by_keys(bench.broker.store());
        drop(bench);
        let entries = files(&directory.path().join("consumequeue"));
        assert!(entries.len() > 4 && keys.values().any(|offsets| offsets.len() > 3), "seed {seed} says something");

        for folder in ["consumequeue", "index"] {
            std::fs::remove_dir_all(directory.path().join(folder)).expect("removes");
        }
        let (store, recovery) = Store::open(options, Arc::default(), &mut |_| ()).expect("opens");
        assert!(recovery.entries_made_again);
        assert!(found_by_keys(&store) == keys, "seed {seed}");
        store.close().expect("closes");
        let again = files(&directory.path().join("consumequeue"));
        assert!(again.keys().eq(entries.keys()), "seed {seed}");
        for (path, bytes) in &entries {
            assert!(again[path] == *bytes, "seed {seed}: {}", path.display());
        }
    }
}
