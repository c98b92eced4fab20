//! Pulls: read at once if there is something, else wait for the queue or the deadline.

use std::time::Duration;

use base::limits::{OUTPUT_BACKLOG_SIZE_MAX, WAITING_FETCHES_PER_CONNECTION_MAX};
use base::{Monotonic, Refusal};
use broker::{Broker, FetchStatus, Fetched, Waiter};
use wire::rocketmq::code::response;
use wire::rocketmq::field::TypedHeader;
use wire::rocketmq::frame::{self, Command};
use wire::rocketmq::header::PullResponse;

use super::answer::{Asked, response_header};
use super::connection::{Connection, Done};
use super::context::Context;
use super::pull::{MASTER_ID, Pull, PullOutcome, Source};
use super::waits::{WAITING_SIZE, Waits};

/// Bytes that a pull from the disk gives at most; a longer message is read by itself. As many as a connection may have jobs are within its
/// bound.
const COLD_FETCH_SIZE: usize = OUTPUT_BACKLOG_SIZE_MAX / 64;

/// A pull that waits for messages.
struct WaitingPull {
    pull: Pull,
    /// At its queue.
    _waiter: Waiter,
}

/// The pulls of one connection.
#[derive(Default)]
pub(super) struct Pulls {
    waits: Waits<WaitingPull>,
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
            Ok(None) => read(pull, source, (connection.now.monotonic, COLD_FETCH_SIZE), connection),
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
            Ok(fetched) if fetched.status == FetchStatus::TooLong => {
                read(outcome.pull, outcome.source, (outcome.since, fetched.size), connection);
            }
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
                    connection.note_delivery(&fetched.pieces, fetched.count);
                }
                answer_found(&pull, fetched, connection);
            }
            FetchStatus::OffsetOutside => answer(pull.asked, response::PULL_OFFSET_MOVED, next, bounds, connection),
            FetchStatus::NoMatch if next < end => {
                // More to look at: let the client come back rather than hold this thread.
                answer(pull.asked, response::PULL_RETRY_IMMEDIATELY, next, bounds, connection);
            }
            // One that is too long does not come to this.
            FetchStatus::NoMatch | FetchStatus::AtEnd | FetchStatus::TooLong => {
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
        if !self.waits.has_place() {
            let refusal = Refusal::Busy(format!(
                "this connection has {WAITING_FETCHES_PER_CONNECTION_MAX} pulls waiting already"
            ));
            return connection.refuse(pull.asked, &refusal);
        }
        let Ok(queue) = source.topic.queue(pull.queue) else { return };
        pull.has_waited = true;
        let size = WAITING_SIZE + pull.filter_size();
        if !self.waits.has_room(size) {
            let refusal =
                Refusal::Busy("the filters of this connection's waiting pulls are too long together".to_owned());
            return connection.refuse(pull.asked, &refusal);
        }
        let number = self.waits.next_number();
        let waiter = queue.wait(connection.peer.mailbox.clone(), number);
        let broker = &connection.broker;
        // Of what a slave lacks, retention or a late begin may have taken the place.
        let is_there = !broker.follows() || pull.offset >= queue.first().0 as i64;
        let has_more = is_there && queue.end().0 as i64 > pull.offset;
        let is_due = has_more || source.is_outdated(broker) || pull.reset(broker).is_some();
        self.waits.hold(number, WaitingPull { pull, _waiter: waiter }, (deadline, size), broker);
        if is_due {
            // Not at once: who publishes all the time would keep this thread here.
            self.waits.note_ready(number);
        }
    }

    /// The queue of a pull has grown.
    pub(super) fn note_ready(&mut self, number: u64) {
        self.waits.note_ready(number);
    }

    /// Pulls whose time is over are ready for their answer: a last look, and whatever it finds.
    pub(super) fn expire(&mut self, now: Monotonic) {
        self.waits.expire(now, |waiting| waiting.pull.wait_until = None);
    }

    /// Goes on with pulls that are ready, as long as there is room for their answers. One batch may make all of them ready.
    pub(super) fn resume_ready(&mut self, connection: &mut Connection) {
        while connection.has_room_for_answers()
            && let Some(waiting) = self.waits.take_ready(&connection.broker)
        {
            self.look_again(waiting.pull, connection);
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        self.waits.has_ready()
    }

    /// When the next of them is due for an answer.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        self.waits.deadline()
    }

    /// Bytes that waiting pulls take.
    pub(super) const fn size(&self) -> usize {
        self.waits.size()
    }

    /// The connection is gone.
    pub(super) fn stop_waiting(&mut self, broker: &Broker) {
        self.waits.clear(broker);
    }
}

/// Has up to `size` bytes read by a job; `since` is when it went to the disk.
fn read(pull: Pull, source: Source, (since, size): (Monotonic, usize), connection: &mut Connection) {
    let broker = connection.broker.clone();
    let work = move || {
        let result = broker.fetcher.fetch(&pull.fetch(&source), size);
        Done::Pull(Box::new(PullOutcome { pull, source, since, result }))
    };
    connection.run_read(size, work);
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
