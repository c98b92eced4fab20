//! Promises about when a send is answered: not before its message is as safe as was promised.

use std::task::Waker;

use base::LogOffset;
use base::offset::{AckPolicy, Watermark};
use base::session::Session;
use storage::{CommitRule, NoState};
use testkit::{CLOCK_STEPS_MS, clock_set};
use wire::rocketmq::code::{request, response};

use crate::bench::{Bench, START};
use crate::client::{Client, ask, held_pull, pull, send};

/// The property of a message whose producer does not wait for the sync.
const NO_WAIT: &str = "WAIT\u{1}false\u{2}";

#[test]
fn a_send_is_answered_once_its_message_is_written() {
    let bench = Bench::new();
    bench.stop_writing();
    let mut client = bench.client();
    assert_eq!(client.give(&[send("orders", "one"), send("orders", "two")]), []);
    assert!(client.session.is_busy());
    // However long that takes: there is nothing to say before.
    assert_eq!(client.wait(60_000), []);
    bench.write();
    let replies = client.hear();
    assert_eq!(replies.iter().map(|reply| reply.code).collect::<Vec<_>>(), [0, 0]);
    assert!(!client.session.is_busy());
    assert_eq!(client.session.deadline(), None);
}

#[test]
fn with_sync_a_send_is_answered_once_its_message_is_on_the_disk() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE);
    bench.stop_writing();
    let mut client = bench.client();
    assert_eq!(client.give(&[send("orders", "one")]), []);
    bench.write();
    assert_eq!(client.hear(), []);
    // It can be read before its producer hears of it.
    assert_eq!(client.ask(pull("billing", "orders", 0)).bodies(), ["one"]);
    bench.sync();
    let replies = client.hear();
    assert_eq!(replies.iter().map(|reply| reply.code).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_send_that_does_not_wait_for_the_sync_overtakes_one_that_does() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE);
    bench.stop_writing();
    let mut client = bench.client();
    client.give(&[send("orders", "waits")]);
    client.give(&[send("orders", "does not").with("i", NO_WAIT)]);
    bench.write();
    let early = client.hear();
    assert_eq!(early.iter().map(|reply| reply.number("queueOffset")).collect::<Vec<_>>(), [1]);
    bench.sync();
    let late = client.hear();
    assert_eq!(late.iter().map(|reply| reply.number("queueOffset")).collect::<Vec<_>>(), [0]);
}

#[test]
fn a_batch_waits_for_the_sync_if_one_of_its_sends_does() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE);
    bench.stop_writing();
    let mut client = bench.client();
    let (waits, does_not) = (send("orders", "waits"), send("orders", "does not").with("i", NO_WAIT));
    for sends in [[waits.clone(), does_not.clone()], [does_not, waits]] {
        client.give(&sends);
        bench.write();
        assert_eq!(client.hear(), []);
        bench.sync();
        assert_eq!(client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>(), [0, 0]);
    }
}

#[test]
fn a_sync_that_takes_too_long_is_told_with_the_place_of_the_message() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE);
    bench.stop_writing();
    let mut client = bench.client();
    client.give(&[send("orders", "one")]);
    bench.write();
    assert_eq!(client.session.deadline(), Some(START.monotonic.plus_ms(5000)));
    assert_eq!(client.wait(4999), []);
    let replies = client.wait(1);
    assert_eq!((replies.len(), replies[0].code), (1, response::FLUSH_DISK_TIMEOUT));
    assert_eq!(replies[0].number("queueOffset"), 0);
    assert!(replies[0].remark.contains("stored"), "{}", replies[0].remark);
    // It is answered once.
    bench.sync();
    assert_eq!(client.hear(), []);
}

#[test]
fn setting_the_clock_by_an_hour_moves_no_end_of_the_wait_for_a_sync() {
    for by_ms in CLOCK_STEPS_MS {
        let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE);
        bench.stop_writing();
        let mut client = bench.client();
        client.give(&[send("orders", "one")]);
        bench.write();
        client.now = clock_set(client.now, by_ms);
        client.session.wake(client.now);
        assert_eq!(client.wait(4999), [], "{by_ms}");
        assert_eq!(client.wait(1).len(), 1, "{by_ms}");
    }
}

#[test]
fn a_log_that_cannot_grow_takes_nothing_and_reading_goes_on() {
    let bench = Bench::with(|setup| setup.store.segment_size = 64 << 10);
    let mut client = bench.client();
    client.ask_well(send("orders", &"x".repeat(40_000)));
    let log = bench.directory().join("commitlog");
    std::fs::remove_dir_all(&log).expect("removed");
    std::fs::write(&log, "no directory").expect("written");
    let replies = client.give(&[send("orders", &"y".repeat(40_000)), send("orders", "z")]);
    assert_eq!(replies.iter().map(|reply| reply.code).collect::<Vec<_>>(), [response::SERVICE_NOT_AVAILABLE; 2]);
    assert_eq!(client.ask_well(pull("billing", "orders", 0)).number("maxOffset"), 1);
}

#[test]
fn a_send_that_waits_for_sync_and_replicas_is_answered_once_both_have_it() {
    for synced_first in [true, false] {
        let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE.and(AckPolicy::REPLICATED));
        bench.stop_writing();
        let mut client = bench.client();
        bench.broker.durability.note_replicas(Some(LogOffset(0)));
        assert_eq!(client.give(&[send("orders", "one")]), []);
        bench.write();
        let replicate =
            || bench.broker.durability.note_replicas(Some(bench.broker.durability.reached(Watermark::Written)));
        let steps: [&dyn Fn(); 2] = [&|| bench.sync(), &replicate];
        steps[usize::from(!synced_first)]();
        assert_eq!(client.hear(), []);
        steps[usize::from(synced_first)]();
        assert_eq!(client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>(), [0]);
    }
}

#[test]
fn replicas_that_take_too_long_are_told_apart_from_a_sync_that_does() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE.and(AckPolicy::REPLICATED));
    bench.stop_writing();
    let mut client = bench.client();
    bench.broker.durability.note_replicas(Some(LogOffset(0)));
    for (is_synced, code) in [(false, response::FLUSH_DISK_TIMEOUT), (true, response::FLUSH_SLAVE_TIMEOUT)] {
        client.give(&[send("orders", "one")]);
        bench.write();
        if is_synced {
            bench.sync();
        }
        let limit_ms = if is_synced { 3000 } else { 5000 };
        assert_eq!(client.wait(limit_ms - 1), [], "{code}");
        assert_eq!(client.wait(1).iter().map(|reply| reply.code).collect::<Vec<_>>(), [code]);
    }
}

#[test]
fn nobody_waits_for_replicas_that_are_not_there_or_lag_by_too_much() {
    let bench = Bench::with(|setup| {
        setup.broker.ack_policy = AckPolicy::REPLICATED;
        setup.broker.replica_gap_max = 10_000;
    });
    let mut client = bench.client();
    let mut codes =
        || client.give(&[send("orders", &"x".repeat(6000))]).iter().map(|reply| reply.code).collect::<Vec<_>>();
    assert_eq!(codes(), [response::SLAVE_NOT_AVAILABLE], "none is connected");
    let written = bench.broker.durability.reached(Watermark::Written);
    bench.broker.durability.note_replicas(Some(written));
    assert!(codes().is_empty(), "one has all but this");
    assert_eq!(codes(), [response::SLAVE_NOT_AVAILABLE], "it lags");
    bench.broker.durability.note_replicas(Some(bench.broker.durability.reached(Watermark::Written)));
    assert_eq!(client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>(), [0], "it has caught up");
    assert_eq!(client.give(&[send("orders", "y")]), []);
    bench.broker.durability.note_replicas(Some(LogOffset(0)));
    let codes: Vec<_> = client.hear().iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [response::SLAVE_NOT_AVAILABLE], "it is gone, and the one that is left lags");
    assert_eq!(
        bench.count("orders", 0) + bench.count("orders", 1) + bench.count("orders", 2) + bench.count("orders", 3),
        4
    );
}

#[test]
fn who_waits_for_a_replica_that_goes_is_answered_at_once() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::REPLICATED);
    let mut client = bench.client();
    bench.broker.durability.note_replicas(Some(LogOffset(0)));
    assert_eq!(client.give(&[send("orders", "one")]), []);
    bench.broker.durability.note_replicas(None);
    assert_eq!(client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>(), [response::SLAVE_NOT_AVAILABLE]);
    // Who does not wait for anything is answered as ever.
    assert_eq!(client.ask(send("orders", "two").with("i", "WAIT\u{1}false\u{2}")).code, 0);
}

/// Replicas come and go while a send waits for the write; it is answered as soon as what those have that are there then says how.
#[test]
fn replicas_that_come_and_go_hold_up_no_send() {
    let (none, one) = (None, Some(LogOffset(0)));
    let cases: [(&[Option<LogOffset>], bool); 6] = [
        (&[none], false),
        (&[one, none], false),
        (&[none, one, none], false),
        (&[none, one], true),
        (&[one, none, one], true),
        (&[one, none, one, none, one], true),
    ];
    for (comings, is_there) in cases {
        let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::REPLICATED);
        bench.stop_writing();
        let mut client = bench.client();
        let (first, rest) = comings.split_first().expect("one at least");
        bench.broker.durability.note_replicas(*first);
        assert_eq!(client.give(&[send("orders", "one")]), []);
        for reached in rest {
            bench.broker.durability.note_replicas(*reached);
            assert_eq!(client.hear(), [], "it is not written");
        }
        bench.write();
        let codes = |client: &mut Client| client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>();
        if is_there {
            assert_eq!(codes(&mut client), [0; 0], "{comings:?}");
            bench.broker.durability.note_replicas(Some(bench.broker.durability.reached(Watermark::Written)));
            assert_eq!(codes(&mut client), [0], "{comings:?}");
        } else {
            assert_eq!(codes(&mut client), [response::SLAVE_NOT_AVAILABLE], "{comings:?}");
        }
    }
}

/// A replica that says nothing any more had its time; what is missing is the write alone.
#[test]
fn a_write_that_takes_longer_than_replicas_are_given_is_answered_once_it_is_done() {
    for policy in [AckPolicy::REPLICATED, AckPolicy::DURABLE.and(AckPolicy::REPLICATED)] {
        let bench = Bench::with(|setup| setup.broker.ack_policy = policy);
        bench.stop_writing();
        let mut client = bench.client();
        bench.broker.durability.note_replicas(Some(LogOffset(0)));
        assert_eq!(client.give(&[send("orders", "one")]), []);
        assert_eq!(client.wait(3000), []);
        assert_eq!(client.wait(500), [], "{policy:?}");
        bench.write();
        if policy.durable {
            assert_eq!(client.hear(), [], "it is written");
            bench.sync();
        }
        let codes: Vec<_> = client.hear().iter().map(|reply| reply.code).collect();
        assert_eq!(codes, [response::FLUSH_SLAVE_TIMEOUT], "{policy:?}");
    }
}

#[test]
fn what_waits_in_memory_does_not_grow_while_a_disk_hangs_and_replicas_come_and_go() {
    for policy in [AckPolicy::REPLICATED, AckPolicy::DURABLE, AckPolicy::DURABLE.and(AckPolicy::REPLICATED)] {
        let bench = Bench::with(|setup| setup.broker.ack_policy = policy);
        bench.stop_writing();
        let mut client = bench.client();
        bench.broker.durability.note_replicas(Some(LogOffset(0)));
        client.give(&[send("orders", "one")]);
        for _ in 0..1000 {
            assert_eq!(client.wait(5000), []);
            assert_eq!(client.session.deadline(), None, "all had their time: the write alone is waited for");
            bench.broker.durability.note_replicas(None);
            assert_eq!(client.wait(1), []);
            bench.broker.durability.note_replicas(Some(LogOffset(0)));
            assert_eq!(client.wait(1), []);
        }
        for watermark in [Watermark::Written, Watermark::Durable, Watermark::Replicated] {
            let count = bench.broker.store().when(watermark, LogOffset(u64::MAX), Waker::noop().clone());
            assert!(count <= 2, "{policy:?}: {count} wait for {watermark:?}, this one among them");
        }
    }
}

#[test]
fn what_waits_in_memory_for_replicas_that_are_not_there_does_not_grow() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::REPLICATED);
    let mut client = bench.client();
    for _ in 0..1000 {
        assert_eq!(client.ask(send("orders", "one")).code, response::SLAVE_NOT_AVAILABLE);
    }
    let store = bench.broker.store();
    assert_eq!(store.when(Watermark::Replicated, LogOffset(u64::MAX), Waker::noop().clone()), 1, "this one");
}

/// Its answer cannot say that replicas lack it.
#[test]
fn what_a_consumer_gives_back_waits_for_sync_and_replicas_as_a_send_does_for_as_long_as_there_are_any() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE.and(AckPolicy::REPLICATED));
    let mut client = bench.client();
    client.give(&[send("orders", "one")]);
    let written = || bench.broker.durability.reached(Watermark::Written);
    bench.sync();
    client.hear();
    let back = ask(request::CONSUMER_SEND_MESSAGE_BACK, &[("group", "billing"), ("delayLevel", "1")]);
    let back = back.with("offset", bench.first_of("orders"));
    bench.broker.durability.note_replicas(Some(written()));
    bench.stop_writing();
    let mut give_back = || {
        assert_eq!(client.give(std::slice::from_ref(&back)), []);
        bench.write();
        assert_eq!(client.hear(), [], "it is written");
        bench.sync();
        client.hear()
    };
    assert_eq!(give_back(), [], "it is synced");
    bench.broker.durability.note_replicas(Some(written()));
    assert_eq!(client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>(), [0], "it is replicated");
    let mut give_back = || {
        assert_eq!(client.give(std::slice::from_ref(&back)), []);
        bench.write();
        bench.sync();
        assert_eq!(client.hear(), []);
    };
    give_back();
    assert_eq!(client.wait(2999), []);
    assert_eq!(client.wait(1).iter().map(|reply| reply.code).collect::<Vec<_>>(), [0], "replicas had their time");
    let mut give_back = |replicas| {
        bench.broker.durability.note_replicas(replicas);
        client.give(std::slice::from_ref(&back));
        bench.write();
        let before = client.hear().len();
        bench.sync();
        (before, client.hear().len())
    };
    assert_eq!(give_back(None), (0, 1), "there are none, and it is synced");
}

/// What comes in that very millisecond does not make its time go unnoticed.
#[test]
fn a_request_that_comes_when_replicas_had_their_time_holds_up_nothing_that_was_given_back() {
    for policy in [AckPolicy::REPLICATED, AckPolicy::DURABLE.and(AckPolicy::REPLICATED)] {
        let bench = Bench::with(|setup| setup.broker.ack_policy = policy);
        let mut client = bench.client();
        client.give(&[send("orders", "one")]);
        bench.sync();
        client.hear();
        bench.broker.durability.note_replicas(Some(bench.broker.durability.reached(Watermark::Written)));
        let back = ask(request::CONSUMER_SEND_MESSAGE_BACK, &[("group", "billing"), ("delayLevel", "1")]);
        assert_eq!(client.give(&[back.with("offset", bench.first_of("orders"))]), []);
        bench.sync();
        assert_eq!(client.hear(), []);
        client.now = client.now.plus_ms(3000);
        let other = ask(request::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "0")]);
        let mut replies = client.give(&[other]);
        replies.extend(client.wait(0));
        assert_eq!(replies.len(), 2, "{policy:?}");
    }
}

#[test]
fn without_replicas_a_send_still_waits_for_the_sync() {
    let bench = Bench::with(|setup| setup.broker.ack_policy = AckPolicy::DURABLE.and(AckPolicy::REPLICATED));
    bench.stop_writing();
    let mut client = bench.client();
    assert_eq!(client.give(&[send("orders", "one")]), []);
    bench.write();
    assert_eq!(client.hear(), []);
    bench.sync();
    assert_eq!(client.hear().iter().map(|reply| reply.code).collect::<Vec<_>>(), [response::SLAVE_NOT_AVAILABLE]);
}

#[test]
fn in_a_governed_group_a_message_is_pulled_once_it_is_committed() {
    let bench = Bench::with(|setup| setup.store.commit_rule = CommitRule::Told { known: LogOffset(0) });
    let (mut producer, mut consumer) = (bench.client(), bench.client());
    producer.ask_well(send("orders", "one"));
    assert_eq!(consumer.give(&[held_pull("billing", "orders", 0)]), []);
    producer.ask_well(send("orders", "two"));
    assert_eq!(consumer.hear(), [], "nobody is told of what may be taken back");
    assert_eq!(consumer.ask(pull("audit", "orders", 0)).code, response::PULL_NOT_FOUND);
    bench.broker.store().set_committed(LogOffset(u64::MAX), &mut NoState).expect("commits");
    assert_eq!(consumer.hear().iter().map(|reply| reply.bodies()).collect::<Vec<_>>(), [["one", "two"]]);
}
