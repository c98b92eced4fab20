//! Pulls: read at once if there is something, else wait for the queue or the deadline.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use base::limits::{OUTPUT_BACKLOG_SIZE_MAX, WAITING_FETCHES_PER_CONNECTION_MAX};
use base::{Monotonic, Refusal};
use broker::{Broker, FetchStatus, Fetched, Waiter};
use format::record;
use wire::rocketmq::code::response;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{self, Command};
use wire::rocketmq::header::PullResponse;

use super::answer::{Asked, response_header};
use super::connection::{Connection, Done};
use super::context::Context;
use super::pull::{MASTER_ID, Pull, PullOutcome, Source};

/// Bytes that a pull from the disk usually gives. As many as a connection may have jobs are within its bound.
const COLD_FETCH_SIZE: usize = OUTPUT_BACKLOG_SIZE_MAX / 64;

/// Bytes of a pull that waits, with its places in tables, beside its filter.
const WAITING_PULL_SIZE: usize = 512;

/// Bytes that the waiting pulls of a connection take at most: as many as it may have, with usual filters.
const WAITING_PULLS_SIZE_MAX: usize = 2 * WAITING_PULL_SIZE * WAITING_FETCHES_PER_CONNECTION_MAX;

/// A pull that waits for messages.
struct WaitingPull {
    pull: Pull,
    deadline: Monotonic,
    /// At its queue.
    _waiter: Waiter,
}

/// About what a pull that waits takes in memory.
const fn size_of_waiting(pull: &Pull) -> usize {
    WAITING_PULL_SIZE + pull.filter_size()
}

/// The pulls of one connection.
#[derive(Default)]
pub(super) struct Pulls {
    /// Those that wait for messages, by number. Boxed: of thousands of connections each has room for more than it has.
    waiting: HashMap<u64, Box<WaitingPull>>,
    /// Bytes that these take.
    waiting_size: usize,
    /// When they have to be answered.
    deadlines: BTreeSet<(Monotonic, u64)>,
    /// Those whose queue has grown or whose time is over, by number: each goes on once there is room for its answer.
    ready: VecDeque<u64>,
    last_number: u64,
}

impl Pulls {
    pub(super) fn pull(&mut self, command: &Command<'_>, asked: Asked, connection: &mut Connection) {
        let checked = connection.check_room().and_then(|()| {
            let Connection { broker, options, peer, now, readings, .. } = &mut *connection;
            Pull::of(command, asked, &Context { broker, options, peer, now: *now }, readings)
        });
        match checked {
            Ok((pull, source)) => self.go_on(pull, source, connection),
            Err(refusal) => connection.refuse(asked, &refusal),
        }
    }

    /// Goes on with a pull that has waited, by what is so now.
    fn look_again(&mut self, mut pull: Pull, connection: &mut Connection) {
        let Connection { broker, options, peer, now, readings, .. } = &mut *connection;
        match pull.look_again(&Context { broker, options, peer, now: *now }, readings) {
            Ok(source) => self.go_on(pull, source, connection),
            Err(refusal) => connection.refuse(pull.asked, &refusal),
        }
    }

    /// Answers with the reset that waits for who pulls, if there is one; else tries.
    fn go_on(&mut self, pull: Pull, source: Source, connection: &mut Connection) {
        match pull.reset(&connection.broker) {
            Some(offset) => {
                let queue = source.topic.queue(pull.queue);
                let (first, end) = queue.map_or((0, 0), |queue| (queue.first().0, queue.end().0));
                answer(pull.asked, response::PULL_OFFSET_MOVED, offset, (first as i64, end as i64), connection);
            }
            None => self.try_pull(pull, source, connection),
        }
    }

    /// Reads from memory; goes to the disk by a job, waits, or answers.
    fn try_pull(&mut self, pull: Pull, source: Source, connection: &mut Connection) {
        match connection.broker.fetcher.fetch_cached(&pull.fetch(&source)) {
            Ok(Some(fetched)) => self.settle(pull, &source, fetched, connection),
            Ok(None) => {
                let (broker, since) = (connection.broker.clone(), connection.now.monotonic);
                connection.run_job(COLD_FETCH_SIZE.min(pull.size_max), move || {
                    let result = broker.fetcher.fetch(&pull.fetch(&source));
                    Done::Pull(Box::new(PullOutcome { pull, source, since, result }))
                });
            }
            Err(refusal) => connection.refuse(pull.asked, &refusal),
        }
    }

    /// Goes on with a pull that is back from the disk.
    pub(super) fn finish(&mut self, outcome: PullOutcome, connection: &mut Connection) {
        let Connection { broker, options, peer, now, readings, .. } = &mut *connection;
        if outcome.pull.is_outdated(&Context { broker, options, peer, now: *now }, readings) {
            // What it has passed over may be wanted by now.
            return self.look_again(outcome.pull, connection);
        }
        match outcome.result {
            Ok(fetched) => {
                let took_ms = connection.now.monotonic.ms_since(outcome.since);
                connection.broker.timings().cold_fetch.record(Duration::from_millis(took_ms), 1);
                self.settle(outcome.pull, &outcome.source, fetched, connection);
            }
            Err(refusal) => connection.refuse(outcome.pull.asked, &refusal),
        }
    }

    fn settle(&mut self, mut pull: Pull, source: &Source, fetched: Fetched, connection: &mut Connection) {
        let bounds @ (_, end) = (fetched.first.0 as i64, fetched.end.0 as i64);
        let (mut status, mut next) = (fetched.status, fetched.next.0 as i64);
        if status == FetchStatus::OffsetOutside && may_be_elsewhere(&pull, bounds.0, connection) {
            (status, next) = (FetchStatus::AtEnd, pull.offset);
        } else if let Some(offsets) = &source.fetched {
            offsets.note(pull.queue, fetched.next);
        }
        match status {
            FetchStatus::Found => {
                if pull.has_waited {
                    note_delivery(&fetched, connection);
                }
                answer_found(&pull, fetched, connection);
            }
            FetchStatus::OffsetOutside => answer(pull.asked, response::PULL_OFFSET_MOVED, next, bounds, connection),
            FetchStatus::NoMatch if next < end => {
                // More to look at: let the client come back rather than hold this thread.
                answer(pull.asked, response::PULL_RETRY_IMMEDIATELY, next, bounds, connection);
            }
            FetchStatus::NoMatch | FetchStatus::AtEnd => {
                pull.offset = next;
                match pull.wait_until.filter(|&until| until > connection.now.monotonic) {
                    Some(deadline) => self.hold(pull, source, deadline, connection),
                    None => {
                        let has_moved = next != pull.began_at;
                        let code = if has_moved { response::PULL_RETRY_IMMEDIATELY } else { response::PULL_NOT_FOUND };
                        answer(pull.asked, code, next, bounds, connection);
                    }
                }
            }
        }
    }

    /// Keeps a pull until its queue grows or goes. What came in between is seen by looking again after registering.
    fn hold(&mut self, mut pull: Pull, source: &Source, deadline: Monotonic, connection: &mut Connection) {
        if self.waiting.len() >= WAITING_FETCHES_PER_CONNECTION_MAX {
            let refusal = Refusal::Busy(format!(
                "this connection has {WAITING_FETCHES_PER_CONNECTION_MAX} pulls waiting already"
            ));
            return connection.refuse(pull.asked, &refusal);
        }
        let Ok(queue) = source.topic.queue(pull.queue) else { return };
        self.last_number += 1;
        let number = self.last_number;
        pull.has_waited = true;
        let size = size_of_waiting(&pull);
        if self.waiting_size + size > WAITING_PULLS_SIZE_MAX {
            let refusal =
                Refusal::Busy("the filters of this connection's waiting pulls are too long together".to_owned());
            return connection.refuse(pull.asked, &refusal);
        }
        self.waiting_size += size;
        let waiter = queue.wait(connection.peer.mailbox.clone(), number);
        let broker = &connection.broker;
        // Of what a slave lacks, retention or a late begin may have taken the place.
        let is_there = !broker.follows() || pull.offset >= queue.first().0 as i64;
        let has_more = is_there && queue.end().0 as i64 > pull.offset;
        let is_due = has_more || source.is_outdated(broker) || pull.reset(broker).is_some();
        self.waiting.insert(number, Box::new(WaitingPull { pull, deadline, _waiter: waiter }));
        self.deadlines.insert((deadline, number));
        broker.metrics().fetch_waiting.add(1);
        if is_due {
            // Not at once: who publishes all the time would keep this thread here.
            self.ready.push_back(number);
        }
    }

    fn resume(&mut self, number: u64, connection: &mut Connection) {
        let Some(waiting) = self.waiting.remove(&number) else { return };
        self.deadlines.remove(&(waiting.deadline, number));
        self.waiting_size -= size_of_waiting(&waiting.pull);
        connection.broker.metrics().fetch_waiting.subtract(1);
        self.look_again(waiting.pull, connection);
    }

    /// The queue of a pull has grown.
    pub(super) fn note_ready(&mut self, number: u64) {
        self.ready.push_back(number);
    }

    /// Pulls whose time is over are ready for their answer.
    pub(super) fn expire(&mut self, now: Monotonic) {
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            if let Some(waiting) = self.waiting.get_mut(&number) {
                // A last look: whatever it finds is the answer.
                waiting.pull.wait_until = None;
                self.ready.push_back(number);
            }
        }
    }

    /// Goes on with pulls that are ready, as long as there is room for their answers. One batch may make all of them ready.
    pub(super) fn resume_ready(&mut self, connection: &mut Connection) {
        while connection.has_room_for_answers()
            && let Some(number) = self.ready.pop_front()
        {
            // A number may be there twice, or of a pull that was answered: that one is no longer waiting.
            self.resume(number, connection);
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next of them is due for an answer.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Bytes that waiting pulls take.
    pub(super) const fn size(&self) -> usize {
        self.waiting_size
    }

    /// The connection is gone.
    pub(super) fn stop_waiting(&mut self, broker: &Broker) {
        broker.metrics().fetch_waiting.subtract(self.waiting.len() as u64);
        self.waiting.clear();
        self.waiting_size = 0;
        self.deadlines.clear();
        self.ready.clear();
    }
}

/// Notes how long ago what a waiting consumer gets was stored.
fn note_delivery(fetched: &Fetched, connection: &Connection) {
    if let Some(stored) = fetched.pieces.first().and_then(|piece| record::store_timestamp_of(piece)) {
        let took = Duration::from_millis(connection.now.wall.ms_since(stored));
        connection.broker.timings().delivery.record(took, fetched.count as u64);
    }
}

/// Whether the master may have what a slave lacks: nobody is sent back, or on, for that. Below the begin of its queue only while the master
/// is there; whoever waits is then sent to it.
fn may_be_elsewhere(pull: &Pull, first: i64, connection: &Connection) -> bool {
    let broker = &connection.broker;
    broker.follows() && (pull.offset >= first || broker.following.has_master(connection.now))
}

fn answer_found(pull: &Pull, fetched: Fetched, connection: &mut Connection) {
    if pull.asked.one_way {
        return;
    }
    let suggested = pull.suggested(&fetched, connection);
    let Connection { output, scratch, .. } = connection;
    let bounds = (fetched.first.0 as i64, fetched.end.0 as i64);
    let header = PullResponse { suggest_which_broker_id: suggested, ..pull_header(fetched.next.0 as i64, bounds) };
    let fixed = response_header(pull.asked.opaque, response::SUCCESS, Some("FOUND"));
    frame::encode_head(scratch, pull.asked.form, &fixed, |sink| header.encode(sink), fetched.size);
    output.push(scratch.split().freeze());
    fetched.pieces.into_iter().for_each(|piece| output.push(piece));
}

fn answer(asked: Asked, code: i32, next: i64, bounds: (i64, i64), connection: &mut Connection) {
    if asked.one_way {
        return;
    }
    let Connection { output, scratch, .. } = connection;
    let header = pull_header(next, bounds);
    let fixed = response_header(asked.opaque, code, Some(response::name(code)));
    frame::encode(scratch, asked.form, &fixed, |sink| header.encode(sink), &[]);
    output.push(scratch.split().freeze());
}

/// `bounds` are those of the queue: its first offset, and the one after its last.
fn pull_header(next: i64, bounds: (i64, i64)) -> PullResponse<'static> {
    PullResponse {
        suggest_which_broker_id: MASTER_ID,
        next_begin_offset: next,
        min_offset: bounds.0,
        max_offset: bounds.1,
        lifetime: std::marker::PhantomData,
    }
}
