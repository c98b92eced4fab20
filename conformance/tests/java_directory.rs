//! One data directory, two brokers: what Sluice wrote an official broker serves, and the other way round, at the same offsets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::directory::{count_entries, count_keys, topics_with_queues};
use conformance::java::{JavaBroker, JavaNameServer};
use conformance::ledger::Ledger;
use conformance::loop_disk::LoopDisk;
use conformance::sluice::{Setup, Sluice, binary};
use conformance::turn_count;
use format::state::STATE_TOPIC;
use wire::rocketmq::code::response;

/// Small files, so that many of them are crossed; Java's names.
const LAYOUT: [&str; 4] =
    ["mappedFileSizeCommitLog=1048576", "mappedFileSizeConsumeQueue=20000", "maxHashSlotNum=1000", "maxIndexNum=4000"];
const COUNT: usize = 3000;
/// Bytes of an entry of a queue.
const ENTRY_SIZE: usize = 20;

/// An official broker writes its documents 10 s after its start for the first time.
const EXPORTED_BY_JAVA_WITHIN: Duration = Duration::from_secs(60);
/// Sluice exports offsets every second; a loaded machine gets more.
const EXPORTED_WITHIN: Duration = Duration::from_secs(5);

/// Each record has a checksum over all of it, and the official broker's recovery asks for it.
const CHECKSUMS: [&str; 2] = ["enabledAppendPropCRC=true", "forceVerifyPropCRC=true"];

const DISK_SIZE: u64 = 4 << 30;
/// Both brokers turn about, and Sluice is the first and the last.
const TURNS: u64 = 3;

fn sluice(data: &Path, settings: &[&str]) -> Setup {
    settings
        .iter()
        .filter(|text| !text.starts_with("forceVerify"))
        .filter_map(|text| text.split_once('='))
        .fold(Setup::serve(data), |setup, (name, value)| setup.set(name, value))
}

fn body_of(number: usize) -> String {
    format!("{number}:{}", "b".repeat(number * 7 % 900))
}

/// How each broker leaves the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
    PowerCut,
}

/// A directory that is passed on, and how.
struct Passing {
    version: &'static str,
    end: End,
    settings: Vec<&'static str>,
    home: PathBuf,
    disk: Option<LoopDisk>,
    name_server: Sluice,
    ledger: Ledger,
}

impl Passing {
    /// What is in the data directory, as others see it while a process runs on it.
    fn data(&self, process: u32) -> PathBuf {
        let home = self.disk.as_ref().map_or_else(|| self.home.clone(), |disk| disk.seen_through(process).join("java"));
        home.join("store")
    }

    fn wrapper(&self) -> Vec<String> {
        self.disk.as_ref().map(LoopDisk::wrapper).unwrap_or_default()
    }

    /// What a broker does before its end.
    fn take_turn(&mut self, address: &str, process: u32, exported_within: Duration) {
        self.ledger.take_turn(address);
        if self.end != End::Stop {
            self.ledger.wait_until_exported(&self.data(process), exported_within);
        }
    }

    fn cut_power(&self, process: u32) {
        if let Some(disk) = self.disk.as_ref().filter(|_| self.end == End::PowerCut) {
            disk.cut_power(process);
        }
    }

    fn wait_until_free(&self) {
        self.disk.iter().for_each(LoopDisk::wait_until_free);
    }

    fn turn_of_sluice(&mut self) {
        // An official broker keeps its files in `store` below its own directory.
        let setup = sluice(&self.home.join("store"), &self.settings);
        let wrapper = self.wrapper();
        let mut own = setup.within(&wrapper.iter().map(String::as_str).collect::<Vec<_>>()).start();
        self.ledger.verify(&own.broker, self.end != End::Stop);
        self.take_turn(&own.broker, own.id(), EXPORTED_WITHIN);
        self.ledger.leave_delayed(&own.broker);
        if self.end == End::Stop {
            assert!(own.stop().success());
        } else {
            self.cut_power(own.id());
            own.kill();
        }
        self.wait_until_free();
    }

    /// Has the official broker make all entries and keys from the log, and gives how many keys that are.
    fn make_java_list_all(&self) -> u64 {
        for folder in ["consumequeue", "index"] {
            std::fs::remove_dir_all(self.home.join("store").join(folder)).expect("removes");
        }
        // Those of 5.4 can be asked for a tag too.
        if self.version == "4.9.7" { self.ledger.keys() } else { 2 * self.ledger.keys() }
    }

    fn turn_of_java(&mut self, is_first: bool) {
        let wrapper = self.wrapper();
        let address = &self.name_server.name_server;
        let keys = match self.end {
            End::Stop => Some(count_keys(&self.home.join("store"))),
            End::Kill if is_first => Some(self.make_java_list_all()),
            _ => None,
        };
        let mut java = JavaBroker::start_within(&wrapper, self.version, &self.home, address, &self.settings);
        let process = java.process.id();
        self.ledger.verify(&java.address, self.end != End::Stop);
        state_records_cost_nothing(&self.data(process), &self.ledger, keys);
        self.take_turn(&java.address, process, EXPORTED_BY_JAVA_WITHIN);
        if let Some(disk) = &self.disk {
            // It syncs no documents.
            disk.sync(process);
        }
        self.ledger.leave_delayed(&java.address);
        if self.end == End::Stop {
            java.stop();
        } else {
            self.cut_power(process);
            java.process.kill();
        }
        self.wait_until_free();
    }
}

/// An official broker has made of the log what messages need, and no more. After a crash it may list its newest keys twice: then `keys` are
/// not counted.
fn state_records_cost_nothing(data: &Path, ledger: &Ledger, keys: Option<u64>) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let topics = topics_with_queues(data);
        assert!(!topics.iter().any(|topic| topic == STATE_TOPIC), "queues: {topics:?}");
        let kept = topics.iter().filter(|topic| !ledger.removed_topics().contains(*topic));
        let found = (kept.map(|topic| count_entries(data, topic)).sum::<u64>(), keys.map(|_| count_keys(data)));
        if found == (ledger.entries(), keys) {
            break;
        }
        let wanted = (ledger.entries(), keys);
        assert!(Instant::now() < deadline, "entries and keys: {found:?} instead of {wanted:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let log = std::fs::read_to_string(data.join("../logs/broker.log")).expect("a log");
    // Its check of transactions reads topics of its own, and at times fails once while it starts.
    let is_error = |line: &&str| line.contains(" ERROR ") && !line.contains("TransactionalMessageCheckService");
    let told: Vec<_> = log.lines().filter(|line| line.contains(STATE_TOPIC) || is_error(line)).collect();
    assert!(told.is_empty(), "{told:#?}");
}

/// A directory goes from one broker to the other and back.
fn is_passed_on(version: &'static str, end: End, further: &[&'static str]) {
    let scratch = tempfile::tempdir().expect("directory");
    let mut disk = None;
    if end == End::PowerCut {
        disk = LoopDisk::make_or_skip(scratch.path(), DISK_SIZE, "a disk whose power can be cut");
        if disk.is_none() {
            return;
        }
    }
    let home = disk.as_ref().map_or(scratch.path(), LoopDisk::directory).join("java");
    let mut passing = Passing {
        version,
        end,
        settings: [&LAYOUT[..], further].concat(),
        home,
        disk,
        name_server: Setup::name_server(&scratch.path().join("names")).start(),
        ledger: Ledger::default(),
    };
    for turn in 0..turn_count(TURNS) {
        if turn % 2 == 0 { passing.turn_of_sluice() } else { passing.turn_of_java(turn == 1) }
    }
}

/// What is in the files of a queue, by name, up to the last entry.
fn queue_files(data: &Path, queue: &str) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(data.join("consumequeue").join(queue)).expect("a folder of entries");
    let used = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("a file of entries");
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last / ENTRY_SIZE + 1) * ENTRY_SIZE);
        bytes
    };
    let files = files.map(|file| file.expect("a file").path());
    files
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), used(&path)))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect()
}

/// RocketMQ's light topics: a record is listed in further queues, at offsets it names.
#[test]
fn further_queues_in_which_an_official_broker_lists_a_record_are_made_again_alike() {
    const LIGHT: [&str; 2] = ["%LMQ%one", "%LMQ%two"];
    let settings = &[&LAYOUT[..], &["enableLmq=true", "enableMultiDispatch=true"]].concat()[..];
    let scratch = tempfile::tempdir().expect("directory");
    let name_server = JavaNameServer::start(&scratch.path().join("names"));
    let home = scratch.path().join("java");
    let data = home.join("store");
    let java = JavaBroker::start(&home, &name_server.address, settings);
    let mut connection = Connection::open(&java.address);
    for number in 0..COUNT {
        let topics = if number % 2 == 0 { LIGHT[0].to_owned() } else { LIGHT.join(",") };
        let properties = format!("TAGS\u{1}t{}\u{2}INNER_MULTI_DISPATCH\u{1}{topics}\u{2}", number % 3);
        let answer = connection.send_message("own", (number % 2) as i32, &properties, body_of(number).as_bytes());
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    }
    drop(connection);
    java.stop();
    let queues = ["own/0", "own/1", "%LMQ%one/0", "%LMQ%two/0"];
    let made_by_java = queues.map(|queue| queue_files(&data, queue));
    let counts = made_by_java.each_ref().map(|files| files.values().map(Vec::len).sum::<usize>() / ENTRY_SIZE);
    assert_eq!(counts, [COUNT / 2, COUNT / 2, COUNT, COUNT / 2]);
    std::fs::remove_dir_all(data.join("consumequeue")).expect("removes");
    assert!(sluice(&data, &LAYOUT).start().stop().success());
    assert_eq!(queues.map(|queue| queue_files(&data, queue)), made_by_java);
    let check = Command::new(binary()).args(["store", "check"]).arg(&data).output().expect("runs");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    // And it serves them.
    let java = JavaBroker::start(&home, &name_server.address, settings);
    let mut connection = Connection::open(&java.address);
    let mut number = 0;
    let end = connection.read_queue(LIGHT[0], 0, 0, |record| {
        assert_eq!(record.body, body_of(number).as_bytes());
        number += 1;
    });
    assert_eq!(end, COUNT as u64);
}

#[test]
fn a_directory_goes_to_java_5_4_0_and_back_after_orderly_stops() {
    is_passed_on("5.4.0", End::Stop, &[]);
}

#[test]
fn a_directory_goes_to_java_4_9_7_and_back_after_orderly_stops() {
    is_passed_on("4.9.7", End::Stop, &[]);
}

#[test]
fn a_directory_with_checksums_goes_to_java_5_4_0_and_back_after_kills() {
    is_passed_on("5.4.0", End::Kill, &CHECKSUMS);
}

#[test]
fn a_directory_goes_to_java_4_9_7_and_back_after_kills() {
    is_passed_on("4.9.7", End::Kill, &[]);
}

#[test]
fn a_directory_goes_to_java_5_4_0_and_back_after_power_cuts() {
    is_passed_on("5.4.0", End::PowerCut, &["flushDiskType=SYNC_FLUSH"]);
}

#[test]
fn a_directory_goes_to_java_4_9_7_and_back_after_power_cuts() {
    is_passed_on("4.9.7", End::PowerCut, &["flushDiskType=SYNC_FLUSH"]);
}
