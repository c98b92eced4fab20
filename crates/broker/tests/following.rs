//! A slave's broker: what its master did it has too, and what was done at it while its master was away is not lost.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use base::{GroupName, LogOffset, QueueId, Refusal, TopicName};
use broker::{Filter, Message, SendBack, Work};
use format::document::{GroupDocument, TopicDocument};
use format::master_tables::MasterTables;
use format::state_documents::StateDocuments;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use support::pair::{commit, committed, follow, master_tables, of_java, open, open_over, tables, take_tables};
use support::{Bench, layout, message};
use testkit::at;

fn take_java_tables(slave: &Bench, master: &Bench) {
    slave.broker.take_tables(of_java(tables(master)), slave.now).expect("takes");
}

/// What is the same on a master and its slave.
fn assert_same(one: &Bench, other: &Bench) {
    let of = |bench: &Bench| {
        let StateDocuments { topics, groups, offsets, delay, request_modes } = tables(bench);
        let topics = topics.map(|topics| topics.topic_config_table);
        let delay = delay.map(|delay| delay.into_iter().filter(|(_, delivered)| *delivered > 0).collect::<Vec<_>>());
        (topics, groups.map(|groups| groups.subscription_group_table), offsets, delay, request_modes)
    };
    assert_eq!(of(one), of(other));
}

#[test]
fn a_slave_has_what_its_masters_log_tells_of_as_it_comes() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    take_tables(&slave, &master);
    for number in 0..10 {
        master.publish("orders", &message(b"body", b"")).expect("stored");
        commit(&master, "billing", number);
        follow(&slave, &master);
        assert_eq!(committed(&slave, "billing"), Some(number));
    }
    assert_same(&slave, &master);
    assert_eq!(slave.fetch("orders", 0, 0, Filter::All).count, 10);
    master.broker.removals.topic("orders", master.now).expect("removes");
    follow(&slave, &master);
    assert_same(&slave, &master);
    master.publish("orders", &message(b"again", b"")).expect("stored");
    follow(&slave, &master);
    assert_eq!(slave.fetch("orders", 0, 0, Filter::All).count, 1);
    master.broker.removals.group("billing", true, master.now).expect("removes");
    follow(&slave, &master);
    assert_same(&slave, &master);
}

/// Whatever the slave's disk keeps of it, nothing of the removed topic is in the one that was made again.
#[test]
fn a_slave_whose_power_is_cut_while_a_topic_goes_has_the_queues_of_its_master() {
    let (master, disk) = (open(&MemoryDisk::new(), false, 1000), FaultyDisk::over(&MemoryDisk::new()));
    let slave = open_over(Disk::new(disk.clone()), true, 1000);
    take_tables(&slave, &master);
    for body in [&b"old"[..], b"old too", b"old as well"] {
        master.publish("orders", &message(body, b"")).expect("stored");
    }
    let elsewhere = |body| Message { queue: Some(QueueId(1)), ..message(body, b"") };
    follow(&slave, &master);
    slave.broker.checkpoint(slave.now).expect("writes a checkpoint");
    let begun = disk.points();
    master.broker.removals.topic("orders", master.now).expect("removes");
    follow(&slave, &master);
    slave.broker.checkpoint(slave.now).expect("writes a checkpoint");
    master.publish("orders", &elsewhere(b"new")).expect("stored");
    follow(&slave, &master);
    slave.broker.checkpoint(slave.now).expect("writes a checkpoint");
    for point in begun..=disk.points() {
        for survives in [false, true] {
            let left = disk.after_power_cut(point, || survives);
            let again = open_over(Disk::new(left), true, 1000);
            if again.broker.catalog.topic("orders").is_some_and(|topic| topic.queues[0].end().0 > 1) {
                assert_eq!(again.bodies("orders", 0), ["old", "old too", "old as well"], "point {point}");
            }
            take_tables(&again, &master);
            follow(&again, &master);
            let bodies = [again.bodies("orders", 0), again.bodies("orders", 1)];
            assert_eq!(bodies, [vec![], vec!["new".to_owned()]], "point {point} {survives}");
        }
    }
}

#[test]
fn a_change_that_a_slave_could_not_make_is_made_before_it_goes_on() {
    let (master, disk) = (open(&MemoryDisk::new(), false, 1000), FaultyDisk::over(&MemoryDisk::new()));
    let slave = open_over(Disk::new(disk.clone()), true, 1000);
    take_tables(&slave, &master);
    master.publish("orders", &message(b"old", b"")).expect("stored");
    follow(&slave, &master);
    slave.broker.checkpoint(slave.now).expect("writes a checkpoint");
    master.broker.removals.topic("orders", master.now).expect("removes");
    master.publish("orders", &message(b"new", b"")).expect("stored");
    master.broker.keep(master.now).expect("keeps");
    disk.fail(Failure::error(Operation::Name, 5).at("consumequeue/orders"));
    let rest = || {
        let start = slave.broker.following.end();
        (start, master.broker.store().read_raw(start, usize::MAX).expect("reads"))
    };
    for _ in 0..2 {
        let (start, bytes) = rest();
        let told =
            slave.broker.following.append(start, std::slice::from_ref(&bytes)).expect_err("the files stay").to_string();
        assert!(told.contains("consumequeue/orders"), "{told}");
    }
    assert!(slave.broker.state_position() < rest().0, "what is not done counts as not known");
    disk.heal();
    follow(&slave, &master);
    assert_eq!(slave.bodies("orders", 0), ["new"]);
    assert_same(&slave, &master);
}

#[test]
fn a_slave_delivers_and_stores_nothing_and_has_delayed_messages_when_its_master_delivered_them() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    take_tables(&slave, &master);
    let delayed = b"DELAY\x011\x02";
    master.publish("orders", &message(b"later", delayed)).expect("parked");
    follow(&slave, &master);
    slave.broker.delivery.deliver_due(at(60_000));
    let refused = slave.publish("orders", &message(b"body", b"")).expect_err("refused");
    assert!(matches!(&refused, Refusal::Unavailable(text) if text.contains("at its master")), "{refused:?}");
    let back = SendBack {
        group: GroupName::checked("billing").expect("a name"),
        log_offset: LogOffset(0),
        delay_level: 0,
        redeliveries_max: None,
    };
    assert!(matches!(slave.broker.retries.send_back(&back, slave.now), Err(Refusal::Unavailable(_))));
    assert_eq!(slave.broker.following.end(), master.broker.store().watermarks().committed());
    master.broker.delivery.deliver_due(at(60_000));
    master.broker.store().write_staged().expect("writes");
    follow(&slave, &master);
    assert_same(&slave, &master);
    assert_eq!(slave.fetch("orders", 0, 0, Filter::All).count, 1);
}

#[test]
fn a_slave_that_begins_in_the_middle_has_what_the_masters_tables_say() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    let body = vec![7; 10_000];
    commit_first(&master);
    while master.broker.store().watermarks().written().0 < 3 * layout(Path::new("/data"), vec![]).segment_size {
        master.publish("orders", &message(&body, b"")).expect("stored");
    }
    commit(&master, "billing", 5);
    take_tables(&slave, &master);
    assert_same(&slave, &master);
    let begin = LogOffset(layout(Path::new("/data"), vec![]).segment_size);
    let mut start = begin;
    let position = master.broker.state_position();
    commit(&master, "billing", 6);
    master.broker.keep(master.now).expect("keeps");
    let end = master.broker.store().watermarks().committed();
    while start < end {
        let bytes = master.broker.store().read_raw(start, usize::MAX).expect("reads");
        start = slave.broker.following.append(start, std::slice::from_ref(&bytes)).expect("appends");
        if start <= position {
            assert_eq!(committed(&slave, "billing"), Some(5), "what the log said before is in the tables");
        }
    }
    assert_same(&slave, &master);
    let queue = slave.broker.catalog.topic("orders").expect("a topic").queues[0].clone();
    assert!(queue.first().0 > 0);
    assert_eq!(queue.end(), master.broker.catalog.topic("orders").expect("a topic").queues[0].end());
}

fn commit_first(master: &Bench) {
    master.publish("orders", &message(b"first", b"")).expect("stored");
    commit(master, "billing", 0);
}

#[test]
fn a_slave_that_was_killed_or_stopped_goes_on_and_may_become_the_master() {
    for kill in [true, false] {
        let disk = MemoryDisk::new();
        let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&disk, true, 1000));
        take_tables(&slave, &master);
        commit_first(&master);
        follow(&slave, &master);
        slave.broker.checkpoint(slave.now).expect("a checkpoint");
        master.publish("orders", &message(b"second", b"")).expect("stored");
        commit(&master, "billing", 1);
        follow(&slave, &master);
        if !kill {
            slave.broker.close(slave.now).expect("stops");
        }
        drop(slave);
        let slave = open(&disk, true, 2000);
        assert_same(&slave, &master);
        take_tables(&slave, &master);
        master.publish("orders", &message(b"third", b"")).expect("stored");
        commit(&master, "billing", 2);
        follow(&slave, &master);
        assert_same(&slave, &master);
        drop(slave);
        let promoted = open(&disk, false, 3000);
        assert_eq!(committed(&promoted, "billing"), Some(2));
        promoted.publish("orders", &message(b"fourth", b"")).expect("it takes messages now");
        assert_eq!(promoted.fetch("orders", 0, 0, Filter::All).count, 4);
    }
}

#[test]
fn a_java_masters_tables_are_the_state_and_outlive_a_kill() {
    let disk = MemoryDisk::new();
    // Its log tells of nothing: the slave of this test gets none of it.
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&disk, true, 1000));
    commit_first(&master);
    take_java_tables(&slave, &master);
    assert_same(&slave, &master);
    drop(slave);
    let slave = open(&disk, true, 2000);
    assert_eq!(slave.broker.catalog.group("billing").map(|group| group.retry_queue_nums), Some(1));
    master.broker.removals.topic("orders", master.now).expect("removes");
    let settings = GroupDocument { retry_max_times: 3, ..GroupDocument::default() };
    let name = GroupName::checked("billing").expect("a name");
    master.broker.catalog.put_groups(vec![(name, settings)], master.now).expect("changes");
    take_java_tables(&slave, &master);
    assert_same(&slave, &master);
    drop(slave);
    let promoted = open(&disk, false, 3000);
    assert_eq!(promoted.broker.catalog.group("billing").map(|group| group.retry_max_times), Some(3));
    assert!(promoted.broker.catalog.topic("orders").is_none());
    drop(promoted);
    let again = open(&disk, false, 4000);
    assert_eq!(again.broker.catalog.group("billing").map(|group| group.retry_max_times), Some(3));
}

#[test]
fn what_consumers_settle_at_a_slave_its_master_is_told_also_after_a_restart_of_the_slave() {
    let disk = MemoryDisk::new();
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&disk, true, 1000));
    take_tables(&slave, &master);
    commit_first(&master);
    commit(&master, "audit", 0);
    (0..9).for_each(|_| drop(master.publish("orders", &message(b"more", b""))));
    follow(&slave, &master);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
    // The master is away; one of the groups was never seen there.
    commit(&slave, "billing", 7);
    commit(&slave, "new", 3);
    slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
    drop(slave);
    let slave = open(&disk, true, 2000);
    assert_eq!((committed(&slave, "billing"), committed(&slave, "new")), (Some(7), Some(3)));
    // Meanwhile a consumer has told the master itself.
    commit(&master, "audit", 5);
    let unknown = slave.broker.following.unknown_to(&tables(&master));
    let offset = |group: &str, offset| ("orders".to_owned(), group.to_owned(), 0, offset);
    assert_eq!(unknown.offsets, [offset("billing", 7), offset("new", 3)]);
    assert_eq!(unknown.groups.iter().map(|group| &*group.group_name).collect::<Vec<_>>(), ["new"]);
    commit(&master, "billing", 8);
    commit(&master, "new", 3);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
    take_tables(&slave, &master);
    assert_same(&slave, &master);
    // An administrator may have the group begin again now: that is not undone.
    commit(&master, "billing", 1);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
    drop(slave);
    let slave = open(&disk, true, 3000);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
}

/// Its documents are those of its master, of whenever it last heard of it: a start does not make them its consumers' doing.
#[test]
fn a_slave_that_starts_again_does_not_tell_its_master_what_the_master_has_told_it() {
    let disk = MemoryDisk::new();
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&disk, true, 1000));
    master.publish("orders", &message(b"first", b"")).expect("stored");
    commit(&master, "billing", 1);
    take_java_tables(&slave, &master);
    slave.broker.work(Work::SaveDocuments, slave.now).expect("saves");
    drop(slave);
    // An administrator has the group begin again.
    commit(&master, "billing", 0);
    let slave = open(&disk, true, 2000);
    assert_eq!(committed(&slave, "billing"), Some(1), "as the documents have it");
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
    take_java_tables(&slave, &master);
    assert_same(&slave, &master);
}

#[test]
fn who_becomes_the_master_has_what_was_settled_here_and_tells_nobody_of_it_later() {
    let disk = MemoryDisk::new();
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&disk, true, 1000));
    take_tables(&slave, &master);
    commit_first(&master);
    (0..9).for_each(|_| drop(master.publish("orders", &message(b"more", b""))));
    follow(&slave, &master);
    commit(&slave, "billing", 7);
    slave.broker.close(slave.now).expect("stops");
    drop(slave);
    let promoted = open(&disk, false, 2000);
    assert_eq!(committed(&promoted, "billing"), Some(7));
    promoted.broker.close(promoted.now).expect("stops");
    drop(promoted);
    let slave = open(&disk, true, 3000);
    assert_eq!(slave.broker.following.unknown_to(&tables(&master)), broker::Unknown::default());
}

#[test]
fn tables_that_were_copied_before_what_the_log_has_told_since_are_not_taken() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    commit_first(&master);
    let early = master_tables(&master);
    commit(&master, "billing", 1);
    slave.broker.take_tables(early.clone(), slave.now).expect("takes");
    follow(&slave, &master);
    slave.broker.take_tables(early, slave.now).expect("passes over them");
    assert_eq!(committed(&slave, "billing"), Some(1));
    assert_same(&slave, &master);
}

#[test]
fn topics_that_a_slave_is_told_of_have_the_queues_of_its_log() {
    let (master, slave) = (open(&MemoryDisk::new(), false, 1000), open(&MemoryDisk::new(), true, 1000));
    commit_first(&master);
    // As of a Java master: the log came before the table.
    let bytes = master.broker.store().read_raw(LogOffset(0), usize::MAX).expect("reads");
    slave.broker.take_tables(MasterTables::default(), slave.now).expect("takes");
    slave.broker.following.append(LogOffset(0), &[bytes]).expect("appends");
    assert!(slave.broker.catalog.topic("orders").is_none(), "what its log tells is not believed of a Java master");
    take_java_tables(&slave, &master);
    assert_eq!(slave.fetch("orders", 0, 0, Filter::All).count, 1);
    let settings = TopicDocument { read_queue_nums: 9, write_queue_nums: 9, ..TopicDocument::default() };
    master.broker.catalog.put_topic(TopicName::trusted("orders"), settings, master.now).expect("changes");
    take_java_tables(&slave, &master);
    assert_eq!(slave.broker.catalog.topic("orders").expect("a topic").queues.len(), 9);
    assert_eq!(slave.fetch("orders", 0, 0, Filter::All).count, 1);
    let nothing: Result<_, _> = slave.broker.following.append(slave.broker.following.end(), &[]);
    assert_eq!(nothing.expect("nothing to do"), slave.broker.following.end());
}
