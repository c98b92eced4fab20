//! One consumer thread of an AMQP run: takes in what its connections bring, and finishes what takes its time when that is over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use client::link::{Link, pause, wait_and_fill};

use crate::amqp::deliver_lane::{DeliverLane, Terms};
use crate::amqp::observer::Observer;
use crate::load::awaited::Awaited;
use crate::load::live::Live;
use crate::load::options::ConsumeOptions;
use crate::load::tally::PullTally;
use crate::machine::clock::{Clock, SECOND_NS, thread_cpu_ns};

/// Longest wait: how soon a stop is noticed.
const WAIT_NS: u64 = SECOND_NS / 20;
/// How long a broker has to end the connection.
const END_WITHIN_NS: u64 = 5 * SECOND_NS;

/// When a run is over before its time, or after it.
#[derive(Clone, Copy, Debug)]
pub enum Until<'a> {
    /// Never.
    Time,
    /// Before, once so many have come as were there.
    Empty(&'a Awaited),
    /// After, when all have come that were sent.
    AllCame(&'a Awaited),
}

/// A consumer thread.
pub struct Consumer<'a> {
    /// What to do.
    pub options: &'a ConsumeOptions,
    /// How.
    pub terms: Terms,
    /// The run's clock.
    pub clock: Clock,
    /// Where to tell.
    pub live: &'a Live,
    /// Its connections.
    pub lanes: Vec<DeliverLane>,
    /// What it has seen.
    pub observer: Observer<'a>,
    /// When it ends.
    pub until: Until<'a>,
}

/// When which channel of which lane is done, the next first.
type Timers = BinaryHeap<Reverse<(u64, usize, u32)>>;

impl Consumer<'_> {
    /// Consumes, and tells what came.
    pub fn run(mut self) -> PullTally {
        for lane in &mut self.lanes {
            lane.start(self.terms);
        }
        let (mut timers, mut readable) = (Timers::new(), Vec::new());
        let mut end_ns = self.options.run.end_ns();
        loop {
            let now_ns = self.clock.now_ns();
            self.observer.set_time(now_ns);
            if self.live.stop_requested() {
                end_ns = end_ns.min(now_ns);
            }
            let enough = self.options.run.count.is_some_and(|count| self.live.measured() >= count);
            let is_open = self.lanes.iter().any(DeliverLane::is_open);
            if enough || !is_open || self.is_over(end_ns, now_ns) {
                break;
            }
            self.finish_due(&mut timers, now_ns);
            let mut wake_ns = now_ns + WAIT_NS;
            if now_ns < end_ns {
                wake_ns = wake_ns.min(end_ns);
            }
            if let Some(Reverse((next_ns, ..))) = timers.peek() {
                wake_ns = wake_ns.min(*next_ns);
            }
            self.wait(wake_ns.saturating_sub(now_ns), &mut readable);
            self.hear(&mut timers, &readable);
            let (handled, now_ns) = (self.observer.take_handled(), self.observer.now_ns());
            if let (Until::Empty(awaited) | Until::AllCame(awaited), 1..) = (self.until, handled) {
                awaited.arrived(handled, now_ns);
            }
            let waiting = self.lanes.iter().map(DeliverLane::waiting).sum();
            self.live.add(&mut self.observer.beat, waiting);
        }
        self.live.add(&mut self.observer.beat, 0);
        self.end(&mut readable);
        let mut tally = self.observer.tally;
        tally.faults.extend(self.lanes.iter().filter_map(DeliverLane::fault));
        tally.cpu_ns = thread_cpu_ns();
        tally
    }

    fn is_over(&self, end_ns: u64, now_ns: u64) -> bool {
        match self.until {
            Until::Time => now_ns >= end_ns,
            Until::Empty(awaited) => now_ns >= end_ns || awaited.is_over(0, now_ns),
            Until::AllCame(awaited) => now_ns >= end_ns && awaited.is_over(end_ns, now_ns),
        }
    }

    /// Finishes the messages whose time is over.
    fn finish_due(&mut self, timers: &mut Timers, now_ns: u64) {
        while let Some(&Reverse((at_ns, lane, channel))) = timers.peek()
            && at_ns <= now_ns
        {
            timers.pop();
            let Some(its) = self.lanes.get_mut(lane) else { continue };
            if let Some((next_ns, channel)) = its.finish(self.terms, &mut self.observer, (at_ns, channel)) {
                timers.push(Reverse((next_ns, lane, channel)));
            }
        }
    }

    fn wait(&mut self, timeout_ns: u64, readable: &mut Vec<bool>) {
        for lane in &mut self.lanes {
            lane.link().flush();
        }
        let mut links: Vec<&mut Link> = self.lanes.iter_mut().map(DeliverLane::link).collect();
        if wait_and_fill(&mut links, timeout_ns, readable).is_err() {
            pause();
        }
    }

    fn hear(&mut self, timers: &mut Timers, readable: &[bool]) {
        let Self { lanes, observer, clock, terms, .. } = self;
        let with_news = lanes.iter_mut().enumerate().zip(readable).filter(|(_, readable)| **readable);
        for ((number, lane), _) in with_news {
            observer.set_time(clock.now_ns());
            lane.hear(*terms, observer, |(at_ns, channel)| timers.push(Reverse((at_ns, number, channel))));
        }
    }

    /// Acknowledges what was handled and ends the connections in order, so that brokers have heard all of it.
    fn end(&mut self, readable: &mut Vec<bool>) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.is_open()) {
            lane.close(self.terms);
        }
        let until_ns = self.clock.now_ns() + END_WITHIN_NS;
        while self.lanes.iter().any(DeliverLane::is_open) && self.clock.now_ns() < until_ns {
            self.wait(WAIT_NS, readable);
            for lane in self.lanes.iter_mut().filter(|lane| lane.is_open()) {
                lane.hear_end();
            }
        }
    }
}
