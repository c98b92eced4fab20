//! A slave takes the place of a master whose groups pop: what was settled is settled there, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::pair::{Pair, member, until, wait_until_followed};
use conformance::pop::consumer::{PushConsumer, deliveries};
use conformance::pop::{Hand, Pop, Popped};
use conformance::sender::Sender;
use conformance::sluice::{Setup, Sluice};

const TOPIC: &str = "followed";
const QUEUES: u32 = 2;
const NAME: &str = "broker-a";
const SINGLE: &str = "single";
const PUSHED: &str = "pushed";

/// Pops as the group of single calls until there are `count` messages.
fn pop(hand: &mut Hand, count: usize) -> Vec<Popped> {
    let mut messages = Vec::new();
    let began = Instant::now();
    while messages.len() < count {
        assert!(began.elapsed() < Duration::from_secs(60), "{} of {count}", messages.len());
        let wanted = (count - messages.len()).min(32).to_string();
        messages.extend(pop_once(hand, &wanted, "1000"));
    }
    messages
}

fn pop_once(hand: &mut Hand, wanted: &str, poll: &str) -> Vec<Popped> {
    let fields = [("topic", TOPIC), ("group", SINGLE), ("max", wanted), ("poll", poll)];
    Pop::read(&hand.call("pop", &fields)).messages
}

fn acknowledge<'a>(hand: &mut Hand, messages: impl Iterator<Item = &'a Popped>) -> BTreeSet<(u32, u64)> {
    let mut done = BTreeSet::new();
    for message in messages {
        let fields = [("topic", TOPIC), ("group", SINGLE), ("handle", &*message.handle)];
        assert_eq!(hand.call("ack", &fields)["status"], "OK");
        done.insert(message.place());
    }
    done
}

/// Kills the master for good, and starts the slave as a master of the same name.
fn promote(pair: Pair, scratch: &Path, name_server: &str) -> Sluice {
    let Pair { mut master, mut slave, .. } = pair;
    wait_until_followed(&master, &slave);
    master.kill();
    assert!(slave.stop().success());
    member(&scratch.join(format!("{NAME}-slave")), name_server, NAME, 0, "ASYNC_MASTER").start()
}

/// Sends for a second; the places that were acknowledged.
fn send(broker: &str) -> BTreeSet<(u32, u64)> {
    let sender = Sender::start(broker, TOPIC, QUEUES, Duration::from_millis(2));
    std::thread::sleep(Duration::from_secs(1));
    sender.stop().into_iter().map(|sent| sent.place).collect()
}

#[test]
fn a_slave_that_is_promoted_goes_on_with_what_its_masters_groups_have_settled() {
    let scratch = tempfile::tempdir().expect("directory");
    let path = scratch.path();
    let names = Setup::name_server(&path.join("names")).start();
    let pair = Pair::start(path, &names.name_server, NAME);
    Connection::open(&pair.master.broker).make_topic(TOPIC, QUEUES);
    let mut hand = Hand::start_at(&pair.master.broker, path);
    assert!(hand.call("mode", &[("topic", TOPIC), ("group", PUSHED), ("mode", "POP")])["code"].is_null());
    let flags = [("poll-name-server-millis", "1000")];
    let start = |name| PushConsumer::start(&names.name_server, (TOPIC, PUSHED), path, name, &flags);
    let consumers = ["a", "b"].map(start);
    let mut sent = send(&pair.master.broker);
    let popped = pop(&mut hand, sent.len());
    // Of each hundred some are held, in the middle of what is acknowledged.
    let is_held = |message: &&Popped| message.offset % 100 > 90;
    let done = acknowledge(&mut hand, popped.iter().filter(|message| !is_held(message)));
    let pushed = || -> BTreeSet<_> { deliveries(&consumers).iter().map(|delivery| delivery.place).collect() };
    until("not all is pushed by the master", || pushed() == sent);
    // Acknowledgements of push consumers are on their way for a moment.
    std::thread::sleep(Duration::from_secs(1));
    let before = deliveries(&consumers).len();
    let promoted = promote(pair, path, &names.name_server);

    let mut hand = Hand::start_at(&promoted.broker, path);
    sent.extend(send(&promoted.broker));
    let came: BTreeSet<_> = pop(&mut hand, sent.len() - done.len()).iter().map(Popped::place).collect();
    assert_eq!(came, sent.difference(&done).copied().collect());
    assert_eq!(pop_once(&mut hand, "32", "1000"), []);
    until("not all is pushed by the new master", || pushed() == sent);
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    deliveries(&consumers).iter().for_each(|delivery| *counts.entry(delivery.place).or_default() += 1);
    let again: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    println!(
        "{before} pushed by the master, {} in all; {} of {} settled there",
        counts.len(),
        done.len(),
        popped.len()
    );
    assert!(again.is_empty(), "acknowledged, replicated, and come again: {again:?}");
    consumers.into_iter().for_each(PushConsumer::stop);
}
