//! Promises about long messages that have to be read from the disk: what they take is counted before they are read, and all of them come.

use base::Permission;
use std::collections::VecDeque;
use std::sync::Arc;

use base::budget::{Budget, Room};
use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::session::Session;
use format::document::TopicDocument;
use format::record;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use wire::rocketmq::code::request;

use crate::bench::Bench;
use crate::client::{Ask, Client, ask, pop, pull, send};

/// What a read that may not wait is told.
const EAGAIN: i32 = 11;

/// Longer than what is read at once by far.
const LONG: usize = 3 << 20;

const QUEUES: u32 = 40;

/// A broker with a long message in each of its queues, and none of them in memory.
fn cold_bench() -> (Bench, FaultyDisk) {
    cold_bench_of(QUEUES, LONG)
}

/// The same with messages of `size` bytes in so many queues.
fn cold_bench_of(queues: u32, size: usize) -> (Bench, FaultyDisk) {
    let disk = FaultyDisk::over(&MemoryDisk::default());
    let bench = Bench::with(|setup| {
        (setup.store.segment_size, setup.store.recent_size) = (256 << 20, 1 << 10);
        setup.store.disk = Disk::new(disk.clone());
    });
    bench.make_topic("orders", TopicDocument::plain(queues, Permission::OPEN));
    let mut producer = bench.client();
    for queue in 0..queues {
        producer.ask_well(send("orders", &"x".repeat(size)).with("e", queue));
    }
    (bench, disk)
}

/// Asks for everything while nothing is in memory.
fn ask_cold(client: &mut Client, disk: &FaultyDisk, asks: &[Ask]) {
    disk.fail(Failure::error(Operation::Read, EAGAIN));
    for (opaque, ask) in asks.iter().enumerate() {
        client.receive(&mut ask.frame(opaque as i32)).expect("a frame");
    }
    disk.heal();
}

/// Runs what the session wants run and wakes it, without taking what it says, until nothing changes any more. Gives how many
/// jobs that were.
fn run_without_taking(client: &mut Client) -> usize {
    let mut count = 0;
    loop {
        let jobs: Vec<_> = std::iter::from_fn(|| client.session.take_job()).collect();
        if jobs.is_empty() && !client.take_wake() {
            return count;
        }
        count += jobs.len();
        jobs.into_iter().for_each(|job| job());
        client.session.wake(client.now);
    }
}

#[test]
fn long_messages_of_many_cold_pulls_are_read_as_there_is_room_for_them() {
    for wanted_size in [1 << 20, 1] {
        let (bench, disk) = cold_bench();
        let mut client = bench.client();
        let wanted = |queue| pull("billing", "orders", 0).with("queueId", queue).with("maxMsgBytes", wanted_size);
        ask_cold(&mut client, &disk, &(0..QUEUES).map(wanted).collect::<Vec<_>>());
        let mut count = 0;
        while count < QUEUES as usize {
            run_without_taking(&mut client);
            let size = client.session.output().size();
            assert!(size < OUTPUT_BACKLOG_SIZE_MAX + 2 * LONG, "{size} bytes wait for a client that takes nothing");
            let answers = client.replies();
            assert!(!answers.is_empty(), "{count} of {QUEUES} were answered");
            let is_due = client.session.deadline().is_some_and(|deadline| deadline <= client.now.monotonic);
            assert!(
                is_due || count + answers.len() == QUEUES as usize,
                "it goes on once the client has taken its answers"
            );
            assert!(answers.iter().all(|answer| answer.bodies().iter().map(String::len).eq([LONG])));
            count += answers.len();
        }
        assert!(!client.session.is_busy());
    }
}

#[test]
fn short_messages_from_the_disk_are_answered_by_one_job_and_long_ones_by_two() {
    let (bench, disk) = cold_bench();
    let mut client = bench.client();
    (0..2).for_each(|_| drop(client.ask_well(send("orders", "short").with("e", 0))));
    // So that they are no longer in memory.
    client.ask_well(send("orders", &"x".repeat(100_000)).with("e", 1));
    for (offset, jobs, bodies) in [(1, 1, [5, 5].as_slice()), (0, 2, &[LONG])] {
        ask_cold(&mut client, &disk, &[pull("billing", "orders", offset)]);
        let mut count = 0;
        while let Some(job) = client.session.take_job() {
            job();
            client.session.wake(client.now);
            count += 1;
        }
        let answers = client.hear();
        assert_eq!((answers.len(), count), (1, jobs));
        assert!(answers[0].bodies().iter().map(String::len).eq(bodies.iter().copied()));
    }
}

#[test]
fn long_messages_of_many_cold_pops_are_read_as_there_is_room_for_them() {
    let (bench, disk) = cold_bench();
    let mut client = bench.client();
    // The lanes are there.
    assert_eq!(client.ask_well(pop().with("maxMsgNums", 1)).bodies().len(), 1);
    let wanted = |_| pop().with("maxMsgNums", 1);
    ask_cold(&mut client, &disk, &(1..QUEUES).map(wanted).collect::<Vec<_>>());
    let mut count = 1;
    while count < QUEUES as usize {
        run_without_taking(&mut client);
        let size = client.session.output().size();
        assert!(size < OUTPUT_BACKLOG_SIZE_MAX + 2 * LONG, "{size} bytes wait for a client that takes nothing");
        let answers = client.hear();
        assert!(!answers.is_empty(), "{count} of {QUEUES} were answered");
        assert!(answers.iter().all(|answer| answer.bodies().iter().map(String::len).eq([LONG])), "each has one");
        count += answers.len();
    }
    assert!(!client.session.is_busy());
}

#[test]
fn a_pop_of_many_queues_gives_what_it_has_and_holds_nothing_while_it_waits_for_room() {
    const POPS: usize = 60;
    let (bench, disk) = cold_bench_of(10 * POPS as u32, 90 << 10);
    let mut client = bench.client();
    assert_eq!(client.ask_well(pop().with("maxMsgNums", 1)).bodies().len(), 1);
    ask_cold(&mut client, &disk, &vec![pop().with("maxMsgNums", 10); POPS]);
    let jobs = run_without_taking(&mut client);
    let size = client.session.output().size();
    assert!(size < OUTPUT_BACKLOG_SIZE_MAX + (1 << 20), "{size} bytes wait for a client that takes nothing");
    assert_eq!((jobs, client.hear().len()), (POPS, POPS), "each is read for once");
}

#[test]
fn answers_being_made_and_not_taken_are_together_within_the_bound() {
    let (bench, disk) = cold_bench_of(64, 120 << 10);
    let mut client = bench.client();
    let asks: Vec<_> = (0..64).map(|queue| pull("billing", "orders", 0).with("queueId", queue)).collect();
    ask_cold(&mut client, &disk, &asks);
    run_without_taking(&mut client);
    assert!(client.session.output().size() > OUTPUT_BACKLOG_SIZE_MAX / 2 && client.session.wants_input());
    ask_cold(&mut client, &disk, &asks);
    run_without_taking(&mut client);
    let size = client.session.output().size();
    assert!(size < OUTPUT_BACKLOG_SIZE_MAX + (1 << 20), "{size} bytes wait for a client that takes nothing");
    assert_eq!(client.hear().len(), 128);
}

#[test]
fn a_long_message_is_read_in_its_turn_whatever_else_is_asked_for_meanwhile() {
    let (bench, disk) = cold_bench();
    let mut client = bench.client();
    let look_up = ask(request::QUERY_MESSAGE, &[("topic", "orders"), ("key", "none"), ("maxNum", "32")]);
    let look_up = look_up.with("beginTimestamp", 0).with("endTimestamp", i64::MAX);
    // One look-up is always under way.
    let mut under_way = VecDeque::new();
    let mut ask_more = |client: &mut Client| {
        if client.session.wants_input() {
            client.receive(&mut look_up.frame(1)).expect("a frame");
        }
        under_way.extend(std::iter::from_fn(|| client.session.take_job()));
        if under_way.len() > 1 {
            under_way.pop_front().expect("a job")();
        }
        client.session.wake(client.now);
    };
    ask_more(&mut client);
    ask_cold(&mut client, &disk, &[pull("billing", "orders", 0).with("queueId", 7)]);
    let is_answered = (0..20).any(|_| {
        ask_more(&mut client);
        client.replies().iter().any(|reply| reply.bodies().iter().map(String::len).eq([LONG]))
    });
    assert!(is_answered, "look-ups that came later are answered instead");
}

#[test]
fn a_wrong_size_in_an_entry_takes_no_memory_from_others() {
    let (bench, disk) = cold_bench_of(1, 100);
    // The highest bit of the size of its only entry, but one: 1 GiB.
    bench.broker.store().checkpoint().expect("flushes");
    let again = FaultyDisk::over(&disk.memory().copy());
    let opened = again.clone();
    let bench = bench.killed_with(
        |directory| {
            let path = directory.join("consumequeue/orders/0/00000000000000000000");
            assert!(opened.memory().flip_bit(&path, 8, 6), "the entry is there");
        },
        |setup| {
            (setup.store.segment_size, setup.store.recent_size) = (256 << 20, 1 << 10);
            setup.store.disk = Disk::new(again.clone());
        },
    );
    let mut client = bench.client();
    let budget = Arc::new(Budget::default());
    client.session.share(budget.clone());
    ask_cold(&mut client, &again, &[pull("billing", "orders", 0)]);
    while let Some(job) = client.session.take_job() {
        assert_eq!(budget.room(), Room::Plenty);
        job();
        client.session.wake(client.now);
    }
    assert_eq!(client.hear().len(), 1);
}

#[test]
fn what_pops_have_taken_and_not_read_goes_back_when_their_connection_ends() {
    let (bench, disk) = cold_bench();
    let (mut client, mut other) = (bench.client(), bench.client());
    let wanted = || pop().with("maxMsgNums", 1).with("invisibleTime", 600_000);
    assert_eq!(other.ask_well(wanted()).bodies().len(), 1);
    ask_cold(&mut client, &disk, &vec![wanted(); QUEUES as usize - 1]);
    run_without_taking(&mut client);
    let read = client.session.output().size() / LONG;
    client.close();
    for number in 1 + read..QUEUES as usize {
        let reply = other.ask(wanted());
        assert_eq!(reply.bodies().len(), 1, "{number} of {QUEUES}");
        assert_eq!(record::deliveries_of(&reply.body), 0, "nobody has had it");
    }
}
