//! Pops and notifications: answered at once if there is something, else when there is or the deadline comes.
//!
//! A pop takes from memory on the spot; what has to be read from the disk, and lanes that have to be made, are a job.

use std::time::Duration;

use base::limits::OUTPUT_BACKLOG_SIZE_MAX;
use base::{Monotonic, Refusal};
use broker::{Broker, HandOut, Holder, Taker, Wish};
use wire::rocketmq::code::response;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{self, Command};
use wire::rocketmq::pop::answer;
use wire::rocketmq::pop::header::{NotificationResponse, PopResponse};

use super::answer::{Answer, Asked, response_header};
use super::connection::{Connection, Done};
use super::context::Context;
use super::pop::{Kind, Pop};
use super::pop_lanes::{self, MadeLanes, PopLane};
use super::waits::{WAITING_SIZE, Waits};

/// Bytes that a pop from the disk is counted as unless it has taken more. As many as a connection may have jobs are within its bound.
const COLD_POP_SIZE: usize = OUTPUT_BACKLOG_SIZE_MAX / 64;

/// Bytes of a waiting pop's place at a lane.
const TAKER_SIZE: usize = 160;

/// What a job has done for a pop.
pub(super) struct PopOutcome {
    pop: Pop,
    since: Monotonic,
    result: Result<Had, Refusal>,
}

/// How far a job has come.
enum Had {
    /// Lanes: those that were made, too.
    Lanes(MadeLanes),
    /// Messages, of these lanes.
    Messages(Vec<PopLane>, Box<HandOut>),
    /// None yet of these lanes: it goes on where there is more room for them.
    Unread(Vec<PopLane>, Box<HandOut>),
}

/// A pop that waits for messages.
struct WaitingPop {
    pop: Pop,
    /// At its lanes: they go once it has taken, and have the next told if it did not take all.
    takers: Vec<Taker>,
}

/// The pops of one connection.
#[derive(Default)]
pub(super) struct Pops {
    waits: Waits<WaitingPop>,
    /// How many were tried: each begins at another queue.
    turn: usize,
}

impl Pops {
    /// Takes a request for messages.
    pub(super) fn pop(&mut self, command: &Command<'_>, asked: Asked, connection: &mut Connection) {
        let checked = connection.check_room().map_err(Answer::from).and_then(|()| {
            let Connection { broker, options, peer, now, readings, .. } = &mut *connection;
            Pop::of(command, asked, &Context { broker, options, peer, now: *now }, readings)
        });
        self.begin(checked, asked, connection);
    }

    /// Takes a request to be told of messages.
    pub(super) fn notify(&mut self, command: &Command<'_>, asked: Asked, connection: &mut Connection) {
        let Connection { broker, options, peer, now, readings, .. } = &mut *connection;
        let checked = Pop::of_notice(command, asked, &Context { broker, options, peer, now: *now }, readings);
        self.begin(checked, asked, connection);
    }

    fn begin(&mut self, checked: Result<Pop, Answer>, asked: Asked, connection: &mut Connection) {
        match checked {
            Ok(pop) => self.go_on(pop, connection),
            Err(answer) => connection.reply_with(asked, Ok(answer)),
        }
    }

    /// Takes from the lanes; by a job if these have to be made first.
    fn go_on(&mut self, pop: Pop, connection: &mut Connection) {
        let Connection { broker, readings, .. } = &mut *connection;
        let known = readings.find(pop.topic.as_str(), pop.group.as_str(), broker);
        match known.map(|reading| reading.pop_lanes.find(pop.lanes)) {
            Ok(Some(lanes)) => self.take(pop, lanes, connection),
            // A group that has not begun has all that is there; where it begins is for its first pop to say.
            Ok(None) if matches!(pop.kind, Kind::Notice { .. }) && pop_lanes::has_unbegun(&connection.broker, &pop) => {
                answer_notice(pop.asked, true, connection);
            }
            Ok(None) => {
                let (broker, now) = (connection.broker.clone(), connection.now);
                let since = now.monotonic;
                connection.run_job(COLD_POP_SIZE, move || {
                    let beginning = match pop.kind {
                        Kind::Messages { beginning, .. } => beginning,
                        Kind::Notice { .. } => broker::Beginning::First,
                    };
                    let names = (pop.topic.as_str(), pop.group.as_str());
                    let result = pop_lanes::make(&broker, names, pop.lanes, beginning).map(Had::Lanes);
                    // A group goes on where it began, also if the process is killed now.
                    let result = result.and_then(|made| broker.offsets.keep_changes(now).map(|_| made));
                    Done::Pop(Box::new(PopOutcome { pop, since, result }))
                });
            }
            Err(refusal) => connection.refuse(pop.asked, &refusal),
        }
    }

    fn take(&mut self, pop: Pop, mut lanes: Vec<PopLane>, connection: &mut Connection) {
        let (broker, now) = (connection.broker.clone(), connection.now);
        hear_resets(&pop, &lanes, &broker);
        let settings = connection.readings.find(pop.topic.as_str(), pop.group.as_str(), &broker);
        let settings = settings.and_then(|reading| reading.group(&broker, now).map(|(_, settings)| settings.clone()));
        let settings = match settings {
            Ok(settings) => settings,
            Err(refusal) => return connection.refuse(pop.asked, &refusal),
        };
        self.turn = self.turn.wrapping_add(1);
        let size_max = connection.options.fetch_size_max;
        let Some(mut hand_out) = pop.hand_out(&mut lanes, self.turn, &settings, size_max, &broker, now) else {
            return self.tell(pop, &lanes, connection);
        };
        match broker.leasing.hand_out_cached(&mut hand_out, now) {
            Ok(true) => self.settle(pop, &lanes, hand_out, connection),
            Ok(false) => read(pop, lanes, (now.monotonic, Box::new(hand_out)), connection),
            Err(refusal) => connection.refuse(pop.asked, &refusal),
        }
    }

    /// Goes on with a pop whose job is done.
    pub(super) fn finish(&mut self, PopOutcome { pop, since, result }: PopOutcome, connection: &mut Connection) {
        match result {
            Ok(Had::Lanes(made)) => {
                let Connection { broker, readings, .. } = &mut *connection;
                if let Ok(reading) = readings.find(pop.topic.as_str(), pop.group.as_str(), broker) {
                    reading.pop_lanes.note(&made);
                }
                self.take(pop, made.lanes, connection);
            }
            Ok(Had::Unread(lanes, hand_out)) => read(pop, lanes, (since, hand_out), connection),
            Ok(Had::Messages(lanes, hand_out)) => {
                let took_ms = connection.now.monotonic.ms_since(since);
                connection.broker.timings().cold_fetch.record(Duration::from_millis(took_ms), 1);
                self.settle(pop, &lanes, *hand_out, connection);
            }
            Err(refusal) => connection.refuse(pop.asked, &refusal),
        }
    }

    /// Answers with what was handed out, or waits.
    fn settle(&mut self, pop: Pop, lanes: &[PopLane], mut hand_out: HandOut, connection: &mut Connection) {
        give_up(&pop, &mut hand_out, connection);
        if hand_out.count() > 0 {
            note_fetched(&pop, lanes, &hand_out, connection);
            if pop.has_waited {
                connection.note_delivery(hand_out.pieces(), hand_out.count());
            }
            return answer_found(&pop, lanes, hand_out, connection);
        }
        self.wait_or(pop, lanes, connection, |pop, connection| {
            let code = if pop.has_waited { response::POLLING_TIMEOUT } else { response::PULL_NOT_FOUND };
            answer_nothing(pop.asked, code, connection);
        });
    }

    /// Says that there are messages, or waits.
    fn tell(&mut self, pop: Pop, lanes: &[PopLane], connection: &mut Connection) {
        if lanes.iter().any(|lane| lane.lane.has_ready(pop.is_in_order(), connection.now.monotonic)) {
            return answer_notice(pop.asked, true, connection);
        }
        self.wait_or(pop, lanes, connection, |pop, connection| answer_notice(pop.asked, false, connection));
    }

    fn wait_or(
        &mut self,
        pop: Pop,
        lanes: &[PopLane],
        connection: &mut Connection,
        end: impl FnOnce(Pop, &mut Connection),
    ) {
        match pop.wait_until.filter(|&until| until > connection.now.monotonic) {
            Some(deadline) => self.hold(pop, lanes, deadline, connection),
            None => end(pop, connection),
        }
    }

    /// Keeps a pop until there is something. What came in between is seen by looking again after registering.
    fn hold(&mut self, mut pop: Pop, lanes: &[PopLane], deadline: Monotonic, connection: &mut Connection) {
        let size = WAITING_SIZE + lanes.len() * TAKER_SIZE + pop.size();
        if !self.waits.has_place() || !self.waits.has_room(size) {
            return answer_nothing(pop.asked, response::POLLING_FULL, connection);
        }
        let number = self.waits.next_number();
        pop.has_waited = true;
        let credit = match &pop.kind {
            Kind::Messages { count_max, .. } => u32::try_from(*count_max).unwrap_or(u32::MAX),
            Kind::Notice { .. } => 1,
        };
        let (in_order, now) = (pop.is_in_order(), connection.now.monotonic);
        let wish = Wish { mailbox: connection.peer.mailbox.clone(), number, credit, priority: 0, in_order };
        let takers = lanes.iter().filter_map(|lane| lane.lane.wait(wish.clone())).collect();
        let is_due = lanes.iter().any(|lane| lane.lane.is_forgotten() || lane.lane.has_ready(in_order, now));
        self.waits.hold(number, WaitingPop { pop, takers }, (deadline, size), &connection.broker);
        if is_due {
            // Not at once: who publishes all the time would keep this thread here.
            self.waits.note_ready(number);
        }
    }

    fn resume(&mut self, WaitingPop { pop, takers }: WaitingPop, connection: &mut Connection) {
        let checked = {
            let Connection { broker, options, peer, now, readings, .. } = &mut *connection;
            pop.look_again(&Context { broker, options, peer, now: *now }, readings)
        };
        match checked {
            Ok(()) => self.go_on(pop, connection),
            Err(answer) => connection.reply_with(pop.asked, Ok(answer)),
        }
        drop(takers);
    }

    /// A pop was told of messages.
    pub(super) fn note_ready(&mut self, number: u64) {
        self.waits.note_ready(number);
    }

    /// Pops whose time is over are ready for their answer: a last look, and whatever it finds.
    pub(super) fn expire(&mut self, now: Monotonic) {
        self.waits.expire(now, |waiting| waiting.pop.wait_until = None);
    }

    /// Goes on with pops that are ready, as long as there is room for their answers; once with each, since one that finds nothing among much
    /// may be ready again at once. Those for whose answer there is no room have others told in their place.
    pub(super) fn resume_ready(&mut self, connection: &mut Connection) {
        for _ in 0..self.waits.ready_count() {
            if !connection.has_room_for_answers() {
                return self.waits.each_ready(|waiting| waiting.takers.clear());
            }
            let Some(waiting) = self.waits.take_ready(&connection.broker) else { return };
            self.resume(waiting, connection);
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        self.waits.has_ready()
    }

    /// When the next of them is due for an answer.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.waits.deadline()
    }

    /// Bytes that waiting pops take.
    pub(super) const fn size(&self) -> usize {
        self.waits.size()
    }

    /// The connection is gone: what it was told of goes to others.
    pub(super) fn stop_waiting(&mut self, broker: &Broker) {
        self.waits.clear(broker);
    }
}

/// Has what was handed out read by a job; `since` is when it went to the disk.
fn read(pop: Pop, lanes: Vec<PopLane>, (since, mut hand_out): (Monotonic, Box<HandOut>), connection: &mut Connection) {
    let (broker, now) = (connection.broker.clone(), connection.now);
    let size = COLD_POP_SIZE.max(hand_out.wanted_size());
    let work = move || {
        let outcome = broker.leasing.hand_out(&mut hand_out, size, now);
        let had = |is_whole| if is_whole { Had::Messages(lanes, hand_out) } else { Had::Unread(lanes, hand_out) };
        let result = outcome.map(had);
        Done::Pop(Box::new(PopOutcome { pop, since, result }))
    };
    connection.run_read(size, work);
}

/// Has what was handed out too often given up, by a job.
fn give_up(pop: &Pop, hand_out: &mut HandOut, connection: &mut Connection) {
    let doomed = hand_out.take_doomed();
    if doomed.is_empty() {
        return;
    }
    let (broker, group, now) = (connection.broker.clone(), pop.group.clone(), connection.now);
    connection.run_job(COLD_POP_SIZE, move || {
        broker.leasing.give_up(&group, doomed, now);
        Done::Nothing
    });
}

/// Resets are heard by whoever asks: the lanes begin where they were put.
fn hear_resets(pop: &Pop, lanes: &[PopLane], broker: &Broker) {
    for PopLane { lane, .. } in lanes {
        let _ = broker.offsets.take_reset(lane.names().0, pop.group.as_str(), lane.queue_id());
    }
}

/// Notes how far the group has come, for administrators.
fn note_fetched(pop: &Pop, lanes: &[PopLane], hand_out: &HandOut, connection: &mut Connection) {
    let Connection { broker, readings, .. } = &mut *connection;
    for given in hand_out.given() {
        let (Some(PopLane { lane, .. }), Some((last, _))) = (lanes.get(given.lane), given.messages.last()) else {
            continue;
        };
        let Some(topic) = broker.catalog.topic(lane.names().0) else { continue };
        let Ok(reading) = readings.find(lane.names().0, pop.group.as_str(), broker) else { continue };
        if let Some(fetched) = reading.fetched(&topic, &pop.group, broker) {
            fetched.advance(lane.queue_id(), last.after(1));
        }
    }
}

fn answer_found(pop: &Pop, lanes: &[PopLane], hand_out: HandOut, connection: &mut Connection) {
    if pop.asked.one_way {
        return;
    }
    let Kind::Messages { invisible_ms, attempt, .. } = &pop.kind else { return };
    let (mut starts, mut offsets, mut counts) = (String::new(), String::new(), String::new());
    for given in hand_out.given() {
        let (Some(PopLane { queue, .. }), Some((first, _))) = (lanes.get(given.lane), given.messages.first()) else {
            continue;
        };
        answer::put_start_offset(&mut starts, *queue, first.0 as i64);
        answer::put_message_offsets(&mut offsets, *queue, given.messages.iter().map(|(offset, _)| offset.0 as i64));
        if attempt.is_some() {
            for (offset, deliveries) in &given.messages {
                let deliveries = i32::try_from(*deliveries).unwrap_or(i32::MAX);
                answer::put_message_order_count(&mut counts, *queue, offset.0 as i64, deliveries);
            }
        }
    }
    let Holder::Grant(name, _) = hand_out.wanted().holder else { return };
    let header = PopResponse {
        pop_timestamp: name.time_ms as i64,
        invisible_ms: *invisible_ms as i64,
        revive_queue_id: name.number as i32,
        rest_count: i64::try_from(hand_out.rest()).unwrap_or(i64::MAX),
        start_offset_info: Some(starts.into()),
        message_offset_info: Some(offsets.into()),
        order_count_info: attempt.is_some().then(|| counts.into()),
        ..PopResponse::default()
    };
    let Connection { output, scratch, .. } = connection;
    let fixed = response_header(pop.asked.opaque, response::SUCCESS, Some("FOUND"));
    frame::encode_head(scratch, pop.asked.form, &fixed, |sink| header.encode(sink), hand_out.size());
    output.push(scratch.split().freeze());
    hand_out.into_pieces().into_iter().for_each(|piece| output.push(piece));
}

/// An answer without messages has its numbers all the same: clients read them.
fn answer_nothing(asked: Asked, code: i32, connection: &mut Connection) {
    if asked.one_way {
        return;
    }
    let header = PopResponse::default();
    put(asked, code, &header, connection);
}

fn answer_notice(asked: Asked, has_message: bool, connection: &mut Connection) {
    if asked.one_way {
        return;
    }
    let header = NotificationResponse { has_message, polling_full: Some(false), ..NotificationResponse::default() };
    put(asked, response::SUCCESS, &header, connection);
}

fn put<'a>(asked: Asked, code: i32, header: &impl TypedHeader<'a>, connection: &mut Connection) {
    let Connection { output, scratch, .. } = connection;
    let fixed = response_header(asked.opaque, code, (code != response::SUCCESS).then(|| response::name(code)));
    frame::encode(scratch, asked.form, &fixed, |sink| header.encode(sink), &[]);
    output.push(scratch.split().freeze());
}
