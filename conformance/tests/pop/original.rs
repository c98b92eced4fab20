//! What RocketMQ 5.4.0 does where it surprises. Promises say what users are owed; exceptions for the original stand here.
//!
//! | where | what the original does | owed |
//! |---|---|---|
//! | return after the invisible time | 1.5 to 4.5 s late: expired leases are looked for in rounds that end at least 2 s back. In order: at once | within a second |
//! | invisible time of 1 ms | 2.5 to 3 s | within a second |
//! | send, then pop | a send is answered a few milliseconds before a pop sees it | at once |
//! | a pop that arrives more than 500 ms after the end of its poll | not found (210), whatever is there; nothing else about it is checked, not even its topic | - |
//! | a late change of invisible time, by the handle of an acked message | a lease is made anew: the message comes again, its count of deliveries one higher | nothing comes |
//! | a handle of another group, of the past, or forged | taken (0), nothing happens; invisible time, and for a plain ack the kind of topic, are not compared with what was leased | no harm |
//! | a handle that cannot be read | code 1 and a line of a stack trace; eight numbers are taken whatever they are | a refusal |
//! | a place that cannot be | 13 for the queue, 208 for the offset, 17 for the topic; an ack of the queue's end is taken | the same codes |
//! | acks out of turn, in order | what was acked behind a gap is given again; what was handed back waits for the rest of its batch | acked is done |
//! | retries of the group (`retryMaxTimes`) | not looked at: a message is given again for ever. Dead letters are made by a proxy, or by nobody: the push consumer asks again and again, and after four hours acks | a dead letter after the last retry |
//! | `consumerProgress` | what was popped counts as consumed, and nothing is ever in flight. Fails for a group that never had a push consumer, which has no topic `%RETRY%group` | the offset is that of the first message that is not done |
//! | a new group with `initMode` max | reads a young queue from its start, as when it pulls; of an old queue it is given the last message too | the same for a young queue |
//! | from pop to pull | 2 to 3 in a hundred messages are repeated by four changes. What was leased then and not acked is put into `%RETRY%group_topic`; half of the time the clients that pull now do not get it within two minutes, though they have the queue | it comes |
//! | a push consumer's orderly listener | pulls whatever the mode says: the client's own code for pops calls no listener | the same |
//! | an odd invisible time (0, -1) | taken as it is | - |
//! | `maxMsgNums` 0, -1, 33 | not found; code 1; code 29 | 29 for 33 |
//!
//! Never seen there: a duplicate without a reason, in 2000 messages of three push consumers and 200 of two that shared a queue;
//! a loss when a push consumer was killed, of whose messages the survivor had every one within 8 s, its invisible time being 5.

use std::time::Duration;

use conformance::pop::Kind;

/// A message comes again so long after its invisible time at the latest, on a machine that is busy.
pub(crate) fn return_limit(kind: Kind) -> Duration {
    match kind {
        Kind::Sluice => Duration::from_secs(1),
        Kind::Java => Duration::from_secs(10),
    }
}

/// The same of messages that are popped in order.
pub(crate) fn ordered_return_limit(kind: Kind) -> Duration {
    match kind {
        Kind::Sluice => Duration::from_secs(1),
        Kind::Java => Duration::from_secs(3),
    }
}

/// Of `m0` to `m5`, after acks of `m0` and `m2`.
pub(crate) fn given_after_acks_out_of_turn(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Sluice => &["m1", "m3", "m4", "m5"],
        Kind::Java => &["m1", "m2", "m3", "m4", "m5"],
    }
}

/// After a change of a message that is done.
pub(crate) fn given_after_a_late_change(kind: Kind, body: &str) -> Vec<&str> {
    match kind {
        Kind::Sluice => vec![],
        Kind::Java => vec![body],
    }
}

/// Whether a message is given once more after the last retry.
pub(crate) fn retries_for_ever(kind: Kind) -> bool {
    kind == Kind::Java
}

/// Whether what is leased counts as consumed.
pub(crate) fn counts_leased_as_consumed(kind: Kind) -> bool {
    kind == Kind::Java
}

/// Whether what was leased when a group went from pop to pull may not come.
pub(crate) fn forgets_leases_of_pops(kind: Kind) -> bool {
    kind == Kind::Java
}
