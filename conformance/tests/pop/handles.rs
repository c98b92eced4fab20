//! Handles that are not one's own, or nobody's: they are refused or ignored, and no message is lost by them.

use std::time::Duration;

use conformance::pop::{Kind, Popped};
use serde_json::Value;
use wire::rocketmq::code::response;

use crate::case::{Case, sorted};
use crate::original::return_limit;

/// A handle with one of its eight words replaced: start offset, time, invisible time, revive queue, which topic, broker,
/// queue, offset.
fn with_word(message: &Popped, place: usize, word: &str) -> String {
    let mut words: Vec<_> = message.handle.split(' ').collect();
    words[place] = word;
    words.join(" ")
}

fn said(answer: &Value) -> String {
    format!("{} {}", answer["code"], answer["remark"].as_str().unwrap_or_default())
}

pub(crate) fn a_foreign_handle_does_no_harm(kind: Kind) {
    let mut case = Case::new(kind, "foreign-handle", 1);
    case.send(0, 4);
    let foreign = [("group", "foreign-handle-others")];
    case.server.make_group("foreign-handle-others", 16);
    let theirs = case.pop_all(4, &[foreign[0], ("invisible", "4000")]);
    let ours = case.pop_all(2, &[("max", "2"), ("invisible", "4000")]);
    for message in &theirs {
        let acked = case.call("ack-code", &[("handle", &message.handle)]);
        println!("{kind:?} foreign: {}", said(&acked));
    }
    // Neither what another consumer of our group has, nor what nobody has yet, is done by it.
    let again = case.pop_all(4, &[]);
    assert_eq!(sorted(&again), ["m0", "m1", "m2", "m3"]);
    assert_eq!(sorted(&ours), ["m0", "m1"]);
    // And for the group whose handles they are nothing has happened.
    assert_eq!(sorted(&case.pop_all(4, &foreign)), ["m0", "m1", "m2", "m3"]);
}

pub(crate) fn a_forged_handle_does_no_harm(kind: Kind) {
    let mut case = Case::new(kind, "forged-handle", 1);
    case.send(0, 4);
    let popped = case.pop_all(2, &[("max", "2"), ("invisible", "4000")]);
    let message = &popped[0];
    // The other words, invisible time and which topic, say nothing of who it is: the original does not look at them. The first says where
    // the answer's part of the queue began, which in a batch of acks is only where its bits are counted from.
    let forged = [
        with_word(message, 1, "1600000000000"),
        with_word(message, 3, "8"),
        with_word(message, 5, "nobody"),
        with_word(message, 7, "3"),
    ];
    for handle in &forged {
        let acked = case.call("ack-code", &[("handle", handle), ("real-topic", &case.topic.clone())]);
        println!("{kind:?} {handle}: {}", said(&acked));
    }
    // Nobody has the third and the fourth yet: they are given as if nothing had been said of them.
    assert_eq!(sorted(&case.pop_all(2, &[])), ["m2", "m3"]);
    // The first two come again, as their own handles were not used.
    assert_eq!(sorted(&case.pop_all(2, &[])), ["m0", "m1"]);
}

pub(crate) fn nonsense_is_refused(kind: Kind) {
    let mut case = Case::new(kind, "nonsense", 1);
    case.send(0, 1);
    let popped = case.pop_all(1, &[("invisible", "4000")]);
    let topic = case.topic.clone();
    let place = [("queue", "0"), ("offset", "0"), ("real-topic", &*topic), ("invisible", "1000")];
    let words = ["", "nonsense", "a b c d e f g h", "0 1", "0 1 2 3 4 5 6 7 8 9", "-1 -1 -1 -1 -1 -1 -1 -1"];
    for handle in words {
        for call in ["ack-code", "change-code"] {
            let fields = [&place[..], &[("handle", handle)]].concat();
            let answer = case.call(call, &fields);
            println!("{kind:?} {call} '{handle}': {}", said(&answer));
            let can_be_read = handle.split(' ').filter(|word| word.parse::<i64>().is_ok()).count() >= 8;
            assert!(can_be_read || answer["code"] != 0, "{call} '{handle}': {answer}");
        }
    }
    // Where the place is wrong, the answer says so.
    let handle = [("handle", &*popped[0].handle)];
    let refusals = [
        ("ack-code", ("queue", "1"), response::MESSAGE_ILLEGAL),
        ("ack-code", ("queue", "-1"), response::MESSAGE_ILLEGAL),
        ("ack-code", ("offset", "-1"), response::NO_MESSAGE),
        ("ack-code", ("offset", "2"), response::NO_MESSAGE),
        ("ack-code", ("real-topic", "nonsense-not-there"), response::TOPIC_NOT_EXIST),
        ("change-code", ("queue", "1"), response::MESSAGE_ILLEGAL),
        ("change-code", ("offset", "1"), response::NO_MESSAGE),
        ("change-code", ("offset", "-1"), response::NO_MESSAGE),
        ("change-code", ("real-topic", "nonsense-not-there"), response::TOPIC_NOT_EXIST),
    ];
    for (call, wrong, code) in refusals {
        let answer = case.call(call, &[handle[0], wrong, ("invisible", "1000")]);
        println!("{kind:?} {call} {wrong:?}: {}", said(&answer));
        assert_eq!(answer["code"], code, "{call} {wrong:?}: {answer}");
    }
    // Through all of this it was ours, and comes again.
    let again = case.pop_all(1, &[("invisible", "60000")]);
    assert_eq!(sorted(&again), ["m0"]);
    case.ack(&again[0]);
    assert_eq!(sorted(&case.pop_for(Duration::from_secs(4) + return_limit(kind), &[])), [""; 0]);
}
