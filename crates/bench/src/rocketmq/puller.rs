//! One consumer thread: keeps a pull in flight on every queue of its connections and measures what comes back.

use std::mem;

use client::link::{Link, pause, wait_and_fill};
use client::rocketmq::unique_key::numbers_of;
use format::properties::names;
use format::record::Record;

use crate::load::awaited::Awaited;
use crate::load::live::{Beat, Live};
use crate::load::options::ConsumeOptions;
use crate::load::tally::PullTally;
use crate::machine::clock::{Clock, SECOND_NS, thread_cpu_ns, wall_ms};
use crate::rocketmq::pull_lane::{BrokerCursors, PullLane, PullObserver, PullTerms, QueueCursor};
use crate::rocketmq::reply::words_of;

/// Longest wait: how soon a stop is noticed.
const WAIT_NS: u64 = SECOND_NS / 20;
const MS_NS: u64 = 1_000_000;

/// A consumer thread.
pub struct Puller<'a> {
    /// What to do.
    pub options: &'a ConsumeOptions,
    /// The run's clock.
    pub clock: Clock,
    /// Where to tell.
    pub live: &'a Live,
    /// Its connections.
    pub lanes: Vec<PullLane>,
    /// Whether brokers may hold a pull that finds nothing.
    pub suspend: bool,
    /// The sends of the messages, where they are the run's own.
    pub awaited: Option<&'a Awaited>,
}

struct Observer<'a> {
    awaited: Option<&'a Awaited>,
    tally: PullTally,
    beat: Beat,
    /// Measured messages that came for the first time since the others were told.
    came_first: u64,
    verify: bool,
    measure_from_ns: u64,
    now_ns: u64,
    now_wall_ms: u64,
}

impl Observer<'_> {
    const fn is_measuring(&self) -> bool {
        self.now_ns >= self.measure_from_ns
    }

    /// Holds a message against its send; tells whether the send belongs to the measurement, as far as it is still known.
    fn compare(&mut self, awaited: &Awaited, record: &Record<'_>) -> bool {
        let id = format::properties::find(record.properties, names::UNIQUE_KEY).and_then(numbers_of);
        let Some(send) = id.and_then(|id| awaited.times.find(id)) else {
            self.tally.unmatched += u64::from(self.is_measuring());
            return self.is_measuring();
        };
        if send.due_ns < self.measure_from_ns {
            return false;
        }
        let since = |ns: u64| self.now_ns.saturating_sub(ns);
        self.tally.due_to_consume.record(since(send.due_ns), 1);
        let is_before = send.answered_ns.is_none_or(|answered_ns| answered_ns > self.now_ns);
        self.tally.before_answer += u64::from(is_before);
        self.tally.answer_to_consume.record(send.answered_ns.map_or(0, since), 1);
        true
    }
}

impl PullObserver for Observer<'_> {
    fn message(&mut self, record: &Record<'_>, expected: i64) {
        self.tally.messages_in_all += 1;
        self.beat.messages += 1;
        let stored_ns = self.now_wall_ms.saturating_sub(record.store_timestamp.0) * MS_NS;
        self.beat.latency(stored_ns, 1);
        // A backlog of the warm-up is not the measurement's.
        let is_measured = match self.awaited {
            Some(awaited) => self.compare(awaited, record),
            None => self.is_measuring(),
        };
        if !is_measured {
            return;
        }
        let tally = &mut self.tally;
        self.beat.measured += 1;
        tally.messages += 1;
        tally.body_bytes += record.body.len() as u64;
        tally.last_ns = self.now_ns;
        tally.store_to_consume.record(stored_ns, 1);
        tally.born_to_consume.record(self.now_wall_ms.saturating_sub(record.born_timestamp.0) * MS_NS, 1);
        let is_behind = (record.queue_offset.0 as i64) < expected;
        self.came_first += u64::from(!is_behind);
        tally.out_of_order += u64::from(is_behind);
        tally.corrupt += u64::from(self.verify && !record.body_is_intact());
    }

    fn pulled(&mut self, found: bool) {
        if self.is_measuring() {
            self.tally.pulls_found += u64::from(found);
            self.tally.pulls_empty += u64::from(!found);
        }
    }

    fn refused(&mut self, code: i32, frame: &[u8]) {
        self.beat.refused += 1;
        if self.is_measuring() {
            self.tally.refusals.record(code, 1, || words_of(code, frame));
        }
    }

    fn moved(&mut self) {
        self.tally.moved += 1;
    }

    fn given_up(&mut self, cursor: &QueueCursor, reason: &str) {
        let QueueCursor { group, topic, queue, .. } = cursor;
        self.tally.faults.push(format!("queue {queue} of {topic} and group {group}: {reason}"));
    }
}

impl Puller<'_> {
    /// Consumes, and tells what came and how far each queue was read.
    pub fn run(mut self) -> (PullTally, Vec<BrokerCursors>) {
        let options = self.options;
        let mut end_ns = options.run.end_ns();
        let terms = PullTerms { options, suspend: self.suspend };
        let mut observer = Observer {
            awaited: self.awaited,
            tally: PullTally::default(),
            beat: Beat::default(),
            came_first: 0,
            verify: options.verify,
            measure_from_ns: options.run.measure_from_ns(),
            now_ns: 0,
            now_wall_ms: 0,
        };
        let mut readable = Vec::new();
        loop {
            let now_ns = self.clock.now_ns();
            if self.live.stop_requested() {
                end_ns = end_ns.min(now_ns);
            }
            let enough = options.run.count.is_some_and(|count| self.live.measured() >= count);
            let done = self.lanes.iter().all(PullLane::is_done);
            if enough || done || self.is_over(end_ns, now_ns) {
                break;
            }
            let mut wake_ns = now_ns + WAIT_NS;
            if now_ns < end_ns {
                wake_ns = wake_ns.min(end_ns);
            }
            for lane in &mut self.lanes {
                wake_ns = wake_ns.min(lane.issue(&terms, now_ns).unwrap_or(u64::MAX));
            }
            let mut links: Vec<&mut Link> = self.lanes.iter_mut().map(|lane| &mut lane.link).collect();
            if wait_and_fill(&mut links, wake_ns.saturating_sub(now_ns), &mut readable).is_err() {
                pause();
            }
            for (lane, _) in self.lanes.iter_mut().zip(&readable).filter(|(_, readable)| **readable) {
                observer.now_ns = self.clock.now_ns();
                observer.now_wall_ms = wall_ms();
                lane.settle(&terms, observer.now_ns, &mut observer);
            }
            if let Some(awaited) = self.awaited.filter(|_| observer.came_first > 0) {
                awaited.arrived(mem::take(&mut observer.came_first), observer.now_ns);
            }
            let in_flight = self.lanes.iter().map(PullLane::in_flight).sum();
            self.live.add(&mut observer.beat, in_flight);
        }
        let Observer { mut tally, mut beat, .. } = observer;
        self.live.add(&mut beat, 0);
        tally.faults.extend(self.lanes.iter().filter_map(|lane| lane.link.fault()));
        tally.cpu_ns = thread_cpu_ns();
        (tally, self.lanes.into_iter().map(PullLane::into_cursors).collect())
    }

    /// Whether the time is over and nothing more is to come.
    fn is_over(&self, end_ns: u64, now_ns: u64) -> bool {
        let is_over = |awaited: &Awaited| awaited.is_over(end_ns, now_ns);
        now_ns >= end_ns && self.awaited.is_none_or(is_over)
    }
}
