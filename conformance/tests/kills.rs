//! `kill -9` at random moments under load: nothing acknowledged is lost, order and offsets stay, clients recover by themselves.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::{result_of, start_program, verdict_of, wait_until_started};
use conformance::sluice::Setup;
use rand::RngExt;

const KILLS: usize = 20;
const COUNT: u64 = 40_000;

#[test]
fn twenty_kills_under_load_lose_nothing_acknowledged() {
    let scratch = tempfile::tempdir().expect("directory");
    let setup = Setup::serve(&scratch.path().join("data")).set("storage.segment_size", "16MiB");
    let mut sluice = setup.start();
    let (name_server, broker) = (sluice.name_server.clone(), sluice.broker.clone());
    Connection::open(&broker).make_topic("killed", 4);
    let acked_path = scratch.path().join("acked");
    let acked = acked_path.display().to_string();
    let count = COUNT.to_string();
    let common = [("topic", "killed"), ("limit-seconds", "300")];
    let of_producer = [
        ("count", &*count),
        ("size", "1024"),
        ("threads", "4"),
        ("mode", "sync"),
        ("retry-forever", ""),
        ("acked-file", &acked),
        ("pause-micros", "2500"),
    ];
    let of_consumer = [("group", "survivors"), ("expect", &*count), ("from", "first"), ("idle-seconds", "5")];
    let consumer =
        start_program("5.4.0", "Consume", &name_server, scratch.path(), &[&common[..], &of_consumer].concat());
    // A client of RocketMQ gives up if it finds no broker when it starts; later it recovers.
    wait_until_started(scratch.path());
    let producer =
        start_program("5.4.0", "Produce", &name_server, scratch.path(), &[&common[..], &of_producer].concat());
    let mut random = rand::rng();
    for kill in 1..=KILLS {
        std::thread::sleep(Duration::from_millis(random.random_range(300..2000)));
        sluice.kill();
        let killed = Instant::now();
        sluice = setup.start();
        println!("kill {kill}: ready again after {:?}; {}", killed.elapsed(), sluice.ready_line);
    }
    let produced = result_of(producer, scratch.path(), Duration::from_secs(300));
    println!("{produced}");
    assert_eq!(produced["ok"].as_u64(), Some(COUNT));
    // A send that was stored but not acknowledged is sent again: twice is allowed, never is not.
    let (_, consumed) = verdict_of(consumer, Duration::from_secs(300));
    let consumed = consumed.expect("a line of result");
    println!("{consumed}");
    assert_eq!((consumed["distinct"].as_u64(), consumed["corrupt"].as_u64()), (Some(COUNT), Some(0)));
    let stored = read_all(&broker, "killed");
    let acknowledged = std::fs::read_to_string(&acked_path).expect("the list of acknowledged messages");
    assert_eq!(acknowledged.lines().count() as u64, COUNT);
    for line in acknowledged.lines() {
        let columns: Vec<_> = line.split(',').collect();
        let [_key, _sequence, queue, offset, unique_key, ..] = columns[..] else { panic!("{line}") };
        let place = (queue.parse().expect("a queue"), offset.parse().expect("an offset"));
        assert_eq!(stored.get(&place).map(String::as_str), Some(unique_key), "acknowledged at {place:?}");
    }
}

/// The unique key at each place of a topic.
fn read_all(broker: &str, topic: &str) -> HashMap<(u32, u64), String> {
    let mut connection = Connection::open(broker);
    let mut stored = HashMap::new();
    for queue in 0..4 {
        connection.read_queue(topic, queue, 0, |record| {
            let unique_key = record.property("UNIQ_KEY").unwrap_or_default().to_owned();
            stored.insert((queue, record.queue_offset.0), unique_key);
        });
    }
    stored
}
