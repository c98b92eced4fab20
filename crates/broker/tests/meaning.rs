//! What messages mean: publishing, filters, delay, retry and dead letters, offsets, locks.

mod support;

use std::path::Path;
use std::sync::Arc;

use base::limits::{GROUP_MEMBERS_MAX, GROUPS_MAX};
use base::{GroupName, Now, QueueId, QueueOffset, Refusal, TopicName};
use broker::{ConsumerRegistration, Description, FetchStatus, Filter, Mailbox, Member, Message, SendBack};
use format::document::{GroupDocument, TopicDocument};
use format::record::Record;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use storage::{RetentionPolicy, Store};
use support::{layout, message, open, open_on, open_with};
use testkit::{CLOCK_STEPS_MS, at, clock_set, system_topics};

const START: Now = at(1_700_000_000_000);

#[test]
fn a_new_topic_takes_its_queues_from_the_producer_and_the_template() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    for (name, asked, queues) in [("few", 2, 2), ("many", 100, 8), ("none", 0, 1)] {
        let topic = bench.broker.catalog.topic_for_publish(name, "TBW102", asked, START).expect("made");
        let settings = &topic.settings;
        assert_eq!((settings.write_queue_nums, settings.read_queue_nums, settings.perm), (queues, queues, 6), "{name}");
    }
    let refused = bench.broker.catalog.topic_for_publish("x", "few", 4, START);
    assert!(matches!(refused, Err(Refusal::NotPermitted(_))), "a topic without the inherit bit is no template");
    let reserved = bench.broker.catalog.topic_for_publish("SCHEDULE_TOPIC_XXXX", "TBW102", 4, START);
    assert!(matches!(reserved, Err(Refusal::ReservedTopic(_))));
}

#[test]
fn without_automatic_creation_an_unknown_topic_is_refused() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open_with(scratch.path(), START, vec![1000], |options| options.auto_create_topics = false);
    assert!(matches!(bench.publish("orders", &message(b"x", b"")), Err(Refusal::NoSuchTopic(_))));
}

#[test]
fn topics_and_offsets_are_there_after_reopening() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"one", b"")).expect("stored");
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1).expect("committed");
    bench.broker.close(START).expect("closes");
    drop(bench);
    let bench = open(scratch.path(), START);
    assert_eq!(bench.bodies("orders", 0), ["one"]);
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(1));
}

#[test]
fn a_commit_that_was_put_into_the_log_outlives_a_kill() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"one", b"")).expect("stored");
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1).expect("taken");
    let end = bench.broker.offsets.keep_changes(START).expect("appended");
    bench.broker.store().write_staged().expect("writes");
    assert!(bench.broker.store().watermarks().written() >= end);
    assert_eq!(bench.broker.offsets.keep_changes(START).expect("nothing new"), end);
    drop(bench);
    let bench = open(scratch.path(), START);
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(1));
}

#[test]
fn a_topic_made_on_the_fly_is_there_after_a_kill_as_it_was_made() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"one", b"")).expect("stored");
    let made = bench.broker.catalog.topic("orders").expect("is there").settings.clone();
    // Killed before the document was written.
    drop(bench);
    let bench = open(scratch.path(), START);
    assert_eq!(bench.bodies("orders", 0), ["one"]);
    assert_eq!(bench.broker.catalog.topic("orders").expect("is there").settings, made);
}

#[test]
fn a_topic_that_nothing_tells_of_is_found_again_from_the_log() {
    let scratch = tempfile::tempdir().expect("directory");
    // As a Java broker leaves it that was killed before it wrote its document.
    let (store, _) = Store::open(layout(scratch.path(), vec![1000]), Arc::default(), &mut |_| ()).expect("opens");
    for number in [0, 1] {
        let queue = store.queue(&TopicName::trusted("orders"), QueueId(number));
        let mut batch = store.begin_batch(0);
        testkit::push(&store, &mut batch, &queue, &testkit::draft("orders", QueueId(number), b"one"));
        store.append(batch, START.wall).expect("appends");
    }
    store.write_staged().expect("writes");
    drop(store);
    for _ in 0..2 {
        let bench = open(scratch.path(), START);
        assert_eq!(bench.bodies("orders", 0), ["one"]);
        let settings = bench.broker.catalog.topic("orders").expect("is there").settings.clone();
        assert_eq!((settings.read_queue_nums, settings.write_queue_nums), (2, 2), "as many as have messages");
    }
}

#[test]
fn a_tag_filter_lets_only_its_tags_through_and_says_where_to_go_on() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    for tag in ["a", "b", "a", "c"] {
        bench.publish("orders", &message(tag.as_bytes(), format!("TAGS\u{1}{tag}\u{2}").as_bytes())).expect("stored");
    }
    let found = bench.fetch("orders", 0, 0, Filter::parse("a").expect("parses"));
    assert_eq!((found.status, found.count, found.next.0), (FetchStatus::Found, 2, 4));
    let nothing = bench.fetch("orders", 0, 0, Filter::parse("z").expect("parses"));
    assert_eq!((nothing.status, nothing.next.0), (FetchStatus::NoMatch, 4));
}

#[test]
fn an_offset_outside_the_queue_is_put_right() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    for (offset, status, next) in [
        (-5, FetchStatus::OffsetOutside, 0),
        (0, FetchStatus::Found, 1),
        (1, FetchStatus::AtEnd, 1),
        (2, FetchStatus::OffsetOutside, 1),
        (i64::MAX, FetchStatus::OffsetOutside, 1),
    ] {
        let fetched = bench.fetch("orders", 0, offset, Filter::All);
        assert_eq!((fetched.status, fetched.next.0), (status, next), "{offset}");
    }
}

#[test]
fn a_delayed_message_arrives_when_it_is_due_and_not_before() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"later", b"DELAY\x012\x02TAGS\x01a\x02")).expect("stored");
    bench.publish("orders", &message(b"sooner", b"DELAY\x011\x02")).expect("stored");
    assert!(bench.bodies("orders", 0).is_empty());
    bench.advance(999);
    assert!(bench.bodies("orders", 0).is_empty());
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["sooner"]);
    bench.advance(4000);
    assert_eq!(bench.bodies("orders", 0), ["sooner", "later"]);
    let tagged = bench.fetch("orders", 0, 0, Filter::parse("a").expect("parses"));
    assert_eq!(Record::decode(&tagged.pieces[0]).expect("a record").body, b"later");
}

#[test]
fn delayed_messages_survive_a_kill() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"later", b"DELAY\x012\x02")).expect("stored");
    drop(bench);
    let mut bench = open(scratch.path(), START.plus_ms(1000));
    bench.advance(3999);
    assert!(bench.bodies("orders", 0).is_empty());
    bench.advance(1);
    assert_eq!(bench.bodies("orders", 0), ["later"]);
}

#[test]
fn a_delayed_message_whose_segment_expires_before_it_is_due_is_lost_and_counted() {
    // Messages of level 2 are due after 20 s; segments go once nothing was written to them for 10 s, or for 30.
    for (age_ms, delivered) in [(10_000, vec!["kept"]), (30_000, vec!["lost", "kept"])] {
        let memory = MemoryDisk::new();
        let retention = RetentionPolicy { age_ms, delete_hours: (0..24).collect(), ..RetentionPolicy::default() };
        let layout = storage::Options {
            disk: Disk::new(memory.clone()),
            segment_size: 16 * 1024,
            retention,
            ..layout(Path::new("/data"), vec![1000, 20_000])
        };
        memory.set_now(START.wall.0);
        let mut bench = open_on(layout, START, |_| ());
        let pass = |bench: &mut support::Bench, milliseconds: u64| {
            memory.set_now(bench.now.wall.0 + milliseconds);
            bench.advance(milliseconds);
            bench.broker.checkpoint(bench.now).expect("checkpoint");
            bench.broker.store().apply_retention(bench.now.wall, 5).expect("looks").removed
        };
        bench.publish("orders", &message(b"lost", b"DELAY\x012\x02")).expect("stored");
        for _ in 0..20 {
            bench.publish("others", &message(&[b'x'; 1000], b"")).expect("stored");
        }
        assert_eq!(pass(&mut bench, 9000), 0, "too young");
        bench.publish("orders", &message(b"kept", b"DELAY\x012\x02")).expect("stored");
        assert_eq!(pass(&mut bench, 2000), usize::from(age_ms == 10_000));
        pass(&mut bench, 8999);
        assert!(bench.bodies("orders", 0).is_empty(), "nothing is due yet");
        pass(&mut bench, 9001);
        assert_eq!(bench.bodies("orders", 0), delivered);
        let expired = bench.broker.metrics().delayed_expired.get();
        assert_eq!((expired, delivered.len() as u64), (2 - delivered.len() as u64, 2 - expired));
        pass(&mut bench, 1000);
        assert_eq!(bench.broker.metrics().delayed_expired.get(), expired, "told once");
    }
}

#[test]
fn what_a_power_cut_takes_from_a_queue_was_not_consumed() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let open = |disk: Disk, now| {
        let layout = storage::Options { disk, ..layout(Path::new("/data"), vec![1000]) };
        open_on(layout, now, |_| ())
    };
    let mut bench = open(Disk::new(disk.clone()), START);
    bench.publish("orders", &message(b"kept", b"")).expect("publishes");
    bench.publish("orders", &message(b"parked", b"DELAY\x011\x02")).expect("publishes");
    bench.advance(1000);
    bench.broker.store().sync().expect("syncs");
    bench.publish("orders", &message(b"lost", b"")).expect("publishes");
    bench.publish("orders", &message(b"parked and lost", b"DELAY\x011\x02")).expect("publishes");
    bench.advance(1000);
    // A Java broker's documents are synced by themselves, and so may know of more than the log does after the cut.
    bench
        .broker
        .store()
        .write_document("consumerOffset.json", r#"{"offsetTable":{"orders@g":{"0":4}}}"#)
        .expect("written as Java does");
    bench
        .broker
        .store()
        .write_document("delayOffset.json", r#"{"offsetTable":{"1":2}}"#)
        .expect("written as Java does");

    let mut bench = open(Disk::new(disk.after_power_cut(disk.points(), || false)), bench.now);
    assert_eq!(bench.bodies("orders", 0), ["kept", "parked"]);
    assert_eq!(bench.broker.offsets.committed("orders", "g", QueueId(0)), Some(2));
    bench.publish("orders", &message(b"parked anew", b"DELAY\x011\x02")).expect("publishes");
    bench.advance(1000);
    assert_eq!(bench.bodies("orders", 0), ["kept", "parked", "parked anew"]);
}

#[test]
fn a_message_sent_back_comes_again_later_and_is_a_dead_letter_at_last() {
    let scratch = tempfile::tempdir().expect("directory");
    let mut bench = open(scratch.path(), START);
    let group = GroupName::trusted("billing");
    let settings = GroupDocument { retry_max_times: 2, ..GroupDocument::default() };
    bench.broker.catalog.put_groups(vec![(group.clone(), settings)], START).expect("made");
    let mut place = bench.publish("orders", &message(b"hard", b"KEYS\x01k\x02")).expect("stored");
    for tries in 1..=2 {
        let back = SendBack { group: group.clone(), log_offset: place, delay_level: 1, redeliveries_max: None };
        bench.broker.retries.send_back(&back, bench.now).expect("taken back");
        bench.broker.store().write_staged().expect("writes");
        bench.advance(1000);
        let again = bench.fetch("%RETRY%billing", 0, tries - 1, Filter::All);
        let record = Record::decode(&again.pieces[0]).expect("a record");
        assert_eq!((record.body, record.reconsume_times), (&b"hard"[..], tries as i32));
        assert_eq!((record.property("RETRY_TOPIC"), record.property("KEYS")), (Some("orders"), Some("k")));
        place = record.log_offset;
    }
    let back = SendBack { group, log_offset: place, delay_level: 1, redeliveries_max: None };
    bench.broker.retries.send_back(&back, bench.now).expect("taken back");
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(bench.bodies("%DLQ%billing", 0), ["hard"]);
    bench.advance(10_000);
    assert_eq!(bench.bodies("%RETRY%billing", 0).len(), 2);
}

#[test]
fn a_reset_is_told_once_and_commits_from_before_are_void() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    let (broker, queue) = (&bench.broker, QueueId(0));
    let commit = |offset| broker.offsets.commit("orders", "billing", queue, offset).expect("taken");
    commit(1);
    // Nobody is online: the offset is simply set.
    broker.offsets.reset("orders", "billing", queue, 0).expect("reset");
    assert_eq!(broker.offsets.take_reset("orders", "billing", queue), None);
    assert_eq!(broker.offsets.committed("orders", "billing", queue), Some(0));
    commit(1);
    assert_eq!(broker.offsets.committed("orders", "billing", queue), Some(1));

    broker.groups.register_consumer(&member("one", START), consumers("billing"), START).expect("joins");
    broker.offsets.reset("orders", "billing", queue, 0).expect("reset");
    broker.offsets.reset("orders", "billing", QueueId(1), 0).expect("reset");
    commit(1);
    assert_eq!(broker.offsets.committed("orders", "billing", queue), Some(0), "of before the reset");
    assert_eq!(broker.offsets.reset_of("orders", "billing", queue), Some(0));
    assert_eq!(broker.offsets.reset_of("orders", "shipping", queue), None);
    assert_eq!(broker.offsets.reset_of("others", "billing", queue), None);
    assert_eq!(broker.offsets.take_reset("orders", "billing", queue), Some(0));
    assert_eq!(broker.offsets.take_reset("orders", "billing", queue), None, "told once");
    commit(1);
    assert_eq!(broker.offsets.committed("orders", "billing", queue), Some(1));
    assert_eq!(broker.offsets.take_reset("orders", "billing", QueueId(1)), Some(0), "each queue by itself");
}

fn consumers(group: &str) -> ConsumerRegistration {
    ConsumerRegistration {
        group: GroupName::trusted(group),
        description: Description::default(),
        subscriptions: Vec::new(),
        keeps_subscriptions: false,
    }
}

fn member(client_id: &str, seen: Now) -> Member {
    Member {
        client_id: client_id.to_owned(),
        address: ([10, 0, 0, 1], 5000).into(),
        description: Description::default(),
        mailbox: Mailbox::new(std::task::Waker::noop().clone()),
        seen,
    }
}

#[test]
fn a_new_group_starts_a_young_queue_at_its_beginning() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    assert_eq!(bench.broker.offsets.start_of("orders", "new", QueueId(0), true), Ok(Some(0)));
    assert_eq!(bench.broker.offsets.start_of("orders", "new", QueueId(0), false), Ok(None));
    assert!(matches!(bench.broker.offsets.start_of("none", "new", QueueId(0), true), Err(Refusal::NoSuchTopic(_))));
}

#[test]
fn a_queue_lock_is_one_clients_until_it_expires_or_is_given_up() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let queues = || vec![("orders".to_owned(), 0), ("orders".to_owned(), 1)];
    assert_eq!(bench.broker.locks.lock("g", "one", queues(), START).len(), 2);
    assert_eq!(bench.broker.locks.lock("g", "two", queues(), START.plus_ms(59_000)).len(), 0);
    bench.broker.locks.unlock("g", "one", &queues().into_iter().take(1).collect());
    assert_eq!(bench.broker.locks.lock("g", "two", queues(), START.plus_ms(59_000)).len(), 1);
    assert_eq!(bench.broker.locks.lock("g", "two", queues(), START.plus_ms(60_001)).len(), 2);
}

#[test]
fn a_lock_is_kept_for_its_minute_whoever_sweeps() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let queues = || vec![("orders".to_owned(), 0)];
    assert_eq!(bench.broker.locks.lock("g", "one", queues(), START).len(), 1);
    bench.broker.expire(START.plus_ms(60_000));
    assert_eq!(bench.broker.locks.lock("g", "two", queues(), START.plus_ms(60_000)).len(), 0);
    bench.broker.expire(START.plus_ms(60_001));
    assert_eq!(bench.broker.locks.lock("g", "two", queues(), START.plus_ms(30_000)).len(), 1, "it was swept");
}

#[test]
fn every_queue_of_a_large_topic_is_locked_and_unlocked_within_a_moment() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let queues = || (0..65_536).map(|number| ("orders".to_owned(), number));
    let began = std::time::Instant::now();
    assert_eq!(bench.broker.locks.lock("g", "one", queues().collect(), START).len(), 65_536);
    bench.broker.locks.unlock("g", "one", &queues().collect());
    assert_eq!(bench.broker.locks.lock("g", "two", queues().collect(), START).len(), 65_536);
    // Compared one with another, they would be some 10^10 steps.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

#[test]
fn no_more_queues_are_locked_than_there_is_room_for() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let lock = |group: &str, from: u32, count: u32, now| {
        let queues = (from..from + count).map(|number| ("t".to_owned(), number)).collect();
        bench.broker.locks.lock(group, "one", queues, now).len()
    };
    assert_eq!(lock("a", 0, 200_000, START), 200_000);
    assert_eq!(lock("b", 0, 200_000, START), 62_144);
    assert_eq!(lock("a", 0, 200_001, START), 200_000, "renewed, and none in addition");
    bench.broker.locks.unlock("a", "one", &(0..5).map(|number| ("t".to_owned(), number)).collect());
    assert_eq!(lock("c", 0, 10, START), 5);
    bench.broker.expire(START.plus_ms(60_001));
    assert_eq!(lock("c", 0, 10, START.plus_ms(60_001)), 10);
}

#[test]
fn an_offset_that_came_back_to_its_queues_end_skips_nothing_after_the_next_power_cut_either() {
    let open = |disk: &FaultyDisk| {
        let disk = Disk::new(disk.clone());
        open_on(storage::Options { disk, ..layout(Path::new("/data"), vec![1000]) }, START, |_| ())
    };
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open(&disk);
    for body in ["seen", "seen too"] {
        bench.publish("orders", &message(body.as_bytes(), b"")).expect("stored");
    }
    bench
        .broker
        .store()
        .write_document("consumerOffset.json", r#"{"offsetTable":{"orders@billing":{"0":2}}}"#)
        .expect("written as Java does");
    let disk = FaultyDisk::over(&disk.after_power_cut(disk.points(), || false));
    let bench = open(&disk);
    bench.publish("orders", &message(b"new", b"")).expect("stored");
    bench.broker.store().sync().expect("syncs");
    let disk = FaultyDisk::over(&disk.after_power_cut(disk.points(), || false));
    let bench = open(&disk);
    assert_eq!(bench.bodies("orders", 0), ["new"]);
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), Some(0));
}

#[test]
fn a_name_stays_taken_until_the_files_of_its_removed_topic_are_gone() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let open = |disk: Disk| open_on(storage::Options { disk, ..layout(Path::new("/data"), vec![1000]) }, START, |_| ());
    let bench = open(Disk::new(disk.clone()));
    for body in ["old", "older"] {
        bench.publish("orders", &message(body.as_bytes(), b"")).expect("stored");
    }
    bench.broker.store().checkpoint().expect("entries are in files");
    bench.publish("orders", &message(b"above the checkpoint", b"")).expect("stored");
    for operation in [Operation::Write, Operation::Name] {
        // No room for the checkpoint; files that cannot be unlinked.
        disk.fail(Failure::error(operation, 28).at(if operation == Operation::Write {
            "checkpoint"
        } else {
            "consumequeue"
        }));
        assert!(bench.broker.removals.topic("orders", START).is_err(), "{operation:?}");
        assert!(bench.broker.removals.finish(START).is_err(), "{operation:?}");
        disk.heal();
        let refused = bench.publish("orders", &message(b"new", b""));
        assert!(matches!(&refused, Err(Refusal::Busy(why)) if why.contains("is being removed")), "{refused:?}");
    }
    bench.broker.removals.finish(START).expect("removes");
    bench.broker.store().prepare_next_segment().expect("room is kept aside again");
    bench.publish("orders", &message(b"new", b"")).expect("stored");
    bench.broker.removals.topic("others", START).expect("was never there");
    assert_eq!(bench.bodies("orders", 0), ["new"]);
    bench.broker.close(START).expect("closes");
    drop(bench);
    let bench = open(Disk::new(disk));
    assert_eq!(bench.bodies("orders", 0), ["new"]);
}

#[test]
fn queues_that_a_topic_lost_go_with_their_last_message_and_its_own_stay() {
    let memory = MemoryDisk::new();
    let retention = RetentionPolicy { age_ms: 10_000, delete_hours: (0..24).collect(), ..RetentionPolicy::default() };
    let layout = storage::Options {
        disk: Disk::new(memory.clone()),
        segment_size: 16 * 1024,
        retention,
        ..layout(Path::new("/data"), vec![1000])
    };
    memory.set_now(START.wall.0);
    let bench = open_on(layout, START, |_| ());
    let of = |queue| Message { queue: Some(QueueId(queue)), ..message(b"x", b"") };
    for queue in [0, 3] {
        bench.publish("orders", &of(queue)).expect("stored");
    }
    let set = |queues| {
        let settings = TopicDocument { read_queue_nums: queues, write_queue_nums: queues, ..TopicDocument::default() };
        bench.broker.catalog.put_topic(TopicName::trusted("orders"), settings, START)
    };
    set(2).expect("changed");
    for _ in 0..20 {
        bench.publish("others", &message(&[b'y'; 1000], b"")).expect("stored");
    }
    bench.broker.checkpoint(START).expect("checkpoint");
    let disk = Disk::new(memory.clone());
    let is_there =
        |queue: u32| disk.exists(&Path::new("/data/consumequeue/orders").join(queue.to_string())).expect("looks");
    let clean = || bench.broker.removals.expired_queues().expect("looks");
    // Queue 2 never had a message.
    assert_eq!((clean(), is_there(0), is_there(3)), (1, true, true), "queue 3 has one still");
    memory.set_now(START.wall.0 + 20_000);
    assert!(bench.broker.store().apply_retention(START.wall.plus_ms(20_000), 5).expect("looks").removed > 0);
    assert_eq!((clean(), is_there(0), is_there(3)), (1, true, false));
    assert_eq!((clean(), bench.broker.catalog.topic("orders").expect("is there").queues[0].end().0), (0, 1));
    // Made again it begins anew, and the others go on.
    set(4).expect("changed");
    bench.publish("orders", &of(3)).expect("stored");
    bench.publish("orders", &of(0)).expect("stored");
    let ends: Vec<_> =
        bench.broker.catalog.queues_of("orders").expect("is there").iter().map(|queue| queue.end().0).collect();
    assert_eq!(ends, [2, 0, 0, 1]);
}

#[test]
fn queues_of_topics_that_are_not_there_are_removed_on_request() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let layout = storage::Options { disk: Disk::new(disk.clone()), ..layout(Path::new("/data"), vec![1000]) };
    let bench = open_on(layout, START, |_| ());
    for topic in ["orders", "others"] {
        bench.publish(topic, &message(b"x", b"")).expect("stored");
    }
    bench.broker.store().queue(&TopicName::trusted("stray"), QueueId(0));
    bench.broker.store().checkpoint().expect("checkpoint");
    disk.fail(Failure::error(Operation::Name, 28));
    assert!(bench.broker.removals.topic("orders", START).is_err());
    disk.heal();
    bench.broker.removals.unknown_topics(START).expect("removes");
    let known: Vec<_> = bench.broker.store().topics().into_keys().map(|name| name.as_str().to_owned()).collect();
    assert!(known.contains(&"others".to_owned()), "{known:?}");
    assert!(!known.contains(&"orders".to_owned()) && !known.contains(&"stray".to_owned()), "{known:?}");
    bench.publish("orders", &message(b"new", b"")).expect("its name is free");
    assert_eq!(bench.bodies("orders", 0), ["new"]);
}

#[test]
fn a_light_topic_keeps_its_queue_though_it_has_no_settings() {
    let bench = open_on(in_memory(), START, |_| ());
    let name = TopicName::trusted("%LMQ%inbox");
    bench.broker.store().queue(&name, QueueId(0));
    assert_eq!(bench.broker.removals.expired_queues().expect("looks"), 0);
    bench.broker.removals.unknown_topics(START).expect("looks");
    assert!(bench.broker.store().topics().contains_key(&name));
    assert!(bench.broker.catalog.topic(name.as_str()).is_none());
}

#[test]
fn there_is_room_for_a_million_groups() {
    let bench = open_on(in_memory(), START, |_| ());
    let catalog = &bench.broker.catalog;
    catalog.put_groups(vec![(GroupName::trusted("billing"), GroupDocument::default())], START).expect("made");
    let room = GROUPS_MAX - catalog.groups().len();
    catalog.check_room_for_groups(room).expect("so many may come");
    assert!(matches!(catalog.check_room_for_groups(room + 1), Err(Refusal::Busy(_))));
    catalog.check_room_for_groups(0).expect("none comes");
}

#[test]
fn fetches_of_queues_that_a_topic_got_later_are_noted_too() {
    let bench = open_on(in_memory(), START, |_| ());
    let put = |queues| {
        let settings = TopicDocument { read_queue_nums: queues, write_queue_nums: queues, ..TopicDocument::default() };
        let catalog = &bench.broker.catalog;
        catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("put")
    };
    let group = GroupName::trusted("billing");
    let note = |topic: &_, queue, next| {
        let noted = bench.broker.fetched.offsets_of(topic, &group).expect("there is room");
        noted.note(QueueId(queue), QueueOffset(next));
    };
    note(&put(1), 0, 5);
    note(&put(3), 2, 7);
    let progress = bench.broker.snapshots.progress("orders", "billing").expect("is there");
    assert_eq!(progress.iter().map(|queue| queue.fetched).collect::<Vec<_>>(), [5, 0, 7]);
}

#[test]
fn members_of_a_full_group_stay_in_it() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open_with(scratch.path(), START, vec![1000], |_| ());
    let group = GroupName::trusted("makers");
    let join =
        |number: usize, seen| bench.broker.groups.register_producer(&group, &member(&format!("one-{number}"), seen));
    (0..GROUP_MEMBERS_MAX).for_each(|number| join(number, START).expect("joins"));
    assert!(matches!(join(GROUP_MEMBERS_MAX, START), Err(Refusal::Busy(_))));
    join(7, START.plus_ms(100_000)).expect("is in it already");
    bench.broker.expire(START.plus_ms(120_001));
    let left = bench.broker.groups.producers_of("makers");
    assert_eq!(left.iter().map(|member| &*member.client_id).collect::<Vec<_>>(), ["one-7"]);
}

#[test]
fn a_group_seen_for_the_first_time_joins_while_the_log_takes_nothing() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let layout = storage::Options { disk: Disk::new(disk.clone()), ..layout(Path::new("/data"), vec![1000]) };
    let bench = open_on(layout, START, |_| ());
    bench.publish("orders", &message(b"x", b"")).expect("stored");
    disk.fail(Failure::error(Operation::Sync, 5));
    bench.broker.store().sync().expect_err("a disk that fails");
    assert!(matches!(bench.publish("orders", &message(b"y", b"")), Err(Refusal::Unavailable(_))));
    let broker = &bench.broker;
    broker.catalog.prepare_groups(&[GroupName::trusted("billing")], START);
    broker.groups.register_consumer(&member("one", START), consumers("billing"), START).expect("joins");
    assert!(broker.groups.is_online("billing"));
    assert_eq!(bench.bodies("orders", 0), ["x"]);
}

#[test]
fn what_the_latest_heartbeat_says_is_kept() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let groups = &bench.broker.groups;
    let mut member = member("one", START);
    for said in [1_u8, 2] {
        member.seen = START.plus_ms(u64::from(said));
        member.description = Description::new(said);
        let registration = ConsumerRegistration { description: Description::new([said]), ..consumers("billing") };
        groups.register_consumer(&member, registration, member.seen).expect("joins");
        let group = groups.snapshot("billing").expect("online");
        assert_eq!(group.description.read(), Some(&[said]));
        let [known] = &*group.members else { panic!("{:?}", group.members) };
        assert_eq!((known.description.read(), known.seen), (Some(&said), member.seen));
    }
}

#[test]
fn a_removed_topic_begins_anew() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    bench.publish("orders", &message(b"old", b"")).expect("stored");
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1).expect("committed");
    bench.publish("others", &message(b"x", b"")).expect("stored");
    bench.broker.offsets.commit("others", "billing", QueueId(0), 1).expect("committed");
    bench.broker.removals.topic("orders", START).expect("removed");
    assert_eq!(bench.broker.offsets.committed("orders", "billing", QueueId(0)), None);
    assert_eq!(bench.broker.offsets.committed("others", "billing", QueueId(0)), Some(1), "of another topic");
    bench.publish("orders", &message(b"new", b"")).expect("stored");
    assert_eq!(bench.bodies("orders", 0), ["new"]);
    drop(bench);
    let bench = open(scratch.path(), START);
    assert_eq!(bench.bodies("orders", 0), ["new"]);
}

#[test]
fn permissions_hold() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let read_only = TopicDocument { perm: 4, read_queue_nums: 1, write_queue_nums: 1, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted("frozen"), read_only, START).expect("made");
    assert!(matches!(bench.publish("frozen", &message(b"x", b"")), Err(Refusal::NotPermitted(_))));
}

fn in_memory() -> storage::Options {
    storage::Options { disk: Disk::new(MemoryDisk::new()), ..layout(Path::new("/data"), vec![1000]) }
}

#[test]
fn who_makes_what_another_has_made_meanwhile_takes_it_as_it_is() {
    let bench = open_on(in_memory(), START, |options| options.system_topics = system_topics(16));
    for number in 0..300 {
        let (topic, group) = (format!("topic-{number}"), GroupName::trusted(&format!("group-{number}")));
        let together = std::sync::Barrier::new(3);
        let made: Vec<_> = std::thread::scope(|scope| {
            let make = |queues| {
                together.wait();
                let made = bench.broker.catalog.topic_for_publish(&topic, "TBW102", queues, START).expect("made");
                let _ = bench.broker.catalog.group_for_use(&group, START);
                made.queues.len()
            };
            let threads = [2, 16].map(|queues| scope.spawn(move || make(queues)));
            together.wait();
            let settings = GroupDocument { retry_max_times: 3, ..GroupDocument::default() };
            bench.broker.catalog.put_groups(vec![(group.clone(), settings)], START).expect("made");
            threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
        });
        // What was sent to a queue in between must not be in a queue that its topic has no more.
        let queues = bench.broker.catalog.topic(&topic).expect("is there").queues.len();
        assert_eq!(made, [queues; 2], "{topic}");
        let kept = bench.broker.catalog.group(group.as_str()).expect("is there").retry_max_times;
        assert_eq!(kept, 3, "what an administrator has set");
    }
}

#[test]
fn setting_the_clock_by_an_hour_moves_the_end_of_no_lock_and_no_membership() {
    for by_ms in CLOCK_STEPS_MS {
        let bench = open_on(in_memory(), START, |_| ());
        let broker = &bench.broker;
        let after = |ms| clock_set(START.plus_ms(ms), by_ms);
        let lock = |client: &str, now| broker.locks.lock("g", client, vec![("orders".to_owned(), 0)], now).len();
        assert_eq!(lock("one", START), 1);
        broker.groups.register_producer(&GroupName::trusted("makers"), &member("gone", START)).expect("registered");
        broker.groups.register_consumer(&member("gone", START), consumers("billing"), START).expect("joins");
        broker.expire(after(60_000));
        assert!(lock("two", after(60_000)) == 0 && broker.locks.is_consumed_in_order("g", after(60_000)), "{by_ms}");
        assert!(!broker.locks.is_consumed_in_order("g", after(60_001)), "{by_ms}");
        broker.expire(after(60_001));
        assert_eq!(lock("two", after(60_001)), 1, "{by_ms}");
        broker.expire(after(120_000));
        assert!(broker.groups.producers_of("makers").len() == 1 && broker.groups.is_online("billing"), "{by_ms}");
        broker.expire(after(120_001));
        assert!(broker.groups.producers_of("makers").is_empty() && !broker.groups.is_online("billing"), "{by_ms}");
    }
}

#[test]
fn what_is_noted_of_fetches_is_bounded_however_many_groups_there_are() {
    let bench = open_on(in_memory(), START, |_| ());
    let topic = bench.broker.catalog.topic_for_publish("orders", "TBW102", 4, START).expect("made");
    assert_eq!(topic.queues.len(), 4);
    let group = |number| GroupName::trusted(&format!("group-{number}"));
    let began = std::time::Instant::now();
    // Connections keep all of them at hand.
    let mut kept: Vec<_> =
        (0..250_000).filter_map(|number| bench.broker.fetched.offsets_of(&topic, &group(number))).collect();
    assert!((100_000..150_000).contains(&kept.len()), "{} groups, each of some 250 bytes", kept.len());
    // Looked through for each that finds no room, they would be some 10^10 steps.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    kept.clear();
    let later = (250_000..400_000).filter_map(|number| bench.broker.fetched.offsets_of(&topic, &group(number))).count();
    assert!(later > 10_000, "{later}: those that nobody keeps make room");
}

#[test]
fn a_groups_lag_counts_every_queue_of_a_topic_that_it_consumes_and_is_the_same_wherever_it_is_told() {
    let scratch = tempfile::tempdir().expect("directory");
    let bench = open(scratch.path(), START);
    let groups = &bench.broker.groups;
    for group in ["billing", "broadcast"] {
        groups.register_consumer(&member("one", START), consumers(group), START).expect("joins");
    }
    for queue in [0, 0, 0, 1, 1, 2] {
        let to_queue = Message { queue: Some(QueueId(queue)), ..message(b"x", b"") };
        bench.publish("orders", &to_queue).expect("stored");
    }
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1).expect("committed");
    let snapshots = &bench.broker.snapshots;
    let lags = |group| -> Vec<_> {
        snapshots.progress("orders", group).expect("told").iter().map(|queue| queue.lag).collect()
    };
    // Two queues have no offset of the group yet: it has consumed none of their messages.
    assert_eq!(lags("billing"), [2, 2, 1, 0]);
    // Members that keep their offsets themselves lag behind nobody, as far as is known here.
    assert_eq!(lags("broadcast"), [0; 4]);
    assert_eq!(snapshots.lag_by_group(), [("billing".to_owned(), 5), ("broadcast".to_owned(), 0)].into());
    let told: Vec<_> =
        snapshots.progress_by_group().into_iter().map(|one| (one.group, one.topic, one.consumed, one.lag)).collect();
    assert_eq!(told, [("billing".to_owned(), "orders".to_owned(), 1, 5)]);
}
