//! Delayed messages: what was acknowledged arrives, not early, whatever happens meanwhile to the process, the disk, the clock, the
//! topic and the settings.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;

use base::offset::AckPolicy;
use base::{GroupName, LogOffset, Now, Permission, QueueId, TopicName};
use broker::{Filter, Message, Options, SendBack};
use format::document::TopicDocument;
use format::index_rules::DELAY_TOPIC;
use format::record::{Draft, Record};
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{CommitRule, NoState};
use support::{Bench, layout, message, open_on};
use testkit::{CLOCK_STEPS_MS, at, clock_set};

const START: Now = at(1_700_000_000_000);
const ENOSPC: i32 = 28;
const COMMITTED: i32 = 0x8;

/// The official delay levels.
fn official_delays_ms() -> Vec<u64> {
    [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200].map(|s| s * 1000).to_vec()
}

fn open(disk: Disk, now: Now, delays_ms: &[u64], change: impl FnOnce(&mut Options)) -> Bench {
    open_on(storage::Options { disk, ..layout(Path::new("/data"), delays_ms.to_vec()) }, now, change)
}

fn memory(delays_ms: &[u64]) -> Bench {
    open(Disk::new(MemoryDisk::new()), START, delays_ms, |_| ())
}

fn delayed<'a>(body: &'a [u8], level: &'a [u8]) -> Message<'a> {
    message(body, level)
}

const LEVEL_1: &[u8] = b"DELAY\x011\x02";
const LEVEL_2: &[u8] = b"DELAY\x012\x02";

/// Stores a record as it is, as another broker may have.
fn store(bench: &Bench, (topic, queue): (&str, u32), properties: &[u8], system_flag: i32) -> LogOffset {
    let store = bench.broker.store();
    let index = store.queue(&TopicName::trusted(topic), QueueId(queue));
    let mut batch = store.begin_batch(0);
    let properties: &[&[u8]] = &[properties];
    let draft = Draft { system_flag, properties, ..testkit::draft(topic, QueueId(queue), b"from elsewhere") };
    testkit::push(store, &mut batch, &index, &draft);
    let appended = store.append(batch, bench.now.wall).expect("appends");
    store.write_staged().expect("writes");
    appended.records[0].log_offset
}

fn put_topic(bench: &Bench, name: &str, perm: u32, queues: u32) {
    let settings =
        TopicDocument { perm, read_queue_nums: queues, write_queue_nums: queues, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted(name), settings, bench.now).expect("changed");
}

/// Two levels of a second, on a disk whose segments soon are full.
fn small_segments(disk: &FaultyDisk) -> storage::Options {
    let levels_ms = vec![1000, 1000];
    storage::Options { disk: Disk::new(disk.clone()), segment_size: 32 * 1024, ..layout(Path::new("/data"), levels_ms) }
}

#[test]
fn progress_is_not_remembered_before_the_copies_are_on_the_disk() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open(Disk::new(disk.clone()), START, &[1000], |options| options.ack_policy = AckPolicy::DURABLE);
    bench.publish("orders", &delayed(b"acknowledged", LEVEL_1)).expect("stored");
    bench.broker.save(START).expect("saves");
    bench.broker.store().sync().expect("syncs");
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["acknowledged"]);

    let cut = disk.after_power_cut(disk.points(), || false);
    let mut again = open(Disk::new(cut), bench.now, &[1000], |_| ());
    again.advance(0);
    assert_eq!(again.bodies("orders", 0), ["acknowledged"]);

    // Once they are, it is, and nothing is delivered twice.
    bench.broker.store().sync().expect("syncs");
    let cut = disk.after_power_cut(disk.points(), || false);
    let mut again = open(Disk::new(cut), bench.now, &[1000], |_| ());
    again.advance(0);
    assert_eq!(again.bodies("orders", 0), ["acknowledged"]);
}

#[test]
fn progress_is_not_remembered_before_the_copies_are_committed_and_nothing_else_is_delivered() {
    let disk = MemoryDisk::new();
    let open = |disk: &MemoryDisk, now| {
        let commit_rule = CommitRule::Told { known: LogOffset(0) };
        let disk = Disk::new(disk.clone());
        open_on(storage::Options { disk, commit_rule, ..layout(Path::new("/data"), vec![1000]) }, now, |_| ())
    };
    let commit = |bench: &Bench| {
        let written = bench.broker.store().watermarks().written();
        bench.broker.store().set_committed(written, &mut NoState).expect("commits");
    };
    let mut bench = open(&disk, START);
    bench.publish("orders", &delayed(b"parked", LEVEL_1)).expect("stored");
    bench.broker.save(START).expect("saves");
    bench.advance(1000);
    commit(&bench);
    assert_eq!(bench.bodies("orders", 0), [""; 0], "it may yet be taken back");
    bench.advance(0);
    let end = bench.broker.store().watermarks().written();
    assert!(bench.broker.store().watermarks().committed() < end, "the copy is in the log");
    bench.broker.store().sync().expect("syncs");
    bench.broker.save(bench.now).expect("saves");

    // The copy is taken back: the message is delivered again.
    let mut again = open(&disk.copy(), bench.now);
    commit(&again);
    again.advance(0);
    commit(&again);
    assert_eq!(again.bodies("orders", 0), ["parked"; 2]);
    drop(again);

    commit(&bench);
    bench.broker.save(bench.now).expect("saves");
    let mut again = open(&disk.copy(), bench.now);
    commit(&again);
    again.advance(0);
    commit(&again);
    assert_eq!(again.bodies("orders", 0), ["parked"]);
}

#[test]
fn a_killed_process_loses_no_copy_that_was_not_written() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open(Disk::new(disk.clone()), START, &[1000], |_| ());
    bench.publish("orders", &delayed(b"acknowledged", LEVEL_1)).expect("stored");
    let now = START.plus_ms(1000);
    bench.broker.delivery.deliver_due(now);
    // Killed before the writer came to it.
    drop(bench);
    let mut again = open(Disk::new(disk), now, &[1000], |_| ());
    again.advance(0);
    assert_eq!(again.bodies("orders", 0), ["acknowledged"]);
}

#[test]
fn an_orderly_stop_remembers_all_that_was_delivered() {
    let disk = Disk::new(MemoryDisk::new());
    let mut bench = open(disk.clone(), START, &[1000], |_| ());
    bench.publish("orders", &delayed(b"once", LEVEL_1)).expect("stored");
    bench.advance(1000);
    // Nor does a run in which nothing is due forget it.
    for _ in 0..3 {
        bench.broker.close(bench.now).expect("closes");
        let now = bench.now;
        drop(bench);
        bench = open(disk.clone(), now, &[1000], |_| ());
        bench.advance(1000);
        assert_eq!(bench.bodies("orders", 0), ["once"]);
    }
}

#[test]
fn levels_may_come_and_go_with_the_settings() {
    let disk = Disk::new(MemoryDisk::new());
    let mut now = START;
    let mut with_levels = |delays_ms: &[u64], level: u32, wait_ms: u64| {
        let mut bench = open(disk.clone(), now, delays_ms, |_| ());
        let property = format!("DELAY\x01{level}\x02");
        bench.publish("orders", &delayed(format!("{level}").as_bytes(), property.as_bytes())).expect("stored");
        bench.advance(wait_ms);
        let bodies = bench.bodies("orders", 0);
        bench.broker.close(bench.now).expect("closes");
        now = bench.now;
        bodies
    };
    assert_eq!(with_levels(&[1000], 1, 1000), ["1"]);
    // A level more than the topic of parked messages was made with.
    assert_eq!(with_levels(&[1000, 5000], 2, 0), ["1"]);
    // What waits in a level that is not there is kept until it is there again.
    assert_eq!(with_levels(&[1000], 1, 9000), ["1", "1"]);
    assert_eq!(with_levels(&[1000, 5000], 1, 1000), ["1", "1", "1", "2"]);
}

#[test]
fn a_copy_that_cannot_be_appended_is_tried_again_and_holds_up_no_other_level() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open_on(small_segments(&disk), START, |_| ());
    bench.publish("orders", &delayed(&[b'x'; 20_000], LEVEL_1)).expect("stored");
    bench.publish("orders", &delayed(b"small", LEVEL_2)).expect("stored");
    // There is no room for another segment, which the copy of the large one needs.
    disk.fail(Failure::error(Operation::Resize, ENOSPC).at("commitlog"));
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["small"]);
    assert_eq!(bench.broker.metrics().delayed_failures.get(), 1);
    disk.heal();
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0).iter().map(String::len).collect::<Vec<_>>(), [5, 20_000]);
    bench.advance(10_000);
    assert_eq!(bench.bodies("orders", 0).len(), 2);
}

#[test]
fn setting_the_clock_by_an_hour_moves_no_second_try() {
    for by_ms in CLOCK_STEPS_MS {
        let disk = FaultyDisk::over(&MemoryDisk::new());
        let mut bench = open_on(small_segments(&disk), START, |_| ());
        // A level that fails, and a message that is held.
        bench.publish("orders", &delayed(&[b'x'; 20_000], LEVEL_1)).expect("stored");
        bench.publish("closed", &delayed(b"small", LEVEL_2)).expect("stored");
        put_topic(&bench, "closed", 6, 0);
        disk.fail(Failure::error(Operation::Resize, ENOSPC).at("commitlog"));
        bench.advance(1000);
        assert_eq!((bench.broker.metrics().delayed_failures.get(), bench.broker.metrics().delayed_held.get()), (1, 1));
        disk.heal();
        put_topic(&bench, "closed", 6, 1);
        bench.now = clock_set(bench.now, by_ms);
        bench.advance(999);
        assert_eq!((bench.bodies("orders", 0).len(), bench.bodies("closed", 0).len()), (0, 0), "{by_ms}");
        bench.advance(1);
        assert_eq!(bench.bodies("closed", 0).len(), 1, "{by_ms}");
        // Set back, a level waits for its delay once more.
        bench.advance(if by_ms < 0 { 1000 } else { 0 });
        assert_eq!(bench.bodies("orders", 0).len(), 1, "{by_ms}");
    }
}

#[test]
fn what_is_parked_when_the_clock_is_set_back_waits_once_more_however_often_it_is_set() {
    let mut bench = memory(&[10_000]);
    bench.publish("orders", &delayed(b"parked", LEVEL_1)).expect("stored");
    for _ in 0..9 {
        bench.now = clock_set(bench.now, -3_600_000);
        bench.advance(1000);
    }
    // It counts from when that was first seen, a second after the first of them.
    bench.advance(1999);
    assert!(bench.bodies("orders", 0).is_empty());
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["parked"]);
}

#[test]
fn what_was_accepted_is_delivered_whatever_a_sender_would_be_refused_now() {
    let disk = Disk::new(MemoryDisk::new());
    let bench = open(disk.clone(), START, &[1000], |_| ());
    for topic in ["frozen", "gone", "large"] {
        bench.publish(topic, &delayed(&[b'x'; 1000], LEVEL_1)).expect("stored");
    }
    put_topic(&bench, "frozen", 4, 4);
    bench.broker.removals.topic("gone", START).expect("removed");
    // As an older version let it through, with a timer beside the level, and as RocketMQ parks a committed half message.
    let of_topic = |name: &str, more: &str| format!("REAL_TOPIC\x01{name}\x02REAL_QID\x010\x02DELAY\x011\x02{more}");
    store(&bench, (DELAY_TOPIC, 0), of_topic("timed", "TIMER_DELAY_SEC\x015\x02").as_bytes(), 0);
    store(&bench, (DELAY_TOPIC, 0), of_topic("committed", "TRAN_MSG\x01true\x02").as_bytes(), COMMITTED);
    bench.broker.save(START).expect("saves");
    drop(bench);
    let mut bench = open(disk, START, &[1000], |options| {
        options.permission = Permission::READ;
        options.message_size_max = 10;
        options.auto_create_topics = false;
        options.auto_create_groups = false;
    });
    bench.advance(1000);
    for topic in ["frozen", "gone", "large", "timed", "committed"] {
        assert_eq!(bench.bodies(topic, 0).len(), 1, "{topic}");
    }
    let timed = bench.fetch("timed", 0, 0, Filter::All);
    let record = Record::decode(&timed.pieces[0]).expect("a record");
    assert_eq!((record.property("TIMER_DELAY_SEC"), record.property("DELAY")), (None, None));
    assert_eq!(bench.broker.metrics().delayed_delivered.get(), 5);
}

#[test]
fn a_message_that_cannot_be_delivered_yet_is_held_and_holds_up_nothing() {
    let disk = Disk::new(MemoryDisk::new());
    let mut bench = open(disk.clone(), START, &[1000], |_| ());
    for (topic, body) in [("orders", b"one"), ("closed", b"two"), ("orders", b"thr")] {
        bench.publish(topic, &delayed(body, LEVEL_1)).expect("stored");
    }
    put_topic(&bench, "closed", 6, 0);
    bench.advance(1000);
    assert_eq!(
        (bench.bodies("orders", 0), bench.broker.metrics().delayed_held.get()),
        (vec!["one".into(), "thr".into()], 1)
    );
    bench.broker.save(bench.now).expect("saves");
    // A restart does not forget it.
    bench.broker.close(bench.now).expect("closes");
    let now = bench.now;
    drop(bench);
    let mut bench = open(disk, now, &[1000], |_| ());
    bench.advance(1000);
    assert_eq!(bench.broker.metrics().delayed_held.get(), 1);
    put_topic(&bench, "closed", 6, 1);
    bench.advance(999);
    assert!(bench.bodies("closed", 0).is_empty(), "not its time yet");
    bench.advance(1);
    assert_eq!((bench.bodies("closed", 0), bench.broker.metrics().delayed_held.get()), (vec!["two".into()], 0));
    bench.advance(10_000);
    assert_eq!(bench.bodies("closed", 0).len(), 1);
}

#[test]
fn a_parked_record_that_is_for_no_possible_topic_is_counted_and_passed_over() {
    let mut bench = memory(&[1000]);
    for name in ["", "a topic", "RMQ_SYS_TRANS_HALF_TOPIC"] {
        store(
            &bench,
            (DELAY_TOPIC, 0),
            format!("REAL_TOPIC\x01{name}\x02REAL_QID\x010\x02DELAY\x011\x02").as_bytes(),
            0,
        );
    }
    bench.publish("orders", &delayed(b"behind", LEVEL_1)).expect("stored");
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["behind"]);
    assert_eq!(bench.broker.metrics().delayed_undeliverable.get(), 3);
}

#[test]
fn a_parked_message_for_a_queue_that_no_topic_can_have_is_delivered_to_another() {
    let mut bench = memory(&[1000]);
    for queue in ["65536", "4294967295", "none"] {
        store(
            &bench,
            (DELAY_TOPIC, 0),
            format!("REAL_TOPIC\x01orders\x02REAL_QID\x01{queue}\x02DELAY\x011\x02").as_bytes(),
            0,
        );
    }
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0).len(), 3);
    assert_eq!(bench.broker.catalog.queues_of("orders").expect("is made").len(), 1);
}

#[test]
fn a_committed_message_of_a_java_broker_can_be_sent_back() {
    let mut bench = memory(&[1000]);
    let place = store(&bench, ("orders", 0), b"TRAN_MSG\x01true\x02", COMMITTED);
    bench.broker.catalog.put_groups(vec![(GroupName::trusted("billing"), Default::default())], START).expect("made");
    let group = GroupName::trusted("billing");
    let back = SendBack { group, log_offset: place, delay_level: 1, redeliveries_max: None };
    bench.broker.retries.send_back(&back, START).expect("taken back").expect("stored");
    bench.broker.store().write_staged().expect("writes");
    bench.advance(1000);
    let again = bench.fetch("%RETRY%billing", 0, 0, Filter::All);
    let record = Record::decode(&again.pieces[0]).expect("a record");
    assert_eq!((record.body, record.system_flag), (&b"from elsewhere"[..], COMMITTED));
}

#[test]
fn a_clock_set_back_makes_nothing_early_and_holds_nothing_longer_than_its_delay() {
    let mut bench = memory(&[10_000]);
    bench.publish("orders", &delayed(b"before", LEVEL_1)).expect("stored");
    bench.now = clock_set(START, -3_600_000);
    bench.advance(0);
    bench.advance(4_000);
    bench.publish("orders", &delayed(b"after", LEVEL_1)).expect("stored");
    bench.advance(5_999);
    assert!(bench.bodies("orders", 0).is_empty(), "the delay is not over for sure");
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["before"]);
    bench.advance(3_999);
    assert_eq!(bench.bodies("orders", 0), ["before"]);
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["before", "after"]);
    // Set right again: nothing of that is left.
    bench.publish("orders", &delayed(b"later", LEVEL_1)).expect("stored");
    bench.advance(9_999);
    assert_eq!(bench.bodies("orders", 0).len(), 2);
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["before", "after", "later"]);
}

#[test]
fn each_message_that_is_parked_after_the_clock_was_set_back_waits_for_its_delay_from_then() {
    let mut bench = memory(&[10_000]);
    bench.publish("orders", &delayed(b"before", LEVEL_1)).expect("stored");
    bench.now = clock_set(START, -3_600_000);
    for number in 0..8 {
        bench.advance(1_000);
        bench.publish("orders", &delayed(&[b'0' + number], LEVEL_1)).expect("stored");
    }
    bench.advance(2_999);
    assert!(!bench.bodies("orders", 0).contains(&"0".to_owned()));
    for count in 2..10 {
        bench.advance(if count == 2 { 1 } else { 1_000 });
        assert_eq!(bench.bodies("orders", 0).len(), count, "neither early nor late");
    }
}

#[test]
fn a_request_that_was_on_its_way_for_long_makes_no_message_of_others_early() {
    let mut bench = memory(&[10_000]);
    let came = bench.now;
    bench.now = bench.now.plus_ms(900);
    bench.publish("orders", &delayed(b"in time", LEVEL_1)).expect("stored");
    let now = std::mem::replace(&mut bench.now, came);
    bench.publish("orders", &delayed(b"late", LEVEL_1)).expect("stored");
    bench.now = now;
    bench.advance(9_999);
    let delivered = |bench: &Bench| (0..4).map(|queue| bench.bodies("orders", queue).len()).sum::<usize>();
    assert_eq!(delivered(&bench), 0);
    bench.advance(1);
    assert_eq!(delivered(&bench), 2);
}

#[test]
fn a_clock_set_forward_in_the_same_moment_makes_no_message_early() {
    let mut bench = memory(&[10_000]);
    bench.publish("orders", &delayed(b"before", LEVEL_1)).expect("stored");
    bench.now = clock_set(bench.now, 3_600_000);
    bench.publish("others", &delayed(b"after", LEVEL_1)).expect("stored");
    let delivered = |bench: &Bench| (0..4).map(|queue| bench.bodies("others", queue).len()).sum::<usize>();
    bench.advance(9_999);
    assert_eq!(delivered(&bench), 0);
    bench.advance(1);
    assert_eq!(delivered(&bench), 1);
}

#[test]
fn what_is_parked_after_a_pass_has_read_the_time_is_not_early() {
    let mut bench = memory(&[10_000]);
    let read_by_the_pass = bench.now;
    bench.now = bench.now.plus_ms(50);
    bench.publish("orders", &delayed(b"parked", LEVEL_1)).expect("stored");
    bench.broker.delivery.deliver_due(read_by_the_pass);
    bench.advance(9_999);
    assert!(bench.bodies("orders", 0).is_empty());
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["parked"]);
}

#[test]
fn many_large_messages_due_at_once_are_delivered_a_little_at_a_time() {
    const PASS_SIZE: u64 = 1 << 20;
    let layout = storage::Options {
        disk: Disk::new(MemoryDisk::new()),
        segment_size: 16 << 20,
        recent_size: 1000,
        ..layout(Path::new("/data"), vec![1000, 5000])
    };
    let mut bench = open_on(layout, START, |_| ());
    for _ in 0..30 {
        bench.publish("orders", &delayed(&[b'x'; 100_000], LEVEL_1)).expect("stored");
    }
    bench.publish("orders", &delayed(&[b'y'; 3_000_000], LEVEL_1)).expect("stored");
    bench.now = bench.now.plus_ms(1000);
    let mut passes = 0;
    while bench.broker.delivery.deliver_due(bench.now) == 0 {
        passes += 1;
        let size = bench.broker.store().staged_size() as u64;
        assert!(size <= PASS_SIZE || size > 3_000_000, "{size} bytes in one pass");
        bench.broker.store().write_staged().expect("writes");
    }
    bench.broker.store().write_staged().expect("writes");
    assert_eq!((passes, bench.broker.metrics().delayed_delivered.get()), (3, 31));
}

#[test]
fn delivery_waits_for_the_writer() {
    let layout = storage::Options {
        disk: Disk::new(MemoryDisk::new()),
        segment_size: 64 << 20,
        ..layout(Path::new("/data"), vec![1000])
    };
    let mut bench = open_on(layout, START, |_| ());
    let body = vec![b'x'; 4_000_000];
    for _ in 0..12 {
        bench.publish("orders", &delayed(&body, LEVEL_1)).expect("stored");
    }
    bench.now = bench.now.plus_ms(1000);
    // Nobody writes meanwhile.
    while bench.broker.delivery.deliver_due(bench.now) == 0 {}
    assert!(bench.broker.store().staged_size() < 40_000_000, "{}", bench.broker.store().staged_size());
    while bench.broker.metrics().delayed_delivered.get() < 12 {
        bench.broker.store().write_staged().expect("writes");
        bench.broker.delivery.deliver_due(bench.now);
    }
}

#[test]
fn after_a_kill_each_of_eighteen_levels_is_due_when_it_was() {
    let disk = Disk::new(MemoryDisk::new());
    let delays_ms = official_delays_ms();
    let bench = open(disk.clone(), START, &delays_ms, |_| ());
    for level in 1..=18 {
        let property = format!("DELAY\x01{level}\x02");
        bench.publish("orders", &delayed(level.to_string().as_bytes(), property.as_bytes())).expect("stored");
    }
    // No entry is in a file yet: they are made again from the log.
    drop(bench);
    let mut bench = open(disk, START, &delays_ms, |_| ());
    for (number, &delay_ms) in delays_ms.iter().enumerate() {
        bench.now = START.plus_ms(delay_ms - 1);
        bench.advance(0);
        let delivered = if number == 0 { 0 } else { bench.bodies("orders", 0).len() };
        assert_eq!(delivered, number, "level {} is early", number + 1);
        bench.advance(1);
        assert_eq!(bench.bodies("orders", 0).len(), number + 1, "level {} is late", number + 1);
    }
    let expected: Vec<_> = (1..=18).map(|level| level.to_string()).collect();
    assert_eq!(bench.bodies("orders", 0), expected);
}

#[test]
fn each_try_waits_one_level_longer_from_the_third_on() {
    let mut bench = memory(&official_delays_ms());
    let group = GroupName::trusted("billing");
    bench.broker.catalog.put_groups(vec![(group.clone(), Default::default())], START).expect("made");
    let mut place = bench.publish("orders", &message(b"hard", b"")).expect("stored");
    for (tries, delay_s) in [10, 30, 60, 120, 180].into_iter().enumerate() {
        let back = SendBack { group: group.clone(), log_offset: place, delay_level: 0, redeliveries_max: None };
        bench.broker.retries.send_back(&back, bench.now).expect("taken back").expect("stored");
        bench.broker.store().write_staged().expect("writes");
        bench.advance(delay_s * 1000 - 1);
        assert_eq!(bench.bodies("%RETRY%billing", 0).len(), tries, "try {tries} is early");
        bench.advance(1);
        assert_eq!(bench.bodies("%RETRY%billing", 0).len(), tries + 1, "try {tries} is late");
        let again = bench.fetch("%RETRY%billing", 0, tries as i64, Filter::All);
        place = Record::decode(&again.pieces[0]).expect("a record").log_offset;
    }
    // A level the client names is that level.
    let back = SendBack { group, log_offset: place, delay_level: 2, redeliveries_max: None };
    bench.broker.retries.send_back(&back, bench.now).expect("taken back").expect("stored");
    bench.broker.store().write_staged().expect("writes");
    bench.advance(4_999);
    assert_eq!(bench.bodies("%RETRY%billing", 0).len(), 5);
    bench.advance(1);
    assert_eq!(bench.bodies("%RETRY%billing", 0).len(), 6);
}

#[test]
fn those_that_stay_held_keep_no_other_from_its_try() {
    let mut bench = memory(&[1000]);
    for number in 0..300 {
        bench.publish("closed", &delayed(format!("{number}").as_bytes(), LEVEL_1)).expect("stored");
    }
    bench.publish("opened", &delayed(b"behind them", LEVEL_1)).expect("stored");
    put_topic(&bench, "closed", 6, 0);
    put_topic(&bench, "opened", 6, 0);
    bench.advance(1000);
    bench.advance(1);
    assert_eq!(bench.broker.metrics().delayed_held.get(), 301);
    put_topic(&bench, "opened", 6, 1);
    (0..2).for_each(|_| bench.advance(1000));
    assert_eq!(bench.bodies("opened", 0), ["behind them"]);
    put_topic(&bench, "closed", 6, 1);
    (0..3).for_each(|_| bench.advance(1000));
    assert_eq!((bench.bodies("closed", 0).len(), bench.broker.metrics().delayed_held.get()), (300, 0));
}
