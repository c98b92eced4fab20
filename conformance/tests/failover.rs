//! What official clients are promised while a master is down and once it is back: pairs of master and slave, all Sluice's.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::{CLIENT_VERSIONS, result_of, run_program, start_program};
use conformance::message_count;
use conformance::pair::{Pair, until, wait_until_followed};
use conformance::sluice::{Setup, Sluice};
use wire::rocketmq::code::request;

const TOPIC: &str = "orders";
const QUEUES: u32 = 4;
const COUNT: u64 = 2000;
const GROUPS: [&str; 4] = ["known-4-9-7", "known-5-4-0", "new-4-9-7", "new-5-4-0"];

/// A name server and a pair.
struct Cluster {
    scratch: tempfile::TempDir,
    names: Sluice,
    pair: Pair,
}

impl Cluster {
    fn start() -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let names = Setup::name_server(&scratch.path().join("names")).start();
        let pair = Pair::start(scratch.path(), &names.name_server, "broker-a");
        Connection::open(&pair.master.broker).make_topic(TOPIC, QUEUES);
        Self { scratch, names, pair }
    }

    fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Sends messages, of which each key's have one queue and one order.
    fn produce(&self) {
        let count = COUNT.to_string();
        let flags = [
            ("topic", TOPIC),
            ("mode", "ordered"),
            ("threads", "2"),
            ("order-keys", "16"),
            ("count", &*count),
            ("retry-forever", ""),
        ];
        assert_eq!(run_program("5.4.0", "Produce", &self.names.name_server, self.path(), &flags)["ok"], COUNT);
    }

    /// Consumers of each version, side by side, that end by themselves: each group must be given so many, and none twice.
    fn consume(&self, versions: &[&str], groups: &[&str], expected: u64) {
        let (expect, seconds) = (expected.to_string(), if expected == 0 { "10" } else { "3" });
        let start = |version: &str, group: &str| {
            let flags = [
                ("topic", TOPIC),
                ("group", group),
                ("expect", &*expect),
                ("from", "first"),
                ("idle-seconds", seconds),
            ];
            start_program(version, "Consume", &self.names.name_server, self.path(), &flags)
        };
        let named = |version: &str, group: &str| format!("{group}-{}", version.replace('.', "-"));
        let consumers: Vec<_> = versions
            .iter()
            .flat_map(|version| groups.iter().map(|group| start(version, &named(version, group))))
            .collect();
        for consumer in consumers {
            let consumed = result_of(consumer, self.path(), Duration::from_secs(180));
            assert_eq!((&consumed["distinct"], &consumed["duplicates"]), (&expected.into(), &0.into()), "{consumed}");
        }
    }

    /// Kills the master once its slave has everything.
    fn lose_master(&mut self) {
        wait_until_followed(&self.pair.master, &self.pair.slave);
        self.pair.master.kill();
    }

    fn recover_master(&mut self) {
        self.pair.master = self.pair.setup.start();
    }
}

/// The slave tells the master as soon as it can be connected to, which it tries every second.
fn until_told(master: &str) {
    let mut connection = Connection::open(master);
    let began = Instant::now();
    for (group, queue) in GROUPS.iter().flat_map(|group| (0..QUEUES).map(move |queue| (*group, queue.to_string()))) {
        let fields = [("consumerGroup", group), ("topic", TOPIC), ("queueId", &*queue)];
        let expected = connection.queue_end(TOPIC, queue.parse().expect("a number")).to_string();
        while connection.call(request::QUERY_CONSUMER_OFFSET, &fields, &[]).field("offset") != expected {
            assert!(began.elapsed() < Duration::from_secs(10), "{group} in {queue}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    println!("told within {:?}", began.elapsed());
}

#[test]
fn a_group_that_did_not_exist_before_starts_at_the_slave_while_the_master_is_down() {
    let mut cluster = Cluster::start();
    cluster.produce();
    cluster.lose_master();
    cluster.consume(&[CLIENT_VERSIONS[0], CLIENT_VERSIONS[1], "go"], &["new"], COUNT);
}

#[test]
fn what_was_consumed_at_the_slave_does_not_come_again_once_the_master_is_back() {
    let mut cluster = Cluster::start();
    cluster.produce();
    cluster.consume(&CLIENT_VERSIONS, &["known"], COUNT);
    cluster.produce();
    cluster.lose_master();
    cluster.consume(&CLIENT_VERSIONS, &["known"], COUNT);
    cluster.consume(&CLIENT_VERSIONS, &["new"], 2 * COUNT);
    cluster.recover_master();
    // Who asks in this moment is told what the master had.
    until_told(&cluster.pair.master.broker);
    cluster.consume(&CLIENT_VERSIONS, &["known", "new"], 0);
    cluster.produce();
    cluster.consume(&CLIENT_VERSIONS, &["known", "new"], COUNT);
}

#[test]
fn ordered_consumers_keep_their_order_while_the_master_is_down_and_once_it_is_back() {
    let mut cluster = Cluster::start();
    cluster.produce();
    cluster.lose_master();
    let count = cluster.path().join("count");
    let seen = |version: &str| cluster.path().join(format!("seen-{version}"));
    let consumers = CLIENT_VERSIONS.map(|version| {
        let (group, seen) = (format!("ordered-{}", version.replace('.', "-")), seen(version).display().to_string());
        let flags = [
            ("topic", TOPIC),
            ("group", &*group),
            ("orderly", ""),
            ("from", "first"),
            ("expect-file", count.to_str().expect("text")),
            ("seen-file", &*seen),
        ];
        start_program(version, "Consume", &cluster.names.name_server, cluster.path(), &flags)
    });
    for version in CLIENT_VERSIONS {
        let lines = || fs::read_to_string(seen(version)).unwrap_or_default().lines().count() as u64;
        until("an ordered consumer does not get everything from the slave", || lines() == COUNT);
    }
    cluster.recover_master();
    cluster.produce();
    fs::write(&count, format!("{}\n", 2 * COUNT)).expect("writes");
    for consumer in consumers {
        let consumed = result_of(consumer, cluster.path(), Duration::from_secs(120));
        assert_eq!((&consumed["out_of_order"], &consumed["again"]), (&0.into(), &0.into()), "{consumed}");
    }
}

#[test]
fn two_masters_with_an_async_slave_each_take_every_async_send() {
    let scratch = tempfile::tempdir().expect("directory");
    let names = Setup::name_server(&scratch.path().join("names")).start();
    let pairs = ["broker-a", "broker-b"].map(|name| Pair::start(scratch.path(), &names.name_server, name));
    for pair in &pairs {
        Connection::open(&pair.master.broker).make_topic(TOPIC, 8);
    }
    let count = message_count(100_000);
    let expect = count.to_string();
    let began = Instant::now();
    let flags = [
        ("topic", TOPIC),
        ("mode", "async"),
        ("threads", "4"),
        ("count", &*expect),
        ("size", "64"),
        ("limit-seconds", "600"),
    ];
    let produced = run_program("5.4.0", "Produce", &names.name_server, scratch.path(), &flags);
    println!("{produced} in {:?}", began.elapsed());
    assert_eq!((produced["ok"].as_u64(), produced["failed"].as_u64()), (Some(count), Some(0)));
    for pair in &pairs {
        wait_until_followed(&pair.master, &pair.slave);
    }
    // Each message is at one of the slaves.
    let ends = pairs.iter().flat_map(|pair| {
        let mut slave = Connection::open(&pair.slave.broker);
        (0..8).map(move |queue| slave.queue_end(TOPIC, queue)).collect::<Vec<_>>()
    });
    let ends: Vec<_> = ends.collect();
    assert_eq!(ends.iter().sum::<u64>(), count);
    assert!(ends.iter().all(|end| *end > 0), "both pairs are sent to: {ends:?}");
    let flags = [("topic", TOPIC), ("group", "all"), ("expect", &*expect), ("from", "first"), ("limit-seconds", "600")];
    run_program("5.4.0", "Consume", &names.name_server, scratch.path(), &flags);
}
