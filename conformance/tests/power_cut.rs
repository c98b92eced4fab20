//! Power cuts under load, on a real file system: nothing that was promised to survive is lost, and nothing garbled is served.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::loop_disk::LoopDisk;
use conformance::sluice::{Setup, Sluice};
use conformance::{cut_count, seed};
use format::record::Record;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use wire::rocketmq::code::{request, response};

const TOPIC: &str = "cut";
const QUEUES: u32 = 4;
const SENDERS: u64 = 6;
const CUTS: u64 = 6;
const DISK_SIZE: u64 = 4 << 30;
/// Messages looked up by key after each cut.
const LOOK_UPS: usize = 20;

/// Queue and offset.
type Place = (u32, u64);
/// Who sent a message, and which of its messages it is.
type Name = (u64, u64);

#[test]
fn with_sync_flush_nothing_acknowledged_is_lost() {
    cut_again_and_again("sync");
}

#[test]
fn with_async_flush_what_is_left_is_whole_and_in_order() {
    cut_again_and_again("async");
}

fn cut_again_and_again(flush: &str) {
    let scratch = tempfile::tempdir().expect("directory");
    let Some(disk) = LoopDisk::make_or_skip(scratch.path(), DISK_SIZE, "a disk whose power can be cut") else { return };
    let mut random = StdRng::seed_from_u64(seed());
    let setup = setup(&disk, flush);
    let mut sluice = setup.start();
    Connection::open(&sluice.broker).make_topic(TOPIC, QUEUES);
    let mut acknowledged = BTreeMap::new();
    let mut safe = BTreeMap::new();
    for cut in 1..=cut_count(CUTS) {
        // Every tenth comes after a checkpoint under load.
        let later = if cut % 10 == 0 { 10_000 } else { 0 };
        let moment = Duration::from_millis(random.random_range(100..2500) + later);
        let agony = Duration::from_millis(random.random_range(0..50));
        acknowledged.extend(load_until_cut(&disk, &mut sluice, cut, moment, agony));
        disk.check_store(flush == "async");
        let started = Instant::now();
        sluice = setup.start();
        let took = started.elapsed();
        assert!(!witness_survived(&disk, &sluice), "the power was not cut");
        let stored = read_everything(&sluice);
        let lost = lost(&acknowledged, &stored);
        println!(
            "{flush}, cut {cut} after {moment:?}: {} stored, {} lost, ready after {took:?}",
            stored.len(),
            lost.len()
        );
        assert!(flush == "async" || lost.is_empty(), "acknowledged and lost: {lost:?}");
        let found_after_the_last_cut = lost.iter().find(|place| safe.contains_key(*place));
        assert_eq!(found_after_the_last_cut, None, "it was there after the cut before");
        acknowledged.retain(|place, _| stored.contains_key(place));
        offsets_lie_within_their_queues(&sluice);
        found_by_key(&sluice, &acknowledged, &mut random);
        safe = stored;
    }
    assert!(sluice.stop().success());
    disk.wait_until_free();
    disk.check_store(false);
}

/// Small files, so that every cut meets new ones.
fn setup(disk: &LoopDisk, flush: &str) -> Setup {
    let wrapper = disk.wrapper();
    Setup::serve(&disk.directory().join("data"))
        .set("storage.flush", flush)
        .set("storage.segment_size", "1MiB")
        .set("storage.queue_file_entries", "500")
        .set("storage.index_slots", "1000")
        .set("storage.index_entries", "3000")
        .set("offset.flush_interval", "100ms")
        .within(&wrapper.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Sends and consumes until the power is cut; returns what was acknowledged before.
///
/// A real cut ends the process with the disk. This one does not, and a sync that is under way while ext4 shuts down may come back
/// well without its data: what is acknowledged from then on would never have left the machine.
fn load_until_cut(
    disk: &LoopDisk,
    sluice: &mut Sluice,
    cut: u64,
    moment: Duration,
    agony: Duration,
) -> Vec<(Place, Name)> {
    let broker = sluice.broker.clone();
    std::thread::scope(|scope| {
        let broker = &*broker;
        let senders: Vec<_> =
            (0..SENDERS).map(|number| scope.spawn(move || send_until_cut(broker, cut * SENDERS + number))).collect();
        let consumer = scope.spawn(move || consume_until_cut(broker));
        std::thread::sleep(moment);
        std::fs::write(disk.seen_through(sluice.id()).join("witness"), witness()).expect("writes");
        let cut_began = Instant::now();
        disk.cut_power(sluice.id());
        // A process may live on for a while when its disk is gone.
        std::thread::sleep(agony);
        assert!(sluice.is_running(), "a lost disk ends no process");
        sluice.kill();
        disk.wait_until_free();
        consumer.join().expect("consumes");
        let acknowledged = senders.into_iter().flat_map(|sender| sender.join().expect("sends"));
        acknowledged.filter(|(_, _, time)| *time < cut_began).map(|(place, name, _)| (place, name)).collect()
    })
}

fn send_until_cut(broker: &str, sender: u64) -> Vec<(Place, Name, Instant)> {
    let mut connection = Connection::open(broker);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let queue = (number % u64::from(QUEUES)) as u32;
        let properties = format!("KEYS\u{1}{sender}-{number}\u{2}");
        let body = body_of((sender, number));
        let Some(answer) = connection.try_send_message(TOPIC, queue as i32, &properties, &body) else { break };
        match answer.code {
            response::SUCCESS => {
                let offset = answer.field("queueOffset").parse().expect("an offset");
                acknowledged.push(((queue, offset), (sender, number), Instant::now()));
            }
            response::FLUSH_DISK_TIMEOUT => {}
            code => {
                // From the cut to the end of the process.
                assert_eq!(code, response::SERVICE_NOT_AVAILABLE, "{answer:?}");
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    acknowledged
}

/// Reads every queue and commits what was read, as a consumer does.
fn consume_until_cut(broker: &str) {
    let mut connection = Connection::open(broker);
    let mut next = [0; QUEUES as usize];
    for queue in (0..QUEUES).cycle() {
        let next = &mut next[queue as usize];
        let Some(pulled) = connection.pull(TOPIC, queue, *next) else { return };
        if pulled.code == response::SUCCESS {
            *next = pulled.field("nextBeginOffset").parse().expect("an offset");
        }
        let (queue, offset) = (queue.to_string(), next.to_string());
        let fields = [("consumerGroup", "readers"), ("topic", TOPIC), ("queueId", &*queue), ("commitOffset", &*offset)];
        if connection.try_call(request::UPDATE_CONSUMER_OFFSET, &fields, &[]).is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Every message of the topic, all of them whole and sent by a sender of ours, and each sender's in their order.
fn read_everything(sluice: &Sluice) -> BTreeMap<Place, Name> {
    let mut connection = Connection::open(&sluice.broker);
    let mut stored = BTreeMap::new();
    for queue in 0..QUEUES {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        let end = connection.read_queue(TOPIC, queue, 0, |record| {
            let name = name_of(record);
            assert!(record.body == body_of(name), "the body of {name:?}");
            assert!(last.insert(name.0, name.1).is_none_or(|before| before < name.1), "{name:?} after a later one");
            stored.insert((queue, record.queue_offset.0), name);
        });
        assert_eq!(connection.queue_end(TOPIC, queue), end);
    }
    stored
}

fn lost(acknowledged: &BTreeMap<Place, Name>, stored: &BTreeMap<Place, Name>) -> Vec<Place> {
    let mut lost = Vec::new();
    for (place, name) in acknowledged {
        match stored.get(place) {
            Some(found) => assert_eq!(found, name, "acknowledged at {place:?}"),
            None => lost.push(*place),
        }
    }
    lost
}

fn offsets_lie_within_their_queues(sluice: &Sluice) {
    let mut connection = Connection::open(&sluice.broker);
    for queue in 0..QUEUES {
        let text = queue.to_string();
        let fields = [("consumerGroup", "readers"), ("topic", TOPIC), ("queueId", &*text)];
        let answer = connection.call(request::QUERY_CONSUMER_OFFSET, &fields, &[]);
        if answer.code == response::SUCCESS {
            let committed: u64 = answer.field("offset").parse().expect("an offset");
            let end = connection.queue_end(TOPIC, queue);
            assert!(committed <= end, "queue {queue} ends at {end}, and {committed} is committed");
        }
    }
}

/// Some messages are found by their keys, each in its place.
fn found_by_key(sluice: &Sluice, acknowledged: &BTreeMap<Place, Name>, random: &mut StdRng) {
    let mut connection = Connection::open(&sluice.broker);
    let places: Vec<_> = acknowledged.iter().collect();
    for _ in 0..LOOK_UPS.min(places.len()) {
        let (place, name) = places[random.random_range(0..places.len())];
        let key = format!("{}-{}", name.0, name.1);
        let answer = connection.messages_by_key(TOPIC, &key);
        assert_eq!(answer.code, response::SUCCESS, "{key}: {answer:?}");
        let record = Record::decode(&answer.body).expect("a record");
        assert_eq!(((record.queue.0, record.queue_offset.0), name_of(&record)), (*place, *name));
        assert_eq!(record.size, answer.body.len(), "{key} is there once");
    }
}

/// Some text, and bytes that follow from it: mostly few, sometimes several pages.
fn body_of(name: Name) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(name.0 << 32 | name.1);
    let size = if random.random_bool(0.1) { random.random_range(0..20_000) } else { random.random_range(0..600) };
    let mut body = format!("{}:{}:", name.0, name.1).into_bytes();
    let text = body.len();
    body.resize(text + size, 0);
    random.fill_bytes(&mut body[text..]);
    body
}

fn name_of(record: &Record<'_>) -> Name {
    let mut words = record.body.split(|&byte| byte == b':').map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    words.next().flatten().zip(words.next().flatten()).expect("a body of ours")
}

fn witness() -> Vec<u8> {
    vec![b'w'; 8192]
}

/// Whether bytes that were never synced are there after the cut.
fn witness_survived(disk: &LoopDisk, sluice: &Sluice) -> bool {
    let path = disk.seen_through(sluice.id()).join("witness");
    let survived = std::fs::read(&path).is_ok_and(|bytes| bytes == witness());
    let _ = std::fs::remove_file(&path);
    survived
}
