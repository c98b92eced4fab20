//! A broker that stays registered: its session against a name server's, in memory.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use base::session::{CloseReason, Session};
use base::{Monotonic, Now};
use bytes::BytesMut;
use cluster::name_server::NameServer;
use cluster::name_server::options::Options;
use cluster::registration::{RegisterAnswer, Registrant, RegistrationSession, Times};
use format::document::TopicTableDocument;
use parking_lot::Mutex;
use wire::rocketmq::body::route::TopicRouteData;
use wire::rocketmq::code::response;

use crate::client::{Client, START, broker, name_server, topics};

const TIMES: Times = Times { interval_ms: 30_000, timeout_ms: 24_000 };
/// A broker that leaves waits no longer for a name server.
const FAREWELL_MS: u64 = 3000;

/// A broker, as far as its registration knows it.
#[derive(Default)]
struct Registering {
    topics: Mutex<TopicTableDocument>,
    change: AtomicU64,
    told: AtomicU64,
    is_leaving: AtomicBool,
    /// Topics whose routes it wants to know, the last first,
    wanted: Mutex<Vec<String>>,
    /// and what it was told.
    routes: Mutex<Vec<(String, Option<Queues>)>>,
}

/// Brokers and how many queues each has.
type Queues = Vec<(String, u32)>;

impl Registrant for Registering {
    fn last_change(&self) -> u64 {
        self.change.load(Ordering::Relaxed)
    }

    fn topics(&self) -> TopicTableDocument {
        self.topics.lock().clone()
    }

    fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    fn note_told(&self, change: u64, _answer: &RegisterAnswer) {
        self.told.store(change, Ordering::Relaxed);
    }

    fn next_route(&self, _now: Monotonic) -> Option<String> {
        self.wanted.lock().pop()
    }

    fn note_route(&self, topic: &str, route: Option<TopicRouteData>, _now: Monotonic) {
        let queues = route.map(|route| {
            route.queue_datas.into_iter().map(|data| (data.broker_name, data.read_queue_nums)).collect::<Vec<_>>()
        });
        self.routes.lock().push((topic.to_owned(), queues));
    }
}

/// Both ends of a connection.
struct Connection {
    registrant: Arc<Registering>,
    session: RegistrationSession,
    server: Client,
    now: Now,
}

impl Connection {
    fn open(server: &Arc<NameServer>, names: &[&str]) -> Self {
        let registrant = Arc::new(Registering::default());
        *registrant.topics.lock() = topics(1, names);
        let identity = Arc::new(broker("broker-a", 0, 10911));
        let session = RegistrationSession::new(registrant.clone(), identity, TIMES, Waker::noop().clone());
        Self { registrant, session, server: Client::new(server), now: START }
    }

    /// Does what the broker's end has to do now. Gives what it wants sent.
    fn sent(&mut self) -> Vec<u8> {
        while self.session.deadline().is_some_and(|due| due <= self.now.monotonic)
            && self.session.close_reason().is_none()
        {
            self.session.wake(self.now);
            while let Some(job) = self.session.take_job() {
                job();
                self.session.wake(self.now);
            }
        }
        self.session.output().take_all()
    }

    /// The other end answers what is sent. Gives how many requests there were.
    fn exchange(&mut self) -> usize {
        let sent = self.sent();
        let mut input = BytesMut::from(&sent[..]);
        let mut count = 0;
        while let Some(length) = wire::rocketmq::frame::frame_len(&input).expect("frames") {
            count += 1;
            let answers = self.server.exchange(&mut input.split_to(length));
            self.session.receive(&mut BytesMut::from(&answers[..]), self.now).expect("answers");
        }
        count
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.server.now = self.now;
    }

    fn change(&mut self, version: i64, names: &[&str]) {
        *self.registrant.topics.lock() = topics(version, names);
        self.registrant.change.fetch_add(1, Ordering::Relaxed);
        self.session.wake(self.now);
    }

    fn finds(server: &Arc<NameServer>, topic: &str) -> bool {
        Client::new(server).route(topic).code == response::SUCCESS
    }
}

#[test]
fn a_broker_registers_at_once_and_again_every_interval() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    assert_eq!(connection.exchange(), 1);
    assert!(Connection::finds(&server, "orders"));
    connection.pass(TIMES.interval_ms - 1);
    assert_eq!(connection.exchange(), 0, "nothing changed");
    connection.pass(1);
    assert_eq!(connection.exchange(), 1);
}

#[test]
fn changes_of_topics_are_told_together_and_soon() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    connection.exchange();
    connection.change(2, &["orders", "bills"]);
    connection.change(3, &["orders", "bills", "audits"]);
    assert_eq!(connection.exchange(), 0, "others may follow");
    connection.pass(5);
    assert_eq!(connection.exchange(), 1);
    assert!(Connection::finds(&server, "bills") && Connection::finds(&server, "audits"));
    assert_eq!(connection.registrant.told.load(Ordering::Relaxed), 2);
}

#[test]
fn a_change_that_comes_while_the_answer_is_waited_for_is_told_after_it() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    let first = connection.sent();
    connection.change(2, &["orders", "bills"]);
    assert!(connection.sent().is_empty(), "one request at a time");
    let answer = connection.server.exchange(&mut BytesMut::from(&first[..]));
    connection.session.receive(&mut BytesMut::from(&answer[..]), connection.now).expect("answer");
    assert_eq!(connection.registrant.told.load(Ordering::Relaxed), 0, "the change was not in it");
    connection.pass(5);
    assert_eq!(connection.exchange(), 1);
    assert!(Connection::finds(&server, "bills"));
    assert_eq!(connection.registrant.told.load(Ordering::Relaxed), 1);
}

#[test]
fn routes_that_the_broker_wants_are_asked_for_in_between() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    *connection.registrant.wanted.lock() = vec!["nowhere".to_owned(), "orders".to_owned()];
    assert_eq!(connection.exchange(), 1, "first it registers");
    connection.session.wake(connection.now);
    while connection.exchange() > 0 {}
    let at_broker = vec![("broker-a".to_owned(), 8)];
    let told = [("orders".to_owned(), Some(at_broker)), ("nowhere".to_owned(), None)];
    assert_eq!(*connection.registrant.routes.lock(), told);
    // It is registered anew when it would have been.
    connection.pass(TIMES.interval_ms - 1);
    assert_eq!(connection.exchange(), 0);
    connection.pass(1);
    assert_eq!(connection.exchange(), 1);
}

#[test]
fn a_name_server_that_does_not_answer_for_a_route_is_left_and_a_broker_that_stops_does_not_wait_for_it() {
    let server = name_server(Options::default());
    for is_leaving in [false, true] {
        let mut connection = Connection::open(&server, &["orders", "returns"]);
        connection.exchange();
        *connection.registrant.wanted.lock() = vec!["orders".to_owned()];
        connection.session.wake(connection.now);
        assert!(!connection.sent().is_empty() && connection.session.is_busy());
        connection.registrant.is_leaving.store(is_leaving, Ordering::Relaxed);
        connection.session.wake(connection.now);
        let waits_ms = if is_leaving { FAREWELL_MS } else { TIMES.timeout_ms };
        connection.pass(waits_ms - 1);
        connection.session.wake(connection.now);
        assert_eq!(connection.session.close_reason(), None);
        connection.pass(1);
        connection.session.wake(connection.now);
        assert_eq!(connection.session.close_reason(), Some(CloseReason("no answer".to_owned())));
    }
}

#[test]
fn a_name_server_that_does_not_answer_is_left() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    assert!(!connection.sent().is_empty());
    connection.pass(TIMES.timeout_ms - 1);
    assert!(connection.sent().is_empty() && connection.session.close_reason().is_none());
    connection.pass(1);
    connection.sent();
    assert_eq!(connection.session.close_reason(), Some(CloseReason("no answer".to_owned())));
}

#[test]
fn a_broker_that_stops_takes_its_leave_and_waits_for_the_answer() {
    let server = name_server(Options::default());
    for is_answered in [true, false] {
        let mut connection = Connection::open(&server, &["orders", "returns"]);
        connection.exchange();
        connection.registrant.is_leaving.store(true, Ordering::Relaxed);
        connection.session.wake(connection.now);
        assert!(connection.session.is_busy() && connection.session.close_reason().is_none());
        if is_answered {
            assert_eq!(connection.exchange(), 1);
            assert!(!Connection::finds(&server, "orders"));
        } else {
            connection.sent();
            connection.pass(FAREWELL_MS);
            connection.sent();
        }
        assert!(connection.session.close_reason().is_some());
    }
}

#[test]
fn a_broker_that_stops_does_not_wait_long_for_a_name_server_that_hangs() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    assert!(!connection.sent().is_empty());
    connection.pass(1000);
    connection.registrant.is_leaving.store(true, Ordering::Relaxed);
    // However often it is woken.
    for _ in 0..3 {
        assert!(connection.session.close_reason().is_none());
        connection.session.wake(connection.now);
        connection.pass(FAREWELL_MS / 3);
    }
    connection.session.wake(connection.now);
    assert_eq!(connection.session.close_reason(), Some(CloseReason("no answer".to_owned())));
}

#[test]
fn bytes_that_are_no_answer_end_the_connection_and_notices_of_others_do_not() {
    let server = name_server(Options::default());
    let mut connection = Connection::open(&server, &["orders", "returns"]);
    let own_request = connection.sent();
    let now = connection.now;
    connection.session.receive(&mut BytesMut::from(&own_request[..]), now).expect("a request of the name server's own");
    assert_eq!(
        connection.session.deadline(),
        Some(Monotonic(now.monotonic.0 + TIMES.timeout_ms)),
        "it is still waited for"
    );
    assert!(connection.session.receive(&mut BytesMut::from(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]), now).is_err());
}
