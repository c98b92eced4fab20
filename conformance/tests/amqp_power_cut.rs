//! Power cuts under confirms, on a real file system: no confirmed persistent message is lost, in none of the queues it went to; what was
//! acknowledged a while before does not come again; what somebody had is marked; and each queue keeps its order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use conformance::channel::{Channel, Said};
use conformance::loop_disk::LoopDisk;
use conformance::sluice::{Setup, Sluice};
use conformance::{cut_count, free_port, seed};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const QUEUES: [&str; 3] = ["first", "second", "third"];
const FANOUT: &str = "all";
const SENDERS: u64 = 4;
const CUTS: u64 = 4;
const DISK_SIZE: u64 = 4 << 30;
/// Messages of a sender that are on their way.
const WINDOW: usize = 16;
const PREFETCH: u16 = 20;
/// What was acknowledged so long before a cut is in the log on the disk: messages are confirmed, and so synced, all the time.
const SURELY_KEPT: Duration = Duration::from_millis(1500);

/// Who sent a message, and which of its messages it is.
type Name = (u64, u64);

/// What became of messages before a cut.
#[derive(Debug, Default)]
struct Before {
    /// Confirmed for these queues.
    confirmed: Vec<(Name, &'static [&'static str], Instant)>,
    /// Given to a consumer of a queue.
    given: Vec<(usize, Name)>,
    /// Acknowledged by one.
    acknowledged: Vec<(usize, Name, Instant)>,
}

#[test]
fn no_confirmed_message_is_lost_from_any_of_its_queues_and_no_acknowledged_one_comes_again() {
    let scratch = tempfile::tempdir().expect("directory");
    let Some(disk) = LoopDisk::make_or_skip(scratch.path(), DISK_SIZE, "a disk whose power can be cut") else { return };
    let mut random = StdRng::seed_from_u64(seed());
    let port = free_port();
    let (setup, address) = (setup(&disk, port), format!("127.0.0.1:{port}"));
    let mut sluice = setup.start();
    let mut channel = Channel::open(&address).expect("a channel");
    QUEUES.iter().for_each(|queue| assert_eq!(channel.declare_queue(queue), Some(0)));
    channel.declare_fanout(FANOUT, &QUEUES).expect("an exchange");
    drop(channel);
    // Per queue: what has to be in it, and what must not be any more.
    let mut owed = [const { BTreeSet::<Name>::new() }; QUEUES.len()];
    let mut over = [const { BTreeSet::<Name>::new() }; QUEUES.len()];
    for cut in 1..=cut_count(CUTS) {
        let moment = Duration::from_millis(random.random_range(500..4000));
        let (before, cut_began) = load_until_cut(&disk, &mut sluice, &address, cut, moment);
        disk.check_store(true);
        sluice = setup.start();
        let is_sure = |time: &Instant| cut_began.duration_since(*time) > SURELY_KEPT;
        // What is there was read after the cut before.
        let mut had = owed.clone();
        for (name, queues, _) in &before.confirmed {
            let meant = QUEUES.iter().enumerate().filter(|(_, queue)| queues.contains(queue));
            meant.for_each(|(queue, _)| _ = owed[queue].insert(*name));
        }
        for (queue, name) in &before.given {
            had[*queue].insert(*name);
        }
        for (queue, name, time) in &before.acknowledged {
            owed[*queue].remove(name);
            if is_sure(time) {
                over[*queue].insert(*name);
            }
        }
        for (queue, name) in QUEUES.iter().enumerate() {
            let left = read_everything(&address, name);
            println!("cut {cut} after {moment:?}: {name} has {} of {} owed", left.len(), owed[queue].len());
            let names: BTreeSet<Name> = left.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), left.len(), "each once");
            let lost: Vec<_> = owed[queue].difference(&names).collect();
            assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
            let again: Vec<_> = over[queue].intersection(&names).collect();
            assert!(again.is_empty(), "acknowledged and there again: {again:?}");
            let unmarked: Vec<_> = left.iter().filter(|(name, marked)| !marked && had[queue].contains(name)).collect();
            assert!(unmarked.is_empty(), "somebody had them, and they are not marked: {unmarked:?}");
            in_order(&left);
            owed[queue] = names;
        }
    }
    assert!(sluice.stop().success());
    disk.wait_until_free();
}

/// Small files, so that every cut meets new ones.
fn setup(disk: &LoopDisk, port: u16) -> Setup {
    let wrapper = disk.wrapper();
    Setup::serve(&disk.directory().join("data"))
        .set("amqp.port", port)
        .set("storage.segment_size", "1MiB")
        .set("storage.queue_file_entries", "500")
        .set("offset.flush_interval", "100ms")
        .within(&wrapper.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Sends and consumes until the power is cut; gives what happened before that, and when it was.
fn load_until_cut(
    disk: &LoopDisk,
    sluice: &mut Sluice,
    address: &str,
    cut: u64,
    moment: Duration,
) -> (Before, Instant) {
    std::thread::scope(|scope| {
        let senders: Vec<_> =
            (0..SENDERS).map(|number| scope.spawn(move || send_until_cut(address, cut * SENDERS + number))).collect();
        let consumers: Vec<_> = QUEUES.map(|queue| scope.spawn(move || consume_until_cut(address, queue))).into();
        std::thread::sleep(moment);
        let cut_began = Instant::now();
        disk.cut_power(sluice.id());
        std::thread::sleep(Duration::from_millis(20));
        sluice.kill();
        disk.wait_until_free();
        let mut before = Before::default();
        for sender in senders {
            before.confirmed.extend(sender.join().expect("sends"));
        }
        for (queue, consumer) in consumers.into_iter().enumerate() {
            let (given, acknowledged) = consumer.join().expect("consumes");
            before.given.extend(given.into_iter().map(|name| (queue, name)));
            before.acknowledged.extend(acknowledged.into_iter().map(|(name, time)| (queue, name, time)));
        }
        // A disk that is going may still say of a sync that it went well.
        before.confirmed.retain(|(_, _, time)| *time < cut_began);
        (before, cut_began)
    })
}

/// Publishes in turn to each queue and to all of them; gives what was confirmed.
fn send_until_cut(address: &str, sender: u64) -> Vec<(Name, &'static [&'static str], Instant)> {
    let mut confirmed = Vec::new();
    let Some(mut channel) = Channel::open(address) else { return confirmed };
    if channel.confirm().is_none() {
        return confirmed;
    }
    let mut on_their_way: VecDeque<(u64, Name, &'static [&'static str])> = VecDeque::new();
    for number in 1.. {
        let name = (sender, number);
        let turn = (number % 4) as usize;
        let (exchange, key, queues) = match QUEUES.get(turn) {
            Some(queue) => ("", *queue, &QUEUES[turn..=turn]),
            None => (FANOUT, "", &QUEUES[..]),
        };
        if channel.publish(exchange, key, &body_of(name)).is_none() {
            return confirmed;
        }
        on_their_way.push_back((number, name, queues));
        while on_their_way.len() >= WINDOW {
            match channel.hear() {
                Some(Said::Confirmed { number, multiple }) => {
                    let now = Instant::now();
                    let is_meant = |one: &(u64, Name, _)| one.0 == number || multiple && one.0 < number;
                    confirmed.extend(on_their_way.iter().filter(|one| is_meant(one)).map(|one| (one.1, one.2, now)));
                    on_their_way.retain(|one| !is_meant(one));
                }
                // From the cut to the end of the process.
                Some(Said::Refused { .. } | Said::Other(_)) | None => return confirmed,
                Some(said) => panic!("{said:?}"),
            }
        }
    }
    confirmed
}

type Times = Vec<(Name, Instant)>;

/// Consumes more slowly than is sent; gives what was given and what was acknowledged.
fn consume_until_cut(address: &str, queue: &str) -> (Vec<Name>, Times) {
    let (mut given, mut acknowledged) = (Vec::new(), Vec::new());
    let Some(mut channel) = Channel::open(address) else { return (given, acknowledged) };
    if channel.consume(queue, PREFETCH).is_none() {
        return (given, acknowledged);
    }
    while let Some(said) = channel.hear() {
        let Said::Delivered { tag, body, .. } = said else { break };
        let name = name_of(&body);
        given.push(name);
        // Some stay with it.
        if tag % 50 == 0 {
            continue;
        }
        acknowledged.push((name, Instant::now()));
        if channel.acknowledge(tag).is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    (given, acknowledged)
}

/// All messages of a queue in the order in which they come, and whether they are marked; they stay in it.
fn read_everything(address: &str, queue: &str) -> Vec<(Name, bool)> {
    let mut channel = Channel::open(address).expect("a channel");
    let count = channel.declare_queue(queue).expect("a queue");
    channel.consume(queue, 0).expect("consumes");
    let next = |_| match channel.hear() {
        Some(Said::Delivered { redelivered, body, .. }) => {
            let name = name_of(&body);
            assert!(body == body_of(name), "the body of {name:?}");
            (name, redelivered)
        }
        said => panic!("{said:?}"),
    };
    (0..count).map(next).collect()
}

fn in_order(left: &[(Name, bool)]) {
    let mut last = BTreeMap::new();
    for ((sender, number), _) in left {
        let before = last.insert(sender, number);
        assert!(before.is_none_or(|before| before < number), "{number} of {sender} behind {before:?}");
    }
}

/// Some text, and bytes that follow from it: mostly few, sometimes several pages.
fn body_of(name: Name) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(name.0 << 32 | name.1);
    let size = if random.random_bool(0.1) { random.random_range(0..20_000) } else { random.random_range(0..600) };
    let mut body = format!("{}:{}:", name.0, name.1).into_bytes();
    body.resize(body.len() + size, random.random());
    body
}

fn name_of(body: &[u8]) -> Name {
    let mut words = body.split(|&byte| byte == b':').map(|word| std::str::from_utf8(word).ok()?.parse().ok());
    words.next().flatten().zip(words.next().flatten()).expect("a body of ours")
}
