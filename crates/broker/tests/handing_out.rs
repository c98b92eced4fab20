//! Messages handed out one by one, where something is odd: what cannot be read or stored, queues and groups that go, and many of everything.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::{GroupName, QueueId, QueueOffset};
use broker::lease::Owner;
use broker::{Beginning, Filter, HandOut, Holder, Options, Wanted};
use storage::RetentionPolicy;
use storage::disk::{Disk, Failure, FaultyDisk, MemoryDisk, Operation};
use support::handing_out::{INVISIBLE_MS, bodies, hand_out, lane, make_topic, open_cold, wanted};
use support::pair::{committed, open};
use support::{Bench, layout, message, open_on};
use testkit::at;

#[test]
fn a_message_that_cannot_be_a_dead_letter_does_not_keep_others_from_being_one() {
    let mut bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    let group = GroupName::checked("billing").expect("a name");
    let large = [b"big\x01".as_slice(), &[b'x'; 32_600], b"\x02"].concat();
    bench.publish("orders", &message(b"pill", &large)).expect("published");
    for number in 0..3 {
        bench.publish("orders", &message(format!("{number}").as_bytes(), b"")).expect("published");
    }
    assert_eq!(hand_out(&bench, wanted(&bench)).count(), 4);
    for _ in 0..10 {
        bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
        let mut doomed = hand_out(&bench, Wanted { redeliveries_max: 0, ..wanted(&bench) });
        bench.broker.leasing.give_up(&group, doomed.take_doomed(), bench.now);
        bench.broker.store().write_staged().expect("writes");
    }
    assert_eq!(bench.broker.metrics().dead_letters.get(), 3, "all but the one");
}

#[test]
fn in_order_each_message_is_given_up_once() {
    let mut bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    for number in 0..300 {
        bench.publish("orders", &message(format!("{number}").as_bytes(), b"")).expect("published");
    }
    let group = GroupName::checked("billing").expect("a name");
    while hand_out(&bench, wanted(&bench)).count() > 0 {}
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    let in_order = || Wanted { redeliveries_max: 0, attempt: Some("x".into()), ..wanted(&bench) };
    let mut doomed = Vec::new();
    while let found = hand_out(&bench, in_order()).take_doomed()
        && !found.is_empty()
    {
        assert!(found.len() <= 64, "a job's worth");
        let again = hand_out(&bench, in_order()).take_doomed();
        assert!(again.is_empty(), "who asks again has none of it given up a second time");
        bench.broker.leasing.give_up(&group, found, bench.now);
        doomed.push(());
    }
    bench.broker.store().write_staged().expect("writes");
    assert_eq!((doomed.len(), bench.broker.metrics().dead_letters.get()), (5, 300));
}

#[test]
fn messages_of_a_queue_that_its_topic_lost_and_got_again_are_handed_out() {
    lose_a_queue_and_make_it_again(false);
}

#[test]
fn messages_of_a_queue_that_its_topic_lost_and_got_again_behind_a_restart_are_handed_out() {
    lose_a_queue_and_make_it_again(true);
}

fn lose_a_queue_and_make_it_again(restarts: bool) {
    let retention = RetentionPolicy { size: Some(1), ..RetentionPolicy::default() };
    let disk = MemoryDisk::new();
    let open = || {
        let layout = storage::Options {
            disk: Disk::new(disk.clone()),
            segment_size: 64 * 1024,
            retention: retention.clone(),
            ..layout(Path::new("/data"), vec![1000, 1000])
        };
        open_on(layout, at(1000), |_: &mut Options| ())
    };
    let mut bench = open();
    make_topic(&bench, 2);
    let to_second = |body: &'static str| broker::Message { queue: Some(QueueId(1)), ..message(body.as_bytes(), b"") };
    for body in ["a", "b", "c"] {
        bench.publish("orders", &to_second(body)).expect("published");
    }
    let of_second = |bench: &Bench| Wanted { lanes: vec![(lane(bench, 1), Filter::All)], ..wanted(bench) };
    let given = hand_out(&bench, of_second(&bench));
    lane(&bench, 1).settle(given.wanted().owner(), (0..3).map(QueueOffset));
    bench.broker.keep(bench.now).expect("kept");
    make_topic(&bench, 1);
    for _ in 0..300 {
        bench.publish("others", &message(&[b'x'; 1000], b"")).expect("published");
    }
    bench.broker.checkpoint(bench.now).expect("written");
    assert!(bench.broker.retention.apply(bench.now).expect("applied").removed > 0);
    assert_eq!(bench.broker.removals.expired_queues().expect("removed"), 1);
    if restarts {
        bench.broker.keep(bench.now).expect("kept");
        drop(bench);
        bench = open();
    }
    make_topic(&bench, 2);
    assert_eq!(bench.broker.catalog.queues_of("orders").expect("there")[1].end(), QueueOffset(0), "it is new");
    bench.publish("orders", &to_second("new")).expect("published");
    bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    assert_eq!(bodies(&hand_out(&bench, of_second(&bench))), ["new"]);
}

#[test]
fn on_a_full_disk_an_acknowledgement_costs_as_much_as_the_one_before() {
    let disk = MemoryDisk::new();
    let bench = open(&disk, false, 1000);
    make_topic(&bench, 1);
    let count = 6000;
    for _ in 0..count {
        bench.publish("orders", &message(b"x", b"")).expect("published");
    }
    bench.publish("others", &message(b"makes the topic", b"")).expect("published");
    let owner = bench.broker.leasing.name_grant(bench.now);
    let holder = broker::Holder::Grant(owner, bench.now.monotonic.plus_ms(INVISIBLE_MS));
    while hand_out(&bench, Wanted { holder, ..wanted(&bench) }).count() > 0 {}
    bench.broker.checkpoint(bench.now).expect("written");
    disk.set_capacity(1);
    while bench.publish("others", &message(b"", b"")).is_ok() {}
    while bench.broker.keep(bench.now).is_ok() {
        bench.broker.offsets.commit("orders", "filler", QueueId(0), next_offset()).expect("committed");
    }
    let ack = |range: std::ops::Range<u64>| {
        let began = Instant::now();
        for offset in range {
            lane(&bench, 0).settle(owner.owner(), [QueueOffset(offset)]);
            assert!(bench.broker.keep(bench.now).is_err(), "the disk is full");
        }
        began.elapsed()
    };
    let first = ack(0..100);
    ack(100..3000);
    let last = ack(3000..3100);
    assert!(
        last < 5 * first + Duration::from_millis(20),
        "the first 100 took {first:?}, those after 3000 took {last:?}"
    );
}

fn next_offset() -> i64 {
    static NEXT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn a_group_that_pops_while_it_is_removed_begins_anew_and_its_offset_follows() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    for number in 0..10 {
        bench.publish("orders", &message(format!("{number}").as_bytes(), b"")).expect("published");
    }
    let group = GroupName::checked("billing").expect("a name");
    let is_over = AtomicBool::new(false);
    let wrong = std::thread::scope(|scope| {
        let poppers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        lane(&bench, 0);
                    }
                })
            })
            .collect();
        let mut wrong = None;
        for round in 0..20_000 {
            bench.broker.catalog.group_for_use(&group, bench.now).expect("a group");
            bench.broker.offsets.commit("orders", "billing", QueueId(0), 5).expect("committed");
            bench.broker.removals.group("billing", true, bench.now).expect("removed");
            let lane = lane(&bench, 0);
            if lane.floor() == QueueOffset(5) {
                wrong = Some(round);
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        poppers.into_iter().for_each(|popper| popper.join().expect("no panic"));
        wrong
    });
    if wrong.is_some() {
        let given = hand_out(&bench, wanted(&bench));
        lane(&bench, 0).settle(given.wanted().owner(), (5..10).map(QueueOffset));
        bench.broker.keep(bench.now).expect("kept");
    }
    assert_eq!(wrong, None, "it goes on where the removed group was; committed {:?}", committed(&bench, "billing"));
}

#[test]
fn messages_of_one_queue_are_given_although_entries_of_another_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let layout = storage::Options {
        disk: Disk::new(disk.clone()),
        recent_size: 1,
        ..layout(Path::new("/data"), vec![1000, 1000])
    };
    let bench = open_on(layout, at(1000), |_| ());
    make_topic(&bench, 2);
    for number in 0..2001 {
        let queue = u32::from(number > 0);
        let to = broker::Message { queue: Some(QueueId(queue)), ..message(b"x", b"") };
        bench.publish("orders", &to).expect("published");
    }
    bench.broker.checkpoint(bench.now).expect("written");
    disk.fail(Failure::unreadable("consumequeue/orders/1", 0..20, 5));
    let lanes = (0..2).map(|queue| (lane(&bench, queue), Filter::All)).collect();
    let mut asked = HandOut::of(Wanted { lanes, ..wanted(&bench) });
    let outcome = bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now);
    assert!(outcome.is_ok(), "{outcome:?}, and {} message of the other queue is leased to nobody", asked.count());
}

/// A queue of which all entries but the last are on the disk alone.
fn filled(disk: &FaultyDisk) -> Bench {
    let bench = open_cold(disk);
    make_topic(&bench, 1);
    for _ in 0..2001 {
        bench.publish("orders", &message(b"x", b"")).expect("published");
    }
    bench.broker.checkpoint(bench.now).expect("written");
    bench
}

/// Takes messages so often, four at a time, and settles them; gives their offsets.
fn taken(bench: &Bench, times: usize) -> Vec<u64> {
    let take = |_| {
        let mut asked = HandOut::of(Wanted { count_max: 4, ..wanted(bench) });
        drop(bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now));
        let offsets: Vec<_> =
            asked.given().iter().flat_map(|given| &given.messages).map(|(offset, _)| *offset).collect();
        lane(bench, 0).settle(asked.wanted().owner(), offsets.iter().copied());
        offsets.into_iter().map(|offset| offset.0)
    };
    (0..times).flat_map(take).collect()
}

#[test]
fn messages_come_in_order_although_blocks_of_their_entries_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = filled(&disk);
    for blocks in [0..4096, 8192..3 * 8192] {
        disk.fail(Failure::unreadable("consumequeue/orders", blocks, 5));
    }
    assert_eq!(taken(&bench, 500), (0..2000).collect::<Vec<_>>());
}

#[test]
fn nothing_is_passed_over_or_called_damaged_while_the_disk_is_gone() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = filled(&disk);
    disk.fail(Failure::error(Operation::Read, 5));
    assert_eq!(taken(&bench, 10).first(), None);
    let refused = bench.broker.leasing.hand_out(&mut HandOut::of(wanted(&bench)), usize::MAX, bench.now);
    let refused = refused.expect_err("nothing can be read").to_string();
    assert!(!refused.contains("remove"), "{refused}");
    disk.heal();
    assert_eq!(taken(&bench, 100), (0..400).collect::<Vec<_>>());
}

#[test]
fn who_waits_is_not_told_all_the_time_of_what_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = filled(&disk);
    disk.fail(Failure::error(Operation::Read, 5));
    assert!(lane(&bench, 0).has_ready(false, bench.now.monotonic));
    taken(&bench, 1);
    assert!(!lane(&bench, 0).has_ready(false, bench.now.monotonic.plus_ms(999)));
    assert!(lane(&bench, 0).has_ready(false, bench.now.monotonic.plus_ms(1000)));
}

#[test]
fn what_is_not_settled_is_kept_although_its_entry_cannot_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let retention = RetentionPolicy { size: Some(1), ..RetentionPolicy::default() };
    let layout = storage::Options {
        disk: Disk::new(disk.clone()),
        segment_size: 64 * 1024,
        recent_size: 1,
        retention,
        ..layout(Path::new("/data"), vec![1000, 1000])
    };
    let bench = open_on(layout, at(1000), |options: &mut Options| options.keeps_unsettled = true);
    let group = GroupName::checked("billing").expect("a name");
    bench.broker.catalog.group_for_use(&group, bench.now).expect("a group");
    make_topic(&bench, 1);
    for _ in 0..2000 {
        bench.publish("orders", &message(b"x", b"")).expect("published");
    }
    hand_out(&bench, wanted(&bench));
    for _ in 0..300 {
        bench.publish("others", &message(&[b'x'; 1000], b"")).expect("published");
    }
    bench.broker.checkpoint(bench.now).expect("written");
    assert!(bench.broker.retention.apply(bench.now).expect("applied").is_held);
    disk.fail(Failure::unreadable("consumequeue/orders", 0..20, 5));
    assert_eq!(bench.broker.retention.apply(bench.now).expect("applied").removed, 0);
}

#[test]
fn those_who_wait_at_lanes_of_one_queue_come_and_leave_in_the_same_time_however_many_there_are() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    let lanes: Vec<_> = (0..32_000)
        .map(|number| {
            let group = format!("group-{number}");
            bench.broker.offsets.lane("orders", &group, QueueId(0), Beginning::First).expect("there is room")
        })
        .collect();
    let mailbox = broker::Mailbox::new(std::task::Waker::noop().clone());
    let once = |count: usize| {
        let began = Instant::now();
        let wish = |number| broker::Wish { mailbox: mailbox.clone(), number, credit: 1, priority: 0, in_order: false };
        let waiting: Vec<_> = lanes.iter().take(count).map(|lane| lane.wait(wish(1)).expect("in use")).collect();
        drop(waiting);
        began.elapsed()
    };
    // The least of several: what else the machine does only adds to it.
    let time_of = |count| (0..7).map(|_| once(count)).min().expect("some");
    let (few, many) = (time_of(4000), time_of(32_000));
    // What does not fit into caches takes some times as long; if each looked at all, that would come on top of 64.
    assert!(many < 64 * few, "4000 took {few:?}, 8 times as many {many:?}");
}

#[test]
fn a_committed_offset_beyond_the_end_does_not_settle_messages_that_are_not_there_yet() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    bench.publish("orders", &message(b"before", b"")).expect("published");
    assert_eq!(hand_out(&bench, wanted(&bench)).count(), 1);
    bench.broker.offsets.commit("orders", "billing", QueueId(0), 1 << 40).expect("committed");
    assert_eq!(hand_out(&bench, wanted(&bench)).count(), 0);
    bench.publish("orders", &message(b"behind", b"")).expect("published");
    assert_eq!(bodies(&hand_out(&bench, wanted(&bench))), ["behind"]);
}

#[test]
fn a_group_that_was_removed_holds_up_no_retention() {
    let retention = RetentionPolicy { size: Some(1), ..RetentionPolicy::default() };
    let layout = storage::Options {
        disk: Disk::new(MemoryDisk::new()),
        segment_size: 64 * 1024,
        retention,
        ..layout(Path::new("/data"), vec![1000, 1000])
    };
    let bench = open_on(layout, at(1000), |options: &mut Options| options.keeps_unsettled = true);
    make_topic(&bench, 1);
    let group = GroupName::checked("billing").expect("a name");
    bench.broker.catalog.group_for_use(&group, bench.now).expect("a group");
    bench.publish("orders", &message(b"x", b"")).expect("published");
    hand_out(&bench, wanted(&bench));
    for _ in 0..300 {
        bench.publish("others", &message(&[b'x'; 1000], b"")).expect("published");
    }
    bench.broker.removals.group("billing", false, bench.now).expect("removed");
    bench.broker.checkpoint(bench.now).expect("written");
    assert!(bench.broker.retention.apply(bench.now).expect("applied").removed > 0);
}

#[test]
fn dead_letters_wait_for_a_log_that_is_behind() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    let count = 8000;
    for _ in 0..count {
        bench.publish("orders", &message(&[b'x'; 50_000], b"")).expect("published");
    }
    let group = GroupName::checked("billing").expect("a name");
    let all = || Wanted { count_max: 10_000, size_max: usize::MAX, ..wanted(&bench) };
    hand_out(&bench, all());
    hand_out(&bench, all());
    let later = base::Now { ..bench.now.plus_ms(INVISIBLE_MS + 50) };
    let mut doomed = HandOut::of(Wanted { redeliveries_max: 0, ..all() });
    bench.broker.leasing.hand_out(&mut doomed, usize::MAX, later).expect("handed out");
    bench.broker.leasing.give_up(&group, doomed.take_doomed(), later);
    let staged = bench.broker.store().staged_size();
    let most = base::limits::STAGED_SIZE_MAX + (16 << 20);
    assert!(staged <= most as _, "{} MiB wait in memory for the log", staged >> 20);
}

#[test]
fn who_waits_in_order_is_told_when_what_was_given_without_order_is_settled() {
    let bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    for _ in 0..2 {
        bench.publish("orders", &message(b"x", b"")).expect("published");
    }
    let given = hand_out(&bench, Wanted { count_max: 1, ..wanted(&bench) });
    let in_order = Wanted { attempt: Some("x".into()), ..wanted(&bench) };
    assert_eq!(hand_out(&bench, in_order).count(), 0);
    let mailbox = broker::Mailbox::new(std::task::Waker::noop().clone());
    let wish = broker::Wish { mailbox: mailbox.clone(), number: 1, credit: 1, priority: 0, in_order: true };
    let _taker = lane(&bench, 0).wait(wish).expect("in use");
    assert_eq!(mailbox.take(), []);
    assert_eq!(lane(&bench, 0).settle(given.wanted().owner(), [QueueOffset(0)]), 1);
    assert_eq!(mailbox.take(), [broker::Signal::LeaseReady(1)]);
}

#[test]
fn in_order_who_asks_again_gets_the_same_messages_also_after_a_change_of_time() {
    let mut bench = open(&MemoryDisk::new(), false, 1000);
    make_topic(&bench, 1);
    for _ in 0..2 {
        bench.publish("orders", &message(b"x", b"")).expect("published");
    }
    let in_order = |bench: &Bench| Wanted { attempt: Some("x".into()), ..wanted(bench) };
    let given = hand_out(&bench, in_order(&bench));
    bench.now = bench.now.plus_ms(100);
    let name = bench.broker.leasing.name_grant(bench.now);
    let grant = broker::lease::Grant { owner: name.owner(), deadline: Some(bench.now.monotonic.plus_ms(INVISIBLE_MS)) };
    assert!(lane(&bench, 0).renew(given.wanted().owner(), QueueOffset(0), grant));
    assert_eq!(hand_out(&bench, in_order(&bench)).count(), 2);
}

/// What could not be read was given to nobody, and does not count.
#[test]
fn what_could_not_be_read_for_a_while_is_no_dead_letter() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let mut bench = open_cold(&disk);
    make_topic(&bench, 1);
    let publish = |number: usize| bench.publish("orders", &message(format!("{number:100}").as_bytes(), b""));
    let places: Vec<_> = (0..2001).map(|number| publish(number).expect("published").0).collect();
    for _ in 0..40 {
        bench.publish("others", &message(&[b'x'; 20_000], b"")).expect("published");
    }
    bench.broker.checkpoint(bench.now).expect("written");
    disk.fail(Failure::unreadable("commitlog", places[0] + 60..places[0] + 62, 110));
    let ask = |bench: &Bench| {
        let mut asked = HandOut::of(Wanted { count_max: 1, redeliveries_max: 2, ..wanted(bench) });
        drop(bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now));
        asked
    };
    for _ in 0..4 {
        let asked = ask(&bench);
        assert!(asked.given().iter().all(|given| given.messages[0].0 > QueueOffset(0)));
        bench.now = bench.now.plus_ms(INVISIBLE_MS + 50);
    }
    disk.heal();
    let mut asked = ask(&bench);
    assert_eq!(asked.take_doomed().len(), 0);
    assert_eq!(asked.given()[0].messages, [(QueueOffset(0), 0)]);
}

#[test]
fn what_a_channel_could_not_be_given_for_a_while_comes_once_it_can_be_read() {
    let disk = FaultyDisk::over(&MemoryDisk::new());
    let bench = open_cold(&disk);
    make_topic(&bench, 1);
    let place = bench.publish("orders", &message(&[b'x'; 8000], b"")).expect("published").0;
    bench.publish("others", &message(&[b'x'; 20_000], b"")).expect("published");
    disk.fail(Failure::unreadable("commitlog", place + 60..place + 62, 110));
    let of_channel = || Wanted { holder: Holder::Channel(Owner::channel(1)), ..wanted(&bench) };
    let mut asked = HandOut::of(of_channel());
    assert!(bench.broker.leasing.hand_out(&mut asked, usize::MAX, bench.now).is_err());
    disk.heal();
    assert!(!lane(&bench, 0).has_ready(false, bench.now.monotonic), "it is not tried again all the time");
    assert!(lane(&bench, 0).has_ready(false, bench.now.monotonic.plus_ms(1000)));
    assert_eq!(hand_out(&bench, of_channel()).count(), 1);
}
