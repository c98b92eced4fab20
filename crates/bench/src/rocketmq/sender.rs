//! One generator thread: keeps the window of each of its connections full, or follows the timetable.
//!
//! A round: write what may be written, wait for answers, read and settle them. The clock is read a few times a round,
//! whatever the number of messages in it.

use std::sync::Arc;

use wire::rocketmq::code::response::SUCCESS;

use crate::load::answer_times::{AnswerTimes, IdNumbers};
use crate::load::link::{Link, pause, wait_and_fill};
use crate::load::live::{Beat, Live};
use crate::load::options::SendOptions;
use crate::load::schedule::Schedule;
use crate::load::tally::SendTally;
use crate::machine::clock::{Clock, SECOND_NS, seconds_to_ns, thread_cpu_ns, wall_ms};
use crate::rocketmq::reply;
use crate::rocketmq::template::Template;
use crate::rocketmq::unique_key::Stamp;
use crate::rocketmq::window::{Settled, Window};

/// Bytes of sends put together before they are written.
const CHUNK_SIZE: usize = 256 * 1024;
/// Longest wait: how soon a stop is noticed and unanswered sends are looked for.
const WAIT_NS: u64 = SECOND_NS / 20;
/// How long sends that were due before the end may still go out after it.
const GRACE_NS: u64 = SECOND_NS / 10;

/// A connection with its window.
#[derive(Debug)]
pub struct SendLane {
    link: Link,
    /// Each send in flight with the counter in its id.
    window: Window<u16>,
    template: Arc<Template>,
    /// Number of the next send.
    next: usize,
}

impl SendLane {
    /// A lane whose first send has the number `first`: it says to which queue it goes.
    pub fn new(link: Link, window: usize, template: Arc<Template>, first: usize) -> Self {
        Self { link, window: Window::new(window), template, next: first }
    }

    /// Puts one send into the buffer; returns its bytes, or `None` if the window is full.
    fn append(&mut self, due_ns: u64, now_ns: u64, one_way: bool, stamp: &mut Stamp) -> Option<u64> {
        let counter = stamp.next_numbers().counter;
        let opaque =
            if one_way { crate::rocketmq::window::OPAQUE_BASE } else { self.window.take(due_ns, now_ns, counter)? };
        let before = self.link.out().len();
        self.template.append(self.link.out(), self.next, opaque, stamp);
        self.next = self.next.wrapping_add(1);
        Some((self.link.out().len() - before) as u64)
    }

    fn takes_more(&mut self, one_way: bool) -> bool {
        self.link.is_open() && self.link.out().len() < CHUNK_SIZE && (one_way || self.window.has_room())
    }

    fn is_done(&self, may_leave_bytes: bool) -> bool {
        !self.link.is_open() || (self.window.in_flight() == 0 && (may_leave_bytes || self.link.is_flushed()))
    }
}

/// A generator thread.
pub struct Sender<'a> {
    /// What to do.
    pub options: &'a SendOptions,
    /// The run's clock.
    pub clock: Clock,
    /// Where to tell.
    pub live: &'a Live,
    /// Its connections.
    pub lanes: Vec<SendLane>,
    /// Sends it may make in the measurement; without a count, no bound.
    pub sends_left: u64,
    /// The timetable of a paced run.
    pub schedule: Option<Schedule>,
    /// Where it notes when sends were due and answered, for whoever receives their messages.
    pub times: Option<&'a AnswerTimes>,
}

struct State<'a> {
    times: Option<&'a AnswerTimes>,
    tally: SendTally,
    beat: Beat,
    stamp: Stamp,
    messages_per_send: u64,
    measure_from_ns: u64,
    end_ns: u64,
    answer_timeout_ns: u64,
    next_lane: usize,
    sends_left: u64,
}

impl Sender<'_> {
    /// Sends, drains, and tells what became of everything.
    pub fn run(mut self) -> SendTally {
        let mut state = State {
            times: self.times,
            tally: SendTally::default(),
            beat: Beat::default(),
            stamp: Stamp::new(wall_ms()),
            messages_per_send: self.options.batch as u64,
            measure_from_ns: self.options.run.measure_from_ns(),
            end_ns: self.options.run.end_ns(),
            answer_timeout_ns: seconds_to_ns(self.options.answer_timeout_seconds),
            next_lane: 0,
            sends_left: self.sends_left,
        };
        self.send_and_drain(&mut state);
        for lane in &mut self.lanes {
            lane.window.expire(u64::MAX, |request| state.unanswered(request.due_ns));
        }
        if let Some(schedule) = &self.schedule {
            let overdue = schedule.overdue(state.end_ns).min(state.sends_left);
            state.tally.unsent = overdue * state.messages_per_send;
        }
        self.live.add(&mut state.beat, 0);
        state.tally.faults = self.lanes.iter().filter_map(|lane| lane.link.fault()).collect();
        state.tally.cpu_ns = thread_cpu_ns();
        state.tally
    }

    fn send_and_drain(&mut self, state: &mut State<'_>) {
        let mut readable = Vec::new();
        let mut drain_until_ns = None;
        let mut swept_ns = 0;
        loop {
            let now_ns = self.clock.now_ns();
            state.stamp.set_time(wall_ms());
            let mut timeout_ns = WAIT_NS;
            if drain_until_ns.is_none() && self.may_send(state, now_ns) {
                timeout_ns = self.issue(state, now_ns);
            } else {
                state.end_ns = state.end_ns.min(now_ns);
                let until_ns = *drain_until_ns.get_or_insert(now_ns + state.answer_timeout_ns);
                if self.lanes.iter().all(|lane| lane.is_done(now_ns >= until_ns)) {
                    return;
                }
            }
            for lane in &mut self.lanes {
                lane.link.flush();
            }
            if self.options.one_way {
                state.tally.last_ns = self.clock.now_ns();
            }
            let mut links: Vec<&mut Link> = self.lanes.iter_mut().map(|lane| &mut lane.link).collect();
            if wait_and_fill(&mut links, timeout_ns, &mut readable).is_err() {
                pause();
            }
            self.settle(state, &readable);
            if now_ns >= swept_ns + WAIT_NS {
                swept_ns = now_ns;
                self.sweep(state, now_ns);
            }
            let in_flight = self.lanes.iter().map(|lane| lane.window.in_flight()).sum();
            self.live.add(&mut state.beat, in_flight);
        }
    }

    fn may_send(&self, state: &State<'_>, now_ns: u64) -> bool {
        let in_time = match &self.schedule {
            Some(schedule) => schedule.next_due_ns() < state.end_ns && now_ns < state.end_ns.saturating_add(GRACE_NS),
            None => now_ns < state.end_ns,
        };
        let open = self.lanes.iter().any(|lane| lane.link.is_open());
        in_time && open && state.sends_left > 0 && !self.live.stop_requested()
    }

    /// Puts sends into the connections' buffers and writes them; returns how long to wait for answers at most.
    fn issue(&mut self, state: &mut State<'_>, now_ns: u64) -> u64 {
        if self.schedule.is_some() { self.issue_due(state, now_ns) } else { self.issue_all(state, now_ns) }
    }

    fn issue_all(&mut self, state: &mut State<'_>, now_ns: u64) -> u64 {
        let one_way = self.options.one_way;
        let mut more = false;
        for lane in &mut self.lanes {
            if !lane.link.is_flushed() {
                continue;
            }
            while state.sends_left > 0 && lane.takes_more(one_way) {
                let id = state.stamp.next_numbers();
                let Some(bytes) = lane.append(now_ns, now_ns, one_way, &mut state.stamp) else { break };
                state.sent(id, now_ns, one_way, bytes);
            }
            lane.link.flush();
            more |= lane.link.is_flushed() && lane.takes_more(one_way);
        }
        if more { 0 } else { WAIT_NS }
    }

    fn issue_due(&mut self, state: &mut State<'_>, now_ns: u64) -> u64 {
        let one_way = self.options.one_way;
        let Some(schedule) = &mut self.schedule else { return WAIT_NS };
        // What is due at once goes out on one connection, with one write.
        state.next_lane += 1;
        loop {
            let due_ns = schedule.next_due_ns();
            if due_ns > now_ns {
                return (due_ns - now_ns).min(WAIT_NS);
            }
            if state.sends_left == 0 || due_ns >= state.end_ns {
                return 0;
            }
            let count = self.lanes.len();
            let lane = (0..count).map(|step| (state.next_lane + step) % count);
            let Some(at) = lane.into_iter().find(|&at| self.lanes[at].takes_more(one_way)) else {
                return WAIT_NS;
            };
            let id = state.stamp.next_numbers();
            let Some(bytes) = self.lanes[at].append(due_ns, now_ns, one_way, &mut state.stamp) else { return WAIT_NS };
            schedule.advance();
            state.next_lane = at;
            state.tally.lag_max_ns = state.tally.lag_max_ns.max(now_ns - due_ns);
            state.sent(id, due_ns, one_way, bytes);
        }
    }

    fn settle(&mut self, state: &mut State<'_>, readable: &[bool]) {
        for (lane, _) in self.lanes.iter_mut().zip(readable).filter(|(_, readable)| **readable) {
            let now_ns = self.clock.now_ns();
            let SendLane { link, window, .. } = lane;
            let mut problem = None;
            while let Some(frame) = reply::next_frame(link) {
                match reply::head(frame) {
                    Ok(Some(head)) => {
                        if let Some(settled) = window.settle(head.opaque as u32) {
                            state.answered(settled, now_ns, head.code, frame);
                        }
                    }
                    Ok(None) => {}
                    Err(error) => {
                        problem = Some(format!("what it answers is not RocketMQ's protocol: {error}"));
                        break;
                    }
                }
            }
            if let Some(problem) = problem {
                link.fail(problem);
            }
        }
    }

    /// Gives up what has waited too long, and everything of a broken connection.
    fn sweep(&mut self, state: &mut State<'_>, now_ns: u64) {
        for lane in &mut self.lanes {
            let until_ns =
                if lane.link.is_open() { now_ns.checked_sub(state.answer_timeout_ns) } else { Some(u64::MAX) };
            if let Some(until_ns) = until_ns {
                lane.window.expire(until_ns, |request| state.unanswered(request.due_ns));
            }
        }
    }
}

impl State<'_> {
    fn sent(&mut self, id: IdNumbers, due_ns: u64, one_way: bool, bytes: u64) {
        let messages = self.messages_per_send;
        self.tally.sent_in_all += messages;
        if let Some(times) = self.times {
            times.sent(id, due_ns);
        }
        if due_ns >= self.measure_from_ns {
            self.tally.sent += messages;
            self.tally.sent_bytes += bytes;
            self.sends_left -= 1;
        }
        if one_way {
            self.beat.messages += messages;
        }
    }

    fn answered(&mut self, settled: Settled<u16>, now_ns: u64, code: i32, frame: &[u8]) {
        let Settled { due_ns, note: counter } = settled;
        let messages = self.messages_per_send;
        if let Some(times) = self.times {
            times.answered(counter, now_ns);
        }
        let latency_ns = now_ns.saturating_sub(due_ns);
        let measured = due_ns >= self.measure_from_ns;
        if measured {
            self.tally.last_ns = now_ns;
        }
        if code != SUCCESS {
            self.beat.refused += messages;
            if measured {
                self.tally.refusals.record(code, messages, || reply::words_of(code, frame));
            }
            return;
        }
        self.beat.messages += messages;
        self.beat.latency(latency_ns, messages);
        if measured {
            self.tally.ok += messages;
            self.tally.latency.record(latency_ns, messages);
        }
    }

    fn unanswered(&mut self, due_ns: u64) {
        if due_ns >= self.measure_from_ns {
            self.tally.unanswered += self.messages_per_send;
        }
    }
}
