//! One connection of a broker to a name server, over which it stays registered.
//!
//! A session as any other, but opened by the broker: it registers at once, again every interval and soon after topics have changed, and
//! takes its leave when the broker stops. In between it asks for the routes that the broker wants to know. It has closed itself when it has a reason to; whoever drives it opens another connection then.
//! A name server forgets the broker when the connection is gone.

use std::sync::Arc;
use std::task::Waker;

use base::budget::Budget;
use base::session::{CloseReason, Job, Output, Session};
use base::{Monotonic, Now};
use bytes::{Bytes, BytesMut};
use format::document::TopicTableDocument;
use parking_lot::Mutex;
use wire::rocketmq::body::route::TopicRouteData;
use wire::rocketmq::frame::{self, Command, Form};

use super::{
    Identity, RegisterAnswer, read_register_answer, read_route_answer, register_request, route_request,
    unregister_request,
};

/// How long changes of topics are collected before they are told together, ms.
const GATHER_MS: u64 = 5;

/// How often a replica asks that does not know its master, ms: only with an answer it hears of it.
const MASTERLESS_MS: u64 = 1000;

/// A request that is not made within this time will not be, ms.
const MAKE_LIMIT_MS: u64 = 60_000;

/// How long a broker that leaves waits for a name server, ms: it may hang, and the broker's stop, and its next start, wait with it. A name
/// server that has not heard the farewell forgets the broker when the connection closes.
const FAREWELL_MS: u64 = 3000;

/// What a registration asks of its broker, and tells it.
pub trait Registrant: Send + Sync {
    /// The number of the last change of topics: whoever reads the topics after that has it.
    fn last_change(&self) -> u64;

    /// The topics as name servers are to know them. Called in a job: of 200 000 topics it takes a second.
    fn topics(&self) -> TopicTableDocument;

    /// Whether the broker takes its leave.
    fn is_leaving(&self) -> bool;

    /// The name server knows all changes up to this one, and has answered this.
    fn note_told(&self, change: u64, answer: &RegisterAnswer);

    /// A topic of which the broker wants to know now where its queues are.
    fn next_route(&self, _now: Monotonic) -> Option<String> {
        None
    }

    /// The name server says where a topic's queues are; `None`: it knows no such topic.
    fn note_route(&self, _topic: &str, _route: Option<TopicRouteData>, _now: Monotonic) {}
}

/// How often, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Between two registrations if nothing changes, ms.
    pub interval_ms: u64,
    /// For the answer to each, ms.
    pub timeout_ms: u64,
}

/// A connection to a name server.
pub struct RegistrationSession {
    registrant: Arc<dyn Registrant>,
    identity: Arc<Identity>,
    times: Times,
    waker: Waker,
    state: State,
    opaque: i32,
    output: Output,
    job: Option<Job>,
    /// The request that a job has made.
    made: Arc<Mutex<Option<Result<Bytes, String>>>>,
    over: Option<CloseReason>,
}

enum State {
    /// A request is made that tells of changes up to this one.
    Making { change: u64, until: Monotonic },
    /// It was sent.
    Asked { change: u64, until: Monotonic },
    /// The name server knows the changes up to this one.
    Registered { change: u64, until: Monotonic },
    /// The same, and it was asked for the route of this topic; `again` is when it hears of the broker again.
    Routing { topic: String, change: u64, again: Monotonic, until: Monotonic },
    /// There are more, which are told soon.
    Gathering { until: Monotonic },
    /// The broker has taken its leave.
    Leaving { until: Monotonic },
}

impl RegistrationSession {
    /// A session for a connection that was just opened. `waker` is called when a request was made; whoever knows of changes of topics,
    /// or that the broker leaves, calls it too.
    pub fn new(registrant: Arc<dyn Registrant>, identity: Arc<Identity>, times: Times, waker: Waker) -> Self {
        Self {
            registrant,
            identity,
            times,
            waker,
            state: State::Gathering { until: Monotonic::default() },
            opaque: 0,
            output: Output::default(),
            job: None,
            made: Arc::default(),
            over: None,
        }
    }

    /// Has a request made.
    fn make(&mut self, now: Monotonic) {
        // Read before the topics are, so that none is missed in between.
        let change = self.registrant.last_change();
        self.opaque += 1;
        self.state = State::Making { change, until: now.plus_ms(MAKE_LIMIT_MS) };
        let (registrant, identity) = (self.registrant.clone(), self.identity.clone());
        let (made, waker, opaque) = (self.made.clone(), self.waker.clone(), self.opaque);
        self.job = Some(Box::new(move || {
            let request = register_request(&identity, &registrant.topics(), Form::Json, opaque);
            *made.lock() = Some(request.map_err(|refusal| refusal.to_string()));
            waker.wake();
        }));
    }

    fn take_made(&self) -> Option<Result<Bytes, String>> {
        self.made.lock().take()
    }

    fn ask_route(&mut self, topic: String, change: u64, again: Monotonic, now: Monotonic) {
        self.opaque += 1;
        self.output.push(route_request(&topic, Form::Json, self.opaque));
        self.state = State::Routing { topic, change, again, until: now.plus_ms(self.times.timeout_ms) };
    }

    fn leave(&mut self, now: Monotonic) {
        self.opaque += 1;
        self.output.push(unregister_request(&self.identity, Form::Json, self.opaque));
        self.state = State::Leaving { until: now.plus_ms(self.times.timeout_ms.min(FAREWELL_MS)) };
    }

    /// What is waited for is not waited for much longer once the broker leaves.
    fn hurry(&mut self, now: Monotonic) {
        if let State::Making { until, .. } | State::Asked { until, .. } | State::Routing { until, .. } = &mut self.state
            && self.registrant.is_leaving()
        {
            *until = (*until).min(now.plus_ms(FAREWELL_MS));
        }
    }

    fn end(&mut self, reason: impl Into<String>) {
        self.over.get_or_insert(CloseReason(reason.into()));
    }

    /// Takes in one frame of the name server.
    fn take(&mut self, frame: &[u8], now: Monotonic) -> Result<(), CloseReason> {
        let command = Command::decode(frame).map_err(|error| CloseReason(error.to_string()))?;
        // Requests of the name server's own are one-way notices.
        if !command.header.is_response() || command.header.opaque != self.opaque {
            return Ok(());
        }
        match &self.state {
            &State::Asked { change, .. } => {
                let answer = read_register_answer(&command).map_err(|refusal| CloseReason(refusal.to_string()))?;
                self.registrant.note_told(change, &answer);
                let lacks_master = self.identity.broker_id > 0 && answer.ha_address.is_none();
                let pause_ms = if lacks_master { MASTERLESS_MS } else { u64::MAX };
                self.state = State::Registered { change, until: now.plus_ms(self.times.interval_ms.min(pause_ms)) };
                self.go_on(now);
            }
            State::Routing { topic, change, again, .. } => {
                // One that is not ready yet says so, and is asked again later.
                if let Ok(route) = read_route_answer(&command) {
                    self.registrant.note_route(topic, route, now);
                }
                self.state = State::Registered { change: *change, until: *again };
                self.go_on(now);
            }
            State::Leaving { .. } => self.end("the broker has taken its leave"),
            _ => {}
        }
        Ok(())
    }

    /// What comes next, as far as time and the registrant say so.
    fn go_on(&mut self, now: Monotonic) {
        self.hurry(now);
        match self.state {
            State::Making { change, until } => match self.take_made() {
                Some(Ok(request)) => {
                    self.output.push(request);
                    self.state = State::Asked { change, until: now.plus_ms(self.times.timeout_ms) };
                }
                Some(Err(problem)) => self.over = Some(CloseReason(problem)),
                None if now >= until => self.end("its request takes too long to make"),
                None => {}
            },
            State::Asked { until, .. } | State::Routing { until, .. } if now >= until => self.end("no answer"),
            State::Registered { .. } | State::Gathering { .. } if self.registrant.is_leaving() => self.leave(now),
            State::Registered { change, .. } if self.registrant.last_change() > change => {
                self.state = State::Gathering { until: now.plus_ms(GATHER_MS) };
            }
            State::Registered { until, .. } | State::Gathering { until } if now >= until => self.make(now),
            State::Registered { change, until } => {
                if let Some(topic) = self.registrant.next_route(now) {
                    self.ask_route(topic, change, until, now);
                }
            }
            State::Leaving { until } if now >= until => self.end("no answer to the farewell"),
            _ => {}
        }
    }
}

impl Session for RegistrationSession {
    fn receive(&mut self, input: &mut BytesMut, now: Now) -> Result<(), CloseReason> {
        while let Some(length) = frame::frame_len(input).map_err(|error| CloseReason(error.to_string()))? {
            let frame = input.split_to(length);
            self.take(&frame, now.monotonic)?;
        }
        Ok(())
    }

    fn wake(&mut self, now: Now) {
        self.go_on(now.monotonic);
    }

    fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    fn deadline(&self) -> Option<Monotonic> {
        match self.state {
            State::Making { until, .. }
            | State::Asked { until, .. }
            | State::Routing { until, .. }
            | State::Registered { until, .. }
            | State::Gathering { until }
            | State::Leaving { until } => Some(until),
        }
    }

    fn wants_input(&self) -> bool {
        true
    }

    fn held_size(&self) -> usize {
        self.output.size()
    }

    fn frame_size(&self, input: &[u8]) -> usize {
        frame::announced_len(input)
    }

    fn share(&mut self, _budget: Arc<Budget>) {}

    fn idle_timeout_ms(&self) -> Option<u64> {
        Some(self.times.timeout_ms)
    }

    fn is_busy(&self) -> bool {
        !matches!(self.state, State::Registered { .. } | State::Gathering { .. })
    }

    fn close_reason(&self) -> Option<CloseReason> {
        self.over.clone()
    }

    fn take_job(&mut self) -> Option<Job> {
        self.job.take()
    }

    fn closed(&mut self, _now: Now) {}
}
