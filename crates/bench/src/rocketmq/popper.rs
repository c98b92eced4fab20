//! One thread of a run that pops: serves its connections until the run is over, then waits for the acknowledgements in flight.

use client::link::{Link, pause, wait_and_fill};

use crate::load::arrivals::Arrivals;
use crate::load::live::{Beat, Live};
use crate::load::pop_options::PopOptions;
use crate::load::pop_tally::PopTally;
use crate::machine::clock::{Clock, SECOND_NS, seconds_to_ns, thread_cpu_ns, wall_ms};
use crate::rocketmq::pop_account::PopAccount;
use crate::rocketmq::pop_lane::PopLane;

/// Longest wait: how soon a stop is noticed.
const WAIT_NS: u64 = SECOND_NS / 20;
/// At the end a pop that brings messages is waited for so long: they were handed out, and nobody else would acknowledge them. One that
/// the broker holds longer is left.
const POPS_DRAIN_NS: u64 = SECOND_NS;

/// A consumer thread.
pub struct Popper<'a> {
    /// What to do.
    pub options: &'a PopOptions,
    /// The run's clock.
    pub clock: Clock,
    /// Where to tell.
    pub live: &'a Live,
    /// Its connections.
    pub lanes: Vec<PopLane>,
    /// Which messages have come.
    pub arrivals: &'a Arrivals,
}

impl Popper<'_> {
    /// Pops and acknowledges, and tells what came of it.
    pub fn run(mut self) -> PopTally {
        let mut account = PopAccount {
            arrivals: self.arrivals,
            tally: PopTally::default(),
            beat: Beat::default(),
            verify: self.options.verify,
            measure_from_ns: self.options.run.measure_from_ns(),
            now_ns: 0,
            now_wall_ms: 0,
        };
        self.pop_and_drain(&mut account);
        for lane in &mut self.lanes {
            lane.end(&mut account);
        }
        self.live.add(&mut account.beat, 0);
        account.tally.cpu_ns = thread_cpu_ns();
        account.tally
    }

    fn pop_and_drain(&mut self, account: &mut PopAccount<'_>) {
        let options = self.options;
        let timeout_ns = seconds_to_ns(options.answer_timeout_seconds);
        let (mut readable, mut swept_ns, mut drained_from_ns) = (Vec::new(), 0, None);
        loop {
            account.now_ns = self.clock.now_ns();
            account.now_wall_ms = wall_ms();
            let mut wake_ns = account.now_ns + WAIT_NS;
            if drained_from_ns.is_some() || self.is_over(account.now_ns) {
                let waited_ns = account.now_ns - *drained_from_ns.get_or_insert(account.now_ns);
                let is_drained = |lane: &PopLane| lane.is_drained(waited_ns >= POPS_DRAIN_NS);
                if waited_ns >= timeout_ns.max(POPS_DRAIN_NS) || self.lanes.iter().all(is_drained) {
                    return;
                }
            } else {
                for lane in &mut self.lanes {
                    wake_ns = wake_ns.min(lane.issue(options, account).unwrap_or(u64::MAX));
                }
            }
            let mut links: Vec<&mut Link> = self.lanes.iter_mut().map(|lane| &mut lane.link).collect();
            // What could not be written at once is, as soon as there is room.
            links.iter_mut().filter(|link| !link.is_flushed()).for_each(|link| link.flush());
            if wait_and_fill(&mut links, wake_ns.saturating_sub(account.now_ns), &mut readable).is_err() {
                pause();
            }
            for (lane, _) in self.lanes.iter_mut().zip(&readable).filter(|(_, readable)| **readable) {
                account.now_ns = self.clock.now_ns();
                account.now_wall_ms = wall_ms();
                lane.settle(options, account);
            }
            if account.now_ns >= swept_ns + WAIT_NS {
                swept_ns = account.now_ns;
                self.lanes.iter_mut().for_each(|lane| lane.sweep(timeout_ns, account));
            }
            let in_flight = self.lanes.iter().map(PopLane::in_flight).sum();
            self.live.add(&mut account.beat, in_flight);
        }
    }

    /// Whether nobody pops any more.
    fn is_over(&self, now_ns: u64) -> bool {
        let enough = self.options.run.count.is_some_and(|count| self.live.measured() >= count);
        let done = self.lanes.iter().all(PopLane::is_done);
        enough || done || now_ns >= self.options.run.end_ns() || self.live.stop_requested()
    }
}
