//! A client of the name server in memory: writes requests, drives the session, reads answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use base::session::Session;
use base::{Monotonic, Now, Timestamp};
use bytes::BytesMut;
use cluster::name_server::key_values::KeyValues;
use cluster::name_server::options::Options;
use cluster::name_server::session::NameServerSession;
use cluster::name_server::{KeyValueFile, NameServer};
use cluster::registration::{Identity, register_request};
use format::document::{DataVersion, TopicDocument, TopicTableDocument};
use parking_lot::Mutex;
use wire::rocketmq::body::route::TopicRouteData;
use wire::rocketmq::body::topic_list::TopicList;
use wire::rocketmq::code::{request, response};
use wire::rocketmq::frame::{self, Command, FLAG_ONE_WAY, Form, Header, Language, frame_len};

pub const START: Now = Now { wall: Timestamp(1_700_000_000_000), monotonic: Monotonic(1_000_000) };

pub fn name_server(options: Options) -> Arc<NameServer> {
    NameServer::new(options, KeyValues::default(), Box::new(MemoryFile::default()), START)
}

/// The key-value file, in memory.
#[derive(Clone, Default)]
pub struct MemoryFile {
    pub text: Arc<Mutex<String>>,
    pub has_no_room: Arc<AtomicBool>,
}

impl KeyValueFile for MemoryFile {
    fn replace(&self, text: &str) -> Result<(), String> {
        if self.has_no_room.load(Ordering::Relaxed) {
            return Err("kvConfig.json: no space left on device".to_owned());
        }
        text.clone_into(&mut self.text.lock());
        Ok(())
    }
}

/// An answer, copied out of its frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub code: i32,
    pub opaque: i32,
    pub form: Form,
    pub version: i32,
    pub is_response: bool,
    pub remark: Option<String>,
    pub fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn remark(&self) -> &str {
        self.remark.as_deref().unwrap_or_default()
    }

    pub fn route(&self) -> TopicRouteData {
        assert_eq!(self.code, response::SUCCESS, "{:?}", self.remark);
        TopicRouteData::decode(&self.body).unwrap()
    }

    pub fn topics(&self) -> Vec<String> {
        assert_eq!(self.code, response::SUCCESS, "{:?}", self.remark);
        TopicList::decode(&self.body).unwrap().topic_list
    }
}

/// One request.
#[derive(Clone)]
pub struct Ask<'a> {
    pub code: i32,
    pub fields: Vec<(&'a str, &'a str)>,
    pub body: &'a [u8],
    pub form: Form,
    pub version: i32,
    pub flag: i32,
}

pub fn ask<'a>(code: i32, fields: &[(&'a str, &'a str)]) -> Ask<'a> {
    Ask { code, fields: fields.to_vec(), body: b"", form: Form::Json, version: 493, flag: 0 }
}

impl<'a> Ask<'a> {
    pub fn body(self, body: &'a [u8]) -> Self {
        Self { body, ..self }
    }

    pub fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    pub fn version(self, version: i32) -> Self {
        Self { version, ..self }
    }

    pub fn one_way(self) -> Self {
        Self { flag: FLAG_ONE_WAY, ..self }
    }

    pub fn frame(&self, opaque: i32) -> BytesMut {
        let header = Header {
            code: self.code,
            language: Language::JAVA,
            version: self.version,
            opaque,
            flag: self.flag,
            remark: None,
        };
        let mut out = BytesMut::new();
        frame::encode(
            &mut out,
            self.form,
            &header,
            |sink| {
                self.fields.iter().for_each(|(name, value)| sink.text(name, value));
            },
            self.body,
        );
        out
    }
}

pub struct Client {
    pub session: NameServerSession,
    pub now: Now,
    opaque: i32,
}

impl Client {
    pub fn new(server: &Arc<NameServer>) -> Self {
        Self { session: server.session(Waker::noop().clone()), now: START, opaque: 100 }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Vec<Reply> {
        let mut input = BytesMut::from(bytes);
        self.session.receive(&mut input, self.now).expect("frames");
        self.work();
        self.replies()
    }

    /// Does what the session wants done.
    pub fn work(&mut self) {
        while let Some(job) = self.session.take_job() {
            job();
            self.session.wake(self.now);
        }
    }

    /// Sends what is in `input` and takes the answer's bytes as they are.
    pub fn exchange(&mut self, input: &mut BytesMut) -> Vec<u8> {
        self.session.receive(input, self.now).unwrap();
        self.session.output().take_all()
    }

    pub fn replies(&mut self) -> Vec<Reply> {
        let bytes = self.session.output().take_all();
        let mut rest = &bytes[..];
        let mut replies = Vec::new();
        while let Some(len) = frame_len(rest).unwrap() {
            let command = Command::decode(&rest[..len]).unwrap();
            replies.push(Reply {
                code: command.header.code,
                opaque: command.header.opaque,
                form: command.form,
                version: command.header.version,
                is_response: command.header.is_response(),
                remark: command.header.remark.as_deref().map(str::to_owned),
                fields: command.fields.pairs().unwrap().into_iter().collect(),
                body: command.body.to_vec(),
            });
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
        replies
    }

    pub fn ask(&mut self, ask: &Ask<'_>) -> Reply {
        self.opaque += 1;
        let mut replies = self.send(&ask.frame(self.opaque));
        assert_eq!(replies.len(), 1, "code {}", ask.code);
        let reply = replies.remove(0);
        assert_eq!((reply.opaque, reply.form, reply.is_response), (self.opaque, ask.form, true));
        reply
    }

    pub fn route(&mut self, topic: &str) -> Reply {
        self.ask(&ask(request::GET_ROUTE_BY_TOPIC, &[("topic", topic)]))
    }

    pub fn register(&mut self, identity: &Identity, topics: &TopicTableDocument) -> Reply {
        self.opaque += 1;
        let mut replies = self.send(&register_request(identity, topics, Form::Json, self.opaque).unwrap());
        assert_eq!(replies.len(), 1);
        replies.remove(0)
    }
}

pub fn broker(name: &str, id: i64, port: u16) -> Identity {
    Identity {
        cluster_name: "cluster-1".to_owned(),
        broker_name: name.to_owned(),
        broker_id: id,
        address: format!("127.0.0.1:{port}"),
        ha_address: format!("127.0.0.1:{}", port + 1),
        heartbeat_timeout_ms: None,
        enable_acting_master: Some(false),
        zone: None,
    }
}

pub fn topic(name: &str) -> TopicDocument {
    TopicDocument { topic_name: name.to_owned(), read_queue_nums: 8, write_queue_nums: 4, ..TopicDocument::default() }
}

/// Topics as a broker has them, with a version that grows with `counter`.
pub fn topics(counter: i64, names: &[&str]) -> TopicTableDocument {
    TopicTableDocument {
        data_version: DataVersion { counter, state_version: 0, timestamp: 1_700_000_000_000 + counter },
        topic_config_table: names.iter().map(|&name| (name.to_owned(), topic(name))).collect(),
    }
}
