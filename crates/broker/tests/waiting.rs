//! Promises to who waits for messages: each hears of the first that comes after it looked.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use base::offset::AckPolicy;
use base::{LogOffset, Monotonic, Now, QueueId, Refusal, TopicName};
use broker::{Mailbox, Queue, Signal, Standing, Wait};
use format::document::TopicDocument;
use storage::disk::{Disk, MemoryDisk};
use support::{Bench, layout, message, open_on};
use testkit::at;

const START: Now = at(1_700_000_000_000);

fn open() -> Bench {
    let disk = Disk::new(MemoryDisk::new());
    let bench = open_on(storage::Options { disk, ..layout(Path::new("/data"), vec![1000]) }, START, |_| ());
    put_queues(&bench, 4);
    bench
}

fn put_queues(bench: &Bench, count: u32) {
    let settings = TopicDocument { read_queue_nums: count, write_queue_nums: count, ..TopicDocument::default() };
    bench.broker.catalog.put_topic(TopicName::trusted("orders"), settings, START).expect("made");
}

fn queue(bench: &Bench, number: u32) -> Queue {
    bench.broker.catalog.topic("orders").expect("there").queue(QueueId(number)).expect("a queue").clone()
}

fn publish(bench: &Bench) {
    bench.publish("orders", &message(b"x", b"")).expect("stored");
}

#[test]
fn no_message_comes_between_looking_and_waiting() {
    let bench = open();
    let queue = queue(&bench, 0);
    let mailbox = Mailbox::new(Waker::noop().clone());
    for round in 0..3000 {
        let (before, barrier) = (queue.end(), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                publish(&bench);
            });
            barrier.wait();
            let _waiter = queue.wait(mailbox.clone(), round);
            if queue.end() == before {
                let began = Instant::now();
                while !mailbox.take().contains(&Signal::FetchReady(round)) {
                    assert!(began.elapsed() < Duration::from_secs(10), "round {round}: nobody told");
                    std::thread::yield_now();
                }
            }
        });
        mailbox.take();
    }
}

#[test]
fn who_waits_hears_of_a_queue_that_its_topic_gave_up_and_got_again() {
    let bench = open();
    let mailbox = Mailbox::new(Waker::noop().clone());
    let old = queue(&bench, 3);
    let _waiter = old.wait(mailbox.clone(), 1);
    put_queues(&bench, 1);
    put_queues(&bench, 4);
    let _other = queue(&bench, 3).wait(mailbox.clone(), 2);
    let topic = bench.broker.catalog.topic("orders").expect("there");
    let mut batch = bench.broker.publisher.begin_batch(100, START);
    let message = broker::Message { queue: Some(QueueId(3)), ..message(b"x", b"") };
    bench.broker.publisher.add(&mut batch, &topic, &message).expect("added");
    bench.broker.publisher.append(batch, START).expect("stored");
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(mailbox.take(), [Signal::FetchReady(1), Signal::FetchReady(2)]);
}

#[test]
fn who_waits_is_signalled_once_by_many_messages_and_not_after_it_left() {
    let bench = open();
    let mailbox = Mailbox::new(Waker::noop().clone());
    let queue = queue(&bench, 0);
    let waiting: Vec<_> = (0..3).map(|number| queue.wait(mailbox.clone(), number)).collect();
    publish(&bench);
    publish(&bench);
    assert_eq!(mailbox.take(), [0, 1, 2].map(Signal::FetchReady));
    drop(waiting);
    let left = queue.wait(mailbox.clone(), 3);
    drop(left);
    publish(&bench);
    assert_eq!(mailbox.take(), []);
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Replicas that come and go after it has looked whether they are there, and before it is registered: it is told that they are gone, or
/// called when they go.
#[test]
fn no_loss_of_replicas_comes_between_looking_and_waiting() {
    let bench = open();
    let durability = &bench.broker.durability;
    publish(&bench);
    let end = bench.broker.store().log_end();
    let (none, here) = (None, Some(LogOffset(0)));
    for comings in [&[][..], &[none], &[none, here], &[none, here, none], &[none, here, none, here]] {
        durability.note_replicas(here);
        let flag = Arc::new(Flag::default());
        let waker = || {
            comings.iter().for_each(|reached| durability.note_replicas(*reached));
            flag.clone().into()
        };
        let mut wait = Wait::new(AckPolicy::REPLICATED, end, Monotonic(u64::MAX), None);
        let mut standing = wait.look(durability, Monotonic(0), waker);
        let are_gone = comings.last() == Some(&none);
        assert_eq!(standing == Standing::Waits, !are_gone, "{comings:?}");
        for _ in 0..if are_gone { 0 } else { 3 } {
            durability.note_replicas(here);
            standing = wait.look(durability, Monotonic(0), || flag.clone().into());
            assert_eq!(standing, Standing::Waits, "{comings:?}");
            durability.note_replicas(none);
            assert!(flag.0.swap(false, Ordering::AcqRel), "{comings:?}: they are gone, and it was not called");
            standing = wait.look(durability, Monotonic(0), || flag.clone().into());
        }
        assert_eq!(standing, Standing::Lacks(Refusal::NoReplica), "{comings:?}");
    }
}
