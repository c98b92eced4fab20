//! Files of a store with arbitrary damage: log, queue entries, key index, checkpoint.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base::metric::Metrics;
use base::{LogOffset, QueueId, Timestamp, TopicName};
use format::hash::key_hash;
use format::queue_entry::Entry;
use format::record::{Draft, Record};
use storage::{ReadMode, StorageError, Store};

use crate::scratch;
use crate::taker::Taker;

/// Changes of one input at most.
const CHANGES_MAX: usize = 24;

/// A change makes no file larger than this.
const FILE_SIZE_MAX: usize = 64 * 1024;

/// Steps over the entries of one queue: what lies between two far ends is all the same.
const READS_MAX: usize = 64;

/// Files with their bytes, by path below the data directory.
pub type Files = Vec<(PathBuf, Vec<u8>)>;

fn open(directory: &Path) -> Result<Store, StorageError> {
    let options = scratch::store_options(directory);
    Store::open(options, Arc::new(Metrics::default()), &mut |_| ()).map(|(store, _)| store)
}

/// Appends one message with a key; gives its place.
fn append(store: &Store, topic: &TopicName, queue: u32, body: &[u8]) -> LogOffset {
    let index = store.queue(topic, QueueId(queue));
    let properties: &[&[u8]] = &[b"KEYS\x01k\x02DELAY\x011\x02"];
    let draft = Draft { properties, ..testkit::draft(topic.as_str(), QueueId(queue), body) };
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &index, &draft);
    let appended = store.append(batch, Timestamp(1_700_000_000_000)).expect("an append");
    store.write_staged().expect("a write");
    appended.records[0].log_offset
}

/// Files of a store that was stopped in order (0) or killed (1).
pub fn whole_stores() -> &'static [Files; 2] {
    static STORES: OnceLock<[Files; 2]> = OnceLock::new();
    STORES.get_or_init(|| {
        [false, true].map(|is_killed| {
            let directory = scratch::directory();
            let store = open(directory.path()).expect("a new store");
            for number in 0..40_u8 {
                let name = if number % 5 == 0 { "SCHEDULE_TOPIC_XXXX" } else { "orders" };
                append(&store, &TopicName::trusted(name), u32::from(number % 2), &[number; 100]);
                if number == 20 {
                    store.checkpoint().expect("a checkpoint");
                }
            }
            if !is_killed {
                store.close().expect("an orderly stop");
            }
            drop(store);
            scratch::snapshot(directory.path())
        })
    })
}

/// kind | file | place (2) | bytes: 0..=31 write, 32 cut, 33 remove, 34 rename to a number, 35 copy from another file
pub fn change(files: &mut Files, taker: &mut Taker<'_>) {
    let kind = taker.byte() % 36;
    let at = usize::from(taker.byte()) % files.len();
    let place = usize::from(taker.u16());
    match kind {
        0..=31 => {
            let bytes = taker.slice(usize::from(kind) + 1);
            let contents = &mut files[at].1;
            let place = place % (contents.len() + 1);
            contents.resize(contents.len().max(place + bytes.len()), 0);
            contents[place..place + bytes.len()].copy_from_slice(bytes);
        }
        32 => files[at].1.resize(place % FILE_SIZE_MAX, 0),
        33 => files[at].1.clear(),
        34 => {
            let number = [0, 20, 160, 4096, 8192, 1 << 62, u64::MAX - 4095, u64::MAX][place % 8];
            files[at].0.set_file_name(format!("{number:020}"));
        }
        _ => files[at].1 = files[place % files.len()].1.clone(),
    }
}

/// The store says what is damaged, or it opens, reads, takes a message, and has it after a stop.
pub fn run(data: &[u8]) {
    let mut taker = Taker::new(data);
    let mut files = taker.choice(whole_stores()).clone();
    for _ in 0..CHANGES_MAX {
        if taker.is_empty() {
            break;
        }
        change(&mut files, &mut taker);
    }
    let directory = scratch::directory();
    // A folder deeper, so that a name that leads out of the data directory is seen.
    let root = directory.path().join("data");
    for (path, bytes) in &files {
        scratch::write(&root, path, bytes);
    }
    let Ok(store) = open(&root) else { return };
    read_everything(&store);
    let topic = TopicName::trusted("orders");
    let place = append(&store, &topic, 0, b"after");
    let last = last_entry(&store, &topic).expect("an entry");
    assert_eq!(last.log_offset, place);
    read_everything(&store);
    store.close().expect("an orderly stop");
    drop(store);
    let store = open(&root).expect("a store that was stopped in order opens");
    assert_eq!(last_entry(&store, &topic), Some(last), "a message that was kept is there");
    let bytes = store.record_at(place).expect("a read").expect("a record");
    assert_eq!(Record::decode(&bytes).expect("a whole record").body, b"after");
    let outside = std::fs::read_dir(directory.path()).expect("a folder").count();
    assert_eq!(outside, 1, "files were made outside of the data directory");
}

fn last_entry(store: &Store, topic: &TopicName) -> Option<Entry> {
    let index = store.queue(topic, QueueId(0));
    let last = index.end().0.checked_sub(1)?;
    index.entry(base::QueueOffset(last)).expect("an entry that can be read")
}

/// Errors are fine, as long as they are errors.
fn read_everything(store: &Store) {
    for (topic, queue_count) in store.topics() {
        for queue in (0..queue_count.min(8)).map(QueueId) {
            let index = store.queue(&topic, queue);
            let mut from = index.first();
            for _ in 0..READS_MAX {
                let mut entries = Vec::new();
                if from >= index.end() || index.read(from, 8, ReadMode::MayWait, &mut entries).is_err() {
                    break;
                }
                assert!(!entries.is_empty(), "entries end before the queue does");
                let listed: Vec<_> = (0..).map(|ahead| from.after(ahead)).zip(entries.iter().copied()).collect();
                if let Ok(found) = store.read(&index, &listed, ReadMode::MayWait) {
                    let pairs = found.iter().zip(&entries);
                    for (bytes, entry) in pairs.filter_map(|(bytes, entry)| Some((bytes?, entry))) {
                        let record = Record::decode(bytes).expect("a whole record");
                        assert_eq!((record.size, record.log_offset), (entry.size as usize, entry.log_offset));
                    }
                    let (one_by_one, mut pieces) = (found.iter().flatten().collect::<Vec<_>>().concat(), Vec::new());
                    found.into_pieces(&mut pieces);
                    assert!(one_by_one == pieces.concat(), "pieces hold what was found");
                }
                entries.iter().for_each(|entry| drop(store.store_time(entry)));
                from = from.after(entries.len() as u64);
            }
            drop(index.search(|entry| entry.log_offset >= LogOffset(4096)));
        }
    }
    let all = (Timestamp(0), Timestamp(u64::MAX));
    for topic in ["orders", "SCHEDULE_TOPIC_XXXX"] {
        drop(
            store.find_by_key(key_hash(topic, "k"), all, 100, |place| {
                store.record_at(place).map(|found| found.is_some())
            }),
        );
    }
}

/// No damage, and some of every kind in every file.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![vec![0], vec![1]];
    for store in [0, 1] {
        for file in 0..whole_stores()[usize::from(store)].len() as u8 {
            seeds.push(vec![store, 32, file, 0, 0]);
            seeds.push(vec![store, 32, file, 0x10, 1]);
            seeds.push(vec![store, 33, file, 0, 0]);
            seeds.push(vec![store, 34, file, 0, 5]);
            seeds.push(vec![store, 35, file, 0, file + 1]);
            seeds.extend((0..40).map(|place| vec![store, 3, file, 0, 4 * place, 0xFF, 0xFF, 0xFF, 0xFF]));
        }
    }
    seeds
}
