//! What a group as a whole is owed: dead letters, and figures for its operator.

use std::time::{Duration, Instant};

use conformance::java::mqadmin;
use conformance::pop::Kind;

use crate::case::{Case, bodies, sorted};
use crate::original::{counts_leased_as_consumed, retries_for_ever, return_limit};

pub(crate) fn what_nobody_manages_to_consume_becomes_a_dead_letter(kind: Kind) {
    let mut case = Case::new(kind, "dead-letter", 1);
    case.server.make_group(&case.group, 2);
    case.send(0, 1);
    for round in 0..3 {
        let popped = case.pop_all(1, &[("invisible", "1000")]);
        assert_eq!((bodies(&popped), popped[0].reconsumed), (vec!["m0"], round));
    }
    let again = case.pop_for(Duration::from_secs(1) + return_limit(kind), &[("invisible", "60000")]);
    println!("{kind:?} after the last retry: {again:?}");
    let dead = format!("%DLQ%{}", case.group);
    if retries_for_ever(kind) {
        assert_eq!((bodies(&again), again[0].reconsumed), (vec!["m0"], 3));
        return;
    }
    assert_eq!(sorted(&again), [""; 0]);
    let mut found = Vec::new();
    case.server.connect().read_queue(&dead, 0, 0, |record| found.push(record.body.to_vec()));
    assert_eq!(found, [b"m0"]);
}

/// A row of `consumerProgress`, of a topic's first queue.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    end: u64,
    committed: u64,
    difference: u64,
    in_flight: u64,
}

fn progress(case: &Case) -> Progress {
    let text = mqadmin(&["consumerProgress", "-g", &case.group, "-n", &case.server.name_server]);
    let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first() == Some(&&*case.topic) && row.get(2) == Some(&"0"));
    let row = row.unwrap_or_else(|| panic!("no row of {}: {text}", case.topic));
    // Topic, broker, queue, the broker's end, the group's offset, an address if there is one, difference, in flight, time.
    let mut numbers = row[3..].iter().filter_map(|word| word.parse().ok());
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{row:?}"));
    Progress { end: next(), committed: next(), difference: next(), in_flight: next() }
}

/// Waits for offset and messages in flight of a queue of ten.
fn until_progress(case: &Case, committed: u64, in_flight: u64) {
    let wanted = Progress { end: 10, committed, difference: 10 - committed, in_flight };
    let began = Instant::now();
    loop {
        let found = progress(case);
        if found == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{found:?}, not {wanted:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Whoever reads it knows how much is not done, and whoever takes over from the offset loses nothing.
pub(crate) fn an_operator_sees_how_far_a_group_is(kind: Kind) {
    let mut case = Case::new(kind, "progress", 1);
    // The tool asks for this topic first, which a group has once a push consumer was in it.
    case.server.connect().make_topic(&format!("%RETRY%{}", case.group), 1);
    case.send(0, 10);
    let popped = case.pop_all(6, &[("max", "6"), ("invisible", "120000")]);
    let figures = |floor, in_flight| if counts_leased_as_consumed(kind) { (6, 0) } else { (floor, in_flight) };
    let (committed, in_flight) = figures(0, 6);
    until_progress(&case, committed, in_flight);
    [0, 1, 2, 4].into_iter().for_each(|place: usize| case.ack(&popped[place]));
    // In flight is what lies between the offset and the last that was popped, as the tool counts.
    let (committed, in_flight) = figures(3, 3);
    until_progress(&case, committed, in_flight);
    [3, 5].into_iter().for_each(|place: usize| case.ack(&popped[place]));
    until_progress(&case, 6, 0);
}
