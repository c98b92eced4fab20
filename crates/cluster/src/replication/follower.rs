//! A slave's end of a connection to its master: takes the master's log in, and says how far it has come.
//!
//! What comes is gathered until whole records of it are there, which are put into the slave's own log: at once, or by a job if that would
//! wait; meanwhile what follows is read, up to a bound. After that the master hears where the log ends now, so that it never hears of what is not kept.
//!
//! Nothing is owed when a connection ends: what was not reported is sent again.
//!
//! The log is asked for from a little before its end: the bytes that both have there have to be the same.

use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use base::session::{CloseReason, Job, Output, Session};
use base::{LogOffset, Monotonic, Now};
use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use wire::rocketmq::replication::{PIECE_HEADER_SIZE, PieceHeader, report};

use super::Times;
use super::gathered::Gathered;

/// Bytes that may wait for the log to take those before them, unless they are one record.
const GATHERED_SIZE: usize = 4 * 1024 * 1024;

/// Bytes that the slave has, and that the master sends it all the same.
const COMPARED_SIZE: usize = 4096;

/// The first byte of any log: its first record is shorter than 16 MiB. Should it be longer, what follows is found to be no record.
const FIRST_BYTE: u8 = 0;

/// The log of a slave.
pub trait FollowerLog: Send + Sync {
    /// Below this it is as safe as this broker's settings ask.
    fn kept(&self) -> LogOffset;

    /// At most `size` bytes in front of its end, as far as it has them in one piece, and where they begin. All below is kept by then. Waits for the disk.
    fn tail(&self, size: usize) -> Result<(LogOffset, Bytes), String>;

    /// Lends an empty buffer with capacity for `size` bytes or more, to gather bytes in that are appended then.
    fn lend_buffer(&self, size: usize) -> BytesMut;

    /// Takes the rest of such a buffer back, of which `used` bytes were appended, or are to be.
    fn take_buffer_back(&self, rest: BytesMut, used: usize);

    /// Takes in pieces, of whole records and fillers each, that the master has from `start` on. That is the end, or where a log begins that
    /// has nothing yet. Gives the new end, once everything below is as safe as this broker's settings ask. Waits for the disk; an error is
    /// for people.
    fn append(&self, start: LogOffset, pieces: &[Bytes]) -> Result<LogOffset, String>;

    /// The same, if it need not wait: `None` if it would have to, and nothing was done.
    fn try_append(&self, start: LogOffset, pieces: &[Bytes]) -> Option<Result<LogOffset, String>>;

    /// The master had sent everything below `sent` when this came.
    fn note_sent(&self, sent: LogOffset, now: Now);
}

/// One connection to a master.
pub struct FollowerSession {
    log: Arc<dyn FollowerLog>,
    times: Times,
    waker: Waker,
    /// Where the master is asked to begin; `None` until the log was looked at.
    begin: Option<LogOffset>,
    /// Where the next bytes belong; `None`: neither log has anything.
    next: Option<LogOffset>,
    /// The next of them are to be the same as these.
    known: Bytes,
    /// The part of its log that the master had.
    masters: Range<LogOffset>,
    /// Bytes of the piece being read that are still to come.
    piece_left: usize,
    gathered: Gathered,
    is_busy: bool,
    done: Arc<Mutex<Option<Result<Done, String>>>>,
    job: Option<Job>,
    output: Output,
    silent_at: Monotonic,
    report_at: Monotonic,
    over: Option<CloseReason>,
}

/// What a job has done.
enum Done {
    /// The log ends with these bytes, which begin there.
    Looked(LogOffset, Bytes),
    /// It ends there now.
    Appended(LogOffset),
}

impl FollowerSession {
    /// A session for a connection that was just opened, to a master that has this part of its log: one that has nothing yet asks for all of
    /// it. `waker` is called when something was put into the log.
    pub fn new(
        log: Arc<dyn FollowerLog>,
        masters: Range<LogOffset>,
        times: Times,
        waker: Waker,
        now: Monotonic,
    ) -> Self {
        Self {
            log,
            times,
            waker,
            begin: None,
            next: None,
            known: Bytes::new(),
            masters,
            piece_left: 0,
            gathered: Gathered::default(),
            is_busy: false,
            done: Arc::default(),
            job: None,
            output: Output::default(),
            silent_at: now.plus_ms(times.silence_ms),
            report_at: now,
            over: None,
        }
    }

    fn give_up(&mut self, reason: impl Into<String>) -> CloseReason {
        self.over.get_or_insert(CloseReason(reason.into())).clone()
    }

    /// The master says what it sends next.
    fn begin_piece(&mut self, header: PieceHeader, now: Now) -> Result<(), CloseReason> {
        self.silent_at = now.monotonic.plus_ms(self.times.silence_ms);
        match self.next {
            Some(next) if next != header.start => {
                return Err(self.give_up(format!(
                    "the master sends its log from {} on, and this one goes on at {next}: the logs are not the same",
                    header.start
                )));
            }
            None if header.size > 0 => {
                self.gathered = Gathered::from(header.start);
                self.next = Some(header.start);
            }
            _ => {}
        }
        self.piece_left = header.size;
        self.log.note_sent(header.start.after(header.size as u64), now);
        Ok(())
    }

    /// Takes in what came of the log.
    fn gather(&mut self, input: &mut BytesMut) -> Result<(), CloseReason> {
        let same = self.known.len().min(self.piece_left).min(input.len());
        if input[..same] != self.known[..same] {
            return Err(self.give_up(
                "what the master has in front of this log's end is something else: this is another log, or it has what the master has lost. Empty this broker's data directory to have the master's log copied anew",
            ));
        }
        self.known.advance(same);
        self.pass(input, same);
        let size = self.piece_left.min(input.len());
        if size > 0 {
            let size = size.min(self.make_room());
            self.gathered.push(&input[..size]).map_err(|problem| self.give_up(problem))?;
            self.pass(input, size);
        }
        Ok(())
    }

    /// Has room for more to be gathered. Gives for how much.
    fn make_room(&mut self) -> usize {
        if self.gathered.room() == 0 {
            let (rest, used) = self.gathered.go_on_in(self.log.lend_buffer(self.gathered.wanted_room()));
            self.log.take_buffer_back(rest, used);
        }
        self.gathered.room()
    }

    /// So many bytes were taken in.
    fn pass(&mut self, input: &mut BytesMut, size: usize) {
        input.advance(size);
        self.piece_left -= size;
        self.next = self.next.map(|next| next.after(size as u64));
    }

    /// Has a job done; one at a time.
    fn run(&mut self, work: impl FnOnce(&dyn FollowerLog) -> Result<Done, String> + Send + 'static) {
        self.is_busy = true;
        let (log, done, waker) = (self.log.clone(), self.done.clone(), self.waker.clone());
        self.job = Some(Box::new(move || {
            let outcome = work(&*log);
            *done.lock() = Some(outcome);
            waker.wake();
        }));
    }

    /// Has what is whole put into the log.
    fn append(&mut self, now: Monotonic) {
        if self.is_busy || self.over.is_some() {
            return;
        }
        let Some((start, pieces)) = self.gathered.take_whole() else { return };
        match self.log.try_append(start, &pieces) {
            Some(appended) => self.note_outcome(appended.map(Done::Appended), now),
            None => self.run(move |log| log.append(start, &pieces).map(Done::Appended)),
        }
    }

    /// The log ends with these bytes: the master is asked for them, and for what follows.
    fn begin(&mut self, mut start: LogOffset, mut known: Bytes, now: Monotonic) -> Result<(), String> {
        let end = start.after(known.len() as u64);
        // What the master has removed it cannot send: where it begins by now at this log's end, that is taken for the same, as by a slave of
        // Java.
        let removed = self.masters.start.min(end).0.saturating_sub(start.0);
        start = start.after(removed);
        known.advance(removed as usize);
        let has_any = self.masters.end.max(end) > LogOffset(0);
        if end == LogOffset(0) {
            start = self.masters.start;
        }
        self.gathered = Gathered::from(end.max(start));
        if start == LogOffset(0) && has_any {
            // A slave that says 0 is given the last file only by a master of Java: all but the first byte is asked for.
            start = LogOffset(1);
            if known.is_empty() {
                self.make_room();
                self.gathered.push(&[FIRST_BYTE])?;
            } else {
                known.advance(1);
            }
        }
        self.next = has_any.then_some(start);
        (self.begin, self.known) = (Some(start), known);
        self.report(start, now);
        Ok(())
    }

    /// Says where the log ends.
    fn report(&mut self, end: LogOffset, now: Monotonic) {
        self.output.push(Bytes::copy_from_slice(&report(end)));
        self.report_at = now.plus_ms(self.times.heartbeat_ms);
    }

    /// Takes note of what a job has done.
    fn note_done(&mut self, now: Monotonic) {
        let Some(outcome) = self.done.lock().take() else { return };
        self.is_busy = false;
        self.note_outcome(outcome, now);
    }

    fn note_outcome(&mut self, outcome: Result<Done, String>, now: Monotonic) {
        let went_on = outcome.and_then(|done| match done {
            Done::Looked(start, known) => self.begin(start, known, now),
            Done::Appended(end) => {
                self.report(end, now);
                Ok(())
            }
        });
        if let Err(problem) = went_on {
            self.give_up(problem);
        }
    }
}

impl Session for FollowerSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        while self.wants_input() {
            if self.piece_left > 0 && !input.is_empty() {
                self.gather(input)?;
                continue;
            }
            let header = PieceHeader::decode(input).map_err(|bad| self.give_up(bad.to_string()))?;
            let Some(header) = header.filter(|_| self.piece_left == 0) else { break };
            input.advance(PIECE_HEADER_SIZE);
            self.begin_piece(header, now)?;
        }
        self.append(now.monotonic);
        Ok(())
    }

    fn wake(&mut self, now: Now) {
        let now = now.monotonic;
        self.note_done(now);
        if now >= self.silent_at {
            self.give_up(format!("the master said nothing for {} s", self.times.silence_ms / 1000));
            return;
        }
        if now >= self.report_at {
            match self.begin {
                // What is still to be compared is not said to be the same.
                Some(begin) if !self.known.is_empty() => self.report(begin, now),
                Some(begin) => self.report(self.log.kept().max(begin), now),
                None => {
                    self.report_at = now.plus_ms(self.times.heartbeat_ms);
                    self.run(|log| log.tail(COMPARED_SIZE).map(|(start, known)| Done::Looked(start, known)));
                }
            }
        }
        self.append(now);
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        Some(self.silent_at.min(self.report_at))
    }

    fn wants_input(&self) -> bool {
        // A record may be larger than what is gathered otherwise: it is read to its end.
        self.over.is_none() && (self.gathered.size() < GATHERED_SIZE || !self.gathered.has_whole())
    }

    fn held_size(&self) -> usize {
        self.output.size() + self.gathered.size()
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(self.times.silence_ms)
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.over.clone()
    }

    fn take_job(&mut self) -> Option<Job> {
        self.job.take()
    }
}
