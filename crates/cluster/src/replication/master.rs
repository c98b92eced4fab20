//! What a slave asks at its master's port for clients, again and again: whether the master's log goes on where the slave's ends, and then for
//! the tables of topics, groups, offsets and delays; when it has connected also whether both have the same newest message. What consumers settled at the slave while the master was away it tells before it takes those.
//!
//! A Sluice master says with each table which part of its log is in it (`sluiceLogPosition`), since its log tells of changes too; a master
//! of Java does not.

use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use base::session::{CloseReason, Job, Output, Session};
use base::{LogOffset, Monotonic, Now};
use bytes::{Bytes, BytesMut};
use format::master_tables::MasterTables;
use format::state_documents::StateDocuments;
use parking_lot::Mutex;
use wire::rocketmq::body::kv_table::KvTable;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::field::{FieldSink, TypedHeader};
use wire::rocketmq::frame::{self, Command, Form};
use wire::rocketmq::header::ViewMessageRequest;

use super::owed::{Owed, Saying, Settled, Telling};
use super::tables::{Gathered, succeeded};
use crate::spoken_header;

/// How often tables are asked for (`SlaveSynchronize`, as 4.9.7 does).
const ROUND_MS: u64 = 10_000;

/// Time limit for each answer, and for what a job takes.
const ANSWER_MS: u64 = 60_000;

/// The newest message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Where it begins.
    pub start: LogOffset,
    /// Its record.
    pub record: Bytes,
}

/// A slave's broker, as far as its master's answers are its business. An error is for people. All of it waits for the disk, but `end`.
pub trait FollowerState: Send + Sync {
    /// Where its log ends.
    fn end(&self) -> LogOffset;

    /// The newest message of its log, if it has one.
    fn newest(&self) -> Result<Option<Newest>, String>;

    /// What its master is to be told first, whose tables these are.
    fn owed(&self, tables: &StateDocuments) -> Owed;

    /// The master knows of these now, or they are gone there.
    fn note_told(&self, told: &[Settled]) -> Result<(), String>;

    /// Has the master's tables.
    fn take_tables(&self, tables: MasterTables) -> Result<(), String>;

    /// The log may be followed from now on: the master has this part of it.
    fn note_ready(&self, masters: Range<LogOffset>);
}

/// A connection to a master's port for clients.
pub struct MasterSession {
    state: Arc<dyn FollowerState>,
    waker: Waker,
    step: Step,
    opaque: i32,
    until: Monotonic,
    /// What came of tables in this round.
    gathered: Gathered,
    /// What no table tells was taken: from then on the log tells it.
    has_undocumented: bool,
    /// The part of its log that the master has.
    masters: Range<LogOffset>,
    /// In this round the master was told what it did not know.
    has_told: bool,
    /// The logs were found to be the same.
    has_compared: bool,
    done: Arc<Mutex<Option<Result<Done, String>>>>,
    job: Option<Job>,
    output: Output,
    over: Option<CloseReason>,
}

/// What is going on.
enum Step {
    /// Nothing was asked yet.
    Begun,
    /// The slave's newest message is read.
    Looking,
    /// The master was asked which part of its log it has.
    Range { newest: Option<Newest>, end: LogOffset },
    /// The master was asked for the message that is the slave's newest.
    Comparing { newest: Newest },
    /// The master was asked for the next table.
    Tables,
    /// They are looked at, or taken.
    Taking,
    /// The master is told what it does not know.
    Telling(Telling),
    /// What it knows is noted.
    Noting,
    /// The next round comes later.
    Resting,
}

/// What a job has done.
enum Done {
    Looked { newest: Option<Newest>, end: LogOffset },
    Owes(Owed),
    Noted,
    Taken,
}

impl MasterSession {
    /// A session for a connection that was just opened. `waker` is called when a job is done.
    pub fn new(state: Arc<dyn FollowerState>, waker: Waker) -> Self {
        Self {
            state,
            waker,
            step: Step::Begun,
            opaque: 0,
            until: Monotonic::default(),
            gathered: Gathered::default(),
            has_undocumented: false,
            masters: Range::default(),
            has_told: false,
            has_compared: false,
            done: Arc::default(),
            job: None,
            output: Output::default(),
            over: None,
        }
    }

    fn give_up(&mut self, reason: impl Into<String>) -> CloseReason {
        self.over.get_or_insert(CloseReason(reason.into())).clone()
    }

    fn ask(&mut self, code: i32, fields: impl Fn(&mut FieldSink<'_>), body: &[u8], now: Monotonic) {
        self.opaque += 1;
        self.until = now.plus_ms(ANSWER_MS);
        let mut out = BytesMut::new();
        frame::encode(&mut out, Form::Json, &spoken_header(code, self.opaque, 0), fields, body);
        self.output.push(out.freeze());
    }

    /// Has a job done.
    fn run(&mut self, work: impl FnOnce(&dyn FollowerState) -> Result<Done, String> + Send + 'static, now: Monotonic) {
        let (state, done, waker) = (self.state.clone(), self.done.clone(), self.waker.clone());
        self.until = now.plus_ms(ANSWER_MS);
        self.job = Some(Box::new(move || {
            let outcome = work(&*state);
            *done.lock() = Some(outcome);
            waker.wake();
        }));
    }

    fn look(&mut self, now: Monotonic) {
        self.step = Step::Looking;
        let has_compared = self.has_compared;
        self.run(
            move |state| {
                // Before the master says how long its log is: what comes meanwhile over the other connection is no difference.
                let end = state.end();
                let newest = if has_compared { Ok(None) } else { state.newest() };
                newest.map(|newest| Done::Looked { newest, end })
            },
            now,
        );
    }

    fn ask_tables(&mut self, now: Monotonic) {
        self.has_compared = true;
        self.gathered = Gathered::asking(!self.has_undocumented);
        self.step = Step::Tables;
        self.ask_table(now);
    }

    /// Asks for the next table, or has those that came looked at.
    fn ask_table(&mut self, now: Monotonic) {
        if let Some((code, fields)) = self.gathered.wanted() {
            return self.ask(code, fields, b"", now);
        }
        self.step = Step::Taking;
        let (gathered, may_owe) = (std::mem::take(&mut self.gathered), !self.has_told);
        self.run(
            move |state| {
                let tables = gathered.read()?;
                let owed = if may_owe { state.owed(&tables.documents) } else { Owed::default() };
                if owed != Owed::default() {
                    return Ok(Done::Owes(owed));
                }
                state.take_tables(tables).map(|()| Done::Taken)
            },
            now,
        );
    }

    /// Goes on after a job.
    fn note_done(&mut self, done: Done, now: Monotonic) {
        match done {
            Done::Looked { newest, end } => {
                self.step = Step::Range { newest, end };
                self.ask(request::GET_BROKER_RUNTIME_INFO, |_| (), b"", now);
            }
            Done::Owes(owed) => {
                self.has_told = true;
                self.tell(Telling::of(owed), now);
            }
            Done::Noted => self.ask_tables(now),
            Done::Taken => {
                (self.has_told, self.has_undocumented) = (false, true);
                self.step = Step::Resting;
                self.until = now.plus_ms(ROUND_MS);
                self.state.note_ready(self.masters.clone());
            }
        }
    }

    /// Tells the master the next thing that it does not know; then its tables are asked for once more.
    fn tell(&mut self, mut telling: Telling, now: Monotonic) {
        match telling.next() {
            None => {
                self.step = Step::Noting;
                return self.run(move |state| state.note_told(&telling.told()).map(|()| Done::Noted), now);
            }
            Some(Saying::Group(group)) => {
                let body = serde_json::to_vec(group).unwrap_or_default();
                self.ask(request::UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, |_| (), &body, now);
            }
            Some(Saying::Queue(settled, newest)) => {
                self.ask(request::QUERY_CONSUME_QUEUE, |sink| settled.look(*newest).encode(sink), b"", now);
            }
            Some(Saying::Where(settled)) => {
                self.ask(request::QUERY_CONSUMER_OFFSET, |sink| settled.query().encode(sink), b"", now);
            }
            Some(Saying::Offset(settled)) => {
                self.ask(request::UPDATE_CONSUMER_OFFSET, |sink| settled.commit().encode(sink), b"", now);
            }
        }
        self.step = Step::Telling(telling);
    }

    /// Takes in one frame of the master.
    fn take(&mut self, frame: Bytes, now: Monotonic) -> Result<(), CloseReason> {
        let answer = Command::decode(&frame).map_err(|error| self.give_up(error.to_string()))?;
        if !answer.header.is_response() || answer.header.opaque != self.opaque {
            return Ok(());
        }
        match std::mem::replace(&mut self.step, Step::Begun) {
            Step::Range { newest, end } => self.take_range(&answer, newest, end, now)?,
            Step::Comparing { newest } => {
                if answer.header.code != response::SUCCESS {
                    return Err(self.give_up(format!(
                        "the master does not give the message at {}, this log's newest: it cannot read it, and its log says so; or this is another log, and this broker's data directory is to be emptied",
                        newest.start
                    )));
                }
                if answer.body != &newest.record[..] {
                    return Err(self.differs(newest.start));
                }
                self.ask_tables(now);
            }
            Step::Tables => {
                self.gathered.take(&frame, &answer).map_err(|problem| self.give_up(problem))?;
                self.step = Step::Tables;
                self.ask_table(now);
            }
            Step::Telling(mut telling) => {
                telling.take(&answer);
                self.tell(telling, now);
            }
            step => self.step = step,
        }
        Ok(())
    }

    fn differs(&mut self, start: LogOffset) -> CloseReason {
        self.give_up(format!(
            "the message at {start} of this log is not the one that the master has there: this is another log, or it has what the master has lost. Empty this broker's data directory to have the master's log copied anew"
        ))
    }

    /// The master says which part of its log it has.
    fn take_range(
        &mut self,
        answer: &Command<'_>,
        newest: Option<Newest>,
        end: LogOffset,
        now: Monotonic,
    ) -> Result<(), CloseReason> {
        let table = succeeded(answer).and_then(|()| KvTable::decode(answer.body).map_err(|error| error.to_string()));
        let table = table.map_err(|problem| self.give_up(problem))?.table;
        let number = |name: &str| table.get(name).and_then(|text| text.parse().ok()).map(LogOffset);
        let (first, last) = (number("commitLogMinOffset"), number("commitLogMaxOffset"));
        if let Some(last) = last.filter(|last| *last < end) {
            return Err(self.give_up(format!(
                "the master's log ends at {last}, and this one at {end}: it has what the master never had, or has lost. Empty this broker's data directory to have the master's log copied anew, or make this broker the master"
            )));
        }
        // By now: the log may have gone on over the other connection, and the master have removed what both had.
        let end = self.state.end();
        if let Some(first) = first.filter(|first| end != LogOffset(0) && end < *first) {
            return Err(self.give_up(format!(
                "the master's log begins at {first} by now, and this one ends at {end}: empty this broker's data directory to have the master's log copied anew"
            )));
        }
        self.masters = first.unwrap_or_default()..last.unwrap_or_default();
        // Once the master has removed it, as old as it is, there is nothing to compare: the log goes on behind it.
        match newest.filter(|newest| self.masters.start <= newest.start) {
            Some(newest) => {
                let fields = ViewMessageRequest {
                    offset: i64::try_from(newest.start.0).unwrap_or(i64::MAX),
                    ..ViewMessageRequest::default()
                };
                self.step = Step::Comparing { newest };
                self.ask(request::VIEW_MESSAGE_BY_ID, |sink| fields.encode(sink), b"", now);
            }
            None => self.ask_tables(now),
        }
        Ok(())
    }
}

impl Session for MasterSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        while let Some(length) = frame::frame_len(input).map_err(|error| CloseReason(error.to_string()))? {
            let frame = input.split_to(length).freeze();
            self.take(frame, now.monotonic)?;
        }
        Ok(())
    }

    fn wake(&mut self, now: Now) {
        let now = now.monotonic;
        if self.over.is_some() {
            return;
        }
        let done = self.done.lock().take();
        match done {
            Some(Ok(done)) => self.note_done(done, now),
            Some(Err(problem)) => drop(self.give_up(problem)),
            None => {}
        }
        match self.step {
            Step::Begun => self.look(now),
            Step::Resting if now >= self.until => self.look(now),
            _ if now >= self.until => drop(self.give_up("no answer")),
            _ => {}
        }
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        Some(self.until)
    }

    fn wants_input(&self) -> bool {
        true
    }

    fn held_size(&self) -> usize {
        self.output.size() + self.gathered.size()
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        frame::announced_len(input)
    }

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(ANSWER_MS)
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.over.clone()
    }

    fn take_job(&mut self) -> Option<Job> {
        self.job.take()
    }
}
