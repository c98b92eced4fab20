//! A master and its slave over the real sessions of both ends.

use std::path::Path;

use base::{GroupName, LogOffset, QueueId, Timestamp};
use broker::{Broker, Message};
use format::index_rules::IndexRules;
use storage::RetentionPolicy;
use storage::disk::Disk;
use testkit::{ManualHost, at, broker_options, store_options};

use super::*;

const SEGMENT_SIZE: u64 = 64 * 1024;

fn open(disk: &MemoryDisk, follows: bool) -> Arc<Broker> {
    let layout = storage::Options {
        disk: Disk::new(disk.clone()),
        segment_size: SEGMENT_SIZE,
        retention: RetentionPolicy { size: Some(1), ..RetentionPolicy::default() },
        index_rules: IndexRules::new(vec![1000]),
        ..store_options(Path::new("/data"))
    };
    let layout = if follows { layout.following() } else { layout };
    let host = Arc::new(ManualHost::default());
    Arc::new(testkit::open_broker(broker_options(), layout, host, at(1000)).expect("opens"))
}

fn publish(broker: &Broker, body: &[u8]) {
    let now = at(1000);
    let topic = broker.catalog.topic_for_publish("orders", "TBW102", 4, now).expect("a topic");
    let message = Message {
        queue: Some(QueueId(0)),
        body,
        properties: b"",
        flag: 0,
        system_flag: 0,
        born_timestamp: Timestamp(1),
        born_host: ([10, 0, 0, 1], 5000).into(),
        delivery_count: 0,
    };
    let mut batch = broker.publisher.begin_batch(0, now);
    broker.publisher.add(&mut batch, &topic, &message).expect("added");
    broker.publisher.append(batch, now).expect("stored");
    broker.store().write_staged().expect("writes");
}

fn commit(broker: &Broker, offset: i64) {
    let group = GroupName::checked("billing").expect("a name");
    broker.catalog.group_for_use(&group, at(1000)).expect("a group");
    broker.offsets.commit("orders", "billing", QueueId(0), offset).expect("commits");
    broker.offsets.keep_changes(at(1000)).expect("keeps");
    broker.store().write_staged().expect("writes");
}

fn committed(broker: &Broker) -> Option<i64> {
    broker.offsets.committed("orders", "billing", QueueId(0))
}

/// Moves a connection on until nothing moves any more. Gives why it ended, if it did.
fn converse<N: base::session::Session, F: base::session::Session>(line: Line<N, F>) -> Option<String> {
    let mut line = Some(line);
    (0..200).find_map(|_| step(&mut line, usize::MAX, at(2000)))
}

/// The slave asks for tables once, and tells its master what was settled.
fn ask(slave: &Arc<Broker>, master: &Arc<Broker>) -> Result<Arc<Followed>, String> {
    let followed = Arc::new(Followed::new(slave.clone(), at(2000)));
    let ended = converse(Line::of(
        |waker| MasterSession::new(followed.clone(), waker),
        |waker| {
            let options = Arc::new(session_options());
            RocketSession::new(master.clone(), Mailbox::new(waker), options, ([10, 0, 0, 2], 5000).into())
        },
    ));
    ended.map_or(Ok(followed), Err)
}

/// The same, and then for the log.
fn follow(slave: &Arc<Broker>, master: &Arc<Broker>) -> Result<(), String> {
    let followed = ask(slave, master)?;
    let part = followed.ready().ok_or("tables did not come")?;
    let now = at(2000).monotonic;
    let followers = Arc::new(Followers::new(1, master.store().watermarks().committed()));
    let ended = converse(Line::of(
        |waker| FollowerSession::new(followed.clone(), part, TIMES, waker, now),
        |waker| {
            let address = ([10, 0, 0, 2], 5001).into();
            LeaderSession::new(Arc::new(Served(master.clone())), followers, address, TIMES, waker, now)
        },
    ));
    ended.map_or(Ok(()), Err)
}

#[test]
fn a_slave_whose_log_ends_where_its_masters_begins_goes_on() {
    let (master, slave) = (open(&MemoryDisk::new(), false), open(&MemoryDisk::new(), true));
    while master.store().watermarks().committed().0 <= SEGMENT_SIZE {
        publish(&master, &[b'x'; 1000]);
    }
    // It was stopped when it had taken in the piece that ends with the first segment.
    let bytes = master.store().read_raw(LogOffset(0), usize::MAX).expect("reads");
    slave.following.append(LogOffset(0), &[bytes]).expect("appends");
    assert_eq!(slave.following.end(), LogOffset(SEGMENT_SIZE));
    (0..10).for_each(|_| publish(&master, &[b'x'; 1000]));
    // Meanwhile the master has removed that.
    master.checkpoint(at(2000)).expect("written");
    master.retention.apply(at(2000)).expect("applied");
    assert_eq!(master.store().log_first(), LogOffset(SEGMENT_SIZE));
    assert_eq!(follow(&slave, &master), Ok(()));
    assert_eq!(slave.following.end(), master.store().watermarks().committed());
}

#[test]
fn nothing_of_a_topic_made_again_is_skipped_for_what_was_settled_in_the_old_one() {
    for count in [0, 3, 20] {
        let (master, slave) = (open(&MemoryDisk::new(), false), open(&MemoryDisk::new(), true));
        (0..10).for_each(|_| publish(&master, b"old"));
        commit(&master, 5);
        follow(&slave, &master).expect("follows");
        // The master is away; then it is back, and the slave is not.
        commit(&slave, 7);
        if count > 0 {
            master.removals.topic("orders", at(1000)).expect("removes");
            (0..count).for_each(|_| publish(&master, b"new"));
        }
        ask(&slave, &master).expect("asks");
        let expected = (count == 0).then_some(7);
        assert_eq!((committed(&master), committed(&slave)), (expected, expected), "{count} messages are new");
        follow(&slave, &master).expect("follows");
        assert_eq!((committed(&master), committed(&slave)), (expected, expected), "{count} messages are new");
        assert_eq!(slave.following.end(), master.store().watermarks().committed());
    }
}
