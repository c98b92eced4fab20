//! Promises about long messages that have to be read from the disk: what they take is counted before they are read, and all of them come.

use base::Permission;
use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::session::Session;
use format::document::TopicDocument;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};

use crate::bench::Bench;
use crate::client::{Ask, Client, pop, pull, send};

/// What a read that may not wait is told.
const EAGAIN: i32 = 11;

/// Longer than what is read at once by far.
const LONG: usize = 3 << 20;

const QUEUES: u32 = 40;

/// A broker with a long message in each of its queues, and none of them in memory.
fn cold_bench() -> (Bench, FaultyDisk) {
    let disk = FaultyDisk::over(&MemoryDisk::default());
    let bench = Bench::with(|setup| {
        (setup.store.segment_size, setup.store.recent_size) = (256 << 20, 1 << 10);
        setup.store.disk = Disk::new(disk.clone());
    });
    bench.make_topic("orders", TopicDocument::plain(QUEUES, Permission::OPEN));
    let mut producer = bench.client();
    for queue in 0..QUEUES {
        producer.ask_well(send("orders", &"x".repeat(LONG)).with("e", queue));
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

/// Runs what the session wants run and wakes it, without taking what it says, until nothing changes any more.
fn run_without_taking(client: &mut Client) {
    loop {
        let jobs: Vec<_> = std::iter::from_fn(|| client.session.take_job()).collect();
        if jobs.is_empty() && !client.take_wake() {
            return;
        }
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
