//! Push consumers of the official client whose broker says that they pop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use conformance::pop::Kind;
use conformance::pop::consumer::{Delivery, PushConsumer, deliveries};

use crate::case::Case;
use crate::original::{forgets_leases_of_pops, return_limit};

fn start(case: &Case, name: &str, flags: &[(&str, &str)]) -> PushConsumer {
    let of = (&*case.topic, &*case.group);
    PushConsumer::start(&case.server.name_server, of, case.scratch.path(), name, flags)
}

/// How often each message was delivered.
fn counts(deliveries: &[Delivery]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    deliveries.iter().for_each(|delivery| *counts.entry(&*delivery.body).or_default() += 1);
    counts
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// All of `sent`, whatever else comes.
fn until_all_delivered(consumers: &[PushConsumer], sent: &BTreeSet<String>) {
    let began = Instant::now();
    loop {
        let seen: BTreeSet<_> = deliveries(consumers).into_iter().map(|delivery| delivery.body).collect();
        let missing: Vec<_> = sent.difference(&seen).collect();
        if missing.is_empty() {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{} of {} did not come: {missing:?}",
            missing.len(),
            sent.len()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn set_mode(case: &mut Case, mode: &str) {
    let answer = case.call("mode", &[("mode", mode)]);
    assert!(answer["code"].is_null(), "{answer}");
}

fn send_everywhere(case: &mut Case, queues: i32, each: usize) -> BTreeSet<String> {
    (0..queues).flat_map(|queue| case.send(queue, each)).collect()
}

pub(crate) fn several_consumers_get_each_message_once(kind: Kind) {
    let mut case = Case::new(kind, "push-once", 4);
    set_mode(&mut case, "POP");
    let consumers = ["a", "b", "c"].map(|name| start(&case, name, &[]));
    let mut sent = BTreeSet::new();
    // Clients do not start at the same time on a busy machine.
    until("all three are there", || {
        sent.extend(send_everywhere(&mut case, 4, 2));
        consumers.iter().all(|consumer| !consumer.deliveries().is_empty())
    });
    sent.extend(send_everywhere(&mut case, 4, 100));
    until_all_delivered(&consumers, &sent);
    for _ in 0..20 {
        sent.extend(send_everywhere(&mut case, 4, 20));
    }
    until_all_delivered(&consumers, &sent);
    std::thread::sleep(Duration::from_secs(5));
    let shares = consumers.iter().map(|consumer| consumer.deliveries().len()).collect::<Vec<_>>();
    let all = deliveries(&consumers);
    println!("{kind:?} shares {shares:?}");
    assert!(all.iter().all(|delivery| delivery.is_popped && delivery.reconsumed == 0));
    assert_eq!(all.len(), sent.len());
    assert!(shares.iter().all(|share| *share > 50), "all work: {shares:?}");
    consumers.into_iter().for_each(|consumer| consumer.stop());
}

pub(crate) fn what_a_consumer_refuses_comes_again_later(kind: Kind) {
    let mut case = Case::new(kind, "push-later", 2);
    set_mode(&mut case, "POP");
    let consumer = [start(&case, "a", &[("later", "1")])];
    let sent = send_everywhere(&mut case, 2, 10);
    until("each comes twice", || deliveries(&consumer).len() >= 2 * sent.len());
    std::thread::sleep(Duration::from_secs(3));
    let all = deliveries(&consumer);
    assert!(counts(&all).values().all(|count| *count == 2), "{all:?}");
    for again in all.iter().filter(|delivery| delivery.reconsumed == 1) {
        let first = all.iter().find(|first| first.body == again.body && first.reconsumed == 0).expect("the first");
        let waited = Duration::from_millis(again.consumed_at - first.consumed_at);
        // The client asks for the first of its own steps, which are 10 s, 30 s, a minute and so on.
        assert!(waited > Duration::from_millis(9900), "{waited:?} is early");
        assert!(waited < Duration::from_secs(10) + return_limit(kind), "{waited:?} is late");
    }
    let [consumer] = consumer;
    consumer.stop();
}

pub(crate) fn a_consumer_killed_in_the_middle_loses_nothing(kind: Kind) {
    let mut case = Case::new(kind, "push-killed", 2);
    set_mode(&mut case, "POP");
    let flags = [("invisible-millis", "5000"), ("hold-millis", "20")];
    let mut consumers = ["dies", "stays"].map(|name| start(&case, name, &flags));
    until("both are there", || {
        send_everywhere(&mut case, 2, 2);
        consumers.iter().all(|consumer| !consumer.deliveries().is_empty())
    });
    let sent = send_everywhere(&mut case, 2, 400);
    until("the one that dies has some", || consumers[0].deliveries().len() > 60);
    consumers[0].kill();
    let killed = Instant::now();
    until_all_delivered(&consumers, &sent);
    println!("{kind:?} everything {:?} after the kill", killed.elapsed());
    let all = deliveries(&consumers);
    let repeated = counts(&all).values().filter(|count| **count > 1).count();
    println!("{kind:?} repeated {repeated} of {}", sent.len());
    // At most what the client that died had taken: what it had consumed and not yet acked, as it kept no more than 96.
    assert!(repeated <= 200, "{repeated}");
    let [_, stays] = consumers;
    stays.stop();
}

pub(crate) fn a_group_changes_from_pull_to_pop_and_back_without_loss(kind: Kind) {
    let mut case = Case::new(kind, "push-modes", 2);
    let consumers = ["a", "b"].map(|name| start(&case, name, &[("invisible-millis", "10000")]));
    // While they pull, whoever comes later is given queues that the other has not committed for up to 5 s.
    let log = case.scratch.path().join("programs.log");
    until("both run", || std::fs::read_to_string(&log).is_ok_and(|text| text.matches("started").count() == 2));
    std::thread::sleep(Duration::from_secs(3));
    let [mut sent, mut on_their_way, mut leased] = [const { BTreeSet::new() }; 3];
    for (is_popped, mode) in [(false, "PULL"), (true, "POP"), (false, "PULL"), (true, "POP"), (false, "PULL")] {
        set_mode(&mut case, mode);
        let before = consumers.each_ref().map(|consumer| consumer.deliveries().len());
        let is_so = |(consumer, before): (&PushConsumer, &usize)| {
            consumer.deliveries().iter().skip(*before).any(|delivery| delivery.is_popped == is_popped)
        };
        let began = Instant::now();
        until(mode, || {
            on_their_way.extend(send_everywhere(&mut case, 2, 5));
            consumers.iter().zip(&before).all(is_so)
        });
        println!("{kind:?} {mode} after {:?}", began.elapsed());
        sent.extend(on_their_way.iter().cloned());
        for _ in 0..20 {
            sent.extend(send_everywhere(&mut case, 2, 5));
            std::thread::sleep(Duration::from_millis(50));
        }
        let in_each = Some(sent.len() as u64 / 2);
        until("all is committed", || {
            (0..2).all(|queue| case.server.committed(&case.group, &case.topic, queue) == in_each)
        });
        if is_popped {
            // Somebody has messages when the group goes back, and dies.
            let before = leased.len();
            while leased.len() == before {
                let pending = case.begin("pop", &[("invisible", "8000"), ("max", "8"), ("poll", "1000")]);
                on_their_way.extend(send_everywhere(&mut case, 2, 5));
                leased.extend(case.end_pop(pending).messages.into_iter().map(|message| message.body));
            }
            sent.extend(on_their_way.iter().cloned());
        }
    }
    let forgotten = if forgets_leases_of_pops(kind) { &leased | &on_their_way } else { BTreeSet::new() };
    let must_come = &sent - &forgotten;
    until_all_delivered(&consumers, &must_come);
    std::thread::sleep(Duration::from_secs(12) + return_limit(kind));
    let all = deliveries(&consumers);
    let repeated: BTreeSet<_> =
        counts(&all).into_iter().filter(|(_, count)| *count > 1).map(|(body, _)| body.to_owned()).collect();
    let settled = (&repeated - &on_their_way).len();
    println!("{kind:?} repeated {} of {}, {settled} of them sent between changes", repeated.len(), sent.len());
    // Those that were on their way when the mode changed, which clients learn of within a second. Whoever began again at each change would
    // have almost all of them again.
    assert!(settled * 10 < sent.len() - on_their_way.len(), "{settled} of {}", sent.len());
    consumers.into_iter().for_each(|consumer| consumer.stop());
}

/// The official client pulls for an orderly listener, whatever the broker would tell it.
pub(crate) fn an_orderly_listener_pulls_in_order_from_a_group_that_pops(kind: Kind) {
    let mut case = Case::new(kind, "push-orderly", 1);
    set_mode(&mut case, "POP");
    let consumer = [start(&case, "a", &[("orderly", "")])];
    let sent = send_everywhere(&mut case, 1, 100);
    until_all_delivered(&consumer, &sent);
    let all = deliveries(&consumer);
    assert!(all.iter().all(|delivery| !delivery.is_popped));
    let order: Vec<_> = all.iter().map(|delivery| &*delivery.body).collect();
    assert_eq!(order, (0..100).map(|number| format!("m{number}")).collect::<Vec<_>>());
    let [consumer] = consumer;
    consumer.stop();
}
