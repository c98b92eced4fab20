//! What is popped is invisible for a while, comes again when nobody acks it, and never once somebody did.

use std::time::{Duration, Instant};

use conformance::pop::{Kind, Popped};

use crate::case::{Case, EARLY, bodies, sorted};
use crate::original::{given_after_a_late_change, return_limit};

/// How long a message is invisible where a test waits for its return.
const INVISIBLE: Duration = Duration::from_secs(4);
const FOR_A_WHILE: (&str, &str) = ("invisible", "4000");
const NOTHING: [&str; 0] = [];

/// Waits for a message; how long it took.
fn wait_for(case: &mut Case, body: &str) -> (Popped, Duration) {
    let began = Instant::now();
    let mut popped = case.pop_all(1, &[FOR_A_WHILE]);
    assert_eq!(bodies(&popped), [body]);
    (popped.remove(0), began.elapsed())
}

pub(crate) fn what_is_not_acked_comes_again_after_its_invisible_time(kind: Kind) {
    let mut case = Case::new(kind, "comes-again", 1);
    let sent = case.send(0, 1);
    for round in 0..3 {
        let (popped, waited) = wait_for(&mut case, &sent[0]);
        println!("{kind:?} round {round}: after {waited:?} {popped:?}");
        assert_eq!(popped.reconsumed, round);
        assert_eq!((&*popped.tag, &*popped.topic), ("blue", &*case.topic));
        if round > 0 {
            assert!(waited > INVISIBLE - EARLY, "{waited:?} is early");
            assert!(waited < INVISIBLE + return_limit(kind), "{waited:?} is late");
        }
        if round == 2 {
            case.ack(&popped);
        }
    }
    assert_eq!(sorted(&case.pop_for(INVISIBLE + return_limit(kind), &[])), NOTHING);
}

pub(crate) fn only_what_was_acked_is_done(kind: Kind) {
    let mut case = Case::new(kind, "only-acked", 2);
    case.send(0, 8);
    case.send(1, 8);
    let popped = case.pop_all(16, &[FOR_A_WHILE]);
    // By one, by several at once, from both queues; from the middle, so that nothing is done by being before it.
    let is_done = |message: &Popped| !["m1", "m6", "m9", "m15"].contains(&&*message.body);
    let (done, left): (Vec<_>, Vec<_>) = popped.into_iter().partition(is_done);
    let (singly, at_once) = done.split_at(5);
    singly.iter().for_each(|message| case.ack(message));
    let handles = at_once.iter().map(|message| &*message.handle).collect::<Vec<_>>().join(";");
    assert_eq!(case.call("ack-batch", &[("handles", &handles)])["status"], "OK");
    let again = case.pop_all(left.len(), &[]);
    assert_eq!(sorted(&again), ["m1", "m6", "m9", "m15"]);
    assert!(again.iter().all(|message| message.reconsumed == 1), "{again:?}");
    assert_eq!(sorted(&case.pop_for(INVISIBLE + return_limit(kind), &[])), NOTHING);
    // They came by another way than the first time, and are acked by it at once.
    let handles = again.iter().map(|message| &*message.handle).collect::<Vec<_>>().join(";");
    assert_eq!(case.call("ack-batch", &[("handles", &handles)])["status"], "OK");
}

pub(crate) fn an_invisible_time_is_prolonged_from_the_moment_it_is_asked(kind: Kind) {
    let mut case = Case::new(kind, "prolonged", 1);
    let sent = case.send(0, 2);
    let popped = case.pop_all(2, &[FOR_A_WHILE]);
    let first = case.change(&popped[0], Duration::from_secs(14));
    let began = Instant::now();
    // The other returns in its time: each message has a time of its own.
    let (other, waited) = wait_for(&mut case, &sent[1]);
    assert!(waited < INVISIBLE + return_limit(kind), "{waited:?}");
    case.ack(&other);
    wait_for(&mut case, &sent[0]);
    let waited = began.elapsed();
    println!("{kind:?} prolonged to 14 s: after {waited:?}");
    assert!(waited > Duration::from_secs(14) - EARLY, "{waited:?} is early");
    assert!(waited < Duration::from_secs(14) + return_limit(kind), "{waited:?} is late");
    assert_ne!(first.handle, popped[0].handle);
}

pub(crate) fn an_invisible_time_is_cut_short(kind: Kind) {
    let mut case = Case::new(kind, "cut-short", 1);
    let sent = case.send(0, 1);
    let popped = case.pop_all(1, &[("invisible", "60000")]);
    case.change(&popped[0], Duration::from_secs(1));
    let (again, waited) = wait_for(&mut case, &sent[0]);
    println!("{kind:?} cut to 1 s: after {waited:?}");
    assert_eq!(again.reconsumed, 1);
    assert!(waited > Duration::from_secs(1) - EARLY, "{waited:?} is early");
    assert!(waited < Duration::from_secs(1) + return_limit(kind), "{waited:?} is late");
    // What came by another way is changed like any other.
    case.change(&again, Duration::from_millis(1));
    let (third, waited) = wait_for(&mut case, &sent[0]);
    println!("{kind:?} cut to 1 ms: after {waited:?}");
    assert_eq!(third.reconsumed, 2);
    assert!(waited < return_limit(kind), "{waited:?} is late");
    case.ack(&third);
}

pub(crate) fn a_changed_message_is_acked_by_its_new_handle(kind: Kind) {
    let mut case = Case::new(kind, "new-handle", 1);
    case.send(0, 1);
    let popped = case.pop_all(1, &[FOR_A_WHILE]);
    let changed = case.change(&popped[0], INVISIBLE);
    let changed = case.change(&changed, Duration::from_secs(6));
    case.ack(&changed);
    assert_eq!(sorted(&case.pop_for(Duration::from_secs(6) + return_limit(kind), &[])), NOTHING);
}

/// The acks of a message are tried while somebody else has it.
pub(crate) fn a_stale_handle_does_no_harm(kind: Kind) {
    let mut case = Case::new(kind, "stale-handle", 1);
    let sent = case.send(0, 1);
    let (first, _) = wait_for(&mut case, &sent[0]);
    let (second, _) = wait_for(&mut case, &sent[0]);
    for _ in 0..2 {
        // Acks are often sent twice or late, which is no error.
        assert_eq!(case.call("ack-code", &[("handle", &first.handle)])["code"], 0);
    }
    // Whoever has it now still has it, and may fail.
    let (third, waited) = wait_for(&mut case, &sent[0]);
    println!("{kind:?} third after {waited:?}: {third:?}");
    assert_eq!((second.reconsumed, third.reconsumed), (1, 2));
    case.ack(&third);
    // Late for good: it is done.
    let late = case.call("ack-code", &[("handle", &third.handle)]);
    assert_eq!(late["code"], 0, "{late}");
    assert_eq!(sorted(&case.pop_for(INVISIBLE + return_limit(kind), &[])), NOTHING);
}

pub(crate) fn what_is_done_is_not_revived_by_a_late_change(kind: Kind) {
    let mut case = Case::new(kind, "late-change", 1);
    let sent = case.send(0, 2);
    let popped = case.pop_all(2, &[("invisible", "60000")]);
    popped.iter().for_each(|message| case.ack(message));
    let late = case.call("change-code", &[("handle", &popped[0].handle), ("invisible", "1000")]);
    println!("{kind:?} late change: {late}");
    let again = case.pop_for(Duration::from_secs(1) + return_limit(kind), &[]);
    assert_eq!(bodies(&again), given_after_a_late_change(kind, &sent[0]));
}

pub(crate) fn two_consumers_share_a_queue_without_giving_a_message_twice(kind: Kind) {
    let mut case = Case::new(kind, "shared-queue", 1);
    let mut other = case.other_hand();
    case.send(0, 200);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    while ours.len() + theirs.len() < 200 {
        let pending = case.begin("pop", &[("max", "7"), ("poll", "1000"), ("queue", "0")]);
        let other_popped = case.pop_by(&mut other, &[("max", "7"), ("poll", "1000"), ("queue", "0")]);
        theirs.extend(other_popped.messages);
        ours.extend(case.end_pop(pending).messages);
    }
    println!("{kind:?} shared: {} and {}", ours.len(), theirs.len());
    // Neither has to wait for the other.
    assert!(ours.len() > 20 && theirs.len() > 20, "{} and {}", ours.len(), theirs.len());
    let all = [ours, theirs].concat();
    assert_eq!(sorted(&all), (0..200).map(|number| format!("m{number}")).collect::<Vec<_>>());
    // Acks come from whoever has the handle.
    all.iter().for_each(|message| case.ack(message));
    assert_eq!(sorted(&case.pop_for(Duration::from_secs(2), &[])), NOTHING);
}
