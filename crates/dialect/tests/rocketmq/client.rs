//! A client in memory: writes requests, drives the session as the server does, reads what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use base::Now;
use base::session::{CloseReason, Session};
use broker::{Broker, Mailbox};
use bytes::BytesMut;
use dialect::rocketmq::{RocketSession, SessionOptions};
use format::batch_body::BatchItem;
use format::record::Record;
use wire::rocketmq::body::client::{ConsumerData, Heartbeat, LockBatch, MessageQueue, SubscriptionData};
use wire::rocketmq::code::request;
use wire::rocketmq::frame::{self, Command, FLAG_ONE_WAY, Form, Header, Language, frame_len};
use wire::rocketmq::header::pull_flag;

use crate::bench::START;

/// What came, copied out of its frame: an answer, or a request of the broker's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub code: i32,
    pub opaque: i32,
    pub form: Form,
    pub is_response: bool,
    pub is_one_way: bool,
    pub remark: String,
    pub fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Reply {
    /// A field that is a number.
    pub fn number(&self, name: &str) -> i64 {
        let value = self.fields.get(name).unwrap_or_else(|| panic!("{name} is not in {self:?}"));
        value.parse().expect("a number")
    }

    /// The bodies of the records it carries.
    pub fn bodies(&self) -> Vec<String> {
        let mut rest = &self.body[..];
        let mut bodies = Vec::new();
        while !rest.is_empty() {
            let record = Record::decode(rest).expect("a record");
            bodies.push(String::from_utf8_lossy(record.body).into_owned());
            rest = &rest[record.size..];
        }
        bodies
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

/// One request.
#[derive(Clone)]
pub struct Ask {
    pub code: i32,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub form: Form,
    pub flag: i32,
    pub remark: Option<String>,
}

pub fn ask(code: i32, fields: &[(&str, &str)]) -> Ask {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Ask { code, fields, body: Vec::new(), form: Form::Json, flag: 0, remark: None }
}

impl Ask {
    pub fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    pub fn one_way(self) -> Self {
        Self { flag: FLAG_ONE_WAY, ..self }
    }

    pub fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self
    }

    pub fn with(self, name: &str, value: impl ToString) -> Self {
        let mut changed = self.without(name);
        changed.fields.push((name.to_owned(), value.to_string()));
        changed
    }

    pub fn frame(&self, opaque: i32) -> BytesMut {
        let header = Header {
            code: self.code,
            language: Language::JAVA,
            version: 493,
            opaque,
            flag: self.flag,
            remark: self.remark.as_deref().map(Into::into),
        };
        let mut out = BytesMut::new();
        let fields = |sink: &mut wire::rocketmq::field::FieldSink<'_>| {
            self.fields.iter().for_each(|(name, value)| sink.text(name, value));
        };
        frame::encode(&mut out, self.form, &header, fields, &self.body);
        out
    }
}

/// A send to queue 0.
pub fn send(topic: &str, body: &str) -> Ask {
    let fields = [
        ("a", "producers"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1"),
        ("h", "0"),
        ("i", ""),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    ask(request::SEND_MESSAGE_V2, &fields).body(body)
}

/// The same as old clients say it.
pub fn send_v1(topic: &str, body: &str) -> Ask {
    let fields = [
        ("producerGroup", "producers"),
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "0"),
        ("sysFlag", "0"),
        ("bornTimestamp", "1"),
        ("flag", "0"),
        ("properties", ""),
    ];
    ask(request::SEND_MESSAGE, &fields).body(body)
}

/// A batch of messages, each with its properties.
pub fn send_batch(topic: &str, items: &[(&str, &str)]) -> Ask {
    let mut body = BytesMut::new();
    for (text, properties) in items {
        BatchItem { flag: 0, body: text.as_bytes(), properties: properties.as_bytes() }.encode(&mut body);
    }
    Ask { code: request::SEND_BATCH_MESSAGE, ..send(topic, "").with("m", true).body(body.to_vec()) }
}

/// A pull from queue 0 of everything, which does not wait.
pub fn pull(group: &str, topic: &str, offset: i64) -> Ask {
    let fields = [
        ("consumerGroup", group),
        ("topic", topic),
        ("queueId", "0"),
        ("queueOffset", &offset.to_string()),
        ("maxMsgNums", "32"),
        ("sysFlag", &pull_flag::SUBSCRIPTION.to_string()),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
        ("expressionType", "TAG"),
    ];
    ask(request::PULL_MESSAGE, &fields)
}

/// Asks as `billing` for what is ready in any queue of `orders`, without waiting.
pub fn pop() -> Ask {
    ask(
        request::POP_MESSAGE,
        &[
            ("consumerGroup", "billing"),
            ("topic", "orders"),
            ("queueId", "-1"),
            ("maxMsgNums", "32"),
            ("invisibleTime", "10000"),
            ("pollTime", "0"),
            ("bornTime", "0"),
            ("initMode", "0"),
        ],
    )
}

/// The same, which waits for up to 15 s.
pub fn held_pull(group: &str, topic: &str, offset: i64) -> Ask {
    pull(group, topic, offset)
        .with("sysFlag", pull_flag::SUBSCRIPTION | pull_flag::SUSPEND)
        .with("suspendTimeoutMillis", 15_000)
}

/// A heartbeat of one consumer that wants `expression` of `topic`.
pub fn heartbeat(client_id: &str, group: &str, topic: &str, expression: &str, version: i64) -> Ask {
    let wanted = SubscriptionData {
        topic: topic.to_owned(),
        sub_string: expression.to_owned(),
        sub_version: version,
        ..SubscriptionData::default()
    };
    let consumer = ConsumerData {
        group_name: group.to_owned(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        consume_from_where: "CONSUME_FROM_LAST_OFFSET".to_owned(),
        subscription_data_set: vec![wanted],
        unit_mode: false,
    };
    heartbeat_of(client_id, consumer)
}

pub fn heartbeat_of(client_id: &str, consumer: ConsumerData) -> Ask {
    let heartbeat = Heartbeat { client_id: client_id.to_owned(), consumers: vec![consumer], ..Heartbeat::default() };
    ask(request::HEART_BEAT, &[]).body(serde_json::to_vec(&heartbeat).expect("JSON"))
}

/// A request to lock (41) or unlock (42) queues of `orders`.
pub fn locking(code: i32, client_id: &str, queues: &[i32]) -> Ask {
    let queue =
        |&queue_id: &i32| MessageQueue { broker_name: "broker-a".to_owned(), queue_id, topic: "orders".to_owned() };
    let batch = LockBatch {
        consumer_group: "billing".to_owned(),
        client_id: client_id.to_owned(),
        mq_set: queues.iter().map(queue).collect(),
    };
    ask(code, &[]).body(serde_json::to_vec(&batch).expect("JSON"))
}

/// Notes that the session wants to be woken.
#[derive(Default)]
struct WokenFlag(AtomicBool);

impl Wake for WokenFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One connection.
pub struct Client {
    pub session: RocketSession,
    pub now: Now,
    woken: Arc<WokenFlag>,
    opaque: i32,
}

impl Client {
    pub fn new(broker: &Arc<Broker>, options: &Arc<SessionOptions>) -> Self {
        let woken = Arc::new(WokenFlag::default());
        let mailbox = Mailbox::new(Waker::from(woken.clone()));
        let remote = "10.0.0.1:5000".parse().expect("address");
        let session = RocketSession::new(broker.clone(), mailbox, options.clone(), remote);
        Self { session, now: START, woken, opaque: 100 }
    }

    /// The number of the last request.
    pub fn last_opaque(&self) -> i32 {
        self.opaque
    }

    /// Gives the session bytes until it has taken all that it wants; what is no whole frame stays in `input`.
    pub fn receive(&mut self, input: &mut BytesMut) -> Result<(), CloseReason> {
        self.session.receive(input, self.now)?;
        while self.session.has_paused() {
            self.session.receive(input, self.now)?;
        }
        Ok(())
    }

    /// Sends requests in one go and takes whatever comes back.
    pub fn give(&mut self, asks: &[Ask]) -> Vec<Reply> {
        let mut input = BytesMut::new();
        for ask in asks {
            self.opaque += 1;
            input.extend_from_slice(&ask.frame(self.opaque));
        }
        self.receive(&mut input).expect("frames");
        assert!(input.is_empty());
        self.hear()
    }

    /// Sends a request and takes its answer.
    pub fn ask(&mut self, ask: Ask) -> Reply {
        let form = ask.form;
        let mut replies = self.give(&[ask]);
        assert_eq!(replies.len(), 1, "{replies:?}");
        let reply = replies.remove(0);
        assert_eq!((reply.opaque, reply.form, reply.is_response), (self.opaque, form, true));
        reply
    }

    /// Sends a request that succeeds.
    pub fn ask_well(&mut self, ask: Ask) -> Reply {
        let reply = self.ask(ask);
        assert_eq!(reply.code, 0, "{}", reply.remark);
        reply
    }

    /// Does what the session wants done, wakes it if it was asked to, and takes what it has to say.
    pub fn hear(&mut self) -> Vec<Reply> {
        loop {
            while let Some(job) = self.session.take_job() {
                job();
            }
            if self.woken.0.swap(false, Ordering::Relaxed) {
                self.session.wake(self.now);
                continue;
            }
            let mut replies = self.replies();
            // Room may be all that was missing.
            if !replies.is_empty() && self.session.deadline().is_some_and(|deadline| deadline <= self.now.monotonic) {
                self.session.wake(self.now);
                replies.extend(self.hear());
            }
            return replies;
        }
    }

    /// Whether the session was woken since this was last asked.
    pub fn take_wake(&mut self) -> bool {
        self.woken.0.swap(false, Ordering::Relaxed)
    }

    /// Lets time pass; wakes the session if its deadline has come.
    pub fn wait(&mut self, milliseconds: u64) -> Vec<Reply> {
        self.now = self.now.plus_ms(milliseconds);
        if self.session.deadline().is_some_and(|deadline| deadline <= self.now.monotonic) {
            self.session.wake(self.now);
        }
        self.hear()
    }

    pub fn close(mut self) {
        self.session.closed(self.now);
    }

    pub fn replies(&mut self) -> Vec<Reply> {
        let bytes = self.session.output().take_all();
        let mut rest = &bytes[..];
        let mut replies = Vec::new();
        while let Some(len) = frame_len(rest).expect("a frame") {
            let command = Command::decode(&rest[..len]).expect("a frame");
            replies.push(Reply {
                code: command.header.code,
                opaque: command.header.opaque,
                form: command.form,
                is_response: command.header.is_response(),
                is_one_way: command.header.is_one_way(),
                remark: command.header.remark.as_deref().unwrap_or_default().to_owned(),
                fields: command.fields.pairs().expect("fields").into_iter().collect(),
                body: command.body.to_vec(),
            });
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
        replies
    }
}
