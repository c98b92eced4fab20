//! Messages handed out in order: nothing before what comes first, and the same again to who asks again.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::task::Waker;

use base::{QueueId, QueueOffset};
use broker::lease::{Grant, Owner};
use broker::{Filter, HandOut, Mailbox, Message, Signal, Wanted, Wish};
use storage::disk::{Failure, FaultyDisk, MemoryDisk};
use support::handing_out::{INVISIBLE_MS, bodies, hand_out, lane, make_topic, open_cold, wanted};
use support::pair::open;
use support::{Bench, message};

/// What went wrong for a moment: the network to the disk, not the bytes there.
const TIMED_OUT: i32 = 110;
/// What a program gets that reads bytes which are not there any more.
const EIO: i32 = 5;

fn with_messages(count: usize) -> Bench {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    (0..count).for_each(|number| send(&bench, 0, &number.to_string()));
    bench
}

fn send(bench: &Bench, queue: u32, body: &str) {
    let to = Message { queue: Some(QueueId(queue)), ..message(body.as_bytes(), b"") };
    bench.publish("orders", &to).expect("published");
}

fn by_attempt(bench: &Bench, name: &str) -> Wanted {
    Wanted { attempt: Some(name.into()), ..wanted(bench) }
}

/// Of the two first queues.
fn of_both(bench: &Bench, name: &str, count_max: usize) -> Wanted {
    let lanes = vec![(lane(bench, 0), Filter::All), (lane(bench, 1), Filter::All)];
    Wanted { lanes, count_max, ..by_attempt(bench, name) }
}

/// Its time is changed; the owner that it has then.
fn change_time(bench: &Bench, owner: Owner, offset: u64) -> Owner {
    let name = bench.broker.leasing.name_grant(bench.now);
    let grant = Grant { owner: name.owner(), deadline: Some(bench.now.monotonic.plus_ms(INVISIBLE_MS)) };
    assert!(lane(bench, 0).renew(owner, QueueOffset(offset), grant));
    name.owner()
}

#[test]
fn who_changed_the_time_of_one_message_again_and_again_gets_all_the_same_again() {
    let mut bench = with_messages(2);
    let mut owner = hand_out(&bench, by_attempt(&bench, "x")).wanted().owner();
    change_time(&bench, owner, 0);
    for _ in 0..65 {
        bench.now = bench.now.plus_ms(100);
        owner = change_time(&bench, owner, 1);
    }
    assert_eq!(bodies(&hand_out(&bench, by_attempt(&bench, "x"))), ["0", "1"]);
}

#[test]
fn who_asks_again_gets_the_same_although_somebody_looked_without_order_and_got_nothing() {
    let bench = with_messages(2);
    assert_eq!(hand_out(&bench, by_attempt(&bench, "x")).count(), 2);
    assert_eq!(hand_out(&bench, wanted(&bench)).count(), 0);
    assert_eq!(bodies(&hand_out(&bench, by_attempt(&bench, "x"))), ["0", "1"]);
}

#[test]
fn who_asks_again_for_messages_of_two_queues_gets_the_same_whatever_has_come_since() {
    let bench = with_messages(0);
    make_topic(&bench, 2);
    send(&bench, 0, "a");
    send(&bench, 1, "b");
    assert_eq!(bodies(&hand_out(&bench, of_both(&bench, "x", 32))), ["a", "b"]);
    send(&bench, 0, "c");
    for count_max in [2, 32] {
        assert_eq!(bodies(&hand_out(&bench, of_both(&bench, "x", count_max))), ["a", "b"]);
    }
    assert_eq!(hand_out(&bench, of_both(&bench, "y", 32)).count(), 0, "they are with the first");
}

#[test]
fn what_an_attempt_had_of_another_queue_and_wants_no_longer_is_ready_at_once() {
    let bench = with_messages(0);
    make_topic(&bench, 2);
    send(&bench, 0, "a");
    send(&bench, 1, "b");
    assert_eq!(hand_out(&bench, of_both(&bench, "x", 2)).count(), 2);
    assert_eq!(bodies(&hand_out(&bench, of_both(&bench, "x", 1))), ["a"]);
    assert_eq!(bodies(&hand_out(&bench, of_both(&bench, "y", 2))), ["b"]);
}

#[test]
fn who_waits_is_told_when_a_commit_settles_what_others_have() {
    let bench = with_messages(2);
    let deadline = bench.now.monotonic.plus_ms(3_600_000);
    let holder = broker::Holder::Grant(bench.broker.leasing.name_grant(bench.now), deadline);
    assert_eq!(hand_out(&bench, Wanted { count_max: 1, holder, ..wanted(&bench) }).count(), 1);
    let mailbox = Mailbox::new(Waker::noop().clone());
    let wish = Wish { mailbox: mailbox.clone(), number: 1, credit: 1, priority: 0, in_order: true };
    let _taker = lane(&bench, 0).wait(wish).expect("in use");
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1).expect("committed");
    bench.broker.keep(bench.now).expect("kept");
    assert_eq!(mailbox.take(), [Signal::LeaseReady(1)]);
    assert_eq!(bodies(&hand_out(&bench, by_attempt(&bench, "x"))), ["1"]);
}

/// Six messages with others between them, each on blocks of its own. Gives where the first is in the log.
fn with_messages_on_disk(bench: &Bench) -> u64 {
    make_topic(bench, 1);
    let places: Vec<_> = (0..6)
        .map(|number| {
            let place = bench.publish("orders", &message(format!("{number:8000}").as_bytes(), b"")).expect("published");
            bench.publish("others", &message(&[b'x'; 20_000], b"")).expect("published");
            place.0
        })
        .collect();
    places[0]
}

#[test]
fn nothing_is_given_before_what_cannot_be_read_for_a_while() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open_cold(&disk);
    let first = with_messages_on_disk(&bench);
    disk.fail(Failure::unreadable("commitlog", first + 60..first + 62, TIMED_OUT));
    for round in 0..3 {
        let mut asked = HandOut::of(by_attempt(&bench, &format!("attempt-{round}")));
        assert!(bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now).is_err(), "and it is told why");
        assert_eq!((asked.count(), lane(&bench, 0).counts().leased), (0, 0));
        bench.now = bench.now.plus_ms(5000);
    }
    disk.heal();
    let given = hand_out(&bench, by_attempt(&bench, "x"));
    let given: Vec<_> = given.given()[0].messages.clone();
    let all: Vec<_> = (0..6).map(|offset| (QueueOffset(offset), 0)).collect();
    assert_eq!(given, all, "none was given before");
}

/// Its job takes longer than what it has is invisible.
#[test]
fn nothing_more_is_taken_once_others_have_what_came_before() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open_cold(&disk);
    make_topic(&bench, 1);
    let tagged = |tag: &str| format!("TAGS\x01{tag}\x02").into_bytes();
    let first = bench.publish("orders", &message(b"0", &tagged("a"))).expect("published").0;
    for number in 1..=303 {
        let tag = if number <= 300 { "b" } else { "a" };
        bench.publish("orders", &message(number.to_string().as_bytes(), &tagged(tag))).expect("published");
    }
    for _ in 0..40 {
        bench.publish("others", &message(&[b'x'; 20_000], b"")).expect("published");
    }
    let filter = Filter::parse("a").expect("a filter");
    let of_tag = |bench: &Bench, name: &str, count_max| Wanted {
        lanes: vec![(lane(bench, 0), filter.clone())],
        count_max,
        ..by_attempt(bench, name)
    };
    // Its record is not in memory.
    disk.fail(Failure::unreadable("commitlog", first + 60..first + 62, EIO));
    let mut slow = HandOut::of(of_tag(&bench, "x", 4));
    assert!(!bench.broker.leasing.hand_out_cached(&mut slow, bench.now).expect("no refusal"), "a job goes on");
    assert_eq!(lane(&bench, 0).counts().leased, 1);
    disk.heal();
    let before = bench.now;
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 100);
    bench.broker.lanes.expire(bench.now.monotonic);
    assert_eq!(bodies(&hand_out(&bench, of_tag(&bench, "y", 1))), ["0"], "it is another's now");
    // The job goes on with the time that it began with.
    bench.broker.leasing.hand_out(&mut slow, usize::MAX, before).expect("read");
    let settled = lane(&bench, 0).settle(slow.wanted().owner(), (0..304).map(QueueOffset));
    assert_eq!(settled, 0, "it has nothing");
}
