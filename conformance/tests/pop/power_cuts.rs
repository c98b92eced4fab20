//! Power cuts under pop consumers, with sync flush: nothing is lost, and what was acknowledged before a later message was on the disk is done.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::java::wait_until_started;
use conformance::loop_disk::LoopDisk;
use conformance::pop::consumer::PushConsumer;
use conformance::pop::{Hand, Pop, Popped};
use conformance::sender::{Sender, Sent};
use conformance::sluice::{Setup, Sluice};
use conformance::{cut_count, seed};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const CUTS: u64 = 3;
const DISK_SIZE: u64 = 1 << 30;
const TOPIC: &str = "cut";
const QUEUES: u32 = 4;
const SENDERS: usize = 3;
const GROUP: &str = "popping";

type Place = (u32, u64);

/// What happened before a cut.
#[derive(Default)]
struct Load {
    sent: Vec<Sent>,
    /// Whether or not there was an answer.
    acknowledged: BTreeSet<Place>,
    /// What was answered, and when.
    answered: Vec<(Place, Instant)>,
}

impl Load {
    /// What was acknowledged in the log below a message that was on the disk.
    fn is_done(&self) -> BTreeSet<Place> {
        let synced = self.sent.iter().map(|sent| sent.began).max();
        let before = |(_, answered): &&(Place, Instant)| synced.is_some_and(|synced| *answered < synced);
        self.answered.iter().filter(before).map(|(place, _)| *place).collect()
    }
}

fn pop(hand: &mut Hand, poll: &str) -> Option<Vec<Popped>> {
    let fields = [("topic", TOPIC), ("group", GROUP), ("poll", poll), ("max", "16")];
    let pending = hand.begin("pop", &fields);
    hand.try_end(pending).map(|answer| Pop::read(&answer).messages)
}

/// Acknowledges messages side by side; the places of those that were answered.
fn acknowledge(hand: &mut Hand, messages: &[Popped]) -> Vec<Place> {
    let begin = |message: &Popped| {
        let fields = [("topic", TOPIC), ("group", GROUP), ("handle", &*message.handle)];
        (message.place(), hand.begin("ack", &fields))
    };
    let pending: Vec<_> = messages.iter().map(begin).collect();
    pending.into_iter().filter_map(|(place, call)| hand.try_end(call).map(|_| place)).collect()
}

/// Pops and acknowledges, of every tenth pop nothing, until the broker is gone.
fn consume_until_cut(hand: &mut Hand, load: &mut Load) {
    for number in 0.. {
        let Some(messages) = pop(hand, "500") else { return };
        if number % 10 == 9 {
            continue;
        }
        load.acknowledged.extend(messages.iter().map(Popped::place));
        let answered = acknowledge(hand, &messages);
        let now = Instant::now();
        load.answered.extend(answered.into_iter().map(|place| (place, now)));
    }
}

/// Sends and consumes until the power is cut. What is acknowledged from the cut on would never have left the machine.
fn load_until_cut(disk: &LoopDisk, sluice: &mut Sluice, hand: &mut Hand, moment: Duration) -> Load {
    let mut load = Load::default();
    let cut_began = std::thread::scope(|scope| {
        let start = |_| Sender::start(&sluice.broker, TOPIC, QUEUES, Duration::from_millis(1));
        let senders: Vec<_> = (0..SENDERS).map(start).collect();
        let consumer = scope.spawn(|| {
            let mut own = Load::default();
            consume_until_cut(hand, &mut own);
            own
        });
        std::thread::sleep(moment);
        let cut_began = Instant::now();
        disk.cut_power(sluice.id());
        sluice.kill();
        disk.wait_until_free();
        load = consumer.join().expect("consumes");
        load.sent = senders.into_iter().flat_map(Sender::stop).collect();
        cut_began
    });
    load.sent.retain(|sent| sent.acknowledged < cut_began);
    load.answered.retain(|(_, answered)| *answered < cut_began);
    load
}

/// All that there is for the group, which settles it.
fn drain(hand: &mut Hand) -> BTreeSet<Place> {
    let mut found = BTreeSet::new();
    let began = Instant::now();
    let mut quiet = 0;
    while quiet < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "it never ends");
        let messages = pop(hand, "300").unwrap_or_default();
        quiet = if messages.is_empty() { quiet + 1 } else { 0 };
        assert_eq!(acknowledge(hand, &messages).len(), messages.len());
        found.extend(messages.iter().map(Popped::place));
    }
    found
}

fn set_up(disk: &LoopDisk) -> Setup {
    let wrapper = disk.wrapper();
    Setup::serve(&disk.directory().join("data"))
        .set("storage.flush", "sync")
        .set("storage.segment_size", "1MiB")
        .within(&wrapper.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn power_cuts_lose_nothing_and_what_was_acknowledged_on_the_disk_is_done() {
    let scratch = tempfile::tempdir().expect("directory");
    let Some(disk) = LoopDisk::make_or_skip(scratch.path(), DISK_SIZE, "a disk whose power can be cut") else { return };
    let mut random = StdRng::seed_from_u64(seed());
    let setup = set_up(&disk);
    let mut sluice = setup.start();
    Connection::open(&sluice.broker).make_topic(TOPIC, QUEUES);
    let mut hand = Hand::start_at(&sluice.broker, scratch.path());
    let set = [("topic", TOPIC), ("group", "pushed"), ("mode", "POP")];
    assert!(hand.call("mode", &set)["code"].is_null());
    let pushed = PushConsumer::start(&sluice.name_server, (TOPIC, "pushed"), scratch.path(), "pushed", &[]);
    // A client gives up if it finds no broker when it starts; later it recovers.
    wait_until_started(scratch.path());
    let mut sent = BTreeSet::new();
    for cut in 1..=cut_count(CUTS) {
        let moment = Duration::from_millis(random.random_range(1500..4000));
        let load = load_until_cut(&disk, &mut sluice, &mut hand, moment);
        sluice = setup.start();
        let came = drain(&mut hand);
        let done = load.is_done();
        let again: Vec<_> = came.intersection(&done).collect();
        println!(
            "cut {cut} after {moment:?}: {} sent, {} surely done, {} came",
            load.sent.len(),
            done.len(),
            came.len()
        );
        assert!(again.is_empty(), "acknowledged on the disk, and come again: {again:?}");
        let owed = load.sent.iter().map(|sent| sent.place).filter(|place| !load.acknowledged.contains(place));
        let lost: Vec<_> = owed.filter(|place| !came.contains(place)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        sent.extend(load.sent.iter().map(|sent| sent.place));
    }
    let began = Instant::now();
    loop {
        let seen: BTreeSet<_> = pushed.deliveries().iter().map(|delivery| delivery.place).collect();
        let missing: Vec<_> = sent.difference(&seen).collect();
        if missing.is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{} were not pushed: {missing:?}", missing.len());
        std::thread::sleep(Duration::from_millis(200));
    }
    pushed.stop();
    assert!(sluice.stop().success());
    disk.wait_until_free();
}
