//! Promises to who waits for messages: each hears of the first that comes after it looked.

#![expect(clippy::expect_used, reason = "helpers of tests: what goes wrong is a failed test")]

mod support;

use std::path::Path;
use std::sync::Barrier;
use std::task::Waker;
use std::time::{Duration, Instant};

use base::{Now, QueueId, TopicName};
use broker::{Mailbox, Queue, Signal};
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
