//! What a check says of whole stores and of every kind of damage, and that it changes nothing.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base::metric::Metrics;
use base::{LogOffset, QueueId, Timestamp, TopicName};
use format::index_rules::IndexRules;
use format::record::{Draft, Record};
use inspect::{DumpOptions, Dumped, Kind, Report, Severity};
use storage::{Options, StorageError, Store};
use tempfile::TempDir;

const SEGMENT_SIZE: u64 = 4096;
const QUEUE_FILE_ENTRIES: u64 = 8;
const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
const NOW: u64 = 1_700_000_000_000;

fn open(directory: &Path) -> Store {
    open_with_slots(directory, 16)
}

fn open_with_slots(directory: &Path, key_index_slots: u32) -> Store {
    let options = Options {
        segment_size: SEGMENT_SIZE,
        queue_file_entries: QUEUE_FILE_ENTRIES,
        key_index_slots,
        key_index_entries: 40,
        recent_size: 1024,
        index_rules: IndexRules::new(vec![1000]),
        checkpoint_reserve: Some(4096),
        ..Options::new(directory)
    };
    Store::open(options, Arc::new(Metrics::default()), &mut |_| ()).expect("opens").0
}

/// The sizes of segments and of queues' files are not told: they are found out.
fn check_options(directory: &Path) -> Options {
    Options {
        key_index_slots: 16,
        key_index_entries: 40,
        index_rules: IndexRules::new(vec![1000]),
        ..Options::new(directory)
    }
}

/// Appends one message with a key and a tag; gives its place.
fn append(store: &Store, topic: &str, queue: u32, body: &[u8]) -> LogOffset {
    let index = store.queue(&TopicName::trusted(topic), QueueId(queue));
    let key = format!("k{queue}-{}", index.end().0);
    let properties = format!("KEYS\u{1}{key}\u{2}TAGS\u{1}TagA\u{2}DELAY\u{1}1\u{2}");
    let properties: &[&[u8]] = &[properties.as_bytes()];
    let draft = Draft { properties, ..testkit::draft(topic, QueueId(queue), body) };
    let mut batch = store.begin_batch(0);
    testkit::push(store, &mut batch, &index, &draft);
    let appended = store.append(batch, Timestamp(NOW)).expect("appends");
    assert!(store.write_staged().expect("writes"));
    appended.records[0].log_offset
}

/// A store of 100 messages in two queues and some parked ones, in several files of every sort, and where they are.
fn fill(directory: &Path, count: u64) -> (Store, Vec<u64>) {
    let store = open(directory);
    let places = (0..count)
        .map(|number| {
            let topic = if number % 10 == 9 { DELAY_TOPIC } else { "orders" };
            let queue = if topic == "orders" { number as u32 % 2 } else { 0 };
            append(&store, topic, queue, &vec![b'a' + (number % 26) as u8; 60 + number as usize]).0
        })
        .collect();
    let config = directory.join("config");
    fs::create_dir_all(&config).expect("makes");
    let topics = format!(r#"{{"topicConfigTable":{{"orders":{{"topicName":"orders"}},"{DELAY_TOPIC}":{{}}}}}}"#);
    fs::write(config.join("topics.json"), topics).expect("writes");
    fs::write(config.join("consumerOffset.json"), r#"{"offsetTable":{"orders@group":{0:10,1:20}}}"#).expect("writes");
    fs::write(config.join("delayOffset.json"), r#"{"offsetTable":{1:3}}"#).expect("writes");
    (store, places)
}

fn whole() -> (TempDir, Vec<u64>) {
    let directory = tempfile::tempdir().expect("directory");
    let (store, places) = fill(directory.path(), 100);
    store.close().expect("closes");
    (directory, places)
}

fn run(directory: &Path) -> Report {
    inspect::check(&check_options(directory), false, &mut |_| ()).expect("checks")
}

fn kinds(report: &Report) -> Vec<Kind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// The only finding there is.
fn only(directory: &Path) -> (Kind, String, Option<u64>) {
    let report = run(directory);
    let [finding] = &report.findings[..] else { panic!("not one finding: {:#?}", report.findings) };
    (finding.kind, finding.file.clone(), finding.position)
}

fn write_at(path: &Path, position: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("opens");
    file.write_all_at(bytes, position).expect("writes");
}

fn flip(path: &Path, position: u64) {
    let mut byte = [0];
    let file = fs::File::open(path).expect("opens");
    file.read_exact_at(&mut byte, position).expect("reads");
    write_at(path, position, &[byte[0] ^ 1]);
}

fn segment(directory: &Path, offset: u64) -> (PathBuf, u64) {
    let base = offset / SEGMENT_SIZE * SEGMENT_SIZE;
    (directory.join(format!("commitlog/{base:020}")), offset - base)
}

fn segment_name(offset: u64) -> String {
    format!("commitlog/{:020}", offset / SEGMENT_SIZE * SEGMENT_SIZE)
}

/// Every file with its bytes and its time.
fn everything(directory: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("lists") {
        let path = entry.expect("entry").path();
        let modified = fs::metadata(&path).expect("examines").modified().expect("a time");
        if path.is_dir() {
            files.extend(everything(&path));
            files.push((path, Vec::new(), modified));
        } else {
            files.push((path.clone(), fs::read(&path).expect("reads"), modified));
        }
    }
    files.sort();
    files
}

#[test]
fn a_whole_store_is_clean_and_not_touched() {
    let (directory, places) = whole();
    let before = everything(directory.path());
    let report = run(directory.path());
    assert_eq!(report.findings, []);
    let counts = report.counts;
    assert_eq!((counts.records, counts.entries, counts.keys, counts.topics, counts.queues), (100, 100, 100, 2, 3));
    assert_eq!((counts.log_first, counts.durable), (0, Some(counts.log_end)));
    assert!(counts.segments > 4 && counts.log_end > places[99] && counts.key_files > 1, "{counts:?}");
    assert_eq!(before, everything(directory.path()));
}

#[test]
fn a_killed_store_is_whole_with_notes() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = fill(directory.path(), 60);
    store.checkpoint().expect("checkpoint");
    append(&store, "orders", 0, b"later");
    drop(store);
    let report = run(directory.path());
    assert_eq!(kinds(&report), [Kind::NotStopped, Kind::EntriesBehind, Kind::KeysBehind], "{:#?}", report.findings);
    assert_eq!((report.worst(), report.counts.records), (Some(Severity::Note), 61));
}

#[test]
fn directories_of_a_java_broker_are_clean() {
    for (name, notes) in [("store-5.4.0", vec![]), ("store-5.4.0-killed", vec![Kind::NotStopped])] {
        let fixture = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rocketmq")).join(name);
        let delays = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];
        let delay_levels_ms = delays.map(|seconds| seconds * 1000).to_vec();
        // The shape of the key index is not told: it is found out.
        let usual = (5_000_000, 20_000_000);
        let options = Options {
            index_rules: IndexRules::new(delay_levels_ms),
            key_index_slots: usual.0,
            key_index_entries: usual.1,
            ..check_options(&fixture)
        };
        let report = inspect::check(&options, false, &mut |_| ()).expect("checks");
        let found: Vec<_> = kinds(&report).into_iter().filter(|kind| *kind != Kind::TopicsEmpty).collect();
        assert_eq!(found, notes, "{:#?}", report.findings);
        assert_eq!((report.counts.records, report.counts.entries, report.counts.topics), (1552, 1552, 3));
        // Unique id, two keys and the tag; two messages have one key.
        assert_eq!(report.counts.keys, 4 * 1550 + 2 * 3);
    }
}

#[test]
fn a_flipped_bit_in_a_body_or_a_header_is_one_finding() {
    let (directory, places) = whole();
    let (path, position) = segment(directory.path(), places[50]);
    for (within, kind) in
        [(120, Kind::BodyDamaged), (1, Kind::RecordDamaged), (5, Kind::RecordDamaged), (31, Kind::RecordDamaged)]
    {
        flip(&path, position + within);
        assert_eq!(only(directory.path()), (kind, segment_name(places[50]), Some(position)), "byte {within}");
        flip(&path, position + within);
    }
    // Queue offset: the entry is right, the record says otherwise.
    flip(&path, position + 27);
    assert_eq!(only(directory.path()).0, Kind::EntryWrong);
    flip(&path, position + 27);
    assert_eq!(run(directory.path()).findings, []);
}

#[test]
fn zeroes_in_the_log_break_it() {
    let (directory, places) = whole();
    let (path, position) = segment(directory.path(), places[50]);
    write_at(&path, position, &vec![0; (places[51] - places[50]) as usize]);
    assert_eq!(only(directory.path()), (Kind::LogBroken, segment_name(places[50]), Some(position)));
}

#[test]
fn a_filler_of_a_wrong_size_is_passed_over_but_where_it_ends_the_log() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, places) = fill(directory.path(), 100);
    let last = places.iter().rposition(|place| *place < SEGMENT_SIZE).expect("a record");
    let (path, position) = segment(directory.path(), places[last]);
    let size = fs::read(&path).expect("reads")[position as usize..][..4].try_into().expect("four bytes");
    write_at(&path, position + u64::from(u32::from_be_bytes(size)) + 2, &[0xff]);
    drop(store);
    fs::remove_file(directory.path().join("checkpoint")).expect("removes");
    assert!(kinds(&run(directory.path())).contains(&Kind::LogBroken));
    let (directory, _) = whole();
    let (path, _) = segment(directory.path(), places[last]);
    write_at(&path, position + u64::from(u32::from_be_bytes(size)) + 2, &[0xff]);
    assert_eq!(only(directory.path()).0, Kind::FillerSize);
}

#[test]
fn a_missing_and_a_cut_segment_are_one_finding_each() {
    let (directory, places) = whole();
    let (path, _) = segment(directory.path(), places[50]);
    fs::rename(&path, directory.path().join("kept")).expect("moves");
    assert_eq!(only(directory.path()), (Kind::SegmentMissing, segment_name(places[50]), None));
    fs::rename(directory.path().join("kept"), &path).expect("moves");
    OpenOptions::new().write(true).open(&path).expect("opens").set_len(1000).expect("cuts");
    assert_eq!(only(directory.path()), (Kind::SegmentSize, segment_name(places[50]), None));
}

#[test]
fn the_end_of_the_log_is_judged() {
    let (directory, places) = whole();
    let end = run(directory.path()).counts.log_end;
    let (path, position) = segment(directory.path(), end);
    write_at(&path, position + 20, b"left");
    assert_eq!(only(directory.path()), (Kind::LeftoverAfterEnd, segment_name(end), Some(position)));
    fs::write(directory.path().join("abort"), "1").expect("writes");
    assert_eq!(kinds(&run(directory.path())), [Kind::UnfinishedEnd, Kind::NotStopped]);
    fs::remove_file(directory.path().join("abort")).expect("removes");
    write_at(&path, position + 20, &[0; 4]);
    let (path, position) = segment(directory.path(), places[99]);
    write_at(&path, position, &vec![0; (end - places[99]) as usize]);
    assert_eq!(only(directory.path()), (Kind::LogEndsEarly, segment_name(places[99]), Some(position)));
}

#[test]
fn a_write_cut_short_by_a_kill_is_a_warning() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = fill(directory.path(), 60);
    store.checkpoint().expect("checkpoint");
    let place = append(&store, "orders", 0, &[b'x'; 200]).0;
    drop(store);
    let (path, position) = segment(directory.path(), place);
    write_at(&path, position + 150, &[0; 300]);
    assert_eq!(kinds(&run(directory.path())), [Kind::UnfinishedEnd, Kind::NotStopped]);
}

#[test]
fn damage_to_files_of_queues_is_one_finding_each() {
    let (directory, places) = whole();
    let root = directory.path();
    let second = "consumequeue/orders/0/00000000000000000160";
    let cut =
        |size| OpenOptions::new().write(true).open(root.join(second)).expect("opens").set_len(size).expect("cuts");
    let kept = fs::read(root.join(second)).expect("reads");
    cut(57);
    assert_eq!(only(root), (Kind::QueueFileSize, second.to_owned(), None));
    fs::remove_file(root.join(second)).expect("removes");
    assert_eq!(only(root), (Kind::QueueFileMissing, second.to_owned(), None));
    fs::write(root.join(second), &kept).expect("writes");
    // Entries 8 and 9 are gone, 10 points at the log's front, 11 far on, 12 has another size, 13 another tag.
    for (at, bytes) in [
        (0, vec![0; 40]),
        (40, places[1].to_be_bytes().to_vec()),
        (40, places[98].to_be_bytes().to_vec()),
        (40, u64::MAX.to_be_bytes().to_vec()),
        (88, vec![0, 0, 1]),
        (112, vec![9]),
    ] {
        let kind = match at {
            0 => Kind::EntryMissing,
            40 => Kind::EntryElsewhere,
            _ => Kind::EntryWrong,
        };
        write_at(&root.join(second), at, &bytes);
        assert_eq!(only(root), (kind, second.to_owned(), Some(at / 20 * 20)));
        fs::write(root.join(second), &kept).expect("writes");
    }
    assert_eq!(run(root).findings, []);
}

#[test]
fn entries_after_the_end_and_lost_queues_are_told() {
    let (directory, _) = whole();
    let root = directory.path();
    let last = root.join("consumequeue/orders/0/00000000000000000960");
    let kept = fs::read(&last).expect("reads");
    let entry = [&1_000_000_u64.to_be_bytes()[..], &100_u32.to_be_bytes(), &[0; 8]].concat();
    write_at(&last, 5 * 20, &entry);
    assert_eq!(only(root).0, Kind::EntryBeyondEnd);
    fs::write(&last, &kept).expect("writes");
    let due = root.join(format!("consumequeue/{DELAY_TOPIC}/0/00000000000000000000"));
    write_at(&due, 20 + 12, &[7]);
    assert_eq!(only(root).0, Kind::DueTime);
    fs::remove_dir_all(root.join("consumequeue/SCHEDULE_TOPIC_XXXX")).expect("removes");
    assert_eq!(only(root).0, Kind::QueueUnlisted);
    let topics = r#"{"topicConfigTable":{"orders":{}}}"#;
    fs::write(root.join("config/topics.json"), topics).expect("writes");
    assert_eq!(only(root).0, Kind::TopicRemoved);
    fs::remove_dir_all(root.join("consumequeue")).expect("removes");
    assert_eq!(only(root).0, Kind::QueuesMissing);
    let nothing = tempfile::tempdir().expect("directory");
    let refused = inspect::check(&check_options(nothing.path()), false, &mut |_| ()).expect_err("no store").to_string();
    assert!(refused.contains("cannot find") && refused.contains("commitlog"), "{refused}");
}

#[test]
fn a_topic_that_was_made_again_is_not_damage() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, _) = fill(directory.path(), 100);
    store.remove_topic(&TopicName::trusted("orders")).expect("removes");
    for number in 0..60 {
        append(&store, "orders", number % 2, b"again");
    }
    store.close().expect("closes");
    let report = run(directory.path());
    assert_eq!(kinds(&report), [Kind::EarlierLife, Kind::EarlierLife], "{:#?}", report.findings);
}

#[test]
fn damage_to_the_key_index_is_one_finding_each() {
    let (directory, places) = whole();
    let root = directory.path();
    let mut names: Vec<_> =
        fs::read_dir(root.join("index")).expect("lists").map(|entry| entry.expect("entry").path()).collect();
    names.sort();
    let file = &names[1];
    let kept = fs::read(file).expect("reads");
    let entry = |number: u64| 40 + 16 * 4 + number * 20;
    for (position, bytes, kind) in [
        (entry(5) + 4, u64::MAX.to_be_bytes().to_vec(), Kind::KeyElsewhere),
        (entry(5) + 4, places[1].to_be_bytes().to_vec(), Kind::KeyElsewhere),
        (entry(5) + 4, places[97].to_be_bytes().to_vec(), Kind::KeyElsewhere),
        (entry(5) + 12, vec![1], Kind::KeyElsewhere),
        (entry(5) + 16, vec![1], Kind::KeySlots),
        (40 + 3, vec![77], Kind::KeySlots),
        (31, vec![255], Kind::KeyHeader),
        (35, vec![99], Kind::KeyHeader),
    ] {
        write_at(file, position, &bytes);
        let (found, name, _) = only(root);
        assert_eq!((found, root.join(name)), (kind, file.clone()), "at {position}");
        fs::write(file, &kept).expect("writes");
    }
    fs::remove_file(file).expect("removes");
    assert_eq!(only(root).0, Kind::KeysMissing);
    fs::write(file, &kept[..100]).expect("writes");
    assert_eq!(only(root).0, Kind::KeyFileSize);
    fs::remove_dir_all(root.join("index")).expect("removes");
    assert_eq!(only(root).0, Kind::NoKeyIndex);
}

#[test]
fn every_slot_of_a_large_key_file_is_looked_at() {
    const SLOTS: u32 = 100_000;
    let directory = tempfile::tempdir().expect("directory");
    let store = open_with_slots(directory.path(), SLOTS);
    append(&store, "orders", 0, b"one");
    store.close().expect("closes");
    drop(store);
    let names = || fs::read_dir(directory.path().join("index")).expect("lists");
    let file = names().next().expect("a file").expect("entry").path();
    let options = Options { key_index_slots: SLOTS, ..check_options(directory.path()) };
    let run = || inspect::check(&options, false, &mut |_| ()).expect("checks").findings;
    let kinds = |findings: &[inspect::Finding]| findings.iter().map(|finding| finding.kind).collect::<Vec<_>>();
    let before = kinds(&run());
    for slot in [40_000, 90_000] {
        let place = 40 + slot * 4;
        write_at(&file, place + 3, &[7]);
        let findings = run();
        let slots: Vec<_> = findings.iter().filter(|finding| finding.kind == Kind::KeySlots).collect();
        assert_eq!(slots.iter().map(|finding| finding.position).collect::<Vec<_>>(), [Some(place)]);
        assert_eq!(findings.len(), before.len() + 1, "{findings:#?}");
        write_at(&file, place + 3, &[0]);
    }
}

#[test]
fn keys_that_a_power_cut_took_are_behind_and_those_below_the_checkpoint_must_be_there() {
    let directory = tempfile::tempdir().expect("directory");
    let (store, places) = fill(directory.path(), 60);
    store.checkpoint().expect("checkpoint");
    let later = append(&store, "orders", 0, b"later").0;
    drop(store);
    let index = fs::read_dir(directory.path().join("index")).expect("lists");
    let newest = index.map(|entry| entry.expect("entry").path()).max().expect("a file");
    let kept = fs::read(&newest).expect("reads");
    // 39 of the 60 keys are in the file before.
    let entry = |number: u64| 40 + 16 * 4 + number * 20;
    let entry_of = |place: u64| [&7_u32.to_be_bytes()[..], &place.to_be_bytes(), &[0; 8]].concat();
    assert_eq!(kept[36..40], 22_u32.to_be_bytes());
    for left in [vec![0; 60], entry_of(later), entry_of(places[3]), entry_of(u64::MAX)] {
        write_at(&newest, 36, &25_u32.to_be_bytes());
        write_at(&newest, entry(22), &left);
        let report = run(directory.path());
        assert_eq!(kinds(&report), [Kind::NotStopped, Kind::EntriesBehind, Kind::KeysBehind], "{:#?}", report.findings);
        assert_eq!(report.counts.keys, 60);
        write_at(&newest, entry(21), &[0; 20]);
        assert!(kinds(&run(directory.path())).contains(&Kind::KeysMissing), "a key below the checkpoint");
        fs::write(&newest, &kept).expect("writes");
    }
}

#[test]
fn documents_are_judged() {
    let (directory, _) = whole();
    let root = directory.path();
    let offsets = root.join("config/consumerOffset.json");
    for (text, kind) in [
        ("{", Kind::DocumentBroken),
        (r#"{"offsetTable":{"orders@group":{0:51}}}"#, Kind::OffsetBeyondQueue),
        (r#"{"offsetTable":{"orders@group":{7:1}}}"#, Kind::OffsetBeyondQueue),
        (r#"{"offsetTable":{"gone@group":{0:1}}}"#, Kind::OffsetOfNoTopic),
    ] {
        fs::write(&offsets, text).expect("writes");
        assert_eq!(only(root), (kind, "config/consumerOffset.json".to_owned(), None), "{text}");
    }
    fs::write(&offsets, "{").expect("writes");
    fs::write(root.join("config/consumerOffset.json.bak"), "{}").expect("writes");
    assert_eq!(only(root).0, Kind::DocumentFallsBack);
    fs::write(&offsets, "{}").expect("writes");
    fs::write(root.join("config/consumerOffset.json.bak"), "").expect("writes");
    assert_eq!(only(root).0, Kind::BackupBroken);
    fs::remove_file(root.join("config/consumerOffset.json.bak")).expect("removes");
    // What no broker would read is not read into memory either.
    fs::File::create(&offsets).and_then(|file| file.set_len((512 << 20) + 1)).expect("lengthens");
    let report = run(root);
    assert_eq!(kinds(&report), [Kind::DocumentBroken]);
    assert_eq!(report.findings[0].what, "536870913 bytes: too large for a document");
    fs::write(&offsets, "{}").expect("writes");
    fs::write(root.join("config/delayOffset.json"), r#"{"offsetTable":{1:11}}"#).expect("writes");
    assert_eq!(only(root).0, Kind::DelayBeyondQueue);
    fs::remove_file(root.join("config/delayOffset.json")).expect("removes");
    fs::write(root.join("config/topics.json"), r#"{"topicConfigTable":{"orders":{},"quiet":{}}}"#).expect("writes");
    assert_eq!(kinds(&run(root)), [Kind::TopicUnknown, Kind::TopicsEmpty]);
    fs::write(root.join("config/topics.json"), r#"{"topicConfigTable":5}"#).expect("writes");
    assert_eq!(only(root).0, Kind::DocumentBroken);
    fs::remove_dir_all(root.join("config")).expect("removes");
    assert_eq!(only(root).0, Kind::TopicsMissing);
}

#[test]
fn what_else_lies_in_the_directory_is_told() {
    let (directory, _) = whole();
    let root = directory.path();
    fs::create_dir(root.join("set-aside")).expect("makes");
    fs::write(root.join("set-aside/commitlog-1"), "x").expect("writes");
    assert_eq!(only(root), (Kind::SetAside, "set-aside/commitlog-1".to_owned(), None));
    fs::remove_dir_all(root.join("set-aside")).expect("removes");
    flip(&root.join("checkpoint"), 2050 + 10);
    assert_eq!(only(root).0, Kind::CheckpointDamaged);
    fs::remove_file(root.join("checkpoint")).expect("removes");
    assert_eq!(only(root).0, Kind::CheckpointMissing);
}

/// Holds a store for as long as its standard input is open, if the test below asks for it.
#[test]
fn holds_a_store() {
    let Ok(directory) = std::env::var("HELD_STORE") else { return };
    let (store, _) = fill(Path::new(&directory), 20);
    fs::write(Path::new(&directory).join("held"), "").expect("writes");
    let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
    drop(store);
}

#[test]
fn a_directory_in_use_is_told() {
    let directory = tempfile::tempdir().expect("directory");
    let mut holder = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "holds_a_store"])
        .env("HELD_STORE", directory.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    while !directory.path().join("held").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let before = everything(directory.path());
    let options = check_options(directory.path());
    assert_eq!(inspect::holder(&options), Some(holder.id()));
    let refused = inspect::check(&options, false, &mut |_| ());
    assert!(matches!(refused, Err(StorageError::Locked(_))));
    let report = inspect::check(&options, true, &mut |_| ()).expect("checks");
    let offsets = [Kind::OffsetBeyondQueue, Kind::DelayBeyondQueue];
    let found: Vec<_> = kinds(&report).into_iter().filter(|kind| !offsets.contains(kind)).collect();
    assert!(found.contains(&Kind::InUse) && report.worst() <= Some(Severity::Warning), "{:#?}", report.findings);
    assert_eq!(report.counts.records, 20);
    assert_eq!(before, everything(directory.path()));
    drop(holder.stdin.take());
    holder.wait().expect("ends");
    assert_eq!(inspect::holder(&options), None);
}

#[test]
fn records_are_dumped_and_chosen() {
    let (directory, places) = whole();
    let root = directory.path();
    let (path, position) = segment(root, places[50]);
    flip(&path, position + 120);
    let (path, position) = segment(root, places[60]);
    flip(&path, position + 5);
    let store = check_options(root);
    let all = DumpOptions::default;
    let dump = |options: DumpOptions, count: usize| {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        inspect::dump(&store, &options, &mut |dumped| {
            match dumped {
                Dumped::Record(record) => found.push((record.log_offset, record.crc_ok)),
                Dumped::Broken { log_offset, next, .. } => damaged.push((log_offset, next)),
            }
            found.len() < count
        })
        .expect("dumps");
        (found, damaged)
    };
    let (found, damaged) = dump(all(), usize::MAX);
    assert_eq!((found.len(), damaged), (99, vec![(places[60], places[61])]));
    assert_eq!(found.iter().filter(|(_, is_whole)| !is_whole).collect::<Vec<_>>(), [&(places[50], false)]);
    let (found, damaged) = dump(DumpOptions { from: places[70] - 3, ..all() }, 2);
    assert_eq!((found, damaged), (vec![(places[70], true), (places[71], true)], vec![]));
    let parked = DumpOptions { topic: Some(DELAY_TOPIC.to_owned()), queue: Some(0), ..all() };
    assert_eq!(dump(parked, usize::MAX).0.len(), 10);
    let by_key = DumpOptions { key: Some("k1-3".to_owned()), ..all() };
    assert_eq!(dump(by_key, usize::MAX).0, [(places[7], true)]);
    let body = |bytes: &[u8]| Record::decode(bytes).map(|record| record.body.len());
    assert!(body(&[]).is_err());
    assert_eq!(inspect::time_text(1_700_000_000_123), "2023-11-14 22:13:20.123");
}
