//! Starts on a state that is damaged, of a newer version, or ahead of its log: what is kept, and what is refused.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{GroupName, LogOffset, Now, QueueId, TopicName};
use broker::Message;
use format::document::{GroupDocument, TopicDocument};
use format::record::Record;
use format::state::{self, STATE_TOPIC, STATE_VERSION, StateChange};
use storage::disk::{Disk, MemoryDisk};
use storage::{RetentionPolicy, Snapshot, SnapshotContent, SnapshotFrame, StorageError};
use support::{Bench, layout, message, open_on};
use tempfile::TempDir;
use testkit::{ManualHost, at, broker_options};

const START: Now = at(1_700_000_000_000);
const SEGMENT_SIZE: u64 = 16 << 10;

fn options(directory: &Path) -> storage::Options {
    storage::Options { segment_size: SEGMENT_SIZE, ..layout(directory, vec![1000]) }
}

fn open(directory: &Path) -> Bench {
    open_on(options(directory), START, |_| ())
}

fn refused(directory: &Path) -> String {
    let opened = testkit::open_broker(broker_options(), options(directory), Arc::new(ManualHost::default()), START);
    opened.expect_err("is refused").to_string()
}

fn put_group(bench: &Bench, name: &str, retry_max_times: i32) {
    let settings = GroupDocument { retry_max_times, ..GroupDocument::default() };
    bench.broker.catalog.put_groups(vec![(GroupName::trusted(name), settings)], START).expect("made");
}

fn retries_of(bench: &Bench, name: &str) -> Option<i32> {
    bench.broker.catalog.group(name).map(|group| group.retry_max_times)
}

fn publish(bench: &Bench, count: usize) {
    for _ in 0..count {
        bench.publish("orders", &message(b"x", b"")).expect("stored");
    }
}

/// Sends until the log is in another segment.
fn fill_segment(bench: &Bench) {
    let segment = |offset: LogOffset| offset.0 / SEGMENT_SIZE;
    let first = bench.publish("orders", &message(&[7; 1000], b"")).expect("stored");
    while segment(bench.publish("orders", &message(&[7; 1000], b"")).expect("stored")) == segment(first) {}
}

fn commit(bench: &Bench, offset: i64) {
    bench.broker.offsets.commit("orders", "billing", QueueId(0), offset).expect("commits");
    bench.broker.offsets.keep_changes(START).expect("kept");
    bench.broker.store().write_staged().expect("writes");
}

fn committed(bench: &Bench) -> Option<i64> {
    bench.broker.offsets.committed("orders", "billing", QueueId(0))
}

/// Where a killed process leaves its directory.
fn kill(bench: Bench) {
    drop(bench);
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory.join("commitlog")).expect("lists");
    let mut paths: Vec<_> = listed.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// State records of the first segment with their offsets.
fn state_records(directory: &Path) -> Vec<(u64, Vec<StateChange>)> {
    let log = fs::read(&segments(directory)[0]).expect("reads");
    let (mut at, mut found) = (0, Vec::new());
    while let Ok(record) = Record::decode(&log[at..]) {
        if record.topic == STATE_TOPIC {
            found.push((at as u64, state::decode(record.body).expect("changes")));
        }
        at += record.size;
    }
    found
}

fn snapshot(directory: &Path) -> SnapshotContent {
    Snapshot::open(&storage::disk::Disk::real(), directory).expect("reads").1
}

fn remove_documents(directory: &Path) {
    fs::remove_dir_all(directory.join("config")).expect("removes");
}

fn append_state(bench: &Bench, body: &[u8]) {
    let store = bench.broker.store();
    let mut batch = store.begin_batch(0);
    batch.push_unlisted(&state::draft(body, &[], "127.0.0.1:1".parse().expect("address"), START.wall));
    store.append(batch, START.wall).expect("appends");
    store.write_staged().expect("writes");
}

#[test]
fn a_state_record_of_a_newer_version_stops_the_start_and_is_named_with_it() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    append_state(&bench, &[STATE_VERSION + 1, 1, 2, 3]);
    kill(bench);
    let told = refused(directory.path());
    for words in ["commitlog/00000000000000000000", "version 2", "reads version 1 and below", "start the newer Sluice"]
    {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn a_snapshot_of_a_newer_version_stops_the_start_and_is_named_with_it() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    bench.broker.close(START).expect("closes");
    kill(bench);
    let (mut snapshot, content) = Snapshot::open(&storage::disk::Disk::real(), directory.path()).expect("reads");
    snapshot.write_delta(content.position().expect("a position"), &[9, 1, 2]).expect("writes");
    let told = refused(directory.path());
    assert!(told.contains("/state: ") && told.contains("version 9"), "{told}");
}

#[test]
fn a_state_record_that_says_nothing_readable_is_passed_over_and_those_around_it_are_taken() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    put_group(&bench, "before", 3);
    append_state(&bench, &[STATE_VERSION, 0xff, 0xff]);
    put_group(&bench, "behind", 4);
    bench.broker.store().write_staged().expect("writes");
    kill(bench);
    let bench = open(directory.path());
    assert_eq!((retries_of(&bench, "before"), retries_of(&bench, "behind")), (Some(3), Some(4)));
}

/// A bit that flips in an offset leaves changes that decode: what they say was never decided.
#[test]
fn what_a_state_record_seems_to_say_is_not_taken_if_it_does_not_have_its_checksum() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    publish(&bench, 3);
    commit(&bench, 1);
    commit(&bench, 2);
    bench.broker.close(START).expect("closes");
    kill(bench);
    // The last byte of the changes is the offset; in two records, of which the second is damaged.
    let is_commit = |changes: &[StateChange]| matches!(changes, [StateChange::Offsets { .. }]);
    let commits: Vec<_> = state_records(directory.path()).into_iter().filter(|(_, found)| is_commit(found)).collect();
    let (last, changes) = commits.last().expect("a commit");
    let log = OpenOptions::new().read(true).write(true).open(&segments(directory.path())[0]).expect("opens");
    let body = state::encode(changes);
    let mut record = vec![0; 2000];
    log.read_exact_at(&mut record, *last).expect("reads");
    let at = record.windows(body.len()).position(|bytes| bytes == body).expect("the body") + body.len() - 1;
    log.write_all_at(&[record[at] ^ 2], last + at as u64).expect("writes");
    fs::remove_file(directory.path().join("state")).expect("removes");
    remove_documents(directory.path());
    let bench = open(directory.path());
    assert_eq!(committed(&bench), Some(1));
}

#[test]
fn without_snapshot_and_documents_the_log_says_it_all() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    put_group(&bench, "billing", 3);
    publish(&bench, 9);
    commit(&bench, 7);
    bench.broker.close(START).expect("closes");
    kill(bench);
    fs::remove_file(directory.path().join("state")).expect("removes");
    remove_documents(directory.path());
    let bench = open(directory.path());
    assert_eq!((retries_of(&bench, "billing"), committed(&bench)), (Some(3), Some(7)));
}

#[test]
fn of_a_damaged_snapshot_what_is_whole_is_taken_and_the_log_from_there_on() {
    for damaged_frame in [0, 1, 2] {
        let directory = tempfile::tempdir().expect("directory");
        let bench = open(directory.path());
        for times in 1..=3 {
            put_group(&bench, &format!("group-{times}"), times);
            bench.broker.checkpoint(START).expect("a checkpoint");
        }
        kill(bench);
        let content = snapshot(directory.path());
        let sizes: Vec<_> = content.frames.iter().map(storage::SnapshotFrame::size).collect();
        assert!(sizes.len() >= 3, "{sizes:?}");
        let at: u64 = sizes[..damaged_frame].iter().sum();
        let file = OpenOptions::new().write(true).open(directory.path().join("state")).expect("opens");
        file.write_all_at(b"XX", at).expect("writes");
        assert_eq!(snapshot(directory.path()).frames.len(), damaged_frame);
        let bench = open(directory.path());
        let found: Vec<_> = (1..=3).map(|times| retries_of(&bench, &format!("group-{times}"))).collect();
        assert_eq!(found, [Some(1), Some(2), Some(3)], "frame {damaged_frame}");
        bench.broker.checkpoint(START).expect("a checkpoint");
        let anew = snapshot(directory.path());
        assert_eq!((anew.frames.len(), anew.is_cut), (1, false), "it is written anew");
    }
}

/// A directory whose log has lost its last segments, with a commit and a group in the part that is left and later ones in the lost part,
/// each in a frame of the snapshot; and where the log ends now.
fn without_the_logs_end() -> (TempDir, u64) {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    fill_segment(&bench);
    put_group(&bench, "kept", 3);
    commit(&bench, 5);
    bench.broker.checkpoint(START).expect("a checkpoint");
    fill_segment(&bench);
    fill_segment(&bench);
    put_group(&bench, "lost", 4);
    commit(&bench, 30);
    bench.broker.close(START).expect("closes");
    kill(bench);
    let all = segments(directory.path());
    all[2..].iter().for_each(|path| fs::remove_file(path).expect("removes"));
    (directory, 2 * SEGMENT_SIZE)
}

#[test]
fn a_state_ahead_of_a_log_that_lost_its_end_goes_back_to_what_the_log_says() {
    let (directory, end) = without_the_logs_end();
    assert!(snapshot(directory.path()).position().expect("a position").0 > end);
    let bench = open(directory.path());
    assert_eq!((retries_of(&bench, "kept"), retries_of(&bench, "lost"), committed(&bench)), (Some(3), None, Some(5)));
    // What is new lies below where the snapshot of before was, and outlives a kill.
    put_group(&bench, "new", 5);
    commit(&bench, 6);
    let log_end = bench.broker.store().watermarks().written();
    assert!(log_end.0 >= end);
    kill(bench);
    let bench = open(directory.path());
    assert_eq!((retries_of(&bench, "new"), retries_of(&bench, "lost"), committed(&bench)), (Some(5), None, Some(6)));
}

#[test]
fn a_state_ahead_of_its_log_is_kept_where_nothing_older_is_there_and_offsets_are_drawn_back() {
    let (directory, _) = without_the_logs_end();
    // All in one frame, as it is now and then.
    let content = snapshot(directory.path());
    let (mut file, _) = Snapshot::open(&storage::disk::Disk::real(), directory.path()).expect("reads");
    let changes: Vec<_> =
        content.frames.iter().flat_map(|frame| state::decode(&frame.changes).expect("changes")).collect();
    file.write_base(content.position().expect("a position"), &state::encode(&changes)).expect("writes");
    for is_killed in [false, true] {
        let bench = open(directory.path());
        let queue_end = bench.broker.catalog.topic("orders").expect("a topic").queues[0].end().0 as i64;
        assert!(queue_end < 30);
        assert_eq!((retries_of(&bench, "lost"), committed(&bench)), (Some(4), Some(queue_end)), "{is_killed}");
        put_group(&bench, "new", 5);
        bench.broker.store().write_staged().expect("writes");
        kill(bench);
        let bench = open(directory.path());
        assert_eq!(retries_of(&bench, "new"), Some(5));
    }
}

#[test]
fn exports_ahead_of_their_log_count_where_there_is_no_snapshot_and_changes_behind_the_end_are_kept() {
    let (directory, _) = without_the_logs_end();
    fs::remove_file(directory.path().join("state")).expect("removes");
    let bench = open(directory.path());
    assert_eq!(retries_of(&bench, "kept"), Some(3));
    put_group(&bench, "new", 5);
    bench.broker.store().write_staged().expect("writes");
    kill(bench);
    let bench = open(directory.path());
    assert_eq!((retries_of(&bench, "kept"), retries_of(&bench, "new")), (Some(3), Some(5)));
}

/// Nobody here changes it, and a Java broker that takes over wants it back.
#[test]
fn what_a_java_broker_forbids_is_kept_from_the_first_start_on() {
    let directory = tempfile::tempdir().expect("directory");
    let config = directory.path().join("config");
    fs::create_dir_all(&config).expect("makes");
    let text = r#"{"dataVersion":{"counter":1},"forbiddenTable":{"g":{"t":1}},"subscriptionGroupTable":{"g":{"groupName":"g"}}}"#;
    fs::write(config.join("subscriptionGroup.json"), text).expect("writes");
    for _ in 0..2 {
        let bench = open(directory.path());
        assert_eq!(bench.broker.catalog.group_table().forbidden_table["g"]["t"], 1);
        bench.broker.close(START).expect("closes");
    }
}

#[test]
fn a_topic_keeps_its_settings_when_documents_and_snapshot_are_older() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    bench.broker.save(START).expect("saves");
    let settings = TopicDocument { read_queue_nums: 3, write_queue_nums: 3, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("made");
    bench.broker.store().write_staged().expect("writes");
    kill(bench);
    let bench = open(directory.path());
    assert_eq!(bench.broker.catalog.topic("orders").expect("a topic").queues.len(), 3);
}

/// A directory in use stays as it is, whoever else comes.
#[test]
fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let _bench = open(directory.path());
    let told = refused(directory.path());
    assert_eq!(told, StorageError::Locked(directory.path().to_owned()).to_string());
}

/// Segments may be as small as 64 KiB.
#[test]
fn commits_of_many_queues_are_kept_in_a_log_of_small_segments() {
    let options = storage::Options {
        disk: Disk::new(MemoryDisk::new()),
        segment_size: 64 << 10,
        ..layout(Path::new("/data"), vec![1000])
    };
    let bench = open_on(options, START, |_| ());
    let settings = TopicDocument { read_queue_nums: 20_000, write_queue_nums: 20_000, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted("wide"), settings, START).expect("made");
    for queue in 0..20_000 {
        bench.broker.offsets.commit("wide", "billing", QueueId(queue), 0).expect("commits");
    }
    bench.broker.offsets.keep_changes(START).expect("kept");
}

/// An operator moved a damaged segment and all later ones away, as the refusal of a start says.
#[test]
fn what_several_connections_commit_is_in_the_log_once_that_was_said() {
    const THREADS: u32 = 4;
    const COMMITS: u32 = 200;
    for _ in 0..20 {
        let directory = tempfile::tempdir().expect("directory");
        let bench = open(directory.path());
        let settings =
            TopicDocument { read_queue_nums: THREADS, write_queue_nums: THREADS, ..TopicDocument::default() };
        let topic = bench.broker.catalog.put_topic(TopicName::trusted("wide"), settings, START).expect("made");
        let mut batch = bench.broker.publisher.begin_batch(1 << 16, START);
        for number in 0..THREADS * COMMITS {
            let message = Message { queue: Some(QueueId(number % THREADS)), ..message(b"x", b"") };
            bench.broker.publisher.add(&mut batch, &topic, &message).expect("added");
        }
        bench.broker.publisher.append(batch, START).expect("appended");
        let said: Vec<i64> = std::thread::scope(|scope| {
            let commits = |queue: u32| {
                let offsets = &bench.broker.offsets;
                // Two share a cursor, the others come by their own.
                let group = if queue < 2 { "shared" } else { "own" };
                scope.spawn(move || {
                    let mut cursor = None;
                    let mut said = 0;
                    for offset in 1..=i64::from(COMMITS) {
                        offsets.commit_by(&mut cursor, ("wide", group), QueueId(queue), offset).expect("commits");
                        if offset % 3 == 0 {
                            offsets.keep_changes(START).expect("kept");
                            said = offset;
                        }
                    }
                    said
                })
            };
            let threads: Vec<_> = (0..THREADS).map(commits).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        bench.broker.store().write_staged().expect("writes");
        kill(bench);
        let bench = open(directory.path());
        for (queue, said) in (0..THREADS).zip(said) {
            let group = if queue < 2 { "shared" } else { "own" };
            let found = bench.broker.offsets.committed("wide", group, QueueId(queue));
            assert!(found.is_some_and(|found| found >= said), "queue {queue}: {found:?}, and {said} was said");
            assert_eq!(said, i64::from(COMMITS) / 3 * 3);
        }
    }
}

#[test]
fn a_delayed_message_arrives_although_the_log_lost_its_end_before() {
    let directory = tempfile::tempdir().expect("directory");
    let mut bench = open(directory.path());
    for _ in 0..10 {
        bench.publish("orders", &message(b"first", b"DELAY\x011\x02")).expect("stored");
    }
    bench.advance(1000);
    bench.broker.close(bench.now).expect("closes");
    drop(bench);
    fs::remove_dir_all(directory.path().join("commitlog")).expect("removes");

    let bench = open(directory.path());
    for body in [b"second", b"third "] {
        bench.publish("orders", &message(body, b"DELAY\x011\x02")).expect("acknowledged");
    }
    bench.broker.store().sync().expect("syncs");
    drop(bench);
    let mut bench = open(directory.path());
    bench.advance(1000);
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["second", "third "]);
}

/// One damaged byte in the middle of the snapshot; the log of that time has gone by retention, and whole exports are there.
#[test]
fn a_damaged_snapshot_loses_nothing_that_whole_exports_have() {
    let directory = tempfile::tempdir().expect("directory");
    let retention = RetentionPolicy { size: Some(2 * SEGMENT_SIZE), ..RetentionPolicy::default() };
    let layout = storage::Options { retention, ..options(directory.path()) };
    let bench = open_on(layout.clone(), START, |_| ());
    bench.broker.checkpoint(START).expect("a checkpoint");
    put_group(&bench, "lost", 5);
    bench.broker.catalog.put_topic(TopicName::trusted("returns"), TopicDocument::default(), START).expect("made");
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    bench.broker.offsets.commit("orders", "lost", QueueId(0), 1).expect("commits");
    bench.broker.checkpoint(START).expect("a checkpoint");
    for _ in 0..200 {
        bench.publish("orders", &message(&[7; 1000], b"")).expect("stored");
    }
    bench.broker.checkpoint(START).expect("a checkpoint");
    assert!(bench.broker.store().apply_retention(START.wall, 5).expect("removes").removed > 0);
    bench.broker.close(START).expect("closes");
    drop(bench);
    let document = |name: &str| fs::read_to_string(directory.path().join("config").join(name)).expect("reads");
    assert!(document("subscriptionGroup.json").contains("\"lost\""), "the export has it");
    assert!(document("topics.json").contains("\"returns\""), "the export has it");
    assert!(document("consumerOffset.json").contains("orders@lost"), "the export has it");

    let (_, content) = Snapshot::open(&Disk::real(), directory.path()).expect("reads");
    assert!(content.frames.len() >= 3);
    let second = SnapshotFrame::size(&content.frames[0]);
    let file = OpenOptions::new().write(true).open(directory.path().join("state")).expect("opens");
    file.write_all_at(b"X", second).expect("writes");
    let bench = open_on(layout, START, |_| ());
    assert_eq!(
        (
            bench.broker.catalog.group("lost").is_some(),
            bench.broker.catalog.topic("returns").is_some(),
            bench.broker.offsets.committed("orders", "lost", QueueId(0))
        ),
        (true, true, Some(1))
    );
}

/// Sluice was killed, RocketMQ took over and its retention removed old segments; it had no reason to write the groups anew.
#[test]
fn an_export_that_is_newer_than_the_snapshot_counts_where_the_log_between_is_gone() {
    let directory = tempfile::tempdir().expect("directory");
    let layout = options(directory.path());
    let bench = open_on(layout.clone(), START, |_| ());
    bench.broker.checkpoint(START).expect("a checkpoint");
    put_group(&bench, "late", 5);
    bench.broker.save(START).expect("exports");
    for _ in 0..60 {
        bench.publish("orders", &message(&[7; 1000], b"")).expect("stored");
    }
    bench.broker.store().sync().expect("syncs");
    drop(bench);
    let groups = || fs::read_to_string(directory.path().join("config/subscriptionGroup.json")).expect("reads");
    assert!(groups().contains("\"late\""));
    let mut segments: Vec<_> =
        fs::read_dir(directory.path().join("commitlog")).expect("lists").map(|e| e.expect("one").path()).collect();
    segments.sort();
    segments[..2].iter().for_each(|path| fs::remove_file(path).expect("removes"));
    let bench = open_on(layout, START, |_| ());
    assert_eq!((bench.broker.catalog.group("late").is_some(), groups().contains("\"late\"")), (true, true));
}

/// An operator exports before a Java broker takes over; one byte of the snapshot is damaged.
#[test]
fn an_export_from_a_damaged_snapshot_does_not_replace_documents_that_know_more() {
    let directory = tempfile::tempdir().expect("directory");
    let retention = RetentionPolicy { size: Some(2 * SEGMENT_SIZE), ..RetentionPolicy::default() };
    let layout = storage::Options { retention, ..options(directory.path()) };
    let bench = open_on(layout.clone(), START, |_| ());
    bench.broker.checkpoint(START).expect("a checkpoint");
    put_group(&bench, "lost", 5);
    bench.broker.checkpoint(START).expect("a checkpoint");
    for _ in 0..200 {
        bench.publish("orders", &message(&[7; 1000], b"")).expect("stored");
    }
    bench.broker.checkpoint(START).expect("a checkpoint");
    assert!(bench.broker.store().apply_retention(START.wall, 5).expect("removes").removed > 0);
    bench.broker.close(START).expect("closes");
    drop(bench);
    let (_, content) = Snapshot::open(&Disk::real(), directory.path()).expect("reads");
    let file = OpenOptions::new().write(true).open(directory.path().join("state")).expect("opens");
    file.write_all_at(b"X", SnapshotFrame::size(&content.frames[0])).expect("writes");
    let groups = || fs::read_to_string(directory.path().join("config/subscriptionGroup.json")).expect("reads");
    assert!(groups().contains("\"lost\""));
    broker::export_documents(&layout, START, &mut |_| ()).expect("exports").expect("there is state");
    assert!(groups().contains("\"lost\""), "the export took it away");
}

/// Whatever a request may bring is in our own documents, which are larger and deeper than a request may be.
#[test]
fn a_broker_starts_on_its_own_documents_whatever_is_in_them() {
    let directory = tempfile::tempdir().expect("directory");
    let bench = open(directory.path());
    let policy = "[".repeat(63) + &"]".repeat(63);
    let group_retry_policy = serde_json::from_str(&policy).expect("JSON");
    let settings = GroupDocument { group_retry_policy, ..GroupDocument::default() };
    bench.broker.catalog.put_groups(vec![(GroupName::trusted("deep"), settings)], START).expect("made");
    bench.broker.close(START).expect("closes");
    drop(bench);
    for _ in 0..2 {
        let bench = open(directory.path());
        assert!(bench.broker.catalog.group("deep").is_some());
        bench.broker.close(START).expect("closes");
    }
    fs::remove_file(directory.path().join("state")).expect("removes");
    assert!(open(directory.path()).broker.catalog.group("deep").is_some(), "also by the documents");
}

#[test]
fn settings_of_a_group_or_topic_are_bounded() {
    let directory = tempfile::tempdir().expect("directory");
    let layout = storage::Options { segment_size: 4 << 20, ..layout(directory.path(), vec![1000]) };
    let bench = open_on(layout, START, |_| ());
    let text = |size: usize| "x".repeat(size);
    for (size, is_taken) in [(1 << 19, true), (1 << 20, false)] {
        let settings = GroupDocument { group_retry_policy: text(size).into(), ..GroupDocument::default() };
        let put = bench.broker.catalog.put_groups(vec![(GroupName::trusted("large"), settings)], START);
        assert_eq!(put.is_ok(), is_taken, "{put:?}");
        let attributes = [("+note".to_owned(), text(size))].into_iter().collect();
        let settings = TopicDocument { attributes, ..TopicDocument::default() };
        let put = bench.broker.catalog.put_topic(TopicName::trusted("large"), settings, START);
        assert_eq!(put.is_ok(), is_taken, "{size}");
    }
    assert_eq!(
        bench.broker.catalog.group("large").map(|group| group.group_retry_policy.to_string().len()),
        Some((1 << 19) + 2)
    );
}
