//! A run that sends, from its first message to its report, whatever the protocol.

use crate::load::live::Live;
use crate::load::options::SendOptions;
use crate::load::progress::ProgressSink;
use crate::load::report::{SendReport, Setup};
use crate::load::sender::{SendLane, senders};
use crate::load::supervisor::Supervisor;
use crate::load::tally::SendTally;
use crate::machine::clock::Clock;

/// Sends over each thread's connections, which are open, and blocks until every send is answered or given up.
pub fn run_senders<L: SendLane>(
    options: SendOptions,
    clock: Clock,
    by_thread: Vec<(Vec<L>, L::Stamp)>,
    setup: Setup,
    sink: &dyn ProgressSink,
) -> SendReport {
    let what = format!("send {} to {}", options.run.topic, options.run.target);
    let total = options.run.count.filter(|_| options.run.seconds.is_none() && options.run.warm_up_seconds == 0.0);
    sink.begin(&what, options.run.seconds.map(|seconds| seconds + options.run.warm_up_seconds), total);

    let live = Live::default();
    let senders = senders(&options, clock, &live, by_thread, None);
    let workers = senders.into_iter().map(|sender| move || sender.run()).collect();
    let watched = Supervisor { clock, live: &live, sink, run: &options.run }.watch(workers);

    let mut tally = SendTally::default();
    for part in watched.parts {
        tally.add(part);
    }
    SendReport::new(options, setup, tally, watched.observed)
}
