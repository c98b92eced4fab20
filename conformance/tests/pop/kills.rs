//! `kill -9` under pop consumers: nothing is lost, what was acknowledged is done, and order is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::pop::consumer::{Delivery, PushConsumer, deliveries};
use conformance::pop::{Hand, Pop, Popped};
use conformance::sender::Sender;
use conformance::{kill_count, seed};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::mortal::Mortal;
use crate::ordered_queue::OrderedQueue;

const KILLS: u64 = 3;
const QUEUES: u32 = 2;
/// The shortest that the client allows.
const INVISIBLE_MS: u64 = 5000;
/// A push consumer's acknowledgement is answered this much after the message was consumed, on a machine that is busy.
const GRACE_MS: u64 = 1000;
/// What a push consumer may hold and not have acknowledged: it pops no more while it has 96, and each pop gives 32.
const HELD_MAX: usize = 200;

/// Kills the broker every few seconds: clients try again 3 s after a failure.
fn kill_again_and_again(broker: &Mortal) {
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..kill_count(KILLS) {
        std::thread::sleep(Duration::from_millis(random.random_range(4500..6000)));
        broker.kill_and_start();
    }
}

/// Waits until the group has settled all there is.
fn until_all_is_settled(broker: &Mortal, topic: &str, group: &str) {
    let began = Instant::now();
    let mut connection = Connection::open(&broker.broker);
    for queue in 0..QUEUES {
        let end = connection.queue_end(topic, queue);
        while connection.committed(group, topic, queue) != Some(end) {
            let committed = connection.committed(group, topic, queue);
            assert!(began.elapsed() < Duration::from_secs(60), "queue {queue} ends at {end}, committed {committed:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Whether a message may have been handed out once more: somebody had it and had not acknowledged it when the broker was killed or its
/// time was over.
fn may_come_again(first: &Delivery, again: &Delivery, broker: &Mortal) -> bool {
    let killed = broker.kill_after(first.popped_at).map_or(u64::MAX, |kill| kill.before);
    let held_until = killed.min(first.popped_at + INVISIBLE_MS);
    let is_acknowledged = first.consumed_at + GRACE_MS < held_until;
    !is_acknowledged && again.popped_at >= held_until
}

#[test]
fn kills_under_push_consumers_lose_nothing_and_repeat_only_what_was_held() {
    let scratch = tempfile::tempdir().expect("directory");
    let broker = Mortal::start(scratch.path());
    let (topic, group) = ("killed", "survivors");
    let mut connection = Connection::open(&broker.broker);
    connection.make_topic(topic, QUEUES);
    connection.make_group(group, 16);
    let set = [("topic", topic), ("group", group), ("mode", "POP")];
    assert!(Hand::start_at(&broker.broker, scratch.path()).call("mode", &set)["code"].is_null());
    let invisible = INVISIBLE_MS.to_string();
    let flags = [("invisible-millis", &*invisible), ("hold-millis", "3")];
    let start = |name| PushConsumer::start(&broker.name_server, (topic, group), scratch.path(), name, &flags);
    let consumers = ["a", "b"].map(start);
    let sender = Sender::start(&broker.broker, topic, QUEUES, Duration::from_millis(2));
    let began = Instant::now();
    while consumers.iter().any(|consumer| consumer.deliveries().is_empty()) {
        assert!(began.elapsed() < Duration::from_secs(60), "both consume");
        std::thread::sleep(Duration::from_millis(50));
    }
    kill_again_and_again(&broker);
    std::thread::sleep(Duration::from_secs(1));
    let sent = sender.stop();
    until_all_is_settled(&broker, topic, group);
    // What was acknowledged late might still be written down.
    std::thread::sleep(Duration::from_millis(500));
    let mut by_place: BTreeMap<_, Vec<Delivery>> = BTreeMap::new();
    for delivery in deliveries(&consumers) {
        assert!(delivery.is_popped, "{delivery:?}");
        by_place.entry(delivery.place).or_default().push(delivery);
    }
    let lost: Vec<_> = sent.iter().filter(|sent| !by_place.contains_key(&sent.place)).collect();
    assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), sent.len());
    let mut repeated = 0;
    for deliveries in by_place.values_mut() {
        deliveries.sort_by_key(|delivery| delivery.popped_at);
        for pair in deliveries.windows(2) {
            repeated += 1;
            assert!(may_come_again(&pair[0], &pair[1], &broker), "without a reason: {pair:?}");
        }
    }
    println!("{} sent, {repeated} repeated after {} kills", sent.len(), kill_count(KILLS));
    assert!(repeated <= kill_count(KILLS) as usize * consumers.len() * HELD_MAX, "{repeated} repeated");
    consumers.into_iter().for_each(PushConsumer::stop);
}

/// What one of several consumers that pop in order is at.
enum Doing {
    Popping,
    /// Acknowledging its messages one after the other: handles, and when they were popped.
    Acknowledging {
        left: Vec<(u64, String)>,
        offset: u64,
        popped_at: u64,
    },
}

/// Consumers that pop in order, each at one queue, by calls that do not wait for each other.
struct OrderedConsumers<'a> {
    broker: &'a Mortal,
    hand: Hand,
    calls: BTreeMap<u64, (usize, Doing)>,
    attempts: u64,
    queues: Vec<OrderedQueue>,
}

const TOPIC: &str = "killed-in-order";
const GROUP: &str = "in-order";
const CONSUMERS: usize = 6;

impl<'a> OrderedConsumers<'a> {
    fn new(broker: &'a Mortal, scratch: &std::path::Path) -> Self {
        let queues = (0..QUEUES).map(|_| OrderedQueue::default()).collect();
        Self { broker, hand: Hand::start_at(&broker.broker, scratch), calls: BTreeMap::new(), attempts: 0, queues }
    }

    const fn queue_of(consumer: usize) -> usize {
        consumer % QUEUES as usize
    }

    fn begin(&mut self, consumer: usize, doing: Doing, call: &str, fields: &[(&str, &str)]) {
        let fields = [&[("topic", TOPIC), ("group", GROUP)], fields].concat();
        let pending = self.hand.begin(call, &fields);
        self.calls.insert(pending.number(), (consumer, doing));
    }

    fn begin_pop(&mut self, consumer: usize) {
        self.attempts += 1;
        let (queue, attempt) = (Self::queue_of(consumer).to_string(), self.attempts.to_string());
        let invisible = INVISIBLE_MS.to_string();
        let fields = [
            ("order", "true"),
            ("queue", &*queue),
            ("max", "8"),
            ("poll", "1000"),
            ("invisible", &*invisible),
            ("attempt", &*attempt),
        ];
        self.begin(consumer, Doing::Popping, "pop", &fields);
    }

    /// Acknowledges the next of its messages, or pops again.
    fn go_on(&mut self, consumer: usize, mut left: Vec<(u64, String)>, popped_at: u64) {
        if left.is_empty() {
            return self.begin_pop(consumer);
        }
        let (offset, handle) = left.remove(0);
        self.queues[Self::queue_of(consumer)].acknowledge(offset, (consumer, popped_at));
        let doing = Doing::Acknowledging { left, offset, popped_at };
        self.begin(consumer, doing, "ack", &[("handle", &handle)]);
    }

    fn note_pop(&mut self, consumer: usize, popped: &Pop) {
        let messages = &popped.messages;
        let popped_at = messages.first().map_or(0, Popped::popped_at);
        let offsets: Vec<_> = messages.iter().map(|message| message.offset).collect();
        let broker = self.broker;
        let is_held = |popped_at: u64| broker.kill_after(popped_at).is_none();
        self.queues[Self::queue_of(consumer)].hand_out(consumer, &offsets, popped_at, is_held);
        let left = messages.iter().map(|message| (message.offset, message.handle.clone())).collect();
        self.go_on(consumer, left, popped_at);
    }

    fn note_ack(&mut self, consumer: usize, (offset, popped_at): (u64, u64), is_answered: bool) {
        // A receipt of a broker that was killed since is answered too, and does nothing.
        if is_answered && self.broker.kill_after(popped_at).is_none() {
            self.queues[Self::queue_of(consumer)].settle(offset);
        }
    }

    fn work_until(&mut self, is_over: &AtomicBool) {
        (0..CONSUMERS).for_each(|consumer| self.begin_pop(consumer));
        while !is_over.load(Ordering::Relaxed) {
            let (pending, answer) = self.hand.end_any();
            let (consumer, doing) = self.calls.remove(&pending.number()).expect("a call of ours");
            match (doing, answer) {
                (Doing::Popping, Some(answer)) => self.note_pop(consumer, &Pop::read(&answer)),
                (Doing::Popping, None) => {
                    std::thread::sleep(Duration::from_millis(20));
                    self.begin_pop(consumer);
                }
                (Doing::Acknowledging { left, offset, popped_at }, answer) => {
                    self.note_ack(consumer, (offset, popped_at), answer.is_some());
                    self.go_on(consumer, left, popped_at);
                }
            }
        }
    }
}

#[test]
fn kills_keep_the_order_of_what_is_popped_in_order() {
    let scratch = tempfile::tempdir().expect("directory");
    let broker = Mortal::start(scratch.path());
    Connection::open(&broker.broker).make_topic(TOPIC, QUEUES);
    let mut consumers = OrderedConsumers::new(&broker, scratch.path());
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let consuming = scope.spawn(|| consumers.work_until(&is_over));
        let sender = Sender::start(&broker.broker, TOPIC, QUEUES, Duration::from_millis(1));
        kill_again_and_again(&broker);
        std::thread::sleep(Duration::from_secs(1));
        let sent = sender.stop();
        if !consuming.is_finished() {
            until_all_is_settled(&broker, TOPIC, GROUP);
        }
        is_over.store(true, Ordering::Relaxed);
        consuming.join().expect("consumes in order");
        sent
    });
    let given: BTreeSet<_> = (0..QUEUES).flat_map(|queue| consumers.queues[queue as usize].given(queue)).collect();
    let lost: Vec<_> = sent.iter().filter(|sent| !given.contains(&sent.place)).collect();
    assert!(lost.is_empty(), "{} of {} lost: {lost:?}", lost.len(), sent.len());
    let repeated: usize = consumers.queues.iter().map(|queue| queue.repeated).sum();
    println!("{} sent, {repeated} repeated after {} kills", sent.len(), kill_count(KILLS));
    // Of each queue one consumer has a pop's messages at a time.
    assert!(repeated <= kill_count(KILLS) as usize * QUEUES as usize * 8, "{repeated} repeated");
}
