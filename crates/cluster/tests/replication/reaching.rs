//! What a master believes of what replicas say.

use std::sync::Arc;

use base::session::Session;
use cluster::replication::{Followers, InReach, LeaderLog};

use base::LogOffset;

use crate::{FakeLog, Replica};

#[test]
fn one_replica_that_connects_again_does_not_count_as_two() {
    let log = FakeLog::with(0, 1000, 0);
    let followers = Arc::new(Followers::new(2, log.end()));
    let (mut one, mut other) = (Replica::of(&log, &followers), Replica::at("10.0.0.9:1", &log, &followers));
    one.say(1000).expect("taken");
    other.say(500).expect("taken");
    assert_eq!(log.told.lock().last(), Some(&InReach::Until(LogOffset(500))));
    // The network lost the first one's connection: this end has not heard of it yet, and that replica is back over another.
    let mut again = Replica::of(&log, &followers);
    again.say(1000).expect("taken");
    assert_eq!(
        log.told.lock().last(),
        Some(&InReach::Until(LogOffset(500))),
        "what ends at 1000 is at one replica only, and two were asked for"
    );
}

#[test]
fn a_replica_has_only_what_it_was_sent() {
    let log = FakeLog::with(0, 64 << 20, 0);
    let mut replica = Replica::alone(&log);
    replica.say(0).expect("taken");
    // It has not taken a byte yet, and at most 2 MiB were made ready for it.
    let said = replica.say(64 << 20);
    let told = log.told.lock().last().copied();
    assert!(
        said.is_err() || told == Some(InReach::Until(LogOffset(0))),
        "{told:?} counts as replicated, and {} bytes were made ready",
        replica.session.held_size()
    );
}

#[test]
fn a_replica_that_has_what_the_log_lost_is_refused_also_once_the_log_has_grown_past_it() {
    // After a power cut the log ends at 20 000; the replica had 20 001 already, and is one of Java, which compares nothing.
    let log = FakeLog::with(0, 20_000, 0);
    let followers = Arc::new(Followers::new(1, log.end()));
    Replica::of(&log, &followers).say(20_001).expect_err("refused");
    log.grow(30_000);
    let said = Replica::of(&log, &followers).say(20_001);
    let told = log.told.lock().last().copied();
    assert!(
        said.is_err(),
        "nobody was ever sent what ends at 20 001, and now {told:?} counts as replicated: other bytes than these"
    );
}
