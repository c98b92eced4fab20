//! A master's end of a connection to a slave: sends the log from where the slave's ends, and hears how far it has come.
//!
//! What lies in memory goes out as it is, shared with the log; what does not is read by jobs, a large piece at a time, so that a slave
//! that catches up keeps no network thread and no publisher waiting. At most [`AHEAD_SIZE`] waits for a slave to take it. Pieces are sent
//! without waiting for reports: reports only say what is replicated.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

use base::session::{CloseReason, Job, Output, Session};
use base::{LogOffset, Monotonic, Now};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use wire::rocketmq::replication::{PieceHeader, REPORT_SIZE, read_report};

use super::Times;
use super::followers::{Followers, InReach, NotJoined};

/// Largest piece of the log that is sent at once.
const PIECE_SIZE: usize = 512 * 1024;

/// Bytes that may wait for a slave to take them; one piece more may be on its way from the disk.
const AHEAD_SIZE: usize = 1024 * 1024;

/// The log of a master, as far as its slaves need it.
pub trait LeaderLog: Send + Sync {
    /// First byte that is still kept.
    fn first(&self) -> LogOffset;

    /// Where what is written ends.
    fn end(&self) -> LogOffset;

    /// At most `size` bytes from `start` on that are in memory and in one segment, in pieces that follow each other; none if the first of
    /// them is not. Does not wait.
    fn recent(&self, start: LogOffset, size: usize) -> Vec<Bytes>;

    /// At most `size` bytes from `start` on, which is below the end, of one segment. Waits for the disk; an error is for people.
    fn read(&self, start: LogOffset, size: usize) -> Result<Bytes, String>;

    /// Calls `waker` once more than that is written.
    fn when_written_beyond(&self, end: LogOffset, waker: &Waker);

    /// Which part of the log is at as many slaves as were asked for.
    fn note_replicated(&self, reached: InReach);

    /// A slave whose log ends at `end` follows from now on.
    fn note_joined(&self, address: SocketAddr, end: LogOffset);

    /// A slave that had come to `end` is gone.
    fn note_left(&self, address: SocketAddr, end: LogOffset);
}

/// One slave's connection.
pub struct LeaderSession {
    log: Arc<dyn LeaderLog>,
    followers: Arc<Followers>,
    address: SocketAddr,
    times: Times,
    waker: Waker,
    /// Its number among the followers, once it has said where its log ends.
    id: Option<u64>,
    /// Where the slave's log ends, as it said last.
    end: LogOffset,
    /// What is sent next.
    next: LogOffset,
    /// The end of what was written when the session last asked to be woken for more.
    watched: Option<LogOffset>,
    is_reading: bool,
    read: Arc<Mutex<Option<Result<Bytes, String>>>>,
    job: Option<Job>,
    output: Output,
    silent_at: Monotonic,
    heartbeat_at: Monotonic,
    /// Something was sent since `heartbeat_at` was set.
    has_said: bool,
    over: Option<CloseReason>,
}

impl LeaderSession {
    /// A session for a connection from `address` that was just accepted. `waker` is called when there is something to send.
    pub fn new(
        log: Arc<dyn LeaderLog>,
        followers: Arc<Followers>,
        address: SocketAddr,
        times: Times,
        waker: Waker,
        now: Monotonic,
    ) -> Self {
        Self {
            log,
            followers,
            address,
            times,
            waker,
            id: None,
            end: LogOffset(0),
            next: LogOffset(0),
            watched: None,
            is_reading: false,
            read: Arc::default(),
            job: None,
            output: Output::default(),
            silent_at: now.plus_ms(times.silence_ms),
            heartbeat_at: now.plus_ms(times.heartbeat_ms),
            has_said: false,
            over: None,
        }
    }

    fn give_up(&mut self, reason: impl Into<String>) -> CloseReason {
        self.over.get_or_insert(CloseReason(reason.into())).clone()
    }

    /// The slave says that its log ends at `end`.
    fn hear(&mut self, end: LogOffset, now: Now) -> Result<(), CloseReason> {
        let written = self.log.end();
        if end > written {
            return Err(self.give_up(format!(
                "the replica's log ends at {end}, and this one at {written}: it has what this log never had, or has lost; empty its data directory to have it copied anew"
            )));
        }
        let id = match self.id {
            Some(_) if end > self.next => {
                return Err(
                    self.give_up(format!("the replica says that it has all below {end}, and was sent {}", self.next))
                );
            }
            Some(id) => id,
            None => self.begin(end, now)?,
        };
        self.end = end;
        self.silent_at = now.monotonic.plus_ms(self.times.silence_ms);
        self.followers.note(id, (end, self.next, written), now, |reached| self.log.note_replicated(reached));
        Ok(())
    }

    /// Its first word: the log is sent from there.
    fn begin(&mut self, end: LogOffset, now: Now) -> Result<u64, CloseReason> {
        let first = self.log.first();
        // One without a log has said 0. A Java master would send it the last segment only; this one keeps nothing back.
        if end < first && end != LogOffset(0) {
            return Err(self.give_up(format!(
                "the replica's log ends at {end}, and this one begins at {first} by now: empty its data directory to have it copied anew"
            )));
        }
        // One without a log asks for the first byte that is left.
        self.followers.note_sent(first);
        let id = self.followers.join(self.address, end, now).map_err(|problem| {
            self.give_up(match problem {
                NotJoined::TooMany => "there are too many replicas".to_owned(),
                NotJoined::Ahead(furthest) => format!(
                    "the replica's log ends at {end}, and no replica can have come beyond {furthest} by this one: it has what this log has lost; empty its data directory to have it copied anew"
                ),
            })
        })?;
        self.id = Some(id);
        self.next = end.max(first);
        self.log.note_joined(self.address, end);
        Ok(id)
    }

    /// Has pieces of the log sent, as far as the slave takes them.
    fn fill(&mut self) {
        if self.id.is_none() || self.over.is_some() {
            return;
        }
        if self.is_reading {
            let Some(read) = self.read.lock().take() else { return };
            self.is_reading = false;
            match read {
                Ok(piece) if piece.is_empty() => drop(self.give_up("the log has nothing there any more")),
                Ok(piece) => self.send(vec![piece]),
                Err(problem) => drop(self.give_up(problem)),
            }
        }
        while self.output.size() < AHEAD_SIZE && !self.is_reading && self.over.is_none() {
            let end = self.log.end();
            if self.next >= end {
                return self.watch(end);
            }
            let size = usize::try_from(end.0 - self.next.0).unwrap_or(usize::MAX).min(PIECE_SIZE);
            match self.log.recent(self.next, size) {
                none if none.is_empty() => self.read(size),
                parts => self.send(parts),
            }
        }
    }

    /// Sends a piece of the log.
    fn send(&mut self, parts: Vec<Bytes>) {
        let size = parts.iter().map(Bytes::len).sum();
        let header = PieceHeader { start: self.next, size };
        self.next = self.next.after(size as u64);
        self.followers.note_sent(self.next);
        self.output.push(Bytes::copy_from_slice(&header.encode()));
        parts.into_iter().for_each(|part| self.output.push(part));
        self.has_said = true;
    }

    /// Has the next piece read from the disk.
    fn read(&mut self, size: usize) {
        let (log, read, waker, start) = (self.log.clone(), self.read.clone(), self.waker.clone(), self.next);
        self.is_reading = true;
        self.job = Some(Box::new(move || {
            *read.lock() = Some(log.read(start, size));
            waker.wake();
        }));
        // The job may be made while output is written: whoever drives the session looks for it when it is woken.
        self.waker.wake_by_ref();
    }

    /// Asks to be woken when there is more than that.
    fn watch(&mut self, end: LogOffset) {
        if self.watched != Some(end) {
            self.watched = Some(end);
            self.log.when_written_beyond(end, &self.waker);
        }
    }
}

impl Session for LeaderSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        // The last one says all: reports never go back.
        let whole = input.len() / REPORT_SIZE * REPORT_SIZE;
        let reports = input.split_to(whole);
        let Some(last) = reports.last_chunk::<REPORT_SIZE>() else { return Ok(()) };
        let Some(end) = read_report(*last) else {
            return Err(self.give_up("bytes that are no report of a replica: this port is for replicas only"));
        };
        self.hear(end, now)?;
        self.fill();
        Ok(())
    }

    fn wake(&mut self, now: Now) {
        let now = now.monotonic;
        if now >= self.silent_at {
            self.give_up(format!("the replica said nothing for {} s", self.times.silence_ms / 1000));
            return;
        }
        self.fill();
        if now >= self.heartbeat_at {
            self.heartbeat_at = now.plus_ms(self.times.heartbeat_ms);
            if !std::mem::take(&mut self.has_said) && self.id.is_some() && self.output.is_empty() {
                let empty = PieceHeader { start: self.next, size: 0 };
                self.output.push(Bytes::copy_from_slice(&empty.encode()));
            }
        }
    }

    fn output(&mut self) -> &mut Output {
        // What the slave has taken makes room for more.
        self.fill();
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        Some(self.silent_at.min(self.heartbeat_at))
    }

    fn wants_input(&self) -> bool {
        true
    }

    fn held_size(&self) -> usize {
        self.output.size()
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

    fn closed(&mut self, _now: Now) {
        if let Some(id) = self.id.take() {
            self.followers.leave(id, |reached| self.log.note_replicated(reached));
            self.log.note_left(self.address, self.end);
        }
    }
}
