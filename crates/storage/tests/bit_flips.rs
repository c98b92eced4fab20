//! A flipped bit in a stored record is told of and not served, and its neighbours are: when it is fetched, looked up, found by
//! key, and after a restart.
//!
//! `SEED=n` chooses the bits that are flipped at random; the seed is printed when a test fails.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base::metric::Metrics;
use base::{LogOffset, QueueId, Timestamp, TopicName};
use bytes::Bytes;
use format::hash::key_hash;
use format::index_rules::IndexRules;
use format::record::{Draft, Record};
use storage::disk::{Disk, MemoryDisk};
use storage::{Options, ReadMode, Store};
use support::world::Chance;

const TOPICS: [&str; 2] = ["orders", "payments"];
const QUEUES: u32 = 2;
const COUNT: u64 = 60;
const SEGMENT_SIZE: u64 = 4096;

/// A record in the middle of a sealed segment, small so that each of its bits can be tried.
const VICTIM: usize = 9;

/// What is stored, and the disk it is on after an orderly stop.
struct Stored {
    disk: MemoryDisk,
    options: Options,
    /// Each record's place and bytes, in log order.
    records: Vec<(LogOffset, Bytes)>,
}

fn key_of(number: u64) -> String {
    format!("k{number}")
}

fn append(store: &Store, number: u64) -> LogOffset {
    let (topic, queue) = (TOPICS[(number % 2) as usize], QueueId((number / 2 % u64::from(QUEUES)) as u32));
    let body = vec![b'a' + (number % 26) as u8; (number % 7 * 9) as usize];
    let properties = format!("TAGS\u{1}t{}\u{2}KEYS\u{1}{}\u{2}", number % 3, key_of(number));
    let draft = Draft {
        flag: 3,
        born_host: "10.0.0.1:1000".parse().expect("address"),
        store_host: "10.0.0.2:2000".parse().expect("address"),
        properties: &[properties.as_bytes(), store.checksum_room()],
        ..testkit::draft(topic, queue, &body)
    };
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &store.queue(&TopicName::trusted(topic), queue), &draft);
    let appended = store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
    appended.records[0].log_offset
}

fn open(options: &Options, disk: &MemoryDisk) -> (Store, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let options = Options { disk: Disk::new(disk.clone()), ..options.clone() };
    let (store, _) = Store::open(options, metrics.clone(), &mut |_| ()).expect("opens");
    (store, metrics)
}

fn store(record_checksums: bool) -> Stored {
    let disk = MemoryDisk::new();
    let options = Options {
        disk: Disk::new(disk.clone()),
        segment_size: SEGMENT_SIZE,
        queue_file_entries: 30,
        key_index_slots: 16,
        key_index_entries: 200,
        recent_size: 1,
        record_checksums,
        index_rules: IndexRules::new(vec![1000]),
        checkpoint_reserve: Some(4096),
        ..Options::new(Path::new("/data"))
    };
    let (store, _) = open(&options, &disk);
    let places: Vec<_> = (0..COUNT).map(|number| append(&store, number)).collect();
    let bytes = |place| store.record_at(place).expect("reads").expect("a record");
    let records = places.into_iter().map(|place| (place, bytes(place))).collect();
    store.close().expect("closes");
    Stored { disk, options, records }
}

impl Stored {
    fn range(&self, number: usize) -> Range<u64> {
        let (place, bytes) = &self.records[number];
        place.0..place.0 + bytes.len() as u64
    }

    /// The disk with one bit of the log flipped.
    fn flipped(&self, position: u64, bit: u8) -> MemoryDisk {
        let disk = self.disk.copy();
        let path = format!("/data/commitlog/{:020}", position / SEGMENT_SIZE * SEGMENT_SIZE);
        assert!(disk.flip_bit(Path::new(&path), position % SEGMENT_SIZE, bit));
        disk
    }

    /// Reads everything in every way. Returns what became of the record that has the bit, if any way still serves it.
    fn read_all(&self, store: &Store, damaged: &Range<u64>, what: &str) -> Vec<Bytes> {
        let mut served = Vec::new();
        for topic in TOPICS.map(TopicName::trusted) {
            for queue in (0..QUEUES).map(QueueId) {
                self.read_queue(store, &topic, queue, damaged, what, &mut served);
            }
        }
        for (number, (place, bytes)) in self.records.iter().enumerate() {
            let found = store.record_at(*place).expect("reads");
            let by_key = found_by_key(store, number as u64);
            if damaged.contains(&place.0) {
                served.extend(found.into_iter().chain(by_key));
            } else {
                assert_eq!(found.as_ref(), Some(bytes), "looked up {number}, {what}");
                assert_eq!(by_key, std::slice::from_ref(bytes), "found by key {number}, {what}");
            }
        }
        served
    }

    fn read_queue(
        &self,
        store: &Store,
        topic: &TopicName,
        queue: QueueId,
        damaged: &Range<u64>,
        what: &str,
        served: &mut Vec<Bytes>,
    ) {
        let index = store.queue(topic, queue);
        let entries = support::entries(&index);
        let at_once = store.read(&index, &entries, ReadMode::MayWait).expect("reads");
        let is_here = |record: &Record<'_>| record.topic == topic.as_str() && record.queue == queue;
        let mut expected =
            self.records.iter().filter(|(_, bytes)| Record::decode(bytes).is_ok_and(|record| is_here(&record)));
        for (listed, found) in entries.iter().zip(at_once.iter()) {
            let alone = store.read(&index, &[*listed], ReadMode::MayWait).expect("reads");
            assert_eq!(alone.iter().collect::<Vec<_>>(), [found], "{what}");
            let (place, bytes) = expected.next().expect("no more entries than records");
            if damaged.contains(&place.0) {
                served.extend(found.map(Bytes::copy_from_slice));
            } else {
                assert_eq!(found, Some(&bytes[..]), "fetched {topic} {queue} {}, {what}", listed.0);
            }
        }
        let is_last = |(place, _): &(LogOffset, Bytes)| damaged.contains(&place.0);
        assert!(expected.all(is_last), "{topic} {queue} ends early, {what}");
    }
}

/// Records of that key, looked up where the index says they are.
fn found_by_key(store: &Store, number: u64) -> Vec<Bytes> {
    let (topic, key) = (TOPICS[(number % 2) as usize], key_of(number));
    let mut found = Vec::new();
    let all = (Timestamp(0), Timestamp(u64::MAX / 2));
    let accept = |place| {
        let bytes = store.record_at(place)?;
        let is_it = |bytes: &Bytes| {
            Record::decode(bytes).is_ok_and(|record| record.topic == topic && record.property("KEYS") == Some(&key))
        };
        found.extend(bytes.filter(is_it));
        Ok(true)
    };
    store.find_by_key(key_hash(topic, &key), all, 10, accept).expect("finds");
    found
}

#[test]
fn with_checksums_every_bit_of_a_record_is_noticed_once_and_never_served() {
    let stored = store(true);
    let victim = stored.range(VICTIM);
    for (position, bit) in victim.clone().flat_map(|position| (0..8).map(move |bit| (position, bit))) {
        let what = format!("bit {bit} of byte {}", position - victim.start);
        let (store, metrics) = open(&stored.options, &stored.flipped(position, bit));
        for _ in 0..2 {
            assert_eq!(stored.read_all(&store, &victim, &what), Vec::<Bytes>::new(), "{what}");
        }
        assert_eq!(metrics.records_damaged.get(), 1, "{what}");
    }
}

#[test]
fn without_checksums_what_is_served_has_its_body_its_place_and_its_tag() {
    let stored = store(false);
    let victim = stored.range(VICTIM);
    let before = stored.records[VICTIM].1.clone();
    let before = Record::decode(&before).expect("decodes");
    for (position, bit) in victim.clone().flat_map(|position| (0..8).map(move |bit| (position, bit))) {
        let what = format!("bit {bit} of byte {}", position - victim.start);
        let (store, metrics) = open(&stored.options, &stored.flipped(position, bit));
        let index = store.queue(&TopicName::trusted(before.topic), before.queue);
        let entries = support::entries(&index);
        let fetched = store.read(&index, &entries, ReadMode::MayWait).expect("reads");
        for bytes in fetched
            .iter()
            .flatten()
            .filter(|bytes| victim.contains(&format::record::log_offset_of(bytes).expect("a record").0))
        {
            let now = Record::decode(bytes).expect("decodes");
            let known = |record: &Record<'_>| {
                (record.topic.to_owned(), record.queue, record.queue_offset, record.log_offset, record.body.to_vec())
            };
            assert_eq!((known(&now), now.property("TAGS")), (known(&before), before.property("TAGS")), "{what}");
        }
        let served = stored.read_all(&store, &victim, &what);
        let has_its_body = |bytes: &Bytes| Record::decode(bytes).is_ok_and(|record| record.body == before.body);
        assert!(served.iter().all(has_its_body), "{what}");
        assert!(!served.is_empty() || metrics.records_damaged.get() == 1, "{what} is told of");
    }
}

#[test]
fn a_record_that_claims_the_place_of_an_earlier_one_in_its_queue_is_told_of_and_not_looked_up() {
    let stored = store(false);
    let (place, bytes) = &stored.records[VICTIM];
    assert_eq!(Record::decode(bytes).expect("decodes").queue_offset.0, 2);
    // Its queue offset is 0 now.
    let (store, metrics) = open(&stored.options, &stored.flipped(place.0 + 27, 1));
    assert_eq!(store.record_at(*place).expect("reads"), None);
    assert_eq!(metrics.records_damaged.get(), 1);
}

#[test]
fn with_checksums_every_bit_is_noticed_when_the_log_is_read_again() {
    let stored = store(true);
    let victim = stored.range(VICTIM);
    for (position, bit) in victim.clone().flat_map(|position| (0..8).map(move |bit| (position, bit))) {
        let what = format!("bit {bit} of byte {}, entries made again", position - victim.start);
        let disk = stored.flipped(position, bit);
        Disk::new(disk.clone()).remove_directory(Path::new("/data/consumequeue")).expect("removes");
        let (store, metrics) = open(&stored.options, &disk);
        assert_eq!(metrics.records_damaged.get(), 1, "{what}");
        assert_eq!(stored.read_all(&store, &victim, &what), Vec::<Bytes>::new(), "{what}");
        assert_eq!(metrics.records_damaged.get(), 1, "{what}");
    }
}

#[test]
fn any_bit_of_the_log_leaves_all_other_records_as_they_were() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut chance = Chance::new(seed);
    let sets = [store(false), store(true)];
    for round in 0..400 {
        let stored = &sets[round % 2];
        let number = chance.below(COUNT) as usize;
        let damaged = stored.range(number);
        let position = damaged.start + chance.below(damaged.end - damaged.start);
        let bit = chance.below(8) as u8;
        let what = format!("SEED={seed}, bit {bit} of byte {} of record {number}", position - damaged.start);
        let (store, _) = open(&stored.options, &stored.flipped(position, bit));
        let served = stored.read_all(&store, &damaged, &what);
        assert!(served.is_empty() || !stored.options.record_checksums, "{what}");
    }
}

#[test]
fn a_bit_of_a_filler_stops_no_start() {
    let stored = store(false);
    let filler = stored.records.iter().map(|(place, bytes)| place.0 + bytes.len() as u64);
    let filler = filler.take_while(|end| *end < SEGMENT_SIZE).last().expect("a filler");
    for (position, bit) in (filler..filler + 8).flat_map(|position| (0..8).map(move |bit| (position, bit))) {
        let disk = stored.flipped(position, bit);
        Disk::new(disk.clone()).remove_directory(Path::new("/data/consumequeue")).expect("removes");
        let (store, _) = open(&stored.options, &disk);
        stored.read_all(&store, &(0..0), &format!("bit {bit} of byte {} of a filler", position - filler));
    }
}
