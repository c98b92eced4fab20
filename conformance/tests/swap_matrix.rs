//! Any process of a broker group may be Sluice's or the official one: name server, master and slave, each of both kinds.
//!
//! With each of them clients send and consume; the master is stopped, and what it had is read from the slave; the master comes back, and
//! nothing that was settled at a Sluice slave is consumed again. Two combinations are part of every test run, all seven of
//! `SLUICE_CONFORMANCE_SWAPS=7 cargo test --release -p conformance --test swap_matrix`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::{BROKER_VERSION, JavaBroker, JavaNameServer, run_program};
use conformance::sluice::{Setup, Sluice};
use conformance::swap_count;
use serde_json::Value;
use wire::rocketmq::code::{request, response};

/// Small files, so that some of them are crossed; Java's names.
const SETTINGS: [&str; 4] = [
    "mappedFileSizeCommitLog=1048576",
    "mappedFileSizeConsumeQueue=20000",
    "brokerName=broker-a",
    "brokerClusterName=DefaultCluster",
];

/// An official slave of 5.x asks for tables once a minute, and connects anew every 5 s.
const WITHIN: Duration = Duration::from_secs(150);
const TOPIC: &str = "matrix";
const COUNT: u64 = 600;
const MORE: u64 = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Java,
    Sluice,
}

use Kind::{Java, Sluice as Ours};

enum Process {
    Java(JavaBroker),
    Sluice(Sluice),
}

impl Process {
    fn address(&self) -> &str {
        match self {
            Self::Java(broker) => &broker.address,
            Self::Sluice(broker) => &broker.broker,
        }
    }

    fn stop(self) {
        match self {
            Self::Java(broker) => broker.stop(),
            Self::Sluice(mut broker) => assert!(broker.stop().success()),
        }
    }
}

enum NameServer {
    Java(JavaNameServer),
    Sluice(Sluice),
}

/// A member of the broker group, which may be started again.
struct Member {
    kind: Kind,
    home: PathBuf,
    settings: Vec<String>,
    /// Of one that is Sluice's: its ports stay the same.
    setup: Setup,
}

impl Member {
    fn new(kind: Kind, home: PathBuf, name_server: &str, own: &[&str]) -> Self {
        let settings: Vec<_> = SETTINGS.iter().chain(own).map(|text| (*text).to_owned()).collect();
        let pairs = settings.iter().filter_map(|text| text.split_once('='));
        let setup =
            pairs.fold(Setup::broker(&home.join("store"), name_server), |setup, (name, value)| setup.set(name, value));
        Self { kind, home, settings, setup }
    }

    fn start(&self, name_server: &str) -> Process {
        match self.kind {
            Java => {
                let settings: Vec<_> = self.settings.iter().map(String::as_str).collect();
                Process::Java(JavaBroker::start_version(BROKER_VERSION, &self.home, name_server, &settings))
            }
            Ours => Process::Sluice(self.setup.start()),
        }
    }
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn table(address: &str, code: i32) -> Value {
    let answer = Connection::open(address).call(code, &[], &[]);
    format::loose_json::parse(&answer.body).unwrap_or_default()
}

fn log_end(address: &str) -> String {
    let table = table(address, request::GET_BROKER_RUNTIME_INFO);
    table["table"]["commitLogMaxOffset"].as_str().expect("an end").to_owned()
}

/// Committed offsets of a group in the topic, summed.
fn settled(address: &str, group: &str) -> i64 {
    let table = table(address, request::GET_ALL_CONSUMER_OFFSET);
    let queues = table["offsetTable"][format!("{TOPIC}@{group}")].as_object().cloned().unwrap_or_default();
    queues.values().filter_map(Value::as_i64).sum()
}

/// Commits, at the broker of that address, the end of each queue as it has it, for a group; gives the sum.
fn settle_all(address: &str, group: &str) -> i64 {
    let mut connection = Connection::open(address);
    let mut sum = 0;
    for queue in 0..4 {
        let mut count = 0;
        let end = connection.read_queue(TOPIC, queue, 0, |_| count += 1);
        assert_eq!(end, count, "every message of queue {queue} is at the slave");
        let fields = [
            ("consumerGroup", group),
            ("topic", TOPIC),
            ("queueId", &*queue.to_string()),
            ("commitOffset", &*end.to_string()),
        ];
        let answer = connection.call(request::UPDATE_CONSUMER_OFFSET, &fields, &[]);
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        sum += end as i64;
    }
    sum
}

fn produce(name_server: &str, scratch: &Path, count: u64) {
    let count = count.to_string();
    let flags = [("topic", TOPIC), ("count", &*count), ("size", "2000"), ("threads", "2"), ("mode", "ordered")];
    assert_eq!(run_program("5.4.0", "Produce", name_server, scratch, &flags)["ok"].to_string(), count);
}

/// How many messages an official consumer of the group is given.
fn consume(name_server: &str, scratch: &Path, group: &str, expected: u64) {
    let (expect, seconds) = (expected.to_string(), if expected == 0 { "10" } else { "3" });
    let flags =
        [("topic", TOPIC), ("group", group), ("expect", &*expect), ("from", "first"), ("idle-seconds", seconds)];
    let consumed = run_program("5.4.0", "Consume", name_server, scratch, &flags);
    assert_eq!(consumed["distinct"], expected, "{group}");
}

fn swap(name_server: Kind, master: Kind, slave: Kind) {
    let scratch = tempfile::tempdir().expect("directory");
    let path = scratch.path();
    let names = match name_server {
        Java => NameServer::Java(JavaNameServer::start(&path.join("names"))),
        Ours => NameServer::Sluice(Setup::name_server(&path.join("names")).start()),
    };
    let address = match &names {
        NameServer::Java(names) => names.address.clone(),
        NameServer::Sluice(names) => names.name_server.clone(),
    };
    let of_master = ["brokerId=0", "brokerRole=ASYNC_MASTER"];
    let of_slave = ["brokerId=1", "brokerRole=SLAVE", "slaveReadEnable=true"];
    let first = Member::new(master, path.join("master"), &address, &of_master);
    let second = Member::new(slave, path.join("slave"), &address, &of_slave);
    let running = first.start(&address);
    // As clients make topics that administrators have not.
    Connection::open(running.address()).make_topic(TOPIC, 4);
    // A Sluice slave gets all of a log that goes on for files already; a Java slave the last of them only, if its master is Java too.
    let early = (slave == Java).then(|| second.start(&address));
    produce(&address, path, COUNT);
    let follower = early.unwrap_or_else(|| second.start(&address));
    consume(&address, path, "billing", COUNT);
    produce(&address, path, MORE);
    until("the slave does not have the log", || log_end(follower.address()) == log_end(running.address()));
    until("the slave does not have the offsets", || settled(follower.address(), "billing") == COUNT as i64);
    let gone = running.address().to_owned();
    running.stop();

    let mut settled_here = 0;
    if (name_server, slave) == (Ours, Ours) {
        // Shown in the master's place.
        consume(&address, path, "billing", MORE);
        consume(&address, path, "never-seen-before", COUNT + MORE);
    } else {
        // Official clients ask only a master where a group stands.
        settled_here = settle_all(follower.address(), "billing");
    }
    assert_eq!(settled(follower.address(), "billing"), (COUNT + MORE) as i64);

    let back = first.start(&address);
    if master == Ours {
        assert_eq!(back.address(), gone);
    }
    if slave == Ours {
        until("the master is not told", || settled(back.address(), "billing") == (COUNT + MORE) as i64);
        if settled_here == 0 {
            until("nor of a new group", || settled(back.address(), "never-seen-before") == (COUNT + MORE) as i64);
        }
        consume(&address, path, "billing", 0);
    } else {
        // An official slave tells nobody: what was settled there comes again.
        consume(&address, path, "billing", MORE);
    }
    produce(&address, path, MORE);
    until("the slave does not follow again", || log_end(follower.address()) == log_end(back.address()));
    consume(&address, path, "billing", MORE);
    follower.stop();
    back.stop();
    drop(names);
}

/// Name server, master and slave, with at least one of them Sluice's. The first two are those of everyday runs.
const SWAPS: [(Kind, Kind, Kind); 7] = [
    (Ours, Ours, Ours),
    (Ours, Java, Ours),
    (Java, Ours, Java),
    (Java, Java, Ours),
    (Java, Ours, Ours),
    (Ours, Ours, Java),
    (Ours, Java, Java),
];

#[test]
fn any_process_of_a_group_is_swapped_and_nothing_is_lost_or_comes_again() {
    for (name_server, master, slave) in SWAPS.into_iter().take(swap_count(2) as usize) {
        println!("name server {name_server:?}, master {master:?}, slave {slave:?}");
        swap(name_server, master, slave);
    }
}
