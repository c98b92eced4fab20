//! PerfTest, unchanged, with every flag of its that concerns a broker. What each run promises is looked at: why it ended, what it
//! counted, that it complained of nothing.
//!
//! Everyday runs have many flags at once; with `SLUICE_CONFORMANCE_FLAGS=1` each is also tried without the others.

mod alone;
mod recovery;
mod run;
mod together;

use std::collections::BTreeSet;

use conformance::certificates::Authority;
use conformance::tries_every_flag_alone;
use run::{Broker, Run};

/// Runs at one time, each of them a Java machine.
const AT_ONCE: usize = 3;

/// Flags that no row has, and why.
const NOT_TRIED: [(&str, &[&str]); 3] = [
    ("no broker is asked", &["-?", "-env", "-mh", "-v"]),
    ("several instances find each other without the broker", &["-ei", "-isn", "-ist"]),
    ("there are no tokens of OAuth 2", &["-o2gr", "-o2id", "-o2p", "-o2sec", "-o2uri"]),
];

fn flags_of<'r>(rows: impl IntoIterator<Item = &'r Run>) -> BTreeSet<String> {
    let words = rows.into_iter().flat_map(|run| run.flags.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    // What every run has. A value may begin with a minus too, but is none of PerfTest's flags.
    words.chain(["-h".to_owned(), "-o".to_owned()]).filter(|word| word.starts_with('-')).collect()
}

#[test]
fn every_flag_of_perf_test_is_tried_or_has_a_reason_not_to_be() {
    let all: BTreeSet<String> = conformance::perf_test::flags().into_iter().collect();
    assert!(all.len() > 90, "{all:?}");
    let not_tried = NOT_TRIED.iter().flat_map(|(_, flags)| flags.iter().map(|&flag| flag.to_owned()));
    let owed: BTreeSet<String> = all.difference(&not_tried.collect()).cloned().collect();
    for (form, rows) in [("together", together::rows()), ("alone", alone::rows())] {
        let others = [together::by_tls(), recovery::rows()].concat();
        let tried = flags_of(rows.iter().flatten().chain(&others));
        assert_eq!(owed.difference(&tried).collect::<Vec<_>>(), [""; 0], "not tried {form}");
        assert_eq!(tried.difference(&owed).collect::<Vec<_>>(), [""; 0], "no flags of PerfTest, {form}");
    }
}

#[test]
fn many_flags_at_once_do_what_they_say() {
    Broker::start().judge(&together::rows(), AT_ONCE);
}

#[test]
fn each_flag_does_what_it_says() {
    if tries_every_flag_alone() {
        Broker::start().judge(&alone::rows(), AT_ONCE);
    }
}

#[test]
fn by_tls_it_moves_messages_too() {
    Broker::with_certificate(&Authority::new()).judge(&[together::by_tls()], AT_ONCE);
}
