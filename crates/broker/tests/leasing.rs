//! Messages handed out one by one: to whom, how often, and what becomes of those that nobody manages to consume.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use base::{GroupName, Monotonic, QueueId, QueueOffset};
use broker::lease::LeaseCounts;
use broker::{Filter, HandOut, Keeper, Lane, Mailbox, Options, Signal, Wanted, Wish};
use format::hash::tag_code;
use storage::RetentionPolicy;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk};
use support::handing_out::{INVISIBLE_MS, bodies, hand_out, lane, make_topic, read, wanted};
use support::pair::{committed, open};
use support::{Bench, layout, message, open_on};
use testkit::at;

fn with_messages(bench: &Bench, count: usize) {
    make_topic(bench, 1);
    for number in 0..count {
        let tag = if number % 2 == 0 { b"TAGS\x01even\x02".as_slice() } else { b"TAGS\x01odd\x02" };
        bench.publish("orders", &message(number.to_string().as_bytes(), tag)).expect("published");
    }
}

fn take(bench: &Bench) -> Vec<String> {
    bodies(&hand_out(bench, wanted(bench)))
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn a_message_is_given_to_one_at_a_time_and_says_how_often_it_was_given() {
    let mut bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 5);
    let first = hand_out(&bench, Wanted { count_max: 3, ..wanted(&bench) });
    assert_eq!(read(&first), [("0".into(), 0), ("1".into(), 0), ("2".into(), 0)]);
    assert_eq!((take(&bench), first.rest()), (numbers(3..5), 0));
    assert_eq!(take(&bench), [""; 0], "others have them");
    let held = first.wanted().owner();
    assert_eq!(lane(&bench, 0).settle(held, [QueueOffset(1)]), 1);
    assert_eq!(lane(&bench, 0).settle(held, [QueueOffset(1), QueueOffset(3)]), 0, "it is done, and that is another's");
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    let again = hand_out(&bench, wanted(&bench));
    assert_eq!(read(&again), [("0".into(), 1), ("2".into(), 1), ("3".into(), 1), ("4".into(), 1)]);
    assert_eq!(lane(&bench, 0).settle(held, [QueueOffset(0)]), 0, "its time was over");
}

#[test]
fn what_a_filter_does_not_let_through_is_settled() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 1000);
    let filter = Filter::from_codes(std::iter::once(tag_code("odd")));
    let lanes = vec![(lane(&bench, 0), filter)];
    let mut seen = Vec::new();
    while seen.len() < 500 {
        let found = hand_out(&bench, Wanted { lanes: lanes.clone(), ..wanted(&bench) });
        assert!(found.count() > 0, "only {}", seen.len());
        seen.extend(bodies(&found));
    }
    assert_eq!(seen, (0..500).map(|number| (2 * number + 1).to_string()).collect::<Vec<_>>());
    assert_eq!(lane(&bench, 0).counts(), LeaseCounts { ready: 0, leased: 500, delayed: 0 });
}

#[test]
fn one_answer_is_no_larger_than_asked_but_for_a_single_message() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    for _ in 0..4 {
        bench.publish("orders", &message(&[b'x'; 1000], b"")).expect("published");
    }
    for (size_max, count) in [(1, 1), (2500, 2), (1 << 20, 1)] {
        assert_eq!(hand_out(&bench, Wanted { size_max, ..wanted(&bench) }).count(), count, "{size_max}");
    }
}

#[test]
fn what_is_given_too_often_is_a_dead_letter_and_is_not_given_again() {
    let mut bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 1);
    let group = GroupName::checked("billing").expect("a name");
    for delivery in 0..3 {
        let given = hand_out(&bench, Wanted { redeliveries_max: 2, ..wanted(&bench) });
        assert_eq!(read(&given), [("0".into(), delivery)]);
        bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    }
    let mut last = hand_out(&bench, Wanted { redeliveries_max: 2, ..wanted(&bench) });
    assert_eq!(last.count(), 0);
    bench.broker.leasing.give_up(&group, last.take_doomed(), bench.now);
    bench.broker.store().write_staged().expect("writes");
    assert_eq!((bench.bodies("%DLQ%billing", 0), bench.broker.metrics().dead_letters.get()), (numbers(0..1), 1));
    assert_eq!(lane(&bench, 0).counts(), LeaseCounts::default());
}

/// As a full disk refuses the copy.
#[test]
fn what_cannot_be_put_among_the_dead_letters_stays_and_is_tried_again() {
    let disk = MemoryDisk::new();
    let mut bench = open(&disk, false, 1000);
    with_messages(&bench, 1);
    let group = GroupName::checked("billing").expect("a name");
    bench.publish("others", &message(b"makes the topic", b"")).expect("published");
    drop(hand_out(&bench, wanted(&bench)));
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    bench.broker.checkpoint(bench.now).expect("written");
    disk.set_capacity(1);
    while bench.publish("others", &message(&[0; 500], b"")).is_ok() {}
    let mut doomed = hand_out(&bench, Wanted { redeliveries_max: 0, count_max: 1, ..wanted(&bench) });
    bench.broker.leasing.give_up(&group, doomed.take_doomed(), bench.now);
    assert_eq!(bench.broker.metrics().dead_letters.get(), 0);
    disk.set_capacity(u64::MAX);
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    let mut doomed = hand_out(&bench, Wanted { redeliveries_max: 0, count_max: 1, ..wanted(&bench) });
    bench.broker.leasing.give_up(&group, doomed.take_doomed(), bench.now);
    bench.broker.store().write_staged().expect("writes");
    assert_eq!(bench.bodies("%DLQ%billing", 0), numbers(0..1));
}

#[test]
fn what_cannot_be_read_holds_nothing_up_and_what_has_to_be_read_from_the_disk_is_read_elsewhere() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let layout = storage::Options {
        disk: Disk::new(disk.clone()),
        recent_size: 1,
        ..layout(Path::new("/data"), vec![1000, 1000])
    };
    let bench = open_on(layout, at(1000), |_| ());
    make_topic(&bench, 1);
    let places: Vec<_> = (0..6)
        .map(|number| {
            let place = bench.publish("orders", &message(format!("{number:8000}").as_bytes(), b"")).expect("published");
            bench.publish("others", &message(&[b'x'; 20_000], b"")).expect("published");
            place
        })
        .collect();
    disk.fail(Failure::unreadable("commitlog", places[2].0 + 60..places[2].0 + 62, 5));
    let mut asked = HandOut::of(wanted(&bench));
    assert!(!bench.broker.leasing.hand_out_cached(&mut asked, bench.now).expect("no refusal"), "it is not in memory");
    bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now).expect("read");
    let found: Vec<_> = bodies(&asked).iter().map(|body| body.trim().to_owned()).collect();
    assert_eq!(found, ["0", "1", "3", "4", "5"]);
    assert_eq!(asked.given()[0].messages.len(), 5, "each has its offset");
    assert_eq!(asked.given()[0].messages[2].0, QueueOffset(3));
}

#[test]
fn the_committed_offset_is_that_of_the_first_message_that_is_not_settled() {
    let disk = MemoryDisk::new();
    let bench = open(&disk, false, 1000);
    with_messages(&bench, 10);
    let given = hand_out(&bench, wanted(&bench));
    let owner = given.wanted().owner();
    for (settled, offset) in [(vec![], 0), (vec![1, 2, 5], 0), (vec![0], 3), (vec![3, 4], 6)] {
        lane(&bench, 0).settle(owner, settled.into_iter().map(QueueOffset));
        bench.broker.keep(bench.now).expect("kept");
        assert_eq!(committed(&bench, "billing"), Some(offset));
    }
    drop(bench);
    assert_eq!(committed(&open(&disk, false, 2000), "billing"), Some(6), "with the log");
}

#[test]
fn a_commit_of_a_pull_settles_all_below_it_and_no_late_acknowledgement_takes_it_back() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 10);
    let given = hand_out(&bench, Wanted { count_max: 4, ..wanted(&bench) });
    bench.broker.keep(bench.now).expect("kept");
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 7).expect("committed");
    lane(&bench, 0).settle(given.wanted().owner(), [QueueOffset(0), QueueOffset(1)]);
    bench.broker.keep(bench.now).expect("kept");
    assert_eq!(committed(&bench, "billing"), Some(7));
    assert_eq!(take(&bench), numbers(7..10));
}

#[test]
fn after_a_reset_messages_are_given_from_there_whatever_was_settled() {
    for to in [2, 9] {
        let bench = open(&MemoryDisk::new(), false, 1000);
        with_messages(&bench, 10);
        let given = hand_out(&bench, Wanted { count_max: 6, ..wanted(&bench) });
        lane(&bench, 0).settle(given.wanted().owner(), (0..6).map(QueueOffset));
        bench.broker.keep(bench.now).expect("kept");
        bench.broker.offsets.reset("orders", "billing", QueueId(0), to).expect("reset");
        assert_eq!(take(&bench), numbers(to as usize..10));
        bench.broker.keep(bench.now).expect("kept");
        assert_eq!(committed(&bench, "billing"), Some(to));
    }
}

#[test]
fn in_order_nothing_is_given_while_something_is_held_and_the_same_attempt_gets_the_same() {
    let mut bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 6);
    let in_order =
        |bench: &Bench, attempt: &str| Wanted { count_max: 3, attempt: Some(attempt.into()), ..wanted(bench) };
    let first = hand_out(&bench, in_order(&bench, "a"));
    assert_eq!(bodies(&first), numbers(0..3));
    assert_eq!(hand_out(&bench, in_order(&bench, "b")).count(), 0);
    let lost = hand_out(&bench, in_order(&bench, "a"));
    assert_eq!(
        read(&lost),
        [("0".into(), 0), ("1".into(), 0), ("2".into(), 0)],
        "an answer that was lost is no delivery"
    );
    lane(&bench, 0).settle(lost.wanted().owner(), [QueueOffset(0), QueueOffset(2)]);
    assert_eq!(hand_out(&bench, in_order(&bench, "b")).count(), 0);
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    let next = hand_out(&bench, in_order(&bench, "b"));
    assert_eq!(read(&next), [("1".into(), 1), ("3".into(), 0), ("4".into(), 0)]);
}

/// A consumer that waits, and its connection.
fn waiting(lane: &Arc<Lane>, number: u64, credit: u32, priority: i32) -> (Arc<Mailbox>, broker::Taker) {
    let mailbox = Mailbox::new(Waker::noop().clone());
    let wish = Wish { mailbox: mailbox.clone(), number, credit, priority, in_order: false };
    let taker = lane.wait(wish).expect("the lane is in use");
    (mailbox, taker)
}

#[test]
fn a_message_tells_as_many_as_will_take_it_those_of_higher_priority_and_longest_wait_first() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    let lane = lane(&bench, 0);
    let all = [(1, 0), (2, 0), (3, 7), (4, 0)];
    let mut waiting: Vec<_> = all.iter().map(|(number, priority)| waiting(&lane, *number, 2, *priority)).collect();
    let told = |waiting: &[(Arc<Mailbox>, broker::Taker)]| {
        waiting.iter().map(|(mailbox, _)| mailbox.take().len()).collect::<Vec<_>>()
    };
    let send = || _ = bench.publish("orders", &message(b"x", b"")).expect("published");
    send();
    assert_eq!(told(&waiting), [0, 0, 1, 0]);
    send();
    assert_eq!(told(&waiting), [0; 4], "who was told takes two");
    send();
    assert_eq!(waiting[0].0.take(), [Signal::LeaseReady(1)]);
    // It goes without having taken: the next is told instead.
    drop(waiting.remove(0));
    assert_eq!(told(&waiting), [1, 0, 0]);
    // All of it is taken: who goes then has nobody told.
    assert_eq!(take(&bench).len(), 3);
    drop(waiting);
    let (mailbox, _taker) = self::waiting(&lane, 9, 1, 0);
    assert_eq!(mailbox.take(), []);
}

#[test]
fn who_waits_is_told_when_a_lease_ends_and_when_a_group_goes() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 1);
    assert_eq!(take(&bench).len(), 1);
    let lane = lane(&bench, 0);
    let (mailbox, taker) = waiting(&lane, 1, 32, 0);
    let end = bench.now.monotonic.plus_ms(INVISIBLE_MS);
    let next = bench.broker.lanes.expire(Monotonic(end.0 - 1)).expect("something is leased");
    assert_eq!(mailbox.take(), []);
    assert!(next >= end && next.0 < end.0 + 50, "{next:?}");
    assert_eq!(bench.broker.lanes.expire(next), None);
    assert_eq!(mailbox.take(), [Signal::LeaseReady(1)]);
    drop(taker);
    assert_eq!(take(&bench).len(), 1);
    let (mailbox, _taker) = waiting(&lane, 2, 32, 0);
    bench.broker.removals.topic("orders", bench.now).expect("removed");
    assert_eq!(mailbox.take(), [Signal::LeaseReady(2)]);
    assert!(lane.is_forgotten());
}

#[test]
fn with_that_setting_no_segment_goes_that_has_messages_which_a_group_has_not_settled() {
    for keeps_unsettled in [false, true] {
        let retention = RetentionPolicy { size: Some(1), ..RetentionPolicy::default() };
        let layout = storage::Options {
            disk: Disk::new(MemoryDisk::new()),
            segment_size: 64 * 1024,
            retention,
            ..layout(Path::new("/data"), vec![1000, 1000])
        };
        let bench = open_on(layout, at(1000), |options: &mut Options| options.keeps_unsettled = keeps_unsettled);
        let group = GroupName::checked("billing").expect("a name");
        bench.broker.catalog.group_for_use(&group, bench.now).expect("a group");
        with_messages(&bench, 3);
        let given = hand_out(&bench, wanted(&bench));
        for _ in 0..300 {
            bench.publish("others", &message(&[b'x'; 1000], b"")).expect("published");
        }
        bench.broker.checkpoint(bench.now).expect("written");
        let outcome = bench.broker.retention.apply(bench.now).expect("applied");
        assert_eq!((outcome.removed > 0, outcome.is_held), (!keeps_unsettled, keeps_unsettled));
        if !keeps_unsettled {
            assert_eq!(take(&bench), [""; 0], "and the group goes on behind what is gone");
            assert_eq!(lane(&bench, 0).floor(), QueueOffset(3));
            continue;
        }
        let [unsettled] = &bench.broker.retention.unsettled()[..] else { panic!("one group") };
        assert_eq!((&*unsettled.topic, &*unsettled.group, unsettled.counts.leased), ("orders", "billing", 3));
        assert!(unsettled.log_size > 300_000, "{unsettled:?}");
        let keeper = Keeper::Group { topic: "orders".to_owned(), group: "billing".to_owned() };
        assert_eq!(bench.broker.retention.keeper(), Some(keeper));
        lane(&bench, 0).settle(given.wanted().owner(), (0..3).map(QueueOffset));
        let outcome = bench.broker.retention.apply(bench.now).expect("applied");
        assert!(outcome.removed > 0 && !outcome.is_held, "{outcome:?}");
    }
}

#[test]
fn who_waits_in_order_is_told_once_nobody_has_messages_and_others_at_once() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    let lane = lane(&bench, 0);
    let send = || _ = bench.publish("orders", &message(b"x", b"")).expect("published");
    send();
    let held = hand_out(&bench, Wanted { count_max: 1, ..wanted(&bench) });
    send();
    let now = bench.now.monotonic;
    assert_eq!((lane.has_ready(true, now), lane.has_ready(false, now)), (false, true), "the first is held");
    let mailbox = Mailbox::new(Waker::noop().clone());
    let wish = Wish { mailbox: mailbox.clone(), number: 1, credit: 1, priority: 1, in_order: true };
    let _in_order = lane.wait(wish).expect("the lane is in use");
    let (other, taker) = waiting(&lane, 2, 1, 0);
    send();
    assert_eq!((mailbox.take(), other.take()), (vec![], vec![Signal::LeaseReady(2)]));
    drop(taker);
    assert_eq!(mailbox.take(), [], "who goes has nobody told who cannot take");
    lane.settle(held.wanted().owner(), [QueueOffset(0)]);
    assert_eq!(mailbox.take(), [Signal::LeaseReady(1)]);
}

#[test]
fn what_an_attempt_leaves_when_it_is_made_again_goes_to_who_waits() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    with_messages(&bench, 3);
    let by_attempt = |count_max| Wanted { count_max, attempt: Some("one".into()), ..wanted(&bench) };
    assert_eq!(hand_out(&bench, by_attempt(3)).count(), 3);
    let (mailbox, _taker) = waiting(&lane(&bench, 0), 1, 1, 0);
    assert_eq!(hand_out(&bench, by_attempt(1)).count(), 1);
    assert_eq!(mailbox.take(), [Signal::LeaseReady(1)]);
}

/// Reads fail for a while, as where a path to the storage is switched over, and somebody pops meanwhile.
#[test]
fn a_disk_that_fails_for_a_while_has_no_message_settled_that_nobody_got() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let layout = storage::Options {
        disk: Disk::new(disk.clone()),
        recent_size: 1,
        ..layout(Path::new("/data"), vec![1000, 1000])
    };
    let mut bench = open_on(layout, at(1000), |_| ());
    make_topic(&bench, 1);
    for number in 0..6 {
        bench.publish("orders", &message(format!("{number:8000}").as_bytes(), b"")).expect("published");
        bench.publish("others", &message(&[b'x'; 20_000], b"")).expect("published");
    }
    disk.fail(Failure::error(storage::disk::Operation::Read, 5).at("commitlog"));
    let mut asked = HandOut::of(wanted(&bench));
    assert!(bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now).is_err() && asked.count() == 0);
    disk.heal();
    bench.now = bench.now.plus_ms(3_600_000);
    bench.broker.lanes.expire(bench.now.monotonic);
    let mut again = HandOut::of(wanted(&bench));
    bench.broker.leasing.hand_out(&mut again, usize::MAX, bench.now).expect("read");
    assert_eq!(again.count(), 6, "messages are whole on the disk, nobody got one, and they are settled");
}
