//! Asking for messages: waiting for them, choosing by tag, where a new group begins, and what is refused.

use std::time::{Duration, Instant};

use conformance::pop::Kind;
use wire::rocketmq::code::{request, response};

use crate::case::{Case, bodies, sorted};
use crate::original::return_limit;

/// Soon after a send, on a machine that is busy.
const SOON: Duration = Duration::from_millis(700);

pub(crate) fn a_waiting_pop_is_answered_soon_after_a_send(kind: Kind) {
    let mut case = Case::new(kind, "waiting-pop", 4);
    for (round, queue) in ["-1", "-1", "2", "2", "-1"].iter().enumerate() {
        let pending = case.begin("pop", &[("poll", "20000"), ("queue", queue)]);
        std::thread::sleep(Duration::from_secs(1));
        let began = Instant::now();
        let sent = case.send(2, 1);
        let popped = case.end_pop(pending);
        println!("{kind:?} pop of {queue} after {:?}", began.elapsed());
        assert_eq!(bodies(&popped.messages), [&*sent[0]], "round {round}: {popped:?}");
        assert!(began.elapsed() < SOON, "round {round}: {:?}", began.elapsed());
        case.ack(&popped.messages[0]);
    }
}

pub(crate) fn a_waiting_pop_is_answered_when_a_message_comes_again(kind: Kind) {
    let mut case = Case::new(kind, "waiting-again", 1);
    let sent = case.send(0, 1);
    case.pop_all(1, &[("invisible", "3000")]);
    let began = Instant::now();
    let popped = case.pop(&[("poll", "25000")]);
    println!("{kind:?} came again to who waited after {:?}", began.elapsed());
    assert_eq!(bodies(&popped.messages), [&*sent[0]], "{popped:?}");
    assert!(began.elapsed() < Duration::from_secs(3) + return_limit(kind), "{:?}", began.elapsed());
}

pub(crate) fn a_waiting_pop_without_messages_ends_in_its_time(kind: Kind) {
    let mut case = Case::new(kind, "waiting-ends", 1);
    for poll in [0, 3000] {
        let began = Instant::now();
        let popped = case.pop(&[("poll", &poll.to_string())]);
        let waited = began.elapsed();
        println!("{kind:?} poll of {poll} ms: {} after {waited:?}", popped.status);
        assert_eq!((&*popped.status, popped.messages.len()), ("POLLING_NOT_FOUND", 0));
        assert!(waited + Duration::from_millis(100) > Duration::from_millis(poll), "{waited:?}");
        assert!(waited < Duration::from_millis(poll) + Duration::from_secs(1), "{waited:?}");
    }
}

pub(crate) fn who_asks_whether_there_are_messages_is_told_soon_after_a_send(kind: Kind) {
    let mut case = Case::new(kind, "told-soon", 2);
    assert_eq!(case.call("notify", &[])["has"], false);
    let pending = case.begin("notify", &[("poll", "20000")]);
    std::thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    case.send(1, 1);
    let told = case.end(pending);
    println!("{kind:?} told after {:?}: {told}", began.elapsed());
    assert_eq!(told["has"], true);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(case.call("notify", &[("queue", "1")])["has"], true);
    assert_eq!(case.call("notify", &[("queue", "0")])["has"], false);
    // It took nothing.
    let popped = case.pop_all(1, &[]);
    assert_eq!(popped[0].reconsumed, 0);
    // What somebody has is not there for others.
    assert_eq!(case.call("notify", &[])["has"], false);
    let unknown = case.call("notify", &[("topic", "told-soon-not-there")]);
    assert_eq!(unknown["code"], response::TOPIC_NOT_EXIST, "{unknown}");
}

pub(crate) fn only_the_tags_asked_for_are_given(kind: Kind) {
    let mut case = Case::new(kind, "by-tag", 1);
    for number in 0..30 {
        case.send_tagged(0, 1, ["red", "green", "blue"][number % 3]);
    }
    let popped = case.pop_all(20, &[("tags", "red || blue"), ("max", "8"), ("invisible", "4000")]);
    assert!(popped.iter().all(|message| message.tag != "green"), "{popped:?}");
    assert_eq!(popped.len(), 20);
    popped.iter().filter(|message| message.body != "m5").for_each(|message| case.ack(message));
    // What comes again passed the filter before, and passes it again.
    assert_eq!(sorted(&case.pop_all(1, &[("tags", "red || blue")])), ["m5"]);
    // The others wake nobody.
    let began = Instant::now();
    let pending = case.begin("pop", &[("tags", "red"), ("poll", "12000")]);
    std::thread::sleep(Duration::from_millis(500));
    case.send_tagged(0, 3, "green");
    std::thread::sleep(Duration::from_millis(500));
    let red = case.send_tagged(0, 1, "red");
    let popped = case.end_pop(pending);
    println!("{kind:?} red after {:?}", began.elapsed());
    assert_eq!(bodies(&popped.messages), [&*red[0]], "{popped:?}");
    // Another group is given all.
    case.server.make_group("by-tag-all", 16);
    assert_eq!(case.pop_all(34, &[("group", "by-tag-all")]).len(), 34);
}

/// As when it pulls: who starts its consumer a moment after its producer gets what was sent meanwhile.
pub(crate) fn a_new_group_reads_a_young_queue_from_its_start_wherever_it_wants_to_begin(kind: Kind) {
    let mut case = Case::new(kind, "begins", 1);
    let mut sent = Vec::new();
    for init in ["min", "max"] {
        let group = format!("begins-{init}");
        case.server.make_group(&group, 16);
        sent.extend(case.send(0, 3));
        assert_eq!(sorted(&case.pop_all(sent.len(), &[("group", &group), ("init", init)])), sent, "{init}");
        // A group that has begun goes on where it is.
        let other_end = if init == "min" { "max" } else { "min" };
        let next = case.send(0, 2);
        assert_eq!(sorted(&case.pop_all(2, &[("group", &group), ("init", other_end)])), next, "{init}");
        sent.extend(next);
    }
}

pub(crate) fn what_cannot_be_popped_is_refused(kind: Kind) {
    let mut case = Case::new(kind, "refused", 2);
    case.send(0, 1);
    case.send(1, 1);
    let refused = [(("topic", "refused-not-there"), "17"), (("queue", "2"), "29"), (("max", "33"), "29")];
    for (wrong, code) in refused {
        let popped = case.pop(&[wrong]);
        assert_eq!(popped.status, code, "{wrong:?}: {popped:?}");
    }
    let closed = br#"{"groupName":"refused-closed","consumeEnable":false}"#;
    let made = case.server.connect().call(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, &[], closed);
    assert_eq!(made.code, response::SUCCESS);
    assert_eq!(case.pop(&[("group", "refused-closed")]).status, "16");
    // Odd, but asked for by nobody who means it: any answer will do.
    for odd in [("invisible", "0"), ("invisible", "-1"), ("max", "0"), ("max", "-1"), ("tags", "")] {
        let popped = case.pop(&[odd, ("group", &format!("refused-{}{}", odd.0, odd.1))]);
        println!("{kind:?} {odd:?}: {popped:?}");
    }
    // The broker serves as before.
    assert_eq!(case.pop_all(2, &[]).len(), 2);
}
