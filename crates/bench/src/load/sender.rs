//! One generator thread: keeps the window of each of its connections full, or follows the timetable.
//!
//! A round: write what may be written, wait for answers, read and settle them. The clock is read a few times a round,
//! whatever the number of messages in it. How a send looks and what an answer says is its lanes' to know.

use client::link::{Link, pause, wait_and_fill};
use client::rocketmq::unique_key::IdNumbers;

use crate::load::answer_times::AnswerTimes;
use crate::load::live::{Beat, Live};
use crate::load::options::SendOptions;
use crate::load::schedule::Schedule;
use crate::load::tally::SendTally;
use crate::machine::clock::{Clock, SECOND_NS, seconds_to_ns, thread_cpu_ns, wall_ms};

/// Bytes of sends put together before they are written.
pub const CHUNK_SIZE: usize = 256 * 1024;
/// Longest wait: how soon a stop is noticed and unanswered sends are looked for.
const WAIT_NS: u64 = SECOND_NS / 20;
/// How long sends that were due before the end may still go out after it.
const GRACE_NS: u64 = SECOND_NS / 10;

/// What the sends of one thread are told apart by.
pub trait SendStamp {
    /// It is this late, by the wall clock and by the run's.
    fn set_time(&mut self, wall_ms: u64, now_ns: u64);
}

/// A send that was put into the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Its bytes.
    pub bytes: u64,
    /// What tells it apart.
    pub id: IdNumbers,
}

/// An answer to a send.
pub struct Answered<'a> {
    /// When the send was due.
    pub due_ns: u64,
    /// The counter that tells the send apart.
    pub counter: u16,
    /// If it was refused: with which code, and what that says to people.
    pub refusal: Option<(i32, RefusalWords<'a>)>,
}

/// The name of a refusal's code, and the broker's words; asked for once a code.
pub type RefusalWords<'a> = &'a dyn Fn() -> (&'static str, String);

/// A connection that sends, with what is in flight on it.
pub trait SendLane: Send {
    /// See there.
    type Stamp: SendStamp + Send;

    /// The connection.
    fn link(&mut self) -> &mut Link;

    /// Whether there is room for one more send.
    fn takes_more(&mut self) -> bool;

    /// Puts one send into the buffer, due at `due_ns`; `None` if there is no room.
    fn append(&mut self, due_ns: u64, now_ns: u64, stamp: &mut Self::Stamp) -> Option<Appended>;

    /// Tells every answer among what was read.
    fn settle(&mut self, answered: &mut dyn FnMut(Answered<'_>));

    /// Gives up what was sent at or before `until_ns`: tells when each was due.
    fn expire(&mut self, until_ns: u64, given_up: &mut dyn FnMut(u64));

    /// Sends in flight.
    fn in_flight(&self) -> usize;

    /// Nothing more is to be sent: ends what can be ended, and tells whether there is nothing more to wait for. What is overdue is not
    /// waited for.
    fn end(&mut self, is_overdue: bool) -> bool;

    /// What went wrong with the connection.
    fn faults(&mut self) -> Vec<String> {
        self.link().fault().into_iter().collect()
    }
}

/// A generator thread.
pub struct Sender<'a, L: SendLane> {
    /// What to do.
    pub options: &'a SendOptions,
    /// The run's clock.
    pub clock: Clock,
    /// Where to tell.
    pub live: &'a Live,
    /// Its connections.
    pub lanes: Vec<L>,
    /// What marks its sends.
    pub stamp: L::Stamp,
    /// Sends it may make in the measurement; without a count, no bound.
    pub sends_left: u64,
    /// The timetable of a paced run.
    pub schedule: Option<Schedule>,
    /// Where it notes when sends were due and answered, for whoever receives their messages.
    pub times: Option<&'a AnswerTimes>,
}

/// A generator for each thread's connections, with the stamp of its sends.
pub fn senders<'a, L: SendLane>(
    options: &'a SendOptions,
    clock: Clock,
    live: &'a Live,
    by_thread: Vec<(Vec<L>, L::Stamp)>,
    times: Option<&'a AnswerTimes>,
) -> Vec<Sender<'a, L>> {
    let threads = by_thread.len();
    let sender = |(thread, (lanes, stamp))| {
        let schedule = Schedule::new(clock.now_ns(), options.pace.max(1), options.batch, thread, threads);
        let schedule = (options.pace > 0).then_some(schedule);
        let sends_left = sends_of(options, thread, threads);
        Sender { options, clock, live, lanes, stamp, sends_left, schedule, times }
    };
    by_thread.into_iter().enumerate().map(sender).collect()
}

/// The sends of one thread: its share of the count, whole batches.
fn sends_of(options: &SendOptions, thread: usize, threads: usize) -> u64 {
    let Some(count) = options.run.count else { return u64::MAX };
    let sends = count.div_ceil(options.batch as u64);
    let (share, rest) = (sends / threads as u64, sends % threads as u64);
    share + u64::from((thread as u64) < rest)
}

struct State<'a> {
    times: Option<&'a AnswerTimes>,
    tally: SendTally,
    beat: Beat,
    messages_per_send: u64,
    measure_from_ns: u64,
    end_ns: u64,
    answer_timeout_ns: u64,
    next_lane: usize,
    sends_left: u64,
}

impl<L: SendLane> Sender<'_, L> {
    /// Sends, drains, and tells what became of everything.
    pub fn run(mut self) -> SendTally {
        let mut state = State {
            times: self.times,
            tally: SendTally::default(),
            beat: Beat::default(),
            messages_per_send: self.options.batch as u64,
            measure_from_ns: self.options.run.measure_from_ns(),
            end_ns: self.options.run.end_ns(),
            answer_timeout_ns: seconds_to_ns(self.options.answer_timeout_seconds),
            next_lane: 0,
            sends_left: self.sends_left,
        };
        self.send_and_drain(&mut state);
        for lane in &mut self.lanes {
            lane.expire(u64::MAX, &mut |due_ns| state.unanswered(due_ns));
        }
        if let Some(schedule) = &self.schedule {
            let overdue = schedule.overdue(state.end_ns).min(state.sends_left);
            state.tally.unsent = overdue * state.messages_per_send;
        }
        self.live.add(&mut state.beat, 0);
        state.tally.faults = self.lanes.iter_mut().flat_map(SendLane::faults).collect();
        state.tally.cpu_ns = thread_cpu_ns();
        state.tally
    }

    fn send_and_drain(&mut self, state: &mut State<'_>) {
        let mut readable = Vec::new();
        let mut drain_until_ns = None;
        let mut swept_ns = 0;
        loop {
            let now_ns = self.clock.now_ns();
            self.stamp.set_time(wall_ms(), now_ns);
            let mut timeout_ns = WAIT_NS;
            if drain_until_ns.is_none() && self.may_send(state, now_ns) {
                timeout_ns = self.issue(state, now_ns);
            } else {
                state.end_ns = state.end_ns.min(now_ns);
                let until_ns = *drain_until_ns.get_or_insert(now_ns + state.answer_timeout_ns);
                let is_overdue = now_ns >= until_ns;
                let mut have_ended = true;
                for lane in &mut self.lanes {
                    have_ended &= lane.end(is_overdue);
                }
                if have_ended {
                    return;
                }
            }
            for lane in &mut self.lanes {
                lane.link().flush();
            }
            if self.options.one_way {
                state.tally.last_ns = self.clock.now_ns();
            }
            let mut links: Vec<&mut Link> = self.lanes.iter_mut().map(SendLane::link).collect();
            if wait_and_fill(&mut links, timeout_ns, &mut readable).is_err() {
                pause();
            }
            self.settle(state, &readable);
            if now_ns >= swept_ns + WAIT_NS {
                swept_ns = now_ns;
                self.sweep(state, now_ns);
            }
            let in_flight = self.lanes.iter().map(SendLane::in_flight).sum();
            self.live.add(&mut state.beat, in_flight);
        }
    }

    fn may_send(&mut self, state: &State<'_>, now_ns: u64) -> bool {
        let in_time = match &self.schedule {
            Some(schedule) => schedule.next_due_ns() < state.end_ns && now_ns < state.end_ns.saturating_add(GRACE_NS),
            None => now_ns < state.end_ns,
        };
        let open = self.lanes.iter_mut().any(|lane| lane.link().is_open());
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
            // Before the wait, which is for answers alone once nothing waits to be written.
            lane.link().flush();
            if !lane.link().is_flushed() {
                continue;
            }
            while state.sends_left > 0 && has_chunk_room(lane) {
                let Some(appended) = lane.append(now_ns, now_ns, &mut self.stamp) else { break };
                state.sent(appended, now_ns, one_way);
            }
            lane.link().flush();
            more |= lane.link().is_flushed() && has_chunk_room(lane);
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
            let Some(at) = lane.into_iter().find(|&at| has_chunk_room(&mut self.lanes[at])) else {
                return WAIT_NS;
            };
            let Some(appended) = self.lanes[at].append(due_ns, now_ns, &mut self.stamp) else { return WAIT_NS };
            schedule.advance();
            state.next_lane = at;
            state.tally.lag_max_ns = state.tally.lag_max_ns.max(now_ns - due_ns);
            state.sent(appended, due_ns, one_way);
        }
    }

    fn settle(&mut self, state: &mut State<'_>, readable: &[bool]) {
        for (lane, _) in self.lanes.iter_mut().zip(readable).filter(|(_, readable)| **readable) {
            let now_ns = self.clock.now_ns();
            lane.settle(&mut |answered| state.answered(&answered, now_ns));
        }
    }

    /// Gives up what has waited too long, and everything of a broken connection.
    fn sweep(&mut self, state: &mut State<'_>, now_ns: u64) {
        for lane in &mut self.lanes {
            let until_ns =
                if lane.link().is_open() { now_ns.checked_sub(state.answer_timeout_ns) } else { Some(u64::MAX) };
            if let Some(until_ns) = until_ns {
                lane.expire(until_ns, &mut |due_ns| state.unanswered(due_ns));
            }
        }
    }
}

/// Whether the next write of `lane` is not large enough yet, and there is room for one more send.
fn has_chunk_room(lane: &mut impl SendLane) -> bool {
    lane.link().is_open() && lane.link().out().len() < CHUNK_SIZE && lane.takes_more()
}

impl State<'_> {
    fn sent(&mut self, Appended { bytes, id }: Appended, due_ns: u64, one_way: bool) {
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

    fn answered(&mut self, answered: &Answered<'_>, now_ns: u64) {
        let Answered { due_ns, counter, refusal } = *answered;
        let messages = self.messages_per_send;
        if let Some(times) = self.times {
            times.answered(counter, now_ns);
        }
        let latency_ns = now_ns.saturating_sub(due_ns);
        let measured = due_ns >= self.measure_from_ns;
        if measured {
            self.tally.last_ns = now_ns;
        }
        if let Some((code, words)) = refusal {
            self.beat.refused += messages;
            if measured {
                self.tally.refusals.record(code, messages, words);
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
