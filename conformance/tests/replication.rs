//! Replicas: an official slave follows Sluice as it follows an official master.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::free_port;
use conformance::java::JavaBroker;
use conformance::ledger::Ledger;
use conformance::sluice::{Setup, Sluice};
use wire::rocketmq::code::response;

/// Small files, so that many of them are crossed; Java's names.
const LAYOUT: [&str; 2] = ["mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=20000"];

/// An official slave of 5.x asks for tables once a minute.
const TABLES_WITHIN: Duration = Duration::from_secs(150);
/// It connects anew every 5 s.
const CONNECTED_WITHIN: Duration = Duration::from_secs(60);

/// A master that waits for its slave, and what the slave has.
struct Pair {
    version: &'static str,
    name_server: Sluice,
    master: Sluice,
    master_data: PathBuf,
    home: PathBuf,
}

impl Pair {
    fn of(version: &'static str, scratch: &Path) -> Self {
        let name_server = Setup::name_server(&scratch.join("names")).start();
        let master_data = scratch.join("master");
        let setup = LAYOUT
            .iter()
            .filter_map(|text| text.split_once('='))
            .fold(Setup::broker(&master_data, &name_server.name_server), |setup, (name, value)| setup.set(name, value));
        let setup = setup.set("brokerRole", "SYNC_MASTER").set("haListenPort", free_port());
        let master = setup.start();
        Self { version, name_server, master, master_data, home: scratch.join("slave") }
    }

    fn start_slave(&self) -> JavaBroker {
        let own = ["brokerName=broker-a", "brokerId=1", "brokerRole=SLAVE", "slaveReadEnable=true"];
        let settings = [&LAYOUT[..], &own].concat();
        JavaBroker::start_version(self.version, &self.home, &self.name_server.name_server, &settings)
    }

    /// The answer to a send.
    fn send(&self) -> i32 {
        Connection::open(&self.master.broker).send_message("replicated", 0, "", b"x").code
    }

    fn wait_until_waited_for(&self) {
        let deadline = Instant::now() + CONNECTED_WITHIN;
        while self.send() != response::SUCCESS {
            assert!(Instant::now() < deadline, "the slave does not connect");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The slave has the master's log, byte for byte.
    fn compare_logs(&self) {
        let deadline = Instant::now() + CONNECTED_WITHIN;
        let (own, copied) = (self.master_data.join("commitlog"), self.home.join("store/commitlog"));
        let mut names: Vec<_> =
            fs::read_dir(&own).expect("a log").map(|entry| entry.expect("entry").file_name()).collect();
        names.sort_unstable();
        for name in names {
            let mine = fs::read(own.join(&name)).expect("reads");
            if mine.iter().all(|byte| *byte == 0) {
                continue;
            }
            while fs::read(copied.join(&name)).ok().as_deref() != Some(&mine) {
                assert!(Instant::now() < deadline, "{name:?} of the slave is another");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

fn a_slave_follows(version: &'static str) {
    let scratch = tempfile::tempdir().expect("directory");
    let mut pair = Pair::of(version, scratch.path());
    assert_eq!(pair.send(), response::SLAVE_NOT_AVAILABLE, "stored, and no slave has it");
    let mut slave = pair.start_slave();
    pair.wait_until_waited_for();
    let mut ledger = Ledger::default();
    for _ in 0..2 {
        // Every send is answered once the slave has it.
        ledger.take_turn(&pair.master.broker);
    }
    pair.compare_logs();
    slave.process.kill();
    let began = Instant::now();
    assert_eq!(pair.send(), response::SLAVE_NOT_AVAILABLE);
    assert!(began.elapsed() < Duration::from_secs(2), "nobody waits for a slave that is gone: {:?}", began.elapsed());
    let slave = pair.start_slave();
    pair.wait_until_waited_for();
    ledger.wait_until_exported(&pair.home.join("store"), TABLES_WITHIN);
    pair.compare_logs();
    // Before the master stops: what a slave asks it every few seconds fails from then on, and it says so.
    let log = fs::read_to_string(pair.home.join("logs/broker.log")).expect("a log");
    let errors: Vec<_> =
        log.lines().filter(|line| line.contains(" ERROR ") && line.contains(&pair.master.broker)).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert!(pair.master.stop().success());
    ledger.verify(&slave.address, true);
}

#[test]
fn a_slave_of_5_4_0_follows_sluice_byte_for_byte_and_is_waited_for() {
    a_slave_follows("5.4.0");
}

#[test]
fn a_slave_of_4_9_7_follows_sluice_byte_for_byte_and_is_waited_for() {
    a_slave_follows("4.9.7");
}
