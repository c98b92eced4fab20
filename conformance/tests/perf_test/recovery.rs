//! Runs whose broker is killed or stopped while they send and receive.

use std::time::Duration;

use conformance::perf_test::{Counter, Outcome};
use conformance::sluice::Sluice;

use crate::run::{Broker, Run, ending};

const LIMIT: Duration = Duration::from_secs(60);

pub fn rows() -> Vec<Run> {
    vec![
        ending("Reached time limit", "-cri 1 -u back -ad false -f persistent -c 100 -r 200 -z 10"),
        ending("", "-dcr -y 0 -u gone -ad false -f persistent -c 100 -r 200 -z 30"),
    ]
}

/// Makes the runs over one broker that `end` ends once they are under way.
fn over(end: impl FnOnce(&mut Sluice)) -> Vec<Outcome> {
    let mut broker = Broker::start();
    let rows = rows();
    let mut running: Vec<_> =
        rows.iter().map(|run| broker.target.begin(&run.flags.replace([' ', '.'], ""), run)).collect();
    running.iter_mut().for_each(|run| run.wait_for(LIMIT, "time 2."));
    broker.restart(end);
    running.into_iter().map(|run| run.end(LIMIT)).collect()
}

/// Who comes back goes on as if nothing had been, its confirms and its consumers too.
fn goes_on(outcome: &Outcome) {
    assert_eq!((outcome.is_success, outcome.why_it_stopped()), (true, "Reached time limit"), "{}", outcome.said);
    assert_eq!(outcome.count(Counter::Nacked), 0, "{}", outcome.said);
    for counter in [Counter::Sent, Counter::Confirmed, Counter::Received] {
        assert!(outcome.count_after(6.0, counter) > 200, "{counter:?}: {}", outcome.said);
    }
    // All that was confirmed came, also what was confirmed just before the end; some of it twice.
    assert!(outcome.count(Counter::Received) + 10 >= outcome.count(Counter::Confirmed), "{}", outcome.said);
}

#[test]
fn after_a_kill_those_who_are_to_come_back_go_on_and_others_end() {
    let outcomes = over(Sluice::kill);
    goes_on(&outcomes[0]);
    assert!(outcomes[1].why_it_stopped().starts_with("Error in producer ("), "{}", outcomes[1].said);
    assert_eq!(outcomes[1].count_after(6.0, Counter::Sent), 0, "{}", outcomes[1].said);
}

#[test]
fn after_a_stop_those_who_are_to_come_back_go_on_and_others_are_told_why_they_end() {
    let outcomes = over(|sluice| assert!(sluice.stop().success()));
    goes_on(&outcomes[0]);
    let why = outcomes[1].why_it_stopped();
    assert!(why.contains("reply-code=320, reply-text=CONNECTION_FORCED"), "{}", outcomes[1].said);
    assert_eq!(outcomes[1].count_after(6.0, Counter::Sent), 0, "{}", outcomes[1].said);
}
