//! One promise's own topic and group at the shared broker, and its consumers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::connection::Connection;
use conformance::pop::{Hand, Kind, Pending, Pop, Popped, Server};
use serde_json::Value;
use wire::rocketmq::code::response;

/// Retries of a group, where a promise is not about them.
const RETRIES: u32 = 16;

/// A message may come again this much early by our clock, which looks before the broker does.
pub(crate) const EARLY: Duration = Duration::from_millis(100);

pub(crate) struct Case {
    pub(crate) server: Arc<Server>,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) scratch: tempfile::TempDir,
    connection: Connection,
    hand: Hand,
    sent: usize,
    ends: HashMap<i32, u64>,
}

impl Case {
    /// `name` is nobody else's.
    pub(crate) fn new(kind: Kind, name: &str, queues: u32) -> Self {
        let server = Server::shared(kind);
        let scratch = tempfile::tempdir().expect("directory");
        let (topic, group) = (name.to_owned(), format!("{name}-group"));
        let mut connection = server.connect();
        connection.make_topic(&topic, queues);
        server.make_group(&group, RETRIES);
        let hand = server.hand();
        Self { server, topic, group, scratch, connection, hand, sent: 0, ends: HashMap::new() }
    }

    /// Another client of the group, in a process of its own.
    pub(crate) fn other_hand(&self) -> Hand {
        Hand::start(&self.server, self.scratch.path())
    }

    /// Sends `count` messages to a queue: `m0`, `m1` and so on, counted over all queues.
    pub(crate) fn send(&mut self, queue: i32, count: usize) -> Vec<String> {
        self.send_tagged(queue, count, "blue")
    }

    pub(crate) fn send_tagged(&mut self, queue: i32, count: usize, tag: &str) -> Vec<String> {
        let bodies = (self.sent..self.sent + count).map(|number| format!("m{number}")).collect::<Vec<_>>();
        self.sent += count;
        let properties = format!("TAGS\u{1}{tag}\u{2}KEYS\u{1}key\u{2}");
        for body in &bodies {
            let sent = self.connection.send_message(&self.topic, queue, &properties, body.as_bytes());
            assert_eq!(sent.code, response::SUCCESS, "{sent:?}");
        }
        if self.server.kind == Kind::Java {
            self.wait_until_visible(queue, count);
        }
        bodies
    }

    /// The original answers a send before others can see what was sent.
    fn wait_until_visible(&mut self, queue: i32, count: usize) {
        let end = self.ends.entry(queue).or_default();
        *end += count as u64;
        let began = Instant::now();
        while self.connection.queue_end(&self.topic, queue as u32) < *end {
            assert!(began.elapsed() < Duration::from_secs(10), "{} {queue} does not reach {end}", self.topic);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn fields<'a>(&'a self, fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let own = [("topic", &*self.topic), ("group", &*self.group)];
        let own = own.iter().filter(|(name, _)| fields.iter().all(|(given, _)| given != name));
        own.chain(fields).copied().collect()
    }

    pub(crate) fn begin(&mut self, call: &str, fields: &[(&str, &str)]) -> Pending {
        let all = self.fields(fields).iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.begin_owned(call, all)
    }

    fn begin_owned(&mut self, call: &str, fields: Vec<(String, String)>) -> Pending {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.hand.begin(call, &fields)
    }

    /// Makes a call for the case's topic and group, unless the fields say another.
    pub(crate) fn call(&mut self, call: &str, fields: &[(&str, &str)]) -> Value {
        let pending = self.begin(call, fields);
        self.hand.end(pending)
    }

    pub(crate) fn end(&mut self, pending: Pending) -> Value {
        self.hand.end(pending)
    }

    pub(crate) fn end_pop(&mut self, pending: Pending) -> Pop {
        self.hand.end_pop(pending)
    }

    /// Pops once, from all queues, without much waiting and with an invisible time of a minute, unless the fields say otherwise.
    pub(crate) fn pop(&mut self, fields: &[(&str, &str)]) -> Pop {
        let mut fields = fields.to_vec();
        if !fields.iter().any(|(name, _)| *name == "poll") {
            fields.push(("poll", "200"));
        }
        let pending = self.begin("pop", &fields);
        self.hand.end_pop(pending)
    }

    /// Pops by another client.
    pub(crate) fn pop_by(&self, hand: &mut Hand, fields: &[(&str, &str)]) -> Pop {
        let pending = hand.begin("pop", &self.fields(fields));
        hand.end_pop(pending)
    }

    /// Pops until there have been `count` messages.
    pub(crate) fn pop_all(&mut self, count: usize, fields: &[(&str, &str)]) -> Vec<Popped> {
        let began = Instant::now();
        let fields = [&[("poll", "1000")], fields].concat();
        let mut messages = Vec::new();
        while messages.len() < count {
            messages.extend(self.pop(&fields).messages);
            assert!(began.elapsed() < Duration::from_secs(60), "only {} of {count}: {messages:?}", messages.len());
        }
        messages
    }

    /// Whatever is given within `span`.
    pub(crate) fn pop_for(&mut self, span: Duration, fields: &[(&str, &str)]) -> Vec<Popped> {
        let began = Instant::now();
        let fields = [&[("poll", "500")], fields].concat();
        let mut messages = Vec::new();
        while began.elapsed() < span {
            messages.extend(self.pop(&fields).messages);
        }
        messages
    }

    pub(crate) fn ack(&mut self, message: &Popped) {
        let acked = self.call("ack", &[("handle", &message.handle)]);
        assert_eq!(acked["status"], "OK", "{message:?}");
    }

    /// Changes how long a message stays invisible from now on; its new handle.
    pub(crate) fn change(&mut self, message: &Popped, invisible: Duration) -> Popped {
        let millis = invisible.as_millis().to_string();
        let changed = self.call("change", &[("handle", &message.handle), ("invisible", &millis)]);
        assert_eq!(changed["status"], "OK", "{message:?}");
        Popped { handle: changed["handle"].as_str().expect("a handle").to_owned(), ..message.clone() }
    }
}

/// Bodies, in their order.
pub(crate) fn bodies(messages: &[Popped]) -> Vec<&str> {
    messages.iter().map(|message| &*message.body).collect()
}

/// Bodies, in the order of numbers.
pub(crate) fn sorted(messages: &[Popped]) -> Vec<&str> {
    let mut bodies = bodies(messages);
    bodies.sort_by_key(|body| (body.len(), *body));
    bodies
}
