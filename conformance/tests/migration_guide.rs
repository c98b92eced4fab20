//! docs/migrate-from-rocketmq.md, followed word for word: its commands are taken out of the page and run in their order, each on the machine
//! that the page names, while official clients send and consume.
//!
//! Nothing that was acknowledged is lost, order is kept, and nothing is consumed again but what the page says. The way there is part of every
//! test run, all ways back and the master's move to its slave of `SLUICE_CONFORMANCE_ROUTES=3`. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::guide::Guide;
use conformance::java::{self, result_of, start_program};
use conformance::machine::{Machine, Network};
use conformance::process::Process;
use conformance::{repository, route_count, skip};
use wire::rocketmq::code::{request, response};

const NAME_SERVER: &str = "10.0.0.1";
const MASTER: &str = "10.0.0.2";
const SLAVE: &str = "10.0.0.3";
const NEW_SLAVE: &str = "10.0.0.4";
const NAMES: &str = "10.0.0.1:9876";
const TOPIC: &str = "moved";
/// Small files, so that many of them are crossed.
const LAYOUT: &str = "mappedFileSizeCommitLog=1048576\nmappedFileSizeConsumeQueue=20000\n";
/// Of the everyday route: as often as RocketMQ lets it, to save time.
const REGISTERS_OFTEN: &str = "registerNameServerPeriod=10000\n";

const LOOK: &str = "0. Look before";
const NAME: &str = "1. The name server";
const NAME_BACK: &str = "1. The name server: Way back";
const FOLLOWER: &str = "2. The slave";
const ANOTHER_LOG: &str = "2. The slave: Another log";
const FOLLOWER_BACK: &str = "2. The slave: Way back";
const LEADER: &str = "3. The master, by its directory";
const LEADER_BACK: &str = "3. The master, by its directory: Way back";
const CRASHED_BACK: &str = "3. The master, by its directory: Way back after a crash";
const DRAIN: &str = "3b. The master, by its slave: Drain";
const STOP: &str = "3b. The master, by its slave: Stop the master";
const PROMOTE: &str = "3b. The master, by its slave: The slave starts as the master";
const ANEW: &str = "3b. The master, by its slave: A new slave";
const DEMOTE: &str = "3b. The master, by its slave: Way back";
const AFTER: &str = "4. Afterwards";
/// Not of the page: what comes before [`CRASHED_BACK`].
const CRASH: &str = "a crash of the master";

/// All that the page has.
const STEPS: [&str; 15] = [
    LOOK,
    NAME,
    NAME_BACK,
    FOLLOWER,
    ANOTHER_LOG,
    FOLLOWER_BACK,
    LEADER,
    LEADER_BACK,
    CRASHED_BACK,
    DRAIN,
    STOP,
    PROMOTE,
    ANEW,
    DEMOTE,
    AFTER,
];

/// The first is that of everyday runs; together they have every step.
const ROUTES: [&[&str]; 3] = [
    &[LOOK, NAME, FOLLOWER, LEADER, AFTER],
    &[
        NAME,
        NAME_BACK,
        NAME,
        FOLLOWER,
        ANOTHER_LOG,
        FOLLOWER_BACK,
        FOLLOWER,
        LEADER,
        LEADER_BACK,
        LEADER,
        CRASH,
        CRASHED_BACK,
        LEADER,
        AFTER,
    ],
    &[NAME, FOLLOWER, DRAIN, STOP, PROMOTE, ANEW, DEMOTE],
];

/// Commands that go on until they are stopped, and what they say when they are ready.
const SERVERS: [(&str, &str); 4] = [
    ("sluice namesrv ", " ready in "),
    ("sluice broker ", " ready in "),
    ("sh bin/mqnamesrv ", "boot success"),
    ("sh bin/mqbroker ", "boot success"),
];
/// Commands that end.
const TOOLS: [&str; 9] = [
    "sluice doctor ",
    "sluice store export ",
    "mqadmin ",
    "sh bin/mqshutdown ",
    "while pidof ",
    "kill $(pidof sluice)",
    "rm -r ",
    "sed -i ",
    "curl ",
];

/// The page: brokers register again so soon.
const REGISTERED_WITHIN: Duration = Duration::from_secs(30);
const SLACK: Duration = Duration::from_secs(15);
const STARTED_WITHIN: Duration = Duration::from_secs(60);

/// What a server says when it is ready; `None` for a command that ends.
fn ready_words(command: &str) -> Option<&'static str> {
    let server = SERVERS.iter().find(|(words, _)| command.starts_with(words) && !command.ends_with(" -p"));
    let is_tool = command.ends_with(" -p") || TOOLS.iter().any(|words| command.starts_with(words));
    assert!(server.is_some() || is_tool, "the page has a command that this test does not know: {command}");
    server.map(|(_, ready)| *ready)
}

/// The page's cluster.
struct Cluster {
    guide: Guide,
    machines: BTreeMap<String, Machine>,
    running: BTreeMap<String, Process>,
    _network: Network,
}

impl Cluster {
    /// As the page finds it: all Java.
    fn start(network: Network, guide: Guide, scratch: &Path, more_settings: &str) -> Self {
        let add = |address: &&str| ((*address).to_owned(), network.add(address, &scratch.join(address)));
        let machines = [NAME_SERVER, MASTER, SLAVE, NEW_SLAVE].iter().map(add).collect();
        let mut cluster = Self { guide, machines, running: BTreeMap::new(), _network: network };
        let example = cluster.guide.others.first().expect("the example").clone();
        let mut brokers = Vec::new();
        for line in example.lines() {
            let words: Vec<_> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
            let [name, address, file, settings] = words[..] else { panic!("{line}") };
            cluster.write_file(address, file, settings, more_settings);
            if name == "slave" {
                cluster.write_file(NEW_SLAVE, file, settings, more_settings);
            }
            if name == "name server" {
                cluster.run(address, &format!("sh bin/mqnamesrv -c {file}"));
            } else {
                brokers.push((address, cluster.begin(address, &format!("sh bin/mqbroker -c {file} -n {NAMES}"))));
            }
        }
        for (address, ready) in brokers {
            cluster.wait_until_ready(address, ready.expect("a broker"));
        }
        cluster
    }

    fn write_file(&self, address: &str, file: &str, settings: &str, more: &str) {
        let machine = &self.machines[address];
        let lines = settings.replace(' ', "\n").replace("/data/", &format!("{}/", machine.path("data").display()));
        let path = machine.path(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
        fs::create_dir_all(machine.path("data/namesrv")).expect("makes");
        let of_broker = if settings.contains("brokerId") { LAYOUT.to_owned() + more } else { String::new() };
        fs::write(path, format!("{lines}\n{of_broker}")).expect("writes");
    }

    /// Runs the blocks of a step; gives what its commands said.
    fn follow(&mut self, step: &str) -> String {
        let began = Instant::now();
        let blocks: Vec<_> = self.guide.blocks.iter().filter(|block| block.step == step).cloned().collect();
        assert!(!blocks.is_empty(), "the page has no {step}");
        let mut said = String::new();
        for block in blocks {
            for command in block.commands {
                said += &self.run(&block.machine, &command);
            }
        }
        println!("{step}: {:.1} s", began.elapsed().as_secs_f64());
        said
    }

    /// Runs a command; one that goes on, until it is ready. Gives what it said.
    fn run(&mut self, address: &str, command: &str) -> String {
        if let Some(ready) = self.begin(address, command) {
            self.wait_until_ready(address, ready);
            return String::new();
        }
        let output = self.machines[address].run(command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {:?}\n{said}", output.status);
        said
    }

    /// Starts a command that goes on; gives what it will say when it is ready.
    fn begin(&mut self, address: &str, command: &str) -> Option<&'static str> {
        println!("{address}$ {command}");
        let ready = ready_words(command)?;
        if let Some(mut former) = self.running.remove(address) {
            former.wait(Duration::from_secs(5));
        }
        self.running.insert(address.to_owned(), self.machines[address].start(command));
        Some(ready)
    }

    fn wait_until_ready(&mut self, address: &str, ready: &str) {
        let process = self.running.get_mut(address).expect("it was started");
        process.wait_for_line(STARTED_WITHIN, |line| line.contains(ready));
        self.wait_until_registered();
    }

    /// Every broker that runs is known to the name server. The page says within 30 s; a loaded machine gets more.
    fn wait_until_registered(&mut self) {
        let began = Instant::now();
        self.running.retain(|_, process| process.is_running());
        for address in self.running.keys().filter(|address| *address != NAME_SERVER) {
            while !Connection::open(NAMES).cluster_info().contains(&format!("{address}:10911")) {
                assert!(began.elapsed() < REGISTERED_WITHIN + SLACK, "{address} does not register");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn crash(&mut self, address: &str) {
        let machine = &self.machines[address];
        assert!(machine.run("kill -KILL $(pidof sluice)").status.success());
        self.running.remove(address).expect("it ran").wait(Duration::from_secs(5));
    }

    /// Follows a step, and looks whether what the page says of it is so.
    fn take(&mut self, step: &str) {
        if step == CRASH {
            return self.crash(MASTER);
        }
        let slave = match step {
            FOLLOWER | ANOTHER_LOG | LEADER | LEADER_BACK | CRASHED_BACK => Some(SLAVE),
            ANEW => Some(NEW_SLAVE),
            DEMOTE => Some(MASTER),
            _ => None,
        };
        let before = slave.map_or(0, |slave| self.machines[slave].log().len());
        let said = self.follow(step);
        match step {
            FOLLOWER => {
                assert!(said.contains(SLAVE) && said.contains("#Diff"), "{said}");
                for id in [" 0 ", " 1 "] {
                    assert!(said.lines().any(|line| line.contains("broker-a") && line.contains(id)), "{said}");
                }
            }
            DRAIN => self.wait_until_drained(),
            AFTER => assert!(said.contains("sluice_replica_lag_bytes"), "{said}"),
            _ => {}
        }
        if let Some(slave) = slave {
            self.wait_until_followed(slave, before);
        }
    }

    /// As the page says it is seen, in what the slave logs from now on.
    fn wait_until_followed(&self, slave: &str, before: usize) {
        let words = "the master's log is followed";
        assert!(self.guide.text.contains(words));
        let deadline = Instant::now() + REGISTERED_WITHIN;
        while !self.machines[slave].log()[before..].contains(words) {
            assert!(Instant::now() < deadline, "{}", self.machines[slave].log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn wait_until_drained(&mut self) {
        let deadline = Instant::now() + REGISTERED_WITHIN;
        loop {
            let said = self.run(MASTER, &format!("mqadmin haStatus -n {NAMES} -b {MASTER}:10911"));
            // The slave's row: address, acknowledged, difference and so on.
            let row = said.lines().find(|line| line.contains(SLAVE)).unwrap_or_default();
            if row.split_whitespace().nth(2) == Some("0") {
                return;
            }
            assert!(Instant::now() < deadline, "{said}");
        }
    }
}

/// Official clients at work.
struct Traffic {
    folder: PathBuf,
    producer: Process,
    consumers: Vec<Process>,
}

impl Traffic {
    fn start(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name).display().to_string();
        let (over, count) = (file("over"), file("count"));
        let flags = [
            ("topic", TOPIC),
            ("mode", "ordered"),
            ("threads", "2"),
            ("order-keys", "16"),
            ("size", "1000"),
            ("pause-micros", "3000"),
            ("retry-forever", ""),
            ("until-file", &over),
            ("limit-seconds", "900"),
        ];
        let producer = start_program("5.4.0", "Produce", NAMES, folder, &flags);
        let mut flags = vec![
            ("topic", TOPIC),
            ("expect-file", &*count),
            ("from", "first"),
            ("limit-seconds", "900"),
            ("group", "together"),
        ];
        let together = start_program("4.9.7", "Consume", NAMES, folder, &flags);
        flags.pop();
        flags.extend([("group", "in-order"), ("orderly", "")]);
        let in_order = start_program("5.4.0", "Consume", NAMES, folder, &flags);
        let deadline = Instant::now() + STARTED_WITHIN;
        let consumers_at_work =
            || fs::read_to_string(folder.join("programs.log")).unwrap_or_default().matches("started").count();
        while consumers_at_work() < 2 || Connection::open("10.0.0.2:10911").queue_end(TOPIC, 0) == 0 {
            assert!(Instant::now() < deadline, "clients do not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { folder: folder.to_owned(), producer, consumers: vec![together, in_order] }
    }

    /// Everything that was acknowledged has come to both groups, in order, and so many messages at most a second time.
    fn verify(self, again_max: u64) {
        let limit = Duration::from_secs(120);
        fs::write(self.folder.join("over"), "").expect("writes");
        let produced = result_of(self.producer, &self.folder, limit);
        println!("produced {produced}");
        assert!(produced["ok"].as_u64() > Some(1000), "{produced}");
        fs::write(self.folder.join("count"), format!("{}\n", produced["ok"])).expect("writes");
        for consumer in self.consumers {
            let consumed = result_of(consumer, &self.folder, limit);
            println!("consumed {consumed}");
            assert!(consumed["again"].as_u64() <= Some(again_max), "{consumed}");
        }
    }
}

fn travel(route: &[&str], more_settings: &str) {
    java::prepare();
    let Some(network) = Network::enter() else { return skip("machines of their own need root") };
    let guide = Guide::read(&repository().join("docs/migrate-from-rocketmq.md"));
    let scratch = tempfile::tempdir().expect("directory");
    let mut cluster = Cluster::start(network, guide, scratch.path(), more_settings);
    Connection::open("10.0.0.2:10911").make_topic(TOPIC, 4);
    let setting = [("namespace", "page"), ("key", "kept"), ("value", "yes")];
    assert_eq!(Connection::open(NAMES).call(request::PUT_KV_CONFIG, &setting, &[]).code, response::SUCCESS);
    let traffic = Traffic::start(scratch.path());
    for step in route {
        cluster.take(step);
    }
    assert_eq!(Connection::open(NAMES).call(request::GET_KV_CONFIG, &setting[..2], &[]).field("value"), "yes");
    traffic.verify(0);
}

#[test]
fn every_command_of_the_page_is_known_and_run_by_a_route() {
    let guide = Guide::read(&repository().join("docs/migrate-from-rocketmq.md"));
    assert_eq!(guide.steps(), STEPS);
    assert!(STEPS.iter().all(|step| ROUTES.iter().any(|route| route.contains(step))));
    assert_eq!(guide.others.len(), 1, "a code block says where its commands are run: {:?}", guide.others);
    for command in guide.blocks.iter().flat_map(|block| &block.commands) {
        ready_words(command);
    }
}

#[test]
fn the_page_is_followed_word_for_word_and_nothing_is_lost_or_comes_again() {
    travel(ROUTES[0], REGISTERS_OFTEN);
}

#[test]
fn every_step_of_the_page_is_taken_back_and_nothing_is_lost_or_comes_again() {
    if route_count(1) > 1 {
        travel(ROUTES[1], "");
    }
}

#[test]
fn a_slave_becomes_the_master_as_the_page_says_and_nothing_is_lost_or_comes_again() {
    if route_count(1) > 2 {
        travel(ROUTES[2], "");
    }
}
