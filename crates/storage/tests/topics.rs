//! What topics cost the disk: those without messages nothing, and one that goes only what is its own.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use base::{QueueId, QueueOffset, Timestamp, TopicName};
use storage::disk::{Disk, FaultyDisk, MemoryDisk};
use storage::{Options, Store};

const TOPICS: u32 = 50;
const QUEUES: u32 = 4;

fn open(disk: &FaultyDisk) -> Store {
    let options = Options { disk: Disk::new(disk.clone()), ..testkit::store_options(Path::new("/data")) };
    Store::open(options, Arc::default(), &mut |_| ()).expect("opens").0
}

fn name(number: u32) -> TopicName {
    TopicName::trusted(&format!("topic-{number}"))
}

fn make(store: &Store, topic: &TopicName) {
    (0..QUEUES).for_each(|queue| drop(store.queue(topic, QueueId(queue))));
}

fn append(store: &Store, topic: &TopicName) {
    let queue = store.queue(topic, QueueId(1));
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &queue, &testkit::draft(topic.as_str(), queue.queue(), b"body"));
    store.append(batch, Timestamp(1000)).expect("appends");
    store.write_staged().expect("writes");
}

#[test]
fn topics_without_messages_cost_the_disk_nothing() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open(&disk);
    store.checkpoint().expect("checkpoint");
    let before = disk.points();
    for number in 0..TOPICS {
        make(&store, &name(number));
    }
    store.flush_entries().expect("flushes");
    assert_eq!(store.topics().len() as u32, TOPICS);
    for number in 0..TOPICS {
        store.remove_topic(&name(number)).expect("removes");
    }
    assert_eq!((store.topics().len(), disk.points()), (0, before), "{:?}", disk.trace().split_off(before));
}

#[test]
fn a_topic_whose_messages_are_below_the_checkpoint_goes_without_another() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open(&disk);
    let (gone, kept) = (name(0), name(1));
    [&gone, &kept].into_iter().for_each(|topic| append(&store, topic));
    store.checkpoint().expect("checkpoint");
    append(&store, &kept);
    let before = disk.points();
    store.remove_topic(&gone).expect("removes");
    let changes = disk.trace().split_off(before);
    assert!(changes.iter().all(|change| change.contains("consumequeue") && !change.contains("topic-1")), "{changes:?}");
    drop(store);
    let restarted = FaultyDisk::over(&disk.after_power_cut(disk.points(), || false));
    let store = open(&restarted);
    assert!(store.topics().into_keys().eq([kept.clone()]));
    assert_eq!(store.queue(&kept, QueueId(1)).end(), QueueOffset(1), "the second was not on the disk");
}

#[test]
fn a_topic_with_later_messages_does_not_come_back_either() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let store = open(&disk);
    append(&store, &name(0));
    store.flush_entries().expect("flushes");
    store.remove_topic(&name(0)).expect("removes");
    drop(store);
    for survives in [false, true] {
        let restarted = FaultyDisk::over(&disk.after_power_cut(disk.points(), || survives));
        assert!(open(&restarted).topics().is_empty(), "{survives}");
    }
}
