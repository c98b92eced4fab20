//! A pop consumer's calls by the official client, one at a time or side by side.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use wire::rocketmq::code::response;

use super::{Pop, Server};
use crate::java::{BROKER_VERSION, start_program_told};
use crate::process::Process;

/// No call takes as long.
const LIMIT: Duration = Duration::from_secs(60);

/// A call whose answer is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Pending(u64);

impl Pending {
    /// Its number: no two calls of a client have the same.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A process with the official client, and who waits for which of its answers.
#[derive(Debug)]
pub(super) struct Client {
    program: Mutex<Process>,
    calls: AtomicU64,
    waiting: Arc<Mutex<HashMap<u64, Sender<Value>>>>,
}

/// A test that fails while it has the lock has nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Starts it and waits until it works.
    pub(super) fn start(broker: &str, scratch: &Path) -> Arc<Self> {
        // It asks no name server.
        let mut program = start_program_told(BROKER_VERSION, "PopCalls", broker, scratch, &[("broker", broker)]);
        let lines = program.take_lines();
        let waiting: Arc<Mutex<HashMap<u64, Sender<Value>>>> = Arc::default();
        let who_waits = waiting.clone();
        std::thread::spawn(move || {
            for line in lines.iter().filter(|line| line.starts_with('{')) {
                let answer: Value = serde_json::from_str(&line).expect("a line of JSON");
                let number = answer["number"].as_u64().expect("a number");
                // Whoever made the call may have gone.
                let _ = lock(&who_waits).remove(&number).map(|waiting| waiting.send(answer));
            }
        });
        let client = Arc::new(Self { program: Mutex::new(program), calls: AtomicU64::new(0), waiting });
        let mut hand = Hand::of(client.clone());
        // The first call of a client takes its time, longer than the original lets a pop be late.
        while hand.call("pop", &[("topic", "not-there"), ("group", "nobody")])["code"] != response::TOPIC_NOT_EXIST {}
        client
    }
}

/// Makes the calls.
#[derive(Debug)]
pub struct Hand {
    client: Arc<Client>,
    answers: (Sender<Value>, Receiver<Value>),
    /// Those that came while another was waited for.
    early: HashMap<u64, Value>,
}

impl Hand {
    /// Starts a client of its own for the broker.
    pub fn start(server: &Server, scratch: &Path) -> Self {
        Self::start_at(&server.broker, scratch)
    }

    /// The same at the broker of an address.
    pub fn start_at(broker: &str, scratch: &Path) -> Self {
        Self::of(Client::start(broker, scratch))
    }

    pub(super) fn of(client: Arc<Client>) -> Self {
        Self { client, answers: channel(), early: HashMap::new() }
    }

    /// Makes a call without waiting for its answer.
    pub fn begin(&mut self, call: &str, fields: &[(&str, &str)]) -> Pending {
        let number = self.client.calls.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.client.waiting).insert(number, self.answers.0.clone());
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\t{name}={value}")).collect();
        lock(&self.client.program).tell(&format!("{number}\t{call}{}", fields.concat()));
        Pending(number)
    }

    /// Waits for the answer.
    pub fn end(&mut self, pending: Pending) -> Value {
        let answer = self.end_anyhow(pending);
        assert!(answer["failure"].is_null(), "{answer}");
        answer
    }

    /// Waits for the answer; `None` if there will be none, as the broker is gone.
    pub fn try_end(&mut self, pending: Pending) -> Option<Value> {
        Some(self.end_anyhow(pending)).filter(|answer| answer["failure"].is_null())
    }

    fn end_anyhow(&mut self, Pending(number): Pending) -> Value {
        loop {
            if let Some(answer) = self.early.remove(&number) {
                return answer;
            }
            let (Pending(number), answer) = self.read();
            self.early.insert(number, answer);
        }
    }

    /// Waits for the next answer that comes, whichever; `None` if there will be none to that call.
    pub fn end_any(&mut self) -> (Pending, Option<Value>) {
        let (pending, answer) = self.read();
        (pending, Some(answer).filter(|answer| answer["failure"].is_null()))
    }

    fn read(&self) -> (Pending, Value) {
        let answer = self.answers.1.recv_timeout(LIMIT).expect("an answer");
        (Pending(answer["number"].as_u64().expect("a number")), answer)
    }

    /// Kills the client as a crash would.
    pub fn kill(&mut self) {
        lock(&self.client.program).kill();
    }

    /// Makes a call.
    pub fn call(&mut self, call: &str, fields: &[(&str, &str)]) -> Value {
        let pending = self.begin(call, fields);
        self.end(pending)
    }

    /// Waits for what a pop gives.
    pub fn end_pop(&mut self, pending: Pending) -> Pop {
        Pop::read(&self.end(pending))
    }
}
