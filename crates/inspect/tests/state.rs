//! What a check and a dump say of state records, the snapshot, and RocketMQ's documents beside them: on directories of whole brokers,
//! stopped and killed, with real damage.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use base::{GroupName, Now, QueueId, TopicName};
use format::document::{GroupDocument, TopicDocument};
use format::record::Record;
use format::state::{self, STATE_TOPIC, STATE_VERSION};
use inspect::{DumpOptions, Dumped, Finding, Kind, Report};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{Snapshot, SnapshotFrame};
use tempfile::TempDir;
use testkit::{ManualHost, at, broker_options};

const NOW: Now = at(1_700_000_000_000);
const SEGMENT: &str = "commitlog/00000000000000000000";

fn options(directory: &Path) -> storage::Options {
    storage::Options { segment_size: 64 << 10, ..testkit::store_options(directory) }
}

macro_rules! open {
    ($directory:expr) => {
        testkit::open_broker(broker_options(), options($directory), Arc::new(ManualHost::default()), NOW)
            .expect("the broker opens")
    };
}

fn group(retry_max_times: i32) -> Vec<(GroupName, GroupDocument)> {
    vec![(GroupName::trusted("billing"), GroupDocument { retry_max_times, ..GroupDocument::default() })]
}

/// A broker's directory with a topic, a group and a commit, that was stopped or killed.
fn directory(is_killed: bool) -> TempDir {
    let directory = tempfile::tempdir().expect("directory");
    let broker = open!(directory.path());
    let settings = TopicDocument { read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
    broker.catalog.put_topic(TopicName::trusted("orders"), settings, NOW).expect("made");
    broker.catalog.put_groups(group(3), NOW).expect("made");
    broker.checkpoint(NOW).expect("a checkpoint");
    broker.offsets.commit("orders", "billing", QueueId(0), 0).expect("commits");
    if is_killed {
        broker.save(NOW).expect("saves");
        broker.catalog.put_groups(group(4), NOW).expect("changed");
        broker.store().write_staged().expect("writes");
    } else {
        broker.close(NOW).expect("closes");
    }
    drop(broker);
    directory
}

fn check(directory: &Path) -> Report {
    inspect::check(&options(directory), false, &mut |_| ()).expect("checks")
}

/// What is found beside what every such directory has.
fn findings(directory: &Path) -> Vec<Finding> {
    let usual = [Kind::TopicsEmpty, Kind::NotStopped, Kind::EntriesBehind, Kind::KeysBehind, Kind::NoKeyIndex];
    check(directory).findings.into_iter().filter(|finding| !usual.contains(&finding.kind)).collect()
}

fn kinds(directory: &Path) -> Vec<(Kind, String)> {
    findings(directory).into_iter().map(|finding| (finding.kind, finding.file)).collect()
}

fn only(directory: &Path) -> Finding {
    let found = findings(directory);
    let [finding] = &found[..] else { panic!("not one finding: {found:#?}") };
    finding.clone()
}

/// State records of the log: where, and how long their bodies are.
fn state_records(directory: &Path) -> Vec<(u64, usize)> {
    let log = fs::read(directory.join(SEGMENT)).expect("reads");
    let (mut at, mut found) = (0, Vec::new());
    while let Ok(record) = Record::decode(&log[at..]) {
        if record.topic == STATE_TOPIC {
            found.push((at as u64, record.body.len()));
        }
        at += record.size;
    }
    found
}

/// Makes a state record say something else, with a right checksum.
fn rewrite(directory: &Path, (at, body_size): (u64, usize), change: impl FnOnce(&mut [u8])) {
    const BODY_AT: u64 = 84 + 4;
    let file = OpenOptions::new().read(true).write(true).open(directory.join(SEGMENT)).expect("opens");
    let mut body = vec![0; body_size];
    file.read_exact_at(&mut body, at + BODY_AT).expect("reads");
    state::decode(&body).expect("the body of a state record");
    change(&mut body);
    file.write_all_at(&body, at + BODY_AT).expect("writes");
    let checksum = crc32fast::hash(&body) & 0x7fff_ffff;
    file.write_all_at(&checksum.to_be_bytes(), at + 8).expect("writes");
}

fn frames(directory: &Path) -> Vec<SnapshotFrame> {
    Snapshot::open(&Disk::real(), directory).expect("reads").1.frames
}

#[test]
fn a_stopped_and_a_killed_broker_leave_a_state_that_is_whole() {
    let stopped = directory(false);
    assert_eq!(findings(stopped.path()), []);
    assert!(check(stopped.path()).counts.state_records > 2);
    let killed = directory(true);
    let behind = only(killed.path());
    assert_eq!((behind.kind, &*behind.file), (Kind::ExportBehind, "config/subscriptionGroup.json"));
    let what = behind.what;
    assert!(what.contains("of 1 differences") && what.contains("group billing: 1 retry queues, 4 retries"), "{what}");
}

#[test]
fn a_state_record_that_cannot_be_read_is_damage_and_one_of_a_newer_version_is_named_with_it() {
    let directory = directory(false);
    let records = state_records(directory.path());
    let last = *records.last().expect("a record");
    rewrite(directory.path(), last, |body| body[0] = STATE_VERSION + 6);
    let newer = only(directory.path());
    assert_eq!((newer.kind, &*newer.file, newer.position), (Kind::StateNewer, SEGMENT, Some(last.0)));
    assert!(newer.what.contains("version 7"), "{}", newer.what);
    let directory = crate::directory(false);
    rewrite(directory.path(), last, |body| body[1..].fill(0xff));
    let damaged = only(directory.path());
    assert_eq!((damaged.kind, &*damaged.file, damaged.position), (Kind::StateRecordDamaged, SEGMENT, Some(last.0)));
    assert!(damaged.what.contains("holds no changes of state"), "{}", damaged.what);
    // A bit that flipped: the checksum is what it was.
    let directory = crate::directory(false);
    let file = OpenOptions::new().read(true).write(true).open(directory.path().join(SEGMENT)).expect("opens");
    let mut byte = [0];
    let at = last.0 + 84 + 4 + last.1 as u64 - 1;
    file.read_exact_at(&mut byte, at).expect("reads");
    file.write_all_at(&[byte[0] ^ 2], at).expect("writes");
    let flipped = only(directory.path());
    assert_eq!((flipped.kind, flipped.position), (Kind::StateRecordDamaged, Some(last.0)));
    assert!(flipped.what.contains("does not have its checksum"), "{}", flipped.what);
}

#[test]
fn of_a_damaged_snapshot_it_is_told_which_frames_are_good() {
    let directory = directory(false);
    let frames = frames(directory.path());
    assert!(frames.len() >= 2, "{frames:?}");
    let path = directory.path().join("state");
    let kept = fs::read(&path).expect("reads");
    let mut start = 0;
    for (number, frame) in frames.iter().enumerate() {
        let mut bytes = kept.clone();
        bytes[start as usize + 9] ^= 1;
        fs::write(&path, bytes).expect("writes");
        let damaged = only(directory.path());
        assert_eq!((damaged.kind, &*damaged.file, damaged.position), (Kind::SnapshotDamaged, "state", Some(start)));
        let wanted = match number {
            0 => "no frame of it is whole".to_owned(),
            1 => format!("its first frame, up to log offset {}, is whole", frames[0].position),
            _ => format!("its first {number} frames, up to log offset {}, are whole", frames[number - 1].position),
        };
        assert_eq!(damaged.what, wanted);
        start += frame.size();
    }
}

#[test]
fn a_snapshot_that_no_start_goes_on_with_is_told_with_its_frame() {
    let directory = directory(false);
    for (changes, kind, words) in [
        (&[STATE_VERSION + 1, 0][..], Kind::StateNewer, "version 2"),
        (&[STATE_VERSION, 9, 9], Kind::SnapshotUnreadable, "no changes of state"),
    ] {
        let (mut snapshot, content) = Snapshot::open(&Disk::real(), directory.path()).expect("reads");
        let position = content.position().expect("a position");
        let size: u64 = content.frames.iter().map(SnapshotFrame::size).sum();
        snapshot.write_delta(position, changes).expect("writes");
        let found = only(directory.path());
        assert_eq!((found.kind, &*found.file, found.position), (kind, "state", Some(size)));
        assert!(found.what.contains(words) && found.what.starts_with("frame "), "{}", found.what);
        let file = OpenOptions::new().write(true).open(directory.path().join("state")).expect("opens");
        file.set_len(size).expect("cuts");
    }
}

/// The directory in the memory of a disk that fails on demand.
fn copied(directory: &Path) -> FaultyDisk {
    let faulty = FaultyDisk::over(&MemoryDisk::new());
    let disk = Disk::new(faulty.clone());
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("lists").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                disk.replace_file(&entry, &fs::read(&entry).expect("reads")).expect("writes");
            }
        }
    }
    faulty
}

#[test]
fn a_state_that_the_disk_cannot_read_is_told_as_what_stops_a_start() {
    let directory = directory(false);
    let disk = copied(directory.path());
    disk.fail(Failure::unreadable(directory.path().join("state").to_str().expect("a name"), 0..8, 5));
    let options = storage::Options { disk: Disk::new(disk), ..options(directory.path()) };
    let report = inspect::check(&options, false, &mut |_| ()).expect("checks");
    let found: Vec<_> = report.findings.iter().filter(|finding| finding.file == "state").collect();
    assert_eq!(found.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [Kind::StateUnreadable], "{found:#?}");
}

#[test]
fn a_checkpoint_that_the_disk_cannot_read_or_see_keeps_nothing_else_from_being_told() {
    let directory = directory(false);
    let name = directory.path().join("checkpoint").to_str().expect("a name").to_owned();
    for failure in [Failure::unreadable(&name, 0..8, 5), Failure::error(Operation::Examine, 5).at(&name)] {
        let disk = copied(directory.path());
        disk.fail(failure);
        let options = storage::Options { disk: Disk::new(disk), ..options(directory.path()) };
        let report = inspect::check(&options, false, &mut |_| ()).expect("checks");
        let found: Vec<_> = report.findings.iter().filter(|finding| finding.file == "checkpoint").collect();
        assert_eq!(found.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [Kind::Unreadable], "{found:#?}");
        assert_eq!(report.counts.log_end, check(directory.path()).counts.log_end);
    }
}

#[test]
fn a_state_that_is_ahead_of_its_log_is_told_file_by_file() {
    let directory = directory(false);
    let end = check(directory.path()).counts.log_end;
    let (mut snapshot, _) = Snapshot::open(&Disk::real(), directory.path()).expect("reads");
    snapshot.write_delta(base::LogOffset(end + 500), &state::encode(&[])).expect("writes");
    let ahead = only(directory.path());
    assert_eq!((ahead.kind, &*ahead.file), (Kind::StateAhead, "state"));
    assert_eq!(ahead.what, format!("it is of log offset {}, and the log ends at {end}", end + 500));
    let path = directory.path().join("config/topics.json");
    let text = fs::read_to_string(&path).expect("reads");
    let position = text.split("sluiceLogPosition\": ").nth(1).and_then(|rest| rest.split(['\n', ',', '}']).next());
    let text = text.replace(position.expect("a position"), &(end + 7).to_string());
    fs::write(&path, text).expect("writes");
    let ahead = [(Kind::StateAhead, "state".to_owned()), (Kind::StateAhead, "config/topics.json".to_owned())];
    assert_eq!(kinds(directory.path()), ahead);
}

#[test]
fn a_state_whose_changes_went_with_segments_is_lost() {
    let directory = tempfile::tempdir().expect("directory");
    let broker = open!(directory.path());
    broker.checkpoint(NOW).expect("a checkpoint");
    let behind = frames(directory.path()).last().expect("a frame").position;
    for times in 0..1000 {
        broker.catalog.put_groups(group(times), NOW).expect("changed");
    }
    broker.store().write_staged().expect("writes");
    broker.store().checkpoint().expect("a checkpoint without a snapshot");
    drop(broker);
    fs::remove_file(directory.path().join(SEGMENT)).expect("removes");
    let found = findings(directory.path());
    let lost: Vec<_> = found.iter().filter(|finding| finding.kind == Kind::StateLost).collect();
    let [lost] = &lost[..] else { panic!("{found:#?}") };
    assert_eq!(lost.what, format!("known up to log offset {behind}; the log begins at 65536"));
}

#[test]
fn documents_that_say_something_else_than_the_state_are_told_and_those_of_java_are_not_ours_to_judge() {
    for (name, from, to) in [
        ("topics.json", "\"readQueueNums\": 1,", "\"readQueueNums\": 2,"),
        ("subscriptionGroup.json", "\"retryMaxTimes\": 3", "\"retryMaxTimes\": 9"),
        ("consumerOffset.json", "\"orders@billing\"", "\"orders@shipping\""),
    ] {
        let directory = directory(false);
        let path = directory.path().join("config").join(name);
        let text = fs::read_to_string(&path).expect("reads");
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).expect("writes");
        let differs = only(directory.path());
        assert_eq!((differs.kind, &*differs.file), (Kind::ExportDiffers, &*format!("config/{name}")));
        let java = fs::read_to_string(&path).expect("reads").replace("sluiceLogPosition", "other");
        fs::write(&path, java).expect("writes");
        assert_eq!(findings(directory.path()), [], "{name}");
        fs::remove_file(&path).expect("removes");
        let backup = path.with_extension("json.bak");
        if backup.exists() {
            fs::remove_file(backup).expect("removes");
        }
        assert_eq!(kinds(directory.path()), [(Kind::ExportBehind, format!("config/{name}"))]);
    }
}

#[test]
fn a_dump_says_in_words_what_state_records_say() {
    let directory = directory(false);
    let words = |options: &DumpOptions| {
        let mut words = Vec::new();
        inspect::dump(&self::options(directory.path()), options, &mut |dumped| {
            if let Dumped::Record(record) = dumped {
                words.extend(record.state.to_vec());
            }
            true
        })
        .expect("dumps");
        words
    };
    let of_state = DumpOptions { topic: Some(STATE_TOPIC.to_owned()), ..DumpOptions::default() };
    let told = words(&of_state);
    for wanted in [
        "topic orders: 1 read queues, 1 write queues, permission 6",
        "group billing: 1 retry queues, 3 retries at most, may consume",
        "offsets of orders@billing: queue 0 at 0",
    ] {
        assert!(told.iter().any(|words| words == wanted), "{wanted}: {told:#?}");
    }
    assert_eq!(words(&DumpOptions::default()), told, "no other record says anything");
    let last = *state_records(directory.path()).last().expect("a record");
    rewrite(directory.path(), last, |body| body[0] = 9);
    assert!(words(&of_state).iter().any(|words| words.contains("its state is of version 9")));
}
