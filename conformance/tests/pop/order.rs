//! Pops in order: of each queue, one consumer at a time has messages, and whoever is next gets them in their order.

use std::time::{Duration, Instant};

use conformance::pop::{Kind, Popped};

use crate::case::{Case, EARLY, bodies};
use crate::original::ordered_return_limit;

const IN_ORDER: [(&str, &str); 4] = [("order", "true"), ("queue", "0"), ("max", "4"), ("invisible", "4000")];
const NOTHING: [&str; 0] = [];

fn pop_in_order(case: &mut Case, attempt: &str) -> Vec<Popped> {
    let fields = [&IN_ORDER[..], &[("attempt", attempt)]].concat();
    case.pop(&fields).messages
}

pub(crate) fn the_next_messages_of_a_queue_come_once_those_before_are_acked(kind: Kind) {
    let mut case = Case::new(kind, "in-turn", 2);
    case.send(0, 12);
    case.send(1, 1);
    let first = pop_in_order(&mut case, "a");
    assert_eq!(bodies(&first), ["m0", "m1", "m2", "m3"]);
    assert_eq!(bodies(&pop_in_order(&mut case, "b")), NOTHING);
    // Other queues do not wait for this one.
    let other = case.pop(&[("order", "true"), ("queue", "1")]).messages;
    assert_eq!(bodies(&other), ["m12"]);
    first.iter().take(3).for_each(|message| case.ack(message));
    assert_eq!(bodies(&pop_in_order(&mut case, "b")), NOTHING);
    // Whoever waits is told as soon as the last is acked.
    let pending = case.begin("pop", &[&IN_ORDER[..], &[("attempt", "c"), ("poll", "15000")]].concat());
    std::thread::sleep(Duration::from_millis(500));
    let began = Instant::now();
    case.ack(&first[3]);
    let second = case.end_pop(pending).messages;
    println!("{kind:?} the next after {:?}", began.elapsed());
    assert_eq!(bodies(&second), ["m4", "m5", "m6", "m7"]);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(case.server.committed(&case.group, &case.topic, 0), Some(4));
}

pub(crate) fn who_asks_again_by_the_same_attempt_gets_the_same(kind: Kind) {
    let mut case = Case::new(kind, "same-attempt", 1);
    case.send(0, 8);
    let first = pop_in_order(&mut case, "lost");
    // Its answer was lost on the way: the client asks again, and need not wait for its own messages.
    let again = pop_in_order(&mut case, "lost");
    println!("{kind:?} the same attempt: {again:?}");
    assert_eq!(bodies(&again), bodies(&first));
    again.iter().for_each(|message| case.ack(message));
    assert_eq!(bodies(&pop_in_order(&mut case, "next")), ["m4", "m5", "m6", "m7"]);
}

pub(crate) fn order_is_kept_while_a_consumer_dies(kind: Kind) {
    let mut case = Case::new(kind, "order-dies", 1);
    case.send(0, 12);
    let mut dying = case.other_hand();
    let first = case.pop_by(&mut dying, &IN_ORDER).messages;
    assert_eq!(bodies(&first), ["m0", "m1", "m2", "m3"]);
    dying.kill();
    let began = Instant::now();
    let (mut seen, mut counts) = (Vec::new(), Vec::new());
    let mut waited = None;
    while seen.len() < 12 {
        let popped = case.pop(&[&IN_ORDER[..], &[("poll", "1000")]].concat()).messages;
        assert!(began.elapsed() < Duration::from_secs(60), "{seen:?}");
        if popped.is_empty() {
            continue;
        }
        waited.get_or_insert(began.elapsed());
        popped.iter().for_each(|message| case.ack(message));
        counts.extend(popped.iter().map(|message| message.reconsumed));
        seen.extend(popped.into_iter().map(|message| message.body));
    }
    println!("{kind:?} taken over after {waited:?}, given before {counts:?}");
    assert_eq!(seen, (0..12).map(|number| format!("m{number}")).collect::<Vec<_>>());
    assert_eq!(counts, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let waited = waited.expect("some came");
    assert!(waited > Duration::from_secs(4) - EARLY - Duration::from_millis(500), "{waited:?} is early");
    assert!(waited < Duration::from_secs(4) + ordered_return_limit(kind), "{waited:?} is late");
}

pub(crate) fn what_was_acked_out_of_turn_is_done_and_the_rest_comes_first(kind: Kind) {
    let mut case = Case::new(kind, "out-of-turn", 1);
    case.send(0, 6);
    let first = pop_in_order(&mut case, "a");
    case.ack(&first[0]);
    case.ack(&first[2]);
    assert_eq!(case.server.committed(&case.group, &case.topic, 0), Some(1));
    // The second is handed back at once; the fourth stays with its consumer for its time.
    case.change(&first[1], Duration::from_millis(100));
    let began = Instant::now();
    let mut seen: Vec<Popped> = Vec::new();
    while !seen.iter().any(|message| message.body == "m5") {
        let popped = case.pop(&[&IN_ORDER[..], &[("poll", "1000")]].concat()).messages;
        println!("{kind:?} out of turn, after {:?}: {:?}", began.elapsed(), bodies(&popped));
        popped.iter().for_each(|message| case.ack(message));
        seen.extend(popped);
        assert!(began.elapsed() < Duration::from_secs(60), "{seen:?}");
    }
    assert_eq!(bodies(&seen), crate::original::given_after_acks_out_of_turn(kind));
}
