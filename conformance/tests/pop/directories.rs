//! A directory whose groups pop goes from Sluice to a Java broker and back: whoever is next goes on at the first message that is not
//! acknowledged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::JavaBroker;
use conformance::pop::consumer::PushConsumer;
use conformance::pop::{Hand, Pop, Popped};
use conformance::sluice::{Setup, Sluice};
use wire::rocketmq::code::response;

const TOPIC: &str = "swapped";
const GROUP: &str = "going-on";
const COUNT: u64 = 20;

type Place = (u32, u64);

/// A directory as a Java broker has it, and a name server that stays.
struct Passed {
    scratch: tempfile::TempDir,
    names: Sluice,
}

impl Passed {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("directory");
        let names = Setup::name_server(&scratch.path().join("names")).start();
        Self { scratch, names }
    }

    fn path(&self) -> &Path {
        self.scratch.path()
    }

    fn home(&self) -> PathBuf {
        self.path().join("java")
    }

    fn sluice(&self) -> Sluice {
        let data = self.home().join("store");
        Setup::broker(&data, &self.names.name_server).set("brokerName", "broker-a").start()
    }

    fn java(&self) -> JavaBroker {
        JavaBroker::start(&self.home(), &self.names.name_server, &[])
    }

    /// The offset that the document has of a queue.
    fn exported(&self, queue: u32) -> Option<u64> {
        let text = std::fs::read(self.home().join("store/config/consumerOffset.json")).expect("a document");
        let document = format::loose_json::parse(&text).expect("JSON");
        document["offsetTable"][format!("{TOPIC}@{GROUP}")][queue.to_string()].as_u64()
    }
}

/// Sends to both queues in turn.
fn send(broker: &str, count: u64) -> BTreeSet<Place> {
    let mut connection = Connection::open(broker);
    let mut sent = BTreeSet::new();
    for number in 0..count {
        let queue = (number % 2) as u32;
        let answer = connection.send_message(TOPIC, queue as i32, "", format!("m{number}").as_bytes());
        assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
        sent.insert((queue, answer.field("queueOffset").parse().expect("an offset")));
    }
    sent
}

fn pop_once(hand: &mut Hand, invisible: &str) -> Vec<Popped> {
    let fields = [("topic", TOPIC), ("group", GROUP), ("poll", "1000"), ("invisible", invisible)];
    Pop::read(&hand.call("pop", &fields)).messages
}

/// Pops until there are so many messages.
fn pop(hand: &mut Hand, count: usize, invisible: &str) -> Vec<Popped> {
    let mut messages = Vec::new();
    let began = Instant::now();
    while messages.len() < count {
        assert!(began.elapsed() < Duration::from_secs(60), "{} of {count}: {messages:?}", messages.len());
        messages.extend(pop_once(hand, invisible));
    }
    messages
}

fn acknowledge<'a>(hand: &mut Hand, messages: impl IntoIterator<Item = &'a Popped>) {
    for message in messages {
        let fields = [("topic", TOPIC), ("group", GROUP), ("handle", &*message.handle)];
        assert_eq!(hand.call("ack", &fields)["status"], "OK", "{message:?}");
    }
}

fn places<'a>(messages: impl IntoIterator<Item = &'a Popped>) -> BTreeSet<Place> {
    messages.into_iter().map(Popped::place).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(90), "not within a minute and a half: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Pops at Sluice; the first seven of queue 0 are done, and two behind them; of queue 1 all. What nobody acknowledged.
fn settle_some(passed: &Passed) -> BTreeSet<Place> {
    let mut sluice = passed.sluice();
    Connection::open(&sluice.broker).make_topic(TOPIC, 2);
    let sent = send(&sluice.broker, COUNT);
    let mut hand = Hand::start_at(&sluice.broker, passed.path());
    assert!(hand.call("mode", &[("topic", TOPIC), ("group", GROUP), ("mode", "POP")])["code"].is_null());
    let popped = pop(&mut hand, sent.len(), "60000");
    let is_done = |message: &&Popped| message.queue == 1 || message.offset < 5 || [6, 8].contains(&message.offset);
    acknowledge(&mut hand, popped.iter().filter(is_done));
    assert!(sluice.stop().success());
    places(popped.iter().filter(|message| !is_done(message)))
}

#[test]
fn a_java_broker_goes_on_at_the_first_message_that_was_not_acknowledged_at_sluice() {
    let passed = Passed::new();
    let left = settle_some(&passed);
    assert_eq!(left, [(0, 5), (0, 7), (0, 9)].into());
    assert_eq!((passed.exported(0), passed.exported(1)), (Some(5), Some(COUNT / 2)));

    let java = passed.java();
    let mut connection = Connection::open(&java.address);
    assert_eq!((0..2).map(|queue| connection.committed(GROUP, TOPIC, queue)).collect::<Vec<_>>(), [Some(5), Some(10)]);
    let all_left: BTreeSet<_> =
        send(&java.address, COUNT).into_iter().chain((5..10).map(|offset| (0, offset))).collect();
    // The group's mode has come with the directory.
    let flags = [("invisible-millis", "10000")];
    let of = (TOPIC, GROUP);
    let consumer = PushConsumer::start(&passed.names.name_server, of, passed.path(), "a", &flags);
    let seen = || -> BTreeSet<_> { consumer.deliveries().iter().map(|delivery| delivery.place).collect() };
    until("all that is left is pushed", || seen().is_superset(&all_left));
    assert_eq!(seen(), all_left, "what was done below does not come");
    let is_popped = consumer.deliveries().iter().all(|delivery| delivery.is_popped);
    assert!(is_popped, "the group pops there too");
    consumer.stop();
}

#[test]
fn sluice_goes_on_where_a_group_that_popped_at_a_java_broker_is() {
    let passed = Passed::new();
    let java = passed.java();
    Connection::open(&java.address).make_topic(TOPIC, 2);
    let mut hand = Hand::start_at(&java.address, passed.path());
    let sent = send(&java.address, COUNT);
    let popped = pop(&mut hand, sent.len(), "60000");
    assert_eq!(places(&popped), sent);
    acknowledge(&mut hand, &popped);
    let mut connection = Connection::open(&java.address);
    until("it has committed what was acknowledged", || {
        (0..2).all(|queue| connection.committed(GROUP, TOPIC, queue) == Some(COUNT / 2))
    });
    // Nobody acknowledges these: they go into the topic of what comes again.
    let retry = format!("%RETRY%{GROUP}_{TOPIC}");
    let unsettled = send(&java.address, 6);
    assert_eq!(places(&pop(&mut hand, unsettled.len(), "1000")), unsettled);
    until("what nobody acknowledged is put up again", || connection.queue_end(&retry, 0) >= unsettled.len() as u64);
    let untaken = send(&java.address, 4);
    java.stop();

    let mut sluice = passed.sluice();
    let mut hand = Hand::start_at(&sluice.broker, passed.path());
    let later = send(&sluice.broker, COUNT);
    let owed = unsettled.len() + untaken.len() + later.len();
    let popped = pop(&mut hand, owed, "5000");
    let (again, first): (Vec<_>, Vec<_>) = popped.iter().partition(|message| message.reconsumed > 0);
    println!("{} came from {retry}: {again:?}", again.len());
    assert_eq!(places(first), untaken.union(&later).copied().collect());
    let bodies: BTreeSet<_> = again.iter().map(|message| message.body.clone()).collect();
    assert_eq!(bodies, (0..6).map(|number| format!("m{number}")).collect());
    acknowledge(&mut hand, &popped);
    std::thread::sleep(Duration::from_millis(5500));
    assert_eq!(pop_once(&mut hand, "5000"), [], "all is done");
    assert!(sluice.stop().success());
}
